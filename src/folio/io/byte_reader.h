#pragma once

#include <fmt/format.h>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "folio/base/error.h"

namespace folio {

// A little-endian number of a file.
static_assert(std::endian::native == std::endian::little);
template <class T>
T LittleEndian(const void* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}
template <class... T>
void AppendLittleEndian(std::string& to, T... values) {
  (to.append(reinterpret_cast<const char*>(&values), sizeof values), ...);
}

inline std::string_view AsText(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Reads numbers and bytes of an untrusted file in order. Every mistake is a kInput Error.
class ByteReader {
 public:
  // `bytes` must outlive it. Errors begin with `mistake`: "x.pt is not a sound zip file".
  ByteReader(std::span<const std::byte> bytes, std::string mistake)
      : bytes_(bytes), mistake_(std::move(mistake)) {}

  size_t at() const { return at_; }
  size_t left() const { return bytes_.size() - at_; }
  std::span<const std::byte> all() const { return bytes_; }
  // Continues at byte `at`; throws unless that is in the file or its end.
  void Seek(uint64_t at) {
    if (at > bytes_.size()) Fail(fmt::format("byte {} of {}", at, bytes_.size()));
    at_ = static_cast<size_t>(at);
  }

  // A reader of a part of the file, with the same errors.
  ByteReader Within(std::span<const std::byte> part) const { return {part, mistake_}; }

  // A little-endian number; throws if the file ends before it does.
  template <class T>
  T Number() {
    return LittleEndian<T>(Bytes(sizeof(T)).data());
  }
  // A number of seven bits a byte, the lowest first; the eighth bit means that more bytes follow.
  uint64_t Varint() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const auto byte = Number<uint8_t>();
      const uint64_t bits = byte & 0x7F;
      if (shift == 63 && bits > 1) break;
      value |= bits << shift;
      if ((byte & 0x80) == 0) return value;
    }
    Fail(fmt::format("the number before byte {} has more than 64 bits", at_));
  }
  std::span<const std::byte> Bytes(uint64_t count) {
    if (count > left()) Fail(fmt::format("{} bytes at byte {} of {}", count, at_, bytes_.size()));
    const auto bytes = bytes_.subspan(at_, static_cast<size_t>(count));
    at_ += bytes.size();
    return bytes;
  }
  std::string_view Text(uint64_t count) { return AsText(Bytes(count)); }

  // Throws `mistake` with the cause.
  [[noreturn]] void Fail(
      std::string cause,
      std::string help = "copy or download it again: it may be truncated or damaged") const {
    throw InputError(mistake_, std::move(cause), std::move(help));
  }

 private:
  std::span<const std::byte> bytes_;
  std::string mistake_;
  size_t at_ = 0;
};

}  // namespace folio
