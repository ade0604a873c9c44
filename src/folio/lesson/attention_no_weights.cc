#include <fmt/format.h>

#include <algorithm>

#include "folio/lesson/attention_forms.h"
#include "folio/lesson/attention_steps.h"
#include "folio/lesson/step_ops.h"
#include "folio/lesson/stepwise_attention.h"

namespace folio {
namespace {

const std::vector<std::string> kWays = {"as they are", "by their sum", "naive softmax", "softmax"};

std::vector<std::string> Elements(const AttentionWalkthrough& form) {
  return Numbered(form.C(), "x");
}

// "0.55·0.55 + 0.87·0.87": the followed vector times itself.
std::string Squares(const AttentionWalkthrough& form) {
  constexpr size_t kTerms = 6;
  std::string sum;
  const std::vector<double> x = RowOf(form.x(), form.followed());
  for (size_t i = 0; i < std::min(x.size(), kTerms); ++i) {
    sum += fmt::format("{0}{1:g}·{1:g}", i == 0 ? "" : " + ", x[i]);
  }
  return sum + (x.size() > kTerms ? " + …" : "");
}

// The attention of the followed token weighted in four ways, with the sum of each row of weights;
// and the four contexts.
void CompareWeightings(AttentionWalkthrough& form) {
  std::vector<std::vector<double>> weights, contexts;
  for (const Weighting way :
       {Weighting::kNone, Weighting::kSum, Weighting::kNaiveSoftmax, Weighting::kSoftmax}) {
    StepwiseAttention attention = SimpleAttention(form.backend(), 1, form.T(), form.C(), way);
    attention.Forward({}, form.x());
    const AttentionSteps& steps = attention.steps();
    const Tensor row = RowsOf(steps.weights, form.followed());
    weights.push_back(Doubles(row));
    weights.back().push_back(Total(row));
    contexts.push_back(RowOf(steps.context, form.followed()));
  }
  std::vector<std::string> columns = form.Tokens();
  columns.emplace_back("sum");
  form.Add(fmt::format("weights of “{}”, made in four ways", form.name()),
           "w = s,  s / Σ s,  exp(s) / Σ exp(s),  exp(s − max s) / Σ exp(s − max s)",
           Plain(StackedValues(weights, {.rows = kWays, .columns = columns})),
           "Scores as they are add up to anything; divided by their sum they add up to 1, but a "
           "negative score would be a negative share; softmax makes every share positive and "
           "favours the large ones.",
           FigureKind::kNone);
  form.Add(fmt::format("context of “{}” from each of them", form.name()), "context = Σ w[s] x[s]",
           Plain(StackedValues(contexts, {.rows = kWays, .columns = Elements(form)})),
           "Weights that do not add up to 1 blow the vector up (or shrink it); the others keep it "
           "inside the inputs that it is a mean of.",
           FigureKind::kNone);
}

void ShowOverflow(AttentionWalkthrough& form) {
  const StepTensor scores({1, 3}, {100, 1, 2});
  const StepTensor naive = NaiveSoftmax(scores.tensor());
  const StepTensor stable = Softmax(scores.tensor());
  Matrix values = Plain(
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

void ShowAllTokens(AttentionWalkthrough& form, const AttentionSteps& steps) {
  form.Add("weights", "weights = softmax(scores), row by row",
           MatrixValues(steps.weights, form.ByTokens()),
           "Each row adds up to 1: it says which share of every token goes into the new vector of "
           "the row's token.");
  form.Add(
      fmt::format("context of “{}”", form.name()),
      fmt::format("context[{0}] = Σ weights[{0}, s] x[s]", form.name()),
      RowValues(RowOf(steps.context, form.followed()), {.columns = Elements(form)}),
      fmt::format("The new vector of “{}” is the mean of all inputs under its weights: the word "
                  "together with the company it keeps.",
                  form.name()),
      FigureKind::kNone);
  form.Add("context", "context = weights x",
           MatrixValues(steps.context, form.ByToken(Elements(form))),
           "One product of matrices gives the context of every token at once.");
}

// A query against keys and values: what a database returns, and what attention returns.
void ShowLookup(AttentionWalkthrough& form) {
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

void ExplainNoWeights(const AttentionTopic& topic, Backend& backend, Report& walk) {
  AttentionWalkthrough form(backend, topic, 123, walk);
  form.Section("Attention without weights");
  form.Add("inputs",
           fmt::format("x: a vector of {} numbers for each of {} tokens", form.C(), form.T()),
           MatrixValues(form.x(), form.ByToken(Elements(form))),
           std::string("A model knows a token only as a vector; similar tokens have vectors that "
                       "point in similar directions") +
               (form.own() ? "." : ", as “journey” and “starts” do here."));
  StepwiseAttention attention = SimpleAttention(backend, 1, form.T(), form.C());
  attention.Forward({}, form.x());
  const AttentionSteps& steps = attention.steps();
  const std::vector<double> row = RowOf(steps.scores, form.followed());
  form.Add(fmt::format("scores of “{}”", form.name()),
           fmt::format("s[{0}, {0}] = {1} = {2:.4f}", form.name(), Squares(form),
                       row[static_cast<size_t>(form.followed())]),
           RowValues(row, {.columns = form.Tokens(), .column_axis = "key"}),
           "The dot product of two vectors is large where both are large in the same places: it "
           "measures how much two tokens have to do with each other.",
           FigureKind::kBars);
  form.Add("scores", "scores = x xᵀ", MatrixValues(steps.scores, form.ByTokens()),
           "Each token asks (its row) and is asked (its column); without weights both are the "
           "same, and the table is symmetric.");
  CompareWeightings(form);
  ShowOverflow(form);
  ShowAllTokens(form, steps);
  ShowLookup(form);
}

}  // namespace folio
