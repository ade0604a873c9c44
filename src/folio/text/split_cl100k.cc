#include "folio/base/check.h"
#include "folio/text/scan_pieces.h"
#include "folio/text/split.h"

namespace folio {
namespace {

using scan::Char;
using scan::Window;

// [^\s\p{L}\p{N}]+[\r\n]*, of which the first ends at `at`.
size_t Cl100kOtherPiece(const Window& window, const unsigned char* at) {
  at = scan::SkipRun<scan::kOthers>(at, window.end);
  while (at < window.end && (*at == '\r' || *at == '\n')) ++at;
  return window.RunEnd(at);
}

// \s+$|\s*[\r\n]|\s+(?!\S)|\s+
size_t Cl100kSpacePiece(const Window& window) {
  const scan::SpaceRun run = scan::ReadSpaces(window.at, window.end);
  if (run.end == window.end) return window.RunEnd(run.end);
  if (run.past_newline != nullptr) return window.Offset(run.past_newline);
  return window.Offset(run.last > window.at ? run.last : run.end);
}

}  // namespace

size_t NextPieceCl100k(std::string_view text, size_t begin, bool at_end) {
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
  if (c.set == scan::kNumbers) return scan::NumberPiece(window, at);
  if (*window.at == '\r' || *window.at == '\n') return Cl100kSpacePiece(window);
  if (at == window.end) return window.RunEnd(at);

  const Char next = scan::Read(at, window.end);
  if ((next.set & scan::kLetters) != 0) {
    return window.RunEnd(scan::SkipRun<scan::kLetters>(at + next.length, window.end));
  }
  if (c.set != scan::kSpaces) return Cl100kOtherPiece(window, at);
  if (*window.at == ' ' && (next.set & scan::kOthers) != 0) {
    return Cl100kOtherPiece(window, at + next.length);
  }
  return Cl100kSpacePiece(window);
}

}  // namespace folio
