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

// Byte-pair encoding (Sennrich et al. 2016): over bytes and with a split pattern (Radford et al.
// 2019), exact with the published encodings, which encodes any bytes and gives them back; or over
// characters, as SentencePiece has it. Tokenizers of others may change a text before: bring it into
// composed form, put a space before it, lose bytes.
class BpeTokenizer final : public Tokenizer {
 public:
  // `vocab` must have passed CheckBpeVocab.
  explicit BpeTokenizer(BpeVocab vocab);

  const BpeVocab& vocab() const { return model_.vocab(); }
  // A step of one pretoken to its tokens, merge by merge; for showing.
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
  // Pretokens of the split pattern are all that a text is cut into, as it is.
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
  // The text as it is merged, which may live in `storage`.
  std::string_view Normalized(std::string_view text, std::string& storage) const;
  void EncodePiece(std::string_view piece, bool first, std::vector<int32_t>& ids) const;
  void EncodeAll(const AddedTokens& added, std::string_view text, std::vector<int32_t>& ids,
                 const TokenGuard& guard = {}) const;
  AddedTokens AllAdded(const SpecialRule& rule) const;
  size_t FindSpaceCut(std::string_view text, size_t at) const;

  BpeModel model_;
  bool spaced_;        // U+2581 is a space
  AddedTokens added_;  // that are not special
};

// The tokenizer without the tokens that its model does not have (known_tokens): the same ids for
// all texts that have none of them. Throws a kInput Error where there is no such: it is no BPE, or
// others of its tokens are merged of those.
std::unique_ptr<Tokenizer> OfKnownTokens(const Tokenizer& tokenizer);

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
