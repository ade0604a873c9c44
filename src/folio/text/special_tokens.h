#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "folio/text/tokenizer.h"

namespace folio {

inline constexpr std::string_view kEndOfTextToken = "<|endoftext|>";

// The id of that one, if it is among them.
std::optional<int32_t> FindEndOfText(std::span<const SpecialToken> specials);

// Tokens with these texts and the ids from `first` on.
std::vector<SpecialToken> NumberSpecials(std::span<const std::string> texts, int64_t first);
// Their texts, and more.
std::vector<std::string> Texts(std::span<const SpecialToken> specials,
                               std::span<const std::string> more);

// Finds special tokens in text: the leftmost, of several that begin there the longest. Linear in
// the text.
class SpecialFinder {
 public:
  // `specials` must outlive it.
  SpecialFinder(std::span<const SpecialToken> specials, const SpecialRule& rule);

  struct Match {
    size_t begin = 0;
    const SpecialToken* token = nullptr;  // nullptr: none

    size_t end() const { return begin + token->text.size(); }
  };
  // The first one at or after `at`, if the rule allows them.
  Match Next(std::string_view text, size_t at) const { return raise_ ? Match{} : Find(text, at); }
  // The first one at or after `at`, if the rule disallows them.
  Match NextDisallowed(std::string_view text, size_t at) const {
    return raise_ ? Find(text, at) : Match{};
  }

  // The length of the longest end of `text` that is the beginning of one, but not all of it (0 if
  // none): what a stream must hold back.
  size_t PartialSuffix(std::string_view text) const;

  // Nothing is looked for.
  bool empty() const { return tokens_.empty(); }

 private:
  Match Find(std::string_view text, size_t at) const;
  // The first place from `at` on where one could begin, or text.size().
  size_t Candidate(std::string_view text, size_t at) const;
  // A walk goes along `text` behind the tokens' first bytes: it finds the longest token that it
  // begins with, and whether it ends inside a token.
  struct Walkthrough {
    const SpecialToken* longest = nullptr;
    bool partial = false;
  };
  Walkthrough WalkFrom(std::string_view text) const;

  bool raise_;
  std::vector<const SpecialToken*> tokens_;  // by their bytes
  size_t longest_ = 0;
  std::string_view prefix_;            // with which all begin
  size_t rare_ = 0;                    // the byte of prefix_ to search for
  std::array<bool, 256> begins_ = {};  // used where prefix_ is empty
};

// The kInput Error for a special token at byte `at` of `text` that is not allowed; `position` is
// where `text` begins in `where`.
Error SpecialNotAllowed(const SpecialToken& token, std::string_view text, size_t at,
                        TextPosition position, std::string_view where);

// Tokenizer::WithSpecials for texts that somebody asked for. Throws a kUsage Error where one is
// empty, not UTF-8, or a token already.
std::unique_ptr<Tokenizer> WithSpecialTokens(const Tokenizer& tokenizer,
                                             std::span<const std::string> texts);

}  // namespace folio
