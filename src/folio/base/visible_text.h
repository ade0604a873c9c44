#pragma once

#include <string>
#include <string_view>

#include "folio/base/utf8.h"

namespace folio {

// The character at the front of `text`; one byte where that is not UTF-8. REQUIRES: not empty.
Utf8Char FirstCharacter(std::string_view text);

// Neither a control character, but for tab and line ends, nor one that XML forbids.
bool Printable(const Utf8Char& character);

// The token as something one can see: a leading or trailing space as a middle dot, a line break as
// its arrow, control characters and bytes that are no UTF-8 as <0A>.
std::string VisibleToken(std::string_view bytes);

}  // namespace folio
