#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "folio/text/added_tokens.h"
#include "folio/text/bpe_encoder.h"
#include "folio/text/bpe_vocab.h"
#include "folio/text/special_tokens.h"
#include "folio/text/split.h"
#include "folio/text/tokenizer.h"

namespace folio {

// Byte-pair encoding (Sennrich et al. 2016): over bytes with a split pattern (Radford et al. 2019),
// with exactly the ids of the published encodings, which encodes all bytes losslessly; or over
// characters, like SentencePiece. Tokenizers of other programs may change a text first: normalize
// it to composed form, prepend a space, drop bytes.
class BpeTokenizer final : public Tokenizer {
 public:
  // `vocab` must have passed CheckBpeVocab.
  explicit BpeTokenizer(BpeVocab vocab);

  const BpeVocab& vocab() const { return model_.vocab(); }
  // One merge on the way from a pretoken to its tokens; for display.
  struct MergeStep {
    std::vector<int32_t> before;  // the symbols
    size_t at = 0;                // before[at] and before[at + 1] become `merged`
    int32_t merged = 0;
    int32_t rank = 0;
  };
  // REQUIRES: AllTokens(pretoken).
  std::vector<MergeStep> Explain(std::string_view pretoken) const;
  // True if merging `pretoken` begins with tokens and makes tokens (see BpeSymbols).
  bool AllTokens(std::string_view pretoken) const;

  std::string_view kind() const override { return "bpe"; }
  int64_t vocab_size() const override { return model_.vocab_size(); }
  size_t EncodePrefix(std::string_view text, std::vector<int32_t>& ids) const override;
  size_t EncodeDecided(std::string_view text, std::vector<int32_t>& ids) const override;
  size_t FindCut(std::string_view text, size_t at) const override;
  bool whole_texts() const override;
  bool strips_space() const override { return vocab().strips_space; }
  std::span<const int32_t> before() const override { return vocab().before; }
  std::span<const int32_t> behind() const override { return vocab().behind; }
  // True if a text is encoded unchanged, divided only into pretokens of the split pattern.
  bool plain() const { return !spaced_ && !vocab().nfc && vocab().added.empty(); }
  void EncodeGuarded(std::string_view text, const TokenGuard& guard, std::string_view where,
                     std::vector<int32_t>& ids) const override;
  std::string_view TokenBytes(int32_t id) const override;
  std::string Decode(std::span<const int32_t> ids) const override;
  std::optional<int32_t> end_of_text() const override {
    return FindEndOfText(vocab().specials, chat_source().eos_token);
  }
  std::span<const SpecialToken> special_tokens() const override { return vocab().specials; }
  std::unique_ptr<Tokenizer> WithSpecials(std::span<const std::string> texts) const override;
  std::string FileContents() const override;
  void Save(const std::string& dir) const override;

 protected:
  void EncodeAllowed(std::string_view text, const SpecialRule& rule, std::vector<int32_t>& ids,
                     std::string_view where) const override;

 private:
  AddedTokens WithNormalizedTexts(std::vector<AddedToken> tokens, const SpecialRule& rule) const;
  // The text that is merged, which may be stored in `storage`.
  std::string_view Normalized(std::string_view text, std::string& storage) const;
  void EncodePiece(std::string_view piece, bool first, std::vector<int32_t>& ids) const;
  void EncodeAll(const AddedTokens& added, std::string_view text, std::vector<int32_t>& ids,
                 const TokenGuard& guard = {}) const;
  size_t FindSpaceCut(std::string_view text, size_t at) const;

  BpeModel model_;
  bool spaced_;        // U+2581 stands for a space
  AddedTokens added_;  // those that are not special
};

// The tokenizer without the tokens that its model does not have (known_tokens): the same ids for
// all texts without these tokens. Throws a kInput Error if that is impossible: it is no BPE, or
// other tokens are merged from the missing ones.
std::unique_ptr<Tokenizer> OfKnownTokens(const Tokenizer& tokenizer);

// Calls on_pretoken(bytes, special) for the parts into which `text` is divided before encoding, in
// order: special tokens that `rule` allows, with the token; between them, with null, the pretokens
// of the split pattern of a byte-level BPE, or for other tokenizers the whole text between. The
// bytes point into `text`.
void ForEachPretoken(
    const Tokenizer& tokenizer, std::string_view text, const SpecialRule& rule,
    const std::function<void(std::string_view bytes, const SpecialToken* special)>& on_pretoken);

// Merges of longer pretokens are not shown: each would be a line as long as the pretoken.
inline constexpr size_t kLongestShown = 1024;

// A part of a text that is encoded separately, and its merges.
struct ExplainedPretoken {
  std::string_view bytes;
  bool special = false;
  bool too_long = false;  // longer than kLongestShown: without its merges
  std::vector<BpeTokenizer::MergeStep> merges = {};  // in the order of merging
  std::vector<int32_t> ids = {};
};

// Calls `on_pretoken` for each pretoken of `text` in order: those of the split pattern for a
// byte-level BPE, single tokens for other tokenizers. Special tokens that `rule` disallows count as
// text; other errors are those of Tokenizer::Encode. The bytes point into `text`.
void ExplainText(const Tokenizer& tokenizer, std::string_view text, const SpecialRule& rule,
                 std::string_view where,
                 const std::function<void(const ExplainedPretoken&)>& on_pretoken);

}  // namespace folio
