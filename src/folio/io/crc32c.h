#pragma once

#include <cstdint>
#include <string_view>

namespace folio {

// CRC-32C: Castagnoli's polynomial 0x1EDC6F41, reflected, as in RFC 3720, appendix B.4. With
// `instruction` false the processor's own instruction is not used; the result is the same.
uint32_t Crc32c(std::string_view bytes, bool instruction = true);

// The masked form in TensorFlow's files (its crc32c.h), which protects against zeros that match
// their own checksum.
uint32_t MaskedCrc32c(std::string_view bytes);

}  // namespace folio
