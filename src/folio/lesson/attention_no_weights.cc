#include <fmt/format.h>

#include "folio/lesson/attention_forms.h"
#include "folio/lesson/attention_steps.h"
#include "folio/lesson/step_ops.h"
#include "folio/lesson/stepwise_attention.h"

namespace folio {
namespace {

constexpr int64_t kJourney = FormWalk::kJourney;

const std::vector<std::string> kWays = {"as they are", "by their sum", "naive softmax", "softmax"};

std::vector<std::string> Elements() {
  return Numbered(kC, "x");
}

// The attention of "journey" weighted in four ways, with the sum of each row of weights; and the
// four contexts.
void CompareWeightings(FormWalk& form) {
  std::vector<std::vector<double>> weights, contexts;
  for (const Weighting way :
       {Weighting::kNone, Weighting::kSum, Weighting::kNaiveSoftmax, Weighting::kSoftmax}) {
    StepwiseAttention attention = SimpleAttention(form.backend(), 1, kT, kC, way);
    attention.Forward({}, form.x());
    const AttentionSteps& steps = attention.steps();
    const Tensor row = RowsOf(steps.weights, kJourney);
    weights.push_back(Doubles(row));
    weights.back().push_back(Total(row));
    contexts.push_back(RowOf(steps.context, kJourney));
  }
  std::vector<std::string> columns = FormWalk::Tokens();
  columns.emplace_back("sum");
  Step compared{
      .name = "weights of “journey”, made in four ways",
      .formula = "w = s,  s / Σ s,  exp(s) / Σ exp(s),  exp(s − max s) / Σ exp(s − max s)",
      .values = StackedValues(weights, {.rows = kWays, .columns = columns}),
      .why =
          "Scores as they are add up to anything; divided by their sum they add up to "
          "1, but a negative score would be a negative share; softmax makes every "
          "share positive and favours the large ones.",
      .figure = FigureKind::kNone};
  compared.values.heat = false;
  form.Add(std::move(compared));
  Step context{.name = "context of “journey” from each of them",
               .formula = "context = Σ w[s] x[s]",
               .values = StackedValues(contexts, {.rows = kWays, .columns = Elements()}),
               .why =
                   "Weights that do not add up to 1 blow the vector up (or shrink it); the "
                   "others keep it inside the inputs that it is a mean of.",
               .figure = FigureKind::kNone};
  context.values.heat = false;
  form.Add(std::move(context));
}

void ShowOverflow(FormWalk& form) {
  const StepTensor scores({1, 3}, {100, 1, 2});
  const StepTensor naive = NaiveSoftmax(scores.tensor());
  const StepTensor stable = Softmax(scores.tensor());
  const std::vector<std::vector<double>> rows = {Doubles(scores.tensor()), Doubles(naive.tensor()),
                                                 Doubles(stable.tensor())};
  Step step{.name = "why the naive softmax overflows",
            .formula = "exp(100) = 2.7e43 > 3.4e38 = the largest float32,  so inf / inf = nan",
            .values = StackedValues(rows, {.rows = {"scores", "naive softmax", "softmax"},
                                           .columns = Numbered(3, "s")}),
            .why =
                "Taking the largest score off first changes nothing in the result, since it "
                "cancels, and no exponential is larger than 1 then.",
            .figure = FigureKind::kNone};
  step.values.heat = false;
  step.values.masks = false;
  form.Add(std::move(step));
}

void ShowAllTokens(FormWalk& form, const AttentionSteps& steps) {
  form.Add({.name = "weights",
            .formula = "weights = softmax(scores), row by row",
            .values = MatrixValues(steps.weights, FormWalk::ByTokens()),
            .why = "Each row adds up to 1: it says which share of every token goes into the new "
                   "vector of the row's token."});
  form.Add({.name = "context of “journey”",
            .formula = "context[journey] = Σ weights[journey, s] x[s]",
            .values = RowValues(std::span<const double>(RowOf(steps.context, kJourney)),
                                {.columns = Elements()}),
            .why = "The new vector of “journey” is the mean of all inputs under its weights: the "
                   "word together with the company it keeps.",
            .figure = FigureKind::kNone});
  form.Add({.name = "context",
            .formula = "context = weights x",
            .values = MatrixValues(steps.context, FormWalk::ByToken(Elements())),
            .why = "One product of matrices gives the context of every token at once."});
}

// A query against keys and values: what a database returns, and what attention returns.
void ShowLookup(FormWalk& form) {
  const StepTensor query({1, 2}, {1, 0}), keys({3, 2}, {1, 0, 0, 1, 1, 1});
  const StepTensor values({3, 2}, {0.1F, 0.9F, 0.2F, 0.8F, 0.3F, 0.7F});
  StepwiseAttention soft = DotProductAttention(form.backend(), 1, 1, 2, 1, 1, 3, {.scale = 1.0});
  soft.Forward({}, query.tensor(), keys.tensor(), values.tensor());
  StepTensor exact({1, 1, 1, 3}), found({1, 2});
  for (int64_t s = 0; s < 3; ++s) {
    exact.data()[s] = RowOf(keys.tensor(), s) == RowOf(query.tensor(), 0) ? 1.0F : 0.0F;
  }
  AttentionContext(exact.tensor(), values.tensor(), found.tensor());
  const Tensor parts[] = {keys.tensor(), values.tensor(), exact.tensor().Reshape({3, 1}),
                          soft.steps().scores.Reshape({3, 1}),
                          soft.steps().weights.Reshape({3, 1})};
  Step step{.name = "the query (1, 0) meets a database",
            .formula = "exact: key = query?    soft: softmax(query · key)",
            .values = SideBySide(parts, {.rows = Numbered(3, "entry "),
                                         .columns = {"key 0", "key 1", "value 0", "value 1",
                                                     "exact", "score", "soft"}}),
            .why =
                "A database compares the query with each key and answers with the value of the "
                "one that is equal; attention asks how alike they are and takes a share of "
                "every value.",
            .figure = FigureKind::kNone};
  step.values.heat = false;
  form.Section("A look-up that is never quite sure");
  form.Add(std::move(step));
  form.Add({.name = "what both answer",
            .formula = "answer = Σ weight[s] value[s]",
            .values = StackedValues(std::vector<std::vector<double>>{Doubles(found.tensor()),
                                                                     Doubles(soft.steps().context)},
                                    {.rows = {"exact", "soft"}, .columns = {"value 0", "value 1"}}),
            .why = "The soft answer is a mixture; that makes it smooth, so that a gradient can say "
                   "how keys, values and queries should change.",
            .figure = FigureKind::kNone});
}

}  // namespace

void WalkNoWeights(const AttentionTopic& topic, Backend& backend, Walk& walk) {
  FormWalk form(backend, topic, 123, walk);
  form.Section("Attention without weights");
  form.Add({.name = "inputs",
            .formula = "x: a vector of 3 numbers for each of 6 tokens",
            .values = MatrixValues(form.x(), FormWalk::ByToken(Elements())),
            .why = "A model knows a token only as a vector; similar tokens have vectors that point "
                   "in similar directions, as “journey” and “starts” do here."});
  StepwiseAttention attention = SimpleAttention(backend, 1, kT, kC);
  attention.Forward({}, form.x());
  const AttentionSteps& steps = attention.steps();
  const std::vector<double> row = RowOf(steps.scores, kJourney);
  form.Add({.name = "scores of “journey”",
            .formula = fmt::format(
                "s[journey, journey] = 0.55·0.55 + 0.87·0.87 + 0.66·0.66 = {:.4f}", row[kJourney]),
            .values = RowValues(std::span<const double>(row),
                                {.columns = FormWalk::Tokens(), .column_axis = "key"}),
            .why = "The dot product of two vectors is large where both are large in the same "
                   "places: it measures how much two tokens have to do with each other.",
            .figure = FigureKind::kBars});
  form.Add({.name = "scores",
            .formula = "scores = x xᵀ",
            .values = MatrixValues(steps.scores, FormWalk::ByTokens()),
            .why = "Each token asks (its row) and is asked (its column); without weights both are "
                   "the same, and the table is symmetric."});
  CompareWeightings(form);
  ShowOverflow(form);
  ShowAllTokens(form, steps);
  ShowLookup(form);
}

}  // namespace folio
