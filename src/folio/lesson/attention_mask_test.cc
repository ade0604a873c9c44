#include "folio/lesson/attention_mask.h"

#include <gtest/gtest.h>

#include <utility>

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

}  // namespace
}  // namespace folio
