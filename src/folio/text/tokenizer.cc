#include "folio/text/tokenizer.h"

#include <fmt/format.h>

#include "folio/base/hash.h"

namespace folio {

void Tokenizer::CheckId(int32_t id) const {
  if (id >= 0 && id < vocab_size()) return;
  throw InputError(fmt::format("token {} does not exist", id),
                   fmt::format("this {} tokenizer has tokens 0 to {}", kind(), vocab_size() - 1),
                   "use the tokenizer that the tokens were made with");
}

std::vector<int32_t> Tokenizer::Encode(std::string_view text, std::string_view where) const {
  std::vector<int32_t> ids;
  EncodeAppend(text, ids, where);
  return ids;
}

void Tokenizer::EncodeAppend(std::string_view text, std::vector<int32_t>& ids,
                             std::string_view where) const {
  const size_t done = EncodePrefix(text, ids);
  if (done < text.size()) throw CannotEncode(*this, text, done, {}, where);
}

std::string Tokenizer::Decode(std::span<const int32_t> ids) const {
  std::string text;
  for (const int32_t id : ids) text += TokenBytes(id);
  return text;
}

std::string Tokenizer::hash() const {
  return HashHex(FileContents());
}

Error CannotEncode(const Tokenizer& tokenizer, std::string_view text, size_t at,
                   TextPosition position, std::string_view where) {
  position.Advance(text.substr(0, at));
  const Utf8Char c = DecodeUtf8(text, at);
  if (c.status != Utf8Status::kValid) {
    return InputError(fmt::format("{}: not UTF-8 text", where),
                      fmt::format("the bytes at offset {} (line {}) are no Unicode character",
                                  position.byte, position.line),
                      "give the text in UTF-8");
  }
  return InputError(
      fmt::format("{}:{}:{}: no token for the character {}", where, position.line, position.column,
                  QuoteChar(c.code)),
      fmt::format("the {} tokenizer knows {} tokens, and none begins here", tokenizer.kind(),
                  tokenizer.vocab_size()),
      "leave the character out, or train with a text that has it or with --tokenizer bytes");
}

}  // namespace folio
