#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "folio/text/split.h"

namespace folio {

// At least this many ends must fit.
inline constexpr size_t kMinSplitEnds = 64;

// The ends of the pretokens of `text` from `begin`, where a pretoken begins: as NextPretoken,
// called pretoken after pretoken, but many at a time. Stops at the end of the text, at a pretoken
// that is not decided (see NextPretoken), or when no more fit. Returns how many; 0 only where
// nothing is left or decided.
size_t SplitPretokens(SplitPattern pattern, std::string_view text, size_t begin, bool at_end,
                      std::span<size_t> ends);

}  // namespace folio
