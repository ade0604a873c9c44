#include <fmt/format.h>

#include "folio/lesson/attention_forms.h"
#include "folio/lesson/attention_mask.h"
#include "folio/lesson/stepwise_attention.h"

namespace folio {
namespace {

constexpr int64_t kH = 4, kG = 2, kD = 2;

std::vector<std::string> HeadLabels() {
  std::vector<std::string> labels;
  for (int64_t h = 0; h < kH; ++h) {
    labels.push_back("head " + std::to_string(h) + ", keys " + std::to_string(h / (kH / kG)));
  }
  return labels;
}

// Returns how many numbers of keys and values a cache keeps of each token, with kH, kG and one head
// of them.
std::vector<double> KeptNumbers(const AttentionWalkthrough& form) {
  std::vector<double> counts;
  for (const int64_t G : {kH, kG, int64_t{1}}) {
    const AttentionSizes sizes{.d_in = form.C(), .d_out = kH * kD, .H = kH, .G = G};
    counts.push_back(static_cast<double>(2 * sizes.kv_out()));
  }
  return counts;
}

}  // namespace

void ExplainGrouped(const AttentionTopic& topic, Backend& backend, Report& walk) {
  AttentionWalkthrough form(backend, topic, 123, walk);
  const AttentionSizes sizes{
      .d_in = form.C(), .d_out = kH * kD, .H = kH, .G = kG, .out_proj = true};
  const AttentionWeights weights = form.Drawn(sizes);
  const AttentionMask mask = AttentionMask::Causal(form.T(), form.T());
  StepwiseAttention layer =
      MultiHeadAttention(backend, sizes, 1, form.T(), form.T(), {.mask = mask});
  const Tensor& out = layer.Forward(weights.params(), form.x());

  form.Section("Grouped-query heads");
  form.Add("queries of 4 heads", fmt::format("q = x W_q,  W_q: {0} × H·D = {0} × 8", form.C()),
           MatrixValues(layer.q(), form.ByToken(ColumnsOf({"q0", "q1", "q2", "q3"}, kD))),
           "Each of the 4 heads asks a question of its own.");
  form.Add(
      "keys and values of 2 groups",
      fmt::format("k = x W_k,  v = x W_v,  W_k and W_v: {0} × G·D = {0} × 4", form.C()),
      SideBySide({layer.k(), layer.v()}, form.ByToken(ColumnsOf({"k0", "k1", "v0", "v1"}, kD))),
      "Heads 0 and 1 share the first keys and values, heads 2 and 3 the second.");
  std::vector<std::vector<double>> rows;
  for (int64_t h = 0; h < kH; ++h)
    rows.push_back(RowOf(layer.steps().weights, h * form.T() + form.T() - 1));
  form.Add(fmt::format("weights of “{}” in each head", form.Token(form.T() - 1)),
           "softmax(q[h] k[h / (H/G)]ᵀ / √D)",
           StackedValues(rows, {.rows = HeadLabels(),
                                .columns = form.Tokens(),
                                .row_axis = "head",
                                .column_axis = "key"}),
           "The same keys, but different questions: heads of one group still weigh the tokens "
           "differently.");
  form.Add("output", "out = concat(heads) W_o + b_o",
           MatrixValues(out, form.ByToken(Numbered(kH * kD, "out "))),
           "To the rest of the model nothing has changed.");
  Matrix kept =
      RowValues(KeptNumbers(form), {.columns = {"G = 4: own", "G = 2: grouped", "G = 1: one"}});
  kept.digits = 0;
  form.Add("numbers to keep for each token", "keys and values: 2 · G · D,  D = 2", std::move(kept),
           "A model that writes keeps keys and values of all tokens so far; with shared ones the "
           "memory for long texts shrinks by H / G.",
           FigureKind::kBars);
}

}  // namespace folio
