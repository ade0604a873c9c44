#include "folio/serve/text_answer.h"

#include <fmt/format.h>

#include <algorithm>

#include "folio/base/clock.h"
#include "folio/serve/api_error.h"
#include "folio/serve/event_stream.h"

namespace folio {
namespace {

class AnswerStream final : public TextsStream {
 public:
  AnswerStream(const std::shared_ptr<GeneratedTexts>& written, std::shared_ptr<TextAnswer> answer,
               double most_seconds, bool waits)
      : TextsStream(written, most_seconds), answer_(std::move(answer)), waits_(waits) {}

 private:
  static std::string EventsOf(const std::vector<Json>& chunks) {
    std::string events;
    for (const Json& chunk : chunks) events += EventOf(chunk);
    return events;
  }
  std::string Events(const GeneratedTexts::Delta& delta) override {
    return EventsOf(answer_->Chunks(texts(), delta));
  }
  std::string LastEvents() override { return EventsOf(answer_->LastChunks(texts())) + kLastEvent; }
  std::string ErrorEvent(const ApiError& error) const override {
    return "data: " + error.body() + "\n\n";
  }
  std::optional<HttpReply> Whole() override {
    return HttpReply{.body = answer_->Whole(texts()).dump(), .held = answer_};
  }
  bool waits() const override { return waits_; }

  std::shared_ptr<TextAnswer> answer_;
  bool waits_;
};

}  // namespace

TextsStream::TextsStream(std::shared_ptr<GeneratedTexts> texts, double most_seconds)
    : texts_(std::move(texts)),
      most_seconds_(most_seconds),
      end_(SteadySeconds() + most_seconds),
      said_(SteadySeconds()) {}

HttpStream::Part TextsStream::Next() {
  Part part;
  const double now = SteadySeconds();
  const auto fail = [&](const ApiError& error) {
    if (waits()) {
      part.whole = error.reply();
    } else {
      part.bytes += ErrorEvent(error);
      part.ended = true;
    }
    return std::move(part);
  };
  try {
    if (!waits() && !std::exchange(begun_, true)) part.bytes = FirstEvents();
    for (const GeneratedTexts::Delta& delta : texts_->Take()) {
      if (!waits()) part.bytes += Events(delta);
      said_ = now;
    }
    if (texts_->ended()) {
      if (waits()) {
        part.whole = Whole();
      } else {
        part.bytes += LastEvents();
        part.ended = true;
      }
      return part;
    }
    if (now > end_) {
      throw ApiError(
          408, fmt::format("not done within the {} s that an answer may take", most_seconds_));
    }
  } catch (const ApiError& error) {
    return fail(error);
  } catch (const std::bad_alloc&) {
    return fail({503, "not enough memory for this request now"});
  }
  part.seconds = end_ - now;
  if (waits()) return part;
  if (now - said_ > kHeartbeatSeconds) {
    part.bytes += kHeartbeat;
    said_ = now;
  }
  part.seconds = std::min(part.seconds, said_ + kHeartbeatSeconds - now);
  return part;
}

HttpReply Reply(const std::shared_ptr<GeneratedTexts>& texts,
                const std::shared_ptr<TextAnswer>& answer, bool stream, double most_seconds) {
  HttpReply reply;
  reply.waits = !stream;
  reply.stream = std::make_shared<AnswerStream>(texts, answer, most_seconds, reply.waits);
  if (stream) {
    reply.type = "text/event-stream";
    reply.headers = {{"Cache-Control", "no-cache"}};
  }
  return reply;
}

Json UsageOf(const GeneratedTexts& texts, size_t texts_of_a_prompt) {
  int64_t prompt = 0, written = 0, known = 0;
  for (size_t i = 0; i < texts.size(); ++i) {
    written += std::ssize(texts.text(i).written.ids);
    if (i % texts_of_a_prompt != 0) continue;
    prompt += texts.text(i).stats.prompt_tokens;
    known += texts.text(i).stats.shared;
  }
  return {{"prompt_tokens", prompt},
          {"completion_tokens", written},
          {"total_tokens", prompt + written},
          {"prompt_tokens_details", Json{{"cached_tokens", known}}}};
}

Json AnswerHead::json() const {
  return {{"id", id}, {"object", object}, {"created", created}, {"model", model}};
}

}  // namespace folio
