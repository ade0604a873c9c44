#include "folio/api/batch_trainer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>
#include <utility>

#include "folio/backend/backend.h"
#include "folio/backend/decorated_backends.h"
#include "folio/base/clock.h"
#include "folio/base/error.h"
#include "folio/base/fork.h"
#include "folio/base/strings.h"
#include "folio/base/thread_pool.h"
#include "folio/data/batch_sampler.h"
#include "folio/formats/model_formats.h"
#include "folio/io/checksums.h"
#include "folio/io/file.h"
#include "folio/model/adapters.h"
#include "folio/model/lora.h"
#include "folio/model/weight_init.h"
#include "folio/model_files/adapter_files.h"
#include "folio/model_files/checkpoint.h"
#include "folio/model_files/same_model.h"
#include "folio/run/automatic_settings.h"
#include "folio/train/judged_step.h"
#include "folio/train/optimizer.h"
#include "folio/train/ranks.h"
#include "folio/train/train_state.h"
#include "folio/train/train_step.h"
#include "folio/train/trainer.h"

namespace folio {
namespace {

namespace fs = std::filesystem;

// The settings complete, and the configuration of the model.
const RunConfig& Completed(RunSettings& settings, const Model* from) {
  settings.Resolve();
  if (from != nullptr) {
    FoundModel found;
    found.model.config = from->config();
    UseInitialModel(settings, found);
  }
  RunConfig& config = settings.config;
  if (config.train.lora.on() && from == nullptr) {
    throw UsageError("lora.rank needs a model to start from",
                     "adapters are trained for an existing model");
  }
  for (const auto& [set, name] :
       {std::pair{config.train.rng == "torch", "train.rng torch"},
        std::pair{config.train.tensor_parallel > 1, "train.tensor_parallel"},
        std::pair{config.train.epochs > 0, "train.epochs"},
        std::pair{config.train.saves_adapters(), "train.save adapter"}}) {
    if (!set) continue;
    throw UsageError(fmt::format("{} applies only to runs", name),
                     "the caller supplies the batches");
  }
  if (from == nullptr && settings.layers.layer("model.vocab_size") == Layer::kBuiltIn) {
    throw UsageError("model.vocab_size: not given",
                     "a new model needs the vocabulary size of its batches",
                     "set it in the options, or start from a model");
  }
  ResolveTargets(config.train.lora, config.model, "settings");
  config.train.context = ContextOf(config.model, config.train);
  config.train.Validate("settings");
  if (config.train.threads > 0) SetThreads(static_cast<int>(config.train.threads));
  return config;
}

// Asks between operations for as long as it lives.
class Watching {
 public:
  Watching(WatchedBackend& backend, const StopRequest& stop) : backend_(backend) {
    if (!stop) return;
    backend_.Watch([&stop] {
      if (stop()) throw CallStopped{};
    });
  }
  ~Watching() { backend_.Watch({}); }
  Watching(const Watching&) = delete;

 private:
  WatchedBackend& backend_;
};

int64_t CountTargets(std::span<const int32_t> targets) {
  return std::ranges::count_if(targets, [](int32_t id) { return id != Batch::kNoTarget; });
}

void RequireFit(const Tokenizer* tokenizer, const GptConfig& model) {
  if (tokenizer == nullptr || tokenizer->known_tokens() <= model.vocab_size) return;
  throw UsageError("the tokenizer does not match the model",
                   fmt::format("the tokenizer has {} tokens, the model {}",
                               tokenizer->known_tokens(), model.vocab_size),
                   "set model.vocab_size to the tokenizer's");
}

// Throws a kInput Error unless the model that was saved is `weights` with their adapters merged.
void RequireMergedInto(const fs::path& dir, const GptWeights& weights) {
  const auto saved = LoadModel(dir), merged = MergeAdapter(weights);
  const bool same =
      std::ranges::equal(saved->tensors(), merged->tensors(), [](const Tensor& a, const Tensor& b) {
        const HostCopy one(a), other(b);
        return a.bytes() == b.bytes() &&
               std::memcmp(one.tensor().host_bytes(), other.tensor().host_bytes(), a.bytes()) == 0;
      });
  if (same) return;
  throw InputError(fmt::format("{}: the adapters of another model", dir.string()),
                   "merged into the base model they do not give the saved model",
                   "start from the model that they were trained for");
}

}  // namespace

struct BatchTrainer::Impl {
  Impl(const RunConfig& settings, const Model* from);

  void RequireBatch(std::span<const int32_t> inputs, std::span<const int32_t> targets,
                    bool step) const;
  const ParamInfo& Named(std::string_view name) const;

