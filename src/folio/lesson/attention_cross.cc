#include <fmt/format.h>

#include <algorithm>

#include "folio/lesson/attention_forms.h"
#include "folio/lesson/attention_mask.h"
#include "folio/lesson/stepwise_attention.h"

namespace folio {
namespace {

constexpr int64_t kS = 5, kOther = 2;  // tokens of the other sequence and their elements

std::vector<std::string> OtherTokens() {
  return {"Deine", "Reise", "beginnt", "<pad>", "<pad>"};
}

// Queries from the walk's tokens, keys and values from another sequence that ends in padding.
void ShowCross(AttentionWalkthrough& form) {
  const StepTensor other({kS, kOther}, {0.31F, 0.92F, 0.84F, 0.27F, 0.56F, 0.68F, 0, 0, 0, 0});
  std::vector<uint8_t> real = {1, 1, 1, 0, 0};
  const Tensor key_mask(real.data(), {1, kS});
  const AttentionMask mask = AttentionMask::Combined(key_mask, form.T(), /*causal=*/false);
  const AttentionSizes sizes{
      .d_in = form.C(), .d_kv_in = kOther, .d_out = 2, .bias = true, .out_proj = true};
  const AttentionWeights weights = form.Drawn(sizes);
  StepwiseAttention cross =
      MultiHeadAttention(form.backend(), sizes, 1, form.T(), kS, {.mask = mask});
  const Tensor& out = cross.Forward(weights.params(), form.x(), other.tensor(), other.tensor());
  const MatrixLabels by_other{
      .rows = form.Tokens(), .columns = OtherTokens(), .row_axis = "query", .column_axis = "key"};

  form.Section("Cross-attention: queries here, keys and values there");
  form.Add(
      "the other sequence", "y: a vector of 2 numbers for each of 5 tokens",
      MatrixValues(other.tensor(),
                   {.rows = OtherTokens(), .columns = Numbered(kOther, "y"), .row_axis = "token"}),
      "A translator looks from its own words at the sentence that it translates; shorter sentences "
      "are filled up with padding, which must not count.");
  form.Add("scores", "scores = (x W_q)(y W_k)ᵀ / √d_k, −∞ at padding",
           MatrixValues(cross.steps().masked, by_other),
           fmt::format("{} queries meet 5 keys, so that the table need not be square; the padding "
                       "mask strikes out whole columns.",
                       form.T()));
  form.Add(
      "weights", "weights = softmax(scores)",
      Hidden(cross.steps().weights, mask.tensor(), by_other),
      "Every token of ours shares its attention among the three real words of the other sequence.");
  form.Add("output", "out = weights (y W_v) W_o + b_o",
           MatrixValues(out, form.ByToken(Numbered(2, "out "))),
           "A vector for each token of ours, made of nothing but the other sequence.");
}

// Self-attention of a sequence with padding in front, under both masks.
void ShowPaddedCausal(AttentionWalkthrough& form) {
  const int64_t pads = std::min<int64_t>(2, form.T() - 1), tokens_left = form.T() - pads;
  std::vector<float> padded(static_cast<size_t>(pads * form.C()));
  const std::vector<double> kept = Doubles(RowsOf(form.x(), 0, tokens_left));
  for (const double number : kept) padded.push_back(static_cast<float>(number));
  const StepTensor x({form.T(), form.C()}, padded);
  std::vector<uint8_t> real(static_cast<size_t>(form.T()), 1);
  std::fill_n(real.begin(), pads, uint8_t{0});
  const AttentionMask mask =
      AttentionMask::Combined(Tensor(real.data(), {1, form.T()}), form.T(), /*causal=*/true);
  const AttentionSizes sizes{.d_in = form.C(), .d_out = 2};
  const AttentionWeights weights = form.Drawn(sizes);
  StepwiseAttention layer =
      MultiHeadAttention(form.backend(), sizes, 1, form.T(), form.T(), {.mask = mask});
  layer.Forward(weights.params(), x.tensor());
  std::vector<std::string> tokens(static_cast<size_t>(pads), "<pad>");
  for (int64_t t = 0; t < tokens_left; ++t) tokens.push_back(form.Token(t));
  const MatrixLabels by_tokens{
      .rows = tokens, .columns = tokens, .row_axis = "query", .column_axis = "key"};

  form.Section("Both masks at once");
  form.Add("causal and padding mask",
           "mask[b, 0, t, s] = s ≤ t and key s of sequence b is no padding",
           MaskValues(mask.tensor(), by_tokens),
           "Texts of one batch that end together are filled up in front; the first rows are then "
           "left with nothing that they may see.");
  form.Add("weights under both masks", "softmax(scores), a row of −∞ gives zeros",
           MatrixValues(layer.steps().weights, by_tokens),
           "As the formula stands, a row of −∞ would be 0 / 0; it is defined as zeros, or else one "
           "nan would spread through the whole model.");
  form.Add("context under both masks", "context = weights v",
           MatrixValues(layer.steps().context,
                        {.rows = tokens, .columns = Numbered(2, "c"), .row_axis = "token"}),
           "Padding gets zeros, and no real token ever sees it.");
}

}  // namespace

void ExplainCross(const AttentionTopic& topic, Backend& backend, Report& walk) {
  AttentionWalkthrough form(backend, topic, 123, walk);
  ShowCross(form);
  ShowPaddedCausal(form);
}

}  // namespace folio
