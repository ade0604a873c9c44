#pragma once

#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "folio/text/special_tokens.h"
#include "folio/text/tokenizer.h"

namespace folio {

// One token for each Unicode character of a known set, numbered by code point; special tokens
// follow.
class CharTokenizer final : public Tokenizer {
 public:
  // `characters` ascending, distinct, Unicode scalar values, at least one.
  explicit CharTokenizer(std::vector<char32_t> characters,
                         std::span<const std::string> specials = {});

  std::string_view kind() const override { return "char"; }
  int64_t vocab_size() const override { return characters() + std::ssize(specials_); }
  int64_t characters() const { return std::ssize(characters_); }
  size_t EncodePrefix(std::string_view text, std::vector<int32_t>& ids) const override;
  size_t EncodeDecided(std::string_view text, std::vector<int32_t>& ids) const override {
    return EncodePrefix(text, ids);
  }
  size_t FindCut(std::string_view text, size_t at) const override;
  std::string_view TokenBytes(int32_t id) const override;
  std::optional<int32_t> end_of_text() const override {
    return FindEndOfText(specials_, chat_source().eos_token);
  }
  std::span<const SpecialToken> special_tokens() const override { return specials_; }
  std::unique_ptr<Tokenizer> WithSpecials(std::span<const std::string> texts) const override;
  std::string FileContents() const override;

 private:
  int32_t IdOf(char32_t code) const;  // -1 if it has no token

  static constexpr int kPage = 256;
  std::vector<char32_t> characters_;
  std::vector<SpecialToken> specials_;
  std::string bytes_;                              // all characters, one after the other
  std::vector<uint32_t> starts_;                   // begin of each in bytes_, and the end
  std::vector<int32_t> page_of_;                   // code / kPage -> page, or -1
  std::vector<std::array<int32_t, kPage>> pages_;  // ids, or -1
};

// The character, if `text` is exactly one, else 0.
char32_t OnlyCharacter(std::string_view text);

// Collects the set of characters of texts that come in pieces, cut at any byte.
class CharSetBuilder {
 public:
  // Names the text whose pieces follow, for messages.
  void BeginText(const std::string& where);
  // Throws a kInput Error with the byte offset where the text is not UTF-8.
  void Add(std::string_view piece);
  // Throws like Add if the text ends inside a character.
  void EndText();

  // Characters counted so far, with repetitions.
  int64_t characters() const { return characters_; }
  // Throws a kInput Error if there were no characters at all.
  std::unique_ptr<CharTokenizer> Build() const;

 private:
  // Takes the complete characters and returns the number of their bytes.
  size_t Take(std::string_view text);
  [[noreturn]] void Fail(int64_t byte) const;

  static constexpr size_t kCodes = 0x110000;
  std::vector<bool> seen_ = std::vector<bool>(kCodes);
  std::string where_;
  std::string tail_;  // an incomplete character
  int64_t byte_ = 0;  // offset of tail_ in the current text
  int64_t characters_ = 0;
};

}  // namespace folio