  ForkMutex calls;
  TrainConfig config;
  std::unique_ptr<Backend> backend;
  WatchedBackend watched;
  GptWeights weights;
  TrainStep train_step;
  TrainState state;
};

// While it exists only this thread uses the trainer.
class BatchTrainer::Call {
 public:
  explicit Call(Impl& trainer) : trainer_(trainer) {
    if (trainer.calls.HeldHere()) {
      throw UsageError("a callback must not call the trainer that invoked it", {},
                       "do it after the call has returned");
    }
    if (trainer.calls.Abandoned()) {
      throw UsageError("trainer: this process was forked while another thread was using it",
                       "its state is incomplete in this process",
                       "create a new one and resume from a checkpoint, or fork between steps");
    }
    trainer.calls.lock();
  }
  ~Call() { trainer_.calls.unlock(); }
  Call(const Call&) = delete;

 private:
  Impl& trainer_;
};

BatchTrainer::Impl::Impl(const RunConfig& settings, const Model* from)
    : config(settings.train),
      backend(MakeBackend(config.backend)),
      watched(*backend),
      weights(ParamTable(settings.model, config.lora, {}, backend->memory().row_multiple()),
              Dtype::kF32, ParamPart::kAll, backend->memory()),
      train_step(watched, weights, config.batch_size, config.context,
                 PassOptionsOf(config, settings.model, watched), ParallelismOf(config, nullptr),
                 OptimizerSettingsOf(config)) {
  state.seed = config.seed;
  if (from == nullptr || config.lora.on()) {
    InitWeights(weights, static_cast<uint64_t>(config.seed),
                from == nullptr ? ParamPart::kAll : ParamPart::kTrained);
  }
  if (from == nullptr) return;
  RequireFloat32(*from);
  InitWeightsFrom(*from->opened().weights, weights);
}

void BatchTrainer::Impl::RequireBatch(std::span<const int32_t> inputs,
                                      std::span<const int32_t> targets, bool step) const {
  const auto micro = static_cast<size_t>(config.batch_size * config.context);
  const size_t whole = micro * static_cast<size_t>(config.grad_accumulation);
  const bool sized = step ? inputs.size() == whole : !inputs.empty() && inputs.size() % micro == 0;
  if (!sized || inputs.size() != targets.size()) {
    throw UsageError(
        fmt::format("a batch of {} inputs and {} targets", inputs.size(), targets.size()),
        fmt::format("expected {}{} of each, in sequences of {} tokens",
                    step ? "" : "a multiple of ", step ? whole : micro, config.context),
        "set train.batch_size, train.grad_accumulation and train.context to the batch's");
  }
  const int64_t V = weights.config().vocab_size;
  const auto require = [&](std::span<const int32_t> ids, int32_t least, std::string_view what) {
    const auto wrong = std::ranges::find_if(ids, [&](int32_t id) { return id < least || id >= V; });
    if (wrong == ids.end()) return;
    throw UsageError(fmt::format("{}[{}] is {}", what, wrong - ids.begin(), *wrong),
                     fmt::format("expected {} to {}", least, V - 1));
  };
  require(inputs, 0, "inputs");
  require(targets, Batch::kNoTarget, "targets");
  if (CountTargets(targets) == 0) {
    throw UsageError("the batch has no targets", "all targets are -1");
  }
}

const ParamInfo& BatchTrainer::Impl::Named(std::string_view name) const {
  std::vector<std::string> names;
  for (const ParamInfo& info : weights.table().params()) {
    if (info.name == name) return info;
    names.push_back(info.name);
  }
  const std::string nearest = Nearest(std::string(name), names);
  throw UsageError(fmt::format("there is no parameter '{}'", name),
                   nearest.empty() ? "" : fmt::format("did you mean {}?", nearest));
}

BatchTrainer::BatchTrainer(RunSettings& settings, const Model* from)
    : impl_(std::make_unique<Impl>(Completed(settings, from), from)) {}
BatchTrainer::~BatchTrainer() {
  if (impl_->calls.Abandoned()) (void)impl_.release();  // it may be inconsistent
}

int64_t BatchTrainer::B() const {
  return impl_->config.batch_size;
}
int64_t BatchTrainer::T() const {
  return impl_->config.context;
}
int64_t BatchTrainer::step() const {
  return impl_->state.step;
}
const GptWeights& BatchTrainer::weights() const {
  return impl_->weights;
}

StepMetrics BatchTrainer::Step(std::span<const int32_t> inputs, std::span<const int32_t> targets,
                               const StopRequest& stop) {
  const Call call(*impl_);
  impl_->RequireBatch(inputs, targets, /*step=*/true);
  const double begin = SteadySeconds();
  const auto micro = static_cast<size_t>(B() * T());
  const int64_t count = CountTargets(targets);
  StepMetrics metrics{.step = impl_->state.step, .loss = 0};
  TrainStep& train_step = impl_->train_step;
  train_step.WeightsChanged();  // the caller may have
  {
    const Watching watching(impl_->watched, stop);
    train_step.Begin();
    for (size_t at = 0; at < inputs.size(); at += micro) {
      train_step.Accumulate(inputs.subspan(at, micro), targets.subspan(at, micro),
                            1.0 / static_cast<double>(count),
                            {.on = true,
                             .seed = static_cast<uint64_t>(impl_->config.seed),
                             .step = static_cast<uint64_t>(impl_->state.step),
                             .first_sequence = static_cast<int64_t>(at) / T()});
    }
  }
  metrics.grad_norm = train_step.Norm();
  for (const double loss : train_step.Losses()) *metrics.loss += loss;
  *metrics.loss /= static_cast<double>(count);
  const std::string lost = JudgeAndUpdate(train_step, impl_->config, impl_->state.health, metrics);
  if (!lost.empty()) {
    throw Error(ErrorKind::kDiverged,
                fmt::format("training diverged at step {}", impl_->state.step), lost,
                "lower train.learning_rate, raise train.warmup_steps or lower train.grad_clip");
  }
  impl_->state.step += 1;
  impl_->state.tokens += std::ssize(inputs);
  metrics.tokens = impl_->state.tokens;
  metrics.seconds = SteadySeconds() - begin;
  metrics.tokens_per_second = static_cast<double>(inputs.size()) / metrics.seconds;
  return metrics;
}

double BatchTrainer::Evaluate(std::span<const int32_t> inputs, std::span<const int32_t> targets,
                              const StopRequest& stop) {
  const Call call(*impl_);
  impl_->RequireBatch(inputs, targets, /*step=*/false);
  const Watching watching(impl_->watched, stop);
  const auto micro = static_cast<size_t>(B() * T());
  double loss = 0;
  for (size_t at = 0; at < inputs.size(); at += micro) {
    impl_->train_step.pass().Forward(impl_->weights.params(), inputs.subspan(at, micro));
    loss += impl_->train_step.pass().Loss(impl_->weights.params(), targets.subspan(at, micro));
  }
  return loss / static_cast<double>(CountTargets(targets));
}

Tensor BatchTrainer::Parameter(std::string_view name) const {
  return impl_->weights.table().View(impl_->Named(name), impl_->weights.flat());
}

Tensor BatchTrainer::Gradient(std::string_view name) {
  const ParamInfo& info = impl_->Named(name);
  if (!info.trained) throw UsageError(fmt::format("{} is not trained", name), "only adapters are");
  return impl_->weights.table().View(info, impl_->train_step.Gradient());
}

void BatchTrainer::Save(const fs::path& dir, const Tokenizer* tokenizer) const {
  const Call call(*impl_);
  RequireFit(tokenizer, config());
  const MadeParents parents(dir);
  AtomicDirectory made(dir);
  const std::unique_ptr<GptWeights> merged =
      impl_->config.lora.on() ? MergeAdapter(impl_->weights) : nullptr;
  SaveTrainedModel(made.path(), impl_->weights, merged.get(), tokenizer);
  SaveTrainState(made.path(), impl_->state, impl_->weights.table(),
                 impl_->train_step.optimizer().State());
  WriteChecksums(made.path());
  made.Commit();
}

void BatchTrainer::Resume(const fs::path& dir) {
  const Call call(*impl_);
  VerifyChecksums(dir);
  RequireSameModel(LoadModelConfig(dir), config(), dir.string());
  if (impl_->config.lora.on()) {
    LoadAdapter(dir / kAdapterDir, impl_->weights);
    RequireMergedInto(dir, impl_->weights);
  } else {
    InitWeightsFrom(*LoadModel(dir), impl_->weights);
  }
  impl_->state = LoadTrainState(dir, impl_->weights.table(), impl_->train_step.optimizer());
}

std::unique_ptr<Model> BatchTrainer::Snapshot(std::shared_ptr<const Tokenizer> tokenizer) const {
  const Call call(*impl_);
  RequireFit(tokenizer.get(), config());
  OpenedModel opened{.backend = MakeBackend(impl_->config.backend),
                     .tokenizer = std::move(tokenizer)};
  opened.weights = std::make_unique<GptWeights>(config(), Dtype::kF32, ParamPart::kAll,
                                                opened.backend->memory());
  const auto merged = impl_->config.lora.on() ? MergeAdapter(impl_->weights) : nullptr;
  InitWeightsFrom(merged ? *merged : impl_->weights, *opened.weights);
  return std::make_unique<Model>(std::move(opened));
}

}  // namespace folio
