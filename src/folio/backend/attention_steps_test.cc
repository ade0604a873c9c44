// The steps of attention, composed, are attention in one; and what no comparison with the reference
// can see.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "folio/backend/backend.h"
#include "folio/backend/op_cases.h"
#include "folio/base/simd_targets.h"

namespace folio {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

struct Sizes {
  int64_t B, T, S, H, G, D;

  int64_t C() const { return H * D; }
  int64_t K() const { return KeyHeads(H, G) * D; }
  int64_t rows() const { return B * H * T; }
};

struct Options {
  bool causal, masked, dropout;
};

double At(const Tensor& x, int64_t i) {
  if (x.dtype() == Dtype::kBF16) return static_cast<double>(ToFloat(x.data<BF16>()[i]));
  return x.dtype() == Dtype::kF64 ? x.data<double>()[i] : static_cast<double>(x.data<float>()[i]);
}

double Largest(const Tensor& x) {
  double largest = 0;
  for (int64_t i = 0; i < x.count(); ++i) largest = std::max(largest, std::abs(At(x, i)));
  return largest;
}

// Within what rounding explains: each element is a sum of up to `terms` terms, none larger than
// `term`, which may cancel.
void ExpectNear(const Tensor& found, const Tensor& expected, int64_t terms, double term,
                const std::string& what) {
  const double unit = std::ldexp(1.0, expected.dtype() == Dtype::kF64 ? -53 : -24);
  const double largest = std::max(term, Largest(expected));
  const double tolerance = 4 * (8 + std::sqrt(static_cast<double>(terms))) * unit * largest;
  for (int64_t i = 0; i < expected.count(); ++i) {
    ASSERT_LE(std::abs(At(found, i) - At(expected, i)), tolerance)
        << what << "[" << i << "]: " << At(found, i) << ", expected " << At(expected, i);
  }
}

// One attention computed both ways on the same operands. Rows are dense: (B*T,C) and (B*S,K).
class BothWays {
 public:
  BothWays(Backend& backend, Dtype number, Sizes s, Options options)
      : backend_(backend), s_(s), options_(options), m_(number, false) {
    q_ = m_.Random({s.B * s.T, s.C()}), d_out_ = m_.Random({s.B * s.T, s.C()});
    k_ = m_.Random({s.B * s.S, s.K()}), v_ = m_.Random({s.B * s.S, s.K()});
    if (options.masked) {
      key_mask_ = m_.Mask({s.B, s.S});
      for (int64_t i = 0; i < s.S; ++i) key_mask_.data<uint8_t>()[i] = i > 0;
    }
    if (options.dropout) dropout_ = {.p = 0.3, .seed = 8, .stream = 9, .first_row = 5};
    MakeMask();
  }

  void ExpectEqual() {
    RunWhole();
    RunSteps();
    const int64_t terms = std::max({s_.S, s_.T * s_.H, s_.D});
    ExpectNear(probs_, whole_probs_, terms, 1, "probs");
    ExpectNear(out_, whole_out_, terms, 0, "out");
    // A score's gradient is the difference of two numbers as large as a weight's.
    ExpectNear(d_q_, whole_d_q_, terms, d_probs_ * Scale() * Largest(k_), "d_q");
    ExpectNear(d_k_, whole_d_k_, terms, d_probs_ * Scale() * Largest(q_), "d_k");
    ExpectNear(d_v_, whole_d_v_, terms, 0, "d_v");
  }

  // Rows whose query sees nothing: zeros, and no gradient. Returns how many there are.
  int64_t ExpectZerosWhereNothingIsSeen() const {
    int64_t rows = 0;
    for (int64_t row = 0; row < s_.B * s_.T; ++row) {
      const uint8_t* seen = mask_.data<uint8_t>() + row * s_.S;
      if (std::any_of(seen, seen + s_.S, [](uint8_t x) { return x != 0; })) continue;
      ++rows;
      for (int64_t i = row * s_.C(); i < (row + 1) * s_.C(); ++i) {
        for (const Tensor& x : {out_, whole_out_, d_q_, whole_d_q_}) EXPECT_EQ(At(x, i), 0);
      }
    }
    return rows;
  }

 private:
  SequenceView Queries(const Tensor& x) const { return {x, s_.B, s_.T, 0, s_.C()}; }
  SequenceView Keys(const Tensor& x) const { return {x, s_.B, s_.S, 0, s_.K()}; }
  Tensor Rows(const Tensor& x) const { return x.Reshape({s_.rows(), s_.S}); }
  Tensor Scores() { return m_.Unset({s_.B, s_.H, s_.T, s_.S}); }

