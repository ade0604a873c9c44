#include "folio/text/bpe_tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "folio/base/machine.h"
#include "folio/base/thread_pool.h"
#include "folio/base/utf8.h"
#include "folio/io/file.h"
#include "folio/io/model_dir.h"
#include "folio/io/posix.h"
#include "folio/text/nfc.h"
#include "folio/text/tokenizer_json_writer.h"
#include "folio/text/unicode.h"

namespace folio {
namespace {

constexpr uint32_t kNoMerge = PairTable::kNone;

// True if NFC leaves the characters on both sides unchanged in every context.
bool StayAround(std::string_view text, size_t at) {
  const size_t before = CharacterBefore(text, at);
  const Utf8Char a = DecodeUtf8(text, before), b = DecodeUtf8(text, at);
  return a.status == Utf8Status::kValid && before + a.length == at && StaysInNfc(a.code) &&
         b.status == Utf8Status::kValid && StaysInNfc(b.code);
}

// Returns the scratch memory when it is destroyed.
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

BpeModel::BpeModel(BpeVocab vocab)
    : vocab_(std::move(vocab)),
      pattern_(vocab_.pattern),
      symbols_(vocab_),
      pairs_(symbols_.merges, symbols_.ranks) {
  const ByteStrings& tokens = vocab_.tokens;
  std::vector<bool> special = NotMerged(vocab_);
  for (const SpecialToken& token : vocab_.specials) special[static_cast<size_t>(token.id)] = true;

  merged_.reserve(symbols_.merges.size());
  rank_of_.assign(symbols_.bytes.size(), kNoMerge);
  for (size_t i = 0; i < symbols_.merges.size(); ++i) {
    const int32_t made = symbols_.merges[i].merged;
    uint32_t& rank = rank_of_[static_cast<size_t>(made)];
    rank = std::min(rank, symbols_.ranks[i]);
    if (symbols_.ranks[i] == merged_.size()) merged_.push_back(made);
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
    for (size_t i = 1; i < bytes.size(); ++i) {
      together_.set(size_t{static_cast<unsigned char>(bytes[i - 1])} << 8 |
                    static_cast<unsigned char>(bytes[i]));
    }
  }
  byte_pair_ranks_.resize(65536);
  for (size_t pair = 0; pair < byte_pair_ranks_.size(); ++pair) {
    byte_pair_ranks_[pair] =
        together_[pair] ? pairs_.Rank(symbols_.of_byte[pair >> 8], symbols_.of_byte[pair & 0xFF])
                        : kNoMerge;
  }
  if (pattern_ == SplitPattern::kWhole && SpacesBeginTokens(special)) {
    pattern_ = SplitPattern::kSpaceRuns;
  }
  proper_ = IsProper(special);
  FillCache(special);
}

BpeModel::~BpeModel() {
  for (auto& lent : scratch_) delete lent.load();
}

// Every token that merging makes, even temporarily, is a part of the text. So if no token has a
// space after something else, nothing ever merges across such a place, and merges on one side do
// not depend on the other side.
bool BpeModel::SpacesBeginTokens(const std::vector<bool>& special) const {
  for (size_t id = 0; id < vocab_.tokens.size(); ++id) {
    const std::string_view bytes = vocab_.tokens[id];
    const size_t first = bytes.find_first_not_of(' ');
    if (!special[id] && first != bytes.npos && bytes.find(' ', first) != bytes.npos) return false;
  }
  return true;
}

bool BpeModel::Made(size_t id) const {
  return rank_of_[id] != kNoMerge || vocab_.tokens[id].size() == 1;
}

bool BpeModel::IsProper(const std::vector<bool>& special) const {
  if (!vocab_.byte_tokens.empty() || vocab_.ranked_by_token) return false;
  if (vocab_.fuse_unknown && !all_tokens()) return false;
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

// Undoes the merges on both sides of the boundary, the last one first, and checks at each step
// whether the two neighbours there would have merged before either side went on. Of equal ranks the
// leftmost is merged first.
bool BpeModel::StayApart(int32_t left, int32_t right, uint32_t made) const {
  uint32_t left_ends = kNoMerge;  // rank of the merge that consumes `left`
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

bool BpeModel::Loses(std::string_view pretoken) const {
  if (!vocab_.partial || vocab_.unknown >= 0) return false;
  return std::ranges::any_of(
      pretoken, [&](char c) { return byte_id(static_cast<unsigned char>(c)) >= vocab_size(); });
}

std::string BpeModel::WithoutLost(std::string_view pretoken) const {
  std::string kept(pretoken);
  std::erase_if(kept,
                [&](char c) { return byte_id(static_cast<unsigned char>(c)) >= vocab_size(); });
  return kept;
}

void BpeModel::Expand(size_t first, std::vector<int32_t>& ids) const {
  const auto is_token = [&](int32_t symbol) { return symbol < vocab_size(); };
  const auto from = ids.begin() + static_cast<ptrdiff_t>(first);
  if (all_tokens() || std::all_of(from, ids.end(), is_token)) return;
  std::vector<int32_t> expanded;
  bool unknown = false;  // the byte before was unknown
  for (auto at = from; at != ids.end(); ++at) {
    if (is_token(*at)) {
      expanded.push_back(*at);
      unknown = false;
      continue;
    }
    if (unknown && vocab_.fuse_unknown) continue;
    const std::span<const int32_t> some = symbols_.StandsFor(static_cast<size_t>(*at));
    expanded.insert(expanded.end(), some.begin(), some.end());
    unknown = vocab_.byte_tokens.empty();
  }
  ids.erase(from, ids.end());
  ids.insert(ids.end(), expanded.begin(), expanded.end());
}

BpeTokenizer::BpeTokenizer(BpeVocab vocab)
    : model_(std::move(vocab)),
      spaced_(!model_.vocab().byte_tokens.empty()),
      added_(WithNormalizedTexts({model_.vocab().added.begin(), model_.vocab().added.end()},
                                 SpecialRule::Ordinary())) {}

// Normalizes the texts of tokens that are searched for in normalized text.
AddedTokens BpeTokenizer::WithNormalizedTexts(std::vector<AddedToken> tokens,
                                              const SpecialRule& rule) const {
  std::erase_if(tokens, [&](const AddedToken& token) {
    return token.special && !rule.allow_all && !std::ranges::count(rule.allow, token.text);
  });
  std::string storage;
  for (AddedToken& token : tokens) {
    if (token.normalized) token.text = Normalized(token.text, storage);
  }
  return AddedTokens(tokens);
}

bool BpeTokenizer::whole_texts() const {
  return vocab().space_prefix != SpacePrefix::kNever ||
         std::ranges::any_of(vocab().added, [](const AddedToken& token) {
           return token.left_strip || token.right_strip || token.single_word || token.normalized;
         });
}

std::string_view BpeTokenizer::Normalized(std::string_view text, std::string& storage) const {
  if (vocab().nfc && NfcPrefix(text) < text.size()) text = storage = Nfc(text);
  if (!spaced_) return text;
  const bool prefix = vocab().space_prefix == SpacePrefix::kEach && !text.empty();
  size_t mark = text.find(kSpaceMark);
  if (!prefix && mark == text.npos) return text;
  std::string spaced(prefix ? 1 : 0, ' ');
  size_t at = 0;
  for (; mark != text.npos; mark = text.find(kSpaceMark, at)) {
    spaced.append(text, at, mark - at) += ' ';
    at = mark + kSpaceMark.size();
  }
  spaced.append(text, at);
  storage = std::move(spaced);
  return storage;
}

// `first`: the text begins with this piece.
void BpeTokenizer::EncodePiece(std::string_view piece, bool first,
                               std::vector<int32_t>& ids) const {
  const SpacePrefix rule = vocab().space_prefix;
  const bool prefix =
      !piece.starts_with(' ') &&
      (rule == SpacePrefix::kEachUnlessThere || (rule == SpacePrefix::kFirstUnlessThere && first));
  if (!prefix) {
    EncodeText(model_, *Borrowed(model_), piece, true, ids);
    return;
  }
  std::string spaced(1, ' ');
  spaced += piece;
  EncodeText(model_, *Borrowed(model_), spaced, true, ids);
}

void BpeTokenizer::EncodeAll(const AddedTokens& added, std::string_view text,
                             std::vector<int32_t>& ids, const TokenGuard& guard) const {
  std::string storage;
  AddedTokens::Guard here;
  if (guard) {
    here = [&](const AddedToken& token, size_t begin, size_t end) {
      return guard(token.text, token.special, begin, end);
    };
  }
  for (const AddedTokens::Part& part : added.Cut(text, /*normalized=*/false, here)) {
    if (part.token != nullptr) {
      ids.push_back(part.token->id);
      continue;
    }
    const std::string_view normal =
        Normalized(text.substr(part.begin, part.end - part.begin), storage);
    // If normalizing did more than prepend something, positions in the text are not known.
    AddedTokens::Guard there;
    if (guard) {
      const bool known = normal.ends_with(text.substr(part.begin, part.end - part.begin));
      const size_t put = known ? normal.size() - (part.end - part.begin) : 0;
      there = [&, known, put](const AddedToken& token, size_t begin, size_t end) {
        if (!known) return guard(token.text, token.special, part.begin, part.end);
        return guard(token.text, token.special, part.begin + std::max(begin, put) - put,
                     part.begin + std::max(end, put) - put);
      };
    }
    for (const AddedTokens::Part& piece : added.Cut(normal, /*normalized=*/true, there)) {
      if (piece.token != nullptr) {
        ids.push_back(piece.token->id);
      } else {
        EncodePiece(normal.substr(piece.begin, piece.end - piece.begin),
                    part.begin == 0 && piece.begin == 0, ids);
      }
    }
  }
}

size_t BpeTokenizer::EncodePrefix(std::string_view text, std::vector<int32_t>& ids) const {
  if (plain()) return EncodeText(model_, *Borrowed(model_), text, true, ids);
  EncodeAll(added_, text, ids);
  return text.size();
}

size_t BpeTokenizer::EncodeDecided(std::string_view text, std::vector<int32_t>& ids) const {
  if (plain()) return EncodeText(model_, *Borrowed(model_), text, false, ids);
  // Up to the last cut, which is searched for from further and further back.
  text = text.substr(0, CompleteUtf8Prefix(text));
  size_t decided = 0;
  for (size_t back = 64; decided == 0; back *= 16) {
    const size_t from = text.size() - std::min(back, text.size());
    for (size_t cut = FindCut(text, from); cut < text.size(); cut = FindCut(text, cut + 1)) {
      decided = cut;
    }
    if (from == 0) break;
  }
  EncodeAll(added_, text.substr(0, decided), ids);
  return decided;
}

void BpeTokenizer::EncodeAllowed(std::string_view text, const SpecialRule& rule,
                                 std::vector<int32_t>& ids, std::string_view where) const {
  if (plain()) {
    Tokenizer::EncodeAllowed(text, rule, ids, where);
    return;
  }
  EncodeAll(WithNormalizedTexts(AllAdded(vocab()), rule), text, ids);
}

void BpeTokenizer::EncodeGuarded(std::string_view text, const TokenGuard& guard,
                                 std::string_view where, std::vector<int32_t>& ids) const {
  if (plain()) return Tokenizer::EncodeGuarded(text, guard, where, ids);
  EncodeAll(WithNormalizedTexts(AllAdded(vocab()), SpecialRule::Allow()), text, ids, guard);
}

size_t BpeTokenizer::FindCut(std::string_view text, size_t at) const {
  if (plain()) return folio::FindCut(text, at);
  if (whole_texts()) return text.size();
  for (;; ++at) {
    at = spaced_ ? FindSpaceCut(text, at) : folio::FindCut(text, at);
    if (at >= text.size()) return text.size();
    if (added_.MayCut(text, at) && (!vocab().nfc || StayAround(text, at))) return at;
  }
}

// Finds a space behind something that is neither a space nor counts as one.
size_t BpeTokenizer::FindSpaceCut(std::string_view text, size_t at) const {
  if (model_.pattern() == SplitPattern::kWhole) return text.size();
  for (at = text.find(' ', std::max<size_t>(at, 1)); at != text.npos; at = text.find(' ', at + 1)) {
    const std::string_view before = text.substr(0, at);
    if (!before.ends_with(' ') && !before.ends_with(kSpaceMark)) return at;
  }
  return text.size();
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

std::unique_ptr<Tokenizer> OfKnownTokens(const Tokenizer& tokenizer) {
  const int64_t known = tokenizer.known_tokens();
  const auto refuse = [&](std::string cause) {
    return InputError("the tokenizer needs tokens that the model does not have", std::move(cause),
                      "convert to hf instead");
  };
  const auto* const bpe = dynamic_cast<const BpeTokenizer*>(&tokenizer);
  if (bpe == nullptr) throw refuse(fmt::format("its kind is {}", tokenizer.kind()));
  const auto unknown = [&](int32_t id) { return id >= known; };
  BpeVocab vocab = bpe->vocab();
  vocab.name = "";       // no longer the published one
  int64_t size = known;  // so that the last id is used
  while (size > 0 && vocab.tokens[static_cast<size_t>(size - 1)].empty()) --size;
  vocab.tokens = {};
  for (int32_t id = 0; id < size; ++id) vocab.tokens.Add(tokenizer.TokenBytes(id));
  std::erase_if(vocab.specials, [&](const SpecialToken& one) { return unknown(one.id); });
  std::erase_if(vocab.added, [&](const AddedToken& one) { return unknown(one.id); });
  std::erase_if(vocab.merges, [&](const BpeMerge& merge) {
    if ((unknown(merge.left) || unknown(merge.right)) && !unknown(merge.merged)) {
      throw refuse(fmt::format("token {} is merged from one of them", merge.merged));
    }
    return unknown(merge.merged);
  });
  const auto any_unknown = [&](const std::vector<int32_t>& ids) {
    return std::ranges::any_of(ids, unknown);
  };
  if (any_unknown(vocab.before) || any_unknown(vocab.behind) || any_unknown(vocab.byte_tokens) ||
      unknown(vocab.unknown)) {
    throw refuse("one of them represents bytes, or begins or ends texts");
  }
  auto without = std::make_unique<BpeTokenizer>(std::move(vocab));
  without->set_chat_source(tokenizer.chat_source());
  return without;
}

std::string BpeTokenizer::FileContents() const {
  return TokenizerJson(vocab());
}

void BpeTokenizer::Save(const std::string& dir) const {
  const GuardedDirectory inside(dir);
  Tokenizer::Save(dir);
  if (!plain()) return;  // these two files cannot express the rest
  WriteFileAtomically(std::filesystem::path(dir) / kVocabFile, VocabJson(vocab()));
  WriteFileAtomically(std::filesystem::path(dir) / kMergesFile, MergesTxt(vocab()));
}

bool BpeTokenizer::AllTokens(std::string_view pretoken) const {
  return model_.vocab().byte_tokens.empty() && std::ranges::all_of(pretoken, [&](char c) {
           return model_.byte_id(static_cast<unsigned char>(c)) < vocab_size();
         });
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
      const bool cut = bpe != nullptr && bpe->plain();
      const size_t end = cut ? NextPretoken(bpe->vocab().pattern, before, at) : before.size();
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
    } else if (bpe != nullptr && bpe->plain()) {
      ExplainedPretoken pretoken{.bytes = bytes, .too_long = bytes.size() > kLongestShown};
      if (!pretoken.too_long) pretoken.merges = bpe->Explain(bytes);
      // Merges with symbols that are no tokens are not shown.
      if (!bpe->AllTokens(bytes)) pretoken.merges.clear();
      bpe->EncodePrefix(bytes, pretoken.ids);
      on_pretoken(pretoken);
    } else {
      // These are not parts of the text if the tokenizer changes it.
      for (const int32_t id : tokenizer.EncodeOrdinary(bytes, where)) {
        on_pretoken({.bytes = tokenizer.TokenBytes(id), .ids = {id}});
      }
    }
  });
}

}  // namespace folio
