#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "folio/io/json.h"
#include "folio/text/bpe_vocab.h"

namespace folio {

// tokenizer.json without its two long members, which are read where they stand.
struct TokenizerJsonParts {
  static constexpr size_t kNowhere = static_cast<size_t>(-1);

  // The file with an empty vocabulary and no merges in its model.
  Json rest;
  // Where the object "vocab" and the array "merges" begin in the file, if its model has such.
  size_t vocab = kNowhere;
  size_t merges = kNowhere;
  bool any_merges = false;
};

// What a member has where a newer writer of the format added it and nobody uses it.
bool IsDefault(const Json& value);
// The member "type", empty if there is none or it is no text.
std::string TypeOf(const Json& section);

// Throws a kInput Error where `contents` is no JSON object; not all of it has been looked at.
TokenizerJsonParts SplitTokenizerJson(std::string_view contents, const std::string& path);

// ReadTokenizerJson (vocab_files.h) of a file that has been split.
BpeVocab ReadBpeParts(const TokenizerJsonParts& parts, std::string_view contents,
                      const std::string& path);

}  // namespace folio