  double Scale() const { return 1 / std::sqrt(static_cast<double>(s_.D)); }

  void MakeMask() {
    mask_ = m_.Unset(Dtype::kU8, {s_.B, 1, s_.T, s_.S});
    for (int64_t i = 0; i < mask_.count(); ++i) {
      const int64_t b = i / (s_.T * s_.S), t = i / s_.S % s_.T, s = i % s_.S;
      const bool future = options_.causal && s > t + s_.S - s_.T;
      const bool hidden = key_mask_ && key_mask_.data<uint8_t>()[b * s_.S + s] == 0;
      mask_.data<uint8_t>()[i] = !future && !hidden;
    }
  }

  void RunWhole() {
    whole_out_ = m_.Unset(q_.shape()), whole_d_q_ = m_.Unset(q_.shape());
    whole_d_k_ = m_.Unset(k_.shape()), whole_d_v_ = m_.Unset(k_.shape());
    whole_probs_ = Scores();
    AttentionForward forward;
    forward.q = Queries(q_), forward.k = Keys(k_), forward.v = Keys(v_);
    forward.key_mask = key_mask_, forward.out = Queries(whole_out_);
    forward.lse = m_.Unset({s_.B, s_.H, s_.T}), forward.probs = whole_probs_;
    forward.H = s_.H, forward.G = s_.G;
    forward.causal = options_.causal, forward.dropout = dropout_;
    backend_.Run(forward);
    AttentionBackward backward;
    backward.q = forward.q, backward.k = forward.k, backward.v = forward.v;
    backward.key_mask = key_mask_, backward.out = forward.out, backward.lse = forward.lse;
    backward.d_out = Queries(d_out_), backward.d_q = Queries(whole_d_q_);
    backward.d_k = Keys(whole_d_k_), backward.d_v = Keys(whole_d_v_);
    backward.H = s_.H, backward.G = s_.G;
    backward.causal = options_.causal, backward.dropout = dropout_;
    backend_.Run(backward);
  }

  void RunSteps() {
    const Tensor scores = Scores(), kept = Scores();
    probs_ = Scores(), out_ = m_.Unset(q_.shape());
    AttentionScoresForward product;
    product.q = Queries(q_), product.k = Keys(k_), product.scores = scores;
    product.H = s_.H, product.G = s_.G, product.scale = Scale();
    backend_.Run(product);
    backend_.Run(MaskForward{scores, mask_, scores, -kInfinity});
    backend_.Run(SoftmaxForward{Rows(scores), Rows(probs_)});
    backend_.Run(ResidualForward{{}, Rows(probs_), Rows(kept), dropout_});
    backend_.Run(AttentionContextForward{kept, Keys(v_), Queries(out_), s_.H, s_.G});
    RunBackwardSteps(product, kept);
  }

  void RunBackwardSteps(const AttentionScoresForward& product, const Tensor& kept) {
    const Tensor d = Scores();
    d_q_ = m_.Unset(q_.shape()), d_k_ = m_.Unset(k_.shape()), d_v_ = m_.Unset(k_.shape());
    AttentionContextBackward context;
    context.weights = kept, context.v = Keys(v_), context.d_out = Queries(d_out_);
    context.d_weights = d, context.d_v = Keys(d_v_), context.H = s_.H, context.G = s_.G;
    backend_.Run(context);
    backend_.Run(ResidualBackward{Rows(d), Rows(d), dropout_});
    d_probs_ = Largest(d);
    backend_.Run(SoftmaxBackward{Rows(probs_), Rows(d), Rows(d)});
    backend_.Run(MaskForward{d, mask_, d, 0});
    AttentionScoresBackward scores;
    scores.q = product.q, scores.k = product.k, scores.d_scores = d;
    scores.d_q = Queries(d_q_), scores.d_k = Keys(d_k_);
    scores.H = s_.H, scores.G = s_.G, scores.scale = product.scale;
    backend_.Run(scores);
  }

