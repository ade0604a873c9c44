#include "folio/text/pretoken_counter.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "folio/base/rng.h"
#include "folio/text/test_split_pretokens.h"
#include "tests/kit/threads.h"

namespace folio {
namespace {

using Counts = std::map<std::string, int64_t>;

Counts Gather(PretokenCounter& counter) {
  Counts counts;
  for (const CountedPretokens& part : counter.Take()) {
    EXPECT_EQ(part.pretokens.size(), part.counts.size());
    for (size_t i = 0; i < part.counts.size(); ++i) {
      const auto [entry, is_new] = counts.emplace(part.pretokens[i], part.counts[i]);
      EXPECT_TRUE(is_new) << "twice: " << entry->first;
    }
  }
  return counts;
}

Counts Naive(std::string_view text) {
  Counts counts;
  for (const std::string_view pretoken : PretokensOf(SplitPattern::kGpt2, text)) {
    ++counts[std::string(pretoken)];
  }
  return counts;
}

// Words of 1 to 40 letters around the limits of 8, 15 and 16 bytes, some of them frequent.
std::string Words(size_t bytes) {
  const CounterRng rng(11, 0);
  std::string text;
  for (uint64_t i = 0; text.size() < bytes; ++i) {
    const uint64_t word = rng.Below(i, 3) == 0 ? rng.Below(i, 50'000) : rng.Below(i, 100);
    const uint64_t length = 1 + word % 40;
    text += word % 3 == 0 ? "\n" : " ";
    for (uint64_t k = 0; k < length; ++k) {
      text += static_cast<char>('a' + (word >> (k % 16)) % 17);
    }
  }
  return text;
}

TEST(PretokenCounter, CountsEveryPretokenOnceOnAnyThreads) {
  const std::string text = Words(3'500'000);
  const Counts expected = Naive(text);
  int64_t pretokens = 0;
  for (const auto& [pretoken, count] : expected) pretokens += count;
  ExpectSameOnThreads([&] {
    PretokenCounter counter(SplitPattern::kGpt2);
    counter.AddText(text);
    EXPECT_EQ(counter.pretokens(), pretokens);
    EXPECT_EQ(Gather(counter), expected);
    return true;
  });
}

TEST(PretokenCounter, AddsUpTexts) {
  PretokenCounter counter(SplitPattern::kGpt2);
  for (const char* text : {"one two", "", "two two", "a word of more than fifteen-bytes-or-so"}) {
    counter.AddText(text);
  }
  counter.AddText(std::string(100, 'z') + " " + std::string(100, 'z'));
  counter.AddText(std::string(100, 'z'));
  Counts counts = Gather(counter);
  EXPECT_EQ(counts["two"], 1);
  EXPECT_EQ(counts[" two"], 2);
  EXPECT_EQ(counts[std::string(100, 'z')], 2);
  EXPECT_EQ(counts[" " + std::string(100, 'z')], 1);
  EXPECT_TRUE(Gather(counter).empty());
}

TEST(PretokenCounter, TellsZeroBytesAtTheEndApart) {
  PretokenCounter counter(SplitPattern::kGpt2);
  for (size_t length = 1; length <= 20; ++length) counter.AddText(std::string(length, '\0'));
  const Counts counts = Gather(counter);
  EXPECT_EQ(counts.size(), 20u);
  for (const auto& [pretoken, count] : counts) EXPECT_EQ(count, 1) << pretoken.size();
}

TEST(PretokenCounter, ReadsNothingBehindTheText) {
  for (size_t length = 1; length <= 33; ++length) {
    const std::vector<char> exact(length, 'q');  // no zero follows it, unlike a string
    PretokenCounter counter(SplitPattern::kGpt2);
    counter.AddText({exact.data(), exact.size()});
    EXPECT_EQ(Gather(counter), (Counts{{std::string(length, 'q'), 1}}));
  }
}

struct Number {
  uint64_t bits = 0;
  int64_t count = 0;
  uint64_t hash() const { return bits; }
};

TEST(CountTable, PartsTogetherAreAllEntriesAlsoWhereTheyRunOverTheEnd) {
  CountTable<Number> table;
  std::map<uint64_t, int> expected;
  const CounterRng rng(4, 0);
  for (uint64_t i = 0; i < 400; ++i) {
    // Crowded at the end of the range of hashes, and therefore wrapping to the beginning of the
    // table.
    const uint64_t bits = i % 2 == 0 ? ~uint64_t{0} - i : rng.Below(i, ~uint64_t{0});
    table.Reserve(1);
    Number& entry = table.Find(bits, [&](const Number& other) { return other.bits == bits; });
    ASSERT_EQ(entry.count, 0);
    entry = {bits, 1};
    table.Added();
    expected[bits] = 1;
  }
  std::map<uint64_t, int> found;
  for (uint64_t part = 0; part < CountTable<Number>::kParts; ++part) {
    table.ForPart(part, [&](const Number& entry) {
      EXPECT_EQ(entry.bits >> 58, part);
      ++found[entry.bits];
    });
  }
  EXPECT_EQ(found, expected);
}

}  // namespace
}  // namespace folio
