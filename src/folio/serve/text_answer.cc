#include "folio/serve/text_answer.h"

#include <fmt/format.h>

#include "folio/base/clock.h"
#include "folio/serve/api_error.h"
#include "folio/serve/event_stream.h"

namespace folio {
namespace {

constexpr double kLook = 0.05;  // how often a silent client is looked for

ApiError TooLong(double seconds) {
  return {408, fmt::format("not done within the {} s that an answer may take", seconds)};
}

// Sends events until all is said; what it throws is to be sent too.
void SendEvents(WrittenTexts& texts, TextAnswer& answer, const HttpReply::Write& write,
                const std::function<bool()>& gone, double most_seconds) {
  const auto send = [&](const std::vector<Json>& chunks) {
    std::string events;
    for (const Json& chunk : chunks) events += EventOf(chunk);
    return write(events);
  };
  double said = SteadySeconds();
  for (const double end = said + most_seconds; !texts.ended();) {
    const double now = SteadySeconds();
    for (const WrittenTexts::Piece& piece : texts.Take(kLook)) {
      if (!send(answer.Chunks(texts, piece))) return;
      said = now;
    }
    if (gone()) return;
    if (now > end) throw TooLong(most_seconds);
    if (now - said > kHeartbeatSeconds && !write(kStillThere)) return;
    if (now - said > kHeartbeatSeconds) said = now;
  }
  send(answer.LastChunks(texts));
  write(kLastEvent);
}

}  // namespace

HttpReply Reply(const std::shared_ptr<WrittenTexts>& texts,
                const std::shared_ptr<TextAnswer>& answer, bool stream, const HttpRequest& request,
                double most_seconds) {
  if (stream) {
    HttpReply reply{.type = "text/event-stream", .headers = {{"Cache-Control", "no-cache"}}};
    reply.stream = [texts, answer, gone = request.gone,
                    most_seconds](const HttpReply::Write& write) {
      try {
        SendEvents(*texts, *answer, write, gone, most_seconds);
      } catch (const ApiError& error) {
        write("data: " + error.body() + "\n\n");
      }
    };
    return reply;
  }
  for (const double end = SteadySeconds() + most_seconds; !texts->ended();) {
    texts->Take(kLook);
    if (SteadySeconds() > end) throw TooLong(most_seconds);
    if (request.gone()) throw ApiError(499, "the client is gone");
  }
  return {.body = answer->Whole(*texts).dump()};
}

Json UsageOf(const WrittenTexts& texts, size_t texts_of_a_prompt) {
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
