#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "folio/text/split.h"
#include "folio/text/tokenizer.h"

namespace folio {

// GPT-2's printable names of the 256 bytes, with which vocabulary files write tokens: a byte that
// Latin-1 prints (21-7E, A1-AC, AE-FF) is named by itself, the other 68, in order, by U+0100 to
// U+0143. A space is named Ġ, a line feed Ċ.

// The bytes in the order of GPT-2's ids: the printable ones, then the others.
const std::array<uint8_t, 256>& Gpt2ByteOrder();

// Appends the names of the bytes, in UTF-8.
void AppendByteNames(std::string_view bytes, std::string& out);
std::string ByteNames(std::string_view bytes);

// Appends the bytes for `names`. Returns false, with `bytes` unchanged, if something is not the
// name of a byte.
bool AppendNamedBytes(std::string_view names, std::string& bytes);

class ByteIndex;

inline constexpr int64_t kMaxVocabIds = int64_t{1} << 21;
inline constexpr int64_t kMaxMerges = int64_t{1} << 22;

// Many short byte strings in one allocation.
class ByteStrings {
 public:
  void Add(std::string_view bytes) {
    bytes_.append(bytes);
    ends_.push_back(bytes_.size());
  }
  void Reserve(size_t strings, size_t bytes) {
    ends_.reserve(strings + 1);
    bytes_.reserve(bytes);
  }
  size_t size() const { return ends_.size() - 1; }
  size_t total_bytes() const { return bytes_.size(); }
  std::string_view operator[](size_t i) const {
    return {bytes_.data() + ends_[i], ends_[i + 1] - ends_[i]};
  }

  bool operator==(const ByteStrings&) const = default;

 private:
  std::string bytes_;
  std::vector<size_t> ends_ = {0};
};

// Two neighbouring tokens that become one. Merges are listed by rank: among all pairs in a
// pretoken, the first in the list is merged first, at its leftmost occurrence.
struct BpeMerge {
  int32_t left = 0;
  int32_t right = 0;
  int32_t merged = 0;

  bool operator==(const BpeMerge&) const = default;
};

// Stands for a space in vocabularies that are merged from characters, in files and in texts.
inline constexpr std::string_view kSpaceMark = "\u2581";

// Says which texts get a space in front, so that their first word is encoded like others.
enum class SpacePrefix {
  kNever,
  kEach,              // every text, also after an added token
  kEachUnlessThere,   // the same, except for texts that begin with a space
  kFirstUnlessThere,  // only the beginning of the whole text, which may contain added tokens
};

// A token that is cut out of a text wherever its own text occurs, before the rest is encoded;
// Hugging Face's libraries call it an added token.
struct AddedToken {
  std::string text;
  int32_t id = 0;
  bool special = false;      // only where a SpecialRule allows it
  bool left_strip = false;   // includes the white space before it
  bool right_strip = false;  // includes the white space behind it
  bool single_word = false;  // only if no word continues beside it
  // Its normalized text is searched for in the normalized text; else its own text in the original
  // text, which is cut first.
  bool normalized = false;
  // It takes no part in merging; a merged token may have the same bytes.
  bool alone = false;

  bool operator==(const AddedToken&) const = default;
};

// The complete definition of a BPE as plain data, which loaders fill and writers write.
struct BpeVocab {
  std::string name = {};  // name of a published encoding, "gpt2"; empty for others
  SplitPattern pattern = SplitPattern::kGpt2;
  // The bytes of each id; empty for unused ids. Includes special and added tokens.
  ByteStrings tokens = {};
  std::vector<BpeMerge> merges = {};
  // Special tokens by id: no merge makes them; matched as text, longest first, where allowed.
  std::vector<SpecialToken> specials = {};
  // A pretoken that equals a token becomes that token, even if merges would not make it.
  bool whole_pretokens = false;
  // Not all bytes are tokens, as when a vocabulary was trained from text alone. A byte without a
  // token is dropped, or becomes the token `unknown` if that is not -1; with `fuse_unknown` several
  // in a row become one.
  bool partial = false;
  int32_t unknown = -1;
  bool fuse_unknown = false;
  // Empty for a byte-level BPE. Else the ids of the tokens <0x00> to <0xFF>: merging begins with
  // characters, as in SentencePiece, and a character without a token becomes the tokens of its
  // bytes. These tokens may have the same bytes as others.
  std::vector<int32_t> byte_tokens = {};
  // Merges that make the same token are adjacent and have the same rank.
  bool ranked_by_token = false;

