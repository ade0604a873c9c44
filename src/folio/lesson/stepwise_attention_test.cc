// The steps against loops that compute each of them as it is defined, and against the operation
// that computes all of them in one.

#include "folio/lesson/stepwise_attention.h"

#include <gtest/gtest.h>

#include <limits>

#include "folio/base/error.h"
#include "folio/lesson/attention_mask.h"
#include "folio/lesson/test_attention.h"

namespace folio {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Sizes {
  int64_t B, T, S, H, G, D;

  Shape square() const { return {B, H, T, S}; }
};

// Operands of the sizes, and gradients of them.
struct Operands {
  Operands(const Sizes& z, Dtype dtype, bool positive = false)
      : sizes(z),
        q({z.B * z.T, z.H * z.D}, dtype, RandomValues(z.B * z.T * z.H * z.D, 1, positive)),
        k({z.B * z.S, z.G * z.D}, dtype, RandomValues(z.B * z.S * z.G * z.D, 2, positive)),
        v({z.B * z.S, z.G * z.D}, dtype, RandomValues(z.B * z.S * z.G * z.D, 3)),
        d_context({z.B * z.T, z.H * z.D}, dtype, RandomValues(z.B * z.T * z.H * z.D, 4)),
        d_q({z.B * z.T, z.H * z.D}, dtype),
        d_k({z.B * z.S, z.G * z.D}, dtype),
        d_v({z.B * z.S, z.G * z.D}, dtype) {}

  StepwiseAttention Attention(Backend& backend, const AttentionOptions& options = {}) const {
    const auto& [B, T, S, H, G, D] = sizes;
    return DotProductAttention(backend, H, G, D, B, T, S, options, dtype());
  }
  Dtype dtype() const { return static_cast<const Tensor&>(d_q).dtype(); }
  SequenceView Q(const Tensor& x) const { return {x, sizes.B, sizes.T, 0, x.dim(1)}; }
  SequenceView K(const Tensor& x) const { return {x, sizes.B, sizes.S, 0, x.dim(1)}; }
  void Forward(StepwiseAttention& attention) const { attention.Forward({}, q, k, v); }
  void Backward(StepwiseAttention& attention) const {
    attention.Backward({}, q, k, v, d_context, {}, d_q, d_k, d_v);
  }
  Results Gradients() const {
    return {{"d_q", d_q.values()}, {"d_k", d_k.values()}, {"d_v", d_v.values()}};
  }

