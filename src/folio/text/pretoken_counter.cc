#include "folio/text/pretoken_counter.h"

#include <array>
#include <cstring>
#include <string>

#include "folio/base/check.h"
#include "folio/base/thread_pool.h"
#include "folio/text/pretoken_cache.h"

namespace folio {

// Pretokens with their counts. Those that fit a PretokenKey are stored in their entry.
class PretokenTable {
 public:
  struct ShortEntry {
    PretokenKey key;
    int64_t count = 0;

    uint64_t hash() const { return key.Hash(); }
  };
  struct LongEntry {
    uint64_t hash_bits = 0;
    size_t begin = 0;  // in the arena
    size_t length = 0;
    int64_t count = 0;

    uint64_t hash() const { return hash_bits; }
  };

  explicit PretokenTable(int skip = 0) : short_(skip), long_(skip) {}

  // Counts the pretokens text[0, ends[0]), text[ends[0], ends[1]) ...; bytes between the last end
  // and `readable` are not counted, but may be read. REQUIRES: n <= kBatch.
  static constexpr size_t kBatch = 256;
  void AddBatch(const char* text, const size_t* ends, size_t n, const char* readable) {
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
        AddLong(pretoken, LongPretokenCache::Hash(pretoken), 1);
        continue;
      }
      keys[shorts] = PretokenKey::In(pretoken, readable);
      hashes[shorts] = keys[shorts].Hash();
      short_.Prefetch(hashes[shorts]);
      ++shorts;
    }
    for (size_t i = 0; i < shorts; ++i) AddShort(keys[i], hashes[i], 1);
  }

  // Adds the entries of `other` that hash into `part`. REQUIRES: made with skip kPartBits.
  void AddPart(const PretokenTable& other, uint64_t part) {
    other.short_.ForPart(part, [&](const ShortEntry& entry) {
      short_.Reserve(1);
      AddShort(entry.key, entry.hash(), entry.count);
    });
    other.long_.ForPart(part, [&](const LongEntry& entry) {
      long_.Reserve(1);
      AddLong(other.Bytes(entry), entry.hash(), entry.count);
    });
  }

  int64_t pretokens() const { return pretokens_; }
  size_t distinct() const { return short_.size() + long_.size(); }
  // Calls f(pretoken, count) for each.
  template <class F>
  void ForEach(F&& f) const {
    short_.ForEach([&](const ShortEntry& entry) {
      char bytes[16];
      std::memcpy(bytes, &entry.key.low, 8);
      std::memcpy(bytes + 8, &entry.key.high, 8);
      f(std::string_view(bytes, entry.key.length()), entry.count);
    });
    long_.ForEach([&](const LongEntry& entry) { f(Bytes(entry), entry.count); });
  }

 private:
  void AddShort(const PretokenKey& key, uint64_t hash, int64_t count) {
    ShortEntry& entry =
        short_.Find(hash, [&](const ShortEntry& other) { return other.key == key; });
    if (entry.count == 0) {
      entry.key = key;
      short_.Added();
    }
    entry.count += count;
  }
  void AddLong(std::string_view pretoken, uint64_t hash, int64_t count) {
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
  std::string_view Bytes(const LongEntry& entry) const {
    return std::string_view(arena_).substr(entry.begin, entry.length);
  }

  CountTable<ShortEntry> short_;
  CountTable<LongEntry> long_;
  std::string arena_;  // the long pretokens, one behind the other
  int64_t pretokens_ = 0;
};

namespace {

// The bytes that one task counts, if the text can be divided.
constexpr size_t kTaskBytes = size_t{1} << 20;

void CountPretokens(SplitPattern pattern, std::string_view text, const char* readable,
                    PretokenTable& table) {
  std::array<size_t, PretokenTable::kBatch> ends;
  size_t begin = 0;
  while (const size_t n = SplitPretokens(pattern, text, begin, /*at_end=*/true, ends)) {
    const size_t next = ends[n - 1];
    for (size_t i = 0; i < n; ++i) ends[i] -= begin;
    table.AddBatch(text.data() + begin, ends.data(), n, readable);
    begin = next;
  }
}

}  // namespace

PretokenCounter::PretokenCounter(SplitPattern pattern) : pattern_(pattern) {}
PretokenCounter::~PretokenCounter() = default;

void PretokenCounter::AddText(std::string_view text) {
  std::vector<size_t> cuts = {0};
  while (cuts.back() < text.size()) {
    const size_t at = cuts.back() + kTaskBytes;
    cuts.push_back(at < text.size() ? FindCut(text, at) : text.size());
  }
  while (tables_.size() < static_cast<size_t>(Threads())) {
    tables_.push_back(std::make_unique<PretokenTable>());
  }
  ParallelFor(static_cast<int64_t>(cuts.size()) - 1, [&](int64_t task, int thread) {
    const auto i = static_cast<size_t>(task);
    CountPretokens(pattern_, text.substr(cuts[i], cuts[i + 1] - cuts[i]), text.data() + text.size(),
                   *tables_[static_cast<size_t>(thread)]);
  });
}

int64_t PretokenCounter::pretokens() const {
  int64_t sum = 0;
  for (const auto& table : tables_) sum += table->pretokens();
  return sum;
}

std::vector<CountedPretokens> PretokenCounter::Take() {
  std::vector<CountedPretokens> parts(CountTable<PretokenTable::ShortEntry>::kParts);
  ParallelFor(static_cast<int64_t>(parts.size()), [&](int64_t part, int) {
    PretokenTable sum(CountTable<PretokenTable::ShortEntry>::kPartBits);
    for (const auto& table : tables_) sum.AddPart(*table, static_cast<uint64_t>(part));
    CountedPretokens& out = parts[static_cast<size_t>(part)];
    out.counts.reserve(sum.distinct());
    sum.ForEach([&](std::string_view pretoken, int64_t count) {
      out.pretokens.Add(pretoken);
      out.counts.push_back(count);
    });
  });
  tables_.clear();
  return parts;
}

}  // namespace folio
