#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "folio/infer/opened_model.h"
#include "folio/io/json.h"

namespace folio {

// One text as tokens of a model: 1 to n_positions tokens, or more for readers with windows.
struct ModelText {
  std::string name;  // "--text", "--ids 2", a file's name
  std::vector<int32_t> ids;
  int64_t left_out = 0;          // tokens before these that --tail dropped
  std::vector<float> mask = {};  // (T,T), added to the scores of queries and keys; empty for none
};

// Throws a kInput Error unless there are at least two tokens; `why` says what they are needed for.
void RequireTwoTokens(const ModelText& text, const std::string& why);

// Tokens in visible form.
class TokenNames {
 public:
  // `tokenizer` may be null and must outlive the object.
  explicit TokenNames(const Tokenizer* tokenizer) : tokenizer_(tokenizer) {}

  // Returns the token as VisibleToken does; "#17" for an id without a token.
  std::string Shown(int32_t id) const;
  std::vector<std::string> Shown(std::span<const int32_t> ids) const;
  // The token's bytes; empty for an id without a token.
  std::string_view Bytes(int32_t id) const;
  // {"id":17,"text":" the"}, where "text" is null for an id without a token and has U+FFFD for
  // invalid UTF-8, with "bytes" in addition; and an array of them.
  Json AsJson(int32_t id) const;
  Json AsJson(std::span<const int32_t> ids) const;

 private:
  bool Has(int32_t id) const;

  const Tokenizer* tokenizer_;
};

}  // namespace folio
