// Numbers in attention that no comparison with the reference can see.

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "folio/backend/backend.h"
#include "folio/backend/test_op_cases.h"
#include "folio/base/simd_targets.h"

namespace folio {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

double At(const Tensor& x, int64_t i) {
  if (x.dtype() == Dtype::kBF16) return static_cast<double>(ToFloat(x.data<BF16>()[i]));
  return static_cast<double>(x.data<float>()[i]);
}

// The weights of a query that is 1 on keys of one number, which are its scores: in float32, on a
// backend and each of its SIMD targets.
class SoftmaxRows : public testing::TestWithParam<std::string> {
 protected:
  ~SoftmaxRows() override { ForceSimdTarget(""); }

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

  std::vector<std::string> Targets() const {
    return GetParam() == "cpu" ? SimdTargets() : std::vector<std::string>{""};
  }

 private:
  std::unique_ptr<Backend> backend_ = MakeBackend(GetParam());
};

TEST_P(SoftmaxRows, DoNotOverflow) {
  for (const std::string& target : Targets()) {
    SCOPED_TRACE(target);
    ForceSimdTarget(target);
    EXPECT_EQ(Softmax({89, 89, -kInfinity}), std::vector<float>({0.5, 0.5, 0}));
    EXPECT_EQ(Softmax({1e30F, -1e30F}), std::vector<float>({1, 0}));
  }
}

// A broken model must look broken.
TEST_P(SoftmaxRows, KeepNaN) {
  constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
  for (const std::string& target : Targets()) {
    SCOPED_TRACE(target);
    ForceSimdTarget(target);
    for (const size_t S : {1, 2, 5, 64, 67}) {
      for (size_t place = 0; place < S; ++place) {
        for (const float rest : {kNaN, -kInfinity, 3.0F}) {
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

// One query that is NaN spoils its own row, and the gradients of what it saw.
void ExpectNaNKept(Backend& backend, Dtype half) {
  OpMemory m(Dtype::kF32, half, false);
  const Tensor q = m.RandomLow({3, 4}), k = m.RandomLow({3, 4}), v = m.RandomLow({3, 4});
  const Tensor out = m.UnsetLow({3, 4}), d_q = m.UnsetLow({3, 4}), d_k = m.UnsetLow({3, 4});
  const Tensor d_v = m.UnsetLow({3, 4}), lse = m.Unset({1, 1, 3});
  const auto view = [](const Tensor& x) { return SequenceView(x, 1, 3, 0, 4); };
  m.Set(q, 4, std::numeric_limits<double>::quiet_NaN());
  AttentionForward forward;
  forward.q = view(q);
  forward.k = view(k);
  forward.v = view(v);
  forward.out = view(out);
  forward.lse = lse;
  backend.Run(forward);
  AttentionBackward backward;
  backward.q = view(q);
  backward.k = view(k);
  backward.v = view(v);
  backward.out = view(out);
  backward.lse = lse;
  backward.d_out = view(m.RandomLow({3, 4}));
  backward.d_q = view(d_q);
  backward.d_k = view(d_k);
  backward.d_v = view(d_v);
  backend.Run(backward);
  for (int64_t i = 0; i < 4; ++i) {
    for (const Tensor& x : {out, d_q}) {
      EXPECT_FALSE(std::isnan(At(x, i)));
      EXPECT_TRUE(std::isnan(At(x, 4 + i)));
      EXPECT_FALSE(std::isnan(At(x, 8 + i)));
    }
    EXPECT_TRUE(std::isnan(At(d_k, i))) << "key 0, which the NaN saw";
    EXPECT_TRUE(std::isnan(At(d_v, i)));
  }
}

class AttentionOfNaN : public testing::TestWithParam<std::tuple<std::string, Dtype>> {};

TEST_P(AttentionOfNaN, KeepsIt) {
  const auto& [name, half] = GetParam();
  ExpectNaNKept(*MakeBackend(name), half);
}

std::string NameOf(const testing::TestParamInfo<AttentionOfNaN::ParamType>& info) {
  return std::get<0>(info.param) + "_" + std::string(DtypeName(std::get<1>(info.param)));
}

INSTANTIATE_TEST_SUITE_P(, AttentionOfNaN,
                         testing::Combine(testing::Values("reference", "cpu"),
                                          testing::Values(Dtype::kF32, Dtype::kBF16)),
                         NameOf);

}  // namespace
}  // namespace folio
