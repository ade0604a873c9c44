#include "folio/text/byte_tokenizer.h"

#include "folio/text/special_tokens.h"
#include "folio/text/tokenizer_json_writer.h"

namespace folio {

ByteTokenizer::ByteTokenizer(std::span<const std::string> more_specials)
    : specials_{{std::string(kEndOfTextToken), kEndOfText}} {
  specials_ = NumberSpecials(Texts(specials_, more_specials), kEndOfText);
  for (size_t i = 0; i < bytes_.size(); ++i) bytes_[i] = static_cast<char>(i);
}

size_t ByteTokenizer::EncodePrefix(std::string_view text, std::vector<int32_t>& ids) const {
  ids.reserve(ids.size() + text.size());
  for (const char c : text) ids.push_back(static_cast<unsigned char>(c));
  return text.size();
}

std::string_view ByteTokenizer::TokenBytes(int32_t id) const {
  CheckId(id);
  if (id >= kEndOfText) return specials_[static_cast<size_t>(id - kEndOfText)].text;
  return {&bytes_[static_cast<size_t>(id)], 1};
}

std::string ByteTokenizer::FileContents() const {
  return ByteTokenizerJson(specials_).dump(2) + "\n";
}

std::unique_ptr<Tokenizer> ByteTokenizer::WithSpecials(std::span<const std::string> texts) const {
  return std::make_unique<ByteTokenizer>(Texts(std::span(specials_).subspan(1), texts));
}

}  // namespace folio
