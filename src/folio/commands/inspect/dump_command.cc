// `folio inspect dump`: everything that is needed to compare another implementation of the model.
#include <fmt/format.h>

#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "folio/base/error.h"
#include "folio/base/signals.h"
#include "folio/commands/inspect/inspect_input.h"
#include "folio/commands/model_flags.h"
#include "folio/formats/model_formats.h"
#include "folio/io/json.h"
#include "folio/io/posix.h"
#include "folio/io/safetensors.h"
#include "folio/model/layers/attention.h"
#include "folio/train/optimizer.h"
#include "folio/train/train_step.h"

namespace folio {
namespace {

// K batches of B sequences of T tokens, each with its targets: the tokens that follow.
struct TokenBatches {
  int64_t K = 0, B = 0, T = 0;
  std::vector<int32_t> inputs = {}, targets = {};  // (K,B,T)

  // Forward and backward of one of them; returns the loss.
  double Accumulate(TrainStep& train_step, int64_t k) const {
    const auto part = [&](const std::vector<int32_t>& tokens) {
      return std::span(tokens).subspan(static_cast<size_t>(k * B * T), static_cast<size_t>(B * T));
    };
    const double rows = static_cast<double>(B * T);
    train_step.Begin();
    train_step.Accumulate(part(inputs), part(targets), 1 / rows, {});
    return train_step.Losses()[0] / rows;
  }
};

const TensorInfo& FindBatches(const SafetensorsFile& file) {
  const TensorInfo* batches = file.Find("batches");
  const TensorInfo* tokens = file.Find("tokens");
  if (batches == nullptr && tokens == nullptr) {
    throw InputError(fmt::format("{}: no tensor 'batches' or 'tokens'", file.path().string()),
                     fmt::format("the file holds {} tensors of other names", file.tensors().size()),
                     "use integers `batches` of shape [K,B,T+1] or `tokens` of [B,T+1]");
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
          fmt::format("{}: '{}' has a token outside the vocabulary", path.string(), info.name),
          fmt::format("element {} is {}, vocab_size is {}", i, tokens[i], config.vocab_size),
          "use the model's own tokenizer");
    }
    const int32_t token = static_cast<int32_t>(tokens[i]);
    if (i % row + 1 < row) batches.inputs.push_back(token);
    if (i % row > 0) batches.targets.push_back(token);
  }
  return batches;
}

// Keeps each layer's outputs of a pass over (B,T) tokens, in its own memory.
class LayerSink : public TraceSink {
 public:
  LayerSink(Backend& backend, const GptConfig& config, int64_t B, int64_t T)
      : backend_(backend), config_(config) {
    for (int64_t l = 0; l < config.n_layer; ++l) {
      plan_.Add("attn", Dtype::kF32, {B, config.n_head, T, T});
      plan_.Add("hidden", Dtype::kF32, {B, T, config.n_embd});
    }
    plan_.Place();
    arena_ = Arena(plan_);
  }

  // Attention weights after softmax (B,H,T,T), and the stream after the block (B,T,C).
  Tensor Attention(int64_t layer) const { return Get(2 * layer); }
  Tensor Hidden(int64_t layer) const { return Get(2 * layer + 1); }

  void Take(TracePoint point, int64_t layer, const Tensor& x) override {
    if (point == TracePoint::kOutput) CopyElements(x, Hidden(layer));
    if (point != TracePoint::kQkv) return;
    const Tensor weights = Attention(layer);
    const HeadLayout heads = config_.head_layout();
    const auto columns = [&](const ColumnRange& range) {
      return View(x, weights.dim(0), weights.dim(2), range);
    };
    AttentionProbabilities(backend_, config_, layer, columns(heads.q()), columns(heads.k()),
                           weights);
  }

 private:
  Tensor Get(int64_t id) const { return arena_.Get(plan_, static_cast<MemoryPlan::Id>(id)); }

  Backend& backend_;
  const GptConfig& config_;
  MemoryPlan plan_;
  Arena arena_;
};

class InspectDumpCommand final : public Command {
 public:
  CommandInfo info() const override {
    return {
        .name = "inspect dump",
        .summary = "write logits, gradients and AdamW steps, for comparison with other programs",
        .group = "inspect",
        .details =
            "Takes integers `batches` [K,B,T+1] or `tokens` [B,T+1] and writes, for the first\n"
            "batch, logits, loss, grad.<parameter>, trace.attn.<layer> and\n"
            "trace.hidden.<layer>; with --adamw-steps also losses, grad_norms and\n"
            "after.<parameter>. Nothing is dropped out.",
        .examples = {"folio inspect dump --model runs/demo --batch batch.safetensors --out "
                     "dump.safetensors",
                     "folio inspect dump --model DIR --batch FILE --out OUT --adamw-steps 8 "
                     "--backend reference"}};
  }

