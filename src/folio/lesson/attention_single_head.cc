#include <fmt/format.h>

#include <cmath>

#include "folio/lesson/attention_forms.h"
#include "folio/lesson/step_ops.h"
#include "folio/lesson/stepwise_attention.h"

namespace folio {
namespace {

constexpr int64_t kWide = 512;     // d_k of the experiment
constexpr int64_t kVectors = 256;  // queries, and keys

// scale * q k^T, one head.
StepTensor Scores(Backend& backend, const Tensor& q, const Tensor& k, double scale) {
  const StepTensor products({q.dim(0), k.dim(0)});
  backend.Run(LinearForward{.x = q, .weight = k, .out = products.tensor(), .transposed = true});
  return Scaled(products.tensor(), scale);
}

// Products of random vectors of 512 elements, and what softmax makes of large numbers.
void ShowWhyRoot(AttentionWalkthrough& form) {
  const double root = 1 / std::sqrt(static_cast<double>(kWide));
  StepTensor q({kVectors, kWide}), k({kVectors, kWide});
  const auto elements = static_cast<size_t>(kVectors * kWide);
  form.DrawNormal({q.data(), elements});
  form.DrawNormal({k.data(), elements});
  std::vector<std::vector<double>> rows;
  for (const double scale : {1.0, root}) {
    const StepTensor scores = Scores(form.backend(), q.tensor(), k.tensor(), scale);
    const NormalizedRow row =
        Normalized(form.backend(), scores.tensor().Reshape({1, kVectors * kVectors}));
    rows.push_back({row.mean, row.variance});
  }
  form.Section("Why the scores are divided by √d_k");
  form.Add("products of random vectors of 512 elements",
           "q, k ~ normal(0, 1),  d_k = 512:  var(q · k) = d_k",
           Plain(StackedValues(
               rows, {.rows = {"q · k", "q · k / √512"}, .columns = {"mean", "variance"}})),
           fmt::format("A sum of 512 independent products has the variance 512 (of these {} it is "
                       "{:.0f}); divided by √512 it has variance 1, whatever the size of the head.",
                       kVectors * kVectors, rows[0][1]),
           FigureKind::kNone);

  const StepTensor one({1, 1}, {1}), large({3, 1}, {10, 20, 30});
  rows.clear();
  for (const double scale : {1.0, root}) {
    const StepTensor scores = Scores(form.backend(), one.tensor(), large.tensor(), scale);
    rows.push_back(Doubles(Softmax(scores.tensor().Reshape({1, 3})).tensor()));
  }
  form.Add("softmax of large scores", "softmax(10, 20, 30)  and  softmax((10, 20, 30) / √512)",
           Scientific(
               StackedValues(rows, {.rows = {"plain", "divided"}, .columns = {"10", "20", "30"}})),
           "Large scores give everything to the largest one, and the gradient of a softmax that "
           "has made up its mind is almost zero: nothing would be learnt.",
           FigureKind::kNone);
}

void ShowProjections(AttentionWalkthrough& form, const AttentionParams& params,
                     const StepwiseAttention& head) {
  form.Add(
      "weights W_q, W_k and W_v",
      fmt::format("W_q, W_k, W_v: from {} elements to 2, random before training", form.C()),
      SideBySide(
          {params.q.weight, params.k.weight, params.v.weight},
          {.rows = Numbered(form.C(), "x"), .columns = ColumnsOf({"W_q", "W_k", "W_v"}, kOut)}),
      "Training changes these matrices; they let a token ask for something else (W_q) than what it "
      "is found by (W_k) and what it gives (W_v).");
  form.Add(
      "queries, keys and values", "q = x W_q,  k = x W_k,  v = x W_v",
      SideBySide({head.q(), head.k(), head.v()}, form.ByToken(ColumnsOf({"q", "k", "v"}, kOut))),
      "As in the look-up: the query is what a token looks for, the key what others find it "
      "by, the value what they get.");
}

}  // namespace

void ExplainSingleHead(const AttentionTopic& topic, Backend& backend, Report& walk) {
  AttentionWalkthrough form(backend, topic, 123, walk);
  const AttentionSizes sizes{.d_in = form.C(), .d_out = kOut};
  const AttentionWeights weights = form.Drawn(sizes, AttentionDraws::kUnit);
  StepwiseAttention head = SelfAttention(backend, sizes, 1, form.T());
  head.Forward(weights.params(), form.x());

  form.Section("One head with trainable weights");
  ShowProjections(form, weights.params(), head);
  const StepTensor products = Scores(backend, head.q(), head.k(), 1);
  form.Add("products of queries and keys", "q kᵀ", MatrixValues(products.tensor(), form.ByTokens()),
           "How well each query fits each key; asking and being asked are two things now, and the "
           "table is no longer symmetric.");
  ShowWhyRoot(form);
  form.Section("One head, to its end");
  form.Add("scores", "scores = q kᵀ / √d_k,  d_k = 2",
           MatrixValues(head.steps().scores, form.ByTokens()),
           "The products, brought back to a size that softmax can tell apart.");
  form.Add("weights", "weights = softmax(scores), row by row",
           MatrixValues(head.steps().weights, form.ByTokens()),
           "Each row says how much of every token's value the row's token takes.");
  form.Add("context", "context = weights v",
           MatrixValues(head.steps().context, form.ByToken(Numbered(kOut, "c"))),
           "What the head hands on: 2 numbers for each token, made from the values of all.");
}

}  // namespace folio
