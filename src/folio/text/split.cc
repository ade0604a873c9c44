#include "folio/text/split.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>

#include "folio/base/check.h"
#include "folio/base/utf8.h"
#include "folio/text/unicode.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "folio/text/split.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#ifndef FOLIO_TEXT_SPLIT_ONCE
#define FOLIO_TEXT_SPLIT_ONCE
namespace folio {
namespace {

// Characters and runs of them. All pointers of a call point into one text; `end` is its end, and
// nothing at or behind it is read.

// A set of CharClass, one bit each.
using ClassSet = uint32_t;

constexpr ClassSet SetOf(CharClass c) {
  return ClassSet{1} << static_cast<int>(c);
}

constexpr ClassSet kSpaces = SetOf(CharClass::kSpace);
constexpr ClassSet kNumbers = SetOf(CharClass::kNumber);
constexpr ClassSet kMarks = SetOf(CharClass::kMark);
constexpr ClassSet kOthers = SetOf(CharClass::kOther) | kMarks;  // [^\s\p{L}\p{N}]
constexpr ClassSet kCaseless =
    SetOf(CharClass::kModifier) | SetOf(CharClass::kOtherLetter) | kMarks;
constexpr ClassSet kUppers =
    SetOf(CharClass::kUpper) | SetOf(CharClass::kTitle) | kCaseless;  // o200k's U
constexpr ClassSet kLowers = SetOf(CharClass::kLower) | kCaseless;    // o200k's W
constexpr ClassSet kLetters = (kUppers | kLowers) & ~kMarks;
constexpr ClassSet kMultiByte = ClassSet{1} << 15;  // in kByteSets: not ASCII

constexpr ClassSet SetOfByte(int byte) {
  if (byte >= 0x80) return kMultiByte;
  if ((byte >= 9 && byte <= 13) || byte == ' ') return kSpaces;
  if (byte >= '0' && byte <= '9') return kNumbers;
  if (byte >= 'A' && byte <= 'Z') return SetOf(CharClass::kUpper);
  if (byte >= 'a' && byte <= 'z') return SetOf(CharClass::kLower);
  return SetOf(CharClass::kOther);
}

constexpr std::array<uint16_t, 256> kByteSets = [] {
  std::array<uint16_t, 256> sets = {};
  for (int byte = 0; byte < 256; ++byte) sets[byte] = static_cast<uint16_t>(SetOfByte(byte));
  return sets;
}();

struct Char {
  ClassSet set;   // of its class alone
  size_t length;  // in bytes
};

constexpr Char kIllFormed = {SetOf(CharClass::kOther), 1};

inline Char LookUp(uint32_t code, size_t length, const CharClassTable& table) {
  return {SetOf(table.pages[table.page_of[code >> 8]][code & 0xFF]), length};
}

inline bool Continues(unsigned char byte) {
  return (byte & 0xC0) == 0x80;
}

// The character at `at` < `end`, whose first byte is not ASCII; kIllFormed if there is none.
inline Char ReadMultiByte(const unsigned char* at, const unsigned char* end,
                          const CharClassTable& table) {
  const uint32_t lead = at[0];
  const ptrdiff_t left = end - at;
  if (lead < 0xE0) {
    if (lead < 0xC2 || left < 2 || !Continues(at[1])) return kIllFormed;
    return LookUp((lead & 0x1F) << 6 | (at[1] & 0x3Fu), 2, table);
  }
  if (lead < 0xF0) {
    if (left < 3 || !Continues(at[1]) || !Continues(at[2])) return kIllFormed;
    const uint32_t code = (lead & 0xF) << 12 | (at[1] & 0x3Fu) << 6 | (at[2] & 0x3Fu);
    if (code < 0x800 || (code >= 0xD800 && code < 0xE000)) return kIllFormed;
    return LookUp(code, 3, table);
  }
  if (lead > 0xF4 || left < 4 || !Continues(at[1]) || !Continues(at[2]) || !Continues(at[3])) {
    return kIllFormed;
  }
  const uint32_t code =
      (lead & 0x7) << 18 | (at[1] & 0x3Fu) << 12 | (at[2] & 0x3Fu) << 6 | (at[3] & 0x3Fu);
  if (code < 0x10000 || code > 0x10FFFF) return kIllFormed;
  return LookUp(code, 4, table);
}

// The character at `at` < `end`.
inline Char Read(const unsigned char* at, const unsigned char* end) {
  const ClassSet set = kByteSets[*at];
  if (set != kMultiByte) return {set, 1};
  return ReadMultiByte(at, end, CharClasses());
}

// Returns how many of the eight bytes at `at`, counted from the first (the lowest of a
// little-endian word), are ASCII letters (only lower case with `kLowerOnly`). Bytes of other
// characters are not.
template <bool kLowerOnly>
inline size_t CountAsciiLetters(const unsigned char* at) {
  constexpr uint64_t kOnes = 0x0101010101010101;
  uint64_t bytes;
  std::memcpy(&bytes, at, 8);
  const uint64_t low = (kLowerOnly ? bytes : bytes | 0x20 * kOnes) & 0x7F * kOnes;
  const uint64_t from_a = low + (0x80 - 'a') * kOnes;
  const uint64_t past_z = low + (0x80 - 'z' - 1) * kOnes;
  const uint64_t no_letter = ~(from_a & ~past_z & ~bytes) & 0x80 * kOnes;
  return static_cast<size_t>(std::countr_zero(no_letter)) / 8;  // 8 where no_letter is 0
}

// The end of the run of characters of `kSet` from `at` <= `end` on.
template <ClassSet kSet>
inline const unsigned char* SkipRun(const unsigned char* at, const unsigned char* end) {
  constexpr bool kHasLower = (kSet & SetOf(CharClass::kLower)) != 0;
  constexpr bool kHasUpper = (kSet & SetOf(CharClass::kUpper)) != 0;
  if constexpr (kHasLower && std::endian::native == std::endian::little) {
    while (end - at >= 8) {
      const size_t letters = CountAsciiLetters<!kHasUpper>(at);
      at += letters;
      if (letters < 8) break;
    }
  }
  while (at < end) {
    while ((kByteSets[*at] & kSet) != 0) {
      if (++at == end) return at;
    }
    if (*at < 0x80) return at;
    const CharClassTable& table = CharClasses();
    do {
      const Char c = ReadMultiByte(at, end, table);
      if ((c.set & kSet) == 0) return at;
      at += c.length;
    } while (at < end && *at >= 0x80);
  }
  return at;
}

struct SpaceRun {
  const unsigned char* end;
  const unsigned char* last;          // where its last character begins
  const unsigned char* past_newline;  // behind the last U+000A or U+000D, nullptr if there is none
};

// The run of white space at `at`. REQUIRES: `at` < `end`, and white space is there.
SpaceRun ReadSpaces(const unsigned char* at, const unsigned char* end) {
  SpaceRun run = {at, at, nullptr};
  while (run.end < end) {
    const Char c = Read(run.end, end);
    if (c.set != kSpaces) break;
    run.last = run.end;
    run.end += c.length;
    if (*run.last == ' ') {
      while (run.end < end && *run.end == ' ') ++run.end;
      run.last = run.end - 1;
    } else if (*run.last == '\n' || *run.last == '\r') {
      run.past_newline = run.end;
    }
  }
  return run;
}

// Contraction returns this if it needs more text to decide.
constexpr size_t kContractionOpen = 9;

// Length in bytes of the contraction ('s 't 'd 'm 'll 've 're) that begins with the apostrophe at
// `at`; 0 if there is none. `kAnyCase` matches like (?i:): upper case too, and U+017F for s, its
// lower-case form by simple case folding.
template <bool kAnyCase>
size_t Contraction(const unsigned char* at, const unsigned char* end) {
  const auto letter = [&](int i) { return kAnyCase && at[i] < 0x80 ? at[i] | 0x20 : at[i]; };
  if (end - at < 2) return kContractionOpen;
  const int first = letter(1);
  if (first == 's' || first == 't' || first == 'd' || first == 'm') return 2;
  const bool is_long_s = kAnyCase && first == 0xC5;
  if (!is_long_s && first != 'l' && first != 'v' && first != 'r') return 0;
  if (end - at < 3) return kContractionOpen;
  if (is_long_s) return at[2] == 0xBF ? 3 : 0;
  return letter(2) == (first == 'l' ? 'l' : 'e') ? 3 : 0;
}

// A text from the begin of a pretoken to the last byte that the scanner may read.
struct Window {
  const unsigned char* text;  // the base of offsets
  const unsigned char* at;
  const unsigned char* end;  // of the text; if more may follow, before an incomplete character
  bool at_end;

