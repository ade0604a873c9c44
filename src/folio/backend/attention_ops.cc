#include "folio/backend/attention_ops.h"

#include <fmt/format.h>

#include <algorithm>

#include "folio/backend/attention_step_ops.h"
#include "folio/backend/op_checks.h"
#include "folio/base/check.h"

namespace folio {
namespace {

// Pairs of one query and one key that it may attend to, padding aside.
double AttentionPairs(int64_t T, int64_t S, bool causal) {
  if (!causal) return Product(T, S);
  double pairs = 0;
  for (int64_t t = 0; t < T; ++t) {
    pairs += static_cast<double>(std::clamp<int64_t>(t + S - T + 1, 0, S));
  }
  return pairs;
}

// D, for counting.
double HeadSize(const SequenceView& x, int64_t H) {
  const int64_t D = x.C / H;
  return static_cast<double>(D);
}

// The width of keys and values: G heads as wide as those of C channels of queries.
int64_t KeyChannels(std::string_view op, int64_t C, int64_t H, int64_t G) {
  FOLIO_CHECK(H >= 1 && C >= 1 && C % H == 0,
              fmt::format("{}: {} channels do not divide into {} heads", op, C, H));
  FOLIO_CHECK(
      G >= 0 && (G == 0 || H % G == 0),
      fmt::format("{}: {} heads of queries cannot share {} heads of keys evenly", op, H, G));
  return C / H * KeyHeads(H, G);
}

// What forward and backward of attention have in common; gives the dtype of q, k and v.
template <class Op>
Dtype CheckAttention(const Op& op) {
  constexpr std::string_view kName = Op::kName;
  const Dtype number = NumberDtype(kName, "lse", op.lse);
  const int64_t B = op.q.B, T = op.q.T, S = op.k.T, C = op.q.C;
  const int64_t key_channels = KeyChannels(kName, C, op.H, op.G);
  const Dtype half = HalfDtype(kName, "q", op.q.dtype, number);
  CheckSequence(kName, "q", op.q, half, B, T, C);
  CheckSequence(kName, "k", op.k, half, B, S, key_channels);
  CheckSequence(kName, "v", op.v, half, B, S, key_channels);
  CheckSequence(kName, "out", op.out, half, B, T, C);
  CheckOptional(kName, "key_mask", op.key_mask, Dtype::kU8, {B, S});
  CheckOperand(kName, "lse", op.lse, number, {B, op.H, T});
  CheckDropout(kName, op.dropout);
  return half;
}

// `scores`, (B,H,T,S), decides the dtype and, with q, the sizes.
void CheckScores(std::string_view op, std::string_view name, const Tensor& scores,
                 const SequenceView& q, const SequenceView& k, int64_t H, int64_t G) {
  const Dtype number = NumberDtype(op, name, scores);
  const int64_t key_channels = KeyChannels(op, q.C, H, G);
  CheckSequence(op, "q", q, number, q.B, q.T, q.C);
  CheckSequence(op, "k", k, number, q.B, k.T, key_channels);
  CheckOperand(op, name, scores, number, {q.B, H, q.T, k.T});
}

// `out` is the operation's (B,T,H*D) side.
void CheckContext(std::string_view op, const Tensor& weights, const SequenceView& v,
                  std::string_view out_name, const SequenceView& out, int64_t H, int64_t G) {
  const Dtype number = NumberDtype(op, "weights", weights);
  const int64_t key_channels = KeyChannels(op, out.C, H, G);
  CheckSequence(op, out_name, out, number, out.B, out.T, out.C);
  CheckSequence(op, "v", v, number, out.B, v.T, key_channels);
  CheckOperand(op, "weights", weights, number, {out.B, H, out.T, v.T});
}

double Count(const Tensor& x) {
  return static_cast<double>(x.count());
}

}  // namespace

// ---- Attention in one --------------------------------------------------------------------------

void AttentionForward::Check() const {
  CheckAttention(*this);
  CheckOptional(kName, "probs", probs, lse.dtype(), {q.B, H, q.T, k.T});
  CheckOverlap(*this);
}

// For each pair and head: score 2D, softmax 5, weighted sum 2D.
double AttentionForward::Flops() const {
  return static_cast<double>(q.B) * AttentionPairs(q.T, k.T, causal) *
         (4 * static_cast<double>(q.C) + 5 * static_cast<double>(H));
}

void AttentionBackward::Check() const {
  const Dtype half = CheckAttention(*this);
  CheckSequence(kName, "d_out", d_out, half, q.B, q.T, q.C);
  CheckSequence(kName, "d_q", d_q, half, q.B, q.T, q.C);
  CheckSequence(kName, "d_k", d_k, half, q.B, k.T, k.C);
  CheckSequence(kName, "d_v", d_v, half, q.B, k.T, k.C);
}

// For each pair and head: score, weight's gradient, d_q, d_k and d_v 2D each, softmax 6.
double AttentionBackward::Flops() const {
  return static_cast<double>(q.B) * AttentionPairs(q.T, k.T, causal) *
         (10 * static_cast<double>(q.C) + 6 * static_cast<double>(H));
}

// ---- Scores ------------------------------------------------------------------------------------

void AttentionScoresForward::Check() const {
  CheckScores(kName, "scores", scores, q, k, H, G);
}

// For each score: product 2D, scale 1.
double AttentionScoresForward::Flops() const {
  return Count(scores) * (2.0 * HeadSize(q, H) + 1);
}

void AttentionScoresBackward::Check() const {
  CheckScores(kName, "d_scores", d_scores, q, k, H, G);
  CheckSequence(kName, "d_q", d_q, q.dtype, q.B, q.T, q.C);
  CheckSequence(kName, "d_k", d_k, q.dtype, q.B, k.T, k.C);
}

// For each score: d_q and d_k 2D each, scale 1.
double AttentionScoresBackward::Flops() const {
  return Count(d_scores) * (4.0 * HeadSize(q, H) + 1);
}

// ---- Mask --------------------------------------------------------------------------------------

void MaskForward::Check() const {
  CheckRank(kName, "x", x, 4), CheckRank(kName, "mask", mask, 4);
  const Dtype number = NumberDtype(kName, "x", x);
  const int64_t B = mask.dim(0) == 1 ? 1 : x.dim(0), H = mask.dim(1) == 1 ? 1 : x.dim(1);
  CheckOperand(kName, "mask", mask, Dtype::kU8, {B, H, x.dim(2), x.dim(3)});
  CheckOperand(kName, "out", out, number, x.shape());
  CheckOverlap(*this, "out", {"x"});
}

double MaskForward::Flops() const {
  return 0;
}

// ---- Softmax -----------------------------------------------------------------------------------

void SoftmaxForward::Check() const {
  CheckRank(kName, "x", x, 2);
  CheckOperand(kName, "out", out, NumberDtype(kName, "x", x), x.shape());
  CheckOverlap(*this, "out", {"x"});
}

// For each element: exp, sum and division, and the maximum and its difference unless naive.
double SoftmaxForward::Flops() const {
  return Count(x) * (naive ? 3 : 5);
}

void SoftmaxBackward::Check() const {
  CheckRank(kName, "out", out, 2);
  const Dtype number = NumberDtype(kName, "out", out);
  CheckOperand(kName, "d_out", d_out, number, out.shape());
  CheckOperand(kName, "d_x", d_x, number, out.shape());
  CheckOverlap(*this, "d_x", {"d_out"});
}

// For each element: product and sum 2, difference and product 2.
double SoftmaxBackward::Flops() const {
  return Count(out) * 4;
}

// ---- Normalize ---------------------------------------------------------------------------------

void NormalizeForward::Check() const {
  CheckRank(kName, "x", x, 2);
  const Dtype number = NumberDtype(kName, "x", x);
  CheckOperand(kName, "out", out, number, x.shape());
  CheckOperand(kName, "sums", sums, number, {x.dim(0)});
  CheckOverlap(*this, "out", {"x"});
}

double NormalizeForward::Flops() const {
  return Count(x) * 2;
}

void NormalizeBackward::Check() const {
  CheckRank(kName, "out", out, 2);
  const Dtype number = NumberDtype(kName, "out", out);
  CheckOperand(kName, "sums", sums, number, {out.dim(0)});
  CheckOperand(kName, "d_out", d_out, number, out.shape());
  CheckOperand(kName, "d_x", d_x, number, out.shape());
  CheckOverlap(*this, "d_x", {"d_out"});
}

double NormalizeBackward::Flops() const {
  return Count(out) * 4;
}

// ---- Context -----------------------------------------------------------------------------------

void AttentionContextForward::Check() const {
  CheckContext(kName, weights, v, "out", out, H, G);
}

double AttentionContextForward::Flops() const {
  return Count(weights) * 2.0 * HeadSize(out, H);
}

void AttentionContextBackward::Check() const {
  CheckContext(kName, weights, v, "d_out", d_out, H, G);
  CheckOperand(kName, "d_weights", d_weights, weights.dtype(), weights.shape());
  CheckSequence(kName, "d_v", d_v, v.dtype, v.B, v.T, v.C);
  CheckOverlap(*this);
}

double AttentionContextBackward::Flops() const {
  return Count(weights) * 4.0 * HeadSize(d_out, H);
}

}  // namespace folio
