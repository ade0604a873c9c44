#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <iterator>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "folio/backend/backend.h"
#include "folio/infer/opened_model.h"
#include "folio/infer/sampler.h"
#include "folio/model/params.h"
#include "folio/report/report.h"
#include "folio/text/tokenizer.h"

namespace folio {

// The walks. Every number comes from the backend's kernels, the steps of attention, the model's
// code or the tokenizer; nothing is computed a second way. Without a model they use small inputs of
// their own; `seed` and `torch_rng` choose the source of random weights. They throw a kUsage or
// kInput Error for no numbers or infinite ones, an odd number of channels, a missing layer or head,
// a model without the walk's subject, and a text that is empty, too long for the model or not
// encodable.

// A model to walk through; all of it must outlive the call.
struct LessonModel {
  const GptWeights* weights = nullptr;
  const Tokenizer* tokenizer = nullptr;
};

// Tokens as vectors: T labels, and T rows of C numbers.
struct TokenVectors {
  std::vector<std::string> labels;
  std::vector<float> numbers;

  int64_t T() const { return std::ssize(labels); }
  int64_t C() const { return std::ssize(numbers) / T(); }
};
// Reads the vectors of a file: a JSON array of arrays of numbers, or a line for each token with an
// optional label and numbers separated by spaces, tabs or commas. Throws a kInput Error that names
// the line for anything else, for rows of different lengths, and for more than 64 tokens or 256
// numbers each.
TokenVectors ReadTokenVectors(const std::filesystem::path& file);

struct AttentionTopic {
  // none: all forms in the order no-weights, single-head, causal, stacked, split, cross, grouped
  std::optional<std::string> form = {};
  std::optional<uint64_t> seed = {};  // none: 789 for causal, else 123
  bool torch_rng = false;
  double dropout = 0.5;                      // in the causal form's last step
  std::optional<TokenVectors> vectors = {};  // none: those of "Your journey starts with one step"
};
std::vector<std::string> AttentionForms();
Report ExplainAttention(Backend& backend, const AttentionTopic& topic);
// One head of a model on a text.
Report ExplainAttention(Backend& backend, const LessonModel& model, std::string_view text,
                        int64_t layer, int64_t head);

// Sinusoids for C channels, or a model's positions, which need no tokenizer. If there are more than
// 128, every n-th is shown.
Report ExplainPositions(Backend& backend, int64_t positions, int64_t channels);
Report ExplainPositions(Backend& backend, const LessonModel& model, int64_t positions);

// Rotary positions for heads with this many channels, or for one head of a model, whose scores are
// shown for keys up to `positions` back.
Report ExplainRotary(Backend& backend, int64_t positions, int64_t channels);
struct RotaryTopic {
  std::string_view text;
  int64_t layer = 0, head = 0, positions = 0;
};
Report ExplainRotary(Backend& backend, const LessonModel& model, const RotaryTopic& topic);

// LayerNorm or RMSNorm of a row of numbers, or of the input of the first norm in a model's layer
// for one token. A model with the other kind of norms is a kUsage Error.
Report ExplainLayerNorm(Backend& backend, std::span<const float> row);
Report ExplainLayerNorm(Backend& backend, const LessonModel& model, std::string_view text,
                        int64_t layer);
Report ExplainRmsNorm(Backend& backend, std::span<const float> row);
Report ExplainRmsNorm(Backend& backend, const LessonModel& model, std::string_view text,
                      int64_t layer);
Report ExplainGelu(Backend& backend, std::span<const float> inputs);
// The gated feed-forward part: for a row of gates, or in a model's layer for a text's last token.
Report ExplainGatedMlp(Backend& backend, std::span<const float> gates);
Report ExplainGatedMlp(Backend& backend, const LessonModel& model, std::string_view text,
                       int64_t layer);
Report ExplainSoftmax(Backend& backend, std::span<const float> logits);

Report ExplainTokenize(const Tokenizer& tokenizer, std::string_view text);

// The text's last token through a trained model, from its id to the probabilities of the next
// token.
Report ExplainBlock(Backend& backend, const LessonModel& model, std::string_view text,
                    const SamplingOptions& sampling);

// Temperature, top-k and top-p on a row of logits. `labels` has one for each, or none.
Report ExplainSampling(Backend& backend, std::span<const float> logits,
                       std::span<const std::string> labels, const SamplingOptions& sampling);
Report ExplainSampling(Backend& backend, const LessonModel& model, std::string_view text,
                       const SamplingOptions& sampling);

// A row of logits and the labels of its tokens.
struct LabelledLogits {
  std::span<const float> logits;
  std::function<std::string(int32_t id)> label;
};

// Adds the steps from logits to the sampled token: the first one of `folio generate` with these
// options. If there are more tokens than a table can show, the likeliest are shown.
void AddSamplingSteps(Backend& backend, const LabelledLogits& row, const SamplingOptions& options,
                      Report& walk);

// A part of the input that a lesson may take.
enum LessonPart : unsigned {
  kLessonModel = 1,
  kLessonText = 2,
  kLessonLayer = 4,
  kLessonHead = 8,
  kLessonForm = 16,  // of attention, and the source of its random weights
  kLessonValues = 32,
  kLessonSampling = 64,
  kLessonPositions = 128,
  kLessonTokenizer = 256,
};

// The input of a lesson; parts that it does not take keep their defaults.
struct LessonInput {
  Backend& backend;
  const OpenedModel* model = nullptr;    // null: own numbers, or `values`
  const Tokenizer* tokenizer = nullptr;  // for a text without a model
  std::string text = {};
  std::vector<float> values = {};
  AttentionTopic attention = {};
  SamplingOptions sampling = {};
  std::optional<int64_t> layer = {}, head = {}, positions = {}, channels = {};
};

// A walk by name, as `folio explain NAME` takes it.
struct Lesson {
  std::string name, summary, details;
  std::vector<std::string> examples;  // command lines
  unsigned parts = 0;                 // LessonParts that it takes
  std::string values = {};            // default: numbers separated by commas
  std::string text = {};              // default text
  bool model_required = false;
  // Throws what the functions above throw.
  Report (*walk)(const LessonInput& input) = nullptr;
};
const std::vector<Lesson>& Lessons();

}  // namespace folio
