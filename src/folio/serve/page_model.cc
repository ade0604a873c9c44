#include "folio/serve/page_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <optional>
#include <random>
#include <set>
#include <string_view>

#include "folio/base/base64.h"
#include "folio/base/clock.h"
#include "folio/base/hash.h"
#include "folio/base/utf8.h"
#include "folio/infer/chat_session.h"
#include "folio/infer/text_streamer.h"
#include "folio/inspect/embeddings.h"
#include "folio/inspect/probabilities.h"
#include "folio/inspect/trace.h"
#include "folio/io/json.h"
#include "folio/model/layers/rotary.h"
#include "folio/model/transformer.h"
#include "folio/serve/access.h"
#include "folio/serve/generated_texts.h"
#include "folio/serve/page_files.h"
#include "folio/text/bpe_tokenizer.h"

namespace folio {
namespace {

// The first pieces of a text that are put together of several symbols, each once, and how. Only the
// beginning of a long text is looked at.
Json MergedPieces(const Tokenizer& tokenizer, std::string_view text) {
  constexpr size_t kMost = 40, kLongest = 64;  // pieces, bytes
  constexpr size_t kBeginning = size_t{1} << 15;
  if (text.size() > kBeginning) text = text.substr(0, tokenizer.FindCut(text, kBeginning));
  std::set<std::string_view> seen;
  Json pieces = Json::array();
  ExplainText(tokenizer, text, SpecialRule::Allow(), "'text'", [&](const ExplainedPretoken& piece) {
    if (pieces.size() == kMost || piece.merges.empty() || piece.bytes.size() > kLongest) return;
    if (!seen.insert(piece.bytes).second) return;
    Json merges = Json::array();
    for (const BpeTokenizer::MergeStep& step : piece.merges) {
      merges.push_back(Json::array({step.at, step.merged, step.rank}));
    }
    pieces.push_back({{"at", piece.bytes.data() - text.data()},
                      {"symbols", piece.merges.front().before},
                      {"merges", merges}});
  });
  return pieces;
}

// Returns the parts of a block, which the page describes in its own words.
Json BlockJson(GptConfig config) {
  const bool none = config.position_embedding == PositionKind::kNone;
  Json block = {{"position_channels", none              ? 0
                                      : config.rotary() ? config.rotary_width()
                                                        : config.n_embd},
                {"qk_norm", config.has_qk_norm()},
                {"gated", config.gated()},
                {"qkv_bias", config.has_qkv_bias()},
                {"attention_bias", config.has_attention_bias()},
                {"mlp_bias", config.has_mlp_bias()}};
  for (const GptRow& row : config.Rows()) {
    if (!row.page.empty()) block.Add(std::string(row.page), FieldJson(row));
  }
  return block;
}

// Returns the memory that inspection takes beside the served weights; null for none.
Json FloatCopyJson(const FloatCopy& copy) {
  if (copy.bytes() == 0) return {};
  return {{"bytes", copy.bytes()}, {"ready", copy.used_bytes() > 0}};
}

}  // namespace

std::vector<int32_t> ReadPageTokens(const RequestFields& fields, const ServedModel& model,
                                    int64_t most) {
  std::vector<int32_t> ids;
  const Json* given = fields.Find("ids");
  if (given != nullptr) {
    ids = ReadTokenIds(*given, "ids", model.config().vocab_size);
  } else {
    ids = model.tokenizer().Encode(fields.Text("text"), "'text'", SpecialRule::Allow());
    if (!ids.empty()) ids = model.tokenizer().WithBeginning(std::move(ids));
  }
  const std::string key = given != nullptr ? "ids" : "text";
  if (ids.empty()) ThrowBadField(key, "a text of at least one token");
  if (std::ssize(ids) > most) {
    throw ApiError(400, fmt::format("{} tokens exceed the limit of {}", ids.size(), most), key,
                   "context_length_exceeded");
  }
  return ids;
}

Json TopPairs(const std::vector<TokenProbability>& top) {
  Json pairs = Json::array();
  for (const TokenProbability& one : top) {
    pairs.push_back(Json::array({one.id, ShortNumber(one.log_probability)}));
  }
  return pairs;
}

Json PageModelJson(const ServedModel& model) {
  const ModelSummary summary = model.summary();
  return {{"name", model.name},
          {"id", model.id},
          {"n_layer", summary.layers},
          {"n_head", summary.heads},
          {"n_embd", summary.channels},
          {"n_ctx", summary.context},
          {"n_vocab", summary.vocabulary},
          {"n_inner", summary.feed_forward},
          {"params", summary.parameters()},
          {"dtype", MatrixDtypeOf(*model.model.weights)},
          {"float_copy", FloatCopyJson(*model.floats)},
          {"causal", summary.causal},
          {"position_embedding", summary.positions},
          {"block", BlockJson(model.config())},
          {"tokenizer", std::string(model.tokenizer().kind())},
          {"end_of_text", Json(model.tokenizer().end_of_text())},
          {"begin", PromptTokens(model.tokenizer(), "")}};
}

HttpReply AnswerVocabulary(const Call& call) {
  const ServedModel& model = call.model();
  const Tokenizer& tokenizer = model.tokenizer();
  const int64_t known = std::min(model.config().vocab_size, tokenizer.vocab_size());
  HttpReply reply;
  JsonWriter json(reply.body);
  json.BeginObject().Key("tokens").BeginArray();
  for (int64_t id = 0; id < known; ++id) {
    const std::string_view bytes = tokenizer.TokenBytes(static_cast<int32_t>(id));
    json.Value(bytes.empty() ? Json() : Json(Base64(bytes)));
  }
  json.EndArray().EndObject();
  return Tagged(std::move(reply), tokenizer.hash(), call.request);
}

HttpReply AnswerPageTokens(const Call& call) {
  const Tokenizer& tokenizer = call.model().tokenizer();
  const std::string text = call.fields.Text("text");
  std::vector<int32_t> ids = tokenizer.Encode(text, "'text'", SpecialRule::Allow());
  const size_t of_text = ids.size();
  if (call.fields.Flag("begin") && !ids.empty()) ids = tokenizer.WithBeginning(std::move(ids));
  const size_t added = ids.size() - of_text;
  const size_t begun = BeginsWith(ids, tokenizer.before()) ? tokenizer.before().size() : 0;
  HttpReply reply;
  JsonWriter json(reply.body);
  json.BeginObject().Key("ids").Array(std::span<const int32_t>(ids)).Key("spans").BeginArray();
  for (size_t i = 0, begin = 0; i < ids.size(); ++i) {
    const size_t end = begin + (i < added ? 0 : tokenizer.TokenBytes(ids[i]).size());
    json.BeginArray().Value(begin).Value(end).EndArray();
    begin = end;
  }
  json.EndArray().Key("bytes").Value(text.size()).Key("begun").Value(begun);
  json.Key("pieces").Value(MergedPieces(tokenizer, text)).EndObject();
  return reply;
}

HttpReply AnswerScores(const Call& call) {
  constexpr int64_t kMemoryOfScore = 64;  // in `scores`, and as text
  ServedModel& model = call.model();
  const int64_t top = call.fields.Integer("top", 10, 0, kMostPageTop);
  ModelText text{.name = "text", .ids = ReadPageTokens(call.fields, model, kMostScoredTokens)};
  const MemoryBudget::Share memory(call.limits.memory,
                                   kMemoryOfScore * (top + 4) * std::ssize(text.ids));
  const bool any = text.ids.size() > 1;
  HttpReply reply;
  JsonWriter json(reply.body);
  json.BeginObject().Key("ids").Array(std::span<const int32_t>(text.ids));
  TokenScores scores;
  if (any) {
    const FloatCopy::Weights weights = model.floats->Get();
    const std::lock_guard lock(model.inspect_mutex);
    scores =
        ScoreTokens(*model.inspect_backend, *weights, &model.tokenizer(), std::move(text), top);
  }
  // Nothing foretells the first token.
  const auto column = [&](const char* key, const Json& first, const auto& value_of) {
    json.Key(key).BeginArray().Value(first);
    for (const TokenScore& score : scores.tokens) json.Value(value_of(score));
    json.EndArray();
  };
  column("lp", {}, [](const TokenScore& score) { return ShortNumber(-score.surprise); });
  column("rank", {}, [](const TokenScore& score) { return score.rank + 1; });
  column("H", {}, [](const TokenScore& score) { return ShortNumber(score.entropy); });
  column("top", Json::array(), [](const TokenScore& score) { return TopPairs(score.top); });
  json.Key("nats_per_token").Value(any ? ShortNumber(scores.surprise) : Json());
  json.Key("perplexity").Value(any ? ShortNumber(std::exp(scores.surprise)) : Json());
  const bool bits = any && scores.bits_per_byte > 0;
  json.Key("bits_per_byte").Value(bits ? ShortNumber(scores.bits_per_byte) : Json()).EndObject();
  return reply;
}

namespace {

std::string ProjectedTokens(Backend& backend, const Tensor& table) {
  constexpr size_t kAxes = 3;
  constexpr double kLargest = 32767;
  // Axes with nearly the same share of the variance need not be told apart.
  constexpr double kExact = 1e-4;
  const Projection projection = ProjectRows(backend, table, kAxes, kExact);
  std::vector<double> coordinates;
  double farthest = 0;
  for (size_t id = 0; id < static_cast<size_t>(table.dim(0)); ++id) {
    for (const std::vector<double>& along : projection.along) {
      coordinates.push_back(std::isfinite(along[id]) ? along[id] : 0);
      farthest = std::max(farthest, std::abs(coordinates.back()));
    }
  }
  const double scale = farthest > 0 ? farthest / kLargest : 1;
  std::vector<int16_t> numbers;
  for (const double at : coordinates) {
    numbers.push_back(static_cast<int16_t>(std::lround(at / scale)));
  }
  return PageNumbers(Json{{"scale", scale}, {"explained", projection.explained}})
      .Add({table.dim(0), kAxes}, numbers)
      .bytes();
}

// `most` of [0, n), evenly; all if there are fewer.
std::vector<int64_t> Evenly(int64_t n, int64_t most) {
  std::vector<int64_t> chosen;
  const int64_t count = std::min(n, most);
  for (int64_t i = 0; i < count; ++i) chosen.push_back(i * n / count);
  return chosen;
}

// Numbers from -largest to largest as bytes. `about` takes what they mean.
HttpReply ByteReply(Json about, const std::vector<int64_t>& shape, std::span<const float> numbers,
                    double largest) {
  constexpr double kSteps = 255;
  const double scale = largest > 0 ? 2 * largest / kSteps : 1;
  std::vector<uint8_t> bytes;
  for (const float number : numbers) {
    const double step = (static_cast<double>(number) + largest) / scale;
    bytes.push_back(
        std::isnan(step) ? 0 : static_cast<uint8_t>(std::lround(std::clamp(step, 0.0, kSteps))));
  }
  about.update({{"offset", -largest}, {"scale", scale}});
  return PageNumbers(std::move(about)).Add(shape, bytes).reply();
}

// The encoding of positions: vectors that are added to tokens, or angles by which queries and keys
// are rotated.
class Positions {
 public:
  explicit Positions(const Call& call) : config_(call.model().config()) {
    if (AddsPositions(config_)) {
      table_ = PositionTable(*call.model().model.weights);
      width_ = config_.n_embd;
      return;
    }
    if (!config_.rotary()) {
      throw ApiError(400, "the model has no positions", "", "no_positions");
    }
    const int64_t L = config_.n_layer;
    int64_t first = 0;
    while (first + 1 < L && !config_.layer(first).rotary) ++first;
    layer_ = call.fields.Integer("layer", first, 0, L - 1);
    const std::optional<size_t> table = config_.layer(*layer_).rotary;
    if (!table) ThrowBadField("layer", "one that turns queries and keys");
    frequencies_ = RotaryFrequenciesOf(config_, *table);
    width_ = 2 * std::ssize(frequencies_.inverse);
  }

