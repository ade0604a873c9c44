#include "folio/backend/ops.h"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <string>
#include <type_traits>
#include <utility>

#include "folio/base/check.h"

namespace folio {
namespace {

// The dtype of the operand that decides it for the whole operation.
Dtype NumberDtype(std::string_view op, std::string_view name, const Tensor& x) {
  FOLIO_CHECK(bool(x), fmt::format("{}: {} is missing", op, name));
  FOLIO_CHECK(x.dtype() == Dtype::kF32 || x.dtype() == Dtype::kF64,
              fmt::format("{}: {} is {}, expected F32 or F64", op, name, DtypeName(x.dtype())));
  return x.dtype();
}

void Operand(std::string_view op, std::string_view name, const Tensor& x, Dtype dtype,
             const Shape& shape) {
  FOLIO_CHECK(bool(x), fmt::format("{}: {} is missing", op, name));
  FOLIO_CHECK(x.dtype() == dtype, fmt::format("{}: {} is {}, expected {}", op, name,
                                              DtypeName(x.dtype()), DtypeName(dtype)));
  FOLIO_CHECK(x.shape() == shape, fmt::format("{}: {} is {}, expected {}", op, name,
                                              x.shape().ToString(), shape.ToString()));
}

void Optional(std::string_view op, std::string_view name, const Tensor& x, Dtype dtype,
              const Shape& shape) {
  if (x) Operand(op, name, x, dtype, shape);
}

void Rank(std::string_view op, std::string_view name, const Tensor& x, int rank) {
  FOLIO_CHECK(bool(x), fmt::format("{}: {} is missing", op, name));
  FOLIO_CHECK(x.shape().rank() == rank, fmt::format("{}: {} is {}, expected {} dimensions", op,
                                                    name, x.shape().ToString(), rank));
}

void Sequence(std::string_view op, std::string_view name, const SequenceView& x, Dtype dtype,
              int64_t B, int64_t T, int64_t C) {
  FOLIO_CHECK(bool(x), fmt::format("{}: {} is missing", op, name));
  FOLIO_CHECK(x.dtype == dtype, fmt::format("{}: {} is {}, expected {}", op, name,
                                            DtypeName(x.dtype), DtypeName(dtype)));
  FOLIO_CHECK(x.B == B && x.T == T && x.C == C,
              fmt::format("{}: {} is ({}, {}, {}), expected ({}, {}, {})", op, name, x.B, x.T, x.C,
                          B, T, C));
  FOLIO_CHECK(T <= 1 || x.row_stride >= C, fmt::format("{}: rows of {} overlap", op, name));
}

void CheckDropout(std::string_view op, const Dropout& dropout) {
  FOLIO_CHECK(dropout.p >= 0 && dropout.p < 1,
              fmt::format("{}: dropout {} is not in [0, 1)", op, dropout.p));
  FOLIO_CHECK(dropout.first_row >= 0, fmt::format("{}: first_row of dropout is negative", op));
}

bool Overlap(const Tensor& a, const Tensor& b) {
  return a && b && a.raw() < b.raw() + b.bytes() && b.raw() < a.raw() + a.bytes();
}

// No written Tensor shares memory with another operand, except `written` being exactly one of
// `may_be`. Sequence views interleave by design and are not looked at.
template <class Op>
void CheckOverlap(const Op& op, std::string_view written = {},
                  std::initializer_list<std::string_view> may_be = {}) {
  op.Visit([&](std::string_view name, const auto& x, Access access) {
    if constexpr (std::is_same_v<std::decay_t<decltype(x)>, Tensor>) {
      if (access == Access::kRead) return;
      op.Visit([&](std::string_view other_name, const auto& other, Access) {
        if constexpr (std::is_same_v<std::decay_t<decltype(other)>, Tensor>) {
          if (name == other_name || !Overlap(x, other)) return;
          const bool allowed =
              x.raw() == other.raw() &&
              ((name == written && std::count(may_be.begin(), may_be.end(), other_name) > 0) ||
               (other_name == written && std::count(may_be.begin(), may_be.end(), name) > 0));
          FOLIO_CHECK(allowed,
                      fmt::format("{}: {} and {} share memory", Op::kName, name, other_name));
        }
      });
    }
  });
}

double Product(int64_t a, int64_t b) {
  return static_cast<double>(a) * static_cast<double>(b);
}

// Pairs of one query and one key that it may attend to, padding aside.
double AttentionPairs(int64_t T, int64_t S, bool causal) {
  if (!causal) return Product(T, S);
  double pairs = 0;
  for (int64_t t = 0; t < T; ++t) {
    pairs += static_cast<double>(std::clamp<int64_t>(t + S - T + 1, 0, S));
  }
  return pairs;
}

// What forward and backward of attention have in common.
template <class Op>
void CheckAttention(const Op& op) {
  constexpr std::string_view kName = Op::kName;
  const Dtype number = NumberDtype(kName, "lse", op.lse);
  const int64_t B = op.q.B, T = op.q.T, S = op.k.T, C = op.q.C;
  FOLIO_CHECK(op.H >= 1 && C % op.H == 0,
              fmt::format("{}: {} channels do not divide into {} heads", kName, C, op.H));
  Sequence(kName, "q", op.q, number, B, T, C);
  Sequence(kName, "k", op.k, number, B, S, C);
  Sequence(kName, "v", op.v, number, B, S, C);
  Sequence(kName, "out", op.out, number, B, T, C);
  Optional(kName, "key_mask", op.key_mask, Dtype::kU8, {B, S});
  Operand(kName, "lse", op.lse, number, {B, op.H, T});
  CheckDropout(kName, op.dropout);
}

}  // namespace

// ---- Embedding ---------------------------------------------------------------------------------

void EmbeddingForward::Check() const {
  Rank(kName, "ids", ids, 2), Rank(kName, "wte", wte, 2);
  const Dtype number = NumberDtype(kName, "wte", wte);
  const int64_t C = wte.dim(1);
  Operand(kName, "ids", ids, Dtype::kI32, ids.shape());
  Operand(kName, "out", out, number, {ids.count(), C});
  if (wpe) {
    Rank(kName, "wpe", wpe, 2);
    Operand(kName, "wpe", wpe, number, {wpe.dim(0), C});
    FOLIO_CHECK(first_position >= 0 && first_position + ids.dim(1) <= wpe.dim(0),
                fmt::format("{}: positions beyond wpe", kName));
  }
  CheckOverlap(*this);
}

double EmbeddingForward::Flops() const {
  return wpe ? Product(ids.count(), wte.dim(1)) : 0;
}

void EmbeddingBackward::Check() const {
  Rank(kName, "ids", ids, 2), Rank(kName, "d_wte", d_wte, 2);
  const Dtype number = NumberDtype(kName, "d_wte", d_wte);
  const int64_t C = d_wte.dim(1);
  Operand(kName, "ids", ids, Dtype::kI32, ids.shape());
  Operand(kName, "d_out", d_out, number, {ids.count(), C});
  if (d_wpe) {
    Rank(kName, "d_wpe", d_wpe, 2);
    Operand(kName, "d_wpe", d_wpe, number, {d_wpe.dim(0), C});
    FOLIO_CHECK(first_position >= 0 && first_position + ids.dim(1) <= d_wpe.dim(0),
                fmt::format("{}: positions beyond d_wpe", kName));
  }
  CheckOverlap(*this);
}

double EmbeddingBackward::Flops() const {
  return Product(ids.count(), d_wte.dim(1)) * (d_wpe ? 2 : 1);
}

// ---- LayerNorm ---------------------------------------------------------------------------------

void LayerNormForward::Check() const {
  Rank(kName, "x", x, 2);
  const Dtype number = NumberDtype(kName, "x", x);
  const int64_t N = x.dim(0), C = x.dim(1);
  FOLIO_CHECK(C >= 1, fmt::format("{}: rows without elements have no mean", kName));
  Operand(kName, "weight", weight, number, {C});
  Optional(kName, "bias", bias, number, {C});
  Operand(kName, "out", out, number, {N, C});
  Operand(kName, "mean", mean, number, {N});
  Operand(kName, "rstd", rstd, number, {N});
  CheckOverlap(*this);
}

// Mean 1, variance 3, normalisation 2, weight 1, bias 1 for each element.
double LayerNormForward::Flops() const {
  return static_cast<double>(x.count()) * (bias ? 8 : 7);
}

void LayerNormBackward::Check() const {
  Rank(kName, "x", x, 2);
  const Dtype number = NumberDtype(kName, "x", x);
  const int64_t N = x.dim(0), C = x.dim(1);
  FOLIO_CHECK(C >= 1, fmt::format("{}: rows without elements have no mean", kName));
  Operand(kName, "weight", weight, number, {C});
  Operand(kName, "mean", mean, number, {N});
  Operand(kName, "rstd", rstd, number, {N});
  Operand(kName, "d_out", d_out, number, {N, C});
  Operand(kName, "d_x", d_x, number, {N, C});
  Operand(kName, "d_weight", d_weight, number, {C});
  Optional(kName, "d_bias", d_bias, number, {C});
  if (accumulate_d_x) {
    CheckOverlap(*this);
  } else {
    CheckOverlap(*this, "d_x", {"d_out"});
  }
}

// Normalised x 2, g = d_out * weight 1, its two sums 3, d_x 4, d_weight 2, d_bias 1.
double LayerNormBackward::Flops() const {
  return static_cast<double>(x.count()) * (12 + (d_bias ? 1 : 0) + (accumulate_d_x ? 1 : 0));
}

// ---- Linear ------------------------------------------------------------------------------------

void LinearForward::Check() const {
  Rank(kName, "x", x, 2), Rank(kName, "weight", weight, 2);
  const Dtype number = NumberDtype(kName, "x", x);
  const int64_t N = x.dim(0), I = x.dim(1), O = weight.dim(transposed ? 0 : 1);
  Operand(kName, "weight", weight, number, transposed ? Shape{O, I} : Shape{I, O});
  Optional(kName, "bias", bias, number, {O});
  Operand(kName, "out", out, number, {N, O});
  CheckOverlap(*this);
}

double LinearForward::Flops() const {
  const double N = static_cast<double>(x.dim(0));
  return 2 * N * static_cast<double>(weight.count()) + (bias ? N * Product(1, out.dim(1)) : 0);
}

void LinearBackward::Check() const {
  Rank(kName, "x", x, 2), Rank(kName, "weight", weight, 2);
  const Dtype number = NumberDtype(kName, "x", x);
  const int64_t N = x.dim(0), I = x.dim(1), O = weight.dim(transposed ? 0 : 1);
  const Shape weight_shape = transposed ? Shape{O, I} : Shape{I, O};
  Operand(kName, "weight", weight, number, weight_shape);
  Operand(kName, "d_out", d_out, number, {N, O});
  Optional(kName, "d_x", d_x, number, {N, I});
  Operand(kName, "d_weight", d_weight, number, weight_shape);
  Optional(kName, "d_bias", d_bias, number, {O});
  CheckOverlap(*this);
}

double LinearBackward::Flops() const {
  const double product = 2 * static_cast<double>(x.dim(0)) * static_cast<double>(weight.count());
  return product * (d_x ? 2 : 1) + (d_bias ? static_cast<double>(d_out.count()) : 0);
}

// ---- Activation --------------------------------------------------------------------------------

namespace {

// A transcendental function counts as one.
double ActivationFlops(Activation kind) {
  switch (kind) {
    case Activation::kGeluNew:
      return 9;
    case Activation::kGelu:
      return 5;
    case Activation::kRelu:
      return 1;
  }
  return 0;
}

}  // namespace

void ActivationForward::Check() const {
  Rank(kName, "x", x, 2);
  Operand(kName, "out", out, NumberDtype(kName, "x", x), x.shape());
  CheckOverlap(*this);
}

double ActivationForward::Flops() const {
  return static_cast<double>(x.count()) * ActivationFlops(kind);
}

void ActivationBackward::Check() const {
  Rank(kName, "x", x, 2);
  const Dtype number = NumberDtype(kName, "x", x);
  Operand(kName, "d_out", d_out, number, x.shape());
  Operand(kName, "d_x", d_x, number, x.shape());
  CheckOverlap(*this, "d_x", {"d_out"});
}

double ActivationBackward::Flops() const {
  return static_cast<double>(x.count()) * 2 * ActivationFlops(kind);
}

// ---- Attention ---------------------------------------------------------------------------------

void AttentionForward::Check() const {
  CheckAttention(*this);
  Optional(kName, "probs", probs, q.dtype, {q.B, H, q.T, k.T});
  CheckOverlap(*this);
}

// For each pair and head: score 2D, softmax 5, weighted sum 2D.
double AttentionForward::Flops() const {
  return static_cast<double>(q.B) * AttentionPairs(q.T, k.T, causal) *
         (4 * static_cast<double>(q.C) + 5 * static_cast<double>(H));
}

void AttentionBackward::Check() const {
  CheckAttention(*this);
  Sequence(kName, "d_out", d_out, q.dtype, q.B, q.T, q.C);
  Sequence(kName, "d_q", d_q, q.dtype, q.B, q.T, q.C);
  Sequence(kName, "d_k", d_k, q.dtype, q.B, k.T, q.C);
  Sequence(kName, "d_v", d_v, q.dtype, q.B, k.T, q.C);
}

// For each pair and head: score, weight's gradient, d_q, d_k and d_v 2D each, softmax 6.
double AttentionBackward::Flops() const {
  return static_cast<double>(q.B) * AttentionPairs(q.T, k.T, causal) *
         (10 * static_cast<double>(q.C) + 6 * static_cast<double>(H));
}

// ---- Residual ----------------------------------------------------------------------------------

void ResidualForward::Check() const {
  Rank(kName, "x", x, 2);
  const Dtype number = NumberDtype(kName, "x", x);
  Optional(kName, "residual", residual, number, x.shape());
  Operand(kName, "out", out, number, x.shape());
  CheckDropout(kName, dropout);
  CheckOverlap(*this, "out", {"residual", "x"});
}

double ResidualForward::Flops() const {
  return static_cast<double>(x.count()) * ((residual ? 1 : 0) + (dropout.active() ? 1 : 0));
}

void ResidualBackward::Check() const {
  Rank(kName, "d_out", d_out, 2);
  Operand(kName, "d_x", d_x, NumberDtype(kName, "d_out", d_out), d_out.shape());
  CheckDropout(kName, dropout);
  CheckOverlap(*this, "d_x", {"d_out"});
}

double ResidualBackward::Flops() const {
  return dropout.active() ? static_cast<double>(d_out.count()) : 0;
}

// ---- Cross-entropy -----------------------------------------------------------------------------

void CrossEntropyForward::Check() const {
  Rank(kName, "logits", logits, 2);
  const Dtype number = NumberDtype(kName, "logits", logits);
  const int64_t N = logits.dim(0);
  FOLIO_CHECK(logits.dim(1) >= 1, fmt::format("{}: empty vocabulary", kName));
  Operand(kName, "targets", targets, Dtype::kI32, {N});
  Operand(kName, "losses", losses, number, {N});
  Operand(kName, "lse", lse, number, {N});
  CheckOverlap(*this);
}

double CrossEntropyForward::Flops() const {
  return static_cast<double>(logits.count()) * 3;
}

void CrossEntropyBackward::Check() const {
  Rank(kName, "logits", logits, 2);
  const Dtype number = NumberDtype(kName, "logits", logits);
  const int64_t N = logits.dim(0);
  Operand(kName, "targets", targets, Dtype::kI32, {N});
  Operand(kName, "lse", lse, number, {N});
  Operand(kName, "d_logits", d_logits, number, logits.shape());
  CheckOverlap(*this, "d_logits", {"logits"});
}

double CrossEntropyBackward::Flops() const {
  return static_cast<double>(logits.count()) * 3;
}

// ---- Optimizer ---------------------------------------------------------------------------------

void AdamWUpdate::Check() const {
  const Dtype number = NumberDtype(kName, "param", param);
  Operand(kName, "grad", grad, number, param.shape());
  Operand(kName, "m", m, number, param.shape());
  Operand(kName, "v", v, number, param.shape());
  FOLIO_CHECK(step >= 1, fmt::format("{}: steps are counted from 1", kName));
  CheckOverlap(*this);
}

double AdamWUpdate::Flops() const {
  return static_cast<double>(param.count()) * 16;
}

void SumOfSquares::Check() const {
  NumberDtype(kName, "x", x);
  Operand(kName, "out", out, Dtype::kF64, {1});
  CheckOverlap(*this);
}

double SumOfSquares::Flops() const {
  return static_cast<double>(x.count()) * 2;
}

void Fill::Check() const {
  NumberDtype(kName, "out", out);
}

double Fill::Flops() const {
  return 0;
}

}  // namespace folio
