#include "folio/infer/decode_batch.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <list>
#include <utility>

#include "folio/base/clock.h"
#include "folio/base/error.h"
#include "folio/base/strings.h"
#include "folio/base/thread_pool.h"
#include "folio/infer/speculation.h"
#include "folio/model/config.h"
#include "folio/model/decoder.h"

namespace folio {
namespace {

// The number of tokens that a full context of P forgets.
int64_t StrideOf(const GenerateOptions& options, int64_t P) {
  const int64_t most = std::max<int64_t>(P - 1, 1);
  if (!options.stride) return std::clamp<int64_t>(P / 2, 1, most);
  if (*options.stride >= 1 && *options.stride <= most) return *options.stride;
  throw UsageError(fmt::format("stride: {} is not between 1 and {}", *options.stride, most),
                   fmt::format("it is the number of the {} context tokens to drop when the context "
                               "is full, and at least one must remain",
                               P));
}

// The number of tokens that are kept of a prompt that is too long.
int64_t KeptOf(const GenerateOptions& options, int64_t P) {
  return std::max<int64_t>(P - StrideOf(options, P), 1);
}

int64_t RequireTexts(int64_t texts) {
  constexpr int64_t kMost = int64_t{1} << 16;
  if (texts < 1 || texts > kMost) {
    throw UsageError(fmt::format("texts: {}", texts),
                     fmt::format("expected 1 to {} at once", WithCommas(kMost)));
  }
  return texts;
}

}  // namespace

enum class SequenceState {
  kWaiting,   // it is in no pass yet
  kPrefill,   // the model reads its prompt
  kDecoding,  // its first token was given out
  kFinished,  // on_end was called, and the cache holds nothing of it
};

// A text of a DecodeBatch: gives the tokens of the next pass, and chooses tokens by its logits.
class Sequence {
 public:
  // `decoder` must outlive it. Throws what CheckGeneration throws.
  Sequence(TextRequest request, Decoder& decoder)
      : request_(std::move(request)),
        sampler_(request_.options.sampling, request_.options.usable, request_.options.stop_tokens),
        cached_(decoder.cache()),
        P_(decoder.capacity()),
        tokens_(request_.prompt),
        read_(tokens_.size()) {
    const GenerateOptions& options = request_.options;
    const int64_t length = std::ssize(tokens_), seen = PromptTokensSeen(length, options, P_);
    window_ = static_cast<size_t>(length - seen);
    stats_ = {.prompt_tokens = seen, .dropped = length - seen, .stride = StrideOf(options, P_)};
    const int64_t room = P_ - seen;
    most_pages_ = decoder.cache().PagesOf(seen + std::clamp<int64_t>(options.max_tokens, 0, room));
  }

  bool finished() const { return state_ == SequenceState::kFinished; }
  int64_t most_pages() const { return most_pages_; }  // that it will ever have
  // Pages that it may still take.
  int64_t missing_pages() const { return most_pages_ - std::ssize(cached_.pages()); }

  // Begins with the pages of the cache that have the prompt, or continues after those it has kept.
  void Join() {
    const bool begins = state_ == SequenceState::kWaiting;
    if (begins) {
      begin_ = SteadySeconds();
      state_ = SequenceState::kPrefill;
    }
    if (observed() || cached_.size() > 0) return;
    const std::span<const int32_t> ids = pending().ids;
    cached_.Recall(ids.first(ids.size() - 1));  // logits come of the last
    if (begins) stats_.shared = cached_.size();
  }

  // Frees its pages: when it joins again, the model reads its tokens again.
  void Leave() {
    cached_.Clear();
    if (state_ == SequenceState::kPrefill) state_ = SequenceState::kWaiting;
  }
  bool holds_pages() const { return !cached_.pages().empty(); }

