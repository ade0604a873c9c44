#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "folio/text/bpe_vocab.h"
#include "folio/text/tokenizer.h"

namespace folio {

class BpeModel;

// Byte-level byte-pair encoding (Sennrich et al. 2016; over bytes and with a split pattern, Radford
// et al. 2019), exact with the published encodings. Encodes any bytes, and gives them back.
class BpeTokenizer final : public Tokenizer {
 public:
  // `vocab` must have passed CheckBpeVocab.
  explicit BpeTokenizer(BpeVocab vocab);
  ~BpeTokenizer() override;

  const BpeVocab& vocab() const;
  // A step of one pretoken to its tokens, merge by merge; for showing.
  struct MergeStep {
    std::vector<int32_t> before;  // the symbols
    size_t at = 0;                // before[at] and before[at + 1] become `merged`
    int32_t merged = 0;
    int32_t rank = 0;
  };
  std::vector<MergeStep> Explain(std::string_view pretoken) const;

  std::string_view kind() const override { return "bpe"; }
  int64_t vocab_size() const override;
  size_t EncodePrefix(std::string_view text, std::vector<int32_t>& ids) const override;
  size_t EncodeDecided(std::string_view text, std::vector<int32_t>& ids) const override;
  size_t FindCut(std::string_view text, size_t at) const override;
  std::string_view TokenBytes(int32_t id) const override;
  std::string Decode(std::span<const int32_t> ids) const override;
  std::optional<int32_t> end_of_text() const override;
  std::span<const SpecialToken> special_tokens() const override;
  std::unique_ptr<Tokenizer> WithSpecials(std::span<const std::string> texts) const override;
  std::string FileContents() const override;
  void Save(const std::string& dir) const override;

 private:
  std::unique_ptr<BpeModel> model_;
};

}  // namespace folio
