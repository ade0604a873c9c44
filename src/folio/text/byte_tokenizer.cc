#include "folio/text/byte_tokenizer.h"

#include "folio/text/tokenizer_file.h"

namespace folio {

ByteTokenizer::ByteTokenizer() : specials_{{{std::string(kEndOfTextToken), kEndOfText}}} {
  for (size_t i = 0; i < bytes_.size(); ++i) bytes_[i] = static_cast<char>(i);
}

size_t ByteTokenizer::EncodePrefix(std::string_view text, std::vector<int32_t>& ids) const {
  ids.reserve(ids.size() + text.size());
  for (const char c : text) ids.push_back(static_cast<unsigned char>(c));
  return text.size();
}

std::string_view ByteTokenizer::TokenBytes(int32_t id) const {
  CheckId(id);
  if (id == kEndOfText) return kEndOfTextToken;
  return {&bytes_[static_cast<size_t>(id)], 1};
}

std::string ByteTokenizer::FileContents() const {
  return ByteTokenizerFile();
}

}  // namespace folio
