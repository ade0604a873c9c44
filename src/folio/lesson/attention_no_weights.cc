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
  form.Add("weights of “journey”, made in four ways",
           "w = s,  s / Σ s,  exp(s) / Σ exp(s),  exp(s − max s) / Σ exp(s − max s)",
           Plain(StackedValues(weights, {.rows = kWays, .columns = columns})),
           "Scores as they are add up to anything; divided by their sum they add up to 1, but a "
           "negative score would be a negative share; softmax makes every share positive and "
           "favours the large ones.",
           FigureKind::kNone);
  form.Add("context of “journey” from each of them", "context = Σ w[s] x[s]",
           Plain(StackedValues(contexts, {.rows = kWays, .columns = Elements()})),
           "Weights that do not add up to 1 blow the vector up (or shrink it); the others keep it "
           "inside the inputs that it is a mean of.",
           FigureKind::kNone);
}

void ShowOverflow(FormWalk& form) {
  const StepTensor scores({1, 3}, {100, 1, 2});
  const StepTensor naive = NaiveSoftmax(scores.tensor());
  const StepTensor stable = Softmax(scores.tensor());
  StepValues values = Plain(
      StackedValues({Doubles(scores.tensor()), Doubles(naive.tensor()), Doubles(stable.tensor())},
                    {.rows = {"scores", "naive softmax", "softmax"}, .columns = Numbered(3, "s")}));
  values.masks = false;
  form.Add("why the naive softmax overflows",
           "exp(100) = 2.7e43 > 3.4e38 = the largest float32,  so inf / inf = nan",
           std::move(values),
           "Taking the largest score off first changes nothing in the result, since it cancels, "
           "and no exponential is larger than 1 then.",
           FigureKind::kNone);
}

void ShowAllTokens(FormWalk& form, const AttentionSteps& steps) {
  form.Add("weights", "weights = softmax(scores), row by row",
           MatrixValues(steps.weights, FormWalk::ByTokens()),
           "Each row adds up to 1: it says which share of every token goes into the new vector of "
           "the row's token.");
  form.Add(
      "context of “journey”", "context[journey] = Σ weights[journey, s] x[s]",
      RowValues(RowOf(steps.context, kJourney), {.columns = Elements()}),
      "The new vector of “journey” is the mean of all inputs under its weights: the word together "
      "with the company it keeps.",
      FigureKind::kNone);
  form.Add("context", "context = weights x",
           MatrixValues(steps.context, FormWalk::ByToken(Elements())),
           "One product of matrices gives the context of every token at once.");
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
  const AttentionSteps& steps = soft.steps();
  form.Section("A look-up that is never quite sure");
  form.Add("the query (1, 0) meets a database", "exact: key = query?    soft: softmax(query · key)",
           Plain(SideBySide(
               {keys.tensor(), values.tensor(), exact.tensor().Reshape({3, 1}),
                steps.scores.Reshape({3, 1}), steps.weights.Reshape({3, 1})},
               {.rows = Numbered(3, "entry "),
                .columns = {"key 0", "key 1", "value 0", "value 1", "exact", "score", "soft"}})),
           "A database compares the query with each key and answers with the value of the one that "
           "is equal; attention asks how alike they are and takes a share of every value.",
           FigureKind::kNone);
  form.Add("what both answer", "answer = Σ weight[s] value[s]",
           StackedValues({Doubles(found.tensor()), Doubles(steps.context)},
                         {.rows = {"exact", "soft"}, .columns = {"value 0", "value 1"}}),
           "The soft answer is a mixture; that makes it smooth, so that a gradient can say how "
           "keys, values and queries should change.",
           FigureKind::kNone);
}

}  // namespace

void WalkNoWeights(const AttentionTopic& topic, Backend& backend, Walk& walk) {
  FormWalk form(backend, topic, 123, walk);
  form.Section("Attention without weights");
  form.Add("inputs", "x: a vector of 3 numbers for each of 6 tokens",
           MatrixValues(form.x(), FormWalk::ByToken(Elements())),
           "A model knows a token only as a vector; similar tokens have vectors that point in "
           "similar directions, as “journey” and “starts” do here.");
  StepwiseAttention attention = SimpleAttention(backend, 1, kT, kC);
  attention.Forward({}, form.x());
  const AttentionSteps& steps = attention.steps();
  const std::vector<double> row = RowOf(steps.scores, kJourney);
  form.Add("scores of “journey”",
           fmt::format("s[journey, journey] = 0.55·0.55 + 0.87·0.87 + 0.66·0.66 = {:.4f}",
                       row[kJourney]),
           RowValues(row, {.columns = FormWalk::Tokens(), .column_axis = "key"}),
           "The dot product of two vectors is large where both are large in the same places: it "
           "measures how much two tokens have to do with each other.",
           FigureKind::kBars);
  form.Add("scores", "scores = x xᵀ", MatrixValues(steps.scores, FormWalk::ByTokens()),
           "Each token asks (its row) and is asked (its column); without weights both are the "
           "same, and the table is symmetric.");
  CompareWeightings(form);
  ShowOverflow(form);
  ShowAllTokens(form, steps);
  ShowLookup(form);
}

}  // namespace folio
