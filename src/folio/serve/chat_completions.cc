#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "folio/base/clock.h"
#include "folio/serve/access.h"
#include "folio/serve/api_error.h"
#include "folio/serve/completions.h"
#include "folio/serve/generation_fields.h"
#include "folio/serve/text_answer.h"
#include "folio/text/chat.h"

namespace folio {
namespace {

struct ChatRequest {
  TextJob job;
  int64_t n = 1;
  bool stream = false, usage = false;
  std::optional<int64_t> logprobs = {};  // likeliest tokens of each place
};

// Refuses fields that would change the answer and are not supported, instead of passing them over.
void RefuseTools(const RequestFields& fields) {
  for (const char* key : {"tools", "functions"}) {
    const Json* tools = fields.Find(key);
    if (tools != nullptr && !(tools->is_array() && tools->empty())) {
      throw ApiError(400, fmt::format("'{}' is not supported: the model writes text alone", key),
                     key);
    }
  }
  const Json* format = fields.Find("response_format");
  const Json* type = format == nullptr ? nullptr : format->find("type");
  if (format != nullptr && (type == nullptr || *type != Json("text"))) {
    throw ApiError(400, "'response_format' must be of type \"text\"", "response_format");
  }
}

ChatRequest ReadChat(const RequestFields& fields, const ServedModel& model) {
  const ChatFormat format = RequireChatFormat(model);
  RefuseTools(fields);
  ChatRequest request;
  std::vector<int32_t> ids;
  EncodeChat(model.tokenizer(), format, ReadMessages(fields), /*ask=*/true, "'messages'", ids);
  const int64_t P = model.config().n_positions;
  request.n = fields.Integer("n", 1, 1, kMostTexts);
  request.stream = fields.Flag("stream");
  request.usage = ReadIncludeUsage(fields);
  if (fields.Flag("logprobs")) {
    request.logprobs = fields.Integer("top_logprobs", 0, 0, kMostLikeliest);
  }
  const int64_t most = fields.Integer("max_tokens", P, 0, 1 << 30);
  const int64_t max_tokens = fields.Integer("max_completion_tokens", most, 0, 1 << 30);
  TextJob& job = request.job;
  job.options = ReadGenerationFields(fields, model, max_tokens);
  job.options.likeliest = request.logprobs;
  if (!job.options.truncate) RequireContext(ids, "messages", model);
  job.prompts = {std::move(ids)};
  job.each = request.n;
  return request;
}

class ChatAnswer final : public TextAnswer {
 public:
  ChatAnswer(ChatRequest request, const ServedModel& model, MemoryBudget::Share memory)
      : memory_(std::move(memory)),
        request_(std::move(request)),
        tokenizer_(model.tokenizer()),
        head_{NewAnswerId("chatcmpl"),
              request_.stream ? "chat.completion.chunk" : "chat.completion", model.name,
              static_cast<int64_t>(WallSeconds())},
        begun_(static_cast<size_t>(request_.n)),
        held_(begun_.size()) {}

  std::vector<Json> Chunks(const GeneratedTexts& texts,
                           const GeneratedTexts::Delta& delta) override {
    std::vector<Json> chunks;
    if (!begun_[delta.text]) {
      begun_[delta.text] = true;
      chunks.push_back(Chunk(delta.text, {{"role", "assistant"}, {"content", ""}}, {}, {}));
    }
    std::vector<NewToken>& held = held_[delta.text];
    held.insert(held.end(), delta.tokens.begin(), delta.tokens.end());
    if (!delta.shown.empty()) {
      chunks.push_back(Chunk(delta.text, {{"content", delta.shown}},
                             LogProbabilities(std::exchange(held, {})), {}));
    }
    if (delta.ended) {
      chunks.push_back(Chunk(delta.text, Json::object(), {},
                             FinishReasonName(texts.text(delta.text).written.reason)));
    }
    return chunks;
  }

  std::vector<Json> LastChunks(const GeneratedTexts& texts) override {
    if (!request_.usage) return {};
    Json chunk = head_.json();
    chunk["choices"] = Json::array();
    chunk["usage"] = UsageOf(texts, texts.size());
    return {chunk};
  }

  Json Whole(const GeneratedTexts& texts) override {
    Json choices = Json::array();
    for (size_t i = 0; i < texts.size(); ++i) {
      const GeneratedText& written = texts.text(i).written;
      std::vector<NewToken> tokens;
      for (size_t t = 0; t < written.probabilities.size(); ++t) {
        tokens.push_back({written.ids[t], written.probabilities[t]});
      }
      Json choice{{"index", i},
                  {"message", Json{{"role", "assistant"}, {"content", written.text}}}};
      choice["logprobs"] = LogProbabilities(tokens);
      choice["finish_reason"] = FinishReasonName(written.reason);
      choices.push_back(std::move(choice));
    }
    Json json = head_.json();
    json["choices"] = std::move(choices);
    json["usage"] = UsageOf(texts, texts.size());
    return json;
  }

 private:
  Json Chunk(size_t index, const Json& delta, const Json& logprobs, const Json& reason) const {
    Json chunk = head_.json();
    chunk["choices"] = Json::array({Json{
        {"index", index}, {"delta", delta}, {"logprobs", logprobs}, {"finish_reason", reason}}});
    if (request_.usage) chunk["usage"] = nullptr;
    return chunk;
  }

  Json Entry(int32_t id, double log_probability) const {
    Json bytes = Json::array();
    if (id < tokenizer_.vocab_size()) {
      for (const char byte : tokenizer_.TokenBytes(id)) {
        bytes.push_back(static_cast<int>(static_cast<uint8_t>(byte)));
      }
    }
    return {{"token", TokenText(tokenizer_, id)},
            {"logprob", FiniteLogProbability(log_probability)},
            {"bytes", bytes}};
  }

  Json LogProbabilities(const std::vector<NewToken>& tokens) const {
    if (!request_.logprobs) return {};
    Json content = Json::array();
    for (const NewToken& token : tokens) {
      Json entry = Entry(token.id, token.probabilities.log_probability);
      Json top = Json::array();
      for (const TokenProbability& one : token.probabilities.likeliest) {
        top.push_back(Entry(one.id, one.log_probability));
      }
      entry["top_logprobs"] = std::move(top);
      content.push_back(std::move(entry));
    }
    Json all = Json::object();
    all["content"] = std::move(content);
    all["refusal"] = nullptr;
    return all;
  }

  MemoryBudget::Share memory_;
  ChatRequest request_;
  const Tokenizer& tokenizer_;
  AnswerHead head_;
  std::vector<bool> begun_;
  std::vector<std::vector<NewToken>> held_;  // tokens whose text was not shown yet
};

}  // namespace

HttpReply AnswerChat(ServedModel& model, const RequestFields& fields, const HttpRequest& request,
                     const AnswerLimits& limits, ServiceMetrics& metrics) {
  ChatRequest read = ReadChat(fields, model);
  MemoryBudget::Share memory = ReserveTexts(read.job, model, limits);
  const bool stream = read.stream;
  const auto texts =
      std::make_shared<GeneratedTexts>(model, metrics, NameOfClient(request), read.job);
  const auto answer = std::make_shared<ChatAnswer>(std::move(read), model, std::move(memory));
  return Reply(texts, answer, stream, limits.seconds);
}

}  // namespace folio