  Window(std::string_view whole, size_t begin, bool ends_here)
      : text(reinterpret_cast<const unsigned char*>(whole.data())),
        at(text + begin),
        end(text + whole.size()),
        at_end(ends_here) {
    if (!at_end && !whole.empty() && end[-1] >= 0x80) end = text + CompleteUtf8Prefix(whole);
  }

  size_t Offset(const unsigned char* stop) const { return static_cast<size_t>(stop - text); }
  // The end of a pretoken that continues up to `stop`.
  size_t RunEnd(const unsigned char* stop) const {
    return stop == end && !at_end ? kUndecided : Offset(stop);
  }
};

// The end of the contraction that begins with the apostrophe at `at`; 0 if there is none,
// kUndecided if that depends on what follows.
template <bool kAnyCase>
size_t ContractionEnd(const Window& window, const unsigned char* at) {
  const size_t length = Contraction<kAnyCase>(at, window.end);
  if (length == kContractionOpen) return window.at_end ? 0 : kUndecided;
  return length == 0 ? 0 : window.Offset(at + length);
}

// The end of \p{N}{1,kMost} whose first character ends at `at`.
template <int kMost>
size_t NumberPretoken(const Window& window, const unsigned char* at) {
  for (int count = 1; count < kMost; ++count) {
    if (at == window.end) return window.RunEnd(at);
    const Char c = Read(at, window.end);
    if (c.set != kNumbers) break;
    at += c.length;
  }
  return window.Offset(at);
}

// \s+(?!\S)|\s+
size_t SpacePretoken(const Window& window, const SpaceRun& run) {
  if (run.end == window.end) return window.RunEnd(run.end);
  return window.Offset(run.last > window.at ? run.last : run.end);
}

// [^\s\p{L}\p{N}]+[\r\n]*, or with kSlash [^\s\p{L}\p{N}]+[\r\n/]*, whose first character ends
// at `at`.
template <bool kSlash>
size_t OtherPretoken(const Window& window, const unsigned char* at) {
  at = SkipRun<kOthers>(at, window.end);
  while (at < window.end && (*at == '\r' || *at == '\n' || (kSlash && *at == '/'))) ++at;
  return window.RunEnd(at);
}

// \s*[\r\n]+|\s+(?!\S)|\s+, or with kWholeEnd \s+$|\s*[\r\n]|\s+(?!\S)|\s+
template <bool kWholeEnd>
size_t LinesPretoken(const Window& window) {
  const SpaceRun run = ReadSpaces(window.at, window.end);
  const bool whole = run.end == window.end && (kWholeEnd || !window.at_end);
  if (run.past_newline == nullptr || whole) return SpacePretoken(window, run);
  return window.Offset(run.past_newline);
}

// A word is a match of U*W+, or else of U+W*.
struct Word {
  const unsigned char* end;   // end of the match; the start of the search if there is none
  const unsigned char* read;  // where the scan stopped
  bool has_lower;             // U*W+ matched
};

// A greedy U* takes the run of U. Only lower case is in W but not in U, so if it follows, W+ begins
// there; else U* backtracks to the last character of the run that is also in W, which is then all
// that W+ takes: the characters behind it are in U alone.
Word ReadWord(const unsigned char* at, const unsigned char* end) {
  const unsigned char* past_caseless = nullptr;
  const unsigned char* run = at;
  const CharClassTable* table = nullptr;
  Char c = {0, 0};
  while (run < end) {
    c = {kByteSets[*run], 1};
    if (c.set == kMultiByte) {
      if (table == nullptr) table = &CharClasses();
      c = ReadMultiByte(run, end, *table);
    }
    if ((c.set & kUppers) == 0) break;
    run += c.length;
    if ((c.set & kCaseless) != 0) past_caseless = run;
  }
  if (run < end && c.set == SetOf(CharClass::kLower)) {
    run = SkipRun<kLowers>(run + c.length, end);
    return {run, run, true};
  }
  if (past_caseless != nullptr) return {past_caseless, run, true};
  return {run, run, false};
}

// The pretoken of a word that ends at `at`, including the contraction behind it.
size_t WordPretoken(const Window& window, const unsigned char* at) {
  if (at == window.end) return window.RunEnd(at);
  const size_t end = *at == '\'' ? ContractionEnd<true>(window, at) : 0;
  return end != 0 ? end : window.Offset(at);
}

// With kDigits every number is a pretoken, and acts as the end of the text for what is before it.
template <bool kDigits>
size_t Gpt2Pretoken(const Window& window) {
  const unsigned char* at = window.at;
  if (*at == '\'') {
    if (const size_t end = ContractionEnd<false>(window, at); end != 0) return end;
  } else if (*at == ' ') {
    if (++at == window.end) return window.RunEnd(at);
  }
  const Char c = Read(at, window.end);
  if (c.set == kSpaces) {
    const SpaceRun run = ReadSpaces(window.at, window.end);
    const bool all = kDigits && run.end < window.end && Read(run.end, window.end).set == kNumbers;
    return all ? window.Offset(run.end) : SpacePretoken(window, run);
  }
  if (kDigits && c.set == kNumbers) {
    return window.Offset(at == window.at ? at + c.length : at);
  }
  at += c.length;
  if ((c.set & kLetters) != 0) {
    return window.RunEnd(SkipRun<kLetters>(at, window.end));
  }
  if (c.set == kNumbers) {
    return window.RunEnd(SkipRun<kNumbers>(at, window.end));
  }
  return window.RunEnd(SkipRun<kOthers>(at, window.end));
}

template <int kDigits, bool kWholeEnd>
size_t Cl100kPretoken(const Window& window) {
  const unsigned char* at = window.at;
  if (*at == '\'') {
    if (const size_t end = ContractionEnd<true>(window, at); end != 0) return end;
  }
  const Char c = Read(at, window.end);
  at += c.length;
  if ((c.set & kLetters) != 0) {
    return window.RunEnd(SkipRun<kLetters>(at, window.end));
  }
  if (c.set == kNumbers) return NumberPretoken<kDigits>(window, at);
  if (*window.at == '\r' || *window.at == '\n') return LinesPretoken<kWholeEnd>(window);
  if (at == window.end) return window.RunEnd(at);

  const Char next = Read(at, window.end);
  if ((next.set & kLetters) != 0) {
    return window.RunEnd(SkipRun<kLetters>(at + next.length, window.end));
  }
  if (c.set != kSpaces) return OtherPretoken<false>(window, at);
  if (*window.at == ' ' && (next.set & kOthers) != 0) {
    return OtherPretoken<false>(window, at + next.length);
  }
  return LinesPretoken<kWholeEnd>(window);
}

size_t O200kPretoken(const Window& window) {
  const Char c = Read(window.at, window.end);
  if (c.set == kNumbers) return NumberPretoken<3>(window, window.at + c.length);
  if (*window.at == '\r' || *window.at == '\n') return LinesPretoken<false>(window);

  const bool is_letter = (c.set & kLetters) != 0;
  const unsigned char* const next = window.at + c.length;
  const Word word = ReadWord(is_letter ? window.at : next, window.end);
  if (word.read == window.end && !window.at_end) return kUndecided;
  // A mark begins a word of U*W+; before U+ alone the first alternative matches the mark alone.
  if (c.set == kMarks && !word.has_lower) return WordPretoken(window, next);
  if (is_letter || word.end > next) return WordPretoken(window, word.end);

  if (c.set != kSpaces) return OtherPretoken<true>(window, next);
  if (*window.at == ' ' && next < window.end) {
    const Char other = Read(next, window.end);
    if ((other.set & kOthers) != 0) return OtherPretoken<true>(window, next + other.length);
  }
  return LinesPretoken<false>(window);
}

// The end of a pretoken that only a space ends.
size_t SpacedPretoken(const Window& window, bool runs) {
  const unsigned char* at = window.at + 1;
  while (runs && *window.at == ' ' && at < window.end && *at == ' ') ++at;
  if (at == window.end) return window.RunEnd(at);
  const void* space = std::memchr(at, ' ', static_cast<size_t>(window.end - at));
  return space == nullptr ? window.RunEnd(window.end)
                          : window.Offset(static_cast<const unsigned char*>(space));
}

struct PatternInfo {
  std::string_view name;
  std::string_view regex;
};

// Patterns are listed by SplitPattern.
constexpr std::array<PatternInfo, kSplitPatterns.size() + 3> kPatterns = {{
    {"gpt2", R"('(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)"},
    {"cl100k",
     R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|)"
     R"(\s+\z|\s*[\r\n]|\s+(?!\S)|\s+)"},
    {"o200k", R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)"
              R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
              R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)"
              R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
              R"(\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)"},
    {"smollm", R"('(?:[sdmt]|ll|ve|re)| ?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+|\s+(?=\p{N})|)"
               R"(\s+(?!\S)|\s+)"},
    {"llama3", R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|)"
               R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"},
    {"qwen2", R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|)"
              R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"},
    {"nanochat", R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,2}|)"
                 R"( ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+)"},
    {"whole", R"([\s\S]+)"},
    {"spaces", R"((?: |^)[^ ]*)"},
    {"space_runs", R"((?: +|^)[^ ]*)"},
}};

