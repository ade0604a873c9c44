#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <string>
#include <vector>

#include "folio/base/rng.h"
#include "folio/base/test_simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "folio/backend/cpu/math_test.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "folio/backend/cpu/math-inl.h"
#include "folio/backend/cpu/philox-inl.h"
#include "folio/backend/cpu/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace folio::cpu::HWY_NAMESPACE {

// out = f(x), element by element.
template <class F>
void MapArray(const std::vector<float>& x, std::vector<float>& out, const F& f) {
  out.resize(x.size());
  const hn::ScalableTag<float> d;
  Map(
      d, static_cast<int64_t>(x.size()), out.data(), [&](auto v) HWY_ATTR { return f(d, v); },
      x.data());
}

void ExpArray(const std::vector<float>& x, std::vector<float>& out) {
  MapArray(x, out, [](auto d, auto v) HWY_ATTR { return Exp(d, v); });
}

void ReciprocalArray(const std::vector<float>& x, std::vector<float>& out) {
  MapArray(x, out, [](auto d, auto v) HWY_ATTR { return Reciprocal(d, v); });
}

void NormalArrays(const std::vector<float>& x, std::vector<float>& cdfs, std::vector<float>& pdfs) {
  const auto normal = [](auto d, auto v, bool cumulative) HWY_ATTR {
    decltype(v) cdf, pdf;
    Normal(d, v, cdf, pdf);
    return cumulative ? cdf : pdf;
  };
  MapArray(x, cdfs, [&](auto d, auto v) HWY_ATTR { return normal(d, v, true); });
  MapArray(x, pdfs, [&](auto d, auto v) HWY_ATTR { return normal(d, v, false); });
}

void PhiloxArray(uint64_t seed, uint64_t stream, uint64_t group, uint32_t* out) {
  Philox64(seed, stream, group, out);
}

void DropoutArray(const Dropout& dropout, int64_t row, int64_t width, int64_t column, float* out) {
  DropoutFactors(dropout, row, width, column, out);
}

// Returns true if MulAdd rounds once.
bool Fused() {
  return HWY_NATIVE_FMA != 0;
}

// The sum of x[i] + 1, so that lanes beyond n would be noticed.
float SumArray(const float* x, int64_t n) {
  const hn::ScalableTag<float> d;
  const auto add = [](auto a, auto b) HWY_ATTR { return hn::Add(a, b); };
  const auto add_next = [d](auto a, auto b)
                            HWY_ATTR { return hn::Add(a, hn::Add(b, hn::Set(d, 1.0f))); };
  return SumLanes(d, Fold(d, n, hn::Zero(d), add_next, add, x));
}

}  // namespace folio::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace folio::cpu {

HWY_EXPORT(ExpArray);
HWY_EXPORT(ReciprocalArray);
HWY_EXPORT(NormalArrays);
HWY_EXPORT(PhiloxArray);
HWY_EXPORT(DropoutArray);
HWY_EXPORT(SumArray);
HWY_EXPORT(Fused);

