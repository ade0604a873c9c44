#include "folio/base/check.h"
#include "folio/text/scan_pieces.h"
#include "folio/text/split.h"

namespace folio {
namespace {

using scan::Char;
using scan::Window;

// What U*W+, or else U+W*, matches.
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

// The piece of a word that ends at `at`: with the contraction behind it.
size_t WordPiece(const Window& window, const unsigned char* at) {
  if (at == window.end) return window.RunEnd(at);
  if (*at != '\'') return window.Offset(at);
  const size_t length = scan::Contraction<true>(at, window.end);
  if (length != scan::kContractionOpen) return window.Offset(at + length);
  return window.at_end ? window.Offset(at) : kUndecided;
}

// [^\s\p{L}\p{N}]+[\r\n/]*, of which the first ends at `at`.
size_t O200kOtherPiece(const Window& window, const unsigned char* at) {
  at = scan::SkipRun<scan::kOthers>(at, window.end);
  while (at < window.end && (*at == '\r' || *at == '\n' || *at == '/')) ++at;
  return window.RunEnd(at);
}

// \s*[\r\n]+|\s+(?!\S)|\s+
size_t O200kSpacePiece(const Window& window) {
  const scan::SpaceRun run = scan::ReadSpaces(window.at, window.end);
  if (run.end == window.end && !window.at_end) return kUndecided;
  if (run.past_newline != nullptr) return window.Offset(run.past_newline);
  if (run.end == window.end) return window.Offset(run.end);
  return window.Offset(run.last > window.at ? run.last : run.end);
}

}  // namespace

size_t NextPieceO200k(std::string_view text, size_t begin, bool at_end) {
  FOLIO_CHECK(begin < text.size(), "there is no piece at the end of the text");
  const Window window(text, begin, at_end);
  if (window.at >= window.end) return kUndecided;
  const Char c = scan::Read(window.at, window.end);
  if (c.set == scan::kNumbers) return scan::NumberPiece(window, window.at + c.length);
  if (*window.at == '\r' || *window.at == '\n') return O200kSpacePiece(window);

  const bool is_letter = (c.set & scan::kLetters) != 0;
  const unsigned char* const next = window.at + c.length;
  const Word word = ReadWord(is_letter ? window.at : next, window.end);
  if (word.read == window.end && !at_end) return kUndecided;
  // A mark leads a word of U*W+; before U+ alone the first alternative matches the mark by itself.
  if (c.set == scan::kMarks && !word.has_lower) return WordPiece(window, next);
  if (is_letter || word.end > next) return WordPiece(window, word.end);

  if (c.set != scan::kSpaces) return O200kOtherPiece(window, next);
  if (*window.at == ' ' && next < window.end) {
    const Char other = scan::Read(next, window.end);
    if ((other.set & scan::kOthers) != 0) return O200kOtherPiece(window, next + other.length);
  }
  return O200kSpacePiece(window);
}

}  // namespace folio
