// Every backward of the reference against the complex step of its forward, with every option.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "folio/backend/reference/operations.h"
#include "folio/base/rng.h"
#include "tests/kit/near.h"

namespace folio::reference {
namespace {

using Real = std::vector<double>;
using Complex = std::complex<double>;
using Numbers = std::vector<Complex>;

// Standard normal numbers; the same for the same stream.
Real RandomNumbers(int64_t count, uint64_t stream) {
  const CounterRng rng(20240607, stream);
  Real x(static_cast<size_t>(count));
  for (size_t i = 0; i < x.size(); ++i) x[i] = rng.Normal(i);
  return x;
}

Numbers ToComplex(const Real& x) {
  return {x.begin(), x.end()};
}

// sum of weight[i] * x[i]: turns the outputs of an operation into one loss whose gradient with
// respect to the outputs is `weight`.
Complex Loss(const Numbers& x, const Real& weight) {
  Complex sum = 0;
  for (size_t i = 0; i < x.size(); ++i) sum += x[i] * weight[i];
  return sum;
}

// d loss() / d x by the complex step: Im loss(x + ih) / h with h too small to change anything real,
// so that no digits are lost (W. Squire, G. Trapp, SIAM Review 40 (1998), 110-112). `loss` must
// read x and use nothing but analytic functions of it.
template <class F>
Real ComplexStep(Numbers& x, F&& loss) {
  constexpr double kStep = 1e-30;
  Real gradient;
  for (Complex& element : x) {
    const Complex before = element;
    element += Complex(0, kStep);
    gradient.push_back(loss().imag() / kStep);
    element = before;
  }
  return gradient;
}

// `found` must equal before + gradient except for rounding in double: 1e-12 of the largest
// magnitude. `before` may be empty.
void ExpectGradient(const Real& found, const Real& gradient, const Real& before,
                    const std::string& what) {
  ASSERT_EQ(found.size(), gradient.size()) << what;
  const double largest = std::max({1e-3, Largest(gradient), Largest(before)});
  for (size_t i = 0; i < found.size(); ++i) {
    const double expected = gradient[i] + (before.empty() ? 0 : before[i]);
    ASSERT_TRUE(std::abs(found[i] - expected) <= 1e-12 * largest)
        << what << "[" << i << "]: " << found[i] << ", expected " << expected;
  }
}

TEST(ReferenceGradients, Embedding) {
  constexpr int64_t kB = 2, kT = 3, kC = 5, kV = 7, kP = 6;
  const std::vector<int32_t> ids = {3, 6, 3, 0, 3, 1};  // one token three times
  const std::vector<int32_t> packed = {0, 1, 0, 5, 0, 5};
  for (const int places : {0, 1, 2}) {  // none, consecutive, given
    const bool positions = places > 0;
    const int32_t* at = places == 2 ? packed.data() : nullptr;
    Numbers wte = ToComplex(RandomNumbers(kV * kC, 1)), wpe = ToComplex(RandomNumbers(kP * kC, 2));
    const Real d_out = RandomNumbers(kB * kT * kC, 3);
    const auto loss = [&] {
      Numbers out(d_out.size());
      EmbeddingForward<Complex>(ids.data(), wte.data(), positions ? wpe.data() : nullptr,
                                out.data(), kB, kT, kC, kV, at);
      return Loss(out, d_out);
    };
    const Real wte_before = RandomNumbers(kV * kC, 4), wpe_before = RandomNumbers(kP * kC, 5);
    Real d_wte = wte_before, d_wpe = wpe_before;
    EmbeddingBackward<double>(ids.data(), d_out.data(), d_wte.data(),
                              positions ? d_wpe.data() : nullptr, kB, kT, kC, kV, at);
    ExpectGradient(d_wte, ComplexStep(wte, loss), wte_before, "d_wte");
    ExpectGradient(d_wpe, ComplexStep(wpe, loss), wpe_before, "d_wpe");
  }
}

TEST(ReferenceGradients, LayerNorm) {
  constexpr int64_t kN = 3;
  constexpr double kEps = 1e-5;
  for (const int64_t C : {1, 2, 7}) {
    for (const bool with_bias : {true, false}) {
      for (const bool accumulate : {true, false}) {
        const Real x0 = RandomNumbers(kN * C, 1), weight0 = RandomNumbers(C, 2);
        Numbers x = ToComplex(x0), weight = ToComplex(weight0);
        Numbers bias = ToComplex(RandomNumbers(C, 3));
        const Real d_out = RandomNumbers(kN * C, 4);
        const auto loss = [&] {
          Numbers out(x.size()), mean(kN), rstd(kN);
          LayerNormForward<Complex>(x.data(), weight.data(), with_bias ? bias.data() : nullptr,
                                    out.data(), mean.data(), rstd.data(), kN, C, kEps);
          return Loss(out, d_out);
        };
        Real out(x0.size()), mean(kN), rstd(kN);
        LayerNormForward<double>(x0.data(), weight0.data(), nullptr, out.data(), mean.data(),
                                 rstd.data(), kN, C, kEps);
        const Real x_before = RandomNumbers(kN * C, 5), weight_before = RandomNumbers(C, 6);
        const Real bias_before = RandomNumbers(C, 7);
        Real d_x = x_before, d_weight = weight_before, d_bias = bias_before;
        LayerNormBackward<double>(x0.data(), weight0.data(), mean.data(), rstd.data(), d_out.data(),
                                  d_x.data(), d_weight.data(), with_bias ? d_bias.data() : nullptr,
                                  kN, C, accumulate);
        ExpectGradient(d_x, ComplexStep(x, loss), accumulate ? x_before : Real(), "d_x");
        ExpectGradient(d_weight, ComplexStep(weight, loss), weight_before, "d_weight");
        ExpectGradient(d_bias, ComplexStep(bias, loss), bias_before, "d_bias");
      }
    }
  }
}

// None, a weight, and one stored minus 1.
struct NormKind {
  bool weight;
  double offset;
};
constexpr NormKind kNormKinds[] = {{false, 0}, {true, 0}, {true, 1}};

TEST(ReferenceGradients, RmsNorm) {
  constexpr int64_t kN = 3;
  constexpr double kEps = 1e-2;
  for (const int64_t C : {1, 2, 7}) {
    for (const auto& [with_weight, offset] : kNormKinds) {
      for (const bool accumulate : {true, false}) {
        const Real x0 = RandomNumbers(kN * C, 1), weight0 = RandomNumbers(C, 2);
        Numbers x = ToComplex(x0), weight = ToComplex(weight0);
        const Real d_out = RandomNumbers(kN * C, 3);
        const auto loss = [&, offset = offset, with_weight = with_weight] {
          Numbers out(x.size()), rstd(kN);
          RmsNormForward<Complex>(x.data(), {with_weight ? weight.data() : nullptr, offset},
                                  out.data(), rstd.data(), kN, C, kEps);
          return Loss(out, d_out);
        };
        const NormFactor<double> factor = {with_weight ? weight0.data() : nullptr, offset};
        Real out(x0.size()), rstd(kN);
        RmsNormForward(x0.data(), factor, out.data(), rstd.data(), kN, C, kEps);
        const Real x_before = RandomNumbers(kN * C, 4), weight_before = RandomNumbers(C, 5);
        Real d_x = x_before, d_weight = weight_before;
        RmsNormBackward(x0.data(), factor, rstd.data(), d_out.data(), d_x.data(),
                        with_weight ? d_weight.data() : nullptr, kN, C, accumulate);
        ExpectGradient(d_x, ComplexStep(x, loss), accumulate ? x_before : Real(), "d_x");
        ExpectGradient(d_weight, ComplexStep(weight, loss), weight_before, "d_weight");
      }
    }
  }
}

TEST(ReferenceGradients, HeadNorm) {
  constexpr double kEps = 1e-2, kScale = 1.2;
  for (const int64_t group : {3, 6}) {
    for (const auto& [with_weight, offset] : kNormKinds) {
      const HeadNormShape shape = {.B = 2, .T = 2, .C = 6, .group = group};
      const int64_t N = shape.B * shape.T, count = N * (shape.C + 1);  // a column that is not part
      const auto rows = [&]<class Number>(std::vector<Number>& x) {
        return Rows<Number>{x.data(), shape.T * (shape.C + 1), shape.C + 1};
      };
      const Real x0 = RandomNumbers(count, 1), weight0 = RandomNumbers(group, 2);
      Numbers x = ToComplex(x0), weight = ToComplex(weight0);
      const Real d_out = RandomNumbers(count, 3);
      const auto loss = [&, offset = offset, with_weight = with_weight] {
        Numbers out = x;
        HeadNormForward<Complex>(shape, rows(out),
                                 {with_weight ? weight.data() : nullptr, offset, kScale}, nullptr,
                                 nullptr, kEps);
        return Loss(out, d_out);
      };
      const NormFactor<double> factor = {with_weight ? weight0.data() : nullptr, offset, kScale};
      Real out = x0, raw(static_cast<size_t>(N * shape.C));
      Real rstd(static_cast<size_t>(N * shape.groups()));
      HeadNormForward(shape, rows(out), factor, raw.data(), rstd.data(), kEps);
      const Real weight_before = RandomNumbers(group, 4);
      Real d_x = d_out, d_weight = weight_before;
      HeadNormBackward(shape, raw.data(), factor, rstd.data(), rows(d_x),
                       with_weight ? d_weight.data() : nullptr);
      ExpectGradient(d_x, ComplexStep(x, loss), {}, "d_x");
      ExpectGradient(d_weight, ComplexStep(weight, loss), weight_before, "d_weight");
    }
  }
}

TEST(ReferenceGradients, Mix) {
  constexpr int64_t kCount = 12;
  const Real x0 = RandomNumbers(kCount, 1), y0 = RandomNumbers(kCount, 2);
  Numbers x = ToComplex(x0), y = ToComplex(y0), a = {0.7}, b = {-1.3};
  const Real d_out = RandomNumbers(kCount, 3), a0 = {0.7}, b0 = {-1.3};
  for (const bool flag : {false, true}) {
    const double sign = flag ? 1 : -1;
    const auto loss = [&] {
      Numbers out(kCount);
      MixForward(x.data(), y.data(), flag ? a.data() : nullptr, b.data(), sign, out.data(), kCount);
      return Loss(out, d_out);
    };
    const Real before = RandomNumbers(kCount, 4), one_before = {0.25};
    Real d_x = d_out, d_y = before, d_a = one_before, d_b = one_before;
    MixBackward(
        x0.data(), y0.data(), flag ? a0.data() : nullptr, b0.data(), sign, d_x.data(),
        MixGradients<double>{d_x.data(), d_y.data(), flag ? d_a.data() : nullptr, d_b.data(), flag},
        kCount);
    ExpectGradient(d_x, ComplexStep(x, loss), {}, "d_x");
    ExpectGradient(d_y, ComplexStep(y, loss), flag ? before : Real(), "d_y");
    if (flag) ExpectGradient(d_a, ComplexStep(a, loss), one_before, "d_x_factor");
    ExpectGradient(d_b, ComplexStep(b, loss), one_before, "d_y_factor");
  }
}

TEST(ReferenceGradients, GatedAdd) {
  for (const bool flag : {false, true}) {
    const GatedAddShape s = {.B = 2, .T = 3, .C = 6, .X = 5, .G = 2, .J = 3, .scale = 3};
    const int64_t N = s.B * s.T;
    const Real x0 = RandomNumbers(N * s.X, 1), weight0 = RandomNumbers(s.G * s.J, 2);
    const Real y0 = RandomNumbers(N * s.C, 3), d_out = RandomNumbers(N * s.C, 4), factor0 = {0.6};
    Numbers x = ToComplex(x0), weight = ToComplex(weight0), y = ToComplex(y0), factor = {0.6};
    const auto loss = [&] {
      Numbers out(d_out.size());
      GatedAddForward<Complex>(s, x.data(), weight.data(), y.data(), flag ? factor.data() : nullptr,
                               {out.data(), s.T * s.C, s.C});
      return Loss(out, d_out);
    };
    const Real x_before = RandomNumbers(N * s.X, 5), weight_before = RandomNumbers(s.G * s.J, 6);
    const Real factor_before = {0.25};
    Real d_y = y0, d_x = x_before, d_weight = weight_before, d_factor = factor_before;
    GatedAddBackward<double>(s, x0.data(), weight0.data(), d_y.data(),
                             flag ? factor0.data() : nullptr, {d_out.data(), s.T * s.C, s.C},
                             GatedAddGradients<double>{d_y.data(), d_x.data(), d_weight.data(),
                                                       flag ? d_factor.data() : nullptr});
    ExpectGradient(d_y, ComplexStep(y, loss), {}, "d_y");
    ExpectGradient(d_x, ComplexStep(x, loss), x_before, "d_x");
    ExpectGradient(d_weight, ComplexStep(weight, loss), weight_before, "d_weight");
    if (flag) ExpectGradient(d_factor, ComplexStep(factor, loss), factor_before, "d_factor");
  }
}

TEST(ReferenceGradients, Rotary) {
  const HeadSizes shape = {.B = 2, .T = 3, .H = 2, .D = 7};
  const int64_t C = shape.H * shape.D, count = shape.B * shape.T * C;
  for (const int64_t r : {2, 6}) {
    for (const bool shared : {false, true}) {
      const Real table = RandomNumbers((shared ? 1 : shape.B) * shape.T * r, 1);
      const Numbers complex_table = ToComplex(table);
      Numbers x = ToComplex(RandomNumbers(count, 2));
      const Real d_out = RandomNumbers(count, 3);
      const auto loss = [&] {
        Numbers out = x;
        Rotary<Complex>(shape, {out.data(), shape.T * C, C}, complex_table.data(), shared, r,
                        false);
        return Loss(out, d_out);
      };
      Real d_x = d_out;
      Rotary<double>(shape, {d_x.data(), shape.T * C, C}, table.data(), shared, r, true);
      ExpectGradient(d_x, ComplexStep(x, loss), {}, "d_x");
    }
  }
}

void CheckLinear(bool transposed, bool with_bias, bool with_d_x, bool accumulate,
                 bool with_d_weight, bool accumulate_d_weight) {
  constexpr int64_t kN = 3, kI = 5, kO = 4;
  const Real x0 = RandomNumbers(kN * kI, 1), weight0 = RandomNumbers(kI * kO, 2);
  Numbers x = ToComplex(x0), weight = ToComplex(weight0), bias = ToComplex(RandomNumbers(kO, 3));
  const Real d_out = RandomNumbers(kN * kO, 4);
  const auto loss = [&] {
    Numbers out(d_out.size());
    LinearForward<Complex>(x.data(), weight.data(), with_bias ? bias.data() : nullptr, out.data(),
                           kN, kI, kO, transposed);
    return Loss(out, d_out);
  };
  const Real x_before = RandomNumbers(kN * kI, 5), weight_before = RandomNumbers(kI * kO, 6);
  const Real bias_before = RandomNumbers(kO, 7);
  Real d_x = x_before, d_weight = weight_before, d_bias = bias_before;
  LinearBackward<double>(with_d_weight ? x0.data() : nullptr, weight0.data(), d_out.data(),
                         with_d_x ? d_x.data() : nullptr, with_d_weight ? d_weight.data() : nullptr,
                         with_bias ? d_bias.data() : nullptr, kN, kI, kO, transposed, accumulate,
                         accumulate_d_weight);
  if (with_d_x) ExpectGradient(d_x, ComplexStep(x, loss), accumulate ? x_before : Real(), "d_x");
  if (with_d_weight) {
    ExpectGradient(d_weight, ComplexStep(weight, loss),
                   accumulate_d_weight ? weight_before : Real(), "d_weight");
  }
  ExpectGradient(d_bias, ComplexStep(bias, loss), bias_before, "d_bias");
}

TEST(ReferenceGradients, Linear) {
  for (int options = 0; options < 64; ++options) {
    SCOPED_TRACE(options);
    CheckLinear(options & 1, options & 2, options & 4, options & 8, options & 16, options & 32);
  }
}

TEST(ReferenceGradients, Activation) {
  for (const auto& [kind, name, flops] : kActivations) {
    SCOPED_TRACE(name);
    Real x0 = RandomNumbers(40, 1);
    for (double& v : x0) v *= 3;
    x0.insert(x0.end(), {0.0, 20.0, -20.0, 1e-9});
    Numbers x = ToComplex(x0);
    const auto count = static_cast<int64_t>(x0.size());
    const Real d_out = RandomNumbers(count, 2);
    const auto loss = [&, kind = kind] {
      Numbers out(x.size());
      ActivationForward<Complex>(kind, x.data(), out.data(), count);
      return Loss(out, d_out);
    };
    Real d_x(x0.size());
    ActivationBackward<double>(kind, x0.data(), d_out.data(), d_x.data(), count);
    ExpectGradient(d_x, ComplexStep(x, loss), {}, "d_x");
  }
}

TEST(ReferenceGradients, Gated) {
  constexpr int64_t kN = 3, kF = 5;
  for (const auto& [kind, name, flops] : kActivations) {
    SCOPED_TRACE(name);
    const Real x0 = RandomNumbers(kN * 2 * kF, 1), d_out = RandomNumbers(kN * kF, 2);
    Numbers x = ToComplex(x0);
    const auto loss = [&, kind = kind] {
      Numbers out(d_out.size());
      GatedForward<Complex>(kind, x.data(), out.data(), kN, kF);
      return Loss(out, d_out);
    };
    Real d_x = x0;  // in place
    GatedBackward<double>(kind, d_x.data(), d_out.data(), d_x.data(), kN, kF);
    ExpectGradient(d_x, ComplexStep(x, loss), {}, "d_x");
  }
}

TEST(ReferenceGradients, Residual) {
  constexpr int64_t kN = 4, kC = 5;
  constexpr double kFactor = 0.22;
  for (const double p : {0.0, 0.3}) {
    for (const bool with_residual : {true, false}) {
      const Dropout dropout = {.p = p, .seed = 3, .stream = 4, .first_row = 7};
      Numbers x = ToComplex(RandomNumbers(kN * kC, 1));
      Numbers residual = ToComplex(RandomNumbers(kN * kC, 2));
      const Real d_out = RandomNumbers(kN * kC, 3);
      const auto loss = [&] {
        Numbers out(x.size());
        ResidualForward<Complex>(with_residual ? residual.data() : nullptr, x.data(), out.data(),
                                 kN, kC, dropout, kFactor);
        return Loss(out, d_out);
      };
      Real d_x(x.size());
      ResidualBackward<double>(d_out.data(), d_x.data(), kN, kC, dropout, kFactor);
      ExpectGradient(d_x, ComplexStep(x, loss), {}, "d_x");
      ExpectGradient(with_residual ? d_out : Real(d_out.size()), ComplexStep(residual, loss), {},
                     "d_residual");
    }
  }
}

TEST(ReferenceGradients, CrossEntropy) {
  constexpr int64_t kN = 4;
  constexpr double kScale = 0.25;
  const std::vector<int32_t> targets = {2, folio::CrossEntropy::kIgnore, 0, 2};
  for (const int64_t V : {3, 11}) {
    for (const double cap : {0.0, 1.5}) {
      const Real raw = RandomNumbers(kN * V, 1);
      Numbers logits = ToComplex(raw);
      const auto loss = [&] {
        Numbers capped = logits, losses(kN), lse(kN);
        if (cap > 0) LogitCap(capped.data(), kN * V, cap);
        CrossEntropy<Complex>(capped.data(), targets.data(), losses.data(), lse.data(), kN, V);
        return Loss(losses, Real(kN, kScale));
      };
      Real losses(kN), lse(kN), d_logits = raw;  // in place
      if (cap > 0) LogitCap(d_logits.data(), kN * V, cap);
      CrossEntropy<double>(d_logits.data(), targets.data(), losses.data(), lse.data(), kN, V);
      CrossEntropyBackward<double>(d_logits.data(), targets.data(), lse.data(), d_logits.data(), kN,
                                   V, kScale, cap);
      ExpectGradient(d_logits, ComplexStep(logits, loss), {}, "d_logits");
    }
  }
}

size_t Size(int64_t n) {
  return static_cast<size_t>(n);
}

// Rows further apart than C, as in a fused array; the gaps do not belong to the operation.
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
    // The first key of the second sequence is masked: with T = S its first query attends to
    // nothing.
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
        shape.cap = 0.9;
        CheckAttention(shape);
        // A window of all but one key, of two, and of one that is masked for some query.
        for (const int64_t window : {S - 1, int64_t{2}, int64_t{1}}) {
          if (!shape.causal || window < 1) continue;
          shape.window = window;
          CheckAttention(shape);
          shape.cap = 0;
        }
      }
    }
  }
}

}  // namespace
}  // namespace folio::reference