  // Ends the sequence if it is at its end, and slides if the context is full. Proposes tokens only
  // if it is `alone` in the next pass.
  void Prepare(bool alone) {
    alone_ = alone;
    if (EndReason()) return End();
    if (!decoding()) return;
    if (cached_.size() == P_) {
      Slide();
    } else if (alone && !slide_begin_ && request_.draft != nullptr && !rereads()) {
      Guess();
    }
  }

  // The tokens of the next pass, at least one; for proposals the logits of all of them are needed.
  // New tokens that were parked are read again in passes of few rows, as they were written, for the
  // same keys and values.
  SequencePiece pending() {
    if (!guesses_.empty()) return {&cached_, guessed_, /*every_row=*/true};
    const size_t seen = window_ + static_cast<size_t>(cached_.size());
    const size_t few = std::min({tokens_.size(), seen + static_cast<size_t>(Decoder::kFewRows),
                                 window_ + static_cast<size_t>(P_)});
    return {&cached_, std::span(tokens_).subspan(seen, (seen < read_ ? read_ : few) - seen)};
  }
  // Returns true if the model has to see more tokens before the next one can be chosen.
  bool behind() const { return window_ + static_cast<size_t>(cached_.size()) < tokens_.size(); }

  // Chooses the tokens after pending() by the logits of a pass that took so long. Sequences may do
  // so on different threads at the same time; exceptions are thrown by HandOut.
  void Choose(const Tensor& logits, double pass_seconds) {
    const bool begun = decoding(), slid = slide_begin_.has_value();
    if (slid) stats_.slide_seconds += SteadySeconds() - *std::exchange(slide_begin_, {});
    if (!begun) stats_.prompt_seconds = seconds();
    if (begun) ++stats_.passes;
    const auto proposed = std::ssize(guesses_);
    try {
      ChooseAll(logits);
    } catch (...) {
      error_ = std::current_exception();
      return;
    }
    const int64_t accepted = std::ssize(chosen_) - 1;
    stats_.tokens = written_ + accepted;
    stats_.seconds = seconds() - stats_.prompt_seconds;
    if (request_.draft == nullptr || !alone_ || !begun || slid) return;
    stats_.proposed += proposed;
    stats_.accepted += accepted;
    speculation_.Record(proposed, accepted, guess_seconds_, pass_seconds);
  }

  // Calls on_token for the chosen tokens, up to the end of the sequence.
  void HandOut() {
    if (error_) std::rethrow_exception(error_);
    for (const NewToken& token : chosen_) {
      stopped_ = std::ranges::count(request_.options.stop_tokens, token.id) > 0;
      if (!stopped_) {
        state_ = SequenceState::kDecoding;
        ++written_;
        cancelled_ = !request_.on_token(token);
      }
      if (finished()) return;
      if (stopped_ || cancelled_) return End();
    }
  }

  // Returns true while the prompt is read in passes of its own, after which Observe is called.
  bool observed() const {
    return state_ < SequenceState::kDecoding &&
           (request_.on_norm != nullptr || request_.on_logits != nullptr);
  }
  void Observe(Decoder& decoder) {
    const Tensor norm = decoder.norm();
    const int64_t rows = norm.dim(0),
                  before = static_cast<int64_t>(window_) + cached_.size() - rows;
    if (before < observed_) return;  // on_norm was already called for it
    observed_ = before + rows;
    if (request_.on_norm) request_.on_norm(before, HostCopy(norm).tensor());
    if (!request_.on_logits) return;
    const int64_t wanted = std::max<int64_t>(request_.logits_from - before, 0);
    for (int64_t row = wanted; row < rows; row += Decoder::kFewRows) {
      const int64_t end = std::min(rows, row + Decoder::kFewRows);
      request_.on_logits(before + row, decoder.LogitsOf(row, end));
    }
  }

  // Calls on_read after a pass over a part of the prompt.
  void ReportRead() const {
    if (decoding() || !request_.on_read) return;
    request_.on_read(cached_.size(), std::ssize(tokens_) - static_cast<int64_t>(window_));
  }

