#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "folio/term/console.h"
#include "folio/text/bpe_tokenizer.h"
#include "folio/text/special_tokens.h"
#include "folio/text/tokenizer.h"

namespace folio {

// Calls on_piece(bytes, special) for what `text` is cut into before it is encoded, in order: the
// special tokens that `rule` allows, each with itself; between them, with null, the pieces of the
// split pattern of a byte-level BPE, for other tokenizers all that lies there. The bytes live in
// `text`.
void ForEachPiece(
    const Tokenizer& tokenizer, std::string_view text, const SpecialRule& rule,
    const std::function<void(std::string_view bytes, const SpecialToken* special)>& on_piece);

// The merges of longer pieces are not shown: each would be a line as long as the piece.
inline constexpr size_t kLongestShown = 1024;

// A part of a text that is encoded by itself, and how that goes.
struct ExplainedPiece {
  std::string_view bytes;
  bool special = false;
  bool too_long = false;  // longer than kLongestShown: without its merges
  std::vector<BpeTokenizer::MergeStep> merges = {};  // in the order in which they are made
  std::vector<int32_t> ids = {};
};

// Calls `on_piece` for each piece of `text` in order: those of the split pattern for a byte-level
// BPE, single tokens for other tokenizers. Errors as Tokenizer::Encode. The bytes live in `text`.
void ExplainText(const Tokenizer& tokenizer, std::string_view text, const SpecialRule& rule,
                 std::string_view where,
                 const std::function<void(const ExplainedPiece&)>& on_piece);

// Lines for a person: the piece and its bytes, the symbols after each merge, the ids.
std::string RenderPiece(const Tokenizer& tokenizer, const ExplainedPiece& piece,
                        const Terminal& terminal);
// {"text","bytes":[72],"merges":[{"left","right","merged","rank"}],"ids":[39]}, and
// "special" or "too_long" where they are true; what is not UTF-8 in the text is U+FFFD.
std::string PieceJson(const ExplainedPiece& piece);

// `bytes` between quotes, in which what does not print or is not UTF-8 is escaped (\n, \u{200B},
// \xFF); with `ascii` also all that is not ASCII.
std::string QuoteBytes(std::string_view bytes, bool ascii = false);

// "48 65 6C"
std::string HexBytes(std::string_view bytes);

// What a tokenizer is, opened as `spec`: a line for each fact, or one JSON object (`json`). Without
// `json`, `ascii` keeps all else out of the text.
std::string DescribeTokenizer(const Tokenizer& tokenizer, const std::string& spec, bool json,
                              bool ascii);
// The same of single tokens. Throws as Tokenizer::TokenBytes.
std::string DescribeTokens(const Tokenizer& tokenizer, const std::vector<int32_t>& ids, bool json,
                           bool ascii);

}  // namespace folio
