#include "folio/text/split.h"

#include <algorithm>
#include <array>

#include "folio/base/check.h"
#include "folio/base/utf8.h"
#include "folio/text/scan.h"

namespace folio {
namespace {

using scan::Char;

struct SpaceRun {
  const unsigned char* end;
  const unsigned char* last;          // where its last character begins
  const unsigned char* past_newline;  // behind the last U+000A or U+000D, nullptr if none
};

// The run of white space from `at` on. REQUIRES: `at` < `end`, and white space is there.
SpaceRun ReadSpaces(const unsigned char* at, const unsigned char* end) {
  SpaceRun run = {at, at, nullptr};
  while (run.end < end) {
    const Char c = scan::Read(run.end, end);
    if (c.set != scan::kSpaces) break;
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

// Contraction returns this where more text is needed to tell.
constexpr size_t kContractionOpen = 9;

// Length in bytes of the contraction ('s 't 'd 'm 'll 've 're) that begins with the apostrophe at
// `at`; 0 if there is none. With `kAnyCase` as (?i:) matches: upper case too, and U+017F for s, its
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

// A text from where a pretoken begins to where the scanner may look.
struct Window {
  const unsigned char* text;  // where offsets count from
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
  // The end of a pretoken that goes on as far as `stop` allows.
  size_t RunEnd(const unsigned char* stop) const {
    return stop == end && !at_end ? kUndecided : Offset(stop);
  }
};

// The end of \p{N}{1,3}, of which the first ends at `at`.
size_t NumberPretoken(const Window& window, const unsigned char* at) {
  for (int more = 0; more < 2; ++more) {
    if (at == window.end) return window.RunEnd(at);
    const Char c = scan::Read(at, window.end);
    if (c.set != scan::kNumbers) break;
    at += c.length;
  }
  return window.Offset(at);
}

// \s+(?!\S)|\s+
size_t SpacePretoken(const Window& window, const SpaceRun& run) {
  if (run.end == window.end) return window.RunEnd(run.end);
  return window.Offset(run.last > window.at ? run.last : run.end);
}

// [^\s\p{L}\p{N}]+[\r\n]*, or with kSlash [^\s\p{L}\p{N}]+[\r\n/]*, of which the first ends at
// `at`.
template <bool kSlash>
size_t OtherPretoken(const Window& window, const unsigned char* at) {
  at = scan::SkipRun<scan::kOthers>(at, window.end);
  while (at < window.end && (*at == '\r' || *at == '\n' || (kSlash && *at == '/'))) ++at;
  return window.RunEnd(at);
}

// \s+$|\s*[\r\n]|\s+(?!\S)|\s+
size_t Cl100kSpacePretoken(const Window& window) {
  const SpaceRun run = ReadSpaces(window.at, window.end);
  if (run.past_newline == nullptr || run.end == window.end) return SpacePretoken(window, run);
  return window.Offset(run.past_newline);
}

// A word is a match of U*W+, or else of U+W*.
struct Word {
  const unsigned char* end;   // of the match; where it was looked for if there is none
  const unsigned char* read;  // where the scan stopped
  bool has_lower;             // U*W+ matched
};

// A greedy U* takes the run of U. Only lower case is W and not U, so that where it follows, W+
// begins there; else U* gives back up to the last of the run that is W as well, which is all that
// W+ then takes: what is behind it is U alone.
Word ReadWord(const unsigned char* at, const unsigned char* end) {
  const unsigned char* past_caseless = nullptr;
  const unsigned char* run = at;
  const CharClassTable* table = nullptr;
  Char c = {0, 0};
  while (run < end) {
    c = {scan::kByteSets[*run], 1};
    if (c.set == scan::kMultiByte) {
      if (table == nullptr) table = &CharClasses();
      c = scan::ReadMultiByte(run, end, *table);
    }
    if ((c.set & scan::kUppers) == 0) break;
    run += c.length;
    if ((c.set & scan::kCaseless) != 0) past_caseless = run;
  }
  if (run < end && c.set == scan::SetOf(CharClass::kLower)) {
    run = scan::SkipRun<scan::kLowers>(run + c.length, end);
    return {run, run, true};
  }
  if (past_caseless != nullptr) return {past_caseless, run, true};
  return {run, run, false};
}

// The pretoken of a word that ends at `at`: with the contraction behind it.
size_t WordPretoken(const Window& window, const unsigned char* at) {
  if (at == window.end) return window.RunEnd(at);
  if (*at != '\'') return window.Offset(at);
  const size_t length = Contraction<true>(at, window.end);
  if (length != kContractionOpen) return window.Offset(at + length);
  return window.at_end ? window.Offset(at) : kUndecided;
}

// \s*[\r\n]+|\s+(?!\S)|\s+
size_t O200kSpacePretoken(const Window& window) {
  const SpaceRun run = ReadSpaces(window.at, window.end);
  const bool open = run.end == window.end && !window.at_end;
  if (run.past_newline == nullptr || open) return SpacePretoken(window, run);
  return window.Offset(run.past_newline);
}

size_t Gpt2Pretoken(const Window& window) {
  const unsigned char* at = window.at;
  if (*at == '\'') {
    const size_t length = Contraction<false>(at, window.end);
    if (length == kContractionOpen) {
      if (!window.at_end) return kUndecided;
    } else if (length > 0) {
      return window.Offset(at + length);
    }
  } else if (*at == ' ') {
    if (++at == window.end) return window.RunEnd(at);
  }
  const Char c = scan::Read(at, window.end);
  if (c.set == scan::kSpaces) return SpacePretoken(window, ReadSpaces(window.at, window.end));
  at += c.length;
  if ((c.set & scan::kLetters) != 0) {
    return window.RunEnd(scan::SkipRun<scan::kLetters>(at, window.end));
  }
  if (c.set == scan::kNumbers) {
    return window.RunEnd(scan::SkipRun<scan::kNumbers>(at, window.end));
  }
  return window.RunEnd(scan::SkipRun<scan::kOthers>(at, window.end));
}

size_t Cl100kPretoken(const Window& window) {
  const unsigned char* at = window.at;
  if (*at == '\'') {
    const size_t length = Contraction<true>(at, window.end);
    if (length == kContractionOpen) {
      if (!window.at_end) return kUndecided;
    } else if (length > 0) {
      return window.Offset(at + length);
    }
  }
  const Char c = scan::Read(at, window.end);
  at += c.length;
  if ((c.set & scan::kLetters) != 0) {
    return window.RunEnd(scan::SkipRun<scan::kLetters>(at, window.end));
  }
  if (c.set == scan::kNumbers) return NumberPretoken(window, at);
  if (*window.at == '\r' || *window.at == '\n') return Cl100kSpacePretoken(window);
  if (at == window.end) return window.RunEnd(at);

  const Char next = scan::Read(at, window.end);
  if ((next.set & scan::kLetters) != 0) {
    return window.RunEnd(scan::SkipRun<scan::kLetters>(at + next.length, window.end));
  }
  if (c.set != scan::kSpaces) return OtherPretoken<false>(window, at);
  if (*window.at == ' ' && (next.set & scan::kOthers) != 0) {
    return OtherPretoken<false>(window, at + next.length);
  }
  return Cl100kSpacePretoken(window);
}

size_t O200kPretoken(const Window& window) {
  const Char c = scan::Read(window.at, window.end);
  if (c.set == scan::kNumbers) return NumberPretoken(window, window.at + c.length);
  if (*window.at == '\r' || *window.at == '\n') return O200kSpacePretoken(window);

  const bool is_letter = (c.set & scan::kLetters) != 0;
  const unsigned char* const next = window.at + c.length;
  const Word word = ReadWord(is_letter ? window.at : next, window.end);
  if (word.read == window.end && !window.at_end) return kUndecided;
  // A mark leads a word of U*W+; before U+ alone the first alternative matches the mark by itself.
  if (c.set == scan::kMarks && !word.has_lower) return WordPretoken(window, next);
  if (is_letter || word.end > next) return WordPretoken(window, word.end);

  if (c.set != scan::kSpaces) return OtherPretoken<true>(window, next);
  if (*window.at == ' ' && next < window.end) {
    const Char other = scan::Read(next, window.end);
    if ((other.set & scan::kOthers) != 0) return OtherPretoken<true>(window, next + other.length);
  }
  return O200kSpacePretoken(window);
}

struct PatternInfo {
  std::string_view name;
  std::string_view regex;
};

// Patterns are listed by SplitPattern.
constexpr std::array<PatternInfo, 3> kPatterns = {{
    {"gpt2", R"('(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)"},
    {"cl100k",
     R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|)"
     R"(\s+\z|\s*[\r\n]|\s+(?!\S)|\s+)"},
    {"o200k", R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)"
              R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
              R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)"
              R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
              R"(\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)"},
}};

const PatternInfo& InfoOf(SplitPattern pattern) {
  const auto place = static_cast<size_t>(pattern);
  FOLIO_CHECK(place < kPatterns.size(), "not a split pattern");
  return kPatterns[place];
}

// Returns whether every pattern begins a pretoken between `before` and what begins with `after`, a
// character of the set `after_set`. `before` is 0 at the begin of the text.
bool IsCut(scan::ClassSet before, unsigned char after, scan::ClassSet after_set) {
  if (after == ' ') return before != 0 && before != scan::kSpaces;
  if (before == scan::kNumbers) return after_set != scan::kNumbers;
  return (before & scan::kLetters) != 0 && after != '\'' &&
         (after_set & (scan::kLetters | scan::kMarks)) == 0;
}

// The set of the character that ends at `at`; 0 if `at` lies inside a character or at the begin of
// the text.
scan::ClassSet SetBefore(const unsigned char* text, const unsigned char* at,
                         const unsigned char* end) {
  scan::ClassSet set = at == text ? 0 : scan::SetOf(CharClass::kOther);
  for (ptrdiff_t back = 1; back <= std::min<ptrdiff_t>(4, at - text); ++back) {
    if (scan::Continues(at[-back])) continue;
    const scan::Char c = scan::Read(at - back, end);
    if (static_cast<ptrdiff_t>(c.length) == back) return c.set;
    return static_cast<ptrdiff_t>(c.length) > back ? 0 : set;
  }
  return set;
}

}  // namespace

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

