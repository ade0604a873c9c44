#include "folio/text/piece_table.h"

#include <array>

#include "folio/base/check.h"

namespace folio {
namespace {

// Both halves of the product put together: every bit of both goes into the first bits.
uint64_t MixBits(uint64_t a, uint64_t b) {
  const __uint128_t product =
      static_cast<__uint128_t>(a ^ 0x9e3779b97f4a7c15u) * (b ^ 0xc2b2ae3d27d4eb4fu);
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
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

void PieceTable::AddShort(const PieceKey& key, uint64_t hash, int64_t count) {
  ShortEntry& entry = short_.Find(hash, [&](const ShortEntry& other) { return other.key == key; });
  if (entry.count == 0) {
    entry.key = key;
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
  std::array<PieceKey, kBatch> keys;
  std::array<uint64_t, kBatch> hashes;
  size_t shorts = 0;
  size_t begin = 0;
  pieces_ += static_cast<int64_t>(n);
  short_.Reserve(n);
  long_.Reserve(n);
  for (size_t i = 0; i < n; ++i) {
    const std::string_view piece(text + begin, ends[i] - begin);
    begin = ends[i];
    if (piece.size() > PieceKey::kMaxBytes) {
      AddLong(piece, HashLong(piece), 1);
      continue;
    }
    keys[shorts] = PieceKey::In(piece, readable);
    hashes[shorts] = keys[shorts].Hash();
    short_.Prefetch(hashes[shorts]);
    ++shorts;
  }
  for (size_t i = 0; i < shorts; ++i) AddShort(keys[i], hashes[i], 1);
}

void PieceTable::AddPart(const PieceTable& other, uint64_t part) {
  other.short_.ForPart(part, [&](const ShortEntry& entry) {
    short_.Reserve(1);
    AddShort(entry.key, entry.hash(), entry.count);
  });
  other.long_.ForPart(part, [&](const LongEntry& entry) {
    long_.Reserve(1);
    AddLong(other.Bytes(entry), entry.hash(), entry.count);
  });
}

}  // namespace folio
