#include "folio/lesson/stepwise_attention.h"

#include <gtest/gtest.h>

#include <cmath>
#include <utility>

#include "folio/base/error.h"
#include "folio/lesson/test_attention.h"
#include "folio/model/layers/attention.h"

namespace folio {
namespace {

std::vector<int> Ones(const AttentionMask& mask) {
  const uint8_t* data = mask.tensor().data<uint8_t>();
  return {data, data + mask.tensor().count()};
}

TEST(AttentionMask, CausalSeesItselfAndWhatCameBefore) {
  const AttentionMask mask = AttentionMask::Causal(3, 3);
  EXPECT_EQ(mask.tensor().shape(), (Shape{1, 1, 3, 3}));
  EXPECT_EQ(mask.tensor().dtype(), Dtype::kU8);
  EXPECT_EQ(Ones(mask), (std::vector{1, 0, 0, 1, 1, 0, 1, 1, 1}));
  EXPECT_EQ(Ones(AttentionMask::Causal(1, 1)), std::vector{1});
}

TEST(AttentionMask, TheLastQueryStandsAtTheLastKey) {
  // A cache of two earlier keys.
  EXPECT_EQ(Ones(AttentionMask::Causal(2, 4)), (std::vector{1, 1, 1, 0, 1, 1, 1, 1}));
  // More queries than keys: the first sees nothing.
  EXPECT_EQ(Ones(AttentionMask::Causal(3, 2)), (std::vector{0, 0, 1, 0, 1, 1}));
}

TEST(AttentionMask, PaddingCutsAcrossEveryQuery) {
  std::vector<uint8_t> keys = {1, 0, 1, /**/ 0, 7, 1};
  const Tensor key_mask(keys.data(), {2, 3});
  const AttentionMask both = AttentionMask::Combined(key_mask, 3, true);
  EXPECT_EQ(both.tensor().shape(), (Shape{2, 1, 3, 3}));
  EXPECT_EQ(Ones(both), (std::vector{1, 0, 0, 1, 0, 0, 1, 0, 1, /**/ 0, 0, 0, 0, 1, 0, 0, 1, 1}));
  const AttentionMask padding = AttentionMask::Combined(key_mask, 2, false);
  EXPECT_EQ(padding.tensor().shape(), (Shape{2, 1, 2, 3}));
  EXPECT_EQ(Ones(padding), (std::vector{1, 0, 1, 1, 0, 1, /**/ 0, 1, 1, 0, 1, 1}));
}

TEST(AttentionMask, KeepsItsTensorWhenMoved) {
  AttentionMask first = AttentionMask::Causal(2, 2);
  const AttentionMask moved = std::move(first);
  EXPECT_EQ(Ones(moved), (std::vector{1, 0, 1, 1}));
  AttentionMask assigned = AttentionMask::Causal(1, 1);
  assigned = AttentionMask::Causal(2, 3);
  EXPECT_EQ(Ones(assigned), (std::vector{1, 1, 0, 1, 1, 1}));
}

constexpr std::pair<Weighting, const char*> kWeightings[] = {{Weighting::kSoftmax, "softmax"},
                                                             {Weighting::kNaiveSoftmax, "naive"},
                                                             {Weighting::kSum, "sum"},
                                                             {Weighting::kNone, "scores"}};
constexpr std::pair<MaskOrder, const char*> kOrders[] = {{MaskOrder::kBeforeSoftmax, "before"},
                                                         {MaskOrder::kAfterSoftmax, "after"}};

std::string NameOf(const testing::TestParamInfo<Form>& at) {
  return at.param.name;
}

// The first sequence's first key is padding, so that its first query may see nothing.
std::vector<uint8_t> Keys(int64_t B, int64_t S) {
  std::vector<uint8_t> keys(static_cast<size_t>(B * S), 1);
  keys.front() = 0;
  return keys;
}

// ---- The table ----------------------------------------------------------------------------------

std::vector<Form> SmallForms() {
  const Form layouts[] = {
      {"one_head", {.d_in = 3, .d_out = 2}, 2, 3, 3},
      {"grouped_bias_out",
       {.d_in = 3, .d_out = 4, .H = 4, .G = 2, .bias = true, .out_proj = true},
       2,
       3,
       3},
      {"cross_out",
       {.d_in = 3, .d_kv_in = 2, .d_out = 4, .H = 2, .G = 1, .out_proj = true},
       2,
       3,
       4,
       {},
       2},
      {"one_token_bias", {.d_in = 2, .d_out = 6, .H = 3, .bias = true}, 1, 1, 1},
  };
  std::vector<Form> forms;
  for (const Form& layout : layouts) {
    std::vector<uint8_t> keys = Keys(layout.B, layout.S);
    keys.back() = 0;
    const Tensor key_mask(keys.data(), {layout.B, layout.S});
    const AttentionMask causal = AttentionMask::Causal(layout.T, layout.S);
    const AttentionMask padded = AttentionMask::Combined(key_mask, layout.T, false);
    const AttentionMask both = AttentionMask::Combined(key_mask, layout.T, true);
    for (const auto& [mask, mask_name] :
         {std::pair{std::optional<AttentionMask>(), "unmasked"},
          std::pair{std::optional(causal), "causal"}, std::pair{std::optional(padded), "padded"},
          std::pair{std::optional(both), "causal_padded"}}) {
      for (const auto& [order, order_name] : kOrders) {
        if (!mask && order == MaskOrder::kAfterSoftmax) continue;
        for (const auto& [weighting, weighting_name] : kWeightings) {
          Form form = layout;
          const double p = forms.size() % 3 == 2 ? 0.4 : 0;
          form.name = layout.name + "_" + mask_name + "_" + order_name + "_" + weighting_name +
                      (p > 0 ? "_dropout" : "");
          form.options = {.mask = mask,
                          .mask_order = order,
                          .weighting = weighting,
                          .dropout = {.p = p, .seed = 3, .first_row = 5}};
          forms.push_back(form);
        }
      }
    }
  }
  return forms;
}

std::vector<Form> NamedForms() {
  std::vector<Form> forms;
  for (const auto& [weighting, name] : kWeightings) {
    forms.push_back({std::string("Simple_") + name, {.d_in = 4, .d_out = 4}, 2, 3, 3});
    forms.back().options = {.scale = 1.0, .weighting = weighting};
    forms.back().projected = false;
    forms.back().named = [w = weighting](Backend& backend, Dtype dtype) {
      return SimpleAttention(backend, 2, 3, 4, w, dtype);
    };
  }
  const AttentionSizes head = {.d_in = 3, .d_out = 2, .bias = true};
  forms.push_back({"Self", head, 2, 3, 3});
  forms.back().named = [=](Backend& backend, Dtype dtype) {
    return SelfAttention(backend, head, 2, 3, {}, dtype);
  };
  AttentionSizes no_bias = {.d_in = 3, .d_out = 4, .H = 2, .bias = true, .out_proj = true};
  no_bias.out_bias = false;
  forms.push_back({"OutputWithoutBias", no_bias, 2, 3, 3});
  forms.push_back({"Self_scaled", head, 2, 3, 3});
  forms.back().options = {.scale = 0.3};
  forms.back().named = [=](Backend& backend, Dtype dtype) {
    return SelfAttention(backend, head, 2, 3, {.scale = 0.3}, dtype);
  };
  forms.push_back({"Causal_scaled", head, 2, 3, 3});
  forms.back().options = {.scale = 0.3, .mask = AttentionMask::Causal(3, 3)};
  forms.back().named = [=](Backend& backend, Dtype dtype) {
    return CausalAttention(backend, head, 2, 3, {.scale = 0.3}, dtype);
  };
  for (const auto& [order, name] : kOrders) {
    forms.push_back({std::string("Causal_") + name, head, 2, 3, 3});
    forms.back().options = {.mask = AttentionMask::Causal(3, 3), .mask_order = order};
    forms.back().named = [=, o = order](Backend& backend, Dtype dtype) {
      return CausalAttention(backend, head, 2, 3, {.mask_order = o}, dtype);
    };
  }
  return forms;
}

// Queries, keys and values as they are.
Form DotProduct(int64_t B, int64_t T, int64_t S, int64_t H, int64_t G, int64_t D,
                const AttentionOptions& options = {}) {
  return {"DotProduct_T" + std::to_string(T) + "_S" + std::to_string(S),
          {.d_in = H * D, .d_kv_in = G * D, .d_out = H * D, .H = H, .G = G},
          B,
          T,
          S,
          options,
          3,
          false};
}

std::vector<Form> DotProducts() {
  return {DotProduct(1, 1, 1, 1, 1, 1),  DotProduct(2, 5, 5, 3, 3, 7),
          DotProduct(1, 3, 11, 4, 2, 5), DotProduct(3, 4, 2, 6, 1, 1),
          DotProduct(2, 5, 11, 6, 3, 3), DotProduct(1, 6, 4, 2, 1, 3),
          DotProduct(1, 67, 67, 2, 1, 8)};
}

// Too large for differences.
std::vector<Form> LargeForms() {
  std::vector<Form> forms = {
      {"wide", {.d_in = 2, .d_out = 7}, 3, 5, 5},
      {"long_bias", {.d_in = 13, .d_out = 11, .bias = true}, 2, 17, 17},
  };
  for (Form form : DotProducts()) {
    const std::string size = form.name;
    std::vector<uint8_t> keys = Keys(form.B, form.S);
    form.options.mask =
        AttentionMask::Combined(Tensor(keys.data(), {form.B, form.S}), form.T, true);
    for (const auto& [weighting, weighting_name] : kWeightings) {
      form.options.weighting = weighting;
      form.options.scale =
          form.T == 5 && weighting != Weighting::kNone ? std::optional(0.3) : std::nullopt;
      for (const auto& [order, order_name] : kOrders) {
        form.options.mask_order = order;
        form.name = size + "_" + order_name + "_" + weighting_name;
        forms.push_back(form);
      }
    }
  }
  return forms;
}

// ---- Steps as they are defined ------------------------------------------------------------------

// x (N,in), or x times the parameters of this name if there are any.
std::vector<double> Projected(const std::vector<double>& x, const Results& operands,
                              const std::string& name, int64_t in) {
  if (!operands.contains(name + ".weight")) return x;
  const std::vector<double>& weight = operands.at(name + ".weight");
  const size_t I = static_cast<size_t>(in), O = weight.size() / I, N = x.size() / I;
  std::vector<double> out(N * O);
  for (size_t i = 0; i < N * O; ++i) {
    if (operands.contains(name + ".bias")) out[i] = operands.at(name + ".bias")[i % O];
    for (size_t c = 0; c < I; ++c) out[i] += x[i / O * I + c] * weight[c * O + i % O];
  }
  return out;
}

// One row of each step by its definition. `sees` has one flag per key.
Results PlainRow(const std::vector<double>& scores, const std::vector<bool>& sees, MaskOrder order,
                 Weighting weighting) {
  const bool exponential =
      weighting == Weighting::kSoftmax || weighting == Weighting::kNaiveSoftmax;
  std::vector<double> masked = scores;
  for (size_t s = 0; s < sees.size(); ++s) {
    if (order == MaskOrder::kBeforeSoftmax && !sees[s]) masked[s] = exponential ? -INFINITY : 0;
  }
  std::vector<double> softmax = masked;
  double sum = 0;
  for (double& x : softmax) {
    if (exponential) x = std::exp(x);
    sum += x;
  }
  if (weighting != Weighting::kNone) {
    for (double& x : softmax) x = sum == 0 ? 0 : x / sum;
  }
  std::vector<double> weights = softmax;
  if (order == MaskOrder::kAfterSoftmax) {
    sum = 0;
    for (size_t s = 0; s < sees.size(); ++s) sum += sees[s] ? softmax[s] : 0;
    for (size_t s = 0; s < sees.size(); ++s) {
      weights[s] = sees[s] && sum != 0 ? softmax[s] / sum : 0;
    }
  }
  return {{"scores", scores}, {"masked", masked}, {"softmax", softmax}, {"weights", weights}};
}

// All steps, in loops.
Results PlainSteps(const Form& form, const Results& operands) {
  const AttentionSizes& sizes = form.sizes;
  const AttentionOptions& options = form.options;
  const int64_t B = form.B, T = form.T, S = form.S, H = sizes.H, G = sizes.kv_heads();
  const int64_t D = sizes.head_size();
  const std::vector<double>& query = operands.at("query");
  const std::vector<double>& key = operands.contains("key") ? operands.at("key") : query;
  const std::vector<double>& value = operands.contains("value") ? operands.at("value") : key;
  Results steps;
  const std::vector<double>& q = steps["q"] = Projected(query, operands, "q", sizes.d_in);
  const std::vector<double>& k = steps["k"] = Projected(key, operands, "k", sizes.kv_in());
  const std::vector<double>& v = steps["v"] = Projected(value, operands, "v", sizes.kv_in());
  const double scale = options.scale.value_or(1 / std::sqrt(static_cast<double>(D)));
  for (int64_t row = 0; row < B * H * T; ++row) {
    const int64_t b = row / (H * T), h = row / T % H, t = row % T, g = h / (H / G);
    std::vector<double> scores(static_cast<size_t>(S), 0);
    std::vector<bool> sees(static_cast<size_t>(S), true);
    for (int64_t s = 0; s < S; ++s) {
      for (int64_t d = 0; d < D; ++d) {
        scores[size_t(s)] += scale * q[size_t((b * T + t) * H * D + h * D + d)] *
                             k[size_t((b * S + s) * G * D + g * D + d)];
      }
      if (!options.mask) continue;
      const Tensor mask = options.mask->tensor();
      const int64_t mask_b = mask.dim(0) == 1 ? 0 : b;
      sees[size_t(s)] = mask.data<uint8_t>()[(mask_b * T + t) * S + s] != 0;
    }
    for (const auto& [name, values] :
         PlainRow(scores, sees, options.mask_order, options.weighting)) {
      steps[name].insert(steps[name].end(), values.begin(), values.end());
    }
  }
  const Array weights({B * H * T, S}, Dtype::kF64, steps["weights"]);
  const Array kept({B * H * T, S});
  MakeReferenceBackend()->Run(
      ResidualForward{.x = weights, .out = kept, .dropout = options.dropout});
  steps["kept"] = kept.values();
  steps["context"].resize(size_t(B * T * H * D));
  for (int64_t i = 0; i < B * T * H * D; ++i) {
    const int64_t b = i / (T * H * D), t = i / (H * D) % T, h = i / D % H, d = i % D;
    for (int64_t s = 0; s < S; ++s) {
      steps["context"][size_t(i)] += steps["kept"][size_t(((b * H + h) * T + t) * S + s)] *
                                     v[size_t((b * S + s) * G * D + h / (H / G) * D + d)];
    }
  }
  steps["out"] = Projected(steps["context"], operands, "out", sizes.d_out);
  return steps;
}

// -infinity in both becomes 0 in both, so that differences can be taken.
Results Finite(Results steps) {
  for (double& x : steps["masked"]) x = x == -INFINITY ? -12345 : x;
  return steps;
}

class AttentionForm : public testing::TestWithParam<Form> {};

TEST_P(AttentionForm, StepsAreWhatTheirDefinitionsSay) {
  const Form& form = GetParam();
  const AttentionSizes& sizes = form.sizes;
  const Shape queries = {form.B * form.T, sizes.d_out}, keys = {form.B * form.S, sizes.kv_out()};
  const Results operands = form.Operands(), expected = PlainSteps(form, operands);
  for (const auto& [name, dtype, bound] : kMachines) {
    SCOPED_TRACE(testing::Message() << name << (dtype == Dtype::kF64 ? " f64" : " f32"));
    const auto backend = MakeBackend(name);
    FormRun run(form, *backend, dtype, operands);
    const Tensor& out = run.Forward();
    const AttentionSteps& steps = run.steps();
    const StepwiseAttention& left = run.attention();
    EXPECT_EQ(out.raw(), left.out().raw());
    EXPECT_EQ(out.shape(), queries);
    EXPECT_EQ(left.q().shape(), queries);
    EXPECT_EQ(left.k().shape(), keys);
    EXPECT_EQ(left.v().shape(), keys);
    EXPECT_EQ(steps.scores.shape(), (Shape{form.B, sizes.H, form.T, form.S}));
    EXPECT_EQ(steps.weights.shape(), steps.scores.shape());
    EXPECT_EQ(steps.context.shape(), queries);
    EXPECT_EQ(out.raw() == steps.context.raw(), !sizes.out_proj);
    const Results found = {{"q", Values(left.q())},
                           {"k", Values(left.k())},
                           {"v", Values(left.v())},
                           {"scores", Values(steps.scores)},
                           {"masked", Values(steps.masked)},
                           {"softmax", Values(steps.softmax)},
                           {"weights", Values(steps.weights)},
                           {"kept", Values(steps.kept)},
                           {"context", Values(steps.context)},
                           {"out", Values(out)}};
    ExpectClose(Finite(found), Finite(expected), bound);
    // What is hidden has no weight at all, and all else has one.
    for (size_t i = 0; i < found.at("weights").size(); ++i) {
      EXPECT_EQ(found.at("weights")[i] == 0, expected.at("weights")[i] == 0) << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Small, AttentionForm, testing::ValuesIn(SmallForms()), NameOf);
INSTANTIATE_TEST_SUITE_P(Named, AttentionForm, testing::ValuesIn(NamedForms()), NameOf);
INSTANTIATE_TEST_SUITE_P(Large, AttentionForm, testing::ValuesIn(LargeForms()), NameOf);

class AttentionFormGradients : public testing::TestWithParam<Form> {};

TEST_P(AttentionFormGradients, AreCentralDifferencesAndAgreeInFloat32) {
  constexpr int64_t kLongestSum = 16;
  const Results operands = GetParam().Operands();
  ExpectGradients(GetParam(), operands);
  ExpectFloat32Agrees(GetParam(), operands, kLongestSum);
}

INSTANTIATE_TEST_SUITE_P(Small, AttentionFormGradients, testing::ValuesIn(SmallForms()), NameOf);
INSTANTIATE_TEST_SUITE_P(Named, AttentionFormGradients, testing::ValuesIn(NamedForms()), NameOf);

// ---- The operation that is all steps in one -----------------------------------------------------

// Masks that it can express: causal, and padded keys. So both orders of masking agree too.
TEST(StepwiseAttention, GivesWhatTheFusedOperationGives) {
  for (const auto& [name, dtype, bound] : kMachines) {
    const auto backend = MakeBackend(name);
    for (Form form : DotProducts()) {
      const int64_t B = form.B, T = form.T, S = form.S, H = form.sizes.H, G = form.sizes.G;
      const int64_t d_out = form.sizes.d_out, kv_out = form.sizes.kv_out();
      std::vector<uint8_t> keys = Keys(B, S);
      const Tensor key_mask(keys.data(), {B, S});
      for (const bool causal : {true, false}) {
        form.options = {.mask = AttentionMask::Combined(key_mask, T, causal),
                        .dropout = {.p = 0.4, .seed = 3, .stream = 9, .first_row = 7}};
        const Results o = form.Operands();
        const Shape query_rows = {B * T, d_out}, key_rows = {B * S, kv_out};
        const Array q(query_rows, dtype, o.at("query")), k(key_rows, dtype, o.at("key"));
        const Array v(key_rows, dtype, o.at("value")), d(query_rows, dtype, o.at("d_out"));
        const Array d_q(query_rows, dtype), d_k(key_rows, dtype), d_v(key_rows, dtype);
        const Array out(query_rows, dtype), lse({B, H, T}, dtype), probs({B, H, T, S}, dtype);
        const auto queries = [&](const Tensor& x) { return SequenceView{x, B, T, 0, d_out}; };
        const auto rows = [&](const Tensor& x) { return SequenceView{x, B, S, 0, kv_out}; };
        const AttentionForward forward{.q = queries(q),
                                       .k = rows(k),
                                       .v = rows(v),
                                       .key_mask = key_mask,
                                       .out = queries(out),
                                       .lse = lse,
                                       .probs = probs,
                                       .H = H,
                                       .G = G,
                                       .causal = causal,
                                       .dropout = form.options.dropout};
        backend->Run(forward);
        AttentionBackward backward = BackwardOf(forward);
        backward.d_out = queries(d);
        backward.d_q = queries(d_q);
        backward.d_k = rows(d_k);
        backward.d_v = rows(d_v);
        backend->Run(backward);
        const Results expected = {{"out", out.values()},
                                  {"weights", probs.values()},
                                  {"d_query", d_q.values()},
                                  {"d_key", d_k.values()},
                                  {"d_value", d_v.values()}};
        SCOPED_TRACE(testing::Message() << name << " " << form.name << ", causal " << causal);
        ExpectClose(FormRun(form, *backend, dtype, o).All(), expected, bound);
        form.options.mask_order = MaskOrder::kAfterSoftmax;
        // With one key that counts, the gradients of scores cancel whole.
        ExpectClose(FormRun(form, *backend, dtype, o).All(), expected, bound / 2,
                    Largest(o.at("d_out")));
      }
    }
  }
}

// ---- Single properties --------------------------------------------------------------------------

class OneForm : public testing::Test {
 protected:
  FormRun Run(const Form& form, Dtype dtype = Dtype::kF32) const {
    return FormRun(form, *backend_, dtype, form.Operands());
  }
  const std::unique_ptr<Backend> backend_ = MakeReferenceBackend();
};

TEST_F(OneForm, StepsThatAreLeftOutAreTheStepBefore) {
  FormRun run = Run(DotProduct(2, 5, 5, 3, 3, 7));
  const AttentionSteps& steps = run.steps();
  AttentionOptions& options = run.attention().options();
  run.Forward();
  EXPECT_EQ(steps.masked.raw(), steps.scores.raw());
  EXPECT_NE(steps.softmax.raw(), steps.masked.raw());
  EXPECT_EQ(steps.weights.raw(), steps.softmax.raw());
  EXPECT_EQ(steps.kept.raw(), steps.weights.raw());
  options.mask = AttentionMask::Causal(5, 5);
  options.weighting = Weighting::kNone;
  options.dropout = {.p = 0.5, .seed = 1};
  run.Forward();
  EXPECT_NE(steps.masked.raw(), steps.scores.raw());
  EXPECT_EQ(steps.softmax.raw(), steps.masked.raw());
  EXPECT_NE(steps.kept.raw(), steps.weights.raw());
  options.mask_order = MaskOrder::kAfterSoftmax;
  run.Forward();
  EXPECT_EQ(steps.softmax.raw(), steps.scores.raw());
  EXPECT_NE(steps.weights.raw(), steps.softmax.raw());
}

TEST_F(OneForm, QueriesThatSeeNothingGiveZerosAndNoGradient) {
  std::vector<uint8_t> keys = {0, 0, 0, /**/ 0, 1, 1};
  const AttentionMask mask = AttentionMask::Combined(Tensor(keys.data(), {2, 3}), 3, true);
  for (const auto& [order, order_name] : kOrders) {
    Results found = Run(DotProduct(2, 3, 3, 2, 2, 4, {.mask = mask, .mask_order = order})).All();
    found.erase("weights");
    for (size_t i = 0; i < 48; ++i) {
      // Rows of sequence 0 and the first of sequence 1: queries that see nothing, keys unseen.
      const bool none = i / 8 <= 3;
      EXPECT_EQ(found.at("out")[i] == 0, none) << i;
      for (const auto& [name, values] : found) {
        EXPECT_TRUE(std::isfinite(values[i])) << name;
        // After the softmax, the gradient of a hidden key's score is a sum that cancels.
        if (none) {
          EXPECT_NEAR(values[i], 0, name == "d_key" ? 1e-6 : 0) << name << "[" << i << "]";
        }
      }
    }
  }
}

TEST_F(OneForm, DropoutScalesWhatItKeeps) {
  constexpr double p = 0.3;
  FormRun run =
      Run(DotProduct(2, 64, 64, 4, 4, 3,
                     {.mask = AttentionMask::Causal(64, 64), .dropout = {.p = p, .seed = 11}}));
  run.Forward();
  const std::vector<double> weights = Values(run.steps().weights), kept = Values(run.steps().kept);
  double sum = 0, variance = 0;
  for (size_t i = 0; i < kept.size(); ++i) {
    if (kept[i] != 0) {
      EXPECT_FLOAT_EQ(float(kept[i]), float(weights[i] / (1 - p)));
    }
    sum += kept[i];
    variance += weights[i] * weights[i] * p / (1 - p);
  }
  // Each row adds up to 1 before dropout, and so on average after it.
  EXPECT_NEAR(sum, 2 * 4 * 64, 5 * std::sqrt(variance));
  EXPECT_NE(sum, 2 * 4 * 64);
}

TEST_F(OneForm, NaiveSoftmaxOverflowsAndTheOtherDoesNot) {
  Form form = DotProduct(1, 1, 2, 1, 1, 1);
  const Results operands = {{"query", {1}}, {"key", {100, 0}}, {"d_out", {0}}};
  FormRun run(form, *backend_, Dtype::kF32, operands);
  run.Forward();
  EXPECT_EQ(Values(run.steps().softmax)[0], 1);
  run.attention().options().weighting = Weighting::kNaiveSoftmax;
  run.Forward();
  EXPECT_TRUE(std::isnan(Values(run.steps().softmax)[0]));
}

TEST_F(OneForm, RefusesSizesThatDoNotFit) {
  for (const auto& [H, G] : {std::pair{6, 4}, std::pair{2, 4}, std::pair{0, 0}, std::pair{2, -1}}) {
    EXPECT_THROW(DotProductAttention(*backend_, H, G, 1, 1, 1, 1), Error) << H;
  }
  const AttentionSizes head = {.d_in = 3, .d_out = 2};
  EXPECT_THROW(SelfAttention(*backend_, {.d_in = 3, .d_out = 0}, 1, 4), Error);
  EXPECT_THROW(MultiHeadAttention(*backend_, {.d_in = 3, .d_out = 10, .H = 4}, 1, 1, 1), Error);
  EXPECT_THROW(StackedHeads(*backend_, head, 0, 1, 1), Error);
  EXPECT_THROW(StackedHeads(*backend_, head, -1, 1, 1), Error);
}

// GPT-2's sublayer: one fused projection, one fused operation.
TEST(MultiHeadAttention, IsGptsSublayerWithMappedWeights) {
  constexpr int64_t B = 2, T = 5, C = 6, H = 3;
  std::vector<uint8_t> keys = {1, 1, 0, 1, 1, /**/ 0, 1, 1, 1, 0};
  const Tensor key_mask(keys.data(), {B, T});
  GptConfig config;
  config.n_embd = C;
  config.n_head = H;
  config.n_layer = 1;
  config.attn_pdrop = 0.3;
  for (const Machine& m : kMachines) {
    const auto backend = MakeBackend(m.backend);
    const PassContext pass{.backend = *backend,
                           .config = config,
                           .B = B,
                           .T = T,
                           .key_mask = key_mask,
                           .dropout = {.on = true, .seed = 5, .step = 2}};
    const Form form = {"split",
                       {.d_in = C, .d_out = C, .H = H, .bias = true, .out_proj = true},
                       B,
                       T,
                       T,
                       {.mask = AttentionMask::Combined(key_mask, T, true),
                        .dropout = pass.BlockDropout(0, kAttentionDropout)}};
    const Results operands = form.Operands();
    const AttentionWeights weights(form.sizes, m.dtype), d_weights(form.sizes, m.dtype);
    for (const auto& [name, x] : Named(weights.params())) Assign(x, operands.at(name));
    const AttentionParams &p = weights.params(), &d = d_weights.params();

    const Array c_attn({C, 3 * C}, m.dtype), d_c_attn({C, 3 * C}, m.dtype);
    const Array c_attn_bias({1, 3 * C}, m.dtype), d_c_attn_bias({1, 3 * C}, m.dtype);
    const LinearParams layers[] = {p.q, p.k, p.v}, d_layers[] = {d.q, d.k, d.v};
    for (int64_t i = 0; i < 3; ++i) {
      CopyColumns(layers[i].weight, 0, c_attn, i * C, C);
      CopyColumns(layers[i].bias.Reshape({1, C}), 0, c_attn_bias, i * C, C);
    }
    const auto flat = [](const Tensor& x) { return x.Reshape({3 * C}); };
    SelfAttentionParams params, d_params;
    params.c_attn = {c_attn, flat(c_attn_bias)};
    params.c_proj = p.out;
    d_params.c_attn = {d_c_attn, flat(d_c_attn_bias)};
    d_params.c_proj = d.out;
    const Array qkv({B * T, 3 * C}, m.dtype), lse({B, H, T}, m.dtype), attn({B * T, C}, m.dtype);
    SelfAttentionActivations acts;
    acts.qkv = qkv;
    acts.lse = lse;
    acts.attn = attn;
    const Array d_wide({B * T, 3 * C}, m.dtype), d_attn({B * T, C}, m.dtype);
    GptGradients grads;
    grads.d_wide = d_wide;
    grads.d_attn = d_attn;
    const Array x({B * T, C}, m.dtype, operands.at("query"));
    const Array d_out({B * T, C}, m.dtype, operands.at("d_out"));
    const Array out({B * T, C}, m.dtype), d_x({B * T, C}, m.dtype);
    SelfAttentionForward(pass, 0, params, acts, {}, x, out);
    SelfAttentionBackward(pass, 0, params, acts, x, d_out, d_params, grads, d_x, false);

    Results expected = {{"out", out.values()}, {"d_query", d_x.values()}};
    for (int64_t i = 0; i < 3; ++i) {
      CopyColumns(d_c_attn, i * C, d_layers[i].weight, 0, C);
      CopyColumns(d_c_attn_bias, i * C, d_layers[i].bias.Reshape({1, C}), 0, C);
    }
    for (const auto& [name, gradient] : Named(d)) expected["d_" + name] = Values(gradient);
    Results found = FormRun(form, *backend, m.dtype, operands).All();
    found.erase("weights");
    // A sum that cancels.
    found.erase("d_k.bias");
    expected.erase("d_k.bias");
    ExpectClose(found, expected, m.bound);
  }
}

// Results, gradients, and every head's weights.
TEST(MultiHeadAttention, IsStackedHeadsOfTheJoinedWeights) {
  struct Case {
    AttentionSizes sizes;
    int64_t heads, B, T;
  };
  for (const auto& [sizes, heads, B, T] : {Case{{.d_in = 3, .d_out = 2}, 2, 2, 6},
                                           Case{{.d_in = 5, .d_out = 7, .bias = true}, 3, 1, 5},
                                           Case{{.d_in = 1, .d_out = 1}, 1, 1, 1},
                                           Case{{.d_in = 7, .d_out = 1, .bias = true}, 5, 3, 2}}) {
    for (const Machine& m : kMachines) {
      SCOPED_TRACE(testing::Message() << heads << " heads of " << sizes.d_out);
      const auto backend = MakeBackend(m.backend);
      std::vector<AttentionWeights> weights, gradients;
      for (int64_t h = 0; h < heads; ++h) {
        weights.emplace_back(sizes, m.dtype);
        gradients.emplace_back(sizes, m.dtype);
        Scatter(weights.back(), static_cast<uint64_t>(h));
      }
      const AttentionWeights joined = JoinHeads(weights);
      const Form split = {"split", joined.sizes(), B, T, T, {.mask = AttentionMask::Causal(T, T)}};
      Results operands = split.Operands();
      for (const auto& [name, x] : Named(joined.params())) operands[name] = Values(x);
      Results expected = FormRun(split, *backend, m.dtype, operands).All();

      const Array x({B * T, sizes.d_in}, m.dtype, operands.at("query"));
      const Array d_out({B * T, heads * sizes.d_out}, m.dtype, operands.at("d_out"));
      const Array d_x({B * T, sizes.d_in}, m.dtype), d_head({B * T, sizes.d_out}, m.dtype);
      const Array all({B, heads * T * T}, m.dtype);
      std::vector<StepwiseAttention> stack =
          StackedHeads(*backend, sizes, heads, B, T, {}, m.dtype);
      ASSERT_EQ(std::ssize(stack), heads);
      std::vector<double> d_query(expected.at("d_query").size());
      for (size_t h = 0; h < stack.size(); ++h) {
        const auto column = static_cast<int64_t>(h);
        CopyColumns(d_out, column * sizes.d_out, d_head, 0, sizes.d_out);
        stack[h].Forward(weights[h].params(), x);
        stack[h].Backward(weights[h].params(), x, d_head, gradients[h].params(), d_x);
        const std::vector<double> part = d_x.values();
        for (size_t i = 0; i < part.size(); ++i) d_query[i] += part[i];
        CopyColumns(stack[h].steps().weights.Reshape({B, T * T}), 0, all, column * T * T, T * T);
      }
      Results found = {{"out", Values(SideBySide(stack).tensor())},
                       {"weights", all.values()},
                       {"d_query", d_query}};
      const AttentionWeights d_joined = JoinHeads(gradients);
      for (const auto& [name, d] : Named(d_joined.params())) found["d_" + name] = Values(d);
      // Gradients of biases of keys are sums that cancel.
      found.erase("d_k.bias");
      expected.erase("d_k.bias");
      if (T == 1) {  // where no score has a gradient
        for (const char* name : {"d_q.weight", "d_k.weight"}) {
          found.erase(name);
          expected.erase(name);
        }
      }
      ExpectClose(found, expected, m.bound);
    }
  }
}

// Heads that are stacked drop what the split layer drops.
TEST(StackedHeadsWithDropout, AreTheSplitLayer) {
  constexpr int64_t T = 5, kHeads = 3;
  const AttentionSizes sizes = {.d_in = 4, .d_out = 2};
  const auto backend = MakeReferenceBackend();
  const Dropout dropout = {.p = 0.4, .seed = 3, .stream = 4, .first_row = 2};
  std::vector<AttentionWeights> weights;
  for (uint64_t h = 0; h < kHeads; ++h) {
    weights.emplace_back(sizes, Dtype::kF64);
    Scatter(weights.back(), h);
  }
  const AttentionWeights joined = JoinHeads(weights);
  std::vector<double> numbers;
  for (int i = 0; i < T * 4; ++i) numbers.push_back(std::sin(i));
  const Array x({T, sizes.d_in}, Dtype::kF64, numbers);
  std::vector<StepwiseAttention> stack =
      StackedHeads(*backend, sizes, kHeads, 1, T, {.scale = 0.7, .dropout = dropout}, Dtype::kF64);
  for (size_t h = 0; h < stack.size(); ++h) stack[h].Forward(weights[h].params(), x);
  StepwiseAttention split = MultiHeadAttention(
      *backend, joined.sizes(), 1, T, T,
      {.scale = 0.7, .mask = AttentionMask::Causal(T, T), .dropout = dropout}, Dtype::kF64);
  const std::vector<double> expected = Values(split.Forward(joined.params(), x));
  EXPECT_EQ(Values(SideBySide(stack).tensor()), expected);
  EXPECT_NE(Values(stack[0].steps().kept), Values(stack[0].steps().weights));
}

}  // namespace

}  // namespace folio
