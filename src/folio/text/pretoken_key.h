#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace folio {

static_assert(std::endian::native == std::endian::little, "the last byte is bits 56 to 63");

// A pretoken of text of 1 to 15 bytes as a number: the bytes, zeros, and the length in the last
// byte.
struct PretokenKey {
  static constexpr size_t kMaxBytes = 15;

  uint64_t low = 0;
  uint64_t high = 0;

  // Makes the key from 16 readable bytes, of which the pretoken is the first `length`.
  static PretokenKey Load(const char* bytes, size_t length) {
    PretokenKey key;
    std::memcpy(&key.low, bytes, 8);
    std::memcpy(&key.high, bytes + 8, 8);
    key.low &= kKeepLow[length];
    key.high = (key.high & kKeepHigh[length]) | uint64_t{length} << 56;
    return key;
  }
  // Makes the key of a pretoken behind which nothing may be read.
  static PretokenKey Of(std::string_view pretoken) {
    char bytes[16] = {};
    std::memcpy(bytes, pretoken.data(), pretoken.size());
    return Load(bytes, pretoken.size());
  }
  // Makes the key of a pretoken in a text that ends at `end`.
  static PretokenKey In(std::string_view pretoken, const char* end) {
    return end - pretoken.data() >= 16 ? Load(pretoken.data(), pretoken.size()) : Of(pretoken);
  }
  size_t length() const { return static_cast<size_t>(high >> 56); }
  // One comparison, not two: which half differs cannot be foretold.
  bool operator==(const PretokenKey& other) const {
    return ((low ^ other.low) | (high ^ other.high)) == 0;
  }
  uint64_t Hash() const {
    const auto product =
        static_cast<unsigned __int128>(low ^ 0x9E3779B97F4A7C15) * (high ^ 0xD6E8FEB86659FD93);
    return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
  }

 private:
  // Masks of the first n bytes.
  static constexpr std::array<uint64_t, 16> Keep(size_t from) {
    std::array<uint64_t, 16> masks = {};
    for (size_t n = 0; n < 16; ++n) {
      for (size_t i = from; i < n && i < from + 8; ++i) masks[n] |= uint64_t{255} << 8 * (i - from);
    }
    return masks;
  }
  static const std::array<uint64_t, 16> kKeepLow;
  static const std::array<uint64_t, 16> kKeepHigh;
};
inline constexpr std::array<uint64_t, 16> PretokenKey::kKeepLow = PretokenKey::Keep(0);
inline constexpr std::array<uint64_t, 16> PretokenKey::kKeepHigh = PretokenKey::Keep(8);

}  // namespace folio