  // The reason why the sequence is at its end; nothing if it continues. Stop strings alone are
  // found elsewhere, by TextStreamer.
  std::optional<FinishReason> EndReason() const {
    if (cancelled_) return FinishReason::kCancelled;
    if (stopped_) return FinishReason::kStop;
    const size_t seen = window_ + static_cast<size_t>(cached_.size());
    const bool to_observe = observed() && seen < tokens_.size();
    if (!wants_tokens() && !to_observe) return FinishReason::kLength;
    const bool full = decoding() && cached_.size() == P_;
    if (full && request_.options.when_full == WhenFull::kStop) return FinishReason::kContext;
    return {};
  }

  void Cancel() {
    cancelled_ = true;
    End();
  }

  // REQUIRES: EndReason().
  void End() {
    const FinishReason reason = *EndReason();
    state_ = SequenceState::kFinished;
    cached_.Clear();
    if (const auto on_end = std::exchange(request_.on_end, {})) on_end(reason, stats_);
  }

 private:
  void Slide() {
    const int64_t kept = P_ - stats_.stride;
    slide_begin_ = SteadySeconds();
    cached_.Clear();
    window_ = tokens_.size() - static_cast<size_t>(kept) - 1;
    read_ = tokens_.size();
    ++stats_.slides;
    stats_.reread += kept;
  }

  void Guess() {
    const int64_t room = std::min(P_ - cached_.size(), request_.options.max_tokens - written_) - 1;
    const int64_t count = std::min(speculation_.Next(), room);
    guess_seconds_ = SecondsOf([&] {
      guesses_.clear();
      if (count > 0) request_.draft->Propose(tokens_, count, guesses_);
    });
    if (guesses_.empty()) return;
    guessed_ = {tokens_.back()};
    guessed_.insert(guessed_.end(), guesses_.begin(), guesses_.end());
  }

  // Accepts proposals as long as they are the tokens that are chosen in their places.
  void ChooseAll(const Tensor& logits) {
    const GenerateOptions& options = request_.options;
    const auto V = static_cast<size_t>(logits.dim(1));
    const int64_t seen = cached_.size() - std::ssize(guesses_);
    chosen_.clear();
    for (size_t i = 0;; ++i) {
      const std::span<const float> row(logits.host<float>() + i * V, V);
      RequireFiniteLogits(row);
      NewToken token{sampler_.Sample(row, request_.rng_stream, static_cast<uint64_t>(written_) + i,
                                     {.tokens = tokens_, .prompt_tokens = request_.prompt.size()})};
      token.chance = sampler_.chance();
      token.seen = seen + static_cast<int64_t>(i);
      if (options.likeliest) {
        token.probabilities = ProbabilitiesOf(row, token.id, *options.likeliest);
      }
      tokens_.push_back(token.id);
      chosen_.push_back(std::move(token));
      const bool ends = std::ranges::count(options.stop_tokens, tokens_.back()) > 0;
      if (ends || i == guesses_.size() || guesses_[i] != tokens_.back()) break;
    }
    guesses_.clear();
    cached_.Truncate(seen + std::ssize(chosen_) - 1);
  }

  bool decoding() const { return state_ == SequenceState::kDecoding; }
  // Returns true if more than its last token must be read, because it was parked without its pages.
  bool rereads() const {
    return window_ + static_cast<size_t>(cached_.size()) + 1 < tokens_.size();
  }
  bool wants_tokens() const { return written_ < request_.options.max_tokens; }
  double seconds() const { return SteadySeconds() - begin_; }  // since it began

