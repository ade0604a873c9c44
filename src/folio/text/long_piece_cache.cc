#include "folio/text/long_piece_cache.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>

namespace folio {

void LongPieceCache::Free::operator()(Place* places) const {
  std::free(places);
}

LongPieceCache::LongPieceCache()
    : places_(static_cast<Place*>(std::calloc(kPlaces, sizeof(Place)))) {
  if (!places_) throw std::bad_alloc();
}

uint64_t LongPieceCache::Hash(std::string_view piece) {
  uint64_t hash = piece.size();
  const auto mix = [&](const char* bytes) {
    uint64_t word;
    std::memcpy(&word, bytes, sizeof(word));
    const auto product = static_cast<unsigned __int128>(hash ^ word) * 0x9E3779B97F4A7C15;
    hash = static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
  };
  if (piece.size() > kMaxBytes) return 0;
  for (size_t i = 0; i + 8 <= piece.size(); i += 8) mix(piece.data() + i);
  mix(piece.data() + piece.size() - 8);
  return hash;
}

size_t LongPieceCache::Find(std::string_view piece, uint64_t hash, int32_t* ids) const {
  if (tags_[hash % kPlaces] != static_cast<uint16_t>(hash >> 48)) return 0;
  const Place& place = places_[hash % kPlaces];
  if (place.length != piece.size() || std::memcmp(place.bytes, piece.data(), piece.size()) != 0) {
    return 0;
  }
  std::copy_n(place.ids, place.count, ids);
  return place.count;
}

void LongPieceCache::Insert(std::string_view piece, uint64_t hash, std::span<const int32_t> ids) {
  if (piece.size() > kMaxBytes || ids.size() > kMaxIds) return;
  tags_[hash % kPlaces] = static_cast<uint16_t>(hash >> 48);
  Place& place = places_[hash % kPlaces];
  place.length = static_cast<uint32_t>(piece.size());
  place.count = static_cast<uint32_t>(ids.size());
  std::copy(piece.begin(), piece.end(), place.bytes);
  std::copy(ids.begin(), ids.end(), place.ids);
}

}  // namespace folio
