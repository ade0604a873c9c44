#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace folio {

// An 8-bit greyscale PNG file of width * height pixels, rows from the top. The same bytes for the
// same pixels.
std::string GreyPng(std::span<const uint8_t> pixels, int64_t width, int64_t height);

// Base64 (RFC 4648) of any bytes: for data: URIs.
std::string Base64(std::string_view bytes);

}  // namespace folio