  Sizes sizes;
  Array q, k, v, d_context, d_q, d_k, d_v;
};

Results StepValues(const AttentionSteps& steps) {
  return {{"scores", Values(steps.scores)},   {"masked", Values(steps.masked)},
          {"softmax", Values(steps.softmax)}, {"weights", Values(steps.weights)},
          {"kept", Values(steps.kept)},       {"context", Values(steps.context)}};
}

// One row of each step by its definition. `sees` has one flag per key.
struct PlainRow {
  std::vector<double> scores, masked, softmax, weights;
};

PlainRow Plain(std::vector<double> scores, const std::vector<bool>& sees, MaskOrder order,
               Weighting weighting) {
  PlainRow row{scores, scores, {}, {}};
  const bool exponential =
      weighting == Weighting::kSoftmax || weighting == Weighting::kNaiveSoftmax;
  for (size_t s = 0; s < sees.size(); ++s) {
    if (order == MaskOrder::kBeforeSoftmax && !sees[s])
      row.masked[s] = exponential ? -kInfinity : 0;
  }
  row.softmax = row.masked;
  double sum = 0;
  for (double& x : row.softmax) {
    if (exponential) x = std::exp(x);
    sum += x;
  }
  if (weighting != Weighting::kNone) {
    for (double& x : row.softmax) x = sum == 0 ? 0 : x / sum;
  }
  row.weights = row.softmax;
  if (order == MaskOrder::kBeforeSoftmax) return row;
  sum = 0;
  for (size_t s = 0; s < sees.size(); ++s) sum += sees[s] ? row.weights[s] : 0;
  for (size_t s = 0; s < sees.size(); ++s) {
    row.weights[s] = sees[s] && sum != 0 ? row.weights[s] / sum : 0;
  }
  return row;
}

// All steps but dropout, in loops.
Results PlainSteps(const Operands& o, const AttentionOptions& options, double scale) {
  const auto [B, T, S, H, G, D] = o.sizes;
  const std::vector<double> q = o.q.values(), k = o.k.values(), v = o.v.values();
  Results steps;
  for (int64_t b = 0; b < B; ++b) {
    for (int64_t h = 0; h < H; ++h) {
      const int64_t g = h / (H / G);
      for (int64_t t = 0; t < T; ++t) {
        std::vector<double> scores(static_cast<size_t>(S), 0);
        std::vector<bool> sees(static_cast<size_t>(S), true);
        for (int64_t s = 0; s < S; ++s) {
          for (int64_t d = 0; d < D; ++d) {
            scores[size_t(s)] += scale * q[size_t((b * T + t) * H * D + h * D + d)] *
                                 k[size_t((b * S + s) * G * D + g * D + d)];
          }
          if (!options.mask) continue;
          const Tensor mask = options.mask->tensor();
          const int64_t mask_b = mask.dim(0) == 1 ? 0 : b, mask_h = mask.dim(1) == 1 ? 0 : h;
          sees[size_t(s)] =
              mask.data<uint8_t>()[((mask_b * mask.dim(1) + mask_h) * T + t) * S + s] != 0;
        }
        const PlainRow row = Plain(scores, sees, options.mask_order, options.weighting);
        const auto add = [&](const char* name, const std::vector<double>& values) {
          steps[name].insert(steps[name].end(), values.begin(), values.end());
        };
        add("scores", row.scores);
        add("masked", row.masked);
        add("softmax", row.softmax);
        add("weights", row.weights);
        add("kept", row.weights);
      }
    }
  }
  steps["context"].resize(size_t(B * T * H * D));
  for (int64_t i = 0; i < B * T * H * D; ++i) {
    const int64_t b = i / (T * H * D), t = i / (H * D) % T, h = i / D % H, d = i % D;
    for (int64_t s = 0; s < S; ++s) {
      steps["context"][size_t(i)] += steps["kept"][size_t(((b * H + h) * T + t) * S + s)] *
                                     v[size_t((b * S + s) * G * D + h / (H / G) * D + d)];
    }
  }
  return steps;
}

// -infinity in both becomes 0 in both, so that differences can be taken.
Results Finite(Results steps) {
  for (double& x : steps["masked"]) x = x == -kInfinity ? -12345 : x;
  return steps;
}

constexpr Sizes kSizes[] = {{1, 1, 1, 1, 1, 1},  {2, 5, 5, 3, 3, 7},  {1, 3, 11, 4, 2, 5},
                            {3, 4, 2, 6, 1, 1},  {2, 5, 11, 6, 3, 3}, {1, 6, 4, 2, 1, 3},
                            {1, 67, 67, 2, 1, 8}};
constexpr Weighting kWeightings[] = {Weighting::kSoftmax, Weighting::kNaiveSoftmax, Weighting::kSum,
                                     Weighting::kNone};

class Steps : public testing::TestWithParam<std::string> {
 protected:
  std::unique_ptr<Backend> backend_ = MakeBackend(GetParam());
};

// In float32 on both backends, and in float64 where there is such.
TEST_P(Steps, AreWhatTheirDefinitionsSay) {
  for (const Dtype dtype : {Dtype::kF32, Dtype::kF64}) {
    if (!backend_->Supports(dtype)) continue;
    const double bound = dtype == Dtype::kF64 ? 1e-13 : 4e-6;
    for (const Sizes& z : kSizes) {
      // The first sequence has a padded first key, so that its first queries may see nothing.
      std::vector<uint8_t> keys(size_t(z.B * z.S), 1);
      keys[0] = 0;
      const AttentionMask mask =
          AttentionMask::Combined(Tensor(keys.data(), {z.B, z.S}), z.T, true);
      for (const Weighting weighting : kWeightings) {
        for (const MaskOrder order : {MaskOrder::kBeforeSoftmax, MaskOrder::kAfterSoftmax}) {
          // Sums of positive scores, which do not cancel.
          const Operands o(z, dtype, weighting == Weighting::kSum || weighting == Weighting::kNone);
          AttentionOptions options{.mask = mask, .mask_order = order, .weighting = weighting};
          if (z.T == 5) options.scale = 0.3;
          const double scale = z.T == 5 ? 0.3 : 1 / std::sqrt(static_cast<double>(z.D));
          StepwiseAttention attention = o.Attention(*backend_, options);
          o.Forward(attention);
          SCOPED_TRACE(testing::Message() << "T " << z.T << ", weighting " << int(weighting)
                                          << ", order " << int(order));
          EXPECT_EQ(attention.steps().scores.shape(), z.square());
          EXPECT_EQ(attention.steps().context.shape(), (Shape{z.B * z.T, z.H * z.D}));
          ExpectClose(Finite(StepValues(attention.steps())), Finite(PlainSteps(o, options, scale)),
                      bound);
        }
      }
    }
  }
}

TEST_P(Steps, ThatAreLeftOutAreTheStepBefore) {
  const Sizes z = kSizes[1];
  const Operands o(z, Dtype::kF32);
  const AttentionMask mask = AttentionMask::Causal(z.T, z.S);
  StepwiseAttention attention = o.Attention(*backend_);
  const AttentionSteps& steps = attention.steps();
  o.Forward(attention);
  EXPECT_EQ(steps.masked.raw(), steps.scores.raw());
  EXPECT_NE(steps.softmax.raw(), steps.masked.raw());
  EXPECT_EQ(steps.weights.raw(), steps.softmax.raw());
  EXPECT_EQ(steps.kept.raw(), steps.weights.raw());
  attention.options().mask = mask;
  attention.options().weighting = Weighting::kNone;
  attention.options().dropout = {.p = 0.5, .seed = 1};
  o.Forward(attention);
  EXPECT_NE(steps.masked.raw(), steps.scores.raw());
  EXPECT_EQ(steps.softmax.raw(), steps.masked.raw());
  EXPECT_NE(steps.kept.raw(), steps.weights.raw());
  attention.options().mask_order = MaskOrder::kAfterSoftmax;
  o.Forward(attention);
  EXPECT_EQ(steps.softmax.raw(), steps.scores.raw());
  EXPECT_NE(steps.weights.raw(), steps.softmax.raw());
}

TEST_P(Steps, MaskBeforeAndAfterTheSoftmaxAgree) {
  for (const Sizes& z : kSizes) {
    std::vector<uint8_t> keys(size_t(z.B * z.S), 1);
    keys.front() = keys.back() = 0;
    const AttentionMask mask = AttentionMask::Combined(Tensor(keys.data(), {z.B, z.S}), z.T, true);
    Results found[2];
    for (const MaskOrder order : {MaskOrder::kBeforeSoftmax, MaskOrder::kAfterSoftmax}) {
      const Operands o(z, Dtype::kF32);
      StepwiseAttention attention = o.Attention(
          *backend_, {.mask = mask, .mask_order = order, .dropout = {.p = 0.3, .seed = 5}});
      o.Forward(attention);
      o.Backward(attention);
      Results& all = found[order == MaskOrder::kAfterSoftmax];
      all = o.Gradients();
      all["weights"] = Values(attention.steps().weights);
      all["context"] = Values(attention.steps().context);
    }
    // With one key that counts, the gradients of scores cancel whole.
    ExpectClose(found[1], found[0], 2e-6, Largest(Operands(z, Dtype::kF32).d_context.values()));
  }
}

// Masks that the fused operation can express: causal, and padded keys.
TEST_P(Steps, GiveWhatTheFusedOperationGives) {
  for (const Dtype dtype : {Dtype::kF32, Dtype::kF64}) {
    if (!backend_->Supports(dtype)) continue;
    for (const Sizes& z : kSizes) {
      std::vector<uint8_t> keys(size_t(z.B * z.S), 1);
      keys.front() = 0;
      const Tensor key_mask(keys.data(), {z.B, z.S});
      for (const bool causal : {true, false}) {
        const AttentionMask mask = AttentionMask::Combined(key_mask, z.T, causal);
        const Dropout dropout = {.p = 0.4, .seed = 3, .stream = 9, .first_row = 7};
        const Operands o(z, dtype), fused(z, dtype);
        StepwiseAttention attention = o.Attention(*backend_, {.mask = mask, .dropout = dropout});
        o.Forward(attention);
        o.Backward(attention);
        const Array out({z.B * z.T, z.H * z.D}, dtype), lse({z.B, z.H, z.T}, dtype);
        const Array probs(z.square(), dtype);
        backend_->Run(AttentionForward{.q = o.Q(o.q),
                                       .k = o.K(o.k),
                                       .v = o.K(o.v),
                                       .key_mask = key_mask,
                                       .out = o.Q(out),
                                       .lse = lse,
                                       .probs = probs,
                                       .H = z.H,
                                       .G = z.G,
                                       .causal = causal,
                                       .dropout = dropout});
        backend_->Run(AttentionBackward{.q = o.Q(o.q),
                                        .k = o.K(o.k),
                                        .v = o.K(o.v),
                                        .key_mask = key_mask,
                                        .out = o.Q(out),
                                        .lse = lse,
                                        .d_out = o.Q(o.d_context),
                                        .d_q = o.Q(fused.d_q),
                                        .d_k = o.K(fused.d_k),
                                        .d_v = o.K(fused.d_v),
                                        .H = z.H,
                                        .G = z.G,
                                        .causal = causal,
                                        .dropout = dropout});
        Results expected = fused.Gradients(), found = o.Gradients();
        expected["context"] = out.values(), expected["weights"] = probs.values();
        found["context"] = Values(attention.steps().context);
        found["weights"] = Values(attention.steps().weights);
        SCOPED_TRACE(testing::Message() << "T " << z.T << ", causal " << causal);
        ExpectClose(found, expected, dtype == Dtype::kF64 ? 1e-13 : 4e-6);
      }
    }
  }
}

TEST_P(Steps, QueriesThatSeeNothingGiveZerosAndNoGradient) {
  const Sizes z{2, 3, 3, 2, 2, 4};
  std::vector<uint8_t> keys = {0, 0, 0, /**/ 0, 1, 1};
  const AttentionMask mask = AttentionMask::Combined(Tensor(keys.data(), {2, 3}), z.T, true);
  for (const MaskOrder order : {MaskOrder::kBeforeSoftmax, MaskOrder::kAfterSoftmax}) {
    const Operands o(z, Dtype::kF32);
    StepwiseAttention attention = o.Attention(*backend_, {.mask = mask, .mask_order = order});
    o.Forward(attention);
    o.Backward(attention);
    const std::vector<double> context = Values(attention.steps().context);
    const Results gradients = o.Gradients();
    for (size_t i = 0; i < context.size(); ++i) {
      // Rows of sequence 0 and the first of sequence 1: queries that see nothing, keys unseen.
      const bool none = i / size_t(z.H * z.D) <= 3;
      EXPECT_EQ(context[i] == 0, none) << i;
      for (const auto& [name, values] : gradients) {
        EXPECT_TRUE(std::isfinite(values[i])) << name;
        // After the softmax, the gradient of a hidden key's score is a sum that cancels.
        if (none) {
          EXPECT_NEAR(values[i], 0, name == "d_k" ? 1e-6 : 0) << name << "[" << i << "]";
        }
      }
    }
  }
}

TEST_P(Steps, DropoutScalesWhatItKeeps) {
  const Sizes z{2, 64, 64, 4, 4, 3};
  const Operands o(z, Dtype::kF32);
  const AttentionMask mask = AttentionMask::Causal(z.T, z.S);
  constexpr double p = 0.3;
  StepwiseAttention attention =
      o.Attention(*backend_, {.mask = mask, .dropout = {.p = p, .seed = 11}});
  o.Forward(attention);
  const std::vector<double> weights = Values(attention.steps().weights);
  const std::vector<double> kept = Values(attention.steps().kept);
  double sum = 0, variance = 0;
  for (size_t i = 0; i < kept.size(); ++i) {
    if (kept[i] != 0) {
      EXPECT_FLOAT_EQ(float(kept[i]), float(weights[i] / (1 - p)));
    }
    sum += kept[i];
    variance += weights[i] * weights[i] * p / (1 - p);
  }
  // Each row adds up to 1 before dropout, and so on average after it.
  EXPECT_NEAR(sum, z.B * z.H * z.T, 5 * std::sqrt(variance));
  EXPECT_NE(sum, z.B * z.H * z.T);
}

TEST_P(Steps, NaiveSoftmaxOverflowsAndTheOtherDoesNot) {
  Array q({1, 1}, Dtype::kF32, std::vector{1.0}), k({2, 1}, Dtype::kF32, std::vector{100.0, 0.0});
  StepwiseAttention attention = DotProductAttention(*backend_, 1, 1, 1, 1, 1, 2);
  attention.Forward({}, q, k, k);
  EXPECT_EQ(Values(attention.steps().softmax)[0], 1);
  attention.options().weighting = Weighting::kNaiveSoftmax;
  attention.Forward({}, q, k, k);
  EXPECT_TRUE(std::isnan(Values(attention.steps().softmax)[0]));
}

TEST_P(Steps, HeadsOfKeysMustDivideThoseOfQueries) {
  for (const auto& [H, G] : {std::pair{6, 4}, std::pair{2, 4}, std::pair{0, 0}, std::pair{2, -1}}) {
    EXPECT_THROW(DotProductAttention(*backend_, H, G, 1, 1, 1, 1), Error) << H;
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, Steps, testing::Values("reference", "cpu"),
                         [](const auto& at) { return at.param; });

}  // namespace
}  // namespace folio
