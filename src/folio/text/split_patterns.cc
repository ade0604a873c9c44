#include "folio/base/check.h"
#include "folio/text/scan_pretokens.h"
#include "folio/text/split.h"

namespace folio {
namespace {

using scan::Char;
using scan::Window;

// \s+(?!\S)|\s+
size_t SpacePretoken(const Window& window, const scan::SpaceRun& run) {
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
  const scan::SpaceRun run = scan::ReadSpaces(window.at, window.end);
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
  const size_t length = scan::Contraction<true>(at, window.end);
  if (length != scan::kContractionOpen) return window.Offset(at + length);
  return window.at_end ? window.Offset(at) : kUndecided;
}

// \s*[\r\n]+|\s+(?!\S)|\s+
size_t O200kSpacePretoken(const Window& window) {
  const scan::SpaceRun run = scan::ReadSpaces(window.at, window.end);
  const bool open = run.end == window.end && !window.at_end;
  if (run.past_newline == nullptr || open) return SpacePretoken(window, run);
  return window.Offset(run.past_newline);
}

}  // namespace

size_t NextPretokenGpt2(std::string_view text, size_t begin, bool at_end) {
  FOLIO_CHECK(begin < text.size(), "there is no piece at the end of the text");
  const Window window(text, begin, at_end);
  const unsigned char* at = window.at;
  if (at >= window.end) return kUndecided;

  if (*at == '\'') {
    const size_t length = scan::Contraction<false>(at, window.end);
    if (length == scan::kContractionOpen) {
      if (!at_end) return kUndecided;
    } else if (length > 0) {
      return begin + length;
    }
  } else if (*at == ' ') {
    if (++at == window.end) return window.RunEnd(at);
  }
  const Char c = scan::Read(at, window.end);
  if (c.set == scan::kSpaces) return SpacePretoken(window, scan::ReadSpaces(window.at, window.end));
  at += c.length;
  if ((c.set & scan::kLetters) != 0) {
    return window.RunEnd(scan::SkipRun<scan::kLetters>(at, window.end));
  }
  if (c.set == scan::kNumbers) {
    return window.RunEnd(scan::SkipRun<scan::kNumbers>(at, window.end));
  }
  return window.RunEnd(scan::SkipRun<scan::kOthers>(at, window.end));
}

size_t NextPretokenCl100k(std::string_view text, size_t begin, bool at_end) {
  FOLIO_CHECK(begin < text.size(), "there is no piece at the end of the text");
  const Window window(text, begin, at_end);
  const unsigned char* at = window.at;
  if (at >= window.end) return kUndecided;

  if (*at == '\'') {
    const size_t length = scan::Contraction<true>(at, window.end);
    if (length == scan::kContractionOpen) {
      if (!at_end) return kUndecided;
    } else if (length > 0) {
      return begin + length;
    }
  }
  const Char c = scan::Read(at, window.end);
  at += c.length;
  if ((c.set & scan::kLetters) != 0) {
    return window.RunEnd(scan::SkipRun<scan::kLetters>(at, window.end));
  }
  if (c.set == scan::kNumbers) return scan::NumberPretoken(window, at);
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

size_t NextPretokenO200k(std::string_view text, size_t begin, bool at_end) {
  FOLIO_CHECK(begin < text.size(), "there is no piece at the end of the text");
  const Window window(text, begin, at_end);
  if (window.at >= window.end) return kUndecided;
  const Char c = scan::Read(window.at, window.end);
  if (c.set == scan::kNumbers) return scan::NumberPretoken(window, window.at + c.length);
  if (*window.at == '\r' || *window.at == '\n') return O200kSpacePretoken(window);

  const bool is_letter = (c.set & scan::kLetters) != 0;
  const unsigned char* const next = window.at + c.length;
  const Word word = ReadWord(is_letter ? window.at : next, window.end);
  if (word.read == window.end && !at_end) return kUndecided;
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

}  // namespace folio
