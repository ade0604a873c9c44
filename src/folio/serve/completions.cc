#include "folio/serve/completions.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "folio/base/clock.h"
#include "folio/infer/text_streamer.h"
#include "folio/serve/access.h"
#include "folio/serve/api_error.h"
#include "folio/serve/generated_texts.h"
#include "folio/serve/generation_fields.h"
#include "folio/text/chat.h"

namespace folio {
namespace {

int64_t Characters(std::string_view text) {
  return std::ranges::count_if(text, [](char byte) { return (byte & 0xC0) != 0x80; });
}

struct CompletionRequest {
  TextJob job;
  int64_t n = 1;
  bool echo = false, stream = false, usage = false, ids = false;
  std::optional<int64_t> logprobs = {};
  std::vector<std::string> prompts;  // as text, with echo
};

CompletionRequest ReadCompletion(const RequestFields& fields, const ServedModel& model,
                                 const AnswerLimits& limits) {
  if (!fields.Text("suffix").empty()) {
    throw ApiError(400, "'suffix' is not supported: the model writes forward", "suffix");
  }
  CompletionRequest request;
  request.n = fields.Integer("n", 1, 1, kMostTexts);
  request.echo = fields.Flag("echo");
  request.stream = fields.Flag("stream");
  request.ids = fields.Flag("return_token_ids");
  request.logprobs = fields.IntegerIfAny("logprobs", 0, kMostLikeliest);
  request.usage = ReadIncludeUsage(fields);
  TextJob& job = request.job;
  job.each = fields.Integer("best_of", request.n, 1, kMostTexts);
  if (job.each < request.n) ThrowBadField("best_of", "at least 'n'");
  if (job.each > request.n && request.stream) {
    throw ApiError(400, "'best_of' cannot be streamed: which is best is known at the end",
                   "best_of");
  }
  const int64_t max_tokens = fields.Integer("max_tokens", 16, 0, 1 << 30);
  job.options = ReadGenerationFields(fields, model, max_tokens);
  job.options.likeliest = request.logprobs;
  if (job.each > request.n && !job.options.likeliest) job.options.likeliest = 0;
  const auto encoded = [&](const std::string& text) {
    return PromptTokens(model.tokenizer(), text, "'prompt'");
  };
  job.prompts = fields.Find("prompt") == nullptr
                    ? std::vector<std::vector<int32_t>>{encoded("")}
                    : ReadTexts(fields, "prompt", model, limits.prompts, encoded);
  job.prompt_probabilities = request.echo && request.logprobs;
  for (const std::vector<int32_t>& prompt : job.prompts) {
    const bool part = job.options.truncate && !job.prompt_probabilities;
    if (!part) RequireContext(prompt, "prompt", model);
    if (request.echo) {
      request.prompts.push_back(BoundedTextOf(model.tokenizer(), prompt, "prompt", limits));
    }
  }
  return request;
}

// The legacy form of OpenAI's log-probabilities, of tokens as they come.
class LogProbabilities {
 public:
  LogProbabilities(const Tokenizer& tokenizer, int64_t likeliest)
      : tokenizer_(tokenizer), likeliest_(likeliest) {}

  // `none`: of the first token of a prompt, which nothing stands before.
  void Add(int32_t id, const ModelProbabilities& of, int64_t offset, bool none = false) {
    const std::string text = TokenText(tokenizer_, id);
    tokens_.push_back(text);
    offsets_.push_back(offset);
    logs_.push_back(none ? Json() : Json(FiniteLogProbability(of.log_probability)));
    Json top = none || likeliest_ == 0 ? Json() : Json::object();
    if (!top.is_null()) {
      for (const TokenProbability& one : of.likeliest) {
        top[TokenText(tokenizer_, one.id)] = FiniteLogProbability(one.log_probability);
      }
      top[text] = FiniteLogProbability(of.log_probability);
    }
    top_.push_back(std::move(top));
  }
  bool empty() const { return tokens_.empty(); }
  Json Take() {
    Json json = Json::object();
    json["tokens"] = std::exchange(tokens_, Json::array());
    json["token_logprobs"] = std::exchange(logs_, Json::array());
    json["top_logprobs"] = std::exchange(top_, Json::array());
    json["text_offset"] = std::exchange(offsets_, Json::array());
    if (likeliest_ == 0) json["top_logprobs"] = nullptr;
    return json;
  }

 private:
  const Tokenizer& tokenizer_;
  int64_t likeliest_;
  Json tokens_ = Json::array(), logs_ = Json::array(), top_ = Json::array(),
       offsets_ = Json::array();
};

class CompletionAnswer final : public OpenAiAnswer {
 public:
  CompletionAnswer(const Call& call, CompletionRequest request, MemoryBudget::Share memory)
      : OpenAiAnswer(call, request.job, std::move(memory),
                     {NewAnswerId("cmpl"), "text_completion", request.stream, request.usage}),
        request_(std::move(request)),
        tokenizer_(call.model().tokenizer()),
        open_(request_.job.prompts.size() * static_cast<size_t>(request_.n)) {}

