#include "folio/api/model.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstddef>
#include <utility>

#include "folio/base/error.h"
#include "folio/formats/model_formats.h"
#include "folio/infer/pooling.h"
#include "folio/infer/token_probabilities.h"
#include "folio/inspect/trace.h"
#include "folio/io/file.h"
#include "folio/tensor/dtype.h"
#include "folio/text/chat_encoder.h"

namespace folio {

namespace {

void RequireFirst(size_t first, size_t least, size_t count) {
  if (first >= least && first < count) return;
  throw UsageError(
      fmt::format("first: {}", first),
      fmt::format("expected {} to {}, of {} tokens", least, count > 0 ? count - 1 : 0, count));
}

// A text to be written with `options`, by `writer`.
TextRequest RequestOf(const OpenedModel& model, std::span<const int32_t> ids,
                      const GenerateOptions& options, TextStreamer& writer, uint64_t rng_stream) {
  return {.prompt = {ids.begin(), ids.end()},
          .options = ForTokens(model, options),
          .rng_stream = rng_stream,
          .on_token = [&writer](const NewToken& token) { return writer.Take(token); }};
}

std::function<bool(std::string_view)> Shown(const std::function<bool(std::string_view)>& on_text) {
  return on_text ? on_text : [](std::string_view) { return true; };
}

}  // namespace

Pooling PoolingNamed(std::string_view name) {
  if (name == "mean") return Pooling::kMean;
  if (name == "last") return Pooling::kLast;
  if (name == "all") return Pooling::kAll;
  throw UsageError(fmt::format("pooling: '{}'", name), "expected mean, last or all");
}

void RequireFloat32(const Model& model) {
  const GptWeights& weights = *model.opened().weights;
  for (const Tensor& tensor : weights.tensors()) {
    if (tensor.dtype() == Dtype::kF32) continue;
    throw UsageError(
        fmt::format("{}: its weights are {}", model.opened().path.string(), MatrixDtypeOf(weights)),
        "this operation needs float32 weights", "open it with dtype=fp32");
  }
}

Computing::Computing(const Model& model) : model_(model) {
  if (model.computing_.HeldHere()) {
    throw UsageError("a callback must not call the model that invoked it", {},
                     "do it after the call has returned");
  }
  // A thread of the parent process was computing: the texts that it worked on may be inconsistent,
  // and are never freed.
  if (model.computing_.lock()) (void)model.texts_.release();
}

Computing::~Computing() {
  model_.computing_.unlock();
}

Model::Model(OpenedModel opened) : opened_(std::move(opened)) {}
Model::~Model() {
  if (computing_.Abandoned()) (void)texts_.release();
}

std::vector<int32_t> Model::Prompt(std::string_view text) const {
  return PromptTokens(tokenizer(), text, "text");
}

std::vector<int32_t> Model::Chat(const Conversation& conversation) const {
  const Tokenizer& own = tokenizer();
  const std::optional<ChatEncoder> chat = opened_.FindChat();
  if (!chat) {
    throw UsageError(fmt::format("{}: not a model for conversations", opened_.path.string()),
                     opened_.WhyNoChat(),
                     "open one with a chat template, or give the option chat_template");
  }
  std::vector<int32_t> asked;
  chat->Encode(own, conversation, /*ask=*/true, "texts", asked);
  return asked;
}

FinishReason Model::Run(TextRequest request, const StopRequest& stop) const {
  const Computing alone(*this);
  if (texts_ == nullptr) texts_ = std::make_unique<DecodeBatch>(*opened_.backend, *opened_.weights);
  FinishReason reason = FinishReason::kCancelled;
  request.on_end = [&](FinishReason ended, const GenerateStats&) { reason = ended; };
  const DecodeBatch::Id id = texts_->Add(std::move(request));
  try {
    do {
      if (stop && stop()) texts_->Cancel(id);
    } while (texts_->Step());
  } catch (...) {  // its state is unknown
    texts_.reset();
    throw;
  }
  return reason;
}

// The model reads all of a text, and shows what `request` asks for.
void Model::Read(std::span<const int32_t> ids, TextRequest request, const StopRequest& stop,
                 const ReadProgress& on_read) const {
  request.on_read = on_read;
  request.prompt.assign(ids.begin(), ids.end());
  request.options.max_tokens = 0;
  if (Run(std::move(request), stop) == FinishReason::kCancelled) throw CallStopped{};
}

GeneratedText Model::Write(std::span<const int32_t> ids, const GenerateOptions& options,
                           const std::function<bool(std::string_view)>& on_text,
                           const StopRequest& stop, const ReadProgress& on_read) const {
  TextStreamer writer(tokenizer(), options, Shown(on_text));
  TextRequest request = RequestOf(opened_, ids, options, writer, /*rng_stream=*/0);
  request.on_read = on_read;
  return writer.Finish(Run(std::move(request), stop));
}

void Model::ReadLogits(std::span<const int32_t> ids, size_t first,
                       const std::function<void(size_t, std::span<const float>)>& on_row,
                       const StopRequest& stop, const ReadProgress& on_read) const {
  RequireFirst(first, 0, ids.size());
  TextRequest request;
  request.logits_from = static_cast<int64_t>(first);
  request.on_logits = [&](int64_t begin, const Tensor& rows) {
    for (int64_t i = 0; i < rows.dim(0); ++i) {
      on_row(static_cast<size_t>(begin + i), Row(rows, i));
    }
  };
  Read(ids, std::move(request), stop, on_read);
}

std::vector<float> Model::Logits(std::span<const int32_t> ids, size_t first,
                                 const StopRequest& stop, const ReadProgress& on_read) const {
  std::vector<float> all;
  const auto add = [&](size_t, std::span<const float> row) {
    all.insert(all.end(), row.begin(), row.end());
  };
  ReadLogits(ids, first, add, stop, on_read);
  return all;
}

std::vector<double> Model::Score(std::span<const int32_t> ids, size_t first,
                                 const StopRequest& stop, const ReadProgress& on_read) const {
  RequireFirst(first, 1, ids.size());
  std::vector<double> scores;
  const auto add = [&](size_t place, std::span<const float> row) {
    const size_t next = place + 1;  // the token that is predicted
    if (next >= ids.size()) return;
    RequireFiniteLogits(row);
    scores.push_back(static_cast<double>(row[static_cast<size_t>(ids[next])]) - LogSum(row));
  };
  ReadLogits(ids, first - 1, add, stop, on_read);
  return scores;
}

std::vector<float> Model::Embed(std::span<const int32_t> ids, Pooling pooling,
                                const StopRequest& stop, const ReadProgress& on_read) const {
  std::vector<float> rows;
  PooledRows pooled(config().n_embd, pooling == Pooling::kMean);
  TextRequest request;
  request.on_norm = [&](int64_t, const Tensor& norm) {
    pooled.Add(norm);
    if (pooling == Pooling::kAll)
      rows.insert(rows.end(), norm.host<float>(), norm.host<float>() + norm.count());
  };
  Read(ids, std::move(request), stop, on_read);
  if (pooling == Pooling::kAll) return rows;
  const std::vector<double> value = pooled.Value();
  return {value.begin(), value.end()};
}

std::vector<float> Model::Attention(std::span<const int32_t> ids, int64_t layer,
                                    int64_t head) const {
  const Computing alone(*this);
  const Trace trace(*opened_.backend, *opened_.weights, ids, {TracePoint::kQkv});
  std::vector<float> weights(ids.size() * ids.size());
  trace.HeadWeights(layer, head, weights);
  return weights;
}

std::vector<float> Model::Inside(std::span<const int32_t> ids, TracePoint point,
                                 int64_t layer) const {
  const Computing alone(*this);
  const Trace trace(*opened_.backend, *opened_.weights, ids, {point});
  const Tensor rows = trace.At(point, layer);
  return {rows.host<float>(), rows.host<float>() + rows.count()};
}

void Model::Save(const std::filesystem::path& path, std::string_view format,
                 std::string_view dtype) const {
  const ModelFormat& to = SavedFormat(format);
  std::vector<std::string> names;
  std::optional<Dtype> as;
  for (const Dtype one : to.dtypes) {
    names.push_back(NameOfSaved(one));
    if (names.back() == dtype || DtypeSetting(one) == dtype) as = one;
  }
  if (!as) {
    throw UsageError(fmt::format("{} has no '{}'", format, dtype),
                     fmt::format("expected one of {}", fmt::join(names, ", ")));
  }
  if (Exists(path)) throw UsageError(fmt::format("{} already exists", path.string()));
  RequireFloat32(*this);
  const Computing alone(*this);
  const Tokenizer* const all = opened_.tokenizer.get();
  const std::unique_ptr<Tokenizer> fewer = TokenizerToSave(to, all);
  to.save(path, {.weights = *opened_.weights,
                 .tokenizer = fewer == nullptr ? all : fewer.get(),
                 .dtype = *as});
}

Model::Texts::Texts(std::shared_ptr<const Model> model, int64_t texts) : model_(std::move(model)) {
  model_->tokenizer();
  const Computing alone(*model_);
  batch_ = std::make_unique<DecodeBatch>(*model_->opened_.backend, *model_->opened_.weights,
                                         DecodeBatchOptions{.texts = texts});
}

// While it exists only this thread uses the texts.
class Model::Texts::Call {
 public:
  explicit Call(Texts& texts) : alone_(*texts.model_), texts_(texts) {
    if (texts.calls_.lock()) texts.Forget();
  }
  ~Call() { texts_.calls_.unlock(); }
  Call(const Call&) = delete;

