#include "folio/text/nfc.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "folio/base/utf8.h"
#include "folio/text/split.h"
#include "folio/text/test_texts.h"
#include "folio/text/unicode.h"

namespace folio {
namespace {

std::string TextOf(const std::u32string& codes) {
  std::string text;
  for (const char32_t code : codes) AppendUtf8(code, text);
  return text;
}

std::string OfOne(char32_t code) {
  return TextOf(std::u32string(1, code));
}

// FNV-1a of texts, each with a zero behind it, as scripts/nfc_table.py --check computes it.
class TextHash {
 public:
  void Add(std::string_view text) {
    for (const char c : text) AddByte(static_cast<unsigned char>(c));
    AddByte(0);
  }
  uint64_t value() const { return value_; }

 private:
  void AddByte(unsigned char byte) { value_ = (value_ ^ byte) * 0x100000001B3; }
  uint64_t value_ = 0xCBF29CE484222325;
};

TEST(Nfc, Examples) {
  EXPECT_EQ(Nfc("e\u0301 \u212B \u1112\u1161\u11AB"), "é Å 한");
  EXPECT_EQ(Nfc("a\u0301\u0323"), "ạ\u0301");                  // sorted by class, then composed
  EXPECT_EQ(Nfc("\u0344\u0958"), "\u0308\u0301\u0915\u093C");  // never put together again
  EXPECT_EQ(Nfc("\xFF\u0301e\xCC\u0301"), "\xFF\u0301e\xCC\u0301");
  EXPECT_EQ(NfcPrefix("plain text, é"), 14u);
  EXPECT_EQ(NfcPrefix("ab e\u0301"), 3u);
  EXPECT_EQ(NfcPrefix(""), 0u);
}

TEST(Nfc, EveryCharacterIsThatOfUnicode) {
  TextHash hash;
  for (char32_t code = 0; code < 0x110000; ++code) {
    if (code >= 0xD800 && code < 0xE000) continue;
    hash.Add(Nfc(OfOne(code)));
  }
  EXPECT_EQ(hash.value(), 0xF23C6052C5C92971u);
}

// All characters that combine, are decomposed, or are part of a composition.
std::vector<char32_t> Pool() {
  std::set<char32_t> pool = {0x20,   0x61,   0x41,   0x1100, 0x1112, 0x1161, 0x1175,
                             0x11A7, 0x11A8, 0x11C2, 0xAC00, 0xAC01, 0xD788, 0x4E2D};
  char32_t code = 0;
  for (size_t i = 0; i < NfcPairs().size(); i += 3) {
    code += NfcPairs()[i] >> 1;
    for (const char32_t one : {code, char32_t{NfcPairs()[i + 1]}, char32_t{NfcPairs()[i + 2]}}) {
      if (one != 0) pool.insert(one);
    }
  }
  code = 0;
  for (size_t i = 0; i < NfcRuns().size(); i += 3) {
    code += NfcRuns()[i];
    for (const char32_t end = code + NfcRuns()[i + 1]; code < end; ++code) pool.insert(code);
  }
  return {pool.begin(), pool.end()};
}

TEST(Nfc, RandomTextsAreThoseOfUnicode) {
  const std::vector<char32_t> pool = Pool();
  ASSERT_EQ(pool.size(), 4232u);
  TextHash hash;
  uint64_t state = 1;
  for (int round = 0; round < 100000; ++round) {
    std::string text;
    for (int i = 0; i <= round % 9; ++i) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      AppendUtf8(pool[(state >> 33) % pool.size()], text);
    }
    const std::string composed = Nfc(text);
    hash.Add(composed);
    ASSERT_EQ(Nfc(composed), composed);
    const size_t prefix = NfcPrefix(text);
    ASSERT_EQ(composed, text.substr(0, prefix) + Nfc(text.substr(prefix)));
  }
  EXPECT_EQ(hash.value(), 0xCD32110B5266DAE7u);
}

// Places that FindCut allows after or before a character that stays are boundaries of NFC too.
TEST(Nfc, TextsCanBeCutBeforeWhatStays) {
  std::vector<std::string> parts = AwkwardParts();
  for (const char32_t code : Pool()) {
    if (code % 7 == 0) parts.push_back(OfOne(code));
  }
  TestRng rng(1);
  for (int round = 0; round < 20000; ++round) {
    const std::string text = RandomRuns(parts, 10, rng);
    for (size_t at = 0; at < text.size(); ++at) {
      const Utf8Char c = DecodeUtf8(text, at);
      if (!BeginsCharacter(text[at]) || c.status != Utf8Status::kValid || !StaysInNfc(c.code)) {
        continue;
      }
      ASSERT_EQ(Nfc(text), Nfc(text.substr(0, at)) + Nfc(text.substr(at)))
          << testing::PrintToString(text) << " at " << at;
    }
  }
}

TEST(Nfc, LongRunsAreFast) {
  const std::string marks = Repeated("\u0301", 1 << 20), more = Repeated("\u0323\u0301", 1 << 20);
  EXPECT_EQ(Nfc("q" + marks), "q" + marks);
  EXPECT_EQ(Nfc("q" + more).size(), 1 + more.size());
}

}  // namespace
}  // namespace folio
