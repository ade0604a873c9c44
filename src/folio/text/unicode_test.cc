#include "folio/text/unicode.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <vector>

#include "tests/kit/paths.h"

namespace folio {
namespace {

struct Range {
  uint32_t first;
  uint32_t last;
  bool operator==(const Range&) const = default;
};

template <typename Predicate>
std::vector<Range> RangesOf(Predicate holds) {
  std::vector<Range> ranges;
  for (uint32_t code = 0; code < 0x110000; ++code) {
    if (!holds(ClassOf(code))) continue;
    if (!ranges.empty() && ranges.back().last + 1 == code) {
      ++ranges.back().last;
    } else {
      ranges.push_back({code, code});
    }
  }
  return ranges;
}

uint32_t CountOf(const std::vector<Range>& ranges) {
  uint32_t count = 0;
  for (const Range& range : ranges) count += range.last - range.first + 1;
  return count;
}

bool IsNumber(CharClass c) {
  return c == CharClass::kNumber;
}
bool IsSpace(CharClass c) {
  return c == CharClass::kSpace;
}

TEST(Unicode, CountsAreThoseOfUnicode16) {
  const std::vector<Range> letters = RangesOf(IsLetter);
  EXPECT_EQ(CountOf(letters), 141028u);
  EXPECT_EQ(letters.size(), 677u);
  const std::vector<Range> numbers = RangesOf(IsNumber);
  EXPECT_EQ(CountOf(numbers), 1911u);
  EXPECT_EQ(numbers.size(), 144u);
}

TEST(Unicode, WhiteSpaceIsExactlyTheTwentyFive) {
  const std::vector<Range> expected = {
      {0x9, 0xD},       {0x20, 0x20},     {0x85, 0x85},     {0xA0, 0xA0},     {0x1680, 0x1680},
      {0x2000, 0x200A}, {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F}, {0x3000, 0x3000}};
  EXPECT_EQ(RangesOf(IsSpace), expected);
  EXPECT_EQ(CountOf(expected), 25u);
}

TEST(Unicode, OneOfEachClass) {
  using enum CharClass;
  const std::pair<CharClass, std::vector<uint32_t>> known[] = {
      {kOther,
       {0x00, 0x1C, 0x21, 0x7F, 0xAD, 0x0378, 0x180E, 0x200B, 0x200D, 0x2019, 0x2060, 0xD800,
        0xE000, 0xFEFF, 0xFFFE, 0x1F44D, 0x10FFFF}},
      {kNumber, {0x30, 0xB2, 0xBD, 0x0663, 0x2163, 0x2460, 0x3007, 0x1D7FF}},
      {kMark, {0x0301, 0x0903, 0x20DD, 0xFE0F, 0xE0100}},
      {kUpper, {0x41, 0xC9, 0x0416, 0x1C89, 0x1E921}},
      {kTitle, {0x01C5, 0x1FFC}},
      {kLower, {0x7A, 0xB5, 0xDF, 0x017F, 0x0436, 0x1E943}},
      {kModifier, {0x02B0, 0x3005, 0x30FC, 0xFF9E}},
      {kOtherLetter,
       {0xAA, 0xBA, 0x05D0, 0x0E01, 0x3042, 0x3400, 0x4E00, 0x9FFF, 0xAC00, 0xD7A3, 0x20000,
        0x323AF}}};
  for (const auto& [expected, codes] : known) {
    for (const uint32_t code : codes) EXPECT_EQ(ClassOf(code), expected) << code;
  }
}

TEST(Unicode, NothingIsAboveTheLastCodePoint) {
  EXPECT_EQ(ClassOf(0x110000), CharClass::kOther);
  EXPECT_EQ(ClassOf(0x110041), CharClass::kOther);
  EXPECT_EQ(ClassOf(0xFFFFFFFF), CharClass::kOther);
}

TEST(Unicode, RangesCoverEverythingInOrderAndTheTableAgrees) {
  const std::span<const uint32_t> ranges = CharClassRanges();
  ASSERT_EQ(ranges.front() >> 4, 0u);
  ASSERT_TRUE(std::is_sorted(ranges.begin(), ranges.end()));
  for (size_t i = 0; i < ranges.size(); ++i) {
    const auto range_class = static_cast<CharClass>(ranges[i] & 0xF);
    ASSERT_LE(range_class, CharClass::kOtherLetter);
    const uint32_t end = i + 1 < ranges.size() ? ranges[i + 1] >> 4 : 0x110000;
    for (uint32_t code = ranges[i] >> 4; code < end; ++code) {
      ASSERT_EQ(ClassOf(code), range_class) << code;
    }
  }
}

// Lines `first..last` in hexadecimal, comments from # on.
std::vector<Range> ReadRanges(const std::string& path) {
  std::vector<Range> ranges;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const size_t dots = line.find("..");
    if (line.starts_with("#") || dots == std::string::npos) continue;
    ranges.push_back({static_cast<uint32_t>(std::stoul(line, nullptr, 16)),
                      static_cast<uint32_t>(std::stoul(line.substr(dots + 2), nullptr, 16))});
  }
  return ranges;
}

TEST(Unicode, LettersAndNumbersAreTheListedOnes) {
  const std::string letters = TestData("unicode/L_16.0.0.txt");
  const std::string numbers = TestData("unicode/N_16.0.0.txt");
  if (letters.empty() || numbers.empty()) GTEST_SKIP() << "lists of characters not here";
  EXPECT_EQ(ReadRanges(letters), RangesOf(IsLetter));
  EXPECT_EQ(ReadRanges(numbers), RangesOf(IsNumber));
}

}  // namespace
}  // namespace folio
