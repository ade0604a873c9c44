#include "folio/model/config.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "folio/base/error.h"
#include "folio/model/test_models.h"
#include "tests/kit/expect.h"

namespace folio {

namespace {

// Lists are read where they are set, and errors say what was expected.
TEST(ConfigFields, ListsAreReadFromTexts) {
  GptConfig config;
  const auto set = [&](std::string_view key, const std::string& text) {
    const std::vector<Field> fields = config.Fields();
    const Field& field = *std::ranges::find(fields, key, &Field::key);
    SetField(field, text, "settings");
    return FieldText(field);
  };
  EXPECT_EQ(set("layer_kinds", "wwf"), "wwf");
  EXPECT_EQ(config.layer_kinds.size(), 3u);
  EXPECT_EQ(set("rope_short_factors", "1,1.50,1e3"), "1,1.5,1000");
  EXPECT_EQ(config.rope_short_factors, (std::vector<double>{1, 1.5, 1000}));
  EXPECT_EQ(set("rope_short_factors", ""), "");
  for (const auto& [key, wrong, expected] : {std::array{"layer_kinds", "", "f and w"},
                                             {"layer_kinds", "wx", "f and w"},
                                             {"rope_short_factors", "1,,2", "commas"},
                                             {"rope_short_factors", "1,inf", "commas"},
                                             {"norm", "batch", "layer, rms"}}) {
    EXPECT_TRUE(Contains(ErrorAndHelp([&, k = key, w = wrong] { set(k, w); }, ErrorKind::kUsage),
                         "is not a value of", expected))
        << key << " " << wrong;
  }
  EXPECT_EQ(LayerKindsText(config.layer_kinds), "wwf");
}

TEST(ConfigValidate, GatesNeedChannelsAndSmearNoAddedPositions) {
  const auto refusal = [](GptConfig config) {
    return ErrorAndHelp([&] { config.Validate("here"); }, ErrorKind::kUsage);
  };
  GptConfig config;
  config.smear = true;
  EXPECT_TRUE(Contains(refusal(config), "smear", "learned", "position_embedding to rotary"));
  config.position_embedding = PositionKind::kRotary;
  config.n_embd = config.n_head = 16;
  config.head_dim = 2;
  EXPECT_TRUE(Contains(refusal(config), "24 channels", "n_embd is 16"));
  config.smear = false;
  config.value_embeddings = true;
  config.Validate("here");
  config.n_embd = config.n_head = 8;
  EXPECT_TRUE(Contains(refusal(config), "12 channels", "n_embd to 12 or more"));
}

TEST(ConfigValidate, HelpNamesTheNearestNumberOfHeads) {
  GptConfig config{.n_embd = 128, .n_head = 6};
  const Error error = Refused([&] { config.Validate("here"); }, ErrorKind::kUsage);
  EXPECT_STREQ(error.what(), "here: n_head must divide n_embd");
  EXPECT_EQ(error.help(), "set n_head to 4 or 8");
}

TEST(NearestDivisors, StandOnEitherSide) {
  EXPECT_EQ(NearestDivisors(10, 4), "2 or 5");
  EXPECT_EQ(NearestDivisors(10, 5), "5");
  EXPECT_EQ(NearestDivisors(7, 3), "1 or 7");
  EXPECT_EQ(NearestDivisors(7, 9), "7");
  EXPECT_EQ(NearestDivisors(1, 1), "1");
}

TEST(CheckDivides, NamesBothNumbersAndWhatWouldDo) {
  CheckDivides("attention", {"heads", 4}, {"d_out", 12});
  const auto refusal = [](int64_t d_out) {
    return ErrorAndHelp(
        [&] {
          CheckDivides("attention", {"heads", 4}, {"d_out", d_out});
        },
        ErrorKind::kUsage);
  };
  EXPECT_EQ(
      refusal(10),
      "attention: heads must divide d_out | d_out is 10, heads is 4 | set heads to 2 or 5, or "
      "d_out to 8 or 12");
  EXPECT_TRUE(refusal(3).ends_with(" | set heads to 3, or d_out to 4"));
}

TEST(CheckSize, RefusesWhatIsNoSize) {
  CheckSize("x", {"C", 1});
  for (const int64_t value : {int64_t{0}, int64_t{-3}, int64_t{1} << 30}) {
    EXPECT_THROW(CheckSize("x", {"C", value}), Error) << value;
    EXPECT_THROW(CheckDivides("x", {"H", value}, {"C", 12}), Error) << value;
    EXPECT_THROW(CheckDivides("x", {"H", 1}, {"C", value}), Error) << value;
  }
}

}  // namespace

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