  TextRequest request_;
  Sampler sampler_;
  CachedSequence cached_;
  SequenceState state_ = SequenceState::kWaiting;
  bool cancelled_ = false;
  bool stopped_ = false;  // a stop token was chosen
  int64_t P_, most_pages_;
  std::vector<int32_t> tokens_;  // prompt and text, all of it
  size_t window_ = 0;            // the first that the model sees
  size_t read_;                  // the end of those that are read in pages, not in few rows
  int64_t observed_ = 0;         // tokens of the prompt for which on_norm was called
  int64_t written_ = 0;
  std::vector<int32_t> guesses_ = {}, guessed_ = {};  // the second with the last token before them
  Speculation speculation_ = {};
  double guess_seconds_ = 0;
  bool alone_ = false;
  std::vector<NewToken> chosen_ = {};
  std::exception_ptr error_ = {};
  double begin_ = 0;
  std::optional<double> slide_begin_ = {};
  GenerateStats stats_;
};

int64_t PromptTokensSeen(int64_t length, const GenerateOptions& options, int64_t P) {
  return length <= P ? length : KeptOf(options, P);
}

void CheckGeneration(std::span<const int32_t> prompt, const GenerateOptions& options, int64_t P,
                     int64_t V, const std::string& name) {
  if (prompt.empty()) {
    throw UsageError(fmt::format("{} has no tokens", name), "a text needs at least one",
                     "start with the end-of-text token");
  }
  RequireTokens(prompt, V, name);
  if (!options.stop_strings.empty()) {
    throw UsageError("stop strings need text, not tokens", "TextStreamer handles stop strings",
                     "pass the options to TextStreamer, and ForTokens(options) to the model");
  }
  if (options.max_tokens < 0 || options.likeliest.value_or(0) < 0) {
    throw UsageError(fmt::format("negative number of tokens: max_tokens {}, likeliest {}",
                                 options.max_tokens, options.likeliest.value_or(0)));
  }
  CheckSampling(options.sampling, V);
  const int64_t kept = KeptOf(options, P), length = std::ssize(prompt);
  if (length <= P || options.truncate) return;
  throw UsageError(fmt::format("{} is longer than the context: {} tokens of at most {}", name,
                               WithCommas(length), WithCommas(P)),
                   "it does not fit in the context of the model",
                   fmt::format("--truncate uses its last {} tokens", WithCommas(kept)));
}

class DecodeBatch::Impl {
 public:
  Impl(Backend& backend, const GptWeights& weights, const DecodeBatchOptions& options)
      : texts_(RequireTexts(options.texts)),
        config_(weights.config()),
        decoder_(
            backend, weights,
            {.cache = options.cache,
             .pages = options.pages > 0 ? options.pages
                                        : texts_ * KvCache::PagesOf(config_, config_.n_positions),
             .sequences = texts_}) {}

  const GptConfig& config() const { return config_; }
  int64_t context() const { return decoder_.capacity(); }

  Id Add(TextRequest request) {
    CheckGeneration(request.prompt, request.options, context(), config_.vocab_size);
    Sequence sequence(std::move(request), decoder_);
    const int64_t needed = sequence.most_pages(), R = decoder_.cache().page_tokens();
    if (needed > decoder_.cache().pages()) {
      throw UsageError(
          fmt::format("the text needs {} tokens in the KV cache, which has room for {}",
                      WithCommas(needed * R), WithCommas(decoder_.cache().pages() * R)),
          "prompt and new tokens do not fit in the cache", "use fewer tokens, or a larger cache");
    }
    waiting_.push_back({next_id_, std::move(sequence)});
    return next_id_++;
  }

  void Cancel(Id id) {
    if (const auto found = std::ranges::find(running_, id, &Entry::id); found != running_.end()) {
      if (!found->sequence.finished()) found->sequence.Cancel();
    }
    if (const auto found = std::ranges::find(waiting_, id, &Entry::id); found != waiting_.end()) {
      Sequence sequence = std::move(found->sequence);
      waiting_.erase(found);
      sequence.Cancel();
    }
  }

  void Park(Id id) {
    if (const auto found = std::ranges::find(waiting_, id, &Entry::id); found != waiting_.end()) {
      found->parked = true;
      return;
    }
    const auto found = std::ranges::find(running_, id, &Entry::id);
    if (found == running_.end() || found->sequence.finished()) return;
    found->parked = true;
    waiting_.splice(waiting_.end(), running_, found);
    // Layers with windows have pages for as many sequences again as run, and no more.
    const auto holds = [](const Entry& entry) { return entry.sequence.holds_pages(); };
    if (std::ranges::count_if(waiting_, holds) > texts_) LeaveLast(/*but=*/nullptr);
  }

