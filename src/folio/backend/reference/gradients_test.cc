// Every backward of the reference against the complex step of its forward, with every option.

#include <cmath>
#include <complex>
#include <cstdint>
#include <string>
#include <vector>

#include "folio/backend/reference/activation.h"
#include "folio/backend/reference/cross_entropy.h"
#include "folio/backend/reference/embedding.h"
#include "folio/backend/reference/layernorm.h"
#include "folio/backend/reference/linear.h"
#include "folio/backend/reference/residual.h"
#include "folio/backend/reference/test_gradcheck.h"

namespace folio::reference {
namespace {

using Real = std::vector<double>;
using Numbers = std::vector<Complex>;

TEST(ReferenceGradients, Embedding) {
  constexpr int64_t kB = 2, kT = 3, kC = 5, kV = 7, kP = 6;
  const std::vector<int32_t> ids = {3, 6, 3, 0, 3, 1};  // one token three times
  const std::vector<int32_t> packed = {0, 1, 0, 5, 0, 5};
  for (const int places : {0, 1, 2}) {  // none, in a row, of one's own
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
  for (const auto& [kind, name] : kActivations) {
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

TEST(ReferenceGradients, Residual) {
  constexpr int64_t kN = 4, kC = 5;
  for (const double p : {0.0, 0.3}) {
    for (const bool with_residual : {true, false}) {
      const Dropout dropout = {.p = p, .seed = 3, .stream = 4, .first_row = 7};
      Numbers x = ToComplex(RandomNumbers(kN * kC, 1));
      Numbers residual = ToComplex(RandomNumbers(kN * kC, 2));
      const Real d_out = RandomNumbers(kN * kC, 3);
      const auto loss = [&] {
        Numbers out(x.size());
        ResidualForward<Complex>(with_residual ? residual.data() : nullptr, x.data(), out.data(),
                                 kN, kC, dropout);
        return Loss(out, d_out);
      };
      Real d_x(x.size());
      ResidualBackward<double>(d_out.data(), d_x.data(), kN, kC, dropout);
      ExpectGradient(d_x, ComplexStep(x, loss), {}, "d_x");
      ExpectGradient(with_residual ? d_out : Real(d_out.size()), ComplexStep(residual, loss), {},
                     "d_residual");
    }
  }
}

TEST(ReferenceGradients, CrossEntropy) {
  constexpr int64_t kN = 4;
  constexpr double kScale = 0.25;
  const std::vector<int32_t> targets = {2, folio::CrossEntropyForward::kIgnore, 0, 2};
  for (const int64_t V : {3, 11}) {
    const Real logits0 = RandomNumbers(kN * V, 1);
    Numbers logits = ToComplex(logits0);
    const auto loss = [&] {
      Numbers losses(kN), lse(kN);
      CrossEntropyForward<Complex>(logits.data(), targets.data(), losses.data(), lse.data(), kN, V);
      return Loss(losses, Real(kN, kScale));
    };
    Real losses(kN), lse(kN), d_logits(logits0.size());
    CrossEntropyForward<double>(logits0.data(), targets.data(), losses.data(), lse.data(), kN, V);
    CrossEntropyBackward<double>(logits0.data(), targets.data(), lse.data(), d_logits.data(), kN, V,
                                 kScale);
    ExpectGradient(d_logits, ComplexStep(logits, loss), {}, "d_logits");
  }
}

}  // namespace
}  // namespace folio::reference
