// The steps of attention compared with known values, with their definitions in double, with the
// fused operation that models use, and with numbers from PyTorch.

#include "folio/lesson/attention_steps.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "folio/backend/reference/operations.h"
#include "folio/io/file.h"
#include "folio/io/json.h"
#include "folio/model/layers/attention.h"
#include "tests/kit/near.h"
#include "tests/kit/paths.h"

namespace folio {
namespace {

using Numbers = std::vector<double>;
constexpr float kInf = std::numeric_limits<float>::infinity();

std::vector<float> Floats(const Numbers& numbers) {
  return {numbers.begin(), numbers.end()};
}

// ---- Single steps -------------------------------------------------------------------------------

TEST(AttentionStep, ConsecutiveHeadsShareAHeadOfKeysAndValues) {
  // Four heads of queries, two of keys, one number each.
  const StepTensor q({1, 4}, {1, 2, 3, 4}), k({2, 2}, {1, 10, 2, 20});
  EXPECT_EQ(Doubles(AttentionScores(q.tensor(), k.tensor(), 4, 0.5).tensor()),
            (Numbers{0.5, 1, 1, 2, 15, 30, 20, 40}));
  const StepTensor weights({4, 1, 2}, {1, 0, 0, 1, 1, 0, 0.5, 0.5}), v({2, 2}, {3, 4, 5, 6});
  EXPECT_EQ(Doubles(AttentionContext(weights.tensor(), v.tensor(), 1).tensor()),
            (Numbers{3, 5, 4, 5}));
}

TEST(AttentionStepDeathTest, RefuseSizesThatDoNotFit) {
  const StepTensor q({6, 4}), k({10, 3}), weights({2, 3, 5});
  EXPECT_DEATH(AttentionScores(q.tensor(), k.tensor(), 2, 1), "do not fit");
  EXPECT_DEATH(AttentionContext(weights.tensor(), q.tensor(), 2), "as many as the weights");
  EXPECT_DEATH(Masked(weights.tensor(), std::vector<uint8_t>(9, 1), 0), "the mask is");
}

TEST(AttentionStep, MaskServesAllHeads) {
  const StepTensor x({2, 1, 2}, {1, 2, 3, 4});
  EXPECT_EQ(Doubles(Masked(x.tensor(), std::vector<uint8_t>{0, 7}, -kInf).tensor()),
            (Numbers{-kInf, 2, -kInf, 4}));
}

TEST(AttentionStep, RowsBecomeShares) {
  const float nan = NAN;
  struct Case {
    StepTensor (*step)(const Tensor&);
    std::vector<float> row;
    Numbers shares;
  };
  const float two = std::log(2.0F), five = std::log(5.0F);
  for (const Case& c : std::initializer_list<Case>{
           {Softmax, {0, two, five}, {0.125, 0.25, 0.625}},
           {NaiveSoftmax, {0, two, five}, {0.125, 0.25, 0.625}},
           {DividedBySum, {1, 3, 4}, {0.125, 0.375, 0.5}},
           // In float32 exp(89) is too large: something by infinity is 0, infinity by it NaN.
           {Softmax, {89, 89, -kInf}, {0.5, 0.5, 0}},
           {NaiveSoftmax, {89, 89, 1}, {nan, nan, 0}},
           {NaiveSoftmax, {88, 88, 80}, {0.4999161, 0.4999161, 1.677e-4}},
           // Rows of -infinity give zeros, and results below the smallest normal number are 0.
           {Softmax, {-kInf, -kInf}, {0, 0}},
           {NaiveSoftmax, {-kInf, -kInf}, {0, 0}},
           {DividedBySum, {0, 0}, {0, 0}},
           {Softmax, {0, -88}, {1, 0}},
           // A broken model must look broken.
           {Softmax, {3, nan, -kInf}, {nan, nan, nan}},
           {NaiveSoftmax, {3, nan, -kInf}, {nan, nan, nan}}}) {
    const StepTensor x({1, std::ssize(c.row)}, c.row);
    const Numbers found = Doubles(c.step(x.tensor()).tensor());
    for (size_t i = 0; i < found.size(); ++i) {
      EXPECT_EQ(std::isnan(found[i]), std::isnan(c.shares[i]));
      if (!std::isnan(found[i])) {
        EXPECT_NEAR(found[i], c.shares[i], 1e-7) << c.row[0] << " " << i;
      }
      EXPECT_EQ(found[i] == 0, c.shares[i] == 0);
    }
  }
}

TEST(AttentionMask, HidesPaddingAndWhatComesLater) {
  using Mask = std::vector<uint8_t>;
  EXPECT_EQ(CausalMask(3), (Mask{1, 0, 0, 1, 1, 0, 1, 1, 1}));
  EXPECT_EQ(CausalMask(1), Mask{1});
  // The last query is at the last key: a cache of two earlier keys, then fewer keys.
  EXPECT_EQ(AttentionMask(2, Mask(4, 1), true), (Mask{1, 1, 1, 0, 1, 1, 1, 1}));
  EXPECT_EQ(AttentionMask(3, Mask(2, 1), true), (Mask{0, 0, 1, 0, 1, 1}));
  EXPECT_EQ(AttentionMask(3, Mask{0, 7, 1}, true), (Mask{0, 0, 0, 0, 1, 0, 0, 1, 1}));
  EXPECT_EQ(AttentionMask(2, Mask{1, 0, 1}, false), (Mask{1, 0, 1, 1, 0, 1}));
}

// ---- Steps as they are defined ------------------------------------------------------------------

// Normal numbers; positive ones on request.
std::vector<float> RandomNumbers(int64_t count, uint64_t seed, bool positive = false) {
  std::vector<float> numbers(static_cast<size_t>(count));
  const CounterRng rng(seed, 17);
  for (size_t i = 0; i < numbers.size(); ++i) {
    const auto normal = static_cast<float>(rng.Normal(i));
    numbers[i] = positive ? 0.2F + std::abs(normal) : normal;
  }
  return numbers;
}

std::vector<Tensor> All(const AttentionParams& params) {
  std::vector<Tensor> all;
  for (const LinearParams& layer : {params.q, params.k, params.v, params.out}) {
    if (layer.weight) all.push_back(layer.weight);
    if (layer.bias) all.push_back(layer.bias);
  }
  return all;
}

// A form of attention on random operands.
struct Form {
  Form(const AttentionSizes& sizes, int64_t its_T, int64_t its_S, AttentionOptions its_options,
       bool projected)
      : T(its_T), S(its_S), options(std::move(its_options)) {
    // Sums of scores are divisors and must not come near 0.
    const bool positive =
        options.weighting == Weighting::kSum || options.weighting == Weighting::kNone;
    operands.emplace_back(Shape{T, sizes.d_in}, RandomNumbers(T * sizes.d_in, 1, positive));
    operands.emplace_back(Shape{S, sizes.kv_in()}, RandomNumbers(S * sizes.kv_in(), 2, positive));
    operands.emplace_back(Shape{S, sizes.kv_in()}, RandomNumbers(S * sizes.kv_in(), 3));
    options.H = sizes.H;
    if (!projected) return;
    weights = AttentionDraws(5, false).Linear(sizes);
    for (const Tensor& x : All(weights.params)) {
      for (int64_t i = 0; positive && i < x.count(); ++i) {
        x.host<float>()[i] = std::abs(x.host<float>()[i]);
      }
    }
  }

