#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "folio/base/fork.h"
#include "folio/infer/decode_batch.h"
#include "folio/infer/opened_model.h"
#include "folio/infer/text_streamer.h"
#include "folio/model/context.h"
#include "folio/text/chat.h"

namespace folio {

// StopRequest is asked often, by the thread that computes: true ends the call.
using StopRequest = std::function<bool()>;

// Called on the thread that computes, with the number of tokens that are read of a text that takes
// several passes.
using ReadProgress = std::function<void(int64_t done, int64_t total)>;

// A call that its StopRequest ended throws a CallStopped, where it has no other way to say so.
struct CallStopped {};

// Which rows of the last layer's normed output an embedding is.
enum class Pooling { kMean, kLast, kAll };
// Throws a kUsage Error for any but "mean", "last" and "all".
Pooling PoolingNamed(std::string_view name);

// A model as programs use it: it writes, and shows what it computes. Any number of threads may call
// it, and so may a child process that was forked while another thread computed; calls that compute
// wait for each other. A callback that computes with the model that calls it is a kUsage Error.
// Results are float32 in row-major order. `ids` are 1 to context() of the model's tokens, a kUsage
// Error otherwise.
class Model {
 public:
  // Throws what OpenModel throws.
  explicit Model(const std::filesystem::path& path, const OpenOptions& options = {})
      : Model(OpenModel(path, options)) {}
  explicit Model(OpenedModel opened);
  ~Model();
  Model(const Model&) = delete;

  const OpenedModel& opened() const { return opened_; }
  const GptConfig& config() const { return opened_.weights->config(); }
  int64_t context() const { return config().n_positions; }
  // Throws a kInput Error where there is none.
  const Tokenizer& tokenizer() const { return opened_.RequireTokenizer(); }

  // The ids that the model is to go on from: PromptTokens of a text, and a conversation by the
  // model's own template up to where its answer begins, a kUsage Error for a model that was taught
  // none.
  std::vector<int32_t> Prompt(std::string_view text) const;
  std::vector<int32_t> Chat(const Conversation& conversation) const;

  // Writes on from `ids`. Each part of the text goes to `on_text` as soon as it is known, whole
  // characters only; it returns false to end the text. One that is stopped ends as kCancelled.
  GeneratedText Write(std::span<const int32_t> ids, const GenerateOptions& options,
                      const std::function<bool(std::string_view)>& on_text = {},
                      const StopRequest& stop = {}, const ReadProgress& on_read = {}) const;

  // Calls `on_row` with i and the logits (V) of the token behind ids[i], for i from `first`.
  void ReadLogits(std::span<const int32_t> ids, size_t first,
                  const std::function<void(size_t i, std::span<const float> logits)>& on_row,
                  const StopRequest& stop = {}, const ReadProgress& on_read = {}) const;
  // Logits of the token behind each of ids[first] and later: (count - first, V).
  std::vector<float> Logits(std::span<const int32_t> ids, size_t first = 0,
                            const StopRequest& stop = {}, const ReadProgress& on_read = {}) const;
  // ln of the probability that the model gives ids[i] behind those before it, for i from `first`, 1
  // at least. V logits at a time are in memory, not all.
  std::vector<double> Score(std::span<const int32_t> ids, size_t first = 1,
                            const StopRequest& stop = {}, const ReadProgress& on_read = {}) const;
  // (C), or with kAll (count, C).
  std::vector<float> Embed(std::span<const int32_t> ids, Pooling pooling = Pooling::kMean,
                           const StopRequest& stop = {}, const ReadProgress& on_read = {}) const;
  // The attention of one head of one layer, both counted from 0: (count, count), rows are queries.
  // For a model that was opened with float32 matrices.
  std::vector<float> Attention(std::span<const int32_t> ids, int64_t layer, int64_t head) const;

  // The values at a point of the pass, in one layer or at a point that is there once: (count,
  // width).
  std::vector<float> Inside(std::span<const int32_t> ids, TracePoint point,
                            int64_t layer = 0) const;

  // Writes the model with its tokenizer, in a format that folio writes (formats/model_formats.h)
  // and with matrices of a dtype by its name there ("fp32", "bf16", "q8_0"). Throws a kUsage Error
  // for other names, where something is there already and for a model that was not opened with
  // float32 matrices, and what the format's writer throws.
  void Save(const std::filesystem::path& path, std::string_view format,
            std::string_view dtype) const;

  // Texts that are written together: they join and leave between steps.
  class Texts;

 private:
  friend class Computing;
  void Read(std::span<const int32_t> ids, TextRequest request, const StopRequest& stop,
            const ReadProgress& on_read) const;
  FinishReason Run(TextRequest request, const StopRequest& stop) const;

  OpenedModel opened_;
  mutable ForkMutex computing_;                 // of Computing
  mutable std::unique_ptr<DecodeBatch> texts_;  // of one at a time, once somebody asked
};

// Throws a kUsage Error unless all numbers of a model are float32.
void RequireFloat32(const Model& model);

// Keeps a model to the thread that computes with it.
class Computing {
 public:
  // Throws a kUsage Error where this thread does so already: a callback would wait for itself.
  explicit Computing(const Model& model);
  ~Computing();
  Computing(const Computing&) = delete;

 private:
  const Model& model_;
};

class Model::Texts {
 public:
  using Id = DecodeBatch::Id;

  // Writes at most `texts` at once; more wait for their turn. Throws a kInput Error for a model
  // without a tokenizer.
  explicit Texts(std::shared_ptr<const Model> model, int64_t texts);
  ~Texts();
  Texts(const Texts&) = delete;

  // Adds a text; `on_text` as for Write. `on_end` is called once, from Step or Cancel.
  Id Add(std::span<const int32_t> ids, const GenerateOptions& options,
         const std::function<bool(std::string_view)>& on_text,
         const std::function<void(const GeneratedText&)>& on_end);
  // A token more for each text, or a part of one long prompt. Returns whether there is anything
  // left. After an exception all texts are gone, and what follows is a kUsage Error; so they are in
  // a child process that was forked while another thread was in a call.
  bool Step();
  void Cancel(Id id);

 private:
  class Call;
  DecodeBatch& Working() const;
  void Forget();

  std::shared_ptr<const Model> model_;
  std::unique_ptr<DecodeBatch> batch_;
  std::map<uint64_t, std::unique_ptr<TextStreamer>> writers_;  // of texts that go on
  uint64_t added_ = 0;
  ForkMutex calls_;
  bool forked_ = false;  // in the middle of a call
};

}  // namespace folio
