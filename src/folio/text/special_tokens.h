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

// The id of the token among them that ends a document: that one, Llama 3's <|end_of_text|>,
// nanochat's <|bos|>, else the one that the tokenizer's files call `eos` ("" if none), else </s> or
// <eos>. The first three come first since tokenizers of models for conversations call the end of a
// turn eos.
std::optional<int32_t> FindEndOfText(std::span<const SpecialToken> specials,
                                     std::string_view eos = "");

// Tokens with these texts and the ids from `first` on.
std::vector<SpecialToken> NumberSpecials(std::span<const std::string> texts, int64_t first);
// Their texts, and more.
std::vector<std::string> Texts(std::span<const SpecialToken> specials,
                               std::span<const std::string> more);

// Finds special tokens in text, apart those that a rule allows and those that it disallows: the
// leftmost, of several that begin there the longest. Linear in the text.
class SpecialFinder {
 public:
  // Names in the rule that are no special tokens are a kUsage Error. `specials` must outlive it.
  SpecialFinder(std::span<const SpecialToken> specials, const SpecialRule& rule);

  struct Match {
    size_t begin = 0;
    const SpecialToken* token = nullptr;  // nullptr: none

    size_t end() const { return begin + token->text.size(); }
  };
  // The first allowed one at or after `at`.
  Match Next(std::string_view text, size_t at) const { return allowed_.Next(text, at); }
  // The first disallowed one at or after `at`, be it also part of an allowed one.
  Match NextDisallowed(std::string_view text, size_t at) const {
    return disallowed_.Next(text, at);
  }
  // Throws the Error of SpecialNotAllowed for the first disallowed one.
  void CheckDisallowed(std::string_view text, std::string_view where) const;

  // The length of the longest end of `text` that is the beginning of one of either sort, but not
  // all of it (0 if none): what a stream must hold back.
  size_t PartialSuffix(std::string_view text) const;

  const SpecialRule& rule() const { return rule_; }
  // Nothing is looked for.
  bool empty() const { return allowed_.empty() && disallowed_.empty(); }

 private:
  class Set {
   public:
    void Add(const SpecialToken& token) { tokens_.push_back(&token); }
    // Call once, when all are added.
    void Prepare();
    Match Next(std::string_view text, size_t at) const;
    size_t PartialSuffix(std::string_view text) const;
    bool empty() const { return tokens_.empty(); }

   private:
    // The first place from `at` on where one could begin, or text.size().
    size_t Candidate(std::string_view text, size_t at) const;
    // A walk goes along `text` behind the tokens' first bytes: it finds the longest token that it
    // begins with, and whether it ends inside a token.
    struct Walkthrough {
      const SpecialToken* longest = nullptr;
      bool partial = false;
    };
    Walkthrough WalkFrom(std::string_view text) const;

    std::vector<const SpecialToken*> tokens_;  // by their bytes
    size_t longest_ = 0;
    std::string_view prefix_;            // with which all begin
    size_t rare_ = 0;                    // the byte of prefix_ to search for
    std::array<bool, 256> begins_ = {};  // used where prefix_ is empty
  };

  SpecialRule rule_;
  Set allowed_;
  Set disallowed_;
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