// Another spelling of one of our patterns that published tokenizers use.
struct Spelling {
  SplitPattern pattern;
  std::string_view regex;
};

constexpr Spelling kSpellings[] = {
    {SplitPattern::kGpt2,
     R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)"},
    {SplitPattern::kGpt2,
     R"('(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s)"},
    {SplitPattern::kLlama3, R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}|)"
                            R"( ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+)"},
};

const PatternInfo& InfoOf(SplitPattern pattern) {
  const auto place = static_cast<size_t>(pattern);
  FOLIO_CHECK(place < kPatterns.size(), "not a split pattern");
  return kPatterns[place];
}

// Returns true if every pattern begins a pretoken between `before` and what begins with `after`, a
// character of the set `after_set`. `before` is 0 at the begin of the text.
bool IsCut(ClassSet before, unsigned char after, ClassSet after_set) {
  if (after == ' ') return before != 0 && before != kSpaces;
  if (before == kNumbers) return after_set != kNumbers;
  return (before & kLetters) != 0 && after != '\'' && (after_set & (kLetters | kMarks)) == 0;
}

// The set of the character that ends at `at`; 0 if `at` lies inside a character or at the begin of
// the text.
ClassSet SetBefore(const unsigned char* text, const unsigned char* at, const unsigned char* end) {
  ClassSet set = at == text ? 0 : SetOf(CharClass::kOther);
  for (ptrdiff_t back = 1; back <= std::min<ptrdiff_t>(4, at - text); ++back) {
    if (Continues(at[-back])) continue;
    const Char c = Read(at - back, end);
    if (static_cast<ptrdiff_t>(c.length) == back) return c.set;
    return static_cast<ptrdiff_t>(c.length) > back ? 0 : set;
  }
  return set;
}

