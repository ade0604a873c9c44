#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

namespace folio {

// SHA-256 (FIPS 180-4) of bytes that come in pieces. Throws a kRuntime Error where the library
// refuses.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;

  void Add(std::string_view bytes);
  // 64 hexadecimal digits. Once, and nothing after it.
  std::string Hex();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

std::string Sha256Hex(std::string_view bytes);

}  // namespace folio