  AttentionSteps Attended(Backend& backend) const {
    return Attend(backend, weights.params, operands[0].tensor(), operands[1].tensor(),
                  operands[2].tensor(), options);
  }

  int64_t T, S;
  AttentionOptions options;
  std::vector<StepTensor> operands = {};  // query, key, value
  AttentionWeights weights = {};
};

Numbers Projected(const Numbers& x, const LinearParams& layer) {
  if (!layer.weight) return x;
  const Numbers weight = Doubles(layer.weight);
  const auto I = static_cast<size_t>(layer.weight.dim(0)), O = weight.size() / I;
  Numbers out(x.size() / I * O);
  for (size_t i = 0; i < out.size(); ++i) {
    if (layer.bias) out[i] = Doubles(layer.bias)[i % O];
    for (size_t c = 0; c < I; ++c) out[i] += x[i / O * I + c] * weight[c * O + i % O];
  }
  return out;
}

using Results = std::map<std::string, Numbers>;

// One row of each step by its definition.
Results PlainRow(const Numbers& scores, std::span<const uint8_t> sees,
                 const AttentionOptions& options) {
  const bool before = options.mask_order == MaskOrder::kBeforeSoftmax;
  const bool exponential =
      options.weighting == Weighting::kSoftmax || options.weighting == Weighting::kNaiveSoftmax;
  const auto divide = [](Numbers& row) {
    double sum = 0;
    for (const double x : row) sum += x;
    for (double& x : row) x = sum == 0 ? 0 : x / sum;
  };
  Numbers masked = scores;
  for (size_t s = 0; before && s < sees.size(); ++s) {
    if (sees[s] == 0) masked[s] = exponential ? -kInf : 0;
  }
  Numbers softmax = masked;
  for (double& x : softmax) x = exponential ? std::exp(x) : x;
  if (options.weighting != Weighting::kNone) divide(softmax);
  Numbers weights = softmax;
  for (size_t s = 0; !before && s < sees.size(); ++s) weights[s] = sees[s] == 0 ? 0 : weights[s];
  if (!before && !sees.empty()) divide(weights);
  return {{"scores", scores}, {"masked", masked}, {"softmax", softmax}, {"weights", weights}};
}

// All steps, as loops.
Results PlainSteps(const Form& form) {
  const AttentionOptions& options = form.options;
  const AttentionParams& params = form.weights.params;
  Results steps;
  const Numbers& q = steps["q"] = Projected(Doubles(form.operands[0].tensor()), params.q);
  const Numbers& k = steps["k"] = Projected(Doubles(form.operands[1].tensor()), params.k);
  const Numbers& v = steps["v"] = Projected(Doubles(form.operands[2].tensor()), params.v);
  const auto T = static_cast<size_t>(form.T), S = static_cast<size_t>(form.S);
  const auto H = static_cast<size_t>(options.H), D = q.size() / T / H, G = k.size() / S / D;
  const double scale = options.scale.value_or(1 / std::sqrt(static_cast<double>(D)));
  steps["context"].resize(q.size());
  for (size_t row = 0; row < H * T; ++row) {
    const size_t h = row / T, t = row % T, g = h / (H / G);
    Numbers scores(S);
    for (size_t i = 0; i < S * D; ++i) {
      scores[i / D] += scale * q[(t * H + h) * D + i % D] * k[(i / D * G + g) * D + i % D];
    }
    const auto sees = std::span(options.mask).subspan(options.mask.empty() ? 0 : t * S);
    for (const auto& [name, values] :
         PlainRow(scores, sees.first(options.mask.empty() ? 0 : S), options)) {
      steps[name].insert(steps[name].end(), values.begin(), values.end());
    }
    for (size_t s = 0; s < S; ++s) {
      const double kept = steps["weights"][row * S + s] *
                          reference::DropoutFactor(options.dropout, static_cast<int64_t>(row),
                                                   static_cast<int64_t>(s), form.S);
      steps["kept"].push_back(kept);
      for (size_t d = 0; d < D; ++d) {
        steps["context"][(t * H + h) * D + d] += kept * v[(s * G + g) * D + d];
      }
    }
  }
  steps["out"] = Projected(steps["context"], params.out);
  return steps;
}

// -infinity becomes the same number in both, so that they can be subtracted.
Numbers Finite(Numbers numbers) {
  for (double& x : numbers) x = x == -kInf ? -12345 : x;
  return numbers;
}

constexpr double kSingle = 4e-6;  // float32 is exact within this part of the largest magnitude
constexpr Weighting kWeightings[] = {Weighting::kSoftmax, Weighting::kNaiveSoftmax, Weighting::kSum,
                                     Weighting::kNone};
constexpr MaskOrder kOrders[] = {MaskOrder::kBeforeSoftmax, MaskOrder::kAfterSoftmax};

// The first key is padding, so that the first query may attend to nothing.
std::vector<uint8_t> Keys(int64_t S) {
  std::vector<uint8_t> keys(static_cast<size_t>(S), 1);
  keys.front() = 0;
  return keys;
}

struct Layout {
  AttentionSizes sizes;
  int64_t T, S;
  bool projected = false;
};
// Queries, keys and values unchanged.
const Layout kDotProducts[] = {{{.d_in = 1, .d_out = 1}, 1, 1},
                               {{.d_in = 21, .d_out = 21, .H = 3}, 5, 5},
                               {{.d_in = 20, .d_kv_in = 10, .d_out = 20, .H = 4, .G = 2}, 3, 11},
                               {{.d_in = 6, .d_kv_in = 1, .d_out = 6, .H = 6, .G = 1}, 4, 2},
                               {{.d_in = 18, .d_kv_in = 9, .d_out = 18, .H = 6, .G = 3}, 5, 11},
                               {{.d_in = 6, .d_kv_in = 3, .d_out = 6, .H = 2, .G = 1}, 6, 4},
                               {{.d_in = 16, .d_kv_in = 8, .d_out = 16, .H = 2, .G = 1}, 67, 67}};
const Layout kLayers[] = {
    {{.d_in = 3, .d_out = 2}, 3, 3, true},
    {{.d_in = 3, .d_out = 4, .H = 4, .G = 2, .bias = true, .out_proj = true}, 3, 3, true},
    {{.d_in = 3, .d_kv_in = 2, .d_out = 4, .H = 2, .G = 1, .out_proj = true}, 3, 4, true},
    {{.d_in = 2, .d_out = 6, .H = 3, .bias = true}, 1, 1, true},
    {{.d_in = 13, .d_out = 11, .bias = true}, 17, 17, true}};

TEST(Attend, StepsAreWhatTheirDefinitionsSay) {
  std::vector<Layout> layouts(std::begin(kLayers), std::end(kLayers));
  layouts.insert(layouts.end(), std::begin(kDotProducts), std::end(kDotProducts));
  int count = 0;
  for (const auto& [sizes, T, S, projected] : layouts) {
    for (const std::vector<uint8_t>& mask :
         {std::vector<uint8_t>(), AttentionMask(T, std::vector<uint8_t>(size_t(S), 1), true),
          AttentionMask(T, Keys(S), false), AttentionMask(T, Keys(S), true)}) {
      for (const MaskOrder order : kOrders) {
        for (const Weighting weighting : kWeightings) {
          const double p = ++count % 3 == 0 ? 0.4 : 0;
          const std::optional<double> scale =
              T == 5 && weighting != Weighting::kNone ? std::optional(0.3) : std::nullopt;
          const Form form(sizes, T, S,
                          {.scale = scale,
                           .mask = mask,
                           .mask_order = order,
                           .weighting = weighting,
                           .dropout = {.p = p, .seed = 3, .first_row = 5}},
                          projected);
          const Results expected = PlainSteps(form);
          for (const char* name : {"reference", "cpu"}) {
            const AttentionSteps found = form.Attended(*MakeBackend(name));
            for (const auto& [step, x] : {std::pair{"q", found.q},
                                          {"k", found.k},
                                          {"v", found.v},
                                          {"scores", found.scores},
                                          {"masked", found.masked},
                                          {"softmax", found.softmax},
                                          {"weights", found.weights},
                                          {"kept", found.kept},
                                          {"context", found.context},
                                          {"out", found.out}}) {
              const Numbers values = Finite(Doubles(x)), right = Finite(expected.at(step));
              ASSERT_LE(Difference(values, right), kSingle * Largest(right))
                  << step << " of form " << count << " on " << name;
            }
            // Hidden keys have no weight at all, and all others have one.
            const Numbers weights = Doubles(found.weights);
            for (size_t i = 0; i < weights.size(); ++i) {
              ASSERT_EQ(weights[i] == 0, expected.at("weights")[i] == 0) << count << " " << i;
            }
          }
        }
      }
    }
  }
}

// The fused operation, with the masks that it supports, in both dtypes.
TEST(Attend, FusedOperationIsWhatTheStepsDefine) {
  struct Machine {
    const char* backend;
    Dtype dtype;
    double bound;
  };
  for (const auto& [name, dtype, bound] :
       {Machine{"reference", Dtype::kF64, 1e-13}, Machine{"reference", Dtype::kF32, kSingle},
        Machine{"cpu", Dtype::kF32, kSingle}}) {
    for (const auto& [sizes, T, S, projected] : kDotProducts) {
      std::vector<uint8_t> keys = Keys(S);
      for (const bool causal : {true, false}) {
        const Dropout dropout = {.p = 0.4, .seed = 3, .stream = 9, .first_row = 7};
        std::vector<std::vector<double>> memory;
        const auto array = [&, number = dtype](const Shape& shape) {
          memory.emplace_back(static_cast<size_t>(shape.count()));
          return Tensor(memory.back().data(), number, shape);
        };
        const auto copy = [&](const Tensor& x) {
          const Tensor to = array(x.shape());
          for (int64_t i = 0; i < x.count(); ++i) {
            if (to.dtype() == Dtype::kF64) to.host<double>()[i] = x.host<float>()[i];
            if (to.dtype() == Dtype::kF32) to.host<float>()[i] = x.host<float>()[i];
          }
          return SequenceView{to, 1, x.dim(0), 0, x.dim(1)};
        };
        for (const MaskOrder order : kOrders) {
          const Form form(
              sizes, T, S,
              {.mask = AttentionMask(T, keys, causal), .mask_order = order, .dropout = dropout},
              projected);
          const Tensor out = array({T, sizes.d_out}), probs = array({1, sizes.H, T, S});
          MakeBackend(name)->Run(AttentionForward{.q = copy(form.operands[0].tensor()),
                                                  .k = copy(form.operands[1].tensor()),
                                                  .v = copy(form.operands[2].tensor()),
                                                  .key_mask = Tensor(keys.data(), {1, S}),
                                                  .out = SequenceView{out, 1, T, 0, sizes.d_out},
                                                  .lse = array({1, sizes.H, T}),
                                                  .probs = probs,
                                                  .H = sizes.H,
                                                  .G = sizes.G == 0 ? sizes.H : sizes.G,
                                                  .causal = causal,
                                                  .dropout = dropout});
          const Results expected = PlainSteps(form);
          SCOPED_TRACE(fmt::format("{}, {} x {}, causal {}", name, T, S, causal));
          ExpectClose(Doubles(out), expected.at("out"), bound);
          ExpectClose(Doubles(probs), expected.at("weights"), bound);
        }
      }
    }
  }
}

TEST(Attend, StepsThatAreLeftOutAreTheStepBefore) {
  const auto backend = MakeReferenceBackend();
  const auto run = [&](const AttentionOptions& options) {
    return Form({.d_in = 6, .d_out = 6, .H = 3}, 5, 5, options, false).Attended(*backend);
  };
  const AttentionSteps plain = run({});
  EXPECT_EQ(plain.masked.raw(), plain.scores.raw());
  EXPECT_NE(plain.softmax.raw(), plain.masked.raw());
  EXPECT_EQ(plain.weights.raw(), plain.softmax.raw());
  EXPECT_EQ(plain.kept.raw(), plain.weights.raw());
  EXPECT_EQ(plain.out.raw(), plain.context.raw());
  const AttentionSteps after = run({.mask = CausalMask(5),
                                    .mask_order = MaskOrder::kAfterSoftmax,
                                    .weighting = Weighting::kNone,
                                    .dropout = {.p = 0.5, .seed = 1}});
  EXPECT_EQ(after.softmax.raw(), after.scores.raw());
  EXPECT_NE(after.weights.raw(), after.softmax.raw());
  EXPECT_NE(after.kept.raw(), after.weights.raw());
}

// GPT-2's sublayer: one fused projection, one fused operation.
TEST(Attend, IsGptsSublayerWithMappedWeights) {
  constexpr int64_t B = 2, T = 5, C = 6, H = 3;
  std::vector<uint8_t> keys = {1, 1, 0, 1, 1, /**/ 0, 1, 1, 1, 0};
  GptConfig config;
  config.n_embd = C;
  config.n_head = H;
  config.n_layer = 1;
  config.attn_pdrop = 0.3;
  const AttentionWeights weights = AttentionDraws(5, false).Linear(
      {.d_in = C, .d_out = C, .H = H, .bias = true, .out_proj = true});
  const AttentionParams& p = weights.params;
  const StepTensor c_attn = SideBySide(std::vector{p.q.weight, p.k.weight, p.v.weight});
  const auto flat = [](const Tensor& x) { return x.Reshape({1, C}); };
  const StepTensor bias = SideBySide(std::vector{flat(p.q.bias), flat(p.k.bias), flat(p.v.bias)});
  SelfAttentionParams params;
  params.c_attn = {c_attn.tensor(), bias.tensor().Reshape({3 * C})};
  params.c_proj = p.out;
  const StepTensor qkv({B * T, 3 * C}), lse({B, H, T}), attn({B * T, C}), out({B * T, C});
  const StepTensor x({B * T, C}, RandomNumbers(B * T * C, 1));
  for (const char* name : {"reference", "cpu"}) {
    const auto backend = MakeBackend(name);
    const PassContext pass{.backend = *backend,
                           .config = config,
                           .B = B,
                           .T = T,
                           .key_mask = Tensor(keys.data(), {B, T}),
                           .dropout = {.on = true, .seed = 5, .step = 2}};
    SelfAttentionActivations acts;
    acts.qkv = qkv.tensor();
    acts.lse = lse.tensor();
    acts.attn = attn.tensor();
    SelfAttentionForward(pass, 0, params, acts, {}, x.tensor(), out.tensor());
    for (int64_t b = 0; b < B; ++b) {
      Dropout dropout = pass.BlockDropout(0, kAttentionDropout);
      dropout.first_row += b * H * T;
      const std::span<const uint8_t> of_b = std::span(keys).subspan(size_t(b * T), size_t(T));
      const AttentionSteps steps =
          Attend(*backend, p, x.tensor().Slice(b * T, (b + 1) * T),
                 {.H = H, .mask = AttentionMask(T, of_b, true), .dropout = dropout});
      ExpectClose(Doubles(steps.out), Doubles(out.tensor().Slice(b * T, (b + 1) * T)), kSingle);
    }
  }
}

// Contexts and every head's weights.
TEST(JoinHeads, ComputeWhatTheHeadsDoSideBySide) {
  for (const auto& [d_in, d_out, heads, T] :
       {std::array<int64_t, 4>{3, 2, 2, 6}, {5, 7, 3, 5}, {1, 1, 1, 1}, {7, 1, 5, 2}}) {
    const StepTensor x({T, d_in}, RandomNumbers(T * d_in, 1));
    AttentionDraws draws(7, false);
    std::vector<AttentionWeights> weights;
    for (int64_t h = 0; h < heads; ++h) {
      weights.push_back(draws.Linear({.d_in = d_in, .d_out = d_out}));
    }
    const AttentionWeights joined = JoinHeads(weights);
    for (const char* name : {"reference", "cpu"}) {
      const auto backend = MakeBackend(name);
      const AttentionSteps split =
          Attend(*backend, joined.params, x.tensor(), {.H = heads, .mask = CausalMask(T)});
      std::vector<AttentionSteps> stack;
      std::vector<Tensor> contexts;
      for (int64_t h = 0; h < heads; ++h) {
        stack.push_back(
            Attend(*backend, weights[size_t(h)].params, x.tensor(), {.mask = CausalMask(T)}));
        contexts.push_back(stack.back().out);
        ExpectClose(Doubles(split.weights.Slice(h, h + 1)), Doubles(stack.back().weights), kSingle);
      }
      ExpectClose(Doubles(split.out), Doubles(SideBySide(contexts).tensor()), kSingle);
    }
  }
}

// ---- Draws --------------------------------------------------------------------------------------

// The bits of Philox, shifted to 24, in streams that no other draw uses.
TEST(AttentionDraws, FromFoliosNumbersNeverChange) {
  const auto first = [](const Tensor& x) { return x.host<float>()[0]; };
  const AttentionWeights unit = AttentionDraws(123, false).Unit({.d_in = 3, .d_out = 2});
  EXPECT_EQ(first(unit.params.q.weight), 0.3391047716140747f);
  EXPECT_EQ(unit.params.q.weight.host<float>()[1], 0.12738078832626343f);
  EXPECT_EQ(first(unit.params.k.weight), 0.36026841402053833f);
  EXPECT_EQ(first(unit.params.v.weight), 0.9878681302070618f);
  const AttentionWeights linear =
      AttentionDraws(123, false).Linear({.d_in = 3, .d_out = 2, .bias = true, .out_proj = true});
  const auto within = [](double u, double in) {
    return static_cast<float>((2 * u - 1) / std::sqrt(in));
  };
  EXPECT_EQ(first(linear.params.q.weight), within(0.3391047716140747, 3));
  EXPECT_EQ(first(linear.params.out.weight), within(0.406413733959198, 2));
}

TEST(AttentionDraws, StayInTheirBounds) {
  const auto expect_within = [](const Tensor& x, double low, double high) {
    const Numbers values = Doubles(x);
    const auto [least, most] = std::ranges::minmax(values);
    EXPECT_GE(least, low);
    EXPECT_LE(most, high);
    // The probability that n numbers all miss an outer part of size f is (1 - f)^n: here e^-12.
    const double f = 12.0 / static_cast<double>(values.size());
    if (f > 0.5) return;
    EXPECT_LT(least, low + f * (high - low));
    EXPECT_GT(most, high - f * (high - low));
  };
  for (const bool torch : {false, true}) {
    AttentionDraws draws(5, torch);
    const AttentionWeights linear = draws.Linear(
        {.d_in = 40, .d_kv_in = 10, .d_out = 50, .H = 5, .bias = true, .out_proj = true});
    const AttentionParams& p = linear.params;
    for (const auto& [layer, in] :
         {std::pair{p.q, 40}, std::pair{p.k, 10}, std::pair{p.v, 10}, std::pair{p.out, 50}}) {
      const double bound = 1 / std::sqrt(static_cast<double>(in)) * (1 + 1e-7);
      expect_within(layer.weight, -bound, bound);
      expect_within(layer.bias, -bound, bound);
    }
    const AttentionWeights unit = draws.Unit({.d_in = 40, .d_out = 50});
    for (const Tensor& x : All(unit.params)) {
      expect_within(x, 0, 1);
      EXPECT_LT(Largest(Doubles(x)), 1);
    }
  }
}

TEST(AttentionDraws, GiveEveryLayerDrawAndSeedNumbersOfItsOwn) {
  std::set<float> firsts;
  size_t count = 0;
  for (const uint64_t seed : {1, 2}) {
    AttentionDraws draws(seed, false);
    for (int draw = 0; draw < 3; ++draw) {
      const AttentionWeights weights =
          draws.Linear({.d_in = 4, .d_out = 4, .H = 2, .bias = true, .out_proj = true});
      for (const Tensor& x : All(weights.params)) {
        firsts.insert(x.host<float>()[0]);
        ++count;
      }
    }
  }
  EXPECT_EQ(firsts.size(), count);
}

// ---- PyTorch's numbers --------------------------------------------------------------------------

void AppendNumbers(const Json& json, Numbers& out) {
  if (json.is_array()) {
    for (const Json& part : json) AppendNumbers(part, out);
  } else {
    out.push_back(json.is_boolean() ? json.get<bool>() : json.get<double>());
  }
}

Numbers NumbersIn(const Json& json) {
  Numbers numbers;
  AppendNumbers(json, numbers);
  return numbers;
}

// (columns, rows) from (rows, columns).
std::vector<float> Transposed(const Numbers& x, size_t columns) {
  std::vector<float> result;
  for (size_t i = 0; i < x.size(); ++i) {
    const size_t rows = x.size() / columns;
    result.push_back(static_cast<float>(x[i % rows * columns + i / rows]));
  }
  return result;
}

class GoldenAttention : public testing::Test {
 protected:
  void SetUp() override {
    const std::string path = GoldenFile("attention/expected.json");
    if (path.empty()) GTEST_SKIP() << "the numbers of attention/expected.json are not here";
    golden_ = ParseJson(ReadFile(path), path);
  }