constexpr size_t kBlock = 64;
constexpr size_t kBehind = 3;  // bytes behind a block that may belong to its last character

// A block of text as sets of bytes, the first byte in the lowest bit.
struct Block {
  uint64_t blank;  // U+0020
  uint64_t space;  // White_Space, including blank
  uint64_t letter;
  uint64_t number;
  uint64_t number_tail;  // bytes after the first of numbers beyond ASCII
  uint64_t apostrophe;
  uint64_t high;  // bytes of characters beyond ASCII
};

constexpr uint64_t Low(size_t n) {
  return n >= 64 ? ~uint64_t{0} : (uint64_t{1} << n) - 1;
}

// Adds characters beyond ASCII to the sets. Returns how many bytes of the block are now known: all,
// or those before white space beyond ASCII. `text` has kBehind bytes behind the block.
inline size_t AddHigh(const char* text, const CharClassTable& table, Block& block) {
  const auto* bytes = reinterpret_cast<const unsigned char*>(text);
  uint64_t left = block.high;
  while (left != 0) {
    const auto at = static_cast<size_t>(std::countr_zero(left));
    const Char c = ReadMultiByte(bytes + at, bytes + kBlock + kBehind, table);
    if ((c.set & kSpaces) != 0) return at;
    const uint64_t places = Low(c.length) << at;
    if ((c.set & kLetters) != 0) block.letter |= places;
    if ((c.set & kNumbers) != 0) {
      block.number |= places;
      block.number_tail |= places & (places << 1);
    }
    left &= ~places;
  }
  return kBlock;
}

