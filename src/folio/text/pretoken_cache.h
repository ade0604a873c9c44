#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

namespace folio {

static_assert(std::endian::native == std::endian::little, "the last byte is bits 56 to 63");

// A pretoken of 1 to 15 bytes as a number: the bytes, zeros, and the length in the last byte.
struct PretokenKey {
  static constexpr size_t kMaxBytes = 15;

  uint64_t low = 0;
  uint64_t high = 0;

  // Makes the key from 16 readable bytes, the first `length` of which are the pretoken.
  static PretokenKey Load(const char* bytes, size_t length) {
    PretokenKey key;
    std::memcpy(&key.low, bytes, 8);
    std::memcpy(&key.high, bytes + 8, 8);
    key.low &= kKeepLow[length];
    key.high = (key.high & kKeepHigh[length]) | uint64_t{length} << 56;
    return key;
  }
  // Makes the key of a pretoken whose following bytes may not be read.
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
  // One comparison instead of two: branches on each half would be mispredicted.
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

// Frees memory of malloc and related functions.
struct FreeMemory {
  void operator()(void* memory) const { std::free(memory); }
};

// A cache from short pretokens to their ids, of bounded size: a pretoken has four places, and a new
// one replaces another if all are in use. Missing pretokens are encoded again, so the contents
// affect speed alone. Ids are stored as four 32-bit numbers or, if all ids of a vocabulary are
// below 2^16, as eight 16-bit ones; pretokens with more ids are not stored.
class PretokenCache {
 public:
  static constexpr size_t kNarrow = 8;
  static constexpr size_t kWide = 4;

  struct Entry {
    uint64_t low;   // PretokenKey::low
    uint64_t high;  // PretokenKey::high, with the number of ids in the uppermost four bits
    alignas(16) unsigned char ids[16];

    // One comparison instead of two: branches on each half would be mispredicted.
    bool Is(const PretokenKey& key) const {
      return ((low ^ key.low) | ((high & kKeyBits) ^ key.high)) == 0;
    }
    size_t count() const { return static_cast<size_t>(high >> 60); }
  };
  struct alignas(64) Line {
    Entry entries[2];
  };

  // `lines` is a power of two, at least 2. Memory is allocated lazily.
  PretokenCache(size_t lines, bool narrow);

  size_t lines() const { return mask_ + 1; }
  size_t filled() const { return filled_; }  // places in use, two in each line
  const Line* line(uint64_t hash) const { return &lines_[hash & mask_]; }
  // The line to look in if line(hash) does not have it.
  const Line* other_line(uint64_t hash) const { return &lines_[(hash & mask_) ^ 1]; }

  // nullptr if it is not there.
  const Entry* Find(const PretokenKey& key, uint64_t hash) const {
    for (const Line* at : {line(hash), other_line(hash)}) {
      for (const Entry& entry : at->entries) {
        if (entry.Is(key)) return &entry;
        if (entry.high == 0) return nullptr;  // places are filled in this order
      }
    }
    return nullptr;
  }
  // Does nothing if there are no ids or too many.
  void Insert(const PretokenKey& key, uint64_t hash, std::span<const int32_t> ids);
  // Inserts all of another of the same width.
  void InsertAll(const PretokenCache& other);
  // The most ids that a pretoken may have here.
  size_t room() const { return narrow_ ? kNarrow : kWide; }
  // Writes room() ids, and returns how many of them belong to the entry.
  size_t Copy(const Entry& entry, int32_t* out) const;

 private:
  static constexpr uint64_t kKeyBits = ~(uint64_t{15} << 60);

  std::unique_ptr<Line[], FreeMemory> lines_;
  size_t mask_;
  size_t filled_ = 0;
  bool narrow_;
};

// A cache from pretokens of up to 64 bytes to their ids, for those with too many bytes or ids for
// PretokenCache: indentation, rules of dashes, long names. Each pretoken has one place, which the
// latest takes. Callers may use any hash of the bytes.
class LongPretokenCache {
 public:
  static constexpr size_t kMaxBytes = 64;

  LongPretokenCache();

  // REQUIRES: at least 8 bytes.
  static uint64_t Hash(std::string_view pretoken);
  // Writes the ids and returns how many; 0 if the pretoken is not there.
  size_t Find(std::string_view pretoken, uint64_t hash, int32_t* ids) const;
  void Insert(std::string_view pretoken, uint64_t hash, std::span<const int32_t> ids);

 private:
  static constexpr size_t kPlaces = size_t{1} << 15;
  static constexpr size_t kMaxIds = 46;

  struct Place {
    uint32_t length;
    uint32_t count;
    char bytes[kMaxBytes];
    int32_t ids[kMaxIds];
  };
  static_assert(sizeof(Place) == 256);

  std::unique_ptr<Place[], FreeMemory> places_;
  // A part of the hash of each place's pretoken: small memory that rules out missing ones.
  std::vector<uint16_t> tags_ = std::vector<uint16_t>(kPlaces);
};

}  // namespace folio
