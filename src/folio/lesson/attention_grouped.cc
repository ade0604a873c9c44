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

// What a model that writes keeps of each token: keys and values.
std::vector<double> KeptNumbers() {
  std::vector<double> counts;
  for (const int64_t G : {kH, kG, int64_t{1}}) {
    const AttentionSizes sizes{.d_in = FormWalk::kChannels, .d_out = kH * kD, .H = kH, .G = G};
    counts.push_back(static_cast<double>(2 * sizes.kv_out()));
  }
  return counts;
}

}  // namespace

void WalkGrouped(const AttentionTopic& topic, Backend& backend, Walk& walk) {
  FormWalk form(backend, topic, 123, walk);
  const AttentionSizes sizes{
      .d_in = FormWalk::kChannels, .d_out = kH * kD, .H = kH, .G = kG, .out_proj = true};
  const AttentionWeights weights = form.Drawn(sizes);
  const AttentionMask mask = AttentionMask::Causal(kT, kT);
  StepwiseAttention layer = MultiHeadAttention(backend, sizes, 1, kT, kT, {.mask = mask});
  const Tensor& out = layer.Forward(weights.params(), form.x());

  form.Section("Grouped-query heads");
  form.Add("queries of 4 heads", "q = x W_q,  W_q: 3 × H·D = 3 × 8",
           MatrixValues(layer.q(), FormWalk::ByToken(ColumnsOf({"q0", "q1", "q2", "q3"}, kD))),
           "Each of the 4 heads asks a question of its own.");
  form.Add("keys and values of 2 groups", "k = x W_k,  v = x W_v,  W_k and W_v: 3 × G·D = 3 × 4",
           SideBySide({layer.k(), layer.v()},
                      FormWalk::ByToken(ColumnsOf({"k0", "k1", "v0", "v1"}, kD))),
           "Heads 0 and 1 share the first keys and values, heads 2 and 3 the second.");
  std::vector<std::vector<double>> rows;
  for (int64_t h = 0; h < kH; ++h) rows.push_back(RowOf(layer.steps().weights, h * kT + kT - 1));
  form.Add("weights of “step” in each head", "softmax(q[h] k[h / (H/G)]ᵀ / √D)",
           StackedValues(rows, {.rows = HeadLabels(),
                                .columns = FormWalk::Tokens(),
                                .row_axis = "head",
                                .column_axis = "key"}),
           "The same keys, but different questions: heads of one group still weigh the tokens "
           "differently.");
  form.Add("output", "out = concat(heads) W_o + b_o",
           MatrixValues(out, FormWalk::ByToken(Numbered(kH * kD, "out "))),
           "To the rest of the model nothing has changed.");
  StepValues kept =
      RowValues(KeptNumbers(), {.columns = {"G = 4: own", "G = 2: grouped", "G = 1: one"}});
  kept.digits = 0;
  form.Add("numbers to keep for each token", "keys and values: 2 · G · D,  D = 2", std::move(kept),
           "A model that writes keeps keys and values of all tokens so far; with shared ones the "
           "memory for long texts shrinks by H / G.",
           FigureKind::kBars);
}

}  // namespace folio
