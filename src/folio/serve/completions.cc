#include "folio/serve/completions.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <memory>
#include <numeric>
#include <utility>

#include "folio/base/base64.h"
#include "folio/base/utf8.h"
#include "folio/infer/pooling.h"
#include "folio/infer/text_streamer.h"
#include "folio/io/json.h"
#include "folio/serve/access.h"
#include "folio/serve/generated_texts.h"
#include "folio/text/chat_encoder.h"

namespace folio {
namespace {

struct OpenAiRequest {
  // Reads what requests of both kinds have.
  explicit OpenAiRequest(const RequestFields& fields)
      : n(fields.Integer("n", 1, 1, kMostTexts)),
        stream(fields.Flag("stream")),
        usage(ReadIncludeUsage(fields)) {}

  TextJob job;
  int64_t n;  // texts of a prompt that are told
  bool stream, usage;
  std::optional<int64_t> logprobs = {};  // likeliest tokens of each place
};

struct CompletionRequest : OpenAiRequest {
  using OpenAiRequest::OpenAiRequest;
  bool echo = false, ids = false;
  std::vector<std::string> prompts = {};  // as text, with echo
};

CompletionRequest ReadCompletion(const RequestFields& fields, const ServedModel& model,
                                 const AnswerLimits& limits) {
  if (!fields.Text("suffix").empty()) {
    throw ApiError(400, "'suffix' is not supported", "suffix");
  }
  CompletionRequest request(fields);
  request.echo = fields.Flag("echo");
  request.ids = fields.Flag("return_token_ids");
  request.logprobs = fields.IntegerIfAny("logprobs", 0, kMostLikeliest);
  TextJob& job = request.job;
  job.each = fields.Integer("best_of", request.n, 1, kMostTexts);
  if (job.each < request.n) ThrowBadField("best_of", "at least 'n'");
  if (job.each > request.n && request.stream) {
    throw ApiError(400, "'best_of' cannot be streamed", "best_of");
  }
  const int64_t max_tokens = fields.Integer("max_tokens", 16, 0, 1 << 30);
  job.options = ReadGenerationFields(fields, model, Writing::kText, max_tokens);
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

// Returns a token of a text that has ended, with the probabilities that were kept of it.
NewToken TokenOf(const GeneratedText& written, size_t t) {
  NewToken token{.id = written.ids[t]};
  if (t < written.probabilities.size()) token.probabilities = written.probabilities[t];
  return token;
}

// The legacy form of OpenAI's log-probabilities, of tokens as they come.
class LogProbabilities {
 public:
  LogProbabilities(const Tokenizer& tokenizer, int64_t likeliest)
      : tokenizer_(tokenizer), likeliest_(likeliest) {}

  // `none`: of the first token of a prompt, which nothing stands before.
  void Add(int32_t id, const ModelProbabilities& found, int64_t offset, bool none = false) {
    const std::string text = TokenText(tokenizer_, id);
    tokens_.push_back(text);
    offsets_.push_back(offset);
    logs_.push_back(none ? Json() : Json(FiniteLogProbability(found.log_probability)));
    Json top = none || likeliest_ == 0 ? Json() : Json::object();
    if (!top.is_null()) {
      for (const TokenProbability& one : found.likeliest) {
        top[TokenText(tokenizer_, one.id)] = FiniteLogProbability(one.log_probability);
      }
      top[text] = FiniteLogProbability(found.log_probability);
    }
    top_.push_back(std::move(top));
  }
  Json Take() && {
    Json json = Json::object();
    json["tokens"] = std::move(tokens_);
    json["token_logprobs"] = std::move(logs_);
    json["top_logprobs"] = likeliest_ == 0 ? Json() : std::move(top_);
    json["text_offset"] = std::move(offsets_);
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
        open_(request_.job.prompts.size() * static_cast<size_t>(request_.job.each)) {}

  std::vector<Json> Choices(const GeneratedTexts::Delta& delta) override {
    for (const NewToken& token : delta.tokens) Hold(delta.text, token);
    Json choice = Choice(delta.text, delta.shown, delta.ended, delta.text);
    if (choice.is_null()) return {};
    return {std::move(choice)};
  }

  Json AllChoices() override {
    Json choices = Json::array();
    for (size_t p = 0; p < request_.job.prompts.size(); ++p) {
      for (const size_t i : Best(p)) {
        const GeneratedText& written = texts().text(i).written;
        for (size_t t = 0; t < written.ids.size(); ++t) Hold(i, TokenOf(written, t));
        Json choice = Choice(i, written.text, true, choices.size());
        open_[i] = {};
        if (request_.ids) choice["prompt_token_ids"] = request_.job.prompts[p];
        choices.push_back(std::move(choice));
      }
    }
    return choices;
  }

 private:
  // A text of a stream, or of an answer that is made.
  struct Open {
    bool begun = false;
    int64_t shown = 0;             // characters
    std::vector<int32_t> ids;      // that are not told yet, where somebody wants them
    std::vector<NewToken> tokens;  // all of them, where somebody wants log-probabilities
    size_t told = 0;               // of these
    bool prompt_told = false;
  };

  void Hold(size_t text, NewToken token) {
    if (request_.ids) open_[text].ids.push_back(token.id);
    if (request_.logprobs) open_[text].tokens.push_back(std::move(token));
  }

  // Null where a text that goes on shows nothing.
  Json Choice(size_t text, std::string shown, bool ended, size_t index) {
    Open& open = open_[text];
    if (!std::exchange(open.begun, true) && request_.echo) {
      shown = request_.prompts[PromptOf(text)] + shown;
    }
    open.shown += CountCharacters(shown);
    if (shown.empty() && !ended) return {};
    Json choice{{"text", shown}, {"index", index}};
    choice["logprobs"] = request_.logprobs ? NewLogProbabilities(text) : Json();
    choice["finish_reason"] =
        ended ? Json(FinishReasonName(texts().text(text).written.reason)) : Json();
    if (request_.ids) choice["token_ids"] = std::exchange(open.ids, {});
    return choice;
  }

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

  void AddPrompt(const GeneratedTexts::Text& text, size_t p, LogProbabilities& all) const {
    if (!request_.job.prompt_probabilities) return;
    const std::vector<int32_t>& ids = request_.job.prompts[p];
    const DecodedText decoded = DecodeWithOffsets(tokenizer_, ids);
    for (size_t t = 0; t < ids.size(); ++t) {
      all.Add(ids[t], t == 0 ? ModelProbabilities{} : text.prompt[t - 1],
              static_cast<int64_t>(decoded.chars[t]), t == 0);
    }
  }

  // Returns the log-probabilities of what was shown since the last time: of the tokens that begin
  // in it.
  Json NewLogProbabilities(size_t i) {
    Open& open = open_[i];
    const size_t p = PromptOf(i);
    LogProbabilities all(tokenizer_, *request_.logprobs);
    if (!std::exchange(open.prompt_told, true)) AddPrompt(texts().text(i), p, all);
    const int64_t before = request_.echo ? CountCharacters(request_.prompts[p]) : 0;
    std::vector<int32_t> ids;
    for (const NewToken& token : open.tokens) ids.push_back(token.id);
    const DecodedText decoded = DecodeWithOffsets(tokenizer_, ids);
    for (; open.told < ids.size(); ++open.told) {
      const int64_t offset = before + static_cast<int64_t>(decoded.chars[open.told]);
      if (offset >= open.shown) break;
      all.Add(ids[open.told], open.tokens[open.told].probabilities, offset);
    }
    return std::move(all).Take();
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
                     fmt::format("{} log-probabilities exceed the limit of {}: request fewer "
                                 "tokens, texts or likeliest tokens",
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

// Refuses fields that would change the answer and are not supported, instead of passing them over.
void RefuseOthers(const RequestFields& fields) {
  const Json* functions = fields.Find("functions");
  if (functions != nullptr && !(functions->is_array() && functions->empty())) {
    throw ApiError(400, "'functions' is not supported: use 'tools'", "functions");
  }
  const Json* format = fields.Find("response_format");
  const Json* type = format == nullptr ? nullptr : format->find("type");
  if (format != nullptr && (type == nullptr || *type != Json("text"))) {
    throw ApiError(400, "'response_format' must be of type \"text\"", "response_format");
  }
}

OpenAiRequest ReadChat(const RequestFields& fields, const ServedModel& model) {
  const ChatEncoder chat = RequireChat(model);
  RefuseOthers(fields);
  OpenAiRequest request(fields);
  std::vector<int32_t> ids;
  chat.Encode(model.tokenizer(), ReadConversation(fields), /*ask=*/true, "'messages'", ids);
  const int64_t P = model.config().n_positions;
  if (fields.Flag("logprobs")) {
    request.logprobs = fields.Integer("top_logprobs", 0, 0, kMostLikeliest);
  }
  const int64_t most = fields.Integer("max_tokens", P, 0, 1 << 30);
  const int64_t max_tokens = fields.Integer("max_completion_tokens", most, 0, 1 << 30);
  TextJob& job = request.job;
  job.options = ReadGenerationFields(fields, model, Writing::kAnswer, max_tokens);
  job.options.likeliest = request.logprobs;
  if (!job.options.truncate) RequireContext(ids, "messages", model);
  job.prompts = {std::move(ids)};
  job.each = request.n;
  return request;
}

class ChatAnswer final : public OpenAiAnswer {
 public:
  ChatAnswer(const Call& call, OpenAiRequest request, MemoryBudget::Share memory)
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
      Json choice{{"index", i},
                  {"message", Json{{"role", "assistant"}, {"content", written.text}}}};
      std::vector<NewToken> tokens;
      if (request_.logprobs) tokens.reserve(written.ids.size());
      for (size_t t = 0; request_.logprobs && t < written.ids.size(); ++t) {
        tokens.push_back(TokenOf(written, t));
      }
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

  OpenAiRequest request_;
  const Tokenizer& tokenizer_;
  std::vector<bool> begun_;
  std::vector<std::vector<NewToken>> held_;  // tokens whose text was not shown yet
};

}  // namespace

HttpReply AnswerChat(const Call& call) {
  OpenAiRequest read = ReadChat(call.fields, call.model());
  MemoryBudget::Share memory = ReserveTexts(read.job, call);
  return TextsStream::ReplyOf(
      std::make_shared<ChatAnswer>(call, std::move(read), std::move(memory)));
}

namespace {

void WriteEmbedding(const std::vector<double>& vector, bool normalize, bool base64,
                    JsonWriter& json) {
  double square = 0;
  for (const double v : vector) square += v * v;
  const double scale = normalize && square > 0 ? 1 / std::sqrt(square) : 1;
  std::vector<float> floats;
  for (const double v : vector) floats.push_back(static_cast<float>(v * scale));
  if (!base64) {
    json.BeginArray();
    for (const float v : floats) json.Value(static_cast<double>(v));
    json.EndArray();
    return;
  }
  static_assert(std::endian::native == std::endian::little);
  json.Text(Base64({reinterpret_cast<const char*>(floats.data()), floats.size() * sizeof(float)}));
}

// The rows of all texts of a request, which the model's thread adds until they have ended.
using Embeddings = std::vector<PooledRows>;

class EmbeddingAnswer final : public TextsStream {
 public:
  EmbeddingAnswer(const Call& call, const TextJob& job, MemoryBudget::Share memory,
                  std::shared_ptr<const Embeddings> embeddings, bool normalize, bool base64)
      : TextsStream(call, job, std::move(memory), /*waits=*/true),
        model_(call.model().name),
        embeddings_(std::move(embeddings)),
        normalize_(normalize),
        base64_(base64) {
    for (const std::vector<int32_t>& prompt : job.prompts) tokens_ += std::ssize(prompt);
  }

 private:
  std::string Whole() override {
    std::string body;
    JsonWriter json(body);
    json.BeginObject().Key("object").Text("list").Key("data").BeginArray();
    for (size_t i = 0; i < embeddings_->size(); ++i) {
      json.BeginObject().Key("object").Text("embedding").Key("index").Value(i).Key("embedding");
      WriteEmbedding((*embeddings_)[i].Value(), normalize_, base64_, json);
      json.EndObject();
    }
    json.EndArray().Key("model").Text(model_).Key("usage");
    json.Value(Json{{"prompt_tokens", tokens_}, {"total_tokens", tokens_}}).EndObject();
    return body;
  }

  std::string model_;
  std::shared_ptr<const Embeddings> embeddings_;
  bool normalize_, base64_;
  int64_t tokens_ = 0;  // of all texts
};

}  // namespace

HttpReply AnswerEmbedding(const Call& call) {
  const ServedModel& model = call.model();
  const RequestFields& fields = call.fields;
  const int64_t C = model.config().n_embd;
  const std::string format = fields.Text("encoding_format", "float");
  if (format != "float" && format != "base64") {
    ThrowBadField("encoding_format", "\"float\" or \"base64\"");
  }
  const std::string pooling = fields.Text("pooling", "mean");
  if (pooling != "mean" && pooling != "last") ThrowBadField("pooling", "\"mean\" or \"last\"");
  const bool normalize = fields.Flag("normalize", true);
  fields.Integer("dimensions", C, C, C);
  TextJob job;
  job.options = {.max_tokens = 0, .when_full = WhenFull::kStop};
  job.prompts = ReadTexts(fields, "input", model, call.limits.prompts, [&](const auto& text) {
    std::vector<int32_t> ids = model.tokenizer().EncodeOrdinary(text, "'input'");
    return ids.empty() ? ids : model.tokenizer().WithBeginning(std::move(ids));
  });
  for (const std::vector<int32_t>& input : job.prompts) RequireContext(input, "input", model);
  constexpr int64_t kMemoryOfNumber = 96;  // a sum, and its digits
  MemoryBudget::Share memory(call.limits.memory, kMemoryOfNumber * C * std::ssize(job.prompts));
  const auto embeddings =
      std::make_shared<Embeddings>(job.prompts.size(), PooledRows(C, pooling == "mean"));
  job.on_norm = [embeddings](size_t text, int64_t, const Tensor& norm) {
    (*embeddings)[text].Add(norm);
  };
  return TextsStream::ReplyOf(std::make_shared<EmbeddingAnswer>(
      call, job, std::move(memory), embeddings, normalize, format == "base64"));
}

}  // namespace folio