// Returns where pretokens begin in a block that begins with a pretoken, for GPT-2's pattern or,
// with kDigits, SmolLM's. Valid for bytes from 1 on whose next byte is known; a contraction needs
// the next two.
template <bool kDigits>
inline uint64_t Gpt2Starts(const char* text, const Block& b, size_t known) {
  const uint64_t other = ~(b.space | b.letter | b.number);
  const uint64_t same = (b.letter & b.letter << 1) | (other & other << 1) |
                        (kDigits ? b.number_tail : b.number & b.number << 1);
  // The last character of a run of white space belongs to what follows or is alone.
  const uint64_t last_space = kDigits ? ~((b.space | b.number) >> 1) : ~(b.space >> 1);
  const uint64_t in_space = b.space & (~(b.space << 1) | last_space);
  const uint64_t behind_blank = kDigits ? b.blank << 1 & ~b.number : b.blank << 1;
  uint64_t starts = in_space | (~b.space & ~behind_blank & ~same) | 1;
  uint64_t contractions = b.apostrophe & starts & (b.letter >> 1) & Low(known < 2 ? 0 : known - 2);
  while (contractions != 0) {
    const auto at = static_cast<size_t>(std::countr_zero(contractions));
    contractions &= contractions - 1;
    const auto* apostrophe = reinterpret_cast<const unsigned char*>(text) + at;
    const size_t length = Contraction<false>(apostrophe, apostrophe + 3);
    if (length == 0) continue;
    starts &= ~(uint64_t{2} << at);
    starts |= uint64_t{1} << at << length;
  }
  return starts;
}

}  // namespace
}  // namespace folio
#endif