size_t NextPretoken(SplitPattern pattern, std::string_view text, size_t begin, bool at_end) {
  FOLIO_CHECK(begin < text.size(), "there is no piece at the end of the text");
  const Window window(text, begin, at_end);
  if (window.at >= window.end) return kUndecided;
  switch (pattern) {
    case SplitPattern::kGpt2:
      return Gpt2Pretoken(window);
    case SplitPattern::kCl100k:
      return Cl100kPretoken(window);
    case SplitPattern::kO200k:
      return O200kPretoken(window);
  }
  FOLIO_CHECK(false, "not a split pattern");
}

// A run of one class from the second character on belongs to the pretoken that the first one leads.
// GPT-2's pattern knows no kinds of letters. In the others there are two exceptions: what white
// space becomes depends on line breaks behind it, so all of it has to be line breaks, or the same
// character; and o200k gives capitals back if what came before them can end a word.
size_t CertainRun(SplitPattern pattern, std::string_view text) {
  if (text.empty()) return 0;
  const auto* begin = reinterpret_cast<const unsigned char*>(text.data());
  const auto* end = begin + text.size();
  const scan::Char first = scan::Read(begin, end);
  const unsigned char* at = begin + first.length;
  if (at == end) return 0;
  scan::ClassSet run = scan::Read(at, end).set;
  if (run == scan::kSpaces && pattern != SplitPattern::kGpt2) {
    const size_t from = *at == '\n' ? first.length : 0;
    return text.find_first_not_of(static_cast<char>(*at), from) == text.npos ? text.size() : 0;
  }
  if (pattern == SplitPattern::kGpt2) {
    for (const scan::ClassSet one : {scan::kLetters, scan::kOthers}) {
      if ((run & one) != 0) run = one;
    }
  }
  const bool capitals = (run & scan::kUppers & ~scan::kCaseless) != 0;
  if (pattern == SplitPattern::kO200k && capitals && (first.set & scan::kCaseless) != 0) return 0;
  // A character that the end cuts off may belong to the run or not: it is not counted.
  while (end - at >= 4) {
    const scan::Char c = scan::Read(at, end);
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
  scan::ClassSet before = 0;
  if (at > 0) {
    while (cut < end && (before = SetBefore(bytes, cut, end)) == 0) ++cut;
  }
  while (cut < end) {
    const scan::Char after = scan::Read(cut, end);
    if (IsCut(before, *cut, after.set)) return static_cast<size_t>(cut - bytes);
    before = after.set;
    cut += after.length;
  }
  return text.size();
}

}  // namespace folio
