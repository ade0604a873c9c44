// Backward of each step of attention against the complex step of its forward.

#include <cmath>
#include <complex>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "folio/backend/reference/test_gradcheck.h"
#include "folio/lesson/attention_step_templates.h"

namespace folio::steps {
namespace {

using reference::Complex;
using reference::ComplexStep;
using reference::ExpectGradient;
using reference::Loss;
using reference::RandomNumbers;
using reference::ToComplex;
using Real = std::vector<double>;
using Numbers = std::vector<Complex>;

// The product of rows of queries and of keys, and the two sums that are its gradients; each of
// these sums has the product and the other sum.
void CheckProducts(const HeadSizes& a, double scale) {
  const Real x0 = RandomNumbers(a.B * a.T * a.H * a.D, 1);
  const Real y0 = RandomNumbers(a.B * a.S * a.key_heads() * a.D, 2);
  const Real square0 = RandomNumbers(a.B * a.H * a.T * a.S, 3);
  Numbers x = ToComplex(x0), y = ToComplex(y0), square = ToComplex(square0);
  Real d_x(x0.size()), d_y(y0.size()), d_square(square0.size());
  const auto products = [&] {
    Numbers out(square.size());
    Products<Complex>(a, x.data(), y.data(), scale, out.data());
    return Loss(out, square0);
  };
  SumOverKeys<double>(a, square0.data(), y0.data(), scale, d_x.data());
  SumOverQueries<double>(a, square0.data(), x0.data(), scale, d_y.data());
  ExpectGradient(d_x, ComplexStep(x, products), {}, "d_q of scores");
  ExpectGradient(d_y, ComplexStep(y, products), {}, "d_k of scores");
  const auto context = [&] {
    Numbers out(x.size());
    SumOverKeys<Complex>(a, square.data(), y.data(), scale, out.data());
    return Loss(out, x0);
  };
  Products<double>(a, x0.data(), y0.data(), scale, d_square.data());
  ExpectGradient(d_square, ComplexStep(square, context), {}, "d_weights of context");
  ExpectGradient(d_y, ComplexStep(y, context), {}, "d_v of context");
}

TEST(AttentionStepGradients, ScoresAndContext) {
  for (const auto& [T, S] : {std::pair{1, 1}, std::pair{3, 3}, std::pair{2, 5}, std::pair{1, 4}}) {
    for (const auto& [H, G] :
         {std::pair{1, 0}, std::pair{2, 0}, std::pair{2, 1}, std::pair{4, 2}}) {
      SCOPED_TRACE(testing::Message() << "T " << T << " S " << S << " H " << H << " G " << G);
      CheckProducts({.B = 2, .T = T, .S = S, .H = H, .G = G, .D = 3}, 0.3);
    }
  }
}

// The gradient goes through the same mask, and what fills the gaps has none.
TEST(AttentionStepGradients, Mask) {
  constexpr int64_t kB = 2, kH = 3, kMatrix = 5;
  for (const int64_t mask_B : {int64_t{1}, kB}) {
    for (const int64_t mask_H : {int64_t{1}, kH}) {
      std::vector<uint8_t> mask;
      for (int64_t i = 0; i < mask_B * mask_H * kMatrix; ++i) mask.push_back(i % 3 != 1);
      Numbers x = ToComplex(RandomNumbers(kB * kH * kMatrix, 1));
      const Real d_out = RandomNumbers(kB * kH * kMatrix, 2);
      const auto loss = [&] {
        Numbers out(x.size());
        Mask<Complex>(x.data(), mask.data(), out.data(), kB, kH, mask_B, mask_H, kMatrix, -2.5);
        return Loss(out, d_out);
      };
      Real d_x(x.size());
      Mask<double>(d_out.data(), mask.data(), d_x.data(), kB, kH, mask_B, mask_H, kMatrix, 0);
      ExpectGradient(d_x, ComplexStep(x, loss), {}, "d_x");
    }
  }
}

TEST(AttentionStepGradients, Softmax) {
  constexpr int64_t kN = 3;
  for (const int64_t S : {1, 2, 7}) {
    Real x0 = RandomNumbers(kN * S, 1);
    x0[0] = -std::numeric_limits<double>::infinity();  // with S = 1, all of its row
    Numbers x = ToComplex(x0);
    const Real d_out = RandomNumbers(kN * S, 2);
    for (const bool naive : {false, true}) {
      const auto loss = [&] {
        Numbers out(x.size());
        naive ? NaiveSoftmax<Complex>(x.data(), out.data(), kN, S)
              : Softmax<Complex>(x.data(), out.data(), kN, S);
        return Loss(out, d_out);
      };
      Real out(x0.size()), d_x(x0.size());
      Softmax<double>(x0.data(), out.data(), kN, S);
      SoftmaxBackward<double>(out.data(), d_out.data(), d_x.data(), kN, S);
      ExpectGradient(d_x, ComplexStep(x, loss), {}, naive ? "naive d_x" : "d_x");
    }
  }
}

TEST(AttentionStepGradients, Normalize) {
  constexpr int64_t kN = 3;
  for (const int64_t S : {1, 2, 7}) {
    Real x0 = RandomNumbers(kN * S, 1);
    for (double& v : x0) v = 0.5 + std::abs(v);
    Numbers x = ToComplex(x0);
    const Real d_out = RandomNumbers(kN * S, 2);
    const auto loss = [&] {
      Numbers out(x.size()), sums(kN);
      Normalize<Complex>(x.data(), out.data(), sums.data(), kN, S);
      return Loss(out, d_out);
    };
    Real out(x0.size()), sums(kN), d_x(x0.size());
    Normalize<double>(x0.data(), out.data(), sums.data(), kN, S);
    NormalizeBackward<double>(out.data(), sums.data(), d_out.data(), d_x.data(), kN, S);
    ExpectGradient(d_x, ComplexStep(x, loss), {}, "d_x");
  }
}

}  // namespace
}  // namespace folio::steps
