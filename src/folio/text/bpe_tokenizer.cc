#include "folio/text/bpe_tokenizer.h"

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "folio/base/machine.h"
#include "folio/base/thread_pool.h"
#include "folio/io/file.h"
#include "folio/io/posix.h"
#include "folio/text/bpe_encoder.h"
#include "folio/text/special_tokens.h"
#include "folio/text/split.h"
#include "folio/text/tokenizer_file.h"
#include "folio/text/vocab_files.h"

namespace folio {
namespace {

constexpr uint32_t kNoMerge = PairTable::kNone;

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

BpeModel::BpeModel(BpeVocab vocab) : vocab_(std::move(vocab)), pairs_(vocab_.merges) {
  const ByteStrings& tokens = vocab_.tokens;
  std::vector<bool> special(tokens.size());
  for (const SpecialToken& token : vocab_.specials) special[static_cast<size_t>(token.id)] = true;

  merged_.reserve(vocab_.merges.size());
  rank_of_.assign(tokens.size(), kNoMerge);
  for (const BpeMerge& merge : vocab_.merges) {
    uint32_t& rank = rank_of_[static_cast<size_t>(merge.merged)];
    rank = std::min(rank, static_cast<uint32_t>(merged_.size()));
    merged_.push_back(merge.merged);
  }
  short_tokens_.resize(tokens.size());
  for (size_t id = 0; id < tokens.size(); ++id) {
    const std::string_view bytes = tokens[id];
    ShortToken& token = short_tokens_[id];
    token.length =
        bytes.size() <= sizeof(token.bytes) ? static_cast<unsigned char>(bytes.size()) : kLongToken;
    std::copy_n(bytes.data(), std::min(bytes.size(), sizeof(token.bytes)), token.bytes);
    if (special[id]) continue;
    longest_token_ = std::max(longest_token_, bytes.size());
    if (bytes.size() == 1)
      byte_ids_[static_cast<unsigned char>(bytes[0])] = static_cast<int32_t>(id);
    for (size_t i = 1; i < bytes.size(); ++i) {
      together_.set(size_t{static_cast<unsigned char>(bytes[i - 1])} << 8 |
                    static_cast<unsigned char>(bytes[i]));
    }
  }
  byte_pair_ranks_.resize(65536);
  for (size_t pair = 0; pair < byte_pair_ranks_.size(); ++pair) {
    byte_pair_ranks_[pair] =
        together_[pair] ? pairs_.Rank(byte_ids_[pair >> 8], byte_ids_[pair & 0xFF]) : kNoMerge;
  }
  proper_ = IsProper(special);
  FillCache(special);
}

BpeModel::~BpeModel() {
  for (auto& lent : scratch_) delete lent.load();
}

bool BpeModel::Made(size_t id) const {
  return rank_of_[id] != kNoMerge || vocab_.tokens[id].size() == 1;
}

bool BpeModel::IsProper(const std::vector<bool>& special) const {
  for (size_t id = 0; vocab_.whole_pretokens && id < rank_of_.size(); ++id) {
    if (!Made(id) && !special[id] && !vocab_.tokens[id].empty()) return false;
  }
  for (uint32_t rank = 0; rank < merged_.size(); ++rank) {
    const BpeMerge& merge = vocab_.merges[rank];
    if (rank_of_[static_cast<size_t>(merge.merged)] != rank) return false;
    for (const int32_t half : {merge.left, merge.right}) {
      const uint32_t made = rank_of_[static_cast<size_t>(half)];
      if (!Made(static_cast<size_t>(half)) || (made != kNoMerge && made >= rank)) return false;
    }
    if (!StayApart(merge.left, merge.right, rank)) return false;
  }
  return true;
}

// Undoes the merges on both sides of the boundary, the last one first, and looks whether the two
// that were neighbours at some time would have merged then: before either side went on. Of equal
// ranks the leftmost is merged first.
bool BpeModel::StayApart(int32_t left, int32_t right, uint32_t made) const {
  uint32_t left_ends = kNoMerge;  // the rank of the merge that takes `left` away
  uint32_t right_ends = kNoMerge;
  while (true) {
    const uint32_t rank = pairs_.Rank(left, right);
    if (rank != kNoMerge && rank != made && rank < left_ends && rank <= right_ends) return false;
    const uint32_t left_made = rank_of_[static_cast<size_t>(left)];
    const uint32_t right_made = rank_of_[static_cast<size_t>(right)];
    if (left_made == kNoMerge && right_made == kNoMerge) return true;
    if (right_made == kNoMerge || (left_made != kNoMerge && left_made > right_made)) {
      left_ends = left_made;
      left = vocab_.merges[left_made].right;
    } else {
      right_ends = right_made;
      right = vocab_.merges[right_made].left;
    }
  }
}

void BpeModel::FillCache(const std::vector<bool>& special) {
  size_t lines = 64;
  const ByteStrings& tokens = vocab_.tokens;
  const bool seeded = proper_ || vocab_.whole_pretokens;
  while (seeded && lines < tokens.size()) lines *= 2;
  tokens_cache_ = std::make_unique<PretokenCache>(lines, narrow());
  if (!seeded) return;
  for (size_t id = 0; id < tokens.size(); ++id) {
    const std::string_view bytes = tokens[id];
    const auto token = static_cast<int32_t>(id);
    if (bytes.empty() || special[id] || (!Made(id) && !vocab_.whole_pretokens)) continue;
    if (bytes.size() <= PretokenKey::kMaxBytes) {
      const PretokenKey key = PretokenKey::Of(bytes);
      tokens_cache_->Insert(key, key.Hash(), {&token, 1});
    }
    if (!proper_) whole_tokens_.emplace(bytes, token);
  }
}

int32_t BpeModel::FindWhole(std::string_view pretoken) const {
  const auto found = whole_tokens_.find(pretoken);
  return found == whole_tokens_.end() ? -1 : found->second;
}

EncodeScratch* BpeModel::Borrow() const {
  for (auto& lent : scratch_) {
    if (EncodeScratch* scratch = lent.exchange(nullptr, std::memory_order_acquire)) return scratch;
  }
  auto* scratch = new EncodeScratch;
  const size_t most = std::min<size_t>(kLent, static_cast<size_t>(Threads()));
  for (size_t count = with_caches_; count < most && !scratch->has_caches;) {
    scratch->has_caches = with_caches_.compare_exchange_weak(count, count + 1);
  }
  return scratch;
}

void BpeModel::Return(EncodeScratch* scratch) const {
  for (auto& lent : scratch_) {
    if (!scratch->has_caches) break;
    EncodeScratch* expected = nullptr;
    if (lent.compare_exchange_strong(expected, scratch, std::memory_order_release,
                                     std::memory_order_relaxed)) {
      return;
    }
  }
  delete scratch;
}

size_t BpeTokenizer::EncodePrefix(std::string_view text, std::vector<int32_t>& ids) const {
  return EncodeText(model_, *Borrowed(model_), text, true, ids);
}

size_t BpeTokenizer::EncodeDecided(std::string_view text, std::vector<int32_t>& ids) const {
  return EncodeText(model_, *Borrowed(model_), text, false, ids);
}

std::string_view BpeTokenizer::TokenBytes(int32_t id) const {
  CheckId(id);
  return vocab().tokens[static_cast<size_t>(id)];
}

std::string BpeTokenizer::Decode(std::span<const int32_t> ids) const {
  constexpr size_t kBuffer = 1 << 14;
  const BpeModel::ShortToken* tokens = model_.short_tokens();
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
  for (const char c : pretoken) symbols.push_back(model_.byte_id(static_cast<unsigned char>(c)));
  std::vector<MergeStep> steps;
  while (true) {
    uint32_t best = PairTable::kNone;
    size_t at = 0;
    for (size_t i = 0; i + 1 < symbols.size(); ++i) {
      const uint32_t rank = model_.pairs().Rank(symbols[i], symbols[i + 1]);
      if (rank >= best) continue;
      best = rank;
      at = i;
    }
    if (best == PairTable::kNone) return steps;
    steps.push_back({symbols, at, model_.merged(best), static_cast<int32_t>(best)});
    symbols[at] = model_.merged(best);
    symbols.erase(symbols.begin() + static_cast<ptrdiff_t>(at) + 1);
  }
}

void ForEachPretoken(
    const Tokenizer& tokenizer, std::string_view text, const SpecialRule& rule,
    const std::function<void(std::string_view bytes, const SpecialToken* special)>& on_pretoken) {
  const auto* bpe = dynamic_cast<const BpeTokenizer*>(&tokenizer);
  const SpecialFinder specials(tokenizer.special_tokens(), rule);
  for (size_t at = 0; at < text.size();) {
    const SpecialFinder::Match special = specials.Next(text, at);
    const std::string_view before =
        text.substr(0, special.token == nullptr ? text.size() : special.begin);
    while (at < before.size()) {
      const size_t end =
          bpe == nullptr ? before.size() : NextPretoken(bpe->vocab().pattern, before, at);
      on_pretoken(text.substr(at, end - at), nullptr);
      at = end;
    }
    if (special.token == nullptr) return;
    at = special.end();
    on_pretoken(text.substr(special.begin, at - special.begin), special.token);
  }
}

void ExplainText(const Tokenizer& tokenizer, std::string_view text, const SpecialRule& rule,
                 std::string_view where,
                 const std::function<void(const ExplainedPretoken&)>& on_pretoken) {
  const auto* bpe = dynamic_cast<const BpeTokenizer*>(&tokenizer);
  ForEachPretoken(tokenizer, text, rule, [&](std::string_view bytes, const SpecialToken* special) {
    if (special != nullptr) {
      on_pretoken({.bytes = bytes, .special = true, .ids = {special->id}});
    } else if (bpe != nullptr) {
      ExplainedPretoken pretoken{.bytes = bytes, .too_long = bytes.size() > kLongestShown};
      if (!pretoken.too_long) pretoken.merges = bpe->Explain(bytes);
      bpe->EncodePrefix(bytes, pretoken.ids);
      on_pretoken(pretoken);
    } else {
      size_t at = 0;
      for (const int32_t id : tokenizer.EncodeOrdinary(bytes, where)) {
        const size_t length = tokenizer.TokenBytes(id).size();
        on_pretoken({.bytes = bytes.substr(at, length), .ids = {id}});
        at += length;
      }
    }
  });
}

}  // namespace folio