  Json golden_;
};

// Bit by bit; attention_forms_test.cc compares the unit draws, and the forms' results for both.
TEST_F(GoldenAttention, LinearDrawsAreThoseOfPyTorch) {
  const AttentionWeights weights = AttentionDraws(789, true).Linear({.d_in = 3, .d_out = 2});
  const AttentionParams& p = weights.params;
  for (const auto& [name, layer] :
       {std::pair{"W_query", p.q}, std::pair{"W_key", p.k}, std::pair{"W_value", p.v}}) {
    const Numbers expected = NumbersIn(golden_["single_head_linear_seed_789"][name]);
    EXPECT_EQ(Floats(Doubles(layer.weight)), Transposed(expected, 3));
  }
}

TEST_F(GoldenAttention, LookUp) {
  const Json& expected = golden_["lookup"];
  const auto matrix = [&](const char* name, const Shape& shape) {
    return StepTensor(shape, Floats(NumbersIn(expected[name])));
  };
  const StepTensor query = matrix("query", {1, 2}), keys = matrix("keys", {3, 2});
  const StepTensor values = matrix("values", {3, 2});
  const AttentionSteps steps = Attend(*MakeReferenceBackend(), {}, query.tensor(), keys.tensor(),
                                      values.tensor(), {.scale = 1.0});
  ExpectNear(Doubles(steps.out), NumbersIn(expected["softmax_result"]), 1e-6);
  ExpectNear(Doubles(steps.weights), NumbersIn(expected["softmax_weights"]), 1e-6);
  const StepTensor exact = matrix("exact_match_weights", {1, 1, 3});
  ExpectNear(Doubles(AttentionContext(exact.tensor(), values.tensor(), 2).tensor()),
             NumbersIn(expected["exact_match_result"]), 1e-6);
}

// torch.nn.MultiheadAttention, whose weights are one matrix and one bias for queries, keys and
// values.
TEST_F(GoldenAttention, MultiheadAttention) {
  for (const char* name : {"mha_self", "mha_self_causal_padded", "mha_cross_padded"}) {
    const Json& golden = golden_[name];
    const auto C = golden["embed_dim"].get<int64_t>();
    const auto square = [&](const char* part, int64_t first) {
      const Numbers all = NumbersIn(golden[part]);
      const Numbers rows(all.begin() + first * C * C, all.begin() + (first + 1) * C * C);
      return StepTensor({C, C}, Transposed(rows, size_t(C)));
    };
    const auto row = [&](const char* part, int64_t first) {
      const Numbers all = NumbersIn(golden[part]);
      return StepTensor({C}, Floats({all.begin() + first * C, all.begin() + (first + 1) * C}));
    };
    AttentionWeights weights;
    const auto keep = [&](StepTensor x) {
      return weights.memory.emplace_back(std::move(x)).tensor();
    };
    AttentionParams& p = weights.params;
    p.q = {keep(square("in_proj_weight", 0)), keep(row("in_proj_bias", 0))};
    p.k = {keep(square("in_proj_weight", 1)), keep(row("in_proj_bias", 1))};
    p.v = {keep(square("in_proj_weight", 2)), keep(row("in_proj_bias", 2))};
    p.out = {keep(square("out_proj.weight", 0)), keep(row("out_proj.bias", 0))};
    Numbers out, all_weights;
    for (size_t b = 0; b < golden["query"].size(); ++b) {
      const auto sequence = [&](const char* part) {
        const std::vector<float> x = Floats(NumbersIn(golden[part][b]));
        return StepTensor({std::ssize(x) / C, C}, x);
      };
      const StepTensor query = sequence("query"), other = sequence("key_value");
      std::vector<uint8_t> keys;
      for (const double ignored : NumbersIn(golden["key_padding_mask_true_is_ignored"][b])) {
        keys.push_back(ignored == 0);
      }
      const AttentionSteps steps = Attend(
          *MakeReferenceBackend(), p, query.tensor(), other.tensor(), other.tensor(),
          {.H = golden["num_heads"].get<int64_t>(),
           .mask = AttentionMask(query.tensor().dim(0), keys, golden["causal"].get<bool>())});
      for (const double x : Doubles(steps.out)) out.push_back(x);
      for (const double x : Doubles(steps.weights)) all_weights.push_back(x);
    }
    ExpectClose(out, NumbersIn(golden["output"]), kSingle);
    ExpectClose(all_weights, NumbersIn(golden["weights"]), kSingle);
  }
}

}  // namespace
}  // namespace folio
