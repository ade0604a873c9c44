#include <fmt/format.h>

#include <algorithm>
#include <random>

#include "folio/base/clock.h"
#include "folio/infer/chat_session.h"
#include "folio/infer/text_streamer.h"
#include "folio/serve/access.h"
#include "folio/serve/api_error.h"
#include "folio/serve/event_stream.h"
#include "folio/serve/generated_texts.h"
#include "folio/serve/generation_fields.h"
#include "folio/serve/gvz.h"
#include "folio/serve/page_model.h"
#include "folio/serve/text_answer.h"

namespace folio {
namespace {

constexpr int64_t kMostPageIds = 1 << 20;  // of a text that goes on

// PageJob holds what the page wants written.
struct PageJob {
  TextJob job;
  bool conversation = false;
  int64_t forgotten = 0;  // turns of it that the context does not hold any more
};

// Returns the tokens that a conversation goes on from: its turns without the oldest, where they
// leave no room.
std::vector<int32_t> ReadConversation(const RequestFields& fields, const ServedModel& model,
                                      PageJob& page) {
  ChatSession session(model.tokenizer(), RequireChatFormat(model), model.config().n_positions);
  ChatSession::Question question;
  bool asked = false;
  for (const ChatMessage& message : ReadMessages(fields)) {
    if (message.role != (asked ? ChatRole::kAssistant : ChatRole::kUser)) {
      ThrowBadField("messages", "a user's and the assistant's by turns, the last a user's");
    }
    if (asked) {
      session.Answered(model.tokenizer().EncodeOrdinary(message.content, "'messages'"));
    } else {
      question = session.Ask(message.content, page.job.options.max_tokens);
      page.forgotten += question.forgotten;
    }
    asked = !asked;
  }
  if (!asked) ThrowBadField("messages", "a user's and the assistant's by turns, the last a user's");
  return question.ids;
}

PageJob ReadPageText(const RequestFields& fields, const ServedModel& model) {
  constexpr int64_t kTop = 10;
  PageJob page;
  TextJob& job = page.job;
  job.reading = true;
  const int64_t max_tokens = fields.Integer("max_tokens", job.options.max_tokens, 0, 1 << 30);
  job.options = ReadGenerationFields(fields, model, max_tokens);
  job.options.likeliest = fields.Integer("logprobs", kTop, 0, kMostPageTop);
  if (fields.Find("seed") == nullptr) {
    job.options.sampling.seed = std::random_device()();  // a number that JavaScript holds
  }
  std::string key = "prompt";
  if (fields.Find("messages") != nullptr) {
    key = "messages";
    page.conversation = true;
    job.prompts = {ReadConversation(fields, model, page)};
  } else if (fields.Find("ids") != nullptr) {
    key = "ids";
    job.prompts = {ReadPageTokens(fields, model, kMostPageIds)};
  } else {
    job.prompts = {PromptTokens(model.tokenizer(), fields.Text("prompt"), "'prompt'")};
  }
  if (!job.options.truncate) RequireContext(job.prompts.front(), key, model);
  return page;
}

const char* ReasonOf(const GeneratedTexts::Text& text) {
  switch (text.written.reason) {
    case FinishReason::kStop:
      return text.end_token ? "eos" : "stop";
    case FinishReason::kContext:
      return "context";
    case FinishReason::kCancelled:
      return "cancelled";
    default:
      return "length";
  }
}

// A text on its way to the page, as events.
class PageText final : public TextsStream {
 public:
  PageText(ServedModel& model, const PageJob& page, MemoryBudget::Share memory,
           const std::shared_ptr<GeneratedTexts>& written, int64_t waiting, double begin,
           double most_seconds)
      : TextsStream(written, most_seconds),
        memory_(std::move(memory)),
        model_(model.id),
        prompt_(page.job.prompts.front()),
        read_(PromptTokensSeen(std::ssize(prompt_), page.job.options, model.config().n_positions)),
        conversation_(page.conversation),
        forgotten_(page.forgotten),
        seed_(page.job.options.sampling.seed),
        waiting_(waiting),
        begin_(begin) {}