  void Resume(Id id) {
    const auto found = std::ranges::find(waiting_, id, &Entry::id);
    if (found == waiting_.end()) return;
    found->parked = false;
    waiting_.splice(waiting_.end(), waiting_, found);
  }

  bool Step() {
    Admit();
    const bool alone = running_.size() == 1;
    std::vector<Sequence*> sequences;
    int64_t rows = 0;
    for (Entry& entry : running_) {
      Sequence& sequence = entry.sequence;
      if (!sequence.finished()) sequence.Prepare(alone);
      if (sequence.finished()) continue;
      const int64_t count = std::ssize(sequence.pending().ids);
      if (count > Decoder::kFewRows || sequence.observed()) continue;
      if (rows + count > Decoder::kFewRows) {
        RunRows(std::exchange(sequences, {}));
        rows = 0;
      }
      sequences.push_back(&sequence);
      rows += count;
    }
    RunRows(sequences);
    ReadPages();
    std::erase_if(running_, [](const Entry& entry) { return entry.sequence.finished(); });
    return !running_.empty() || waiting() > 0;
  }

  int64_t running() const { return std::ssize(running_); }
  int64_t waiting() const { return std::ranges::count(waiting_, false, &Entry::parked); }
  const KvCache& cache() const { return decoder_.cache(); }

 private:
  struct Entry {
    Id id;
    Sequence sequence;
    bool parked = false;
  };

  void Admit() {
    while (running() < texts_) {
      const auto next = std::ranges::find(waiting_, false, &Entry::parked);
      if (next == waiting_.end()) return;
      next->sequence.Join();
      while (next->sequence.missing_pages() > decoder_.cache().free_pages() - PromisedPages()) {
        if (LeaveLast(&*next)) continue;
        return next->sequence.Leave();
      }
      running_.splice(running_.end(), waiting_, next);
    }
  }

  // Frees the pages of the last waiting sequence that has any, except `but`. Returns false if there
  // is none.
  bool LeaveLast(const Entry* but) {
    for (auto entry = waiting_.rbegin(); entry != waiting_.rend(); ++entry) {
      if (&*entry == but || !entry->sequence.holds_pages()) continue;
      entry->sequence.Leave();
      return true;
    }
    return false;
  }

  // Returns the number of pages that running sequences have not taken yet.
  int64_t PromisedPages() {
    int64_t pages = 0;
    for (const Entry& entry : running_) {
      if (!entry.sequence.finished()) pages += entry.sequence.missing_pages();
    }
    return pages;
  }

  // The sequence whose prompt is read next: in turns the one that came first and the one with the
  // fewest tokens left, so that neither long nor short prompts delay the others.
  Sequence* NextToRead() {
    Sequence* next = nullptr;
    int64_t least = 0;
    for (Entry& entry : running_) {
      Sequence& sequence = entry.sequence;
      if (sequence.finished()) continue;
      const int64_t left = std::ssize(sequence.pending().ids);
      if (left <= Decoder::kFewRows && !sequence.observed()) continue;
      if (next != nullptr && (!shortest_first_ || left >= least)) continue;
      next = &sequence;
      least = left;
    }
    shortest_first_ = !shortest_first_;
    return next;
  }

  void ReadPages() {
    Sequence* const sequence = NextToRead();
    if (sequence == nullptr) return;
    const SequencePiece piece = sequence->pending();
    const bool observed = sequence->observed();
    const int64_t R = decoder_.cache().page_tokens(), room = R - piece.sequence->size() % R;
    const int64_t count = std::min<int64_t>(room, std::ssize(piece.ids));
    decoder_.Read(*piece.sequence, piece.ids.first(static_cast<size_t>(count)));
    if (observed) sequence->Observe(decoder_);
    sequence->ReportRead();
    if (sequence->behind()) return;
    if (sequence->EndReason()) return sequence->End();
    Take({&sequence, 1}, decoder_.LogitsOf(decoder_.norm().dim(0) - 1, decoder_.norm().dim(0)), 0);
  }

