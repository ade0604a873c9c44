#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace folio {

// A safetensors file, valid or not: header length, header, data.
inline std::string SafetensorsBytes(std::string_view header, std::string_view data) {
  std::string bytes;
  for (int i = 0; i < 8; ++i) {
    bytes += static_cast<char>(static_cast<uint64_t>(header.size()) >> (8 * i) & 255u);
  }
  return bytes.append(header).append(data);
}

}  // namespace folio
