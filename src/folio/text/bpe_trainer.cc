#include "folio/text/bpe_trainer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <optional>
#include <set>
#include <utility>

#include "folio/base/check.h"
#include "folio/base/error.h"
#include "folio/base/utf8.h"
#include "folio/text/pair_merger.h"
#include "folio/text/pretoken_counter.h"

namespace folio {
namespace {

constexpr int64_t kBytes = 256;

void CheckSpecials(const std::vector<std::string>& specials) {
  std::set<std::string_view> seen;
  for (const std::string& special : specials) {
    if (special.size() < 2) {
      throw UsageError(fmt::format("special token '{}': too short", special),
                       "single bytes are already tokens", "use two bytes or more");
    }
    if (FindInvalidUtf8(special) != std::string_view::npos) {
      throw UsageError(fmt::format("special token '{}': not UTF-8", ReplaceInvalidUtf8(special)),
                       "tokenizer files cannot store it", "use valid UTF-8");
    }
    if (!seen.insert(special).second) {
      throw UsageError(fmt::format("special token '{}': given twice", special), "",
                       "give each special token once");
    }
  }
}

void CheckOptions(const BpeTrainerOptions& options) {
  CheckSpecials(options.specials);
  const int64_t least = kBytes + static_cast<int64_t>(options.specials.size());
  if (options.vocab_size < least || options.vocab_size > kMaxVocabIds) {
    throw UsageError(fmt::format("invalid vocabulary size {}", options.vocab_size),
                     fmt::format("expected {} (256 bytes and {} special tokens) to {}", least,
                                 options.specials.size(), kMaxVocabIds),
                     "choose another vocabulary size");
  }
  if (options.min_count < 1) {
    throw UsageError(fmt::format("the minimum count {} is out of range", options.min_count),
                     "expected 1 or more", "use 1 to merge all pairs");
  }
}

// Bytes by initial symbol.
std::array<uint8_t, 256> ByteOrder(BpeTrainerOptions::Bytes bytes) {
  if (bytes == BpeTrainerOptions::Bytes::kGpt2) return Gpt2ByteOrder();
  std::array<uint8_t, 256> order;
  std::iota(order.begin(), order.end(), uint8_t{0});
  return order;
}

// The growing vocabulary: symbols are ids minus the special tokens in front.
class Learner {
 public:
  explicit Learner(const BpeTrainerOptions& options)
      : options_(options),
        merges_wanted_(options.vocab_size - kBytes -
                       static_cast<int64_t>(options.specials.size())) {
    for (const uint8_t byte : ByteOrder(options.bytes)) {
      const char c = static_cast<char>(byte);
      symbols_.Add({&c, 1});
    }
  }

  std::array<int32_t, 256> SymbolOfByte() const {
    std::array<int32_t, 256> symbol_of;
    for (size_t i = 0; i < symbol_of.size(); ++i) {
      symbol_of[static_cast<uint8_t>(symbols_[i].front())] = static_cast<int32_t>(i);
    }
    return symbol_of;
  }

  void Learn(PairMerger& merger, const BpeTrainer::Progress& progress) {
    while (std::ssize(merges_) < merges_wanted_) {
      if (progress) progress(std::ssize(merges_), merges_wanted_);
      const std::optional<MergeCandidate> best = merger.Best();
      if (!best) break;
      const std::string bytes = std::string(symbols_[static_cast<size_t>(best->left)])
                                    .append(symbols_[static_cast<size_t>(best->right)]);
      if (std::ranges::find(options_.specials, bytes) != options_.specials.end()) continue;
      const auto merged = static_cast<int32_t>(symbols_.size());
      saved_ += merger.Merge(*best, merged);
      symbols_.Add(bytes);
      merges_.push_back({best->left, best->right, merged});
    }
    const int64_t done = std::ssize(merges_);
    if (progress) progress(done, done);
  }

  BpeVocab Finish() const {
    BpeVocab vocab;
    vocab.pattern = options_.pattern;
    if (options_.specials_first) AddSpecials(vocab);
    const auto offset = static_cast<int32_t>(vocab.tokens.size());
    for (size_t i = 0; i < symbols_.size(); ++i) vocab.tokens.Add(symbols_[i]);
    for (const BpeMerge& merge : merges_) {
      vocab.merges.push_back({merge.left + offset, merge.right + offset, merge.merged + offset});
    }
    if (!options_.specials_first) AddSpecials(vocab);
    return vocab;
  }

  int64_t max_symbols() const { return kBytes + merges_wanted_; }
  // How many fewer tokens than bytes the texts have.
  int64_t saved() const { return saved_; }

 private:
  void AddSpecials(BpeVocab& vocab) const {
    for (const std::string& special : options_.specials) {
      vocab.specials.push_back({special, static_cast<int32_t>(vocab.tokens.size())});
      vocab.tokens.Add(special);
    }
  }

  const BpeTrainerOptions& options_;
  int64_t merges_wanted_;
  ByteStrings symbols_;
  std::vector<BpeMerge> merges_;
  int64_t saved_ = 0;
};

}  // namespace

struct BpeTrainer::State {
  explicit State(const BpeTrainerOptions& from) : options(from), counter(from.pattern) {}

  BpeTrainerOptions options;
  PretokenCounter counter;
  int64_t pretokens = 0;
  int64_t distinct = 0;
  int64_t tokens = 0;  // the number of bytes until Train is done
  bool trained = false;
};

BpeTrainer::BpeTrainer(const BpeTrainerOptions& options) {
  CheckOptions(options);
  state_ = std::make_unique<State>(options);
}

BpeTrainer::~BpeTrainer() = default;

void BpeTrainer::AddText(std::string_view text) {
  FOLIO_CHECK(!state_->trained, "texts come before Train");
  state_->counter.AddText(text);
  state_->pretokens = state_->counter.pretokens();
  state_->tokens += std::ssize(text);
}

BpeVocab BpeTrainer::Train(const Progress& progress) {
  FOLIO_CHECK(!state_->trained, "a trainer trains once");
  state_->trained = true;
  std::vector<CountedPretokens> parts = state_->counter.Take();
  for (const CountedPretokens& part : parts) state_->distinct += std::ssize(part.counts);
  Learner learner(state_->options);
  PairMerger merger(TrainingText(std::move(parts), learner.SymbolOfByte()),
                    static_cast<size_t>(learner.max_symbols()), state_->options.min_count);
  learner.Learn(merger, progress);
  state_->tokens -= learner.saved();
  return learner.Finish();
}

int64_t BpeTrainer::pretokens() const {
  return state_->pretokens;
}

int64_t BpeTrainer::distinct_pretokens() const {
  return state_->distinct;
}

int64_t BpeTrainer::tokens() const {
  return state_->tokens;
}

}  // namespace folio
