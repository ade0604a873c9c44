#include "folio/text/bpe_tokenizer.h"

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "folio/base/machine.h"
#include "folio/io/file.h"
#include "folio/io/guarded_directory.h"
#include "folio/text/bpe_encoder.h"
#include "folio/text/bpe_model.h"
#include "folio/text/special_tokens.h"
#include "folio/text/split.h"
#include "folio/text/tokenizer_file.h"
#include "folio/text/vocab_files.h"

namespace folio {
namespace {

// Gives the scratch memory back when done.
class Borrowed {
 public:
  explicit Borrowed(const BpeModel& model) : model_(model), scratch_(model.Borrow()) {}
  ~Borrowed() { model_.Return(scratch_); }
  Borrowed(const Borrowed&) = delete;
  Borrowed& operator=(const Borrowed&) = delete;
  EncodeScratch& operator*() const { return *scratch_; }

 private:
  const BpeModel& model_;
  EncodeScratch* scratch_;
};

}  // namespace

BpeTokenizer::BpeTokenizer(BpeVocab vocab) : model_(std::make_unique<BpeModel>(std::move(vocab))) {}

BpeTokenizer::~BpeTokenizer() = default;

const BpeVocab& BpeTokenizer::vocab() const {
  return model_->vocab();
}

int64_t BpeTokenizer::vocab_size() const {
  return model_->vocab_size();
}

size_t BpeTokenizer::EncodePrefix(std::string_view text, std::vector<int32_t>& ids) const {
  return EncodeText(*model_, *Borrowed(*model_), text, true, ids);
}

size_t BpeTokenizer::EncodeDecided(std::string_view text, std::vector<int32_t>& ids) const {
  return EncodeText(*model_, *Borrowed(*model_), text, false, ids);
}

size_t BpeTokenizer::FindCut(std::string_view text, size_t at) const {
  return folio::FindCut(text, at);
}

std::string_view BpeTokenizer::TokenBytes(int32_t id) const {
  CheckId(id);
  return vocab().tokens[static_cast<size_t>(id)];
}

std::string BpeTokenizer::Decode(std::span<const int32_t> ids) const {
  constexpr size_t kBuffer = 1 << 14;
  const BpeModel::ShortToken* tokens = model_->short_tokens();
  const auto size = static_cast<uint64_t>(vocab_size());
  std::string out;
  out.reserve(ids.size() * 4);
  AdviseLargePages(out.data(), out.capacity());
  char buffer[kBuffer + sizeof(BpeModel::ShortToken)];
  size_t used = 0;
  for (const int32_t id : ids) {
    if (static_cast<uint32_t>(id) >= size) [[unlikely]]
      CheckId(id);
    const BpeModel::ShortToken& token = tokens[id];
    if (used >= kBuffer || token.length == BpeModel::kLongToken) [[unlikely]] {
      out.append(buffer, used);
      used = 0;
      if (token.length == BpeModel::kLongToken) {
        out += vocab().tokens[static_cast<size_t>(id)];
        continue;
      }
    }
    std::memcpy(buffer + used, &token, sizeof(token));
    used += token.length;
  }
  out.append(buffer, used);
  return out;
}

std::optional<int32_t> BpeTokenizer::end_of_text() const {
  return FindEndOfText(vocab().specials);
}

std::span<const SpecialToken> BpeTokenizer::special_tokens() const {
  return vocab().specials;
}

std::unique_ptr<Tokenizer> BpeTokenizer::WithSpecials(std::span<const std::string> texts) const {
  BpeVocab more = vocab();
  more.name = "";  // no longer the published one
  for (SpecialToken& special : NumberSpecials(texts, vocab_size())) {
    more.tokens.Add(special.text);
    more.specials.push_back(std::move(special));
  }
  return std::make_unique<BpeTokenizer>(std::move(more));
}

std::string BpeTokenizer::FileContents() const {
  return TokenizerJson(vocab());
}

void BpeTokenizer::Save(const std::string& dir) const {
  const GuardedDirectory inside(dir);
  Tokenizer::Save(dir);
  WriteFileAtomically(std::filesystem::path(dir) / kVocabFile, VocabJson(vocab()));
  WriteFileAtomically(std::filesystem::path(dir) / kMergesFile, MergesTxt(vocab()));
}

std::vector<BpeTokenizer::MergeStep> BpeTokenizer::Explain(std::string_view pretoken) const {
  std::vector<int32_t> symbols;
  for (const char byte : pretoken)
    symbols.push_back(model_->byte_id(static_cast<unsigned char>(byte)));
  std::vector<MergeStep> steps;
  while (true) {
    uint32_t best = PairTable::kNone;
    size_t at = 0;
    for (size_t i = 0; i + 1 < symbols.size(); ++i) {
      const uint32_t rank = model_->pairs().Rank(symbols[i], symbols[i + 1]);
      if (rank >= best) continue;
      best = rank;
      at = i;
    }
    if (best == PairTable::kNone) return steps;
    steps.push_back({symbols, at, model_->merged(best), static_cast<int32_t>(best)});
    symbols[at] = model_->merged(best);
    symbols.erase(symbols.begin() + static_cast<ptrdiff_t>(at) + 1);
  }
}

}  // namespace folio
