#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace folio {

// The bytes of a fuzzer's input, read from the front as choices and, at last, as text. Where they
// have run out all choices are 0.
class FuzzInput {
 public:
  explicit FuzzInput(std::string_view bytes) : bytes_(bytes) {}

  bool empty() const { return bytes_.empty(); }
  uint8_t Byte() {
    const std::string_view byte = Take(1);
    return byte.empty() ? uint8_t{0} : static_cast<uint8_t>(byte[0]);
  }
  uint16_t Word() {
    const uint8_t high = Byte();
    return static_cast<uint16_t>(high << 8 | Byte());
  }
  std::string_view Take(size_t bytes) {
    const std::string_view front = bytes_.substr(0, bytes);
    bytes_.remove_prefix(front.size());
    return front;
  }
  std::string_view Rest() { return Take(bytes_.size()); }

 private:
  std::string_view bytes_;
};

}  // namespace folio
