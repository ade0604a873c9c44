#include "folio/text/piece_table.h"

#include <array>
#include <bit>

#include "folio/base/check.h"

namespace folio {
namespace {

static_assert(std::endian::native == std::endian::little, "ShortEntry keeps byte 15 in bits 56-63");

// The entry of a short piece, count 0. Up to 16 bytes are read where they lie before `readable`.
PieceTable::ShortEntry ShortKey(const char* piece, size_t length, const char* readable) {
  uint64_t words[2] = {0, 0};
  if (readable - piece >= 16) {
    std::memcpy(words, piece, 16);
    const uint64_t all = ~uint64_t{0};
    if (length < 8) {
      words[0] &= ~(all << (8 * length));
      words[1] = 0;
    } else {
      words[1] &= ~(all << (8 * (length - 8)));
    }
  } else {
    std::memcpy(words, piece, length);
  }
  return {words[0], words[1] | static_cast<uint64_t>(length) << 56, 0};
}

uint64_t HashLong(std::string_view piece) {
  uint64_t hash = piece.size();
  uint64_t a = 0;
  uint64_t b = 0;
  for (; piece.size() > 16; piece.remove_prefix(16)) {
    std::memcpy(&a, piece.data(), 8);
    std::memcpy(&b, piece.data() + 8, 8);
    hash = MixBits(hash ^ a, b);
  }
  a = b = 0;
  std::memcpy(&a, piece.data(), std::min<size_t>(8, piece.size()));
  if (piece.size() > 8) std::memcpy(&b, piece.data() + 8, piece.size() - 8);
  return MixBits(MixBits(hash ^ a, b), hash);
}

}  // namespace

void PieceTable::AddShort(const ShortEntry& key, uint64_t hash, int64_t count) {
  ShortEntry& entry = short_.Find(hash, [&](const ShortEntry& other) {
    return ((other.low ^ key.low) | (other.high ^ key.high)) == 0;
  });
  if (entry.count == 0) {
    entry = key;
    short_.Added();
  }
  entry.count += count;
}

void PieceTable::AddLong(std::string_view piece, uint64_t hash, int64_t count) {
  LongEntry& entry = long_.Find(hash, [&](const LongEntry& other) {
    return other.hash_bits == hash && Bytes(other) == piece;
  });
  if (entry.count == 0) {
    entry = {hash, arena_.size(), piece.size(), 0};
    arena_.append(piece);
    long_.Added();
  }
  entry.count += count;
}

void PieceTable::AddBatch(const char* text, const size_t* ends, size_t n, const char* readable) {
  FOLIO_CHECK(n <= kBatch, "at most kBatch pieces at once");
  std::array<ShortEntry, kBatch> keys;
  std::array<uint64_t, kBatch> hashes;
  size_t shorts = 0;
  size_t begin = 0;
  pieces_ += static_cast<int64_t>(n);
  short_.Reserve(n);
  long_.Reserve(n);
  for (size_t i = 0; i < n; ++i) {
    const size_t length = ends[i] - begin;
    const char* piece = text + begin;
    begin = ends[i];
    if (length > kShort) {
      const std::string_view bytes(piece, length);
      AddLong(bytes, HashLong(bytes), 1);
      continue;
    }
    keys[shorts] = ShortKey(piece, length, readable);
    hashes[shorts] = keys[shorts].hash();
    short_.Prefetch(hashes[shorts]);
    ++shorts;
  }
  for (size_t i = 0; i < shorts; ++i) AddShort(keys[i], hashes[i], 1);
}

void PieceTable::AddPart(const PieceTable& other, uint64_t part) {
  other.short_.ForPart(part, [&](const ShortEntry& entry) {
    short_.Reserve(1);
    AddShort({entry.low, entry.high, 0}, entry.hash(), entry.count);
  });
  other.long_.ForPart(part, [&](const LongEntry& entry) {
    long_.Reserve(1);
    AddLong(other.Bytes(entry), entry.hash(), entry.count);
  });
}

}  // namespace folio
