#include "folio/base/check.h"
#include "folio/text/scan_pieces.h"
#include "folio/text/split.h"

namespace folio {
namespace {

using scan::Char;
using scan::Window;

// \s+(?!\S)|\s+
size_t Gpt2SpacePiece(const Window& window) {
  const scan::SpaceRun run = scan::ReadSpaces(window.at, window.end);
  if (run.end == window.end) return window.RunEnd(run.end);
  return window.Offset(run.last > window.at ? run.last : run.end);
}

}  // namespace

size_t NextPieceGpt2(std::string_view text, size_t begin, bool at_end) {
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
  if (c.set == scan::kSpaces) return Gpt2SpacePiece(window);
  at += c.length;
  if ((c.set & scan::kLetters) != 0) {
    return window.RunEnd(scan::SkipRun<scan::kLetters>(at, window.end));
  }
  if (c.set == scan::kNumbers) {
    return window.RunEnd(scan::SkipRun<scan::kNumbers>(at, window.end));
  }
  return window.RunEnd(scan::SkipRun<scan::kOthers>(at, window.end));
}

}  // namespace folio
