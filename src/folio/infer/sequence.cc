#include "folio/infer/sequence.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "folio/base/clock.h"
#include "folio/base/error.h"
#include "folio/base/strings.h"
#include "folio/infer/token_probabilities.h"
#include "folio/model/config.h"

namespace folio {
namespace {

// Returns how many tokens a full context of P forgets.
int64_t StrideOf(const GenerateOptions& options, int64_t P) {
  const int64_t most = std::max<int64_t>(P - 1, 1);
  if (!options.stride) return std::clamp<int64_t>(P / 2, 1, most);
  if (*options.stride >= 1 && *options.stride <= most) return *options.stride;
  throw UsageError(fmt::format("stride: {} is not between 1 and {}", *options.stride, most),
                   fmt::format("so many of the {} tokens of the context are forgotten when it is "
                               "full, and one must be left",
                               P));
}

// Returns how many tokens of a prompt that is too long count.
int64_t KeptOf(const GenerateOptions& options, int64_t P) {
  return std::max<int64_t>(P - StrideOf(options, P), 1);
}

}  // namespace

int64_t PromptTokensSeen(int64_t length, const GenerateOptions& options, int64_t P) {
  return length <= P ? length : KeptOf(options, P);
}

void CheckGeneration(std::span<const int32_t> prompt, const GenerateOptions& options, int64_t P,
                     int64_t V, const std::string& name) {
  if (prompt.empty()) {
    throw UsageError(fmt::format("{} has no tokens", name), "a text begins with at least one",
                     "begin with the end-of-text token, as PromptTokens does");
  }
  RequireTokens(prompt, V, name);
  if (!options.stop_strings.empty()) {
    throw UsageError("tokens alone have no strings to stop at", "a TextStreamer looks for them",
                     "give TextStreamer the options, and the model what ForTokens makes of them");
  }
  if (options.max_tokens < 0 || options.likeliest.value_or(0) < 0) {
    throw UsageError(fmt::format("a number of tokens is below 0: max_tokens {}, likeliest {}",
                                 options.max_tokens, options.likeliest.value_or(0)));
  }
  CheckSampling(options.sampling, V);
  const int64_t kept = KeptOf(options, P), length = std::ssize(prompt);
  if (length <= P || options.truncate) return;
  throw UsageError(fmt::format("{} is longer than the context: {} tokens of at most {}", name,
                               WithCommas(length), WithCommas(P)),
                   "the model cannot see all of it",
                   fmt::format("--truncate keeps its last {} tokens", WithCommas(kept)));
}

Sequence::Sequence(TextRequest request, Decoder& decoder)
    : request_(std::move(request)),
      sampler_(request_.options.sampling, request_.options.usable, request_.options.stop_tokens),
      cached_(decoder.cache()),
      P_(decoder.capacity()),
      tokens_(request_.prompt) {
  const GenerateOptions& options = request_.options;
  const int64_t length = std::ssize(tokens_), seen = PromptTokensSeen(length, options, P_);
  window_ = static_cast<size_t>(length - seen);
  stats_ = {.prompt_tokens = seen, .dropped = length - seen, .stride = StrideOf(options, P_)};
  const int64_t room = P_ - seen;
  most_pages_ = decoder.cache().PagesOf(seen + std::clamp<int64_t>(options.max_tokens, 0, room));
}

double Sequence::seconds() const {
  return SteadySeconds() - begin_;
}

void Sequence::Join() {
  begin_ = SteadySeconds();
  state_ = SequenceState::kPrefill;
  if (observed()) return;
  const std::span<const int32_t> ids = pending().ids;
  cached_.Recall(ids.first(ids.size() - 1));  // logits come of the last
  stats_.shared = cached_.size();
}

void Sequence::Leave() {
  cached_.Clear();
  state_ = SequenceState::kWaiting;
}

std::optional<FinishReason> Sequence::EndReason() const {
  if (cancelled_) return FinishReason::kCancelled;
  if (stopped_) return FinishReason::kStop;
  const size_t seen = window_ + static_cast<size_t>(cached_.size());
  const bool to_observe = observed() && seen < tokens_.size();
  if (!wants_tokens() && !to_observe) return FinishReason::kLength;
  const bool full = decoding() && cached_.size() == P_;
  if (full && request_.options.when_full == WhenFull::kStop) return FinishReason::kContext;
  return {};
}

void Sequence::Cancel() {
  cancelled_ = true;
  End();
}

void Sequence::End() {
  const FinishReason reason = *EndReason();
  state_ = SequenceState::kFinished;
  cached_.Clear();
  if (const auto on_end = std::exchange(request_.on_end, {})) on_end(reason, stats_);
}

SequencePiece Sequence::pending() {
  if (!guesses_.empty()) return {&cached_, guessed_, /*every_row=*/true};
  const size_t seen = window_ + static_cast<size_t>(cached_.size());
  return {&cached_, std::span(tokens_).subspan(seen)};
}

void Sequence::Slide() {
  const int64_t kept = P_ - stats_.stride;
  slide_begin_ = SteadySeconds();
  cached_.Clear();
  window_ = tokens_.size() - static_cast<size_t>(kept) - 1;
  ++stats_.slides;
  stats_.reread += kept;
}

void Sequence::Prepare(bool alone) {
  alone_ = alone;
  if (EndReason()) return End();
  if (!decoding()) return;
  if (cached_.size() == P_) {
    Slide();
  } else if (alone && !slide_begin_ && request_.draft != nullptr) {
    Guess();
  }
}

void Sequence::Guess() {
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

void Sequence::Choose(const Tensor& logits, double pass_seconds) {
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

// A guess counts while it is what is chosen at its place anyway.
void Sequence::ChooseAll(const Tensor& logits) {
  const GenerateOptions& options = request_.options;
  const auto V = static_cast<size_t>(logits.dim(1));
  const int64_t seen = cached_.size() - std::ssize(guesses_);
  chosen_.clear();
  for (size_t i = 0;; ++i) {
    const std::span<const float> row(logits.data<float>() + i * V, V);
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

void Sequence::HandOut() {
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

void Sequence::Observe(Decoder& decoder) const {
  const Tensor norm = decoder.norm();
  const int64_t rows = norm.dim(0), before = static_cast<int64_t>(window_) + cached_.size() - rows;
  if (request_.on_norm) request_.on_norm(before, norm);
  if (!request_.on_logits) return;
  for (int64_t row = 0; row < rows; row += Decoder::kFewRows) {
    const int64_t end = std::min(rows, row + Decoder::kFewRows);
    request_.on_logits(before + row, decoder.LogitsOf(row, end));
  }
}

void Sequence::ReportRead() const {
  if (decoding() || !request_.on_read) return;
  request_.on_read(cached_.size(), std::ssize(tokens_) - static_cast<int64_t>(window_));
}

}  // namespace folio
