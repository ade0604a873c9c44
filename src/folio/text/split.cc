#include "folio/text/split.h"

#include <algorithm>
#include <array>

#include "folio/base/check.h"
#include "folio/text/scan.h"

namespace folio {
namespace {

struct PatternInfo {
  SplitPattern pattern;
  std::string_view name;
  std::string_view regex;
};

constexpr std::array<PatternInfo, 3> kPatterns = {{
    {SplitPattern::kGpt2, "gpt2",
     R"('(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)"},
    {SplitPattern::kCl100k, "cl100k",
     R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|)"
     R"(\s+\z|\s*[\r\n]|\s+(?!\S)|\s+)"},
    {SplitPattern::kO200k, "o200k",
     R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)"
     R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
     R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)"
     R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
     R"(\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)"},
}};

const PatternInfo& InfoOf(SplitPattern pattern) {
  const auto* const info =
      std::find_if(kPatterns.begin(), kPatterns.end(),
                   [&](const PatternInfo& candidate) { return candidate.pattern == pattern; });
  FOLIO_CHECK(info != kPatterns.end(), "not a split pattern");
  return *info;
}

// Whether every pattern begins a piece between `before` and what begins with `after`, a character
// of the set `after_set`. `before` is 0 at the begin of the text.
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
  for (const PatternInfo& info : kPatterns) {
    if (info.name == name) return info.pattern;
  }
  return std::nullopt;
}

std::string_view SplitPatternRegex(SplitPattern pattern) {
  return InfoOf(pattern).regex;
}

size_t NextPiece(SplitPattern pattern, std::string_view text, size_t begin, bool at_end) {
  switch (pattern) {
    case SplitPattern::kGpt2:
      return NextPieceGpt2(text, begin, at_end);
    case SplitPattern::kCl100k:
      return NextPieceCl100k(text, begin, at_end);
    case SplitPattern::kO200k:
      return NextPieceO200k(text, begin, at_end);
  }
  FOLIO_CHECK(false, "not a split pattern");
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
