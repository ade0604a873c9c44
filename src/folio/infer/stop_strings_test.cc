#include "folio/infer/stop_strings.h"

#include <gtest/gtest.h>

#include "folio/base/utf8.h"
#include "tests/kit/directory.h"
#include "tests/kit/expect.h"

namespace folio {
namespace {

struct Seen {
  std::string text;
  bool found = false;
  bool operator==(const Seen&) const = default;
};
std::ostream& operator<<(std::ostream& out, const Seen& seen) {
  return out << '"' << seen.text << '"' << (seen.found ? " found" : "");
}

Seen Through(const Strings& stops, const Strings& pieces) {
  StopStrings finder(stops);
  Seen seen;
  for (const std::string& piece : pieces) seen.text += finder.Add(piece);
  seen.found = finder.found();
  seen.text += finder.Flush();
  return seen;
}

// Whole characters.
Strings Characters(const std::string& text) {
  Strings characters;
  for (const char c : text) {
    if ((static_cast<unsigned char>(c) & 0xC0) != 0x80) characters.emplace_back();
    characters.back() += c;
  }
  return characters;
}

// Every way to cut the text between characters shows the same.
void ExpectAnywayCut(const Strings& stops, const std::string& text, const Seen& expected) {
  const Strings characters = Characters(text);
  ASSERT_LE(characters.size(), 14u);
  for (uint64_t cuts = 0; cuts < uint64_t{1} << (characters.size() - 1); ++cuts) {
    Strings pieces(1);
    for (size_t i = 0; i < characters.size(); ++i) {
      if (i > 0 && (cuts >> (i - 1) & 1) != 0) pieces.emplace_back();
      pieces.back() += characters[i];
    }
    ASSERT_EQ(Through(stops, pieces), expected) << text << " cut by " << cuts;
  }
}

TEST(StopStrings, AreFoundHoweverTheTextIsCut) {
  ExpectAnywayCut({"END"}, "one END two", {"one ", true});
  ExpectAnywayCut({"END"}, "EENENDx", {"EEN", true});
  ExpectAnywayCut({"aab"}, "aaaab", {"aa", true});
  ExpectAnywayCut({"END"}, "an EN", {"an EN", false});
  ExpectAnywayCut({"\n\n", "END"}, "a\nEN\n\nEND", {"a\nEN", true});
  ExpectAnywayCut({"жи\U0001F600"}, "я жи жи\U0001F600", {"я жи ", true});
  ExpectAnywayCut({"x"}, "xyz", {"", true});
  ExpectAnywayCut({}, "nothing", {"nothing", false});
}

TEST(StopStrings, TheOneThatIsWholeFirstCounts) {
  ExpectAnywayCut({"abcd", "bc"}, "1abcd", {"1a", true});
  ExpectAnywayCut({"bc", "abc"}, "1abcd", {"1", true});
  ExpectAnywayCut({"abx", "bcd"}, "1abcd", {"1a", true});
}

TEST(StopStrings, HoldBackOnlyWhatCouldBecomeOne) {
  StopStrings finder({"stop", "\n\n"});
  EXPECT_EQ(finder.Add("a st"), "a ");
  EXPECT_EQ(finder.Add("ar"), "star");
  EXPECT_EQ(finder.Add("sst\n"), "sst");
  EXPECT_EQ(finder.Add("s"), "\n");
  EXPECT_EQ(finder.Add("t"), "");
  EXPECT_EQ(finder.Flush(), "st");
  EXPECT_FALSE(finder.found());
  EXPECT_EQ(finder.Add("op"), "op");
}

TEST(StopStrings, NothingComesAfterThem) {
  StopStrings finder({"."});
  EXPECT_EQ(finder.Add("a.b"), "a");
  EXPECT_EQ(finder.Add("c"), "");
  EXPECT_EQ(finder.Flush(), "");
  EXPECT_TRUE(finder.found());
}

TEST(StopStrings, MustBeTexts) {
  EXPECT_TRUE(Contains(ErrorOf([] { StopStrings({"a", ""}); }, ErrorKind::kUsage), "is empty"));
  EXPECT_TRUE(Contains(ErrorOf([] { StopStrings({"\xC3"}); }, ErrorKind::kUsage), "not UTF-8"));
}

}  // namespace
}  // namespace folio
