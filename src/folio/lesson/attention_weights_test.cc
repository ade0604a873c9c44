#include "folio/lesson/attention_weights.h"

#include <gtest/gtest.h>

#include <set>

#include "folio/base/error.h"
#include "folio/lesson/test_attention.h"
#include "tests/kit/expect.h"

namespace folio {
namespace {

TEST(AttentionSizes, RefuseWhatDoesNotFit) {
  const auto refusal = [](const AttentionSizes& sizes) {
    return ErrorOf([&] { AttentionWeights weights(sizes); }, ErrorKind::kUsage);
  };
  EXPECT_TRUE(Contains(refusal({.d_in = 3, .d_out = 10, .H = 4}),
                       "the number of heads must divide d_out",
                       "d_out is 10, the number of heads is 4"));
  EXPECT_TRUE(Contains(refusal({.d_in = 3, .d_out = 12, .H = 6, .G = 4}),
                       "the number of heads is 6, the number of heads of keys and values is 4"));
  EXPECT_TRUE(Contains(refusal({.d_in = 0, .d_out = 4}), "d_in is out of range"));
  EXPECT_TRUE(Contains(refusal({.d_in = 4, .d_kv_in = -1, .d_out = 4}), "d_kv_in"));
  EXPECT_TRUE(Contains(refusal({.d_in = 4, .d_out = 0}), "d_out"));
  EXPECT_TRUE(Contains(refusal({.d_in = 4, .d_out = 4, .H = 0}), "heads is 0"));
  EXPECT_TRUE(Contains(refusal({.d_in = 4, .d_out = 4, .H = 2, .G = -2}), "-2"));
  EXPECT_TRUE(Contains(refusal({.d_in = int64_t{1} << 40, .d_out = 4}), "d_in"));
  const AttentionSizes wrong = {.d_in = 3, .d_out = 10, .H = 4};
  EXPECT_EQ(Refused([&] { wrong.Validate(); }, ErrorKind::kUsage).help(),
            "set the number of heads to 2 or 5, or d_out to 8 or 12");
}

TEST(AttentionWeights, HaveTheShapesOfTheirSizes) {
  const AttentionSizes sizes = {
      .d_in = 5, .d_kv_in = 7, .d_out = 12, .H = 6, .G = 2, .bias = true, .out_proj = true};
  const AttentionWeights all(sizes, Dtype::kF64);
  EXPECT_EQ(all.dtype(), Dtype::kF64);
  std::vector<Shape> shapes;  // of weight and bias of q, k, v and out
  for (const auto& [name, x] : Named(all.params())) {
    EXPECT_EQ(x.dtype(), Dtype::kF64);
    EXPECT_EQ(Largest(Values(x)), 0) << name;
    shapes.push_back(x.shape());
  }
  EXPECT_EQ(shapes, (std::vector<Shape>{{5, 12}, {12}, {7, 4}, {4}, {7, 4}, {4}, {12, 12}, {12}}));
  const AttentionWeights least({.d_in = 1, .d_out = 1});
  EXPECT_EQ(Named(least.params()).size(), 3u);
  EXPECT_EQ(least.dtype(), Dtype::kF32);
}

TEST(AttentionWeights, StayInPlaceWhenMoved) {
  AttentionWeights weights({.d_in = 3, .d_out = 2});
  DrawAttention(weights, AttentionDraws::kUnit, 1);
  const std::vector<double> before = Values(weights.params().v.weight);
  const AttentionWeights moved = std::move(weights);
  EXPECT_EQ(Values(moved.params().v.weight), before);
}

TEST(JoinHeads, PutsColumnsSideBySide) {
  const AttentionSizes sizes = {.d_in = 2, .d_out = 2, .bias = true};
  std::vector<AttentionWeights> heads;
  for (const double h : {1, 2, 3}) {
    heads.emplace_back(sizes);
    const AttentionParams& p = heads.back().params();
    Assign(p.q.weight, std::vector{h, h + 0.1, h + 0.2, h + 0.3});
    Assign(p.v.bias, std::vector{10 * h, 10 * h + 1});
  }
  const AttentionWeights joined = JoinHeads(heads);
  EXPECT_EQ(joined.sizes().H, 3);
  EXPECT_EQ(joined.sizes().d_out, 6);
  EXPECT_EQ(joined.sizes().head_size(), 2);
  EXPECT_FALSE(joined.sizes().out_proj);
  const std::vector<double> expected = {1, 1.1, 2, 2.1, 3, 3.1, 1.2, 1.3, 2.2, 2.3, 3.2, 3.3};
  EXPECT_LE(Difference(Values(joined.params().q.weight), expected), 1e-6);
  EXPECT_EQ(Values(joined.params().v.bias), (std::vector<double>{10, 11, 20, 21, 30, 31}));
}

// The bits that Philox gives, shifted to 24, at streams that no other draw uses.
TEST(DrawAttention, FromFoliosNumbersNeverChanges) {
  AttentionWeights weights({.d_in = 3, .d_out = 2, .bias = true, .out_proj = true});
  DrawAttention(weights, AttentionDraws::kUnit, 123);
  const AttentionParams& p = weights.params();
  EXPECT_EQ(p.q.weight.data<float>()[0], 0.3391047716140747f);
  EXPECT_EQ(p.q.weight.data<float>()[1], 0.12738078832626343f);
  EXPECT_EQ(p.k.weight.data<float>()[0], 0.36026841402053833f);
  EXPECT_EQ(p.v.weight.data<float>()[0], 0.9878681302070618f);
  EXPECT_EQ(p.out.weight.data<float>()[0], 0.406413733959198f);
  DrawAttention(weights, AttentionDraws::kLinear, 123);
  const double bound = 1 / std::sqrt(3.0);
  EXPECT_EQ(p.q.weight.data<float>()[0], static_cast<float>((2 * 0.3391047716140747 - 1) * bound));
}

TEST(DrawAttention, StaysInItsBounds) {
  const AttentionSizes sizes = {
      .d_in = 40, .d_kv_in = 10, .d_out = 50, .H = 5, .bias = true, .out_proj = true};
  AttentionWeights weights(sizes);
  const auto expect_within = [&](const Tensor& x, double low, double high) {
    const std::vector<double> values = Values(x);
    const auto [least, most] = std::minmax_element(values.begin(), values.end());
    EXPECT_GE(*least, low);
    EXPECT_LE(*most, high);
    // That n numbers all miss an outer part of share f has probability (1 - f)^n: here e^-12.
    const double f = 12.0 / static_cast<double>(values.size());
    if (f > 0.5) return;
    EXPECT_LT(*least, low + f * (high - low));
    EXPECT_GT(*most, high - f * (high - low));
  };
  for (const bool torch : {false, true}) {
    TorchRng rng(5);
    const auto draw = [&](AttentionDraws draws) {
      if (torch) {
        DrawAttention(weights, draws, rng);
      } else {
        DrawAttention(weights, draws, 5);
      }
    };
    draw(AttentionDraws::kLinear);
    const AttentionParams& p = weights.params();
    for (const auto& [layer, in] :
         {std::pair{p.q, 40}, std::pair{p.k, 10}, std::pair{p.v, 10}, std::pair{p.out, 50}}) {
      const double bound = 1 / std::sqrt(static_cast<double>(in)) * (1 + 1e-7);
      expect_within(layer.weight, -bound, bound);
      expect_within(layer.bias, -bound, bound);
    }
    const std::vector<double> bias = Values(p.k.bias);
    draw(AttentionDraws::kUnit);
    for (const LinearParams& layer : {p.q, p.k, p.v, p.out}) expect_within(layer.weight, 0, 1);
    EXPECT_LT(Largest(Values(p.q.weight)), 1);
    EXPECT_EQ(Values(p.k.bias), bias);  // has no draws of this kind
  }
}

TEST(DrawAttention, GivesEveryLayerHeadAndSeedNumbersOfItsOwn) {
  std::set<double> firsts;
  size_t count = 0;
  for (const uint64_t seed : {1, 2}) {
    for (const uint64_t head : {0, 1, 2}) {
      AttentionWeights weights({.d_in = 4, .d_out = 4, .H = 2, .bias = true, .out_proj = true});
      DrawAttention(weights, AttentionDraws::kLinear, seed, head);
      for (const auto& [name, x] : Named(weights.params())) {
        firsts.insert(Values(x)[0]);
        ++count;
      }
    }
  }
  EXPECT_EQ(firsts.size(), count);
}

// The number of an element depends on seed, layer and place alone.
TEST(DrawAttention, GivesBothDtypesTheSame) {
  const AttentionSizes sizes = {.d_in = 5, .d_out = 3, .bias = true};
  AttentionWeights single(sizes), twice(sizes, Dtype::kF64);
  for (const AttentionDraws draws : {AttentionDraws::kUnit, AttentionDraws::kLinear}) {
    DrawAttention(single, draws, 9, 4);
    DrawAttention(twice, draws, 9, 4);
    const auto a = Named(single.params()), b = Named(twice.params());
    for (size_t i = 0; i < a.size(); ++i) {
      EXPECT_LE(Difference(Values(a[i].second), Values(b[i].second)), 0x1p-25) << a[i].first;
    }
  }
}

}  // namespace
}  // namespace folio
