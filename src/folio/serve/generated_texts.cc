#include "folio/serve/generated_texts.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <mutex>

#include "folio/base/clock.h"
#include "folio/infer/token_probabilities.h"
#include "folio/serve/access.h"

namespace folio {

namespace {

// A client that has left so many tokens unread, beside those on their way to it, is slow.
constexpr size_t kMostUnread = 1024;

}  // namespace

// State is written by the scheduler's thread and read by the request's.
struct GeneratedTexts::State {
  struct Writing {
    std::unique_ptr<TextStreamer> writer;  // of the scheduler's thread
    std::string shown;                     // of its last token
    double last_token = 0;                 // when
    Text text;                             // written before its last delta is handed over
  };

  std::mutex mutex;
  std::function<void()> news = [] {};
  std::vector<Delta> deltas;
  std::atomic<size_t> unread = 0;  // so many
  bool lost = false;               // a last delta, for want of memory
  std::vector<Writing> texts;

  void Append(Delta delta) {
    const std::lock_guard lock(mutex);
    deltas.push_back(std::move(delta));
    unread = deltas.size();
    news();
  }

  // Hands over the last delta of a text or, where memory does not suffice, that there will be none.
  void End(size_t i, FinishReason reason, const GenerateStats& stats) {
    Writing& writing = texts[i];
    try {
      writing.text.written = writing.writer->Finish(reason);
      writing.text.stats = stats;
      writing.text.ended = true;
      writing.text.end_token = reason == FinishReason::kStop;
      Append({.text = i, .shown = std::exchange(writing.shown, ""), .ended = true});
    } catch (const std::bad_alloc&) {
      const std::lock_guard lock(mutex);
      lost = true;
      news();
    }
  }
};

GeneratedTexts::GeneratedTexts(const Call& call, TextJob job)
    : state_(std::make_shared<State>()), left_(job.prompts.size() * static_cast<size_t>(job.each)) {
  const double begin = SteadySeconds();
  const ServedModel& model = call.model();
  ServiceMetrics& metrics = call.metrics;
  const Tokenizer& tokenizer = model.tokenizer();
  GenerateOptions for_tokens = job.options;
  for_tokens.stop_strings.clear();
  if (job.reading) job.options.likeliest.reset();  // told as they come, and not kept
  for (const auto& prompt : job.prompts) {
    CheckGeneration(prompt, for_tokens, model.config().n_positions, model.config().vocab_size);
  }
  state_->texts.resize(left_);
  std::vector<TextRequest> requests(left_);
  for (size_t i = 0; i < left_; ++i) {
    State::Writing& writing = state_->texts[i];
    writing.last_token = begin;
    writing.writer =
        std::make_unique<TextStreamer>(tokenizer, job.options, [&writing](std::string_view text) {
          writing.shown += text;
          return true;
        });
    TextRequest& request = requests[i];
    request.prompt = job.prompts[i / static_cast<size_t>(job.each)];
    request.options = for_tokens;
    request.rng_stream = i % static_cast<size_t>(job.each);
    if (job.prompt_probabilities) {
      request.on_logits = [&writing, prompt = request.prompt,
                           likeliest = for_tokens.likeliest.value_or(0)](int64_t first,
                                                                         const Tensor& logits) {
        const auto V = static_cast<size_t>(logits.dim(1));
        for (int64_t row = 0; row < logits.dim(0); ++row) {
          const auto next = static_cast<size_t>(first + row + 1);
          if (next >= prompt.size()) break;
          const std::span<const float> scores(logits.host<float>() + static_cast<size_t>(row) * V,
                                              V);
          RequireFiniteLogits(scores);
          writing.text.prompt.push_back(ProbabilitiesOf(scores, prompt[next], likeliest));
        }
      };
    }
    if (job.on_norm) {
      request.on_norm = [on_norm = job.on_norm, i](int64_t first, const Tensor& norm) {
        on_norm(i, first, norm);
      };
    }
    if (job.reading) {
      request.on_read = [keep = state_, i](int64_t done, int64_t) {
        keep->Append({.text = i, .read = done});
      };
    }
    request.on_token = [keep = state_, &writing, &metrics, i,
                        first = true](const NewToken& token) mutable {
      const double now = SteadySeconds();
      (std::exchange(first, false) ? metrics.first_token : metrics.between_tokens)
          .Add(now - std::exchange(writing.last_token, now));
      ++metrics.new_tokens;
      const bool more = writing.writer->Take(token);
      keep->Append({.text = i, .shown = std::exchange(writing.shown, ""), .tokens = {token}});
      return more;
    };
    request.on_end = [keep = state_, &metrics, i](FinishReason reason, const GenerateStats& stats) {
      metrics.prompt_tokens += stats.prompt_tokens;
      metrics.shared_tokens += stats.shared;
      keep->End(i, reason, stats);
    };
  }
  scheduled_ =
      model.scheduler->Submit(NameOfClient(call.request), std::move(requests),
                              [keep = state_] { return keep->unread.load() > kMostUnread; });
}

GeneratedTexts::~GeneratedTexts() {
  if (scheduled_ != nullptr && left_ > 0) scheduled_->Cancel();
}

void GeneratedTexts::OnNews(std::function<void()> news) {
  const std::lock_guard lock(state_->mutex);
  state_->news = std::move(news);
  if (!state_->deltas.empty() || state_->lost) state_->news();
}

std::vector<GeneratedTexts::Delta> GeneratedTexts::Take() {
  std::vector<Delta> deltas;
  {
    const std::lock_guard lock(state_->mutex);
    if (state_->lost) throw ApiError(503, "not enough memory for this request; try again later");
    deltas.swap(state_->deltas);
    state_->unread = 0;
  }
  for (const Delta& delta : deltas) left_ -= delta.ended ? 1 : 0;
  scheduled_->ThrowIfFailed();
  return deltas;
}

const GeneratedTexts::Text& GeneratedTexts::text(size_t i) const {
  return state_->texts[i].text;
}

size_t GeneratedTexts::size() const {
  return state_->texts.size();
}

TextsStream::TextsStream(const Call& call, const TextJob& job, MemoryBudget::Share memory,
                         bool waits)
    : texts_(call, job),
      memory_(std::make_shared<MemoryBudget::Share>(std::move(memory))),
      waits_(waits),
      most_seconds_(call.limits.seconds),
      end_(SteadySeconds() + most_seconds_),
      said_(SteadySeconds()) {}

HttpReply TextsStream::ReplyOf(std::shared_ptr<TextsStream> stream) {
  if (stream->waits_) return {.stream = std::move(stream), .waits = true};
  return EventStreamReply(std::move(stream));
}

HttpStream::Part TextsStream::Next() {
  Part part;
  const double now = SteadySeconds();
  const auto fail = [&](const ApiError& error) {
    if (waits_) {
      part.whole = error.reply();
    } else {
      part.bytes += ErrorEvent(error);
      part.ended = true;
    }
    return std::move(part);
  };
  try {
    if (!waits_ && !std::exchange(begun_, true)) part.bytes = FirstEvents();
    for (const GeneratedTexts::Delta& delta : texts_.Take()) {
      if (!waits_) part.bytes += Events(delta);
      said_ = now;
    }
    if (texts_.ended()) {
      if (waits_) {
        part.whole = HttpReply{.body = Whole(), .held = memory_};
      } else {
        part.bytes += LastEvents();
        part.ended = true;
      }
      return part;
    }
    if (now > end_) {
      throw ApiError(408, fmt::format("timeout: the answer took longer than {} s", most_seconds_));
    }
  } catch (const ApiError& error) {
    return fail(error);
  } catch (const std::bad_alloc&) {
    return fail({503, "not enough memory for this request; try again later"});
  }
  part.seconds = end_ - now;
  if (waits_) return part;
  if (now - said_ > kHeartbeatSeconds) {
    part.bytes += kHeartbeat;
    said_ = now;
  }
  part.seconds = std::min(part.seconds, said_ + kHeartbeatSeconds - now);
  return part;
}

OpenAiAnswer::OpenAiAnswer(const Call& call, const TextJob& job, MemoryBudget::Share memory,
                           Form form)
    : TextsStream(call, job, std::move(memory), !form.stream),
      form_(std::move(form)),
      model_(call.model().name),
      created_(static_cast<int64_t>(WallSeconds())),
      each_(static_cast<size_t>(job.each)) {}

Json OpenAiAnswer::With(Json choices) const {
  return {{"id", form_.id},
          {"object", form_.object},
          {"created", created_},
          {"model", model_},
          {"choices", std::move(choices)}};
}

// Returns the used tokens as OpenAI counts them: prompts once, and every text that was generated.
Json OpenAiAnswer::Usage() const {
  int64_t prompt = 0, written = 0, known = 0;
  for (size_t i = 0; i < texts().size(); ++i) {
    written += std::ssize(texts().text(i).written.ids);
    if (i % each_ != 0) continue;
    prompt += texts().text(i).stats.prompt_tokens;
    known += texts().text(i).stats.shared;
  }
  return {{"prompt_tokens", prompt},
          {"completion_tokens", written},
          {"total_tokens", prompt + written},
          {"prompt_tokens_details", Json{{"cached_tokens", known}}}};
}

std::string OpenAiAnswer::Events(const GeneratedTexts::Delta& delta) {
  std::string events;
  for (Json& choice : Choices(delta)) {
    Json chunk = With(Json::array({std::move(choice)}));
    if (form_.usage) chunk["usage"] = nullptr;
    events += EventOf(chunk);
  }
  return events;
}

std::string OpenAiAnswer::LastEvents() {
  if (!form_.usage) return kLastEvent;
  Json chunk = With(Json::array());
  chunk["usage"] = Usage();
  return EventOf(chunk) + kLastEvent;
}

std::string OpenAiAnswer::ErrorEvent(const ApiError& error) const {
  return "data: " + error.body() + "\n\n";
}

std::string OpenAiAnswer::Whole() {
  Json json = With(AllChoices());
  json["usage"] = Usage();
  return json.dump();
}

}  // namespace folio
