// Backward of attention, whole and in steps, against the complex step of its forward.

#include <cmath>
#include <complex>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "folio/backend/reference/attention.h"
#include "folio/backend/reference/attention_context.h"
#include "folio/backend/reference/attention_scores.h"
#include "folio/backend/reference/gradcheck.h"
#include "folio/backend/reference/mask.h"
#include "folio/backend/reference/softmax.h"

namespace folio::reference {
namespace {

using Real = std::vector<double>;
using Numbers = std::vector<Complex>;

size_t Size(int64_t n) {
  return static_cast<size_t>(n);
}

// Rows further apart than C, as in a fused array; the gaps are not the operation's.
constexpr int64_t kGap = 2;

template <class Number>
Rows<Number> View(Number* data, int64_t rows, int64_t C) {
  return {data, rows * (C + kGap), C + kGap};
}

struct Lengths {
  int64_t T, S;
};
constexpr Lengths kLengths[] = {{1, 1}, {3, 3}, {2, 5}, {1, 4}};

struct Heads {
  int64_t H, G;
};
constexpr Heads kHeads[] = {{1, 0}, {2, 0}, {2, 1}, {4, 2}};

void CheckAttention(const AttentionShape& a) {
  const int64_t C = a.H * a.D, K = a.key_heads() * a.D;
  const int64_t queries = a.B * a.T * (C + kGap), keys = a.B * a.S * (K + kGap);
  const Real q0 = RandomNumbers(queries, 1), k0 = RandomNumbers(keys, 2);
  const Real v0 = RandomNumbers(keys, 3), d_out = RandomNumbers(queries, 4);
  Numbers q = ToComplex(q0), k = ToComplex(k0), v = ToComplex(v0);
  const auto loss = [&] {
    Numbers out(q.size()), lse(Size(a.B * a.H * a.T)), probs(Size(a.B * a.H * a.T * a.S));
    AttentionForward<Complex>(
        a, View<const Complex>(q.data(), a.T, C), View<const Complex>(k.data(), a.S, K),
        View<const Complex>(v.data(), a.S, K), View(out.data(), a.T, C), lse.data(), probs.data());
    return Loss(out, d_out);
  };
  const auto q_view = View(q0.data(), a.T, C), k_view = View(k0.data(), a.S, K);
  const auto v_view = View(v0.data(), a.S, K), d_out_view = View(d_out.data(), a.T, C);
  Real out(Size(queries)), lse(Size(a.B * a.H * a.T));
  AttentionForward<double>(a, q_view, k_view, v_view, View(out.data(), a.T, C), lse.data(),
                           nullptr);
  Real d_q(Size(queries)), d_k(Size(keys)), d_v(Size(keys));
  AttentionBackward<double>(a, q_view, k_view, v_view, lse.data(), d_out_view,
                            View(d_q.data(), a.T, C), View(d_k.data(), a.S, K),
                            View(d_v.data(), a.S, K));
  ExpectGradient(d_q, ComplexStep(q, loss), {}, "d_q");
  ExpectGradient(d_k, ComplexStep(k, loss), {}, "d_k");
  ExpectGradient(d_v, ComplexStep(v, loss), {}, "d_v");
}

TEST(ReferenceGradients, Attention) {
  for (const auto& [T, S] : kLengths) {
    // The first key of the second sequence is hidden: with T = S its first query sees nothing.
    std::vector<uint8_t> mask(Size(2 * S), 1);
    mask[Size(S)] = 0;
    for (int options = 0; options < 8; ++options) {
      for (const auto& [H, G] : kHeads) {
        SCOPED_TRACE("T " + std::to_string(T) + " S " + std::to_string(S) + " H " +
                     std::to_string(H) + " G " + std::to_string(G) + " options " +
                     std::to_string(options));
        const Dropout dropout = {.p = 0.4, .seed = 5, .stream = 9, .first_row = 11};
        CheckAttention({{.B = 2, .T = T, .S = S, .H = H, .G = G, .D = 3},
                        (options & 1) != 0,
                        options & 2 ? mask.data() : nullptr,
                        options & 4 ? dropout : Dropout()});
      }
    }
  }
}

void CheckScores(const HeadSizes& a, double scale) {
  const int64_t C = a.H * a.D, K = a.key_heads() * a.D;
  const Real q0 = RandomNumbers(a.B * a.T * (C + kGap), 1);
  const Real k0 = RandomNumbers(a.B * a.S * (K + kGap), 2);
  const Real d_scores = RandomNumbers(a.B * a.H * a.T * a.S, 3);
  Numbers q = ToComplex(q0), k = ToComplex(k0);
  const auto loss = [&] {
    Numbers scores(d_scores.size());
    AttentionScoresForward<Complex>(a, View<const Complex>(q.data(), a.T, C),
                                    View<const Complex>(k.data(), a.S, K), scores.data(), scale);
    return Loss(scores, d_scores);
  };
  Real d_q(q0.size()), d_k(k0.size());
  AttentionScoresBackward<double>(a, View(q0.data(), a.T, C), View(k0.data(), a.S, K),
                                  d_scores.data(), View(d_q.data(), a.T, C),
                                  View(d_k.data(), a.S, K), scale);
  ExpectGradient(d_q, ComplexStep(q, loss), {}, "d_q");
  ExpectGradient(d_k, ComplexStep(k, loss), {}, "d_k");
}

void CheckContext(const HeadSizes& a) {
  const int64_t C = a.H * a.D, K = a.key_heads() * a.D;
  const Real weights0 = RandomNumbers(a.B * a.H * a.T * a.S, 1);
  const Real v0 = RandomNumbers(a.B * a.S * (K + kGap), 2);
  const Real d_out = RandomNumbers(a.B * a.T * (C + kGap), 3);
  Numbers weights = ToComplex(weights0), v = ToComplex(v0);
  const auto loss = [&] {
    Numbers out(d_out.size());
    AttentionContextForward<Complex>(a, weights.data(), View<const Complex>(v.data(), a.S, K),
                                     View(out.data(), a.T, C));
    return Loss(out, d_out);
  };
  Real d_weights(weights0.size()), d_v(v0.size());
  AttentionContextBackward<double>(a, weights0.data(), View(v0.data(), a.S, K),
                                   View(d_out.data(), a.T, C), d_weights.data(),
                                   View(d_v.data(), a.S, K));
  ExpectGradient(d_weights, ComplexStep(weights, loss), {}, "d_weights");
  ExpectGradient(d_v, ComplexStep(v, loss), {}, "d_v");
}

TEST(ReferenceGradients, AttentionScoresAndContext) {
  for (const auto& [T, S] : kLengths) {
    for (const auto& [H, G] : kHeads) {
      SCOPED_TRACE("T " + std::to_string(T) + " S " + std::to_string(S) + " H " +
                   std::to_string(H) + " G " + std::to_string(G));
      const HeadSizes sizes = {.B = 2, .T = T, .S = S, .H = H, .G = G, .D = 3};
      CheckScores(sizes, 0.3);
      CheckContext(sizes);
    }
  }
}

// The gradient goes through the same mask, and what fills the gaps has none.
TEST(ReferenceGradients, Mask) {
  constexpr int64_t kB = 2, kH = 3, kMatrix = 5;
  for (const int64_t mask_B : {int64_t{1}, kB}) {
    for (const int64_t mask_H : {int64_t{1}, kH}) {
      std::vector<uint8_t> mask;
      for (int64_t i = 0; i < mask_B * mask_H * kMatrix; ++i) mask.push_back(i % 3 != 1);
      Numbers x = ToComplex(RandomNumbers(kB * kH * kMatrix, 1));
      const Real d_out = RandomNumbers(kB * kH * kMatrix, 2);
      const auto loss = [&] {
        Numbers out(x.size());
        MaskForward<Complex>(x.data(), mask.data(), out.data(), kB, kH, mask_B, mask_H, kMatrix,
                             -2.5);
        return Loss(out, d_out);
      };
      Real d_x(x.size());
      MaskForward<double>(d_out.data(), mask.data(), d_x.data(), kB, kH, mask_B, mask_H, kMatrix,
                          0);
      ExpectGradient(d_x, ComplexStep(x, loss), {}, "d_x");
    }
  }
}

TEST(ReferenceGradients, Softmax) {
  constexpr int64_t kN = 3;
  for (const int64_t S : {1, 2, 7}) {
    Real x0 = RandomNumbers(kN * S, 1);
    x0[0] = -std::numeric_limits<double>::infinity();  // with S = 1, all of its row
    Numbers x = ToComplex(x0);
    const Real d_out = RandomNumbers(kN * S, 2);
    for (const bool naive : {false, true}) {
      const auto loss = [&] {
        Numbers out(x.size());
        naive ? NaiveSoftmaxForward<Complex>(x.data(), out.data(), kN, S)
              : SoftmaxForward<Complex>(x.data(), out.data(), kN, S);
        return Loss(out, d_out);
      };
      Real out(x0.size()), d_x(x0.size());
      SoftmaxForward<double>(x0.data(), out.data(), kN, S);
      SoftmaxBackward<double>(out.data(), d_out.data(), d_x.data(), kN, S);
      ExpectGradient(d_x, ComplexStep(x, loss), {}, naive ? "naive d_x" : "d_x");
    }
  }
}

TEST(ReferenceGradients, Normalize) {
  constexpr int64_t kN = 3;
  for (const int64_t S : {1, 2, 7}) {
    Real x0 = RandomNumbers(kN * S, 1);
    for (double& v : x0) v = 0.5 + std::abs(v);
    Numbers x = ToComplex(x0);
    const Real d_out = RandomNumbers(kN * S, 2);
    const auto loss = [&] {
      Numbers out(x.size()), sums(kN);
      NormalizeForward<Complex>(x.data(), out.data(), sums.data(), kN, S);
      return Loss(out, d_out);
    };
    Real out(x0.size()), sums(kN), d_x(x0.size());
    NormalizeForward<double>(x0.data(), out.data(), sums.data(), kN, S);
    NormalizeBackward<double>(out.data(), sums.data(), d_out.data(), d_x.data(), kN, S);
    ExpectGradient(d_x, ComplexStep(x, loss), {}, "d_x");
  }
}

}  // namespace
}  // namespace folio::reference
