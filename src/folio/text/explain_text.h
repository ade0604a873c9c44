#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "folio/text/bpe_tokenizer.h"
#include "folio/text/tokenizer.h"

namespace folio {

// Calls on_pretoken(bytes, special) for what `text` is cut into before it is encoded, in order: the
// special tokens that `rule` allows, each with itself; between them, with null, the pretokens of
// the split pattern of a byte-level BPE, for other tokenizers all that lies there. The bytes live
// in `text`.
void ForEachPretoken(
    const Tokenizer& tokenizer, std::string_view text, const SpecialRule& rule,
    const std::function<void(std::string_view bytes, const SpecialToken* special)>& on_pretoken);

// The merges of longer pretokens are not shown: each would be a line as long as the pretoken.
inline constexpr size_t kLongestShown = 1024;

// A part of a text that is encoded by itself, and how that goes.
struct ExplainedPretoken {
  std::string_view bytes;
  bool special = false;
  bool too_long = false;  // longer than kLongestShown: without its merges
  std::vector<BpeTokenizer::MergeStep> merges = {};  // in the order in which they are made
  std::vector<int32_t> ids = {};
};

// Calls `on_pretoken` for each pretoken of `text` in order: those of the split pattern for a
// byte-level BPE, single tokens for other tokenizers. Special tokens that `rule` disallows are
// taken as text; other errors are those of Tokenizer::Encode. The bytes live in `text`.
void ExplainText(const Tokenizer& tokenizer, std::string_view text, const SpecialRule& rule,
                 std::string_view where,
                 const std::function<void(const ExplainedPretoken&)>& on_pretoken);

}  // namespace folio
