#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "folio/text/bpe_vocab.h"

namespace folio {

// Finds byte strings by their contents: the first `count` of `strings`, which must outlive it and
// stay as they are. Empty ones are left out.
class ByteIndex {
 public:
  static constexpr int32_t kNone = -1;

  // REQUIRES: count <= strings.size() < 2^31.
  ByteIndex(const ByteStrings& strings, size_t count);

  // The number of the string, the first if it is there twice; kNone if it is not there.
  int32_t Find(std::string_view bytes) const;

  // Two strings that are the same, if any are.
  struct Twins {
    int32_t first = 0;
    int32_t second = 0;
  };
  const std::optional<Twins>& twins() const { return twins_; }

 private:
  struct Slot {
    uint32_t tag = 0;  // more bits of the hash
    int32_t id = kNone;
  };

  const ByteStrings& strings_;
  std::vector<Slot> slots_;  // a power of two of them, at least half of them free
  uint64_t mask_;
  std::optional<Twins> twins_;
};

}  // namespace folio