 private:
  const Computing alone_;
  Texts& texts_;
};

Model::Texts::~Texts() {
  if (calls_.Abandoned()) Forget();
}

// Gives up, without freeing it, what another thread was changing when this process was forked.
void Model::Texts::Forget() {
  (void)batch_.release();
  (void)new std::map<uint64_t, std::unique_ptr<TextStreamer>>(std::move(writers_));
  forked_ = true;
}

DecodeBatch& Model::Texts::Working() const {
  if (forked_) {
    throw UsageError("batch: this process was forked while another thread was using it",
                     "its state is incomplete in this process",
                     "create a new batch, or fork between steps");
  }
  if (batch_ == nullptr) {
    throw UsageError("batch: an earlier step failed, and its texts are lost", {},
                     "create a new batch");
  }
  return *batch_;
}

Model::Texts::Id Model::Texts::Add(std::span<const int32_t> ids, const GenerateOptions& options,
                                   const std::function<bool(std::string_view)>& on_text,
                                   const std::function<void(const GeneratedText&)>& on_end) {
  const Call alone(*this);
  const uint64_t number = added_;
  auto writer = std::make_unique<TextStreamer>(model_->tokenizer(), options, Shown(on_text));
  TextRequest request = RequestOf(model_->opened_, ids, options, *writer, number);
  request.on_end = [this, number, on_end](FinishReason reason, const GenerateStats&) {
    const auto node = writers_.extract(number);
    const GeneratedText written = node.mapped()->Finish(reason);
    if (on_end) on_end(written);
  };
  writers_.emplace(number, std::move(writer));
  try {
    const Id id = Working().Add(std::move(request));
    ++added_;
    return id;
  } catch (...) {
    writers_.erase(number);
    throw;
  }
}

bool Model::Texts::Step() {
  const Call alone(*this);
  try {
    return Working().Step();
  } catch (...) {
    batch_.reset();
    writers_.clear();
    throw;
  }
}

void Model::Texts::Cancel(Id id) {
  const Call alone(*this);
  Working().Cancel(id);
}

}  // namespace folio
