#include "folio/lesson/attention_steps.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <span>
#include <string_view>

#include "folio/backend/operands.h"
#include "folio/base/check.h"
#include "folio/lesson/attention_step_templates.h"

namespace folio {
namespace {

// Calls f with a number of x's type.
template <class F>
void InNumbersOf(const Tensor& x, F&& f) {
  // NOLINTNEXTLINE(bugprone-branch-clone): of different types
  x.dtype() == Dtype::kF64 ? f(double()) : f(float());
}

// The sizes of attention with these scores (or weights), rows of queries and rows of keys.
struct HeadOperand {
  std::string_view name;
  const Tensor& x;
};
steps::HeadSizes CheckedHeads(std::string_view step, HeadOperand square, HeadOperand queries,
                              HeadOperand keys) {
  const Dtype number = NumberDtype(step, square.name, square.x);
  CheckRank(step, square.name, square.x, 4);
  CheckRank(step, queries.name, queries.x, 2);
  CheckRank(step, keys.name, keys.x, 2);
  steps::HeadSizes a = {
      .B = square.x.dim(0), .T = square.x.dim(2), .S = square.x.dim(3), .H = square.x.dim(1)};
  a.D = queries.x.dim(1) / a.H;
  a.G = a.D == 0 ? 0 : keys.x.dim(1) / a.D;
  FOLIO_CHECK(a.D >= 1 && a.G >= 1 && a.H % a.G == 0,
              fmt::format("{}: {} heads of queries in {} channels do not fit keys of {}", step, a.H,
                          queries.x.dim(1), keys.x.dim(1)));
  CheckOperand(step, queries.name, queries.x, number, {a.B * a.T, a.H * a.D});
  CheckOperand(step, keys.name, keys.x, number, {a.B * a.S, a.G * a.D});
  return a;
}

// Rows and their length, the last dimension.
struct RowSizes {
  int64_t N, S;
};
RowSizes CheckedRows(std::string_view step, std::string_view name, const Tensor& x) {
  NumberDtype(step, name, x);
  const int64_t S = x.shape().back();
  return {S == 0 ? 0 : x.count() / S, S};
}
// Fails unless y has the shape and dtype of x.
void CheckLike(std::string_view step, std::string_view name, const Tensor& y, const Tensor& x) {
  CheckOperand(step, name, y, x.dtype(), x.shape());
}
// Fails where `x` overlaps `out`, since it is read after `written` was begun.
void CheckApart(std::string_view step, std::string_view name, const Tensor& x,
                std::string_view written, const Tensor& out) {
  if (Overlap(x, out)) FailOverlap(step, written, name);
}

// Weights below the smallest normal number are 0, as in the kernels that models run on.
void FlushSubnormals(const Tensor& weights) {
  InNumbersOf(weights, [&]<class N>(N) {
    for (N& weight : std::span(weights.data<N>(), static_cast<size_t>(weights.count()))) {
      if (std::abs(weight) < std::numeric_limits<N>::min()) weight = 0;
    }
  });
}

}  // namespace

void AttentionScores(const Tensor& q, const Tensor& k, double scale, const Tensor& scores) {
  const auto a = CheckedHeads("attention scores", {"scores", scores}, {"q", q}, {"k", k});
  InNumbersOf(scores, [&]<class N>(N) {
    steps::Products(a, q.data<N>(), k.data<N>(), scale, scores.data<N>());
  });
}

void AttentionScoresBackward(const Tensor& q, const Tensor& k, double scale, const Tensor& d_scores,
                             const Tensor& d_q, const Tensor& d_k) {
  constexpr std::string_view kStep = "attention scores backward";
  const auto a = CheckedHeads(kStep, {"d_scores", d_scores}, {"q", q}, {"k", k});
  CheckLike(kStep, "d_q", d_q, q);
  CheckLike(kStep, "d_k", d_k, k);
  InNumbersOf(d_scores, [&]<class N>(N) {
    steps::SumOverKeys(a, d_scores.data<N>(), k.data<N>(), scale, d_q.data<N>());
    steps::SumOverQueries(a, d_scores.data<N>(), q.data<N>(), scale, d_k.data<N>());
  });
}

void ApplyMask(const Tensor& x, const Tensor& mask, double fill, const Tensor& out) {
  CheckRank("mask", "x", x, 4);
  CheckRank("mask", "mask", mask, 4);
  const int64_t B = mask.dim(0) == 1 ? 1 : x.dim(0), H = mask.dim(1) == 1 ? 1 : x.dim(1);
  CheckOperand("mask", "mask", mask, Dtype::kU8, {B, H, x.dim(2), x.dim(3)});
  CheckLike("mask", "out", out, x);
  InNumbersOf(x, [&]<class N>(N) {
    steps::Mask(x.data<N>(), mask.data<uint8_t>(), out.data<N>(), x.dim(0), x.dim(1), B, H,
                x.dim(2) * x.dim(3), fill);
  });
}

void Softmax(const Tensor& x, const Tensor& out) {
  const RowSizes rows = CheckedRows("softmax", "x", x);
  CheckLike("softmax", "out", out, x);
  InNumbersOf(x, [&]<class N>(N) { steps::Softmax(x.data<N>(), out.data<N>(), rows.N, rows.S); });
  FlushSubnormals(out);
}

void NaiveSoftmax(const Tensor& x, const Tensor& out) {
  const RowSizes rows = CheckedRows("naive softmax", "x", x);
  CheckLike("naive softmax", "out", out, x);
  InNumbersOf(x,
              [&]<class N>(N) { steps::NaiveSoftmax(x.data<N>(), out.data<N>(), rows.N, rows.S); });
  FlushSubnormals(out);
}

void SoftmaxBackward(const Tensor& out, const Tensor& d_out, const Tensor& d_x) {
  const RowSizes rows = CheckedRows("softmax backward", "out", out);
  CheckLike("softmax backward", "d_out", d_out, out);
  CheckLike("softmax backward", "d_x", d_x, out);
  CheckApart("softmax backward", "out", out, "d_x", d_x);
  InNumbersOf(out, [&]<class N>(N) {
    steps::SoftmaxBackward(out.data<N>(), d_out.data<N>(), d_x.data<N>(), rows.N, rows.S);
  });
}

void Normalize(const Tensor& x, const Tensor& out, const Tensor& sums) {
  const RowSizes rows = CheckedRows("normalize", "x", x);
  CheckLike("normalize", "out", out, x);
  CheckOperand("normalize", "sums", sums, x.dtype(), {rows.N});
  InNumbersOf(x, [&]<class N>(N) {
    steps::Normalize(x.data<N>(), out.data<N>(), sums.data<N>(), rows.N, rows.S);
  });
}

void NormalizeBackward(const Tensor& out, const Tensor& sums, const Tensor& d_out,
                       const Tensor& d_x) {
  const RowSizes rows = CheckedRows("normalize backward", "out", out);
  CheckOperand("normalize backward", "sums", sums, out.dtype(), {rows.N});
  CheckLike("normalize backward", "d_out", d_out, out);
  CheckLike("normalize backward", "d_x", d_x, out);
  CheckApart("normalize backward", "out", out, "d_x", d_x);
  InNumbersOf(out, [&]<class N>(N) {
    steps::NormalizeBackward(out.data<N>(), sums.data<N>(), d_out.data<N>(), d_x.data<N>(), rows.N,
                             rows.S);
  });
}

void AttentionContext(const Tensor& weights, const Tensor& v, const Tensor& context) {
  const auto a =
      CheckedHeads("attention context", {"weights", weights}, {"context", context}, {"v", v});
  InNumbersOf(weights, [&]<class N>(N) {
    steps::SumOverKeys(a, weights.data<N>(), v.data<N>(), 1, context.data<N>());
  });
}

void AttentionContextBackward(const Tensor& weights, const Tensor& v, const Tensor& d_context,
                              const Tensor& d_weights, const Tensor& d_v) {
  constexpr std::string_view kStep = "attention context backward";
  const auto a = CheckedHeads(kStep, {"weights", weights}, {"d_context", d_context}, {"v", v});
  CheckLike(kStep, "d_weights", d_weights, weights);
  CheckLike(kStep, "d_v", d_v, v);
  InNumbersOf(weights, [&]<class N>(N) {
    steps::Products(a, d_context.data<N>(), v.data<N>(), 1, d_weights.data<N>());
    steps::SumOverQueries(a, weights.data<N>(), d_context.data<N>(), 1, d_v.data<N>());
  });
}

}  // namespace folio