  std::vector<Json> Choices(const GeneratedTexts::Delta& delta) override {
    Open& open = open_[delta.text];
    std::string shown = delta.shown;
    if (!std::exchange(open.begun, true) && request_.echo) {
      shown = request_.prompts[PromptOf(delta.text)] + shown;
    }
    open.shown += Characters(shown);
    open.tokens.insert(open.tokens.end(), delta.tokens.begin(), delta.tokens.end());
    if (shown.empty() && !delta.ended) return {};
    Json logprobs;
    if (request_.logprobs) logprobs = NewLogProbabilities(delta.text);
    Json choice{{"text", shown}, {"index", delta.text}, {"logprobs", logprobs}};
    choice["finish_reason"] =
        delta.ended ? Json(FinishReasonName(texts().text(delta.text).written.reason)) : Json();
    if (request_.ids) {
      Json ids = Json::array();
      for (; open.ids < open.tokens.size(); ++open.ids) ids.push_back(open.tokens[open.ids].id);
      choice["token_ids"] = ids;
    }
    return {choice};
  }

  Json AllChoices() override {
    Json choices = Json::array();
    for (size_t p = 0; p < request_.job.prompts.size(); ++p) {
      for (const size_t i : Best(p)) {
        choices.push_back(Choice(i, static_cast<int64_t>(choices.size())));
      }
    }
    return choices;
  }

 private:
  // A text of a stream.
  struct Open {
    bool begun = false;
    int64_t shown = 0;             // characters
    std::vector<NewToken> tokens;  // all of them
    size_t told = 0, ids = 0;      // of these, log-probabilities and ids
    bool prompt_told = false;
  };

  size_t PromptOf(size_t text) const { return text / static_cast<size_t>(request_.job.each); }

  // Returns the `n` of one prompt's texts whose tokens are likeliest on the average.
  std::vector<size_t> Best(size_t prompt) const {
    std::vector<size_t> order(static_cast<size_t>(request_.job.each));
    std::iota(order.begin(), order.end(), prompt * order.size());
    if (request_.job.each > request_.n) {
      const auto mean = [&](size_t i) {
        const std::vector<ModelProbabilities>& all = texts().text(i).written.probabilities;
        double sum = 0;
        for (const ModelProbabilities& one : all) sum += one.log_probability;
        return all.empty() ? 0 : sum / static_cast<double>(all.size());
      };
      std::ranges::stable_sort(order, std::ranges::greater(), mean);
    }
    order.resize(static_cast<size_t>(request_.n));
    return order;
  }

  Json Choice(size_t i, int64_t index) const {
    const GeneratedTexts::Text& text = texts().text(i);
    const size_t p = PromptOf(i);
    Json logprobs;
    if (request_.logprobs) {
      LogProbabilities all(tokenizer_, *request_.logprobs);
      AddPrompt(text, p, all);
      std::vector<NewToken> tokens;
      for (size_t t = 0; t < text.written.ids.size(); ++t) {
        tokens.push_back({text.written.ids[t], text.written.probabilities[t]});
      }
      AddTokens(tokens, 0, request_.echo ? Characters(request_.prompts[p]) : 0,
                Characters(text.written.text), all);
      logprobs = all.Take();
    }
    Json choice{{"text", (request_.echo ? request_.prompts[p] : "") + text.written.text},
                {"index", index}};
    choice["logprobs"] = std::move(logprobs);
    choice["finish_reason"] = FinishReasonName(text.written.reason);
    if (request_.ids) {
      choice["token_ids"] = text.written.ids;
      choice["prompt_token_ids"] = request_.job.prompts[p];
    }
    return choice;
  }

  void AddPrompt(const GeneratedTexts::Text& text, size_t p, LogProbabilities& all) const {
    if (!request_.job.prompt_probabilities) return;
    const std::vector<int32_t>& ids = request_.job.prompts[p];
    const DecodedText decoded = DecodeWithOffsets(tokenizer_, ids);
    for (size_t t = 0; t < ids.size(); ++t) {
      all.Add(ids[t], t == 0 ? ModelProbabilities{} : text.prompt[t - 1],
              static_cast<int64_t>(decoded.chars[t]), t == 0);
    }
  }

  // Adds the tokens from `first` on that begin in the first `shown` characters of their text, which
  // begins at `offset`. Returns the place behind the last.
  size_t AddTokens(const std::vector<NewToken>& tokens, size_t first, int64_t offset, int64_t shown,
                   LogProbabilities& all) const {
    std::vector<int32_t> ids;
    for (const NewToken& token : tokens) ids.push_back(token.id);
    const DecodedText decoded = DecodeWithOffsets(tokenizer_, ids);
    for (; first < tokens.size() && std::cmp_less(decoded.chars[first], shown); ++first) {
      all.Add(ids[first], tokens[first].probabilities,
              offset + static_cast<int64_t>(decoded.chars[first]));
    }
    return first;
  }

  // Returns the log-probabilities of what a stream has shown since the last time.
  Json NewLogProbabilities(size_t i) {
    Open& open = open_[i];
    const size_t p = PromptOf(i);
    LogProbabilities all(tokenizer_, *request_.logprobs);
    if (!std::exchange(open.prompt_told, true)) AddPrompt(texts().text(i), p, all);
    const int64_t before = request_.echo ? Characters(request_.prompts[p]) : 0;
    open.told = AddTokens(open.tokens, open.told, before, open.shown - before, all);
    return all.Take();
  }

