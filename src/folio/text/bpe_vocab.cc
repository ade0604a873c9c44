#include "folio/text/bpe_vocab.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <set>
#include <utility>

#include "folio/base/check.h"
#include "folio/base/error.h"
#include "folio/base/thread_pool.h"
#include "folio/base/utf8.h"
#include "folio/text/unicode.h"

namespace folio {
namespace {

constexpr char32_t kFirstOther = 0x100;  // name of the first byte that is not named by itself
constexpr size_t kNames = 0x144;

constexpr bool IsOwnName(int byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

struct NameTables {
  std::array<uint8_t, 256> order = {};
  std::array<char32_t, 256> names = {};
  std::array<int16_t, kNames> bytes = {};  // byte of a name; -1 if it is none
};

constexpr NameTables MakeTables() {
  NameTables tables;
  for (int16_t& byte : tables.bytes) byte = -1;
  size_t id = 0;
  for (int byte = 0; byte < 256; ++byte) {
    if (IsOwnName(byte)) tables.order[id++] = static_cast<uint8_t>(byte);
  }
  char32_t other = kFirstOther;
  for (int byte = 0; byte < 256; ++byte) {
    const bool own = IsOwnName(byte);
    if (!own) tables.order[id++] = static_cast<uint8_t>(byte);
    const char32_t name = own ? static_cast<char32_t>(byte) : other++;
    tables.names[static_cast<size_t>(byte)] = name;
    tables.bytes[name] = static_cast<int16_t>(byte);
  }
  return tables;
}

constexpr NameTables kNameTables = MakeTables();

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

constexpr int32_t kNoToken = ByteIndex::kNone;

[[noreturn]] void RefuseVocab(const std::string& where, const std::string& what,
                              std::string cause) {
  throw InputError(fmt::format("{}: {}", where, what), std::move(cause),
                   "get the files from where the tokenizer was published, or train it again");
}

// The token as written in files.
std::string Shown(const BpeVocab& vocab, int32_t id) {
  return fmt::format("'{}' (id {})", ByteNames(vocab.tokens[static_cast<size_t>(id)]), id);
}

void CheckTokens(const BpeVocab& vocab, const ByteIndex& index, const std::string& where) {
  if (const auto& twins = index.twins()) {
    RefuseVocab(where, "two tokens are the same",
                fmt::format("{} and {}", Shown(vocab, twins->first), Shown(vocab, twins->second)));
  }
  const bool bytes_first = !vocab.partial && vocab.byte_tokens.empty();
  for (int byte = 0; byte < 256 && bytes_first; ++byte) {
    const char c = static_cast<char>(byte);
    if (index.Find({&c, 1}) != kNoToken) continue;
    RefuseVocab(where, "a byte has no token",
                fmt::format("all 256 bytes must have one; 0x{:02X}, written '{}', has none", byte,
                            ByteNames({&c, 1})));
  }
}

// REQUIRES: CheckSpecials.
void CheckAdded(const BpeVocab& vocab, const std::string& where) {
  const auto ids = static_cast<int64_t>(vocab.tokens.size());
  int32_t previous = -1;
  bool right_strip = false, begins_with_space = false;
  for (const AddedToken& token : vocab.added) {
    const std::string shown = fmt::format("the added token '{}' (id {})", token.text, token.id);
    if (token.text.empty() || FindInvalidUtf8(token.text) != std::string::npos) {
      RefuseVocab(where, shown + " is not text", "it is matched as text");
    }
    if (token.id <= previous || token.id >= ids) {
      RefuseVocab(where, shown + " is out of order",
                  "added tokens must be listed by id, each once");
    }
    previous = token.id;
    const auto id = static_cast<size_t>(token.id);
    const SpecialToken* special = FindSpecial(vocab.specials, id);
    if ((special != nullptr) != token.special ||
        (special != nullptr && special->text != token.text) ||
        (token.alone && vocab.tokens[id] != token.text)) {
      RefuseVocab(where, shown + " is not the token with its id", "each id has one token");
    }
    right_strip = right_strip || token.right_strip;
    begins_with_space = begins_with_space || IsSpaceAt(token.text, 0);
  }
  if (right_strip && begins_with_space) {
    RefuseVocab(where, "its added tokens conflict over white space",
                "one begins with white space, and another strips it on its right (\"rstrip\")");
  }
}

void CheckByteTokens(const BpeVocab& vocab, const std::string& where) {
  for (size_t byte = 0; byte < vocab.byte_tokens.size(); ++byte) {
    const int32_t id = vocab.byte_tokens[byte];
    const char c = static_cast<char>(byte);
    if (vocab.byte_tokens.size() == 256 && id >= 0 &&
        static_cast<size_t>(id) < vocab.tokens.size() &&
        vocab.tokens[static_cast<size_t>(id)] == std::string_view(&c, 1)) {
      continue;
    }
    RefuseVocab(where, "a byte has no token", fmt::format("the token <0x{:02X}> is missing", byte));
  }
}

// Returns a flag for each id: true if it is special.
std::vector<bool> CheckSpecials(const BpeVocab& vocab, const ByteIndex& index,
                                const std::string& where) {
  std::vector<bool> special(vocab.tokens.size());
  int32_t previous = -1;
  for (const SpecialToken& token : vocab.specials) {
    const std::string shown = fmt::format("the special token '{}' (id {})", token.text, token.id);
    if (FindInvalidUtf8(token.text) != std::string::npos) {
      RefuseVocab(where,
                  fmt::format("the special token with the id {} is not UTF-8 text", token.id),
                  fmt::format("its bytes are '{}'", ByteNames(token.text)));
    }
    if (token.text.empty())
      RefuseVocab(where, shown + " is empty", "a special token is matched as text");
    if (token.id < 0 || static_cast<size_t>(token.id) >= vocab.tokens.size() ||
        vocab.tokens[static_cast<size_t>(token.id)] != token.text) {
      RefuseVocab(where, shown + " is not the token with its id", "each id has one token");
    }
    if (token.text.size() == 1)
      RefuseVocab(where, shown + " is a single byte", "it must be longer");
    if (token.id <= previous) {
      RefuseVocab(where, shown + " is out of order",
                  fmt::format("special tokens must be listed by id, each once; {} comes before it",
                              previous));
    }
    previous = token.id;
    std::string bytes;
    const int32_t other = AppendNamedBytes(token.text, bytes) ? index.Find(bytes) : kNoToken;
    if (other != kNoToken && other != token.id) {
      RefuseVocab(where, shown + " cannot be distinguished from another token",
                  fmt::format("{} is written the same way in files", Shown(vocab, other)));
    }
    special[static_cast<size_t>(token.id)] = true;
  }
  return special;
}

void CheckMerges(const BpeVocab& vocab, const std::vector<bool>& special,
                 const std::string& where) {
  const size_t ids = vocab.tokens.size();
  const std::vector<bool> not_merged = NotMerged(vocab);
  const auto usable = [&](int32_t id) {
    return id >= 0 && static_cast<size_t>(id) < ids && !special[static_cast<size_t>(id)] &&
           !not_merged[static_cast<size_t>(id)] && !vocab.tokens[static_cast<size_t>(id)].empty();
  };
  // Two merges of one pair have the same result. Few tokens are made by two pairs: compare those.
  std::vector<int32_t> left_of(ids, kNoToken);
  std::set<std::pair<int32_t, int32_t>> further;
  for (size_t rank = 0; rank < vocab.merges.size(); ++rank) {
    const auto [left, right, merged] = vocab.merges[rank];
    for (const int32_t id : {left, right, merged}) {
      if (usable(id)) continue;
      RefuseVocab(
          where, fmt::format("merge {} is not valid", rank + 1),
          fmt::format("{} + {} = {}: id {} is not an ordinary token", left, right, merged, id));
    }
    const std::string_view head = vocab.tokens[static_cast<size_t>(left)];
    const std::string_view tail = vocab.tokens[static_cast<size_t>(right)];
    const std::string_view whole = vocab.tokens[static_cast<size_t>(merged)];
    if (whole.size() != head.size() + tail.size() || !whole.starts_with(head) ||
        !whole.ends_with(tail)) {
      RefuseVocab(where, fmt::format("merge {} is not valid", rank + 1),
                  fmt::format("{} and {} together are not {}", Shown(vocab, left),
                              Shown(vocab, right), Shown(vocab, merged)));
    }
    int32_t& first = left_of[static_cast<size_t>(merged)];
    if (first == kNoToken) {
      first = left;
    } else if (first == left || !further.emplace(left, right).second) {
      RefuseVocab(where, fmt::format("merge {} appears twice", rank + 1),
                  fmt::format("{} and {}", Shown(vocab, left), Shown(vocab, right)));
    }
  }
}

// Merges the bytes of one token after the other.
class RankSimulation {
 public:
  RankSimulation(const ByteStrings& tokens, const ByteIndex& index) : index_(index) {
    for (int a = 0; a < 256; ++a) {
      for (int b = 0; b < 256; ++b) byte_pairs_.push_back(kNoToken);
      const char c = static_cast<char>(a);
      FOLIO_CHECK(index.Find({&c, 1}) != kNoToken, "a byte has no rank");
    }
    for (size_t id = 0; id < tokens.size(); ++id) {
      const std::string_view bytes = tokens[id];
      if (bytes.size() == 2) byte_pairs_[Pair(bytes.data())] = index.Find(bytes);
    }
  }

  struct Scratch {
    std::vector<size_t> begins;  // begin of each symbol, and the end
    std::vector<int32_t> ranks;  // rank of each symbol with the next; kNoToken if they do not merge
  };

  // The last merge that makes `token`; nothing if merging its bytes does not produce it.
  std::optional<BpeMerge> LastMerge(std::string_view token, int32_t id, Scratch& scratch) const {
    std::vector<size_t>& begins = scratch.begins;
    std::vector<int32_t>& ranks = scratch.ranks;
    const size_t n = token.size();
    begins.resize(n + 1);
    ranks.resize(n);
    for (size_t i = 0; i <= n; ++i) begins[i] = i;
    for (size_t i = 0; i + 1 < n; ++i) ranks[i] = byte_pairs_[Pair(token.data() + i)];
    size_t symbols = n;
    while (symbols > 2) {
      size_t best = symbols;
      for (size_t i = 0; i + 1 < symbols; ++i) {
        if (ranks[i] != kNoToken && (best == symbols || ranks[i] < ranks[best])) best = i;
      }
      if (best == symbols) return std::nullopt;
      begins.erase(begins.begin() + static_cast<std::ptrdiff_t>(best) + 1);
      ranks.erase(ranks.begin() + static_cast<std::ptrdiff_t>(best));
      --symbols;
      const auto rank = [&](size_t i) {
        return index_.Find(token.substr(begins[i], begins[i + 2] - begins[i]));
      };
      if (best > 0) ranks[best - 1] = rank(best - 1);
      if (best + 1 < symbols) ranks[best] = rank(best);
    }
    return BpeMerge{index_.Find(token.substr(0, begins[1])), index_.Find(token.substr(begins[1])),
                    id};
  }

 private:
  static size_t Pair(const char* bytes) {
    return size_t{static_cast<uint8_t>(bytes[0])} << 8 | static_cast<uint8_t>(bytes[1]);
  }

  const ByteIndex& index_;
  std::vector<int32_t> byte_pairs_;  // ranks of all tokens of two bytes
};

}  // namespace

const std::array<uint8_t, 256>& Gpt2ByteOrder() {
  return kNameTables.order;
}

void AppendByteNames(std::string_view bytes, std::string& out) {
  for (const char byte : bytes) {
    const char32_t name = kNameTables.names[static_cast<uint8_t>(byte)];
    if (name < 0x80) {
      out += static_cast<char>(name);
    } else {
      AppendUtf8(name, out);
    }
  }
}

std::string ByteNames(std::string_view bytes) {
  std::string names;
  AppendByteNames(bytes, names);
  return names;
}

bool AppendNamedBytes(std::string_view names, std::string& bytes) {
  const size_t before = bytes.size();
  bytes.resize(before + names.size());
  char* out = bytes.data() + before;
  bool good = true;
  for (size_t i = 0; i < names.size() && good;) {
    // Every name is one or two bytes of UTF-8, the first of two being C2 to C5.
    const uint32_t first = static_cast<uint8_t>(names[i++]);
    uint32_t name = first;
    if (first >= 0x80) {
      const uint32_t second = i < names.size() ? static_cast<uint8_t>(names[i++]) : 0;
      good = first >= 0xC2 && first <= 0xC5 && (second & 0xC0) == 0x80;
      name = (first & 0x1F) << 6 | (second & 0x3F);
    }
    good = good && name < kNames && kNameTables.bytes[name] >= 0;
    if (good) *out++ = static_cast<char>(kNameTables.bytes[name]);
  }
  bytes.resize(good ? static_cast<size_t>(out - bytes.data()) : before);
  return good;
}

ByteIndex::ByteIndex(const ByteStrings& strings, size_t count, const std::vector<bool>& left_out)
    : strings_(strings) {
  FOLIO_CHECK(count <= strings.size() && strings.size() < size_t{1} << 31, "too many strings");
  slots_.resize(std::bit_ceil(2 * count + 1));
  mask_ = slots_.size() - 1;
  for (size_t id = 0; id < count; ++id) {
    const std::string_view bytes = strings[id];
    if (bytes.empty() || (!left_out.empty() && left_out[id])) continue;
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

const SpecialToken* FindSpecial(std::span<const SpecialToken> by_id, size_t id) {
  const auto at = std::ranges::lower_bound(by_id, static_cast<int32_t>(id), {}, &SpecialToken::id);
  return at != by_id.end() && static_cast<size_t>(at->id) == id ? &*at : nullptr;
}

const AddedToken* FindAlone(const BpeVocab& vocab, size_t id) {
  const auto at =
      std::ranges::lower_bound(vocab.added, static_cast<int32_t>(id), {}, &AddedToken::id);
  return at != vocab.added.end() && static_cast<size_t>(at->id) == id && at->alone ? &*at : nullptr;
}

std::vector<AddedToken> AllAdded(const BpeVocab& vocab) {
  std::vector<AddedToken> tokens = vocab.added;
  for (const SpecialToken& special : vocab.specials) {
    if (std::ranges::find(vocab.added, special.id, &AddedToken::id) != vocab.added.end()) continue;
    tokens.push_back({.text = special.text, .id = special.id, .special = true});
  }
  return tokens;
}

void CheckBpeVocab(const BpeVocab& vocab, const std::string& where) {
  const size_t ids = std::min(vocab.tokens.size(), static_cast<size_t>(kMaxVocabIds));
  CheckBpeVocab(vocab, ByteIndex(vocab.tokens, ids, NotMerged(vocab)), where);
}

std::vector<bool> NotMerged(const BpeVocab& vocab) {
  std::vector<bool> not_merged(vocab.tokens.size());
  const auto mark = [&](int32_t id) {
    if (id >= 0 && static_cast<size_t>(id) < not_merged.size()) {
      not_merged[static_cast<size_t>(id)] = true;
    }
  };
  for (const AddedToken& token : vocab.added) {
    if (token.alone) mark(token.id);
  }
  for (const int32_t id : vocab.byte_tokens) mark(id);
  return not_merged;
}

void CheckBpeVocab(const BpeVocab& vocab, const ByteIndex& index, const std::string& where) {
  const size_t ids = vocab.tokens.size();
  if (ids > static_cast<size_t>(kMaxVocabIds) ||
      vocab.merges.size() > static_cast<size_t>(kMaxMerges)) {
    RefuseVocab(where, "the vocabulary is too large",
                fmt::format("{} ids and {} merges; the limits are {} and {}", ids,
                            vocab.merges.size(), kMaxVocabIds, kMaxMerges));
  }
  const bool more_symbols = vocab.partial || !vocab.byte_tokens.empty();
  if (more_symbols && (ids > static_cast<size_t>(kMaxVocabIds) / 4 ||
                       vocab.merges.size() > static_cast<size_t>(kMaxMerges) / 2)) {
    RefuseVocab(
        where, "the vocabulary is too large",
        fmt::format("{} ids and {} merges without a token for each byte; the limits are {} and {}",
                    ids, vocab.merges.size(), kMaxVocabIds / 4, kMaxMerges / 2));
  }
  CheckTokens(vocab, index, where);
  if (ids == 0) RefuseVocab(where, "the vocabulary is empty", "it has no tokens");
  if (vocab.unknown >= static_cast<int64_t>(ids)) {
    RefuseVocab(where, "the unknown token does not exist", fmt::format("id {}", vocab.unknown));
  }
  if (vocab.tokens[ids - 1].empty()) {
    RefuseVocab(where, "the last id has no token", fmt::format("id {}", ids - 1));
  }
  const std::vector<bool> special = CheckSpecials(vocab, index, where);
  CheckAdded(vocab, where);
  CheckByteTokens(vocab, where);
  for (const std::vector<int32_t>* ends : {&vocab.before, &vocab.behind}) {
    for (const int32_t id : *ends) {
      if (id >= 0 && static_cast<size_t>(id) < ids) continue;
      RefuseVocab(where, "a token that ends texts does not exist", fmt::format("id {}", id));
    }
  }
  CheckMerges(vocab, special, where);
}

std::vector<BpeMerge> MergesFromRanks(const ByteStrings& tokens, int32_t ranks) {
  const ByteIndex index(tokens, static_cast<size_t>(ranks));
  const RankSimulation simulation(tokens, index);
  constexpr int64_t kGrain = 2048;
  std::vector<std::vector<BpeMerge>> parts(static_cast<size_t>((ranks + kGrain - 1) / kGrain));
  ParallelRange(ranks, kGrain, [&](int64_t begin, int64_t end, int /*thread*/) {
    RankSimulation::Scratch scratch;
    std::vector<BpeMerge>& found = parts[static_cast<size_t>(begin / kGrain)];
    for (int64_t id = begin; id < end; ++id) {
      const std::string_view token = tokens[static_cast<size_t>(id)];
      if (token.size() < 2) continue;
      if (const auto merge = simulation.LastMerge(token, static_cast<int32_t>(id), scratch)) {
        found.push_back(*merge);
      }
    }
  });
  std::vector<BpeMerge> merges;
  for (const auto& part : parts) merges.insert(merges.end(), part.begin(), part.end());
  return merges;
}

}  // namespace folio
