#include "folio/io/byte_reader.h"

#include <fmt/format.h>

#include <utility>

#include "folio/base/error.h"

namespace folio {

void ByteReader::Fail(std::string cause, std::string help) const {
  throw InputError(mistake_, std::move(cause), std::move(help));
}

void ByteReader::Seek(uint64_t at) {
  if (at > bytes_.size()) Fail(fmt::format("byte {} of {}", at, bytes_.size()));
  at_ = static_cast<size_t>(at);
}

std::span<const std::byte> ByteReader::Bytes(uint64_t count) {
  if (count > left()) {
    Fail(fmt::format("{} bytes at byte {} of {}", count, at_, bytes_.size()));
  }
  const auto bytes = bytes_.subspan(at_, static_cast<size_t>(count));
  at_ += bytes.size();
  return bytes;
}

uint64_t ByteReader::Varint() {
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

}  // namespace folio