  int64_t width() const { return width_; }
  // Rows of these positions, dense.
  std::vector<float> At(std::span<const int64_t> positions) const {
    if (layer_) return RotaryHands(frequencies_, positions);
    std::vector<float> rows;
    for (const int64_t p : positions) {
      const float* row = table_.data() + p * width_;
      rows.insert(rows.end(), row, row + width_);
    }
    return rows;
  }
  // Describes rotary positions.
  Json About() const {
    if (!layer_) return Json::object();
    Json wavelengths = Json::array(), layers = Json::array();
    for (const float step : frequencies_.inverse) {
      wavelengths.push_back(ShortNumber(2 * std::numbers::pi / static_cast<double>(step)));
    }
    const std::optional<size_t> table = config_.layer(*layer_).rotary;
    for (int64_t l = 0; l < config_.n_layer; ++l) {
      if (config_.layer(l).rotary == table) layers.push_back(l);
    }
    return {{"layer", *layer_}, {"layers", layers}, {"wavelengths", wavelengths}};
  }

 private:
  const GptConfig& config_;
  std::vector<float> table_;  // (P,C)
  std::optional<int64_t> layer_;
  RotaryFrequencies frequencies_;
  int64_t width_ = 0;
};

HttpReply Curves(const Positions& positions, int64_t P, const RequestFields& fields) {
  constexpr size_t kMostCurves = 64;
  std::vector<int64_t> dims = fields.Integers("dims", 0, positions.width() - 1, kMostCurves);
  if (dims.empty()) dims = {0};
  std::vector<float> numbers(dims.size() * static_cast<size_t>(P));
  for (int64_t p = 0; p < P; ++p) {
    const std::vector<float> row = positions.At({&p, 1});
    for (size_t i = 0; i < dims.size(); ++i) {
      numbers[i * static_cast<size_t>(P) + static_cast<size_t>(p)] =
          row[static_cast<size_t>(dims[i])];
    }
  }
  Json about = positions.About();
  about["dims"] = dims;
  return PageNumbers(std::move(about)).Add({std::ssize(dims), P}, numbers).reply();
}

}  // namespace

HttpReply AnswerProjectedTokens(const Call& call) {
  ServedModel& model = call.model();
  const std::lock_guard lock(model.projected_mutex);
  std::string& file = model.projected;
  if (file.empty()) {
    // The backend is a second one, so that others may look into the model meanwhile.
    const std::unique_ptr<Backend> backend = MakeBackend(model.inspect_backend->name());
    const FloatCopy::Weights weights = model.floats->Get();
    file = ProjectedTokens(*backend, HostCopy(weights->params().wte).tensor());
  }
  return Tagged({.type = "application/octet-stream", .body = file}, HashHex(file), call.request);
}

HttpReply AnswerNeighbours(const Call& call) {
  const ServedModel& model = call.model();
  const int64_t id = call.fields.Required("id", 0, model.config().vocab_size - 1),
                k = call.fields.Integer("k", 20, 1, 200);
  const FloatCopy::Weights weights = model.floats->Get();
  const HostCopy copy(weights->params().wte);
  const Tensor& table = copy.tensor();
  const std::span<const float> own = Row(table, id);
  double square = 0;
  for (const float number : own) square += static_cast<double>(number) * number;
  Json nearest = Json::array();
  for (const Neighbour& one : NearestRows(table, own, k, id)) {
    nearest.push_back(Json::array({one.row, ShortNumber(one.cosine)}));
  }
  return {
      .body =
          Json{{"id", id}, {"norm", ShortNumber(std::sqrt(square))}, {"nearest", nearest}}.dump()};
}

HttpReply AnswerPositions(const Call& call) {
  constexpr int64_t kSize = 256, kMostSize = 512;
  const ServedModel& model = call.model();
  const Positions all(call);
  const int64_t P =
      call.fields.Integer("to", model.config().n_positions, 1, model.config().n_positions);
  const int64_t size = call.fields.Integer("size", kSize, 8, kMostSize);
  const std::string view = call.fields.Text("view", "sim");
  if (view == "curves") return Curves(all, P, call.fields);
  const std::vector<int64_t> positions = Evenly(P, size);
  const auto n = std::ssize(positions);
  std::vector<float> rows = all.At(positions);
  const Tensor chosen(rows.data(), {n, all.width()});
  Json about = all.About();
  about["positions"] = positions;
  if (view == "values") {
    const std::vector<int64_t> channels = Evenly(all.width(), kMostSize);
    std::vector<float> values;
    double largest = 0;
    for (int64_t row = 0; row < n; ++row) {
      for (const int64_t c : channels) {
        values.push_back(Row(chosen, row)[static_cast<size_t>(c)]);
        largest = std::fmax(largest, std::abs(static_cast<double>(values.back())));
      }
    }
    about["channels"] = channels;
    return ByteReply(std::move(about), {n, std::ssize(channels)}, values, largest);
  }
  if (view != "sim") ThrowBadField("view", "sim, values or curves");
  return ByteReply(std::move(about), {n, n}, CosineSimilarity(chosen, n), 1);
}

namespace {

constexpr int64_t kMostPageIds = 1 << 20;  // of a text that goes on

// The text that the page requests.
struct PageJob {
  TextJob job;
  bool conversation = false;
  int64_t forgotten = 0;  // turns of it that the context does not hold any more
  int64_t waiting = 0;    // texts before it
  double begin = 0;

