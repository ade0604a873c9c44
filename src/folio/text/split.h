#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <string_view>

namespace folio {

// A pattern divides a text into pretokens, which are encoded separately. The pretokens are those of
// the published regular expressions of the encodings (in the syntax of Unicode-aware engines,
// White_Space, L, N and M of Unicode 16.0); joined they are the text. A byte that belongs to no
// well-formed UTF-8 character counts as a character of its own that is neither letter, mark, number
// nor white space.
//
// (?i:) is Unicode's simple case folding: U+017F (long s) is an s in a contraction.
enum class SplitPattern {
  // '(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
  kGpt2,
  // '(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s+$|
  // \s*[\r\n]|\s+(?!\S)|\s+
  kCl100k,
  // [^\r\n\p{L}\p{N}]?U*W+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?U+W*(?i:...)?|
  // \p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+
  // where U is [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}] and W is [\p{Ll}\p{Lm}\p{Lo}\p{M}].
  kO200k,
  // Every \p{N} is a pretoken, then GPT-2's pattern for the text between, for which a number is the
  // end of the text: '(?:[sdmt]|ll|ve|re)| ?\p{L}+|\p{N}|
  // ?[^\s\p{L}\p{N}]+|\s+(?=\p{N})|\s+(?!\S)|\s+
  kSmolLm,
  // cl100k's without \s+$, which divides white space at the end after its last line break.
  kLlama3,
  // Llama 3's with \p{N} instead of \p{N}{1,3}.
  kQwen2,
  // Llama 3's with \p{N}{1,2}.
  kNanochat,

  // Three for vocabularies that are merged from characters; they know U+0020 alone.
  kWhole,      // the text is one pretoken
  kSpaces,     // (?: |^)[^ ]*
  kSpaceRuns,  // (?: +|^)[^ ]*
};

// The patterns of byte-level vocabularies, in this order.
inline constexpr std::array kSplitPatterns = {
    SplitPattern::kGpt2,   SplitPattern::kCl100k, SplitPattern::kO200k,   SplitPattern::kSmolLm,
    SplitPattern::kLlama3, SplitPattern::kQwen2,  SplitPattern::kNanochat};

std::string_view SplitPatternName(SplitPattern pattern);  // "gpt2", "cl100k", "o200k", "smollm", ..
std::optional<SplitPattern> FindSplitPattern(std::string_view name);
// The regular expression for tokenizer.json: in the common syntax of Oniguruma and Rust's regex, so
// \z for the end of the text, since $ means other things in some engines.
std::string_view SplitPatternRegex(SplitPattern pattern);
// The pattern of a regular expression, or of another spelling that published tokenizers use.
std::optional<SplitPattern> FindSplitRegex(std::string_view regex);
// The same in tiktoken's syntax, where `{1,3}+` does not backtrack; in Hugging Face's it repeats.
std::optional<SplitPattern> FindTiktokenRegex(std::string_view regex);

// Scanners return this if the end of a pretoken depends on what follows the text.
inline constexpr size_t kUndecided = static_cast<size_t>(-1);

// The end of the pretoken that begins at `begin`, which must be where a pretoken begins. With
// `at_end` the text ends where `text` ends; without, more may follow, and kUndecided is returned
// unless the pretoken is the same whatever follows (nothing is assumed about an incomplete
// character at the end). Never reads beyond the text. No recursion. A whole text takes time linear
// in its length. REQUIRES: begin < text.size().
size_t NextPretoken(SplitPattern pattern, std::string_view text, size_t begin, bool at_end = true);

// For a text that begins with a pretoken which NextPretoken, without `at_end`, leaves undecided:
// how much of the text is certainly in that pretoken, except the last characters; 0 if that is not
// known. Lets a run of millions of letters, or spaces, be encoded before its end is known.
size_t CertainRun(SplitPattern pattern, std::string_view text);

// The first place in [at, text.size()), but not 0, where every pattern of kSplitPatterns begins a
// pretoken whatever its context beyond the two neighbours, so that both parts can be split
// separately; or text.size(). `at` may be anywhere, also inside a character. Such a place is before
// U+0020 after something other than white space, before something other than a letter, mark or
// apostrophe after a letter, and before something other than a number after a number.
size_t FindCut(std::string_view text, size_t at);

// `ends` must have room for at least this many.
inline constexpr size_t kMinSplitEnds = 64;

// The ends of the pretokens of `text` from `begin`, where a pretoken begins: like repeated
// NextPretoken, but many at a time. Stops at the end of the text, at a pretoken that is not decided
// (see NextPretoken), or when there is no more room. Returns how many; 0 only if nothing is left or
// decided.
size_t SplitPretokens(SplitPattern pattern, std::string_view text, size_t begin, bool at_end,
                      std::span<size_t> ends);

}  // namespace folio
