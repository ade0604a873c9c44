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

// GPT-2's printable names of the 256 bytes, under which vocabulary files write tokens: a byte that
// Latin-1 prints (21-7E, A1-AC, AE-FF) is named by itself, the other 68, in order, by U+0100 to
// U+0143. A space is named Ġ, a line feed Ċ.

// The bytes in the order of GPT-2's ids: of first its printable ones, then the others.
const std::array<uint8_t, 256>& Gpt2ByteOrder();

// Appends the names of the bytes, in UTF-8.
void AppendByteNames(std::string_view bytes, std::string& out);
std::string ByteNames(std::string_view bytes);

// Appends the bytes that `names` names. False, with `bytes` as it was, where something is not the
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

// Two neighbouring tokens that become one. Merges are listed by rank: of all pairs in a pretoken,
// the first in the list is merged first, the leftmost where it occurs more than once.
struct BpeMerge {
  int32_t left = 0;
  int32_t right = 0;
  int32_t merged = 0;

  bool operator==(const BpeMerge&) const = default;
};

// In the files of vocabularies that are merged of characters, and in texts for them, this stands
// for a space.
inline constexpr std::string_view kSpaceMark = "\u2581";

// The rule of which texts get a space put before them, so that their first word is as others are.
enum class SpacePrefix {
  kNever,
  kEach,              // every text, and what is behind an added token
  kEachUnlessThere,   // the same, but for what begins with a space
  kFirstUnlessThere,  // of a text with added tokens only the beginning
};

// A token that is cut out of a text where the text has its own, before the rest is encoded: what
// Hugging Face's libraries call an added token.
struct AddedToken {
  std::string text;
  int32_t id = 0;
  bool special = false;      // only where a SpecialRule allows it
  bool left_strip = false;   // with the white space before it
  bool right_strip = false;  // with the white space behind it
  bool single_word = false;  // only where no word goes on beside it
  // It is looked for in what the tokenizer made of the text before merging, by what it makes of the
  // token's own text; else in the text as it is, which is cut first.
  bool normalized = false;
  // It is not of the tokens that are merged, whose bytes another one may have then.
  bool alone = false;

  bool operator==(const AddedToken&) const = default;
};

// Everything that makes a BPE: plain data, as loaders make it and writers write it.
struct BpeVocab {
  std::string name = {};  // of a published encoding, "gpt2"; empty for others
  SplitPattern pattern = SplitPattern::kGpt2;
  // The bytes of each id; empty where an id is not used. Special and added tokens have theirs here
  // too.
  ByteStrings tokens = {};
  std::vector<BpeMerge> merges = {};
  // Special tokens by id: no merge makes them; they are matched as text, longest first, where they
  // are allowed.
  std::vector<SpecialToken> specials = {};
  // A pretoken that is a token is encoded as it, also where merges would not make it.
  bool whole_pretokens = false;
  // Not all bytes are tokens, as where a vocabulary was learnt from text alone. A byte without one
  // is left out, or becomes the token `unknown` where there is such (not -1); with `fuse_unknown`
  // several in a row become one.
  bool partial = false;
  int32_t unknown = -1;
  bool fuse_unknown = false;
  // Of a byte-level BPE empty. Else the ids of the tokens <0x00> to <0xFF>: merging begins with
  // characters, as SentencePiece has it, and one that is no token becomes those of its bytes. These
  // tokens may have the same bytes as others.
  std::vector<int32_t> byte_tokens = {};
  // Merges that make the same token stand one behind the other and have the same rank.
  bool ranked_by_token = false;

  // Texts are brought into Unicode's composed form (nfc.h).
  bool nfc = false;
  // Only with byte_tokens. Of these vocabularies U+2581 is a space, in texts and in files.
  SpacePrefix space_prefix = SpacePrefix::kNever;
  bool strips_space = false;  // decoding takes one space from the beginning of a text
  // By id: tokens that are not special, and what special tokens do more than stand where their text
  // is.
  std::vector<AddedToken> added = {};
  // Ids that stand before and behind a text that is given to the model as a whole.
  std::vector<int32_t> before = {};
  std::vector<int32_t> behind = {};

  bool operator==(const BpeVocab&) const = default;
};

// The special token of an id, null if it is none's.
const SpecialToken* FindSpecial(std::span<const SpecialToken> by_id, size_t id);

// Returns which ids are no part of what merges make, and may have the bytes of others: added tokens
// that are alone, and byte_tokens. Ids that do not exist are passed over.
std::vector<bool> NotMerged(const BpeVocab& vocab);

// Throws a kInput Error, beginning with `where`, unless all 256 single bytes are tokens, or
// `partial` says that they are not, and none of them is special; no two tokens have the same bytes;
// every merge names tokens that are not special, and the bytes of the two put together are those of
// the merged one; no pair is merged twice; specials are by ascending id, are the UTF-8 text that
// `tokens` has for their ids, and are not what files would write for another token (ByteNames); and
// there are at most kMaxVocabIds ids, the last of them used, and kMaxMerges merges, with the
// symbols that are no tokens counted.
void CheckBpeVocab(const BpeVocab& vocab, const std::string& where);
// The same where there is an index of all tokens already, but for NotMerged.
void CheckBpeVocab(const BpeVocab& vocab, const ByteIndex& index, const std::string& where);

// The merges of a vocabulary that is given by ranks alone (tiktoken's files): two neighbours become
// one if their bytes put together are a token, the lowest id first, the leftmost where there are
// several. Of a token's bytes by themselves these rules lead to one last pair or to none, and what
// stands around them changes nothing of that until a merge reaches across their borders; so this
// pair is the only one that ever makes the token. Returned by merged id; without those tokens that
// can only be a whole pretoken.
// Ids below `ranks` are tokens or empty. REQUIRES: all 256 bytes are among them.
// The time for one token grows with the square of its length.
std::vector<BpeMerge> MergesFromRanks(const ByteStrings& tokens, int32_t ranks);

// Finds byte strings by their contents: the first `count` of `strings`, which must outlive it and
// stay as they are. Empty ones are left out.
class ByteIndex {
 public:
  static constexpr int32_t kNone = -1;

  // Those of `left_out`, if it is not empty, are left out too.
  // REQUIRES: count <= strings.size() < 2^31.
  ByteIndex(const ByteStrings& strings, size_t count, const std::vector<bool>& left_out = {});

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
