#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "folio/text/bpe_vocab.h"
#include "folio/text/special_tokens.h"

namespace folio {

// Finds added tokens in texts from left to right; where several begin at one place, the longest.
class AddedTokens {
 public:
  AddedTokens() = default;
  explicit AddedTokens(std::span<const AddedToken> tokens);

  bool empty() const { return tokens_.empty(); }

  // A part of a text: a token, or the text between tokens.
  struct Part {
    size_t begin = 0;
    size_t end = 0;
    const AddedToken* token = nullptr;
  };
  // All of `text` in order, divided by the tokens that are `normalized` or by the others. If a
  // guard returns false, the text of a token is ordinary; another token may then begin behind its
  // first byte.
  using Guard = std::function<bool(const AddedToken& token, size_t begin, size_t end)>;
  std::vector<Part> Cut(std::string_view text, bool normalized, const Guard& guard = {}) const;

  // Returns false if the text of a token may lie across `at`, even one that begins before `text` or
  // ends behind it.
  bool MayCut(std::string_view text, size_t at) const;

 private:
  // Tokens that are searched for together.
  struct Pass {
    std::vector<SpecialToken> texts;
    std::unique_ptr<SpecialFinder> finder;
  };

  std::vector<AddedToken> tokens_;  // by id
  Pass passes_[2];                  // for texts as they are, and for normalized texts
  size_t longest_ = 0;
};

}  // namespace folio
