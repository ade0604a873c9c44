#include "folio/run/dump.h"

#include <fmt/format.h>

#include <cstring>
#include <memory>
#include <span>

#include "folio/base/error.h"
#include "folio/formats/model_formats.h"
#include "folio/io/json.h"
#include "folio/io/posix.h"
#include "folio/io/safetensors.h"
#include "folio/model/layers/attention.h"
#include "folio/train/train_step.h"

namespace folio {
namespace {

// K batches of B sequences of T tokens, each with its targets: the tokens that follow.
struct TokenBatches {
  int64_t K = 0, B = 0, T = 0;
  std::vector<int32_t> inputs = {}, targets = {};  // (K,B,T)

  std::span<const int32_t> Inputs(int64_t k) const { return Of(inputs, k); }
  std::span<const int32_t> Targets(int64_t k) const { return Of(targets, k); }

 private:
  std::span<const int32_t> Of(const std::vector<int32_t>& tokens, int64_t k) const {
    return std::span(tokens).subspan(static_cast<size_t>(k * B * T), static_cast<size_t>(B * T));
  }
};

const TensorInfo& FindBatches(const SafetensorsFile& file) {
  const TensorInfo* batches = file.Find("batches");
  const TensorInfo* tokens = file.Find("tokens");
  if (batches == nullptr && tokens == nullptr) {
    throw InputError(fmt::format("{}: no tensor 'batches' or 'tokens'", file.path().string()),
                     fmt::format("the file holds {} tensors of other names", file.tensors().size()),
                     "store integers as `batches` of shape [K,B,T+1] or `tokens` of [B,T+1]");
  }
  const TensorInfo& found = batches != nullptr ? *batches : *tokens;
  const int rank = batches != nullptr ? 3 : 2;
  bool fits = found.shape.rank() == rank && found.shape.back() >= 2;
  for (int64_t dim : found.shape.dims()) fits = fits && dim >= 1;
  if (!fits) {
    throw InputError(fmt::format("{}: wrong shape of '{}'", file.path().string(), found.name),
                     fmt::format("expected {} with T of at least 1, found {}",
                                 rank == 3 ? "(K, B, T+1)" : "(B, T+1)", found.shape.ToString()));
  }
  return found;
}

TokenBatches ReadBatches(const std::filesystem::path& path, const GptConfig& config) {
  const SafetensorsFile file(path);
  const TensorInfo& info = FindBatches(file);
  const bool many = info.shape.rank() == 3;
  TokenBatches batches{
      .K = many ? info.shape[0] : 1, .B = info.shape[many ? 1 : 0], .T = info.shape.back() - 1};
  if (batches.T > config.n_positions) {
    throw InputError(
        fmt::format("{}: '{}' is longer than the model's context", path.string(), info.name),
        fmt::format("T is {}, n_positions is {}", batches.T, config.n_positions),
        "use shorter sequences");
  }
  const std::vector<int64_t> tokens = file.ReadAs<int64_t>(info.name);
  const size_t row = static_cast<size_t>(batches.T) + 1;
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i] < 0 || tokens[i] >= config.vocab_size) {
      throw InputError(
          fmt::format("{}: '{}' holds a token outside the vocabulary", path.string(), info.name),
          fmt::format("element {} is {}, vocab_size is {}", i, tokens[i], config.vocab_size),
          "make the tokens with the model's own tokenizer");
    }
    const int32_t token = static_cast<int32_t>(tokens[i]);
    if (i % row + 1 < row) batches.inputs.push_back(token);
    if (i % row > 0) batches.targets.push_back(token);
  }
  return batches;
}

// The results of the first batch, in memory of their own.
class FirstBatch : public TraceSink {
 public:
  FirstBatch(Backend& backend, const GptConfig& config, const ParamTable& table, int64_t B,
             int64_t T)
      : backend_(backend), config_(config) {
    const MemoryPlan::Id logits = plan_.Add("logits", Dtype::kF32, {B, T, config.vocab_size});
    const MemoryPlan::Id grads = plan_.Add("grads", Dtype::kF32, {table.flat_size()});
    std::vector<MemoryPlan::Id> attn, hidden;
    for (int64_t l = 0; l < config.n_layer; ++l) {
      attn.push_back(plan_.Add("attn", Dtype::kF32, {B, config.n_head, T, T}));
      hidden.push_back(plan_.Add("hidden", Dtype::kF32, {B, T, config.n_embd}));
    }
    plan_.Place();
    arena_ = Arena(plan_);
    logits_ = arena_.Get(plan_, logits);
    grads_ = arena_.Get(plan_, grads);
    for (const MemoryPlan::Id id : attn) attn_.push_back(arena_.Get(plan_, id));
    for (const MemoryPlan::Id id : hidden) hidden_.push_back(arena_.Get(plan_, id));
  }

  // Forward and backward; returns the loss. `train_step` is left without a trace.
  double Compute(TrainStep& train_step, const GptWeights& weights, const TokenBatches& batches) {
    const int64_t N = batches.B * batches.T;
    const double rows = static_cast<double>(N);
    train_step.pass().set_trace(this);
    train_step.Begin();
    const double sum = train_step.Accumulate(batches.Inputs(0), batches.Targets(0), 1 / rows, {});
    train_step.pass().set_trace(nullptr);
    train_step.pass().Logits(weights.params(), 0, N, logits_.Reshape({N, logits_.shape().back()}));
    std::memcpy(grads_.raw(), train_step.grads().raw(), grads_.bytes());
    return sum / rows;
  }