  CompletionRequest request_;
  const Tokenizer& tokenizer_;
  std::vector<Open> open_;
};

// Returns the memory of the prompts that an answer repeats, once for each of their texts:
// characters and ids.
int64_t MemoryOfPrompts(const CompletionRequest& request) {
  constexpr int64_t kOfCharacter = 20, kOfId = 4 * sizeof(Json);
  int64_t bytes = 0;
  for (const std::string& prompt : request.prompts) bytes += kOfCharacter * std::ssize(prompt);
  for (const std::vector<int32_t>& prompt : request.job.prompts) {
    bytes += request.ids ? kOfId * std::ssize(prompt) : 0;
  }
  return bytes * request.n;
}

}  // namespace

MemoryBudget::Share ReserveTexts(const TextJob& job, const Call& call, int64_t beside) {
  // A token is held as it comes, in the text, and as JSON. A probability is kept, told, and held as
  // JSON.
  constexpr int64_t kOfPromptToken = 16, kOfToken = 128, kOfProbability = 1024;
  constexpr int64_t kMostCounted = 1 << 16;  // tokens of a text that goes on
  const bool slides = job.options.when_full == WhenFull::kSlide;
  const int64_t P = call.model().config().n_positions, most = job.options.max_tokens;
  int64_t read = 0;
  for (const std::vector<int32_t>& prompt : job.prompts) read += std::ssize(prompt) * job.each;
  const int64_t texts = std::ssize(job.prompts) * job.each;
  const int64_t written = texts * (slides ? most : std::min(most, P));
  int64_t bytes = kOfPromptToken * read + beside;
  bytes += kOfToken * texts * std::min(most, slides ? kMostCounted : P);
  if (job.options.likeliest && !job.reading) {
    const int64_t told =
        (written + (job.prompt_probabilities ? read : 0)) * (1 + *job.options.likeliest);
    if (told > call.limits.probabilities) {
      throw ApiError(400,
                     fmt::format("up to {} log-probabilities are more than the {} that an answer "
                                 "may tell: ask for fewer tokens, texts or likeliest tokens",
                                 told, call.limits.probabilities),
                     "logprobs");
    }
    bytes += kOfProbability * told;
  }
  return {call.limits.memory, bytes};
}

HttpReply AnswerCompletion(const Call& call) {
  CompletionRequest read = ReadCompletion(call.fields, call.model(), call.limits);
  MemoryBudget::Share memory = ReserveTexts(read.job, call, MemoryOfPrompts(read));
  return TextsStream::ReplyOf(
      std::make_shared<CompletionAnswer>(call, std::move(read), std::move(memory)));
}

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

class ChatAnswer final : public OpenAiAnswer {
 public:
  ChatAnswer(const Call& call, ChatRequest request, MemoryBudget::Share memory)
      : OpenAiAnswer(
            call, request.job, std::move(memory),
            {NewAnswerId("chatcmpl"), request.stream ? "chat.completion.chunk" : "chat.completion",
             request.stream, request.usage}),
        request_(std::move(request)),
        tokenizer_(call.model().tokenizer()),
        begun_(static_cast<size_t>(request_.n)),
        held_(begun_.size()) {}

  std::vector<Json> Choices(const GeneratedTexts::Delta& delta) override {
    std::vector<Json> choices;
    const auto add = [&](const Json& told, const Json& logprobs, const Json& reason) {
      choices.push_back({{"index", delta.text},
                         {"delta", told},
                         {"logprobs", logprobs},
                         {"finish_reason", reason}});
    };
    if (!begun_[delta.text]) {
      begun_[delta.text] = true;
      add({{"role", "assistant"}, {"content", ""}}, {}, {});
    }
    std::vector<NewToken>& held = held_[delta.text];
    held.insert(held.end(), delta.tokens.begin(), delta.tokens.end());
    if (!delta.shown.empty()) {
      add(Json{{"content", delta.shown}}, LogProbabilities(std::exchange(held, {})), {});
    }
    if (delta.ended) {
      add(Json::object(), {}, FinishReasonName(texts().text(delta.text).written.reason));
    }
    return choices;
  }

  Json AllChoices() override {
    Json choices = Json::array();
    for (size_t i = 0; i < texts().size(); ++i) {
      const GeneratedText& written = texts().text(i).written;
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
    return choices;
  }

 private:
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

  ChatRequest request_;
  const Tokenizer& tokenizer_;
  std::vector<bool> begun_;
  std::vector<std::vector<NewToken>> held_;  // tokens whose text was not shown yet
};

}  // namespace

HttpReply AnswerChat(const Call& call) {
  ChatRequest read = ReadChat(call.fields, call.model());
  MemoryBudget::Share memory = ReserveTexts(read.job, call);
  return TextsStream::ReplyOf(
      std::make_shared<ChatAnswer>(call, std::move(read), std::move(memory)));
}

}  // namespace folio
