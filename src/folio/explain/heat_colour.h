#pragma once

#include <string>
#include <string_view>

namespace folio {

// `text` on a 256-colour background that says how large `value` is beside `largest`, by its square
// root as in figures: blue for positive, orange for negative, none near 0; in a foreground that
// can be read on it.
std::string HeatColoured(std::string_view text, double value, double largest);

}  // namespace folio