  void Take(TracePoint point, int64_t layer, const Tensor& x) override {
    const size_t l = static_cast<size_t>(layer);
    if (point == TracePoint::kOutput) std::memcpy(hidden_[l].raw(), x.raw(), x.bytes());
    if (point != TracePoint::kQkv) return;
    const int64_t B = attn_[l].dim(0), T = attn_[l].dim(2);
    const HeadLayout heads = config_.head_layout();
    AttentionProbabilities(backend_, config_, layer, View(x, B, T, heads.q()),
                           View(x, B, T, heads.k()), attn_[l]);
  }

  void AddTo(const ParamTable& table, std::vector<NamedTensor>& tensors) const {
    tensors.push_back({"logits", logits_});
    for (size_t l = 0; l < attn_.size(); ++l) {
      tensors.push_back({fmt::format("trace.attn.{}", l), attn_[l]});
      tensors.push_back({fmt::format("trace.hidden.{}", l), hidden_[l]});
    }
    for (const ParamInfo& info : table.params()) {
      tensors.push_back({"grad." + info.name, table.View(info, grads_)});
    }
  }

 private:
  Backend& backend_;
  const GptConfig& config_;
  MemoryPlan plan_;
  Arena arena_;
  Tensor logits_, grads_;
  std::vector<Tensor> attn_;    // by layer (B,H,T,T), the weights after softmax
  std::vector<Tensor> hidden_;  // by layer (B,T,C), the stream after the block
};

void TakeSteps(const DumpOptions& options, const TokenBatches& batches, TrainStep& train_step,
               DumpResult& result) {
  const double rows = static_cast<double>(batches.B * batches.T);
  for (int64_t k = 0; k < options.adamw_steps; ++k) {
    train_step.Begin();
    const double sum = train_step.Accumulate(batches.Inputs(k), batches.Targets(k), 1 / rows, {});
    result.losses.push_back(sum / rows);
    result.grad_norms.push_back(
        train_step.Finish(options.optimizer, options.lr, options.clip, k + 1));
  }
}

Tensor AsTensor(std::vector<double>& values) {
  return {values.data(), {static_cast<int64_t>(values.size())}};
}

SafetensorsMetadata Metadata(const DumpOptions& options) {
  SafetensorsMetadata metadata{{"backend", options.backend}};
  if (options.adamw_steps > 0) {
    metadata["lr"] = fmt::format("{}", options.lr);
    metadata["betas"] = fmt::format("{},{}", options.optimizer.beta1, options.optimizer.beta2);
    metadata["eps"] = fmt::format("{}", options.optimizer.eps);
    metadata["weight_decay"] = fmt::format("{}", options.optimizer.weight_decay);
    metadata["clip"] = fmt::format("{}", options.clip);
  }
  return metadata;
}

}  // namespace

DumpResult WriteDump(const DumpOptions& options) {
  const FoundModel found = FindModel(options.model, Loading::kMap, options.adapter);
  const TokenBatches batches = ReadBatches(options.batch, found.model.config);
  if (options.adamw_steps > batches.K) {
    throw UsageError("--adamw-steps is more than there are batches",
                     fmt::format("{} steps, {} batches in {}", options.adamw_steps, batches.K,
                                 options.batch.string()),
                     fmt::format("use --adamw-steps {} or less", batches.K));
  }
  const std::unique_ptr<GptWeights> weights = ReadWeights(found.model);
  const ParamTable& table = weights->table();
  const std::unique_ptr<Backend> backend = MakeBackend(options.backend);
  TrainStep train_step(*backend, *weights, batches.B, batches.T);
  FirstBatch first(*backend, weights->config(), table, batches.B, batches.T);

  DumpResult result;
  result.loss = first.Compute(train_step, *weights, batches);
  std::vector<NamedTensor> tensors{{"loss", Tensor(&result.loss, {1})}};
  first.AddTo(table, tensors);
  if (options.adamw_steps > 0) {
    TakeSteps(options, batches, train_step, result);
    tensors.push_back({"losses", AsTensor(result.losses)});
    tensors.push_back({"grad_norms", AsTensor(result.grad_norms)});
    for (const ParamInfo& info : table.params()) {
      tensors.push_back({"after." + info.name, table.View(info, weights->flat())});
    }
  }
  const GuardedDirectory inside(options.model);  // a run's own files lead nowhere
  WriteSafetensors(options.out, tensors, Metadata(options));
  result.tensors = tensors.size();
  return result;
}

std::string DescribeDump(const DumpOptions& options, const DumpResult& result, bool json) {
  if (json) {
    const Json values = {
        {"schema", 1},         {"out", options.out.string()}, {"tensors", result.tensors},
        {"loss", result.loss}, {"losses", result.losses},     {"grad_norms", result.grad_norms}};
    return values.dump(2) + "\n";
  }
  std::string text = fmt::format("loss  {:.9f}\n", result.loss);
  for (size_t k = 0; k < result.losses.size(); ++k) {
    text += fmt::format("step {}  loss {:.9f}  grad_norm {:.9f}\n", k + 1, result.losses[k],
                        result.grad_norms[k]);
  }
  return text;
}

}  // namespace folio
