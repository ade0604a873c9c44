#pragma once

#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <vector>

#include "folio/text/tokenizer.h"

namespace folio {

// Every byte is the token of its value; 256 is the end of a text, and more special tokens may
// follow. Encodes anything.
class ByteTokenizer final : public Tokenizer {
 public:
  static constexpr int32_t kEndOfText = 256;

  explicit ByteTokenizer(std::span<const std::string> more_specials = {});

  std::string_view kind() const override { return "bytes"; }
  int64_t vocab_size() const override { return 256 + std::ssize(specials_); }
  size_t EncodePrefix(std::string_view text, std::vector<int32_t>& ids) const override;
  size_t EncodeDecided(std::string_view text, std::vector<int32_t>& ids) const override {
    return EncodePrefix(text, ids);
  }
  size_t FindCut(std::string_view text, size_t at) const override {
    return std::min(at, text.size());
  }
  std::string_view TokenBytes(int32_t id) const override;
  std::optional<int32_t> end_of_text() const override { return kEndOfText; }
  std::span<const SpecialToken> special_tokens() const override { return specials_; }
  std::unique_ptr<Tokenizer> WithSpecials(std::span<const std::string> texts) const override;
  std::string FileContents() const override;

 private:
  std::array<char, 256> bytes_;
  std::vector<SpecialToken> specials_;
};

}  // namespace folio
