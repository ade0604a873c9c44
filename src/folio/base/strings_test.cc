#include "folio/base/strings.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "folio/base/error.h"
#include "tests/kit/expect.h"

namespace folio {
namespace {

TEST(EditDistance, CountsEachKindOfEdit) {
  EXPECT_EQ(EditDistance("", ""), 0);
  EXPECT_EQ(EditDistance("", "abc"), 3);
  EXPECT_EQ(EditDistance("abc", ""), 3);
  EXPECT_EQ(EditDistance("kitten", "sitting"), 3);
  EXPECT_EQ(EditDistance("batch", "bacth"), 1);   // swap
  EXPECT_EQ(EditDistance("batch", "bach"), 1);    // deletion
  EXPECT_EQ(EditDistance("batch", "battch"), 1);  // insertion
  EXPECT_EQ(EditDistance("ca", "abc"), 3);        // no edit inside a swapped pair
  EXPECT_EQ(EditDistance("ab", "ba"), 1);
}

TEST(EditDistance, IsSymmetric) {
  const std::vector<std::string> words = {"learning_rate", "min_lr", "lr", "laerning_rat", "a", ""};
  for (const std::string& a : words) {
    for (const std::string& b : words) EXPECT_EQ(EditDistance(a, b), EditDistance(b, a));
  }
}

TEST(Nearest, TakesTheClosestWithinTwoEdits) {
  const std::vector<std::string> keys = {"batch", "context", "max_steps", "seed"};
  EXPECT_EQ(Nearest("bacth", keys), "batch");
  EXPECT_EQ(Nearest("max-step", keys), "max_steps");
  EXPECT_EQ(Nearest("maxstps", keys), "max_steps");
  EXPECT_EQ(Nearest("mxstps", keys), "");
  EXPECT_EQ(Nearest("see", keys), "seed");
  EXPECT_EQ(Nearest("batc", std::vector<std::string>{"bat", "batch"}), "bat");  // first of equals
}

TEST(Nearest, DoesNotGuessFromAlmostNothing) {
  const std::vector<std::string> keys = {"lr", "b", "ab"};
  EXPECT_EQ(Nearest("xy", keys), "");
  EXPECT_EQ(Nearest("x", keys), "");
  EXPECT_EQ(Nearest("", keys), "");
  EXPECT_EQ(Nearest("l", std::vector<std::string>{"l"}), "l");
  EXPECT_EQ(Nearest("word", {}), "");
}

TEST(Split, KeepsEmptyParts) {
  using Parts = std::vector<std::string>;
  EXPECT_EQ(Split("a,b", ','), (Parts{"a", "b"}));
  EXPECT_EQ(Split("", ','), (Parts{""}));
  EXPECT_EQ(Split(",a,,", ','), (Parts{"", "a", "", ""}));
  EXPECT_EQ(Split("abc", ','), (Parts{"abc"}));
}

TEST(Join, IsTheInverseOfSplit) {
  for (const char* text : {"", "a", "a,b", ",,", "a,,b,"}) {
    EXPECT_EQ(Join(Split(text, ','), ","), text);
  }
  EXPECT_EQ(Join({}, ", "), "");
  EXPECT_EQ(Join(std::vector<std::string>{"a", "b"}, ", "), "a, b");
}

TEST(HumanBytes, NeverShowsAThousand) {
  EXPECT_EQ(HumanBytes(0), "0 B");
  EXPECT_EQ(HumanBytes(999), "999 B");
  EXPECT_EQ(HumanBytes(1000), "1.00 KB");
  EXPECT_EQ(HumanBytes(1.5e9), "1.50 GB");
  EXPECT_EQ(HumanBytes(999994), "999.99 KB");
  EXPECT_EQ(HumanBytes(999996), "1.00 MB");
  EXPECT_EQ(HumanBytes(3e18), "3000.00 PB");
}

TEST(HumanCount, NeverShowsAThousand) {
  EXPECT_EQ(HumanCount(0), "0");
  EXPECT_EQ(HumanCount(999), "999");
  EXPECT_EQ(HumanCount(124439808), "124.4M");
  EXPECT_EQ(HumanCount(999949), "999.9K");
  EXPECT_EQ(HumanCount(999960), "1.0M");
  EXPECT_EQ(HumanCount(2.5e12), "2.5T");
}

TEST(HumanSeconds, CarriesIntoTheNextUnit) {
  EXPECT_EQ(HumanSeconds(0), "0us");
  EXPECT_EQ(HumanSeconds(0.0123), "12ms");
  EXPECT_EQ(HumanSeconds(0.9996), "1.0s");
  EXPECT_EQ(HumanSeconds(59.94), "59.9s");
  EXPECT_EQ(HumanSeconds(59.96), "1m00s");
  EXPECT_EQ(HumanSeconds(3484), "58m04s");
  EXPECT_EQ(HumanSeconds(3599.6), "1h00m");
  EXPECT_EQ(HumanSeconds(86400 + 3600 * 5 + 59), "1d05h");
  EXPECT_EQ(HumanSeconds(99.9 * 86400), "99d21h");
  EXPECT_EQ(HumanSeconds(700.5 * 86400), "700 days");
  EXPECT_EQ(HumanSeconds(37779 * 86400.0), "103 years");
  EXPECT_EQ(HumanSeconds(1e12), "31,688 years");
  EXPECT_EQ(HumanSeconds(-61), "-1m01s");
  EXPECT_EQ(HumanSeconds(std::numeric_limits<double>::infinity()), "?");
}

TEST(ParseSeconds, TakesUnits) {
  EXPECT_EQ(ParseSeconds("90", "--x"), 90);
  EXPECT_EQ(ParseSeconds("90s", "--x"), 90);
  EXPECT_EQ(ParseSeconds("1h30m", "--x"), 5400);
  EXPECT_EQ(ParseSeconds("0.5d", "--x"), 43200);
  for (const char* wrong : {"", "m", "10x", "0s", "-5m", "10m 5s", "nan", "1e300d"}) {
    EXPECT_TRUE(Contains(ErrorOf([&] { ParseSeconds(wrong, "--x"); }, ErrorKind::kUsage),
                         "--x: '" + std::string(wrong) + "' is not a time"));
  }
}

TEST(ShellWord, IsQuotedWhereItMustBe) {
  EXPECT_EQ(ShellWord("runs/a-1_b.2"), "runs/a-1_b.2");
  EXPECT_EQ(ShellWord(""), "''");
  EXPECT_EQ(ShellWord("my run"), "'my run'");
  EXPECT_EQ(ShellWord("it's $HOME"), "'it'\\''s $HOME'");
}

TEST(WithCommas, GroupsFromTheRight) {
  EXPECT_EQ(WithCommas(0), "0");
  EXPECT_EQ(WithCommas(999), "999");
  EXPECT_EQ(WithCommas(1000), "1,000");
  EXPECT_EQ(WithCommas(124439808), "124,439,808");
  EXPECT_EQ(WithCommas(-100), "-100");
  EXPECT_EQ(WithCommas(-1234567), "-1,234,567");
  EXPECT_EQ(WithCommas(std::numeric_limits<int64_t>::min()), "-9,223,372,036,854,775,808");
}

}  // namespace
}  // namespace folio
