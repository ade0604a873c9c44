#include "folio/io/crc32c.h"

#include <array>
#include <cstddef>

#include "folio/io/byte_reader.h"

namespace folio {
namespace {

constexpr uint32_t kPolynomial = 0x82F63B78;  // 0x1EDC6F41 with its bits in reverse order
constexpr size_t kStep = sizeof(uint64_t);    // bytes at a time

// [i][byte]: what a byte with i more bytes behind it adds to the sum.
constexpr auto kTables = [] {
  std::array<std::array<uint32_t, 256>, kStep> tables{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ ((crc & 1) != 0 ? kPolynomial : 0);
    tables[0][byte] = crc;
  }
  for (size_t i = 1; i < kStep; ++i) {
    for (size_t byte = 0; byte < 256; ++byte) {
      const uint32_t before = tables[i - 1][byte];
      tables[i][byte] = before >> 8 ^ tables[0][before & 0xFF];
    }
  }
  return tables;
}();

uint32_t CrcByTables(uint32_t crc, std::string_view bytes) {
  for (; bytes.size() >= kStep; bytes.remove_prefix(kStep)) {
    const uint64_t eight = LittleEndian<uint64_t>(bytes.data()) ^ crc;
    crc = 0;
    for (size_t i = 0; i < kStep; ++i) crc ^= kTables[kStep - 1 - i][eight >> (8 * i) & 0xFF];
  }
  for (const char c : bytes) {
    crc = crc >> 8 ^ kTables[0][(crc ^ static_cast<unsigned char>(c)) & 0xFF];
  }
  return crc;
}

#if defined(__x86_64__)
// The instruction of SSE 4.2, which nearly every processor has.
__attribute__((target("sse4.2"))) uint32_t CrcByInstruction(uint32_t crc, std::string_view bytes) {
  uint64_t wide = crc;
  for (; bytes.size() >= kStep; bytes.remove_prefix(kStep)) {
    wide = __builtin_ia32_crc32di(wide, LittleEndian<uint64_t>(bytes.data()));
  }
  crc = static_cast<uint32_t>(wide);
  for (const char c : bytes) crc = __builtin_ia32_crc32qi(crc, static_cast<unsigned char>(c));
  return crc;
}
#endif

}  // namespace

uint32_t Crc32c(std::string_view bytes, [[maybe_unused]] bool instruction) {
#if defined(__x86_64__)
  static const bool there = __builtin_cpu_supports("sse4.2") != 0;
  if (instruction && there) return ~CrcByInstruction(~uint32_t{0}, bytes);
#endif
  return ~CrcByTables(~uint32_t{0}, bytes);
}

uint32_t MaskedCrc32c(std::string_view bytes) {
  const uint32_t crc = Crc32c(bytes);
  return (crc >> 15 | crc << 17) + 0xA282EAD8u;
}

}  // namespace folio
