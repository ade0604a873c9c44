#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "folio/text/special_tokens.h"
#include "folio/text/tokenizer.h"

namespace folio {

// A small tokenizer in which the tokens of a byte depend on its neighbours: text is divided into
// words, each with the space before it, and white space, whose last space before a word belongs to
// the word; the bytes of a pretoken become tokens in pairs from the left, and the last of an odd
// number a token of its own.
class PairTokenizer final : public Tokenizer {
 public:
  static constexpr int32_t kPairs = 256;  // the pair ab is 256 + 256 a + b
  static constexpr int32_t kSpecials = kPairs + 65536;

  explicit PairTokenizer(const std::vector<std::string>& specials = {"<|end|>"}) {
    for (const std::string& text : specials) {
      specials_.push_back({text, kSpecials + static_cast<int32_t>(specials_.size())});
    }
    for (int pair = 0; pair < 65536; ++pair) {
      pairs_.push_back(static_cast<char>(pair / 256));
      pairs_.push_back(static_cast<char>(pair % 256));
    }
  }

  std::string_view kind() const override { return "pair"; }
  int64_t vocab_size() const override { return kSpecials + static_cast<int64_t>(specials_.size()); }
  size_t EncodePrefix(std::string_view text, std::vector<int32_t>& ids) const override {
    return EncodePretokens(text, true, ids);
  }
  size_t EncodeDecided(std::string_view text, std::vector<int32_t>& ids) const override {
    return EncodePretokens(text, false, ids);
  }
  size_t FindCut(std::string_view text, size_t at) const override {
    for (; at < text.size(); ++at) {
      if (at == 0 || (text[at] == ' ' && text[at - 1] != ' ')) return at;
    }
    return text.size();
  }
  std::string_view TokenBytes(int32_t id) const override {
    CheckId(id);
    if (id >= kSpecials) return specials_[static_cast<size_t>(id - kSpecials)].text;
    const std::string_view pairs = pairs_;
    if (id >= kPairs) return pairs.substr(static_cast<size_t>(id - kPairs) * 2, 2);
    return pairs.substr(static_cast<size_t>(id) * 2 + 1, 1);
  }
  std::optional<int32_t> end_of_text() const override { return kSpecials; }
  std::span<const SpecialToken> special_tokens() const override { return specials_; }
  std::unique_ptr<Tokenizer> WithSpecials(std::span<const std::string> texts) const override {
    return std::make_unique<PairTokenizer>(Texts(specials_, texts));
  }
  std::string FileContents() const override { return "pair"; }

  // Bytes passed to EncodePrefix and EncodeDecided in all calls: the work.
  mutable std::atomic<size_t> work = 0;

 private:
  // The end of the pretoken at `at`, or 0 if it depends on what follows.
  static size_t PretokenEnd(std::string_view text, size_t at, bool at_end) {
    size_t word = at;
    while (word < text.size() && text[word] == ' ') ++word;
    if (word == text.size()) return at_end ? word : 0;
    if (word > at + 1) return word - 1;
    const size_t end = std::min(text.find(' ', word), text.size());
    return end < text.size() || at_end ? end : 0;
  }

  size_t EncodePretokens(std::string_view text, bool at_end, std::vector<int32_t>& ids) const {
    work += text.size();
    size_t at = 0;
    while (at < text.size()) {
      const size_t end = PretokenEnd(text, at, at_end);
      if (end == 0) break;
      for (; at + 1 < end; at += 2)
        ids.push_back(kPairs + Byte(text[at]) * 256 + Byte(text[at + 1]));
      for (; at < end; ++at) ids.push_back(Byte(text[at]));
    }
    return at;
  }
  static int32_t Byte(char c) { return static_cast<unsigned char>(c); }

  std::vector<SpecialToken> specials_;
  std::string pairs_;
};

// The tokens of two letters, and the first special one.
inline int32_t Pair(char a, char b) {
  return PairTokenizer::kPairs + a * 256 + b;
}
inline constexpr int32_t kEnd = PairTokenizer::kSpecials;

}  // namespace folio