HWY_BEFORE_NAMESPACE();
namespace folio::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class D, class M>
HWY_INLINE uint64_t Bits(D d, M mask) {
  unsigned char bytes[8] = {};
  hn::StoreMaskBits(d, mask, bytes);
  uint64_t bits;
  std::memcpy(&bits, bytes, sizeof(bits));
  return bits;
}

HWY_INLINE Block Classify(const char* text) {
  const hn::CappedTag<uint8_t, kBlock> d;
  Block b = {};
  for (size_t i = 0; i < kBlock; i += hn::Lanes(d)) {
    const auto v = hn::LoadU(d, reinterpret_cast<const uint8_t*>(text) + i);
    const auto blank = hn::Eq(v, hn::Set(d, ' '));
    const auto control = hn::Lt(hn::Sub(v, hn::Set(d, '\t')), hn::Set(d, 5));
    const auto lower = hn::Or(v, hn::Set(d, 0x20));
    b.blank |= Bits(d, blank) << i;
    b.space |= Bits(d, hn::Or(blank, control)) << i;
    b.letter |= Bits(d, hn::Lt(hn::Sub(lower, hn::Set(d, 'a')), hn::Set(d, 26))) << i;
    b.number |= Bits(d, hn::Lt(hn::Sub(v, hn::Set(d, '0')), hn::Set(d, 10))) << i;
    b.apostrophe |= Bits(d, hn::Eq(v, hn::Set(d, '\''))) << i;
    b.high |= Bits(d, hn::Gt(v, hn::Set(d, 0x7F))) << i;
  }
  return b;
}

