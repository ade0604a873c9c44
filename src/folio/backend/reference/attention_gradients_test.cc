// Backward of attention against the complex step of its forward.

#include <cmath>
#include <complex>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "folio/backend/reference/attention.h"
#include "folio/backend/reference/test_gradcheck.h"

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
    // `added` is one mask for both sequences, with a number for each pair but the first.
    Real added = RandomNumbers(T * S, 9);
    added[0] = -std::numeric_limits<double>::infinity();
    std::vector<uint8_t> allowed(Size(2 * T * S), 1);
    for (size_t i = 0; i < allowed.size(); i += 3) allowed[i] = 0;
    for (int options = 0; options < 8; ++options) {
      for (const auto& [H, G] : kHeads) {
        SCOPED_TRACE("T " + std::to_string(T) + " S " + std::to_string(S) + " H " +
                     std::to_string(H) + " G " + std::to_string(G) + " options " +
                     std::to_string(options));
        const Dropout dropout = {.p = 0.4, .seed = 5, .stream = 9, .first_row = 11};
        AttentionShape shape = {{.B = 2, .T = T, .S = S, .H = H, .G = G, .D = 3},
                                (options & 1) != 0,
                                options & 2 ? mask.data() : nullptr,
                                options & 4 ? dropout : Dropout()};
        CheckAttention(shape);
        shape.allowed = allowed.data();
        CheckAttention(shape);
        shape.allowed = nullptr;
        shape.scale = 0.3;
        shape.added = added;
        shape.one_mask = true;
        CheckAttention(shape);
      }
    }
  }
}

}  // namespace
}  // namespace folio::reference
