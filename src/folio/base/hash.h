#pragma once

#include <string>
#include <string_view>

namespace folio {

// Identity of a byte string: XXH3 128-bit, 32 hexadecimal digits. For telling things apart, not for
// security.
std::string HashHex(std::string_view bytes);

}  // namespace folio