// The places of a block, after its first byte, where pretokens certainly begin.
template <bool kDigits>
HWY_INLINE uint64_t StartsInBlock(const char* text, const CharClassTable& table) {
  Block block = Classify(text);
  const size_t known = HWY_LIKELY(block.high == 0) ? kBlock : AddHigh(text, table, block);
  return known < 2 ? 0 : Gpt2Starts<kDigits>(text, block, known) & Low(known - 1) & ~uint64_t{1};
}

// SplitPretokens for GPT-2's pattern or SmolLM's. Each block begins with a pretoken, so that its
// own bytes decide it.
template <bool kDigits>
size_t SplitBlocks(std::string_view text, size_t begin, bool at_end, size_t* ends,
                   size_t capacity) {
  constexpr SplitPattern kPattern = kDigits ? SplitPattern::kSmolLm : SplitPattern::kGpt2;
  const CharClassTable& table = CharClasses();
  size_t count = 0;
  while (begin < text.size() && count + kBlock <= capacity) {
    const size_t first = begin;
    uint64_t starts = 0;
    if (text.size() - begin >= kBlock + kBehind) {
      starts = StartsInBlock<kDigits>(text.data() + begin, table);
    }
    if (HWY_LIKELY(starts != 0)) {
      do {
        ends[count++] = begin = first + static_cast<size_t>(std::countr_zero(starts));
        starts &= starts - 1;
      } while (starts != 0);
      continue;
    }
    const size_t end = NextPretoken(kPattern, text, begin, at_end);
    if (end == kUndecided) break;
    ends[count++] = begin = end;
  }
  return count;
}

size_t SplitGpt2(std::string_view text, size_t begin, bool at_end, size_t* ends, size_t capacity) {
  return SplitBlocks<false>(text, begin, at_end, ends, capacity);
}
size_t SplitSmolLm(std::string_view text, size_t begin, bool at_end, size_t* ends,
                   size_t capacity) {
  return SplitBlocks<true>(text, begin, at_end, ends, capacity);
}

}  // namespace folio::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace folio {

HWY_EXPORT(SplitGpt2);
HWY_EXPORT(SplitSmolLm);

size_t SplitPretokens(SplitPattern pattern, std::string_view text, size_t begin, bool at_end,
                      std::span<size_t> ends) {
  FOLIO_CHECK(ends.size() >= kMinSplitEnds, "too few ends fit");
  if (pattern == SplitPattern::kGpt2) {
    return HWY_DYNAMIC_DISPATCH(SplitGpt2)(text, begin, at_end, ends.data(), ends.size());
  }
  if (pattern == SplitPattern::kSmolLm) {
    return HWY_DYNAMIC_DISPATCH(SplitSmolLm)(text, begin, at_end, ends.data(), ends.size());
  }
  size_t count = 0;
  while (begin < text.size() && count < ends.size()) {
    const size_t end = NextPretoken(pattern, text, begin, at_end);
    if (end == kUndecided) break;
    ends[count++] = begin = end;
  }
  return count;
}

std::string_view SplitPatternName(SplitPattern pattern) {
  return InfoOf(pattern).name;
}

std::optional<SplitPattern> FindSplitPattern(std::string_view name) {
  for (size_t i = 0; i < kPatterns.size(); ++i) {
    if (kPatterns[i].name == name) return static_cast<SplitPattern>(i);
  }
  return std::nullopt;
}

std::string_view SplitPatternRegex(SplitPattern pattern) {
  return InfoOf(pattern).regex;
}

std::optional<SplitPattern> FindSplitRegex(std::string_view regex) {
  for (const SplitPattern pattern : kSplitPatterns) {
    if (regex == SplitPatternRegex(pattern)) return pattern;
  }
  const auto* found = std::ranges::find(kSpellings, regex, &Spelling::regex);
  return found == std::end(kSpellings) ? std::nullopt : std::optional(found->pattern);
}

