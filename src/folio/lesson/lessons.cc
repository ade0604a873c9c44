#include "folio/lesson/lessons.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "folio/base/error.h"
#include "folio/base/strings.h"
#include "folio/base/utf8.h"
#include "folio/io/file.h"
#include "folio/io/json.h"
#include "folio/lesson/walk_parts.h"

namespace folio {
namespace {

constexpr int64_t kMaxTokens = 64, kMaxNumbers = 256;

[[noreturn]] void Refuse(const std::string& where, const std::string& found) {
  throw InputError(fmt::format("{}: no vectors", where), found,
                   "write one line of numbers per token, optionally after a label, or a JSON array "
                   "of arrays of numbers");
}

bool ParseNumber(std::string_view text, float& number) {
  const auto [at, problem] = std::from_chars(text.data(), text.data() + text.size(), number);
  return problem == std::errc() && at == text.data() + text.size() && std::isfinite(number);
}

// Adds a token to vectors of one length. `label` may be empty.
void AddVector(const std::string& where, std::string_view label, const std::vector<float>& row,
               TokenVectors& vectors) {
  const int64_t T = vectors.T(), count = std::ssize(row);
  if (row.empty()) Refuse(where, "a token without numbers");
  if (T > 0 && count != vectors.C()) {
    Refuse(where, fmt::format("expected {} numbers, as in the previous lines, found {}",
                              vectors.C(), count));
  }
  if (count > kMaxNumbers) {
    Refuse(where, fmt::format("{} numbers, at most {} can be shown", count, kMaxNumbers));
  }
  if (T == kMaxTokens) Refuse(where, fmt::format("at most {} tokens can be shown", kMaxTokens));
  vectors.labels.emplace_back(label.empty() ? fmt::format("t{}", T) : label);
  vectors.numbers.insert(vectors.numbers.end(), row.begin(), row.end());
}

TokenVectors FromJson(std::string_view text, const std::string& where) {
  TokenVectors vectors;
  for (const Json& row : ParseJson(text, where)) {
    if (!row.is_array()) Refuse(where, "expected arrays of numbers, found " + row.dump());
    std::vector<float> numbers;
    for (const Json& number : row) {
      const float value = number.is_number() ? static_cast<float>(number.get<double>()) : NAN;
      if (!std::isfinite(value)) Refuse(where, "expected a number, found " + number.dump());
      numbers.push_back(value);
    }
    AddVector(where, "", numbers, vectors);
  }
  return vectors;
}

TokenVectors FromLines(const std::string& text, const std::string& file) {
  TokenVectors vectors;
  int64_t number = 0;
  for (std::string& line : Split(text, '\n')) {
    const std::string where = fmt::format("{}:{}", file, ++number);
    // Fields are separated by spaces, tabs and commas.
    std::ranges::replace_if(
        line, [](char c) { return c == '\t' || c == '\r' || c == ','; }, ' ');
    std::vector<std::string> fields = Split(line, ' ');
    std::erase(fields, "");
    if (fields.empty()) continue;
    float value = 0;
    const std::string label = ParseNumber(fields[0], value) ? "" : fields[0];
    if (!label.empty()) fields.erase(fields.begin());
    std::vector<float> row;
    for (const std::string& field : fields) {
      if (!ParseNumber(field, value)) Refuse(where, fmt::format("'{}' is not a number", field));
      row.push_back(value);
    }
    AddVector(where, label, row, vectors);
  }
  return vectors;
}

constexpr char kText[] = "Your journey starts with one step";

LessonModel ModelOf(const LessonInput& in) {
  return {.weights = in.model->weights.get(), .tokenizer = &in.model->RequireTokenizer()};
}

Report Attention(const LessonInput& in) {
  if (in.model == nullptr) return ExplainAttention(in.backend, in.attention);
  return ExplainAttention(in.backend, ModelOf(in), in.text, in.layer.value_or(0),
                          in.head.value_or(0));
}

// --positions, at most the model's; if not given, `most` of them or all.
int64_t PositionsOf(const LessonInput& in, int64_t most) {
  const int64_t P = in.model->weights->config().n_positions;
  if (in.positions.value_or(P) > P) {
    throw UsageError(fmt::format("--positions {}: the model has {}", *in.positions, P), {},
                     fmt::format("give at most {}", P));
  }
  return in.positions.value_or(std::min(P, most));
}

Report Positions(const LessonInput& in) {
  if (in.model == nullptr) {
    return ExplainPositions(in.backend, in.positions.value_or(24), in.channels.value_or(8));
  }
  // Positions need no text, and so no tokenizer.
  const LessonModel model{.weights = in.model->weights.get(), .tokenizer = nullptr};
  return ExplainPositions(in.backend, model, PositionsOf(in, model.weights->config().n_positions));
}

Report RotaryWalk(const LessonInput& in) {
  constexpr int64_t kFar = 128;
  if (in.model == nullptr) {
    return ExplainRotary(in.backend, in.positions.value_or(24), in.channels.value_or(8));
  }
  return ExplainRotary(in.backend, ModelOf(in),
                       {.text = in.text,
                        .layer = in.layer.value_or(0),
                        .head = in.head.value_or(0),
                        .positions = PositionsOf(in, kFar)});
}

// The walk through the input's numbers or, with a model, through one of its layers.
template <Report (*of_numbers)(Backend&, std::span<const float>),
          Report (*of_layer)(Backend&, const LessonModel&, std::string_view, int64_t)>
Report NumbersOrLayer(const LessonInput& in) {
  if (in.model == nullptr) return of_numbers(in.backend, in.values);
  return of_layer(in.backend, ModelOf(in), in.text, in.layer.value_or(0));
}

Report Sampling(const LessonInput& in) {
  if (in.model != nullptr) return ExplainSampling(in.backend, ModelOf(in), in.text, in.sampling);
  std::vector<std::string> labels = {"forest", "village", "king", "queen", "cat",
                                     "shoe",   "of",      "moon", "the"};
  if (in.values.size() != labels.size()) labels = Numbered(std::ssize(in.values));
  return ExplainSampling(in.backend, in.values, labels, in.sampling);
}

}  // namespace

TokenVectors ReadTokenVectors(const std::filesystem::path& file) {
  const std::string text = ReadFile(file, int64_t{1} << 20);
  if (FindInvalidUtf8(text) != std::string::npos) Refuse(file.string(), "it is not UTF-8");
  const size_t first = text.find_first_not_of(" \t\r\n");
  const bool json = first != text.npos && text[first] == '[';
  TokenVectors vectors = json ? FromJson(text, file.string()) : FromLines(text, file.string());
  if (vectors.labels.empty()) Refuse(file.string(), "it is empty");
  return vectors;
}

const std::vector<Lesson>& Lessons() {
  static const std::vector<Lesson> lessons = {
      {.name = "attention",
       .summary = "attention in all its forms, or one head of a model, step by step",
       .details = "Without a model, six vectors of three numbers are processed by attention "
                  "without weights, one head, causal attention, several heads, cross-attention and "
                  "grouped heads. --vectors FILE uses your vectors instead. --rng torch draws the "
                  "random numbers that PyTorch draws with the same seed.",
       .examples = {"folio explain attention", "folio explain attention --step context-of-journey",
                    "folio explain attention --form causal --svg figures",
                    "folio explain attention --vectors tokens.txt --form no-weights",
                    "folio explain attention --model runs/demo --text \"Once upon a time\" --layer "
                    "1 --head 2"},
       .parts = kLessonForm | kLessonModel | kLessonText | kLessonLayer | kLessonHead,
       .text = kText,
       .walk = Attention},
      {.name = "positions",
       .summary = "how positions are represented",
       .details = "Sinusoidal positions, or the learned positions of a model.",
       .examples = {"folio explain positions --channels 4 --positions 6",
                    "folio explain positions --model runs/demo"},
       .parts = kLessonPositions | kLessonModel,
       .walk = Positions},
      {.name = "rotary",
       .summary = "rotary positions (RoPE), step by step",
       .details = "Without a model: one query at many positions. With a model: the queries of a "
                  "head before and after the rotation, and the score of a key at each distance.",
       .examples = {"folio explain rotary --positions 32 --channels 16 --svg figures",
                    "folio explain rotary --model runs/llama --text \"Once upon\" --layer 1"},
       .parts = kLessonPositions | kLessonModel | kLessonText | kLessonLayer | kLessonHead,
       .text = kText,
       .walk = RotaryWalk},
      {.name = "layernorm",
       .summary = "layer normalisation of a vector, step by step",
       .details = "Uses your own numbers, or the last token of a text in a layer of a model.",
       .examples = {"folio explain layernorm --values 2,-1,0.5,3",
                    "folio explain layernorm --model runs/demo --text \"Once\" --layer 1"},
       .parts = kLessonValues | kLessonModel | kLessonText | kLessonLayer,
       .values = "2,-1,0.5,3,-0.5,1",
       .text = kText,
       .walk = NumbersOrLayer<ExplainLayerNorm, ExplainLayerNorm>},
      {.name = "rmsnorm",
       .summary = "RMSNorm step by step, compared with LayerNorm",
       .details = "On numbers of your own, or on what the first norm of a model's layer is given.",
       .examples = {"folio explain rmsnorm --values 2,-1,0.5,3",
                    "folio explain rmsnorm --model runs/llama --text \"Once\" --layer 1"},
       .parts = kLessonValues | kLessonModel | kLessonText | kLessonLayer,
       .values = "2,-1,0.5,3,-0.5,1",
       .text = kText,
       .walk = NumbersOrLayer<ExplainRmsNorm, ExplainRmsNorm>},
      {.name = "gelu",
       .summary = "the activation function of the feed-forward layer",
       .details = "Shows GELU with its derivative, and ReLU for comparison.",
       .examples = {"folio explain gelu --values -2,-1,0,1,2 --svg figures"},
       .parts = kLessonValues,
       .values = "-4,-3.5,-3,-2.5,-2,-1.5,-1,-0.5,0,0.5,1,1.5,2,2.5,3,3.5,4",
       .walk = [](const LessonInput& in) { return ExplainGelu(in.backend, in.values); }},
      {.name = "gated-mlp",
       .summary = "the gated feed-forward layer (SwiGLU)",
       .details = "Without a model: SiLU, and the effect of a gate on its input. With a model: the "
                  "units of a layer with the largest gates for a token.",
       .examples = {"folio explain gated-mlp --values -2,-1,0,1,2 --svg figures",
                    "folio explain gated-mlp --model runs/llama --text \"Once\" --layer 1"},
       .parts = kLessonValues | kLessonModel | kLessonText | kLessonLayer,
       .values = "-4,-3,-2,-1,-0.5,0,0.5,1,2,3,4",
       .text = kText,
       .walk = NumbersOrLayer<ExplainGatedMlp, ExplainGatedMlp>},
      {.name = "softmax",
       .summary = "softmax, step by step",
       .details =
           "Also shows why the plain formula overflows, and why attention scales its scores.",
       .examples = {"folio explain softmax --values 10,20,30",
                    "folio explain softmax --step naive-softmax --step overflow"},
       .parts = kLessonValues,
       .values = "10,20,30",
       .walk = [](const LessonInput& in) { return ExplainSoftmax(in.backend, in.values); }},
      {.name = "tokenize",
       .summary = "tokenization, merge by merge",
       .details =
           "Without --tokenizer, first trains a tokenizer of 400 tokens on the built-in stories.",
       .examples = {"folio explain tokenize --text \"Once upon a time\"",
                    "folio explain tokenize --model runs/demo --text \"Once upon a time\""},
       .parts = kLessonText | kLessonTokenizer | kLessonModel,
       .text = "The little journey began",
       .walk =
           [](const LessonInput& in) {
             return ExplainTokenize(
                 in.model == nullptr ? *in.tokenizer : in.model->RequireTokenizer(), in.text);
           }},
      {.name = "block",
       .summary = "one token from its id to the probabilities of the next, through a model",
       .details = "Shows the embedding, the heads and the feed-forward part of each layer, the "
                  "residual stream, the logits and the choice of the next token; for models like "
                  "nanochat also the residual factors, value embeddings and backout.",
       .examples = {"folio explain block --model runs/demo --text \"Once upon a time\"",
                    "folio explain block --model runs/demo --html block.html"},
       .parts = kLessonModel | kLessonText | kLessonSampling,
       .text = kText,
       .model_required = true,
       .walk =
           [](const LessonInput& in) {
             return ExplainBlock(in.backend, ModelOf(in), in.text, in.sampling);
           }},
      {.name = "sampling",
       .summary = "temperature, top-k and top-p on the scores of the next token",
       .details =
           "Uses the scores of a few words, --values, or the scores of a model after a text.",
       .examples = {"folio explain sampling --temperature 0.5 --top-k 3",
                    "folio explain sampling --model runs/demo --text \"Once upon a\" --top-p 0.9"},
       .parts = kLessonValues | kLessonModel | kLessonText | kLessonSampling,
       .values = "4.5,3.9,3.2,2.8,1.9,0.6,-0.4,-1.7,-3",
       .text = kText,
       .walk = Sampling},
  };
  return lessons;
}

}  // namespace folio