 private:
  std::string FirstEvents() override {
    Json json = Progress(0);
    json["model"] = model_;
    if (conversation_) json.update({{"forgotten", forgotten_}, {"prompt_ids", prompt_}});
    return NamedEvent("progress", json);
  }

  Json Progress(int64_t done) const {
    const double seconds = SteadySeconds() - begin_;
    const double rate = static_cast<double>(done) / seconds;
    const int64_t left = read_ - done;
    return {{"done", done},
            {"total", read_},
            {"tps", done > 0 ? ShortNumber(rate) : Json()},
            {"eta", done > 0 ? ShortNumber(static_cast<double>(left) / rate) : Json()},
            {"waiting", waiting_}};
  }

  std::string Events(const GeneratedTexts::Delta& delta) override {
    if (delta.ended) return Done(delta.shown);
    if (delta.tokens.empty()) return NamedEvent("progress", Progress(delta.read));
    if (index_ == 0) first_ = SteadySeconds();
    const NewToken& token = delta.tokens.front();
    const ModelProbabilities& of = token.probabilities;
    return NamedEvent("token", {{"i", index_++},
                                {"id", token.id},
                                {"text", delta.shown},
                                {"lp", ShortNumber(of.log_probability)},
                                {"sp", ShortNumber(token.chance)},
                                {"rank", of.rank + 1},
                                {"H", ShortNumber(of.entropy)},
                                {"seen", token.seen},
                                {"top", TopPairs(of.likeliest)}});
  }

  std::string ErrorEvent(const ApiError& error) const override {
    return NamedEvent("error", {{"code", error.status()}, {"message", error.what()}, {"hint", ""}});
  }

  std::string Done(const std::string& rest) const {
    const GeneratedTexts::Text& text = texts().text(0);
    const auto ms = [](double seconds) { return ShortNumber(1e3 * seconds); };
    Json timings{{"prompt_n", text.stats.prompt_tokens},
                 {"shared_n", text.stats.shared},
                 {"prompt_ms", ms(text.stats.prompt_seconds)},
                 {"gen_n", text.written.ids.size()},
                 {"gen_ms", ms(text.stats.seconds)},
                 {"ttft_ms", index_ > 0 ? ms(first_ - begin_) : Json()}};
    Json json{
        {"reason", ReasonOf(text)}, {"timings", timings}, {"seed", seed_}, {"prompt_ids", prompt_}};
    if (!rest.empty()) json["text"] = rest;
    return NamedEvent("done", json);
  }

  MemoryBudget::Share memory_;
  std::string model_;
  std::vector<int32_t> prompt_;
  int64_t read_;  // tokens of the prompt that the model sees
  bool conversation_;
  int64_t forgotten_;
  uint64_t seed_;
  int64_t waiting_;
  double begin_, first_ = 0;
  int64_t index_ = 0;
};

}  // namespace

HttpReply AnswerPageText(ServedModel& model, const RequestFields& fields,
                         const HttpRequest& request, const AnswerLimits& limits,
                         ServiceMetrics& metrics) {
  constexpr int64_t kMemoryOfTold =
      4 * sizeof(Json);  // of an id of the prompt, as the events have it
  const PageJob page = ReadPageText(fields, model);
  MemoryBudget::Share memory =
      ReserveTexts(page.job, model, limits, kMemoryOfTold * std::ssize(page.job.prompts.front()));
  const int64_t waiting = model.scheduler->waiting();
  const double begin = SteadySeconds();
  const auto texts =
      std::make_shared<GeneratedTexts>(model, metrics, NameOfClient(request), page.job);
  HttpReply reply{.type = "text/event-stream", .headers = {{"Cache-Control", "no-cache"}}};
  reply.stream = std::make_shared<PageText>(model, page, std::move(memory), texts, waiting, begin,
                                            limits.seconds);
  return reply;
}

}  // namespace folio
