#include "folio/text/pretoken_table.h"

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

uint64_t HashLong(std::string_view pretoken) {
  uint64_t hash = pretoken.size();
  uint64_t a = 0;
  uint64_t b = 0;
  for (; pretoken.size() > 16; pretoken.remove_prefix(16)) {
    std::memcpy(&a, pretoken.data(), 8);
    std::memcpy(&b, pretoken.data() + 8, 8);
    hash = MixBits(hash ^ a, b);
  }
  a = b = 0;
  std::memcpy(&a, pretoken.data(), std::min<size_t>(8, pretoken.size()));
  if (pretoken.size() > 8) std::memcpy(&b, pretoken.data() + 8, pretoken.size() - 8);
  return MixBits(MixBits(hash ^ a, b), hash);
}

}  // namespace

void PretokenTable::AddShort(const PretokenKey& key, uint64_t hash, int64_t count) {
  ShortEntry& entry = short_.Find(hash, [&](const ShortEntry& other) { return other.key == key; });
  if (entry.count == 0) {
    entry.key = key;
    short_.Added();
  }
  entry.count += count;
}

void PretokenTable::AddLong(std::string_view pretoken, uint64_t hash, int64_t count) {
  LongEntry& entry = long_.Find(hash, [&](const LongEntry& other) {
    return other.hash_bits == hash && Bytes(other) == pretoken;
  });
  if (entry.count == 0) {
    entry = {hash, arena_.size(), pretoken.size(), 0};
    arena_.append(pretoken);
    long_.Added();
  }
  entry.count += count;
}

void PretokenTable::AddBatch(const char* text, const size_t* ends, size_t n, const char* readable) {
  FOLIO_CHECK(n <= kBatch, "at most kBatch pieces at once");
  std::array<PretokenKey, kBatch> keys;
  std::array<uint64_t, kBatch> hashes;
  size_t shorts = 0;
  size_t begin = 0;
  pretokens_ += static_cast<int64_t>(n);
  short_.Reserve(n);
  long_.Reserve(n);
  for (size_t i = 0; i < n; ++i) {
    const std::string_view pretoken(text + begin, ends[i] - begin);
    begin = ends[i];
    if (pretoken.size() > PretokenKey::kMaxBytes) {
      AddLong(pretoken, HashLong(pretoken), 1);
      continue;
    }
    keys[shorts] = PretokenKey::In(pretoken, readable);
    hashes[shorts] = keys[shorts].Hash();
    short_.Prefetch(hashes[shorts]);
    ++shorts;
  }
  for (size_t i = 0; i < shorts; ++i) AddShort(keys[i], hashes[i], 1);
}

void PretokenTable::AddPart(const PretokenTable& other, uint64_t part) {
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
