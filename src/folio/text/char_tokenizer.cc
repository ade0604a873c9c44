#include "folio/text/char_tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "folio/base/check.h"
#include "folio/text/tokenizer_json_writer.h"

namespace folio {

CharTokenizer::CharTokenizer(std::vector<char32_t> characters,
                             std::span<const std::string> specials)
    : characters_(std::move(characters)),
      specials_(NumberSpecials(specials, this->characters())),
      page_of_(0x110000 / kPage, -1) {
  FOLIO_CHECK(!characters_.empty(), "a tokenizer needs a character");
  starts_.push_back(0);
  for (size_t id = 0; id < characters_.size(); ++id) {
    const char32_t code = characters_[id];
    FOLIO_CHECK(id == 0 || characters_[id - 1] < code, "characters must ascend");
    AppendUtf8(code, bytes_);
    starts_.push_back(static_cast<uint32_t>(bytes_.size()));
    int32_t& page = page_of_[code / kPage];
    if (page < 0) {
      page = static_cast<int32_t>(pages_.size());
      pages_.emplace_back().fill(-1);
    }
    pages_[static_cast<size_t>(page)][code % kPage] = static_cast<int32_t>(id);
  }
}

char32_t OnlyCharacter(std::string_view text) {
  if (text.empty()) return 0;
  const Utf8Char c = DecodeUtf8(text);
  return c.status == Utf8Status::kValid && c.length == text.size() ? c.code : 0;
}

int32_t CharTokenizer::IdOf(char32_t code) const {
  const int32_t page = page_of_[code / kPage];
  return page < 0 ? -1 : pages_[static_cast<size_t>(page)][code % kPage];
}

size_t CharTokenizer::EncodePrefix(std::string_view text, std::vector<int32_t>& ids) const {
  for (size_t at = 0; at < text.size();) {
    const Utf8Char c = DecodeUtf8(text, at);
    const int32_t id = c.status == Utf8Status::kValid ? IdOf(c.code) : -1;
    if (id < 0) return at;
    ids.push_back(id);
    at += c.length;
  }
  return text.size();
}

size_t CharTokenizer::FindCut(std::string_view text, size_t at) const {
  at = std::min(at, text.size());
  while (at < text.size() && !BeginsCharacter(text[at])) ++at;
  return at;
}

std::string_view CharTokenizer::TokenBytes(int32_t id) const {
  CheckId(id);
  const size_t i = static_cast<size_t>(id);
  if (i >= characters_.size()) return specials_[i - characters_.size()].text;
  return std::string_view(bytes_).substr(starts_[i], starts_[i + 1] - starts_[i]);
}

std::unique_ptr<Tokenizer> CharTokenizer::WithSpecials(std::span<const std::string> texts) const {
  return std::make_unique<CharTokenizer>(characters_, Texts(specials_, texts));
}

std::string CharTokenizer::FileContents() const {
  Json vocab = Json::object();
  for (int32_t id = 0; id < characters(); ++id) vocab.Add(std::string(TokenBytes(id)), id);
  return CharTokenizerJson(std::move(vocab), specials_).dump(2) + "\n";
}

void CharSetBuilder::BeginText(const std::string& where) {
  FOLIO_CHECK(tail_.empty(), "EndText was not called");
  where_ = where;
  byte_ = 0;
}

void CharSetBuilder::Add(std::string_view piece) {
  while (!tail_.empty() && !piece.empty()) {
    tail_.push_back(piece.front());
    piece.remove_prefix(1);
    tail_.erase(0, Take(tail_));
  }
  tail_.append(piece.substr(Take(piece)));
}

void CharSetBuilder::EndText() {
  if (!tail_.empty()) Fail(byte_);
}

size_t CharSetBuilder::Take(std::string_view text) {
  size_t at = 0;
  while (at < text.size()) {
    const Utf8Char c = DecodeUtf8(text, at);
    if (c.status == Utf8Status::kIncomplete) break;
    if (c.status == Utf8Status::kInvalid) Fail(byte_ + static_cast<int64_t>(at));
    seen_[c.code] = true;
    ++characters_;
    at += c.length;
  }
  byte_ += static_cast<int64_t>(at);
  return at;
}

void CharSetBuilder::Fail(int64_t byte) const {
  throw InputError(
      fmt::format("{}: not UTF-8 text", where_),
      fmt::format("the bytes at offset {} are not a Unicode character", byte),
      "convert the file to UTF-8, or use --tokenizer bytes --raw, which accepts any file");
}

std::unique_ptr<CharTokenizer> CharSetBuilder::Build() const {
  std::vector<char32_t> characters;
  for (size_t code = 0; code < kCodes; ++code) {
    if (seen_[code]) characters.push_back(static_cast<char32_t>(code));
  }
  if (characters.empty()) {
    throw InputError(
        where_.empty() ? "there is no text" : fmt::format("{}: there is no text", where_),
        "a character tokenizer needs at least one character", "give a file that is not empty");
  }
  return std::make_unique<CharTokenizer>(std::move(characters));
}

}  // namespace folio