  Backend& backend_;
  Sizes s_;
  Options options_;
  OpMemory m_;
  Dropout dropout_;
  Tensor q_, k_, v_, d_out_, key_mask_, mask_;
  double d_probs_ = 0;
  Tensor out_, probs_, d_q_, d_k_, d_v_;
  Tensor whole_out_, whole_probs_, whole_d_q_, whole_d_k_, whole_d_v_;
};

class AttentionSteps : public testing::TestWithParam<std::tuple<std::string, Dtype>> {};

TEST_P(AttentionSteps, ComposedAreAttentionInOne) {
  const auto& [name, number] = GetParam();
  const auto backend = MakeBackend(name);
  int64_t blind = 0;
  for (const Sizes s : {Sizes{1, 1, 1, 1, 0, 1},
                        {2, 7, 7, 2, 0, 5},
                        {2, 5, 11, 6, 3, 3},
                        {1, 6, 4, 2, 1, 3},
                        {1, 67, 67, 2, 1, 8}}) {
    for (int bits = 0; bits < 8; ++bits) {
      SCOPED_TRACE("T " + std::to_string(s.T) + " S " + std::to_string(s.S) + " options " +
                   std::to_string(bits));
      BothWays both(*backend, number, s, {(bits & 1) != 0, (bits & 2) != 0, (bits & 4) != 0});
      both.ExpectEqual();
      blind += both.ExpectZerosWhereNothingIsSeen();
    }
  }
  EXPECT_GT(blind, 0) << "no case has a row that sees nothing";
}

std::string NameOf(const testing::TestParamInfo<AttentionSteps::ParamType>& info) {
  return std::get<0>(info.param) + "_" + std::string(DtypeName(std::get<1>(info.param)));
}

INSTANTIATE_TEST_SUITE_P(, AttentionSteps,
                         testing::Values(std::tuple("reference", Dtype::kF32),
                                         std::tuple("reference", Dtype::kF64),
                                         std::tuple("cpu", Dtype::kF32)),
                         NameOf);

// Rows of softmax in float32 on a backend and each of its SIMD targets.
class SoftmaxRows : public testing::TestWithParam<std::string> {
 protected:
  ~SoftmaxRows() override { ForceSimdTarget(""); }

  std::vector<float> Softmax(const std::vector<float>& x, bool naive) {
    std::vector<float> out(x.size());
    const Shape shape = {1, static_cast<int64_t>(x.size())};
    backend_->Run(SoftmaxForward{Tensor(const_cast<float*>(x.data()), shape),
                                 Tensor(out.data(), shape), naive});
    return out;
  }

  std::vector<std::string> Targets() const {
    return GetParam() == "cpu" ? SimdTargets() : std::vector<std::string>{""};
  }

 private:
  std::unique_ptr<Backend> backend_ = MakeBackend(GetParam());
};

TEST_P(SoftmaxRows, OverflowWhenNaiveAndNotOtherwise) {
  for (const std::string& target : Targets()) {
    SCOPED_TRACE(target);
    ForceSimdTarget(target);
    const std::vector<float> fits = Softmax({88, 88, 80}, true);
    EXPECT_NEAR(fits[0], 0.49992, 1e-4);
    const std::vector<float> naive = Softmax({89, 89, 1}, true);
    EXPECT_TRUE(std::isnan(naive[0]) && std::isnan(naive[1]));
    EXPECT_EQ(naive[2], 0);  // something by infinity
    const std::vector<float> shifted = Softmax({89, 89, -kInfinity}, false);
    EXPECT_EQ(shifted, std::vector<float>({0.5, 0.5, 0}));
    EXPECT_EQ(Softmax({1e30F, -1e30F}, false), std::vector<float>({1, 0}));
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
          for (const bool naive : {false, true}) {
            for (float y : Softmax(x, naive)) ASSERT_TRUE(std::isnan(y)) << S << " " << place;
          }
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
  const Tensor q = m.RandomHalf({3, 4}), k = m.RandomHalf({3, 4}), v = m.RandomHalf({3, 4});
  const Tensor out = m.UnsetHalf({3, 4}), d_q = m.UnsetHalf({3, 4}), d_k = m.UnsetHalf({3, 4});
  const Tensor d_v = m.UnsetHalf({3, 4}), lse = m.Unset({1, 1, 3});
  const auto view = [](const Tensor& x) { return SequenceView(x, 1, 3, 0, 4); };
  m.Set(q, 4, std::numeric_limits<double>::quiet_NaN());
  AttentionForward forward;
  forward.q = view(q), forward.k = view(k), forward.v = view(v);
  forward.out = view(out), forward.lse = lse;
  backend.Run(forward);
  AttentionBackward backward;
  backward.q = view(q), backward.k = view(k), backward.v = view(v);
  backward.out = view(out), backward.lse = lse, backward.d_out = view(m.RandomHalf({3, 4}));
  backward.d_q = view(d_q), backward.d_k = view(d_k), backward.d_v = view(d_v);
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

INSTANTIATE_TEST_SUITE_P(, AttentionOfNaN,
                         testing::Combine(testing::Values("reference", "cpu"),
                                          testing::Values(Dtype::kF32, Dtype::kBF16)),
                         NameOf);

}  // namespace
}  // namespace folio
