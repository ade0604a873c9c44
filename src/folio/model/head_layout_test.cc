#include "folio/model/head_layout.h"

#include <gtest/gtest.h>

#include "folio/model/config.h"

namespace folio {
namespace {

TEST(HeadLayouts, HaveAllColumnsOnceAndEachHeadInItsOwn) {
  const HeadLayout heads = {.query_heads = 6, .kv_heads = 2, .head_dim = 5};
  int64_t end = 0;
  for (const ColumnRange& columns : heads.columns()) {
    EXPECT_EQ(columns.begin, end);
    end = columns.end();
  }
  EXPECT_EQ(end, heads.qkv_width());
  EXPECT_EQ(end, (6 + 2 * 2) * 5);
  for (int64_t h = 0; h < heads.query_heads; ++h) {
    EXPECT_EQ(heads.q(h).begin, h * 5);
    EXPECT_EQ(heads.k(h).begin, 30 + h / 3 * 5) << "three heads of queries share one of keys";
    EXPECT_EQ(heads.v(h).begin, 40 + h / 3 * 5);
  }
  EXPECT_EQ(heads.Pages(7, 16), (Shape{7, 2, 2, 16, 5}));
}

TEST(HeadLayouts, AreCutByHeadsOfBothKinds) {
  const HeadLayout heads = {.query_heads = 6, .kv_heads = 2, .head_dim = 5};
  const HeadLayout half = heads.ShardOf({.index = 1, .count = 2});
  EXPECT_EQ(half.query_heads, 3);
  EXPECT_EQ(half.kv_heads, 1);
  EXPECT_EQ(half.qkv_width() * 2, heads.qkv_width());
}

TEST(HeadLayouts, OfGpt2HaveThreeEqualParts) {
  const HeadLayout heads = GptConfig().head_layout();
  EXPECT_EQ(heads.qkv_width(), 3 * 768);
  EXPECT_EQ(heads.k().begin, 768);
  EXPECT_EQ(heads.v().begin, 2 * 768);
}

}  // namespace
}  // namespace folio
