#pragma once

#include <string>
#include <string_view>

namespace folio {

// `text` in 256 colours that say how large `value` is beside `largest`, by its square root as in
// figures: blue for positive, orange for negative, none near 0; small values colour the letters,
// larger ones the ground. Reads alike on dark and light terminals.
std::string HeatColoured(std::string_view text, double value, double largest);

}  // namespace folio
