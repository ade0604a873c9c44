#include "folio/tensor/blocks.h"

#include <array>
#include <cstring>

#include "folio/tensor/half.h"
#include "folio/tensor/quantise.h"

namespace folio {
namespace {

constexpr size_t kPart = BlockPart::kNumbers, kHalfPart = kPart / 2;

float HalfAt(const std::byte* at) {
  uint16_t bits = 0;
  std::memcpy(&bits, at, sizeof bits);
  return HalfToFloat(bits);
}

int ByteAt(const std::byte* at) {
  return std::to_integer<int>(*at);
}

void SetScales(BlockPart& out, float scale, float least = 0) {
  out.scale[0] = out.scale[1] = scale;
  out.least[0] = out.least[1] = least;
}

// Integers of four bits, less `offset`: the lower halves of 16 bytes, then the upper ones.
void UnpackHalves(const std::byte* pairs, int offset, BlockPart& out) {
  for (size_t i = 0; i < kHalfPart; ++i) {
    out.q[i] = static_cast<int8_t>((ByteAt(pairs + i) & 15) - offset);
    out.q[i + kHalfPart] = static_cast<int8_t>((ByteAt(pairs + i) >> 4) - offset);
  }
}

// Adds a fifth bit to each, which is one of a 32-bit integer.
void AddFifthBits(const std::byte* bits, BlockPart& out) {
  for (size_t i = 0; i < kPart; ++i) {
    out.q[i] = static_cast<int8_t>(out.q[i] + (ByteAt(bits + i / 8) >> i % 8 & 1) * 16);
  }
}

// ---- Blocks of 32 ------------------------------------------------------------------------------

void UnpackQ80(const std::byte* block, size_t, BlockPart& out) {
  SetScales(out, HalfAt(block));
  std::memcpy(out.q, block + 2, kPart);
}

void UnpackQ40(const std::byte* block, size_t, BlockPart& out) {
  SetScales(out, HalfAt(block));
  UnpackHalves(block + 2, 8, out);
}

void UnpackQ41(const std::byte* block, size_t, BlockPart& out) {
  SetScales(out, HalfAt(block), HalfAt(block + 2));
  UnpackHalves(block + 4, 0, out);
}

void UnpackQ50(const std::byte* block, size_t, BlockPart& out) {
  SetScales(out, HalfAt(block));
  UnpackHalves(block + 6, 16, out);
  AddFifthBits(block + 2, out);
}

void UnpackQ51(const std::byte* block, size_t, BlockPart& out) {
  SetScales(out, HalfAt(block), HalfAt(block + 2));
  UnpackHalves(block + 8, 0, out);
  AddFifthBits(block + 4, out);
}

// The values of the sixteen codes.
constexpr std::array<int8_t, 16> kUneven = {-127, -104, -83, -65, -49, -35, -22, -10,
                                            1,    13,   25,  38,  53,  69,  89,  113};

void UnpackIq4Nl(const std::byte* block, size_t, BlockPart& out) {
  SetScales(out, HalfAt(block));
  UnpackHalves(block + 2, 0, out);
  for (int8_t& q : out.q) q = kUneven[static_cast<size_t>(q)];
}

// ---- Blocks of 256 -----------------------------------------------------------------------------
// The integers of parts that share bytes are extracted by shifts: two bits of each byte belong to
// parts 0 to 3 or, 32 bytes later, 4 to 7; half a byte each to two neighbouring parts.

// 16 bytes with scale and minimum of four bits each for 16 numbers; 64 bytes of two-bit integers.
void UnpackQ2K(const std::byte* block, size_t part, BlockPart& out) {
  const std::byte* integers = block + 16 + part / 4 * kPart;
  for (size_t i = 0; i < kPart; ++i) {
    out.q[i] = static_cast<int8_t>(ByteAt(integers + i) >> part % 4 * 2 & 3);
  }
  for (size_t i = 0; i < 2; ++i) {
    const int both = ByteAt(block + 2 * part + i);
    out.scale[i] = HalfAt(block + 80) * static_cast<float>(both & 15);
    out.least[i] = -(HalfAt(block + 82) * static_cast<float>(both >> 4));
  }
}

// 32 bytes of third bits, one for each part in every byte: where the bit is 0, 4 is subtracted; 64
// bytes of two-bit integers; 12 bytes of six-bit scales plus 32: the lower four bits of scales 0 to
// 7 and, in the upper halves, 8 to 15, then two upper bits of each.
void UnpackQ3K(const std::byte* block, size_t part, BlockPart& out) {
  const std::byte* integers = block + 32 + part / 4 * kPart;
  for (size_t i = 0; i < kPart; ++i) {
    const int third = ByteAt(block + i) >> part & 1;
    out.q[i] = static_cast<int8_t>((ByteAt(integers + i) >> part % 4 * 2 & 3) - 4 + 4 * third);
  }
  for (size_t i = 0; i < 2; ++i) {
    const size_t at = 2 * part + i;
    const int low = ByteAt(block + 96 + at % 8) >> (at < 8 ? 0 : 4) & 15;
    const int high = ByteAt(block + 104 + at % 4) >> at / 4 * 2 & 3;
    out.scale[i] = HalfAt(block + 108) * static_cast<float>((low | high << 4) - 32);
    out.least[i] = 0;
  }
}

// Scale and minimum of parts 0 to 7, six bits each, in 12 bytes: parts 0 to 3 have the lower six
// bits of bytes 0 to 3 and 4 to 7, whose upper two bits are the upper ones of parts 4 to 7; the
// lower four bits of these are both in bytes 8 to 11.
void SetSixBitScales(const std::byte* block, size_t part, BlockPart& out) {
  const std::byte* bytes = block + 4;
  int scale = ByteAt(bytes + part % 4), least = ByteAt(bytes + part % 4 + 4);
  if (part < 4) {
    scale &= 63, least &= 63;
  } else {
    const int low = ByteAt(bytes + part % 4 + 8);
    scale = (low & 15) | scale >> 6 << 4, least = low >> 4 | least >> 6 << 4;
  }
  SetScales(out, HalfAt(block) * static_cast<float>(scale),
            -(HalfAt(block + 2) * static_cast<float>(least)));
}

void UnpackNibblePart(const std::byte* integers, size_t part, BlockPart& out) {
  integers += part / 2 * kPart;
  for (size_t i = 0; i < kPart; ++i) {
    out.q[i] = static_cast<int8_t>(ByteAt(integers + i) >> part % 2 * 4 & 15);
  }
}

void UnpackQ4K(const std::byte* block, size_t part, BlockPart& out) {
  SetSixBitScales(block, part, out);
  UnpackNibblePart(block + 16, part, out);
}

// 32 bytes of fifth bits, one for each part in every byte, come before the four-bit integers.
void UnpackQ5K(const std::byte* block, size_t part, BlockPart& out) {
  SetSixBitScales(block, part, out);
  UnpackNibblePart(block + 48, part, out);
  for (size_t i = 0; i < kPart; ++i) {
    out.q[i] = static_cast<int8_t>(out.q[i] + (ByteAt(block + 16 + i) >> part & 1) * 16);
  }
}

// 128 bytes with the lower four bits, 64 with the upper two; 16 scales of eight bits.
void UnpackQ6K(const std::byte* block, size_t part, BlockPart& out) {
  const std::byte* low = block + part / 4 * 64 + part % 2 * kPart;
  const std::byte* high = block + 128 + part / 4 * kPart;
  for (size_t i = 0; i < kPart; ++i) {
    const int lower = ByteAt(low + i) >> part % 4 / 2 * 4 & 15;
    const int upper = ByteAt(high + i) >> part % 4 * 2 & 3;
    out.q[i] = static_cast<int8_t>((lower | upper << 4) - 32);
  }
  for (size_t i = 0; i < 2; ++i) {
    const auto scale = static_cast<int8_t>(block[192 + 2 * part + i]);
    out.scale[i] = HalfAt(block + 208) * static_cast<float>(scale);
    out.least[i] = 0;
  }
}

}  // namespace

const BlockLayout kQ80 = {0, 1, false, UnpackQ80, EncodeQ80};
const BlockLayout kQ40 = {0, 1, false, UnpackQ40, EncodeQ40};
const BlockLayout kQ41 = {0, 2, true, UnpackQ41, EncodeQ41};
const BlockLayout kQ50 = {0, 1, false, UnpackQ50, EncodeQ50};
const BlockLayout kQ51 = {0, 2, true, UnpackQ51, EncodeQ51};
const BlockLayout kQ2K = {80, 2, true, UnpackQ2K};
const BlockLayout kQ3K = {108, 1, false, UnpackQ3K};
const BlockLayout kQ4K = {0, 2, true, UnpackQ4K, EncodeQ4K};
const BlockLayout kQ5K = {0, 2, true, UnpackQ5K, EncodeQ5K};
const BlockLayout kQ6K = {208, 1, false, UnpackQ6K, EncodeQ6K};
const BlockLayout kIq4Nl = {0, 1, false, UnpackIq4Nl};

}  // namespace folio
