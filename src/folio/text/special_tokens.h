#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "folio/base/error.h"
#include "folio/base/utf8.h"

namespace folio {

// A token that stands for itself and is never merged: <|endoftext|>.
struct SpecialToken {
  std::string text;
  int32_t id = 0;

  bool operator==(const SpecialToken&) const = default;
};

// Says how the texts of special tokens inside of a text are treated, with tiktoken's semantics.
struct SpecialRule {
  bool allow_all = false;
  std::vector<std::string> allow = {};  // these become their token
  // Special tokens that are disallowed and not allowed make the text an error; the others are
  // ordinary text.
  bool disallow_all = true;
  std::vector<std::string> disallow = {};

  static SpecialRule Raise() { return {}; }
  static SpecialRule Allow() { return {.allow_all = true}; }
  static SpecialRule Ordinary() { return {.disallow_all = false}; }
  // "raise", "allow" or "ordinary".
  static SpecialRule Named(std::string_view name) {
    if (name == "allow") return Allow();
    return name == "ordinary" ? Ordinary() : Raise();
  }
};

inline constexpr std::string_view kEndOfTextToken = "<|endoftext|>";

// The id of the token that ends a document: <|endoftext|>, Llama 3's <|end_of_text|>, nanochat's
// <|bos|>, else the one that the tokenizer's files name as `eos` ("" if none), else </s> or <eos>.
// The first three take precedence since tokenizers of chat models call the end of a turn eos.
std::optional<int32_t> FindEndOfText(std::span<const SpecialToken> specials,
                                     std::string_view eos = "");

// The special token with this text, or null.
const SpecialToken* FindSpecial(std::span<const SpecialToken> specials, std::string_view text);

// Tokens with these texts and the ids from `first` on.
std::vector<SpecialToken> NumberSpecials(std::span<const std::string> texts, int64_t first);
// The texts of `specials`, followed by `more`.
std::vector<std::string> Texts(std::span<const SpecialToken> specials,
                               std::span<const std::string> more);

// Finds special tokens in text, separately those that a rule allows and those that it disallows:
// the leftmost, among several at one place the longest. Linear in the text.
class SpecialFinder {
 public:
  // Throws a kUsage Error if the rule names no special token. `specials` must outlive it.
  SpecialFinder(std::span<const SpecialToken> specials, const SpecialRule& rule);

  struct Match {
    size_t begin = 0;
    const SpecialToken* token = nullptr;  // nullptr: none

    size_t end() const { return begin + token->text.size(); }
  };
  // The first allowed one at or after `at`.
  Match Next(std::string_view text, size_t at) const { return allowed_.Next(text, at); }
  // The first disallowed one at or after `at`, even if it is part of an allowed one.
  Match NextDisallowed(std::string_view text, size_t at) const {
    return disallowed_.Next(text, at);
  }
  // Throws the Error of SpecialNotAllowed for the first disallowed one.
  void CheckDisallowed(std::string_view text, std::string_view where) const;

  // The length of the longest suffix of `text` that is a proper prefix of an allowed or disallowed
  // token (0 if none): what a stream must hold back.
  size_t PartialSuffix(std::string_view text) const;

  const SpecialRule& rule() const { return rule_; }
  // True if there is nothing to find.
  bool empty() const { return allowed_.empty() && disallowed_.empty(); }

 private:
  class Set {
   public:
    void Add(const SpecialToken& token) { tokens_.push_back(&token); }
    // Call once, after adding all tokens.
    void Prepare();
    Match Next(std::string_view text, size_t at) const;
    size_t PartialSuffix(std::string_view text) const;
    bool empty() const { return tokens_.empty(); }

   private:
    // The first place at or after `at` where a token may begin, or text.size().
    size_t Candidate(std::string_view text, size_t at) const;
    // The result of following `text` through the tokens: the longest token that it begins with, and
    // whether it ends inside a token.
    struct Walkthrough {
      const SpecialToken* longest = nullptr;
      bool partial = false;
    };
    Walkthrough WalkFrom(std::string_view text) const;

    std::vector<const SpecialToken*> tokens_;  // sorted
    size_t longest_ = 0;
    std::string_view prefix_;            // common to all tokens
    size_t rare_ = 0;                    // index in prefix_ of the byte to search for
    std::array<bool, 256> begins_ = {};  // used if prefix_ is empty
  };

  SpecialRule rule_;
  Set allowed_;
  Set disallowed_;
};

// The kInput Error for a special token at byte `at` of `text` that is not allowed; `position` is
// where `text` begins in `where`.
Error SpecialNotAllowed(const SpecialToken& token, std::string_view text, size_t at,
                        TextPosition position, std::string_view where);

}  // namespace folio
