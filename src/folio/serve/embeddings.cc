#include "folio/serve/embeddings.h"

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <functional>
#include <memory>
#include <mutex>

#include "folio/base/clock.h"
#include "folio/io/json.h"
#include "folio/plot/png.h"
#include "folio/serve/access.h"
#include "folio/serve/api_error.h"
#include "folio/serve/generation_fields.h"

namespace folio {
namespace {

// Embedding holds the vectors of all texts of a request, which the scheduler's thread writes.
struct Embedding {
  std::mutex mutex;
  std::function<void()> news = [] {};
  std::vector<std::vector<double>> texts;  // made as the model reads them
  size_t ended = 0;
};

void Write(const std::vector<double>& vector, bool normalize, bool base64, JsonWriter& json) {
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

// The answer, when the model has read all texts.
class EmbeddingStream final : public HttpStream {
 public:
  // Form says how a request is answered.
  struct Form {
    std::string model;
    int64_t tokens = 0;  // of all texts
    bool normalize = true, base64 = false;
  };

  EmbeddingStream(std::shared_ptr<Embedding> state, std::shared_ptr<SequenceGroup> scheduled,
                  std::shared_ptr<MemoryBudget::Share> memory, Form form, double most_seconds)
      : state_(std::move(state)),
        scheduled_(std::move(scheduled)),
        memory_(std::move(memory)),
        form_(std::move(form)),
        end_(SteadySeconds() + most_seconds) {}
  ~EmbeddingStream() override { scheduled_->Cancel(); }

  void Begin(const std::function<void()>& news) override {
    const std::lock_guard lock(state_->mutex);
    state_->news = news;
  }

  Part Next() override {
    {
      const std::lock_guard lock(state_->mutex);
      const double left = end_ - SteadySeconds();
      if (state_->ended < state_->texts.size()) {
        if (left > 0) return {.seconds = left};
        return {.whole = ApiError(408, "not done within the time that an answer may take").reply()};
      }
    }
    try {
      scheduled_->ThrowIfFailed();
      return {.whole = Whole()};
    } catch (const ApiError& error) {
      return {.whole = error.reply()};
    } catch (const std::bad_alloc&) {
      return {.whole = ApiError(503, "not enough memory for this request now").reply()};
    }
  }

 private:
  HttpReply Whole() const {
    HttpReply reply{.held = memory_};
    JsonWriter json(reply.body);
    json.BeginObject().Key("object").Text("list").Key("data").BeginArray();
    for (size_t i = 0; i < state_->texts.size(); ++i) {
      json.BeginObject().Key("object").Text("embedding").Key("index").Value(i).Key("embedding");
      Write(state_->texts[i], form_.normalize, form_.base64, json);
      json.EndObject();
    }
    json.EndArray().Key("model").Text(form_.model).Key("usage");
    json.Value(Json{{"prompt_tokens", form_.tokens}, {"total_tokens", form_.tokens}}).EndObject();
    return reply;
  }

  std::shared_ptr<Embedding> state_;
  std::shared_ptr<SequenceGroup> scheduled_;
  std::shared_ptr<MemoryBudget::Share> memory_;  // until the answer was sent
  Form form_;
  double end_;
};

}  // namespace

HttpReply AnswerEmbedding(ServedModel& model, const RequestFields& fields,
                          const HttpRequest& request, const AnswerLimits& limits,
                          ServiceMetrics& metrics) {
  const int64_t C = model.config().n_embd;
  const std::string format = fields.Text("encoding_format", "float");
  if (format != "float" && format != "base64") {
    ThrowBadField("encoding_format", "\"float\" or \"base64\"");
  }
  const std::string pooling = fields.Text("pooling", "mean");
  if (pooling != "mean" && pooling != "last") ThrowBadField("pooling", "\"mean\" or \"last\"");
  const bool normalize = fields.Flag("normalize", true);
  fields.Integer("dimensions", C, C, C);
  const std::vector<std::vector<int32_t>> inputs = ReadTexts(
      fields, "input", model, limits.prompts,
      [&](const std::string& text) { return model.tokenizer().EncodeOrdinary(text, "'input'"); });

  for (const std::vector<int32_t>& input : inputs) RequireContext(input, "input", model);
  constexpr int64_t kMemoryOfNumber = 96;  // a sum, and its digits
  auto memory = std::make_shared<MemoryBudget::Share>(limits.memory,
                                                      kMemoryOfNumber * C * std::ssize(inputs));
  const auto state = std::make_shared<Embedding>();
  state->texts.resize(inputs.size());
  std::vector<TextRequest> texts(inputs.size());
  int64_t tokens = 0;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const auto T = static_cast<int64_t>(inputs[i].size());
    tokens += T;
    std::vector<double>& pooled = state->texts[i];
    pooled.assign(static_cast<size_t>(C), 0);
    texts[i].prompt = inputs[i];
    texts[i].options = {.max_tokens = 0, .when_full = WhenFull::kStop};
    texts[i].on_norm = [state, &pooled, C, T, mean = pooling == "mean"](int64_t first,
                                                                        const Tensor& norm) {
      for (int64_t row = mean ? 0 : norm.dim(0) - 1; row < norm.dim(0); ++row) {
        if (!mean && first + row != T - 1) continue;
        const float* from = norm.data<float>() + row * C;
        for (size_t c = 0; c < pooled.size(); ++c) {
          pooled[c] += from[c] / (mean ? static_cast<double>(T) : 1);
        }
      }
    };
    texts[i].on_end = [state, &metrics](FinishReason, const GenerateStats& stats) {
      metrics.prompt_tokens += stats.prompt_tokens;
      const std::lock_guard lock(state->mutex);
      if (++state->ended == state->texts.size()) state->news();
    };
  }
  auto scheduled = model.scheduler->Submit(NameOfClient(request), std::move(texts));
  HttpReply reply{.waits = true};
  reply.stream = std::make_shared<EmbeddingStream>(
      state, std::move(scheduled), std::move(memory),
      EmbeddingStream::Form{model.name, tokens, normalize, format == "base64"}, limits.seconds);
  return reply;
}

}  // namespace folio
