#pragma once

#include <cstdint>
#include <span>

namespace folio {

// The codes where the class of characters changes, in ascending order, the first at code 0: each
// number is `first code << 4 | CharClass`, and holds up to the code before the next.
std::span<const uint32_t> CharClassRanges();

}  // namespace folio
