#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

namespace folio {

// From pieces of up to 64 bytes to their ids, for those that have too many bytes or ids for
// PieceCache: indentation, rules of dashes, long names. Each piece has one place, and the last to
// come stays. The caller brings any hash of the bytes.
class LongPieceCache {
 public:
  static constexpr size_t kMaxBytes = 64;

  LongPieceCache();

  // REQUIRES: at least 8 bytes.
  static uint64_t Hash(std::string_view piece);
  // Writes the ids and returns how many; 0 if the piece is not there.
  size_t Find(std::string_view piece, uint64_t hash, int32_t* ids) const;
  void Insert(std::string_view piece, uint64_t hash, std::span<const int32_t> ids);

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

  struct Free {
    void operator()(Place* places) const;
  };
  std::unique_ptr<Place[], Free> places_;
  // A part of the hash of what is in each place: near memory that answers for what is not there.
  std::vector<uint16_t> tags_ = std::vector<uint16_t>(kPlaces);
};

}  // namespace folio
