#include "folio/infer/growing_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "folio/base/check.h"
#include "folio/base/clock.h"
#include "folio/base/error.h"
#include "folio/base/strings.h"
#include "folio/infer/token_probabilities.h"

namespace folio {
namespace {

// How many tokens a full context of P forgets.
int64_t StrideOf(const GenerateOptions& options, int64_t P) {
  const int64_t most = std::max<int64_t>(P - 1, 1);
  if (!options.stride) return std::clamp<int64_t>(P / 2, 1, most);
  if (*options.stride >= 1 && *options.stride <= most) return *options.stride;
  throw UsageError(fmt::format("stride: {} is not between 1 and {}", *options.stride, most),
                   fmt::format("so many of the {} tokens of the context are forgotten when it is "
                               "full, and one must be left",
                               P));
}

// How many tokens of a prompt that is too long count.
int64_t KeptOf(const GenerateOptions& options, int64_t P) {
  return std::max<int64_t>(P - StrideOf(options, P), 1);
}

ModelProbabilities ProbabilitiesOf(std::span<const float> logits, int32_t id, int64_t likeliest) {
  const double log_sum = Summarize(logits).log_sum;
  return {.log_probability = logits[static_cast<size_t>(id)] - log_sum,
          .likeliest = TopTokens(logits, likeliest, log_sum)};
}

}  // namespace

void CheckGeneration(std::span<const int32_t> prompt, const GenerateOptions& options, int64_t P,
                     int64_t V, const std::string& name) {
  FOLIO_CHECK(!prompt.empty(), "a text begins with at least one token");
  FOLIO_CHECK(options.stop_strings.empty(), "tokens alone have no strings to stop at");
  CheckSampling(options.sampling, V);
  const int64_t kept = KeptOf(options, P), length = std::ssize(prompt);
  if (length <= P || options.truncate) return;
  throw UsageError(fmt::format("{} is longer than the context: {} tokens of at most {}", name,
                               WithCommas(length), WithCommas(P)),
                   "the model cannot see all of it",
                   fmt::format("--truncate keeps its last {} tokens", WithCommas(kept)));
}

GrowingText::GrowingText(TextRequest request, Decoder& decoder)
    : request_(std::move(request)),
      sampler_(request_.options.sampling, request_.options.usable, request_.options.stop_tokens),
      sequence_(decoder.cache()),
      P_(decoder.capacity()),
      tokens_(request_.prompt) {
  const GenerateOptions& options = request_.options;
  const int64_t length = std::ssize(tokens_), seen = length <= P_ ? length : KeptOf(options, P_);
  window_ = static_cast<size_t>(length - seen);
  stats_ = {.prompt_tokens = seen, .dropped = length - seen, .stride = StrideOf(options, P_)};
  const int64_t room = P_ - seen;
  most_pages_ = decoder.cache().PagesOf(seen + std::clamp<int64_t>(options.max_tokens, 0, room));
}

double GrowingText::seconds() const {
  return SteadySeconds() - begin_;
}

void GrowingText::Join() {
  begin_ = SteadySeconds();
  const std::span<const int32_t> ids = pending();
  sequence_.Recall(ids.first(ids.size() - 1));  // logits come of the last
  stats_.shared = sequence_.size();
}

std::span<const int32_t> GrowingText::pending() const {
  return std::span(tokens_).subspan(window_ + static_cast<size_t>(sequence_.size()));
}

void GrowingText::Slide() {
  const int64_t kept = P_ - stats_.stride;
  slide_begin_ = SteadySeconds();
  sequence_.Clear();
  window_ = tokens_.size() - static_cast<size_t>(kept) - 1;
  ++stats_.slides;
  stats_.reread += kept;
}

bool GrowingText::Prepare() {
  if (written_ == request_.options.max_tokens) {
    End(FinishReason::kLength);
    return false;
  }
  if (written_ == 0 || sequence_.size() < P_) return true;
  if (request_.options.when_full == WhenFull::kStop) {
    End(FinishReason::kContext);
    return false;
  }
  Slide();
  return true;
}

void GrowingText::Choose(const Tensor& logits) {
  const std::span<const float> row{logits.data<float>(), static_cast<size_t>(logits.count())};
  if (slide_begin_) {
    stats_.slide_seconds += SteadySeconds() - *std::exchange(slide_begin_, {});
  }
  if (written_ == 0) stats_.prompt_seconds = seconds();
  stats_.tokens = written_;
  stats_.seconds = seconds() - stats_.prompt_seconds;
  const GenerateOptions& options = request_.options;
  try {
    chosen_ =
        NewToken{sampler_.Sample(row, request_.sequence, static_cast<uint64_t>(written_),
                                 {.tokens = tokens_, .prompt_tokens = request_.prompt.size()})};
    if (options.likeliest) {
      chosen_->probabilities = ProbabilitiesOf(row, chosen_->id, *options.likeliest);
    }
  } catch (...) {
    error_ = std::current_exception();
  }
}

bool GrowingText::HandOut() {
  if (error_) std::rethrow_exception(error_);
  const NewToken token = *std::exchange(chosen_, {});
  if (std::ranges::find(request_.options.stop_tokens, token.id) !=
      request_.options.stop_tokens.end()) {
    End(FinishReason::kStop);
    return false;
  }
  tokens_.push_back(token.id);
  ++written_;
  if (request_.on_token(token)) return true;
  End(FinishReason::kCancelled);
  return false;
}

void GrowingText::End(FinishReason reason) {
  sequence_.Clear();
  if (const auto on_end = std::exchange(request_.on_end, {})) on_end(reason, stats_);
}

}  // namespace folio