  void AddFlags(Flags& flags) override {
    AddModelFlag(flags, &model_, /*required=*/true);
    AddAdapterFlag(flags, &adapter_);
    flags.Value(Field{"batch", &batch_, "safetensors file with the tokens"},
                {.placeholder = "FILE", .required = true});
    flags.Value(Field{"out", &out_, "safetensors file to write"}.WithFlag("-o,--out"),
                {.placeholder = "OUT", .required = true});
    AddBackendFlag(flags, &backend_);
    compute_.Add(flags);
    flags.Group("AdamW");
    flags.Value(Field{"adamw-steps", &adamw_steps_, "steps, one on each batch", 0, 1e9});
    flags.Value(Field{"lr", &lr_, "learning rate", 0, 1e3});
    flags.Value(Field{"beta1", &adamw_.beta1, "AdamW's beta1", 0, 0.999999});
    flags.Value(Field{"beta2", &adamw_.beta2, "AdamW's beta2", 0, 0.99999999});
    flags.Value(Field{"eps", &adamw_.eps, "epsilon", 0, 1});
    flags.Value(Field{"weight-decay", &adamw_.weight_decay,
                      "weight decay, for tensors of two or more dimensions", 0, 1e3});
    flags.Value(Field{"clip", &clip_, "maximum norm of the gradient; 0: no limit", 0, 1e9});
  }

  int Run(const Context& context) override {
    compute_.Use();
    const FoundModel found = FindModel(model_, Loading::kMap, adapter_);
    const TokenBatches batches = ReadBatches(batch_, found.model.config);
    if (adamw_steps_ > batches.K) {
      throw UsageError("--adamw-steps is larger than the number of batches",
                       fmt::format("{} steps, {} batches in {}", adamw_steps_, batches.K, batch_),
                       fmt::format("use --adamw-steps {} or less", batches.K));
    }
    const std::unique_ptr<GptWeights> weights = ReadWeights(found.model);
    const GptConfig& config = weights->config();
    const ParamTable& table = weights->table();
    const std::unique_ptr<Backend> backend = MakeBackend(backend_);
    TrainStep train_step(*backend, *weights, batches.B, batches.T, {}, {}, adamw_);
    LayerSink layers(*backend, config, batches.B, batches.T);
    train_step.pass().set_trace(&layers);
    double loss = batches.Accumulate(train_step, 0);
    train_step.pass().set_trace(nullptr);

    std::vector<NamedTensor> tensors{{"loss", Tensor(&loss, {1})}};
    const int64_t N = batches.B * batches.T, V = config.vocab_size;
    std::vector<float> logits(static_cast<size_t>(N * V));
    train_step.pass().Logits(weights->params(), 0, N, Tensor(logits.data(), {N, V}));
    tensors.push_back({"logits", Tensor(logits.data(), {batches.B, batches.T, V})});
    for (int64_t l = 0; l < config.n_layer; ++l) {
      tensors.push_back({fmt::format("trace.attn.{}", l), layers.Attention(l)});
      tensors.push_back({fmt::format("trace.hidden.{}", l), layers.Hidden(l)});
    }
    const HostCopy first_grads(train_step.grads());
    std::vector<float> grads(first_grads.elements<float>().begin(),
                             first_grads.elements<float>().end());
    for (const ParamInfo& info : table.params()) {
      tensors.push_back(
          {"grad." + info.name, table.View(info, Tensor(grads.data(), {table.flat_size()}))});
    }

    std::vector<double> losses, grad_norms;  // for each AdamW step, before it
    SafetensorsMetadata metadata{{"backend", backend_}};
    for (int64_t k = 0; k < adamw_steps_; ++k) {
      losses.push_back(batches.Accumulate(train_step, k));
      grad_norms.push_back(train_step.Finish(lr_, clip_, k + 1));
    }
    if (adamw_steps_ > 0) {
      tensors.push_back({"losses", Tensor(losses.data(), {adamw_steps_})});
      tensors.push_back({"grad_norms", Tensor(grad_norms.data(), {adamw_steps_})});
      for (const ParamInfo& info : table.params()) {
        tensors.push_back({"after." + info.name, table.View(info, weights->flat())});
      }
      metadata["lr"] = fmt::format("{}", lr_);
      metadata["betas"] = fmt::format("{},{}", adamw_.beta1, adamw_.beta2);
      metadata["eps"] = fmt::format("{}", adamw_.eps);
      metadata["weight_decay"] = fmt::format("{}", adamw_.weight_decay);
      metadata["clip"] = fmt::format("{}", clip_);
    }
    {
      CatchSignals();                         // until the file is complete
      const GuardedDirectory inside(model_);  // the run's own files must not be links to elsewhere
      WriteSafetensors(out_, tensors, metadata);
    }
    std::string text = fmt::format("loss  {:.9f}\n", loss);
    for (size_t k = 0; k < losses.size(); ++k) {
      text +=
          fmt::format("step {}  loss {:.9f}  grad_norm {:.9f}\n", k + 1, losses[k], grad_norms[k]);
    }
    const Json json = {{"schema", 1},  {"out", out_},      {"tensors", tensors.size()},
                       {"loss", loss}, {"losses", losses}, {"grad_norms", grad_norms}};
    context.console.Result(context.console.json() ? json.dump(2) + "\n" : text);
    context.console.Note(fmt::format("wrote {} ({} tensors)", out_, tensors.size()));
    return 0;
  }

 private:
  std::string model_, adapter_, batch_, out_, backend_ = "cpu";
  ComputeFlags compute_;
  int64_t adamw_steps_ = 0;
  double lr_ = 1e-3, clip_ = 1;
  AdamW adamw_;
};

}  // namespace

std::unique_ptr<Command> InspectDump() {
  return std::make_unique<InspectDumpCommand>();
}

}  // namespace folio