  // Texts are normalized to Unicode's composed form (nfc.h).
  bool nfc = false;
  // Only with byte_tokens, where U+2581 stands for a space in texts and in files.
  SpacePrefix space_prefix = SpacePrefix::kNever;
  bool strips_space = false;  // decoding takes one space from the beginning of a text
  // By id: tokens that are not special, and special tokens that do more than match their text.
  std::vector<AddedToken> added = {};
  // Ids before and behind a text that is given to the model as a whole.
  std::vector<int32_t> before = {};
  std::vector<int32_t> behind = {};

  bool operator==(const BpeVocab&) const = default;
};

// The special token with this id, or null.
const SpecialToken* FindSpecial(std::span<const SpecialToken> by_id, size_t id);
// The added token with this id that is alone, or null.
const AddedToken* FindAlone(const BpeVocab& vocab, size_t id);
// The added tokens, and behind them those special tokens that are not among them.
std::vector<AddedToken> AllAdded(const BpeVocab& vocab);

// Returns a flag for each id that takes no part in merging, and may have the bytes of another:
// added tokens that are alone, and byte_tokens. Ids that do not exist are ignored.
std::vector<bool> NotMerged(const BpeVocab& vocab);

// Throws a kInput Error that begins with `where` unless: all 256 single bytes are tokens (or
// `partial`), none of them special; no two tokens have the same bytes; every merge names tokens
// that are not special, and their joined bytes are those of the merged token; no pair is merged
// twice; specials are sorted by id, are the UTF-8 text that `tokens` has for their ids, and differ
// from the names that files would write for other tokens (ByteNames); and there are at most
// kMaxVocabIds ids, the last of them used, and kMaxMerges merges, including symbols that are no
// tokens.
void CheckBpeVocab(const BpeVocab& vocab, const std::string& where);
// The same with an existing index of all tokens except those of NotMerged.
void CheckBpeVocab(const BpeVocab& vocab, const ByteIndex& index, const std::string& where);

// The merges of a vocabulary that is defined by ranks alone (tiktoken's files): two neighbours
// become one if their joined bytes are a token, the lowest id first, the leftmost first. These
// rules reduce a token's bytes to one last pair or to none, and its context has no influence until
// a merge crosses its borders; so this pair is the only one that ever makes the token. Returned by
// merged id; without tokens that can only be a whole pretoken. Ids below `ranks` are tokens or
// empty. REQUIRES: all 256 bytes are among them. The time for one token grows with the square of
// its length.
std::vector<BpeMerge> MergesFromRanks(const ByteStrings& tokens, int32_t ranks);

// Finds byte strings by their contents: the first `count` of `strings`, which must outlive it
// unchanged. Empty ones are left out.
class ByteIndex {
 public:
  static constexpr int32_t kNone = -1;

  // Strings marked in `left_out`, if it is not empty, are left out too. REQUIRES: count <=
  // strings.size() < 2^31.
  ByteIndex(const ByteStrings& strings, size_t count, const std::vector<bool>& left_out = {});

  // The index of the string, the first of two equal ones; kNone if it is missing.
  int32_t Find(std::string_view bytes) const;

  // Two equal strings, if there are any.
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
  std::vector<Slot> slots_;  // their number is a power of two, at least half of them free
  uint64_t mask_;
  std::optional<Twins> twins_;
};

}  // namespace folio