std::optional<SplitPattern> FindTiktokenRegex(std::string_view regex) {
  constexpr std::string_view kCl100k =
      R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|)"
      R"(\s++$|\s*[\r\n]|\s+(?!\S)|\s)";
  return regex == kCl100k ? SplitPattern::kCl100k : FindSplitRegex(regex);
}

size_t NextPretoken(SplitPattern pattern, std::string_view text, size_t begin, bool at_end) {
  FOLIO_CHECK(begin < text.size(), "there is no piece at the end of the text");
  const Window window(text, begin, at_end);
  if (window.at >= window.end) return kUndecided;
  switch (pattern) {
    case SplitPattern::kGpt2:
      return Gpt2Pretoken<false>(window);
    case SplitPattern::kCl100k:
      return Cl100kPretoken<3, true>(window);
    case SplitPattern::kO200k:
      return O200kPretoken(window);
    case SplitPattern::kSmolLm:
      return Gpt2Pretoken<true>(window);
    case SplitPattern::kLlama3:
      return Cl100kPretoken<3, false>(window);
    case SplitPattern::kQwen2:
      return Cl100kPretoken<1, false>(window);
    case SplitPattern::kNanochat:
      return Cl100kPretoken<2, false>(window);
    case SplitPattern::kWhole:
      return window.RunEnd(window.end);
    case SplitPattern::kSpaces:
      return SpacedPretoken(window, false);
    case SplitPattern::kSpaceRuns:
      return SpacedPretoken(window, true);
  }
  FOLIO_CHECK(false, "not a split pattern");
}

// A run of one class from the second character on belongs to the pretoken that the first one
// begins. GPT-2's pattern and SmolLM's do not distinguish kinds of letters. The others have two
// exceptions: the pretokens of white space depend on line breaks behind it, so all of it must be
// line breaks, or the same character; and o200k gives capitals back if the text before them can end
// a word.
size_t CertainRun(SplitPattern pattern, std::string_view text) {
  if (text.empty() || pattern >= SplitPattern::kWhole) return 0;
  const auto* begin = reinterpret_cast<const unsigned char*>(text.data());
  const auto* end = begin + text.size();
  const Char first = Read(begin, end);
  const unsigned char* at = begin + first.length;
  if (at == end) return 0;
  ClassSet run = Read(at, end).set;
  const bool gpt2 = pattern == SplitPattern::kGpt2 || pattern == SplitPattern::kSmolLm;
  if (run == kSpaces && !gpt2) {
    const size_t from = *at == '\n' ? first.length : 0;
    return text.find_first_not_of(static_cast<char>(*at), from) == text.npos ? text.size() : 0;
  }
  if (gpt2) {
    for (const ClassSet one : {kLetters, kOthers}) {
      if ((run & one) != 0) run = one;
    }
  }
  const bool capitals = (run & kUppers & ~kCaseless) != 0;
  if (pattern == SplitPattern::kO200k && capitals && (first.set & kCaseless) != 0) return 0;
  // A character cut off by the end may belong to the run or not: it is not counted.
  while (end - at >= 4) {
    const Char c = Read(at, end);
    if ((c.set & run) == 0) return 0;
    at += c.length;
  }
  return static_cast<size_t>(at - begin);
}

size_t FindCut(std::string_view text, size_t at) {
  if (at >= text.size()) return text.size();
  const auto* const bytes = reinterpret_cast<const unsigned char*>(text.data());
  const unsigned char* const end = bytes + text.size();
  const unsigned char* cut = bytes + at;
  ClassSet before = 0;
  if (at > 0) {
    while (cut < end && (before = SetBefore(bytes, cut, end)) == 0) ++cut;
  }
  while (cut < end) {
    const Char after = Read(cut, end);
    if (IsCut(before, *cut, after.set)) return static_cast<size_t>(cut - bytes);
    before = after.set;
    cut += after.length;
  }
  return text.size();
}

}  // namespace folio
#endif
