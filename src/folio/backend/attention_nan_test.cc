// Numbers in attention that no comparison with the reference can see.

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "folio/backend/backend.h"
#include "folio/backend/test_op_cases.h"
#include "folio/base/test_simd_targets.h"

namespace folio {
namespace {

std::vector<std::string> TargetsOf(const std::string& backend) {
  return backend == "cpu" ? SimdTargets() : std::vector<std::string>{""};
}

// The weights of a query that is 1 on keys of one number, which are its scores: in float32, on a
// backend and each of its SIMD targets.
class SoftmaxRows : public testing::TestWithParam<std::string> {
 protected:
  std::vector<float> Softmax(const std::vector<float>& scores) {
    const auto S = static_cast<int64_t>(scores.size());
    std::vector<float> keys = scores, values(scores.size()), weights(scores.size());
    float query = 1, out = 0, lse = 0;
    backend_->Run(AttentionForward{.q = SequenceView(Tensor(&query, {1, 1}), 1, 1, 0, 1),
                                   .k = SequenceView(Tensor(keys.data(), {S, 1}), 1, S, 0, 1),
                                   .v = SequenceView(Tensor(values.data(), {S, 1}), 1, S, 0, 1),
                                   .out = SequenceView(Tensor(&out, {1, 1}), 1, 1, 0, 1),
                                   .lse = Tensor(&lse, {1, 1, 1}),
                                   .probs = Tensor(weights.data(), {1, 1, 1, S})});
    return weights;
  }

 private:
  KeptSimdTarget kept_;
  std::unique_ptr<Backend> backend_ = MakeBackend(GetParam());
};

TEST_P(SoftmaxRows, DoNotOverflow) {
  for (const std::string& target : TargetsOf(GetParam())) {
    SCOPED_TRACE(target);
    ForceSimdTarget(target);
    EXPECT_EQ(Softmax({89, 89, -INFINITY}), std::vector<float>({0.5, 0.5, 0}));
    EXPECT_EQ(Softmax({1e30F, -1e30F}), std::vector<float>({1, 0}));
  }
}

// A broken model must look broken.
TEST_P(SoftmaxRows, KeepNaN) {
  constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
  for (const std::string& target : TargetsOf(GetParam())) {
    SCOPED_TRACE(target);
    ForceSimdTarget(target);
    for (const size_t S : {1, 2, 5, 64, 67}) {
      for (size_t place = 0; place < S; ++place) {
        for (const float rest : {kNaN, -INFINITY, 3.0F}) {
          std::vector<float> x(S, rest);
          x[place] = kNaN;
          for (float y : Softmax(x)) ASSERT_TRUE(std::isnan(y)) << S << " " << place;
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(, SoftmaxRows, testing::Values("reference", "cpu"),
                         [](const auto& name) { return name.param; });

// One query that is NaN, whatever its bits, spoils its own row, and the gradients of what it saw.
void ExpectNaNKept(Backend& backend, Dtype low, uint32_t bits) {
  constexpr int64_t kT = 20, kC = 4;
  OpMemory m(Dtype::kF32, low, false);
  const auto random = [&] { return SequenceView(m.RandomLow({kT, kC}), 1, kT, 0, kC); };
  const auto unset = [&] { return SequenceView(m.UnsetLow({kT, kC}), 1, kT, 0, kC); };
  AttentionForward forward;
  forward.q = random();
  forward.k = random();
  forward.v = random();
  forward.out = unset();
  forward.lse = m.Unset({1, 1, kT});
  if (low == Dtype::kBF16) {
    *forward.q.row<BF16>(0, 1) = BF16{static_cast<uint16_t>(bits >> 16)};
  } else {
    *forward.q.row<float>(0, 1) = std::bit_cast<float>(bits);
  }
  backend.Run(forward);
  AttentionBackward backward = BackwardOf(forward);
  backward.d_out = random();
  backward.d_q = unset();
  backward.d_k = unset();
  backward.d_v = unset();
  backend.Run(backward);
  for (size_t i = 0; i < kC; ++i) {
    for (const std::vector<double>& x : {Values(forward.out), Values(backward.d_q)}) {
      EXPECT_FALSE(std::isnan(x[i]));
      EXPECT_TRUE(std::isnan(x[kC + i]));
      EXPECT_FALSE(std::isnan(x[2 * kC + i]));
    }
    EXPECT_TRUE(std::isnan(Values(backward.d_k)[i])) << "key 0, which the NaN saw";
    EXPECT_TRUE(std::isnan(Values(backward.d_v)[i]));
  }
  EXPECT_TRUE(std::isnan(Values(forward.lse)[1]));
}

class AttentionOfNaN : public testing::TestWithParam<std::tuple<std::string, Dtype>> {
  KeptSimdTarget kept_;
};

TEST_P(AttentionOfNaN, KeepsIt) {
  const auto& [name, low] = GetParam();
  const auto backend = MakeBackend(name);
  for (const std::string& target : TargetsOf(name)) {
    ForceSimdTarget(target);
    for (const uint32_t bits : {0x7FC00000U, 0x7FFF0000U, 0xFFFF0000U, 0x7F810000U}) {
      SCOPED_TRACE(target + " bits " + std::to_string(bits));
      ExpectNaNKept(*backend, low, bits);
    }
  }
}

std::string NanCaseName(const testing::TestParamInfo<AttentionOfNaN::ParamType>& info) {
  return std::get<0>(info.param) + "_" + std::string(DtypeName(std::get<1>(info.param)));
}

INSTANTIATE_TEST_SUITE_P(, AttentionOfNaN,
                         testing::Combine(testing::Values("reference", "cpu"),
                                          testing::Values(Dtype::kF32, Dtype::kBF16)),
                         NanCaseName);

}  // namespace
}  // namespace folio
