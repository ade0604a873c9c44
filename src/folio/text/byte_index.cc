#include "folio/text/byte_index.h"

#include <bit>
#include <cstring>

#include "folio/base/check.h"

namespace folio {
namespace {

template <class T>
uint64_t Load(const char* at) {
  T word;
  std::memcpy(&word, at, sizeof(T));
  return word;
}

uint64_t Mix(uint64_t hash, uint64_t word) {
  hash = (hash ^ word) * 0x9E3779B97F4A7C15u;
  return hash ^ hash >> 29;
}

// Reads overlapping words, never beyond the string.
inline uint64_t Hash(std::string_view bytes) {
  const char* at = bytes.data();
  const size_t n = bytes.size();
  uint64_t hash = n * 0xD6E8FEB86659FD93u;
  if (n >= 8) {
    for (size_t i = 0; i + 8 < n; i += 8) hash = Mix(hash, Load<uint64_t>(at + i));
    hash = Mix(hash, Load<uint64_t>(at + n - 8));
  } else if (n >= 4) {
    hash = Mix(hash, Load<uint32_t>(at) | Load<uint32_t>(at + n - 4) << 32);
  } else if (n >= 2) {
    hash = Mix(hash, Load<uint16_t>(at) | Load<uint16_t>(at + n - 2) << 16);
  } else if (n == 1) {
    hash = Mix(hash, Load<uint8_t>(at));
  }
  hash *= 0xBF58476D1CE4E5B9u;
  return hash ^ hash >> 32;
}

uint32_t TagOf(uint64_t hash) {
  return static_cast<uint32_t>(hash >> 32);
}

}  // namespace

ByteIndex::ByteIndex(const ByteStrings& strings, size_t count) : strings_(strings) {
  FOLIO_CHECK(count <= strings.size() && strings.size() < size_t{1} << 31, "too many strings");
  slots_.resize(std::bit_ceil(2 * count + 1));
  mask_ = slots_.size() - 1;
  for (size_t id = 0; id < count; ++id) {
    const std::string_view bytes = strings[id];
    if (bytes.empty()) continue;
    const uint64_t hash = Hash(bytes);
    size_t at = hash & mask_;
    for (; slots_[at].id != kNone; at = (at + 1) & mask_) {
      if (slots_[at].tag == TagOf(hash) && strings[static_cast<size_t>(slots_[at].id)] == bytes) {
        if (!twins_) twins_ = {slots_[at].id, static_cast<int32_t>(id)};
        break;
      }
    }
    if (slots_[at].id == kNone) slots_[at] = {TagOf(hash), static_cast<int32_t>(id)};
  }
}

int32_t ByteIndex::Find(std::string_view bytes) const {
  const uint64_t hash = Hash(bytes);
  for (size_t at = hash & mask_; slots_[at].id != kNone; at = (at + 1) & mask_) {
    const Slot& slot = slots_[at];
    if (slot.tag == TagOf(hash) && strings_[static_cast<size_t>(slot.id)] == bytes) return slot.id;
  }
  return kNone;
}

}  // namespace folio
