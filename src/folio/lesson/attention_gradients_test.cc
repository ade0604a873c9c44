// The gradients of whole forms with respect to inputs and every parameter: in float64 against
// central differences, in float32 on both backends against float64.

#include <gtest/gtest.h>

#include "folio/lesson/attention_mask.h"
#include "folio/lesson/test_attention_forms.h"

namespace folio {
namespace {

constexpr int64_t kLongestSum = 16;

void Check(const Form& form, const Results& operands) {
  ExpectGradients(form, operands);
  ExpectFloat32Agrees(form, operands, kLongestSum);
}

// ---- Many heads, in all ways --------------------------------------------------------------------

struct Layout {
  const char* name;
  AttentionSizes sizes;
  int64_t B, T, S;
  bool cross = false;
};

enum class Masking { kNone, kCausal, kPadding, kBoth };

struct Case {
  Layout layout;
  Masking masking;
  MaskOrder order;
  Weighting weighting;
  double dropout;
  std::string name;
};

void PrintTo(const Case& c, std::ostream* out) {
  *out << c.name;
}

std::vector<Case> Cases() {
  const Layout layouts[] = {
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
       true},
      {"one_token_bias", {.d_in = 2, .d_out = 6, .H = 3, .bias = true}, 1, 1, 1},
  };
  std::vector<Case> cases;
  for (const Layout& layout : layouts) {
    for (const auto& [masking, mask_name] :
         {std::pair{Masking::kNone, "unmasked"}, std::pair{Masking::kCausal, "causal"},
          std::pair{Masking::kPadding, "padded"}, std::pair{Masking::kBoth, "causal_padded"}}) {
      for (const MaskOrder order : {MaskOrder::kBeforeSoftmax, MaskOrder::kAfterSoftmax}) {
        if (masking == Masking::kNone && order == MaskOrder::kAfterSoftmax) continue;
        for (const auto& [weighting, weighting_name] :
             {std::pair{Weighting::kSoftmax, "softmax"},
              std::pair{Weighting::kNaiveSoftmax, "naive"}, std::pair{Weighting::kSum, "sum"},
              std::pair{Weighting::kNone, "scores"}}) {
          const double dropout = cases.size() % 3 == 2 ? 0.4 : 0;
          cases.push_back({layout, masking, order, weighting, dropout,
                           std::string(layout.name) + "_" + mask_name +
                               (order == MaskOrder::kBeforeSoftmax ? "_before_" : "_after_") +
                               weighting_name + (dropout > 0 ? "_dropout" : "")});
        }
      }
    }
  }
  return cases;
}

class AttentionGradients : public testing::TestWithParam<Case> {};

TEST_P(AttentionGradients, AreCentralDifferences) {
  const Case& c = GetParam();
  const auto& [layout_name, sizes, B, T, S, cross] = c.layout;
  // In the first sequence the first query sees nothing if the mask is causal too.
  std::vector<uint8_t> keys(static_cast<size_t>(B * S), 1);
  keys.front() = keys.back() = 0;
  const Tensor key_mask(keys.data(), {B, S});
  std::optional<AttentionMask> mask;
  if (c.masking == Masking::kCausal) mask = AttentionMask::Causal(T, S);
  if (c.masking == Masking::kPadding) mask = AttentionMask::Combined(key_mask, T, false);
  if (c.masking == Masking::kBoth) mask = AttentionMask::Combined(key_mask, T, true);
  const AttentionOptions options = {.mask = mask,
                                    .mask_order = c.order,
                                    .weighting = c.weighting,
                                    .dropout = {.p = c.dropout, .seed = 3, .first_row = 5}};
  // Sums of scores that are divided by must not come near 0.
  const bool positive = c.weighting == Weighting::kSum || c.weighting == Weighting::kNone;
  Results operands;
  operands["query"] = RandomValues(B * T * sizes.d_in, 1, positive);
  if (cross) operands["key_value"] = RandomValues(B * S * sizes.kv_in(), 2, positive);
  operands["d_out"] = RandomValues(B * T * sizes.d_out, 3);
  PutParams(sizes, 4, positive, operands);
  Check(
      [&](Backend& backend, Dtype dtype, const Results& at) {
        return RunMultiHead(backend, dtype, at, c.layout.sizes, c.layout.B, c.layout.T, c.layout.S,
                            options);
      },
      operands);
}

INSTANTIATE_TEST_SUITE_P(Forms, AttentionGradients, testing::ValuesIn(Cases()),
                         [](const auto& at) { return at.param.name; });

// ---- The other forms ----------------------------------------------------------------------------

constexpr int64_t kB = 2, kT = 3;

TEST(SimpleAttentionGradients, AreCentralDifferences) {
  for (const Weighting weighting :
       {Weighting::kSoftmax, Weighting::kNaiveSoftmax, Weighting::kSum, Weighting::kNone}) {
    SCOPED_TRACE(static_cast<int>(weighting));
    const Shape shape{kB * kT, 4};
    Check(
        [&](Backend& backend, Dtype dtype, const Results& at) {
          StepwiseAttention attention = SimpleAttention(backend, kB, kT, 4, weighting, dtype);
          const Array x(shape, dtype, at.at("x")), d_out(shape, dtype, at.at("d_out"));
          const Array d_x = Overwritten(shape, dtype);
          Results results = {{"out", Values(attention.Forward({}, x))}};
          results["weights"] = Values(attention.steps().weights);
          attention.Backward({}, x, d_out, {}, d_x);
          results["d_x"] = d_x.values();
          return results;
        },
        {{"x", RandomValues(shape.count(), 1, weighting == Weighting::kSum)},
         {"d_out", RandomValues(shape.count(), 2)}});
  }
}

constexpr AttentionSizes kHead = {.d_in = 3, .d_out = 2, .bias = true};
const Shape kX = {kB * kT, kHead.d_in};

Results RunHead(StepwiseAttention attention, Dtype dtype, const Results& at) {
  const FormParams params(kHead, dtype, at);
  const Array x(kX, dtype, at.at("x")), d_out({kB * kT, kHead.d_out}, dtype, at.at("d_out"));
  const Array d_x = Overwritten(kX, dtype);
  Results results = {{"out", Values(attention.Forward(params.params(), x))}};
  results["weights"] = Values(attention.steps().weights);
  attention.Backward(params.params(), x, d_out, params.gradients(), d_x);
  results["d_x"] = d_x.values();
  params.PutGradients(results);
  return results;
}

Results HeadOperands() {
  Results operands = {{"x", RandomValues(kX.count(), 1)},
                      {"d_out", RandomValues(kB * kT * kHead.d_out, 2)}};
  PutParams(kHead, 3, false, operands);
  return operands;
}

TEST(SelfAttentionGradients, AreCentralDifferences) {
  Check(
      [](Backend& backend, Dtype dtype, const Results& at) {
        return RunHead(SelfAttention(backend, kHead, kB, kT, {}, dtype), dtype, at);
      },
      HeadOperands());
}

TEST(CausalAttentionGradients, AreCentralDifferences) {
  for (const MaskOrder order : {MaskOrder::kBeforeSoftmax, MaskOrder::kAfterSoftmax}) {
    for (const double p : {0.0, 0.4}) {
      SCOPED_TRACE(testing::Message() << "order " << static_cast<int>(order) << ", p " << p);
      Check(
          [&](Backend& backend, Dtype dtype, const Results& at) {
            StepwiseAttention attention = CausalAttention(backend, kHead, kB, kT, order, dtype);
            attention.options().dropout = {.p = p, .seed = 8};
            return RunHead(std::move(attention), dtype, at);
          },
          HeadOperands());
    }
  }
}

}  // namespace
}  // namespace folio
