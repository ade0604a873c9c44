#pragma once

#include <cstdint>

namespace folio {

// A file begins with the length of its header; longer headers than the format allows are refused.
constexpr uint64_t kSafetensorsLengthBytes = 8;
constexpr uint64_t kSafetensorsMaxHeader = 100'000'000;

}  // namespace folio
