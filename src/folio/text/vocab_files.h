#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "folio/io/json.h"
#include "folio/text/bpe_vocab.h"

namespace folio {

// Readers of the files that vocabularies are published in. Files are not trusted: what is wrong is
// a kInput Error that names the file and the line or the token. All results have passed
// CheckBpeVocab.

// Files that are longer are refused before they are read.
inline constexpr uint64_t kMaxVocabFileBytes = uint64_t{64} << 20;

// vocab.bpe + encoder.json (GPT-2) and vocab.json + merges.txt (Hugging Face) are the same format:
// a JSON object from token to id in GPT-2's printable names of bytes, and a line for each merge, by
// rank, behind an optional first line `#version`. What is in the JSON and made by no merge and is
// not a byte is a special token. The split pattern is GPT-2's, as neither file names one.
struct VocabBeside {
  std::string name = {};          // of a published encoding, whose counts must be met
  std::string added_tokens = {};  // a file: a JSON object from special token to id
};
BpeVocab ReadVocabAndMerges(const std::string& vocab_json, const std::string& merges_txt,
                            const VocabBeside& beside = {});

// A line `base64 rank` for each token. `name` is one of the published encodings, which gives the
// pattern and the special tokens; its count of ranks must be met.
BpeVocab ReadTiktoken(const std::string& path, const std::string& name);

// The vocabulary whose tokens are merged by rank: `ranked` by it, empty where a rank is not used or
// is a special token's. `named` says name, pattern and special tokens. Errors begin with `where`.
BpeVocab VocabOfRanks(const ByteStrings& ranked, BpeVocab named, const std::string& where);

// tokenizer.json with a BPE model over ByteLevel; `contents` is the file's text. What is in it and
// would change ids in a way that BpeVocab cannot say is refused by name.
BpeVocab ReadTokenizerJson(std::string_view contents, const std::string& path);

// The members of a JSON object from name to id.
struct NamedIds {
  struct Entry {
    uint32_t begin = 0;
    uint32_t length = 0;
    int32_t id = 0;
  };
  std::unique_ptr<char[]> names;
  std::vector<Entry> entries;  // in the order of the text

  std::string_view name(const Entry& entry) const {
    return {names.get() + entry.begin, entry.length};
  }
};

// Returns whether a member is as a newer writer of the format leaves it where nobody uses it.
bool IsDefault(const Json& value);

// A tokenizer's file in the reader's errors.
JsonSource TokenizerSource(const std::string& path);

// Reads the object that is next. Names and ids may repeat, names be empty; ids are not negative.
// Throws a kInput Error also where the text is longer than 4 GB or an id does not fit.
NamedIds ReadNamedIds(JsonReader& reader);

// Makes a vocabulary of what files write: the ids of names, and merges of names; a name is those of
// bytes (bpe_vocab.h), or the text of a special token. What does not fit together is a kInput
// Error.
class VocabBuilder {
 public:
  // The rule of which tokens are special.
  enum class Specials {
    kDeclared,  // those that AddSpecial names
    kUnmade,    // and those of more than one byte that no merge makes
  };

  // The way in which names stand for bytes: each character for a byte (AppendNamedBytes), or as
  // itself but for kSpaceMark. There are byte_tokens then, and their names <0x00> to <0xFF>.
  enum class Spelling { kByteNames, kMarkedSpaces };

  // `file` is named in errors. `ids` must outlive the builder; they are from 0 to kMaxVocabIds - 1,
  // each once, in any order, with holes.
  VocabBuilder(const NamedIds& ids, std::string file, Specials specials,
               Spelling spelling = Spelling::kByteNames);
  VocabBuilder(const VocabBuilder&) = delete;
  VocabBuilder& operator=(const VocabBuilder&) = delete;

  // A byte that has no token is one that texts lose (BpeVocab::partial), not an error.
  void LeaveOutMissingBytes() { may_be_partial_ = true; }
  // Must be called before any merge. The token may be among the ids or not.
  void AddSpecial(const SpecialToken& token);
  // The same for any added token; `alone` follows from whether it is among the ids.
  void AddAdded(AddedToken token);
  // The bytes that a name stands for, appended; false where it is none.
  bool AppendBytes(std::string_view name, std::string& bytes) const;
  // The next one by rank; `where` gives the place of its text for errors.
  void AddMerge(std::string_view left, std::string_view right,
                const std::function<std::string()>& where);
  // The merges of all pairs of tokens that together have this name, of the shortest left one first.
  void AddMergesOf(std::string_view name);
  size_t merges() const { return vocab_.merges.size(); }
  // Once. The result has passed CheckBpeVocab.
  BpeVocab Finish();

 private:
  [[noreturn]] void Refuse(const std::string& what, std::string cause) const;
  void MakeTokens();
  void FindByteTokens();
  // Appends the bytes of a part of a merge to pair_.
  int32_t Part(std::string_view name, const std::function<std::string()>& where);

  std::string file_;
  Specials specials_;
  Spelling spelling_;
  bool may_be_partial_ = false;
  std::vector<std::string_view> names_;  // by id; empty where the id is not used
  std::deque<std::string> added_;        // owns those that are not in `ids`
  BpeVocab vocab_;                  // tokens are the bytes that their names name, empty if none
  std::optional<ByteIndex> index_;  // of these
  std::vector<bool> made_;          // by a merge
  std::string pair_;
};

}  // namespace folio