  const std::vector<int32_t>& prompt() const { return job.prompts.front(); }
};

// Returns the tokens that a conversation goes on from: a system message, if it begins with one, and
// its turns without the oldest, where they leave no room.
std::vector<int32_t> ReadPageConversation(const RequestFields& fields, const ServedModel& model,
                                          PageJob& page) {
  ChatSession session(model.tokenizer(), RequireChat(model), model.config().n_positions);
  std::vector<ChatMessage> messages = ReadMessages(fields);
  if (messages.front().role == ChatRole::kSystem) {
    session.SetSystem(messages.front().content);
    messages.erase(messages.begin());
  }
  const auto refuse = [] {
    ThrowBadField("messages",
                  "alternating messages of user and assistant after an optional system message, "
                  "the last one a user's");
  };
  if (messages.size() % 2 == 0) refuse();
  for (size_t i = 0; i < messages.size(); ++i) {
    const bool asks = i % 2 == 0;
    if (messages[i].role != (asks ? ChatRole::kUser : ChatRole::kAssistant)) refuse();
    if (!asks) session.Said(messages[i - 1].content, messages[i].content);
  }
  ChatSession::Question question =
      session.Ask(messages.back().content, page.job.options.max_tokens);
  page.forgotten = question.forgotten;
  return std::move(question.ids);
}

PageJob ReadPageText(const RequestFields& fields, const ServedModel& model) {
  constexpr int64_t kTop = 10;
  PageJob page;
  TextJob& job = page.job;
  job.reading = true;
  page.conversation = fields.Find("messages") != nullptr;
  const Writing writing = page.conversation ? Writing::kAnswer : Writing::kText;
  const int64_t most = DefaultGeneration(model.model, writing).max_tokens;
  const int64_t max_tokens = fields.Integer("max_tokens", most, 0, 1 << 30);
  job.options = ReadGenerationFields(fields, model, writing, max_tokens);
  job.options.likeliest = fields.Integer("logprobs", kTop, 0, kMostPageTop);
  if (fields.Find("seed") == nullptr) {
    job.options.sampling.seed = std::random_device()();  // a number that JavaScript holds
  }
  std::string key = "prompt";
  if (page.conversation) {
    key = "messages";
    job.prompts = {ReadPageConversation(fields, model, page)};
  } else if (fields.Find("ids") != nullptr) {
    key = "ids";
    job.prompts = {ReadPageTokens(fields, model, kMostPageIds)};
  } else {
    job.prompts = {PromptTokens(model.tokenizer(), fields.Text("prompt"), "'prompt'")};
  }
  if (!job.options.truncate) RequireContext(page.prompt(), key, model);
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

// A text for the page, as events.
class PageText final : public TextsStream {
 public:
  PageText(const Call& call, PageJob page, MemoryBudget::Share memory)
      : TextsStream(call, page.job, std::move(memory), /*waits=*/false),
        model_(call.model().id),
        page_(std::move(page)),
        read_(PromptTokensSeen(std::ssize(page_.prompt()), page_.job.options,
                               call.model().config().n_positions)) {}

 private:
  std::string FirstEvents() override {
    Json json = Progress(0);
    json["model"] = model_;
    if (page_.conversation) {
      json.update({{"forgotten", page_.forgotten}, {"prompt_ids", page_.prompt()}});
    }
    return NamedEvent("progress", json);
  }

  Json Progress(int64_t done) const {
    const double seconds = SteadySeconds() - page_.begin;
    const double rate = static_cast<double>(done) / seconds;
    const int64_t left = read_ - done;
    return {{"done", done},
            {"total", read_},
            {"tps", done > 0 ? ShortNumber(rate) : Json()},
            {"eta", done > 0 ? ShortNumber(static_cast<double>(left) / rate) : Json()},
            {"waiting", page_.waiting}};
  }

  std::string Events(const GeneratedTexts::Delta& delta) override {
    if (delta.ended) return Done(delta.shown);
    if (delta.tokens.empty()) return NamedEvent("progress", Progress(delta.read));
    if (index_ == 0) first_ = SteadySeconds();
    const NewToken& token = delta.tokens.front();
    const ModelProbabilities& found = token.probabilities;
    return NamedEvent("token", {{"i", index_++},
                                {"id", token.id},
                                {"text", delta.shown},
                                {"lp", ShortNumber(found.log_probability)},
                                {"sp", ShortNumber(token.chance)},
                                {"rank", found.rank + 1},
                                {"H", ShortNumber(found.entropy)},
                                {"seen", token.seen},
                                {"top", TopPairs(found.likeliest)}});
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
                 {"ttft_ms", index_ > 0 ? ms(first_ - page_.begin) : Json()}};
    Json json{{"reason", ReasonOf(text)},
              {"timings", timings},
              {"seed", page_.job.options.sampling.seed},
              {"prompt_ids", page_.prompt()}};
    if (!rest.empty()) json["text"] = rest;
    return NamedEvent("done", json);
  }

  std::string model_;
  PageJob page_;
  int64_t read_;      // tokens of the prompt that the model sees
  double first_ = 0;  // when the first token came
  int64_t index_ = 0;
};

}  // namespace

HttpReply AnswerPageText(const Call& call) {
  // The memory of an id of the prompt in the events.
  constexpr int64_t kMemoryOfTold = 4 * sizeof(Json);
  PageJob page = ReadPageText(call.fields, call.model());
  MemoryBudget::Share memory =
      ReserveTexts(page.job, call, kMemoryOfTold * std::ssize(page.prompt()));
  page.waiting = call.model().scheduler->waiting();
  page.begin = SteadySeconds();
  return TextsStream::ReplyOf(std::make_shared<PageText>(call, std::move(page), std::move(memory)));
}

}  // namespace folio