namespace {

// Distance from `expected` in units of the last place of float32 there.
double Ulps(float actual, double expected) {
  if (std::isinf(static_cast<float>(expected))) {
    return actual == static_cast<float>(expected) ? 0 : INFINITY;
  }
  const int exponent = std::max(std::ilogb(expected), -126);
  return std::abs(actual - expected) / std::ldexp(1.0, exponent - 23);
}

// count + 1 numbers from low to high in even steps.
std::vector<float> Steps(double low, double high, int count) {
  std::vector<float> x;
  for (int i = 0; i <= count; ++i) x.push_back(static_cast<float>(low + (high - low) * i / count));
  return x;
}

class CpuMath : public OnSimdTarget {};

TEST_P(CpuMath, ExpIsWithinTwoUnitsInTheLastPlace) {
  const std::vector<float> x = Steps(-87.3365, 88.7228, 400002);
  std::vector<float> y;
  HWY_DYNAMIC_DISPATCH(ExpArray)(x, y);
  for (size_t i = 0; i < x.size(); ++i) {
    ASSERT_LE(Ulps(y[i], std::exp(static_cast<double>(x[i]))), 2.0) << x[i];
  }
}

TEST_P(CpuMath, ReciprocalIsWithinTwoUnitsInTheLastPlace) {
  std::vector<float> x = Steps(1, 2, 100003);
  for (const float exponent : Steps(-60, 126, 186)) x.push_back(std::exp2(exponent));
  for (size_t i = 0; i < 1000; ++i) x.push_back(1 + std::exp(87.0f * static_cast<float>(i) / 1000));
  std::vector<float> y;
  HWY_DYNAMIC_DISPATCH(ReciprocalArray)(x, y);
  for (size_t i = 0; i < x.size(); ++i) ASSERT_LE(Ulps(y[i], 1.0 / x[i]), 2.0) << x[i];
  const std::vector<float> nan(19, std::numeric_limits<float>::quiet_NaN());
  HWY_DYNAMIC_DISPATCH(ReciprocalArray)(nan, y);
  for (size_t i = 0; i < nan.size(); ++i) EXPECT_TRUE(std::isnan(y[i])) << i;
}

TEST_P(CpuMath, ExpAtTheEdges) {
  const float tiny = std::numeric_limits<float>::denorm_min();
  const float max_log = 88.722839f;  // the largest whose exp is finite
  const float above = std::nextafter(max_log, INFINITY);
  const std::vector<float> x = {0.0f,      -0.0f, tiny,   -tiny,    1e-30f, INFINITY,
                                -INFINITY, 3e38f, -3e38f, -87.337f, above,  1e-8f};
  const std::vector<float> expected = {1, 1, 1, 1, 1, INFINITY, 0, INFINITY, 0, 0, INFINITY, 1};
  std::vector<float> y;
  HWY_DYNAMIC_DISPATCH(ExpArray)(x, y);
  EXPECT_EQ(y, expected);
}

TEST_P(CpuMath, ExpOfNanIsNan) {
  const std::vector<float> x(19, std::numeric_limits<float>::quiet_NaN());
  std::vector<float> y;
  HWY_DYNAMIC_DISPATCH(ExpArray)(x, y);
  for (const float v : y) EXPECT_TRUE(std::isnan(v));
}

TEST_P(CpuMath, NormalDistributionIsAccurateIntoTheTails) {
  const std::vector<float> x = Steps(-13.0, 13.0, 200002);
  std::vector<float> cdf, pdf;
  HWY_DYNAMIC_DISPATCH(NormalArrays)(x, cdf, pdf);
  for (size_t i = 0; i < x.size(); ++i) {
    const double v = x[i];
    const double allowed = HWY_DYNAMIC_DISPATCH(Fused)() ? 8 : 8 + v * v / 2;
    ASSERT_LE(Ulps(cdf[i], 0.5 * std::erfc(-v / std::numbers::sqrt2)), allowed) << v;
    ASSERT_LE(Ulps(pdf[i], std::exp(-v * v / 2) / std::sqrt(2 * std::numbers::pi)), allowed) << v;
  }
}

TEST_P(CpuMath, NormalDistributionAtTheEdges) {
  const std::vector<float> x = {0.0f, INFINITY, -INFINITY, 1e30f, -1e30f, 1e-40f, -1e-40f};
  std::vector<float> cdf, pdf;
  HWY_DYNAMIC_DISPATCH(NormalArrays)(x, cdf, pdf);
  const std::vector<float> expected = {0.5f, 1, 0, 1, 0, 0.5f, 0.5f};
  for (size_t i = 0; i < x.size(); ++i) EXPECT_NEAR(cdf[i], expected[i], 6e-8) << x[i];
  for (size_t i = 1; i < 5; ++i) EXPECT_EQ(pdf[i], 0) << x[i];
}

TEST_P(CpuMath, PhiloxGivesTheNumbersOfCounterRng) {
  const uint64_t big = 0xFEDCBA9876543210;
  const std::vector<uint64_t> groups = {0,       1,           (1u << 28) - 1, 1u << 28,
                                        1 << 30, 0x123456789, big >> 6};
  for (const uint64_t seed : {uint64_t{0}, uint64_t{1337}, big}) {
    for (const uint64_t stream : {uint64_t{0}, RngStream(RngPurpose::kDropout, 7, 3), ~big}) {
      for (const uint64_t group : groups) {
        uint32_t bits[64];
        HWY_DYNAMIC_DISPATCH(PhiloxArray)(seed, stream, group, bits);
        const CounterRng rng(seed, stream);
        for (uint64_t i = 0; i < 64; ++i) {
          ASSERT_EQ(bits[i], rng.Bits(group * 64 + i)) << seed << " " << stream << " " << group;
        }
      }
    }
  }
}

TEST_P(CpuMath, DropoutDropsWhatTheGeneratorSays) {
  const Dropout dropout{.p = 0.3, .seed = 5, .stream = 9, .first_row = 1000};
  const int64_t row = 17, width = 131, column = 64;
  float factors[64];
  HWY_DYNAMIC_DISPATCH(DropoutArray)(dropout, row, width, column, factors);
  const CounterRng rng(5, 9);
  for (int64_t i = 0; i < 64; ++i) {
    const uint64_t index = static_cast<uint64_t>(1017 * 192 + 64 + i);
    const bool dropped = rng.Bits(index) < 0.3 * 4294967296.0;
    EXPECT_EQ(factors[i], dropped ? 0.0f : static_cast<float>(1 / 0.7)) << i;
  }
}

TEST_P(CpuMath, SumsOfEveryLengthLeaveNothingOutAndAddNothing) {
  std::vector<float> x(200);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i * i % 61);
  for (size_t start : {0, 1, 3}) {
    float expected = 0;
    for (size_t n = 0; start + n < x.size(); ++n) {
      // `part` has exactly this length, so that a sanitizer sees reads beyond the end.
      const std::vector<float> part(x.begin() + static_cast<int64_t>(start),
                                    x.begin() + static_cast<int64_t>(start + n));
      ASSERT_EQ(HWY_DYNAMIC_DISPATCH(SumArray)(part.data(), static_cast<int64_t>(n)), expected);
      expected += x[start + n] + 1;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(, CpuMath, EverySimdTarget(), SimdTargetName);

}  // namespace
}  // namespace folio::cpu
#endif  // HWY_ONCE
