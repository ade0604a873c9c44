#pragma once

#include <cstdint>
#include <string_view>

namespace folio {

// CRC-32C: Castagnoli's polynomial 0x1EDC6F41, reflected, as in RFC 3720, appendix B.4.
// `instruction` false does without the processor's own, to the same number.
uint32_t Crc32c(std::string_view bytes, bool instruction = true);

// The same as TensorFlow's files have it: against zeros that check themselves (its crc32c.h).
uint32_t MaskedCrc32c(std::string_view bytes);

}  // namespace folio
