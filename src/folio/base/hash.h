#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace folio {

// Identity of a byte string: XXH3 128-bit, 32 hexadecimal digits. Not for security.
std::string HashHex(std::string_view bytes);

// The same for bytes that come in pieces: Hex() is HashHex of all pieces in a row.
class Hasher {
 public:
  Hasher();
  ~Hasher();
  Hasher(Hasher&&) noexcept;
  Hasher& operator=(Hasher&&) noexcept;

  void Add(std::span<const std::byte> bytes);
  std::string Hex() const;  // of what was added so far

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace folio
