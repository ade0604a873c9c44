#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "folio/base/error.h"
#include "folio/text/utf8.h"

namespace folio {

// Text to token ids and back. Ids are 0 .. vocab_size() - 1. Immutable once made: any number of
// threads may use one. Nothing is added to a text: no leading space, no special tokens.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  virtual std::string_view kind() const = 0;  // "char", "bytes"
  virtual int64_t vocab_size() const = 0;

  // Appends the ids of `text` up to the first thing it has no token for; returns how many bytes
  // that was, text.size() if all of it.
  virtual size_t EncodePrefix(std::string_view text, std::vector<int32_t>& ids) const = 0;

  // The bytes of one token; valid as long as the tokenizer. Throws a kInput Error if there is no
  // such id.
  virtual std::string_view TokenBytes(int32_t id) const = 0;

  // The token that stands between texts and never comes from encoding one.
  virtual std::optional<int32_t> end_of_text() const = 0;

  // The contents of tokenizer.json: the same for the same tokenizer, so that its hash is its
  // identity.
  virtual std::string FileContents() const = 0;

  // Ids of the whole text. What it has no token for is a kInput Error that names the character and
  // its line and column in `where` ("prompt", a file).
  std::vector<int32_t> Encode(std::string_view text, std::string_view where = "text") const;
  void EncodeAppend(std::string_view text, std::vector<int32_t>& ids,
                    std::string_view where = "text") const;

  // The bytes of the tokens, which need not be UTF-8. Throws like TokenBytes.
  std::string Decode(std::span<const int32_t> ids) const;

  // HashHex of FileContents().
  std::string hash() const;

  // Writes tokenizer.json and tokenizer_config.json into the existing directory `dir`: a tokenizer
  // that Hugging Face's libraries open with the same ids.
  void Save(const std::string& dir) const;

 protected:
  void CheckId(int32_t id) const;
};

// The kInput Error for the thing at byte `at` of `text`, which the tokenizer cannot encode;
// `position` is where `text` begins in `where`.
Error CannotEncode(const Tokenizer& tokenizer, std::string_view text, size_t at,
                   TextPosition position, std::string_view where);

// Reads tokenizer.json, or the file of that name in a directory. Exactly the shapes that Save
// writes are understood (also when another tool saved them again); any other is a kInput Error that
// names what is not supported.
std::unique_ptr<Tokenizer> LoadTokenizer(const std::string& dir_or_file);

}  // namespace folio
