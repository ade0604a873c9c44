#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "folio/inspect/lens.h"
#include "folio/inspect/token_names.h"
#include "folio/term/console.h"

namespace folio {

// The logit lens on some positions of a text.
struct LensView {
  ModelText text;
  std::vector<int64_t> positions;  // one or more, each once
  int64_t layers = 0;              // L + 1
  std::vector<LensCell> cells;     // as LogitLens: positions outermost

  const LensCell& Cell(size_t position, int64_t layer) const {
    return cells[position * static_cast<size_t>(layers) + static_cast<size_t>(layer)];
  }
  // "next: ·cat", what follows the position in the text; nothing behind the last token.
  std::string Next(size_t position, const TokenNames& names) const;
};

// "embedding", "block 0"
std::string LensLayerName(int64_t layer);

// "3,7", "-1" (the last), "all", or "" for the last kDefaultPositions of T. Throws a kUsage Error.
inline constexpr int64_t kDefaultPositions = 32;
std::vector<int64_t> ParsePositions(const std::string& list, int64_t T);

// A table of the likeliest tokens, and of a single position all that is known.
std::string LensTerminalText(const LensView& view, const TokenNames& names,
                             const Terminal& terminal);
// The same table as a figure.
std::string LensSvg(const LensView& view, const TokenNames& names);

}  // namespace folio
