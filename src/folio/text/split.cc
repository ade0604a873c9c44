#include "folio/text/split.h"

#include <algorithm>
#include <array>

#include "folio/base/check.h"
#include "folio/text/scan.h"

namespace folio {
namespace {

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
  switch (pattern) {
    case SplitPattern::kGpt2:
      return NextPretokenGpt2(text, begin, at_end);
    case SplitPattern::kCl100k:
      return NextPretokenCl100k(text, begin, at_end);
    case SplitPattern::kO200k:
      return NextPretokenO200k(text, begin, at_end);
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