  // Makes one pass over the pending tokens of the sequences, which are few.
  void RunRows(std::span<Sequence* const> sequences) {
    if (sequences.empty()) return;
    std::vector<SequencePiece> pieces;
    for (Sequence* sequence : sequences) pieces.push_back(sequence->pending());
    Tensor logits;
    const double seconds = SecondsOf([&] { logits = decoder_.Append(pieces); });
    Take(sequences, logits, seconds);
  }

  void Take(std::span<Sequence* const> sequences, const Tensor& logits, double pass_seconds) {
    std::vector<std::pair<Sequence*, Tensor>> rows;  // of those that choose now
    int64_t begin = 0;
    for (Sequence* sequence : sequences) {
      const SequencePiece piece = sequence->pending();
      const int64_t count = piece.every_row ? std::ssize(piece.ids) : 1;
      if (!sequence->behind()) rows.emplace_back(sequence, logits.Slice(begin, begin + count));
      begin += count;
    }
    ParallelFor(std::ssize(rows), [&](int64_t i, int) {
      const auto& [sequence, row] = rows[static_cast<size_t>(i)];
      sequence->Choose(row, pass_seconds);
    });
    for (const auto& [sequence, row] : rows) {
      if (!sequence->finished()) sequence->HandOut();
    }
  }

  int64_t texts_;
  const GptConfig& config_;
  Decoder decoder_;
  Id next_id_ = 0;
  bool shortest_first_ = false;
  std::list<Entry> waiting_, running_;
};

DecodeBatch::DecodeBatch(Backend& backend, const GptWeights& weights,
                         const DecodeBatchOptions& options)
    : impl_(std::make_unique<Impl>(backend, weights, options)) {}

DecodeBatch::~DecodeBatch() = default;

const GptConfig& DecodeBatch::config() const {
  return impl_->config();
}

int64_t DecodeBatch::context() const {
  return impl_->context();
}

DecodeBatch::Id DecodeBatch::Add(TextRequest request) {
  return impl_->Add(std::move(request));
}

void DecodeBatch::Cancel(Id id) {
  impl_->Cancel(id);
}

void DecodeBatch::Park(Id id) {
  impl_->Park(id);
}

void DecodeBatch::Resume(Id id) {
  impl_->Resume(id);
}

bool DecodeBatch::Step() {
  return impl_->Step();
}

int64_t DecodeBatch::running() const {
  return impl_->running();
}

int64_t DecodeBatch::waiting() const {
  return impl_->waiting();
}

int64_t DecodeBatch::cache_bytes() const {
  return impl_->cache().bytes();
}

int64_t DecodeBatch::used_cache_bytes() const {
  const KvCache& cache = impl_->cache();
  return cache.bytes() / cache.pages() * (cache.pages() - cache.free_pages());
}

FinishReason Generator::Generate(std::span<const int32_t> prompt, const GenerateOptions& options,
                                 uint64_t rng_stream,
                                 const std::function<bool(const NewToken&)>& on_token) {
  FinishReason reason = FinishReason::kCancelled;
  const DecodeBatch::Id id =
      batch_.Add({.prompt = {prompt.begin(), prompt.end()},
                  .options = options,
                  .rng_stream = rng_stream,
                  .on_token = on_token,
                  .on_end = [&](FinishReason why, const GenerateStats& stats) {
                    reason = why;
                    stats_ = stats;
                  }});
  try {
    while (batch_.Step()) {
    }
  } catch (...) {
    batch_.Cancel(id);  // it knows this call's variables
    throw;
  }
  return reason;
}

}  // namespace folio
