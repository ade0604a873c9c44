#pragma once

#include <string>
#include <string_view>

namespace folio {

// Returns bytes as padded base64 (RFC 4648, section 4).
std::string Base64(std::string_view bytes);

// Appends the bytes of a padded base64 text. Returns false, and may have appended some, unless
// `text` is what Base64 writes for at least one byte.
bool AppendBase64(std::string_view text, std::string& bytes);

}  // namespace folio
