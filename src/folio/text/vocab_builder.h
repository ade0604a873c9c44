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

// A tokenizer's file in the reader's errors.
JsonSource TokenizerSource(const std::string& path);

// Reads the object that is next. Names and ids may repeat, names be empty; ids are not negative.
// Throws a kInput Error also where the text is longer than 4 GB or an id does not fit.
NamedIds ReadNamedIds(JsonReader& reader);

// Makes a vocabulary of what files write: the ids of names, and merges of names; a name is those of
// bytes (byte_names.h), or the text of a special token. What does not fit together is a kInput
// Error.
class VocabBuilder {
 public:
  // The rule of which tokens are special.
  enum class Specials {
    kDeclared,  // those that AddSpecial names
    kUnmade,    // and those of more than one byte that no merge makes
  };

  // `file` is named in errors. `ids` must outlive the builder; they are from 0 to kMaxVocabIds - 1,
  // each once, in any order, with holes.
  VocabBuilder(const NamedIds& ids, std::string file, Specials specials);
  VocabBuilder(const VocabBuilder&) = delete;
  VocabBuilder& operator=(const VocabBuilder&) = delete;

  // Must be called before any merge. The token may be among the ids or not.
  void AddSpecial(const SpecialToken& token);
  // The next one by rank; `where` gives the place of its text for errors.
  void AddMerge(std::string_view left, std::string_view right,
                const std::function<std::string()>& where);
  // Once. The result has passed CheckBpeVocab.
  BpeVocab Finish();

 private:
  [[noreturn]] void Refuse(const std::string& what, std::string cause) const;
  void MakeTokens();
  // Appends the bytes of a part of a merge to pair_.
  int32_t Part(std::string_view name, const std::function<std::string()>& where);

  std::string file_;
  Specials specials_;
  std::vector<std::string_view> names_;  // by id; empty where the id is not used
  std::deque<std::string> added_;        // owns those that are not in `ids`
  BpeVocab vocab_;                  // tokens are the bytes that their names name, empty if none
  std::optional<ByteIndex> index_;  // of these
  std::vector<bool> made_;          // by a merge
  std::string pair_;
};

}  // namespace folio
