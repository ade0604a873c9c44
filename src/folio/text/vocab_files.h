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

// Readers of the published formats of vocabularies. Files are not trusted: mistakes are kInput
// Errors that name the file and the line or the token. All results have passed CheckBpeVocab.

// Longer files are refused before reading.
inline constexpr uint64_t kMaxVocabFileBytes = uint64_t{64} << 20;

// vocab.bpe + encoder.json (GPT-2) and vocab.json + merges.txt (Hugging Face) have the same format:
// a JSON object from token to id in GPT-2's printable names of bytes, and a line for each merge, by
// rank, after an optional first line `#version`. Entries of the JSON that no merge makes and that
// are no bytes are special tokens. The split pattern is GPT-2's, since neither file names one.
struct VocabBeside {
  std::string name = {};          // name of a published encoding, whose counts must match
  std::string added_tokens = {};  // a file: a JSON object from special token to id
};
BpeVocab ReadVocabAndMerges(const std::string& vocab_json, const std::string& merges_txt,
                            const VocabBeside& beside = {});

// A line `base64 rank` for each token. `name` is one of the published encodings, which gives the
// pattern and the special tokens; its number of ranks must match.
BpeVocab ReadTiktoken(const std::string& path, const std::string& name);

// The vocabulary whose tokens are merged by rank: `ranked` is indexed by rank, empty for unused
// ranks and special tokens. `named` gives name, pattern and special tokens. Errors begin with
// `where`.
BpeVocab VocabOfRanks(const ByteStrings& ranked, BpeVocab named, const std::string& where);

// The members of a JSON object from name to id.
struct NamedIds {
  struct Entry {
    uint32_t begin = 0;
    uint32_t length = 0;
    int32_t id = 0;
  };
  std::unique_ptr<char[]> names;
  std::vector<Entry> entries;  // in the order of the file

  std::string_view name(const Entry& entry) const {
    return {names.get() + entry.begin, entry.length};
  }
};

// A tokenizer's file as the source of a JSON reader.
JsonSource TokenizerSource(const std::string& path);

// Reads the next value, an object. Names and ids may repeat, names may be empty; ids are not
// negative. Throws a kInput Error if the text is longer than 4 GB or an id does not fit, too.
NamedIds ReadNamedIds(JsonReader& reader);

// Makes a vocabulary from the contents of files: the ids of names, and merges of names; a name
// consists of names of bytes (bpe_vocab.h), or is the text of a special token. Inconsistent
// contents are a kInput Error.
class VocabBuilder {
 public:
  // Says which tokens are special.
  enum class Specials {
    kDeclared,  // those passed to AddSpecial
    kUnmade,    // these, and tokens of more than one byte that no merge makes
  };

  // How names stand for bytes: each character for one byte (AppendNamedBytes), or for itself except
  // kSpaceMark. The latter has byte_tokens, named <0x00> to <0xFF>.
  enum class Spelling { kByteNames, kMarkedSpaces };

  // `file` is named in errors. `ids` must outlive the builder; they are from 0 to kMaxVocabIds - 1,
  // distinct, in any order, with gaps.
  VocabBuilder(const NamedIds& ids, std::string file, Specials specials,
               Spelling spelling = Spelling::kByteNames);
  VocabBuilder(const VocabBuilder&) = delete;
  VocabBuilder& operator=(const VocabBuilder&) = delete;

  // A byte without a token is dropped from texts (BpeVocab::partial) instead of being an error.
  void LeaveOutMissingBytes() { may_be_partial_ = true; }
  // Must be called before any merge. The token need not be among the ids.
  void AddSpecial(const SpecialToken& token);
  // The same for any added token; `alone` is derived from whether it is among the ids.
  void AddAdded(AddedToken token);
  // Appends the bytes that a name stands for; returns false if it is no name.
  bool AppendBytes(std::string_view name, std::string& bytes) const;
  // Adds the merge with the next rank; `where` gives the place of its text for errors.
  void AddMerge(std::string_view left, std::string_view right,
                const std::function<std::string()>& where);
  // Adds the merges of all pairs of tokens that together have this name, beginning with the
  // shortest left token.
  void AddMergesOf(std::string_view name);
  size_t merges() const { return vocab_.merges.size(); }
  // Call once. The result has passed CheckBpeVocab.
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
  std::vector<std::string_view> names_;  // by id; empty for unused ids
  std::deque<std::string> added_;        // owns the names that are not in `ids`
  BpeVocab vocab_;                       // tokens are the bytes of their names, or empty
  std::optional<ByteIndex> index_;       // of these
  std::vector<bool> made_;               // by a merge
  std::string pair_;
};

}  // namespace folio
