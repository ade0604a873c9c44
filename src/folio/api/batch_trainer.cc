#include "folio/api/batch_trainer.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "folio/base/clock.h"
#include "folio/base/error.h"
#include "folio/base/strings.h"
#include "folio/base/thread_pool.h"
#include "folio/data/batch_sampler.h"
#include "folio/formats/model_formats.h"
#include "folio/io/checksums.h"
#include "folio/io/file.h"
#include "folio/model/checkpoint.h"
#include "folio/model/lora.h"
#include "folio/model/weight_init.h"
#include "folio/run/plan.h"
#include "folio/train/health.h"
#include "folio/train/optimizer.h"
#include "folio/train/ranks.h"
#include "folio/train/schedule.h"
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
    throw UsageError("lora.rank without a model to begin from",
                     "adapters are trained beside a model that is there");
  }
  for (const auto& [set, name] :
       {std::pair{config.train.rng == "torch", "train.rng torch"},
        std::pair{config.train.tensor_parallel > 1, "train.tensor_parallel"}}) {
    if (set) throw UsageError(fmt::format("{} is of runs", name), "batches come from the caller");
  }
  config.train.lora.Resolve(config.model, "settings");
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

}  // namespace

BatchTrainer::BatchTrainer(RunSettings& settings, const Model* from)
    : config_(Completed(settings, from).train),
      backend_(MakeBackend(config_.backend)),
      watched_(*backend_),
      weights_(ParamTable(settings.config.model, config_.lora)),
      train_step_(watched_, weights_, config_.batch_size, config_.context,
                  PassOptionsOf(config_, settings.config.model, watched_),
                  ParallelismOf(config_, nullptr)) {
  state_.seed = config_.seed;
  if (from == nullptr || config_.lora.on()) {
    InitWeights(weights_, static_cast<uint64_t>(config_.seed),
                from == nullptr ? ParamPart::kAll : ParamPart::kTrained);
  }
  if (from == nullptr) return;
  RequireFloat32(*from);
  InitWeightsFrom(*from->opened().weights, weights_);
}

void BatchTrainer::RequireBatch(std::span<const int32_t> inputs, std::span<const int32_t> targets,
                                bool step) const {
  const auto micro = static_cast<size_t>(B() * T());
  const size_t whole = micro * static_cast<size_t>(config_.grad_accumulation);
  const bool sized = step ? inputs.size() == whole : !inputs.empty() && inputs.size() % micro == 0;
  if (!sized || inputs.size() != targets.size()) {
    throw UsageError(
        fmt::format("a batch of {} inputs and {} targets", inputs.size(), targets.size()),
        fmt::format("expected {}{} of each, in sequences of {} tokens",
                    step ? "" : "a multiple of ", step ? whole : micro, T()),
        "set train.batch_size, train.grad_accumulation and train.context to the batch's");
  }
  const int64_t V = weights_.config().vocab_size;
  const auto require = [&](std::span<const int32_t> ids, int32_t least, std::string_view what) {
    const auto wrong = std::ranges::find_if(ids, [&](int32_t id) { return id < least || id >= V; });
    if (wrong == ids.end()) return;
    throw UsageError(fmt::format("{}[{}] is {}", what, wrong - ids.begin(), *wrong),
                     fmt::format("expected {} to {}", least, V - 1));
  };
  require(inputs, 0, "inputs");
  require(targets, Batch::kNoTarget, "targets");
  if (CountTargets(targets) == 0) {
    throw UsageError("a batch without a target", "all of its targets are -1");
  }
}

StepMetrics BatchTrainer::Step(std::span<const int32_t> inputs, std::span<const int32_t> targets,
                               const StopRequest& stop) {
  RequireBatch(inputs, targets, /*step=*/true);
  const double begin = SteadySeconds();
  const auto micro = static_cast<size_t>(B() * T());
  const int64_t count = CountTargets(targets);
  double loss = 0, norm = 0;
  {
    const Watching watching(watched_, stop);
    train_step_.Begin();
    for (size_t at = 0; at < inputs.size(); at += micro) {
      loss += train_step_.Accumulate(inputs.subspan(at, micro), targets.subspan(at, micro),
                                     1.0 / static_cast<double>(count),
                                     {.on = true,
                                      .seed = static_cast<uint64_t>(config_.seed),
                                      .step = static_cast<uint64_t>(state_.step),
                                      .first_sequence = static_cast<int64_t>(at) / T()});
    }
    norm = train_step_.Norm();
  }
  loss /= static_cast<double>(count);
  StepMetrics metrics{.step = state_.step, .loss = loss, .grad_norm = norm};
  metrics.lr = LearningRate(config_, state_.step);
  StepHealth& health = state_.health;
  const auto skipped = health.Judge(loss, norm, config_.spike_zscore, config().vocab_size, [&] {
    return FirstNonFinite(weights_.table(), train_step_.Gradient());
  });
  health.Count(skipped, loss, norm, config_.spike_zscore);
  if (skipped) {
    metrics.skipped = skipped->reason;
    metrics.skipped_parameter = skipped->parameter;
    if (health.skipped_in_a_row > config_.max_skipped_steps) {
      throw Error(ErrorKind::kDiverged, fmt::format("training diverged at step {}", state_.step),
                  fmt::format("{}: loss {:.4g}, gradient norm {:.4g}", skipped->reason, loss, norm),
                  "lower train.learning_rate, raise train.warmup_steps or lower train.grad_clip");
    }
  } else {
    train_step_.Update(OptimizerSettingsOf(config_), *metrics.lr, config_.grad_clip,
                       state_.step + 1 - health.skipped, norm);
  }
  state_.step += 1;
  state_.tokens += std::ssize(inputs);
  metrics.tokens = state_.tokens;
  metrics.seconds = SteadySeconds() - begin;
  metrics.tokens_per_second = static_cast<double>(inputs.size()) / metrics.seconds;
  return metrics;
}

double BatchTrainer::Evaluate(std::span<const int32_t> inputs, std::span<const int32_t> targets,
                              const StopRequest& stop) {
  RequireBatch(inputs, targets, /*step=*/false);
  const Watching watching(watched_, stop);
  const auto micro = static_cast<size_t>(B() * T());
  double loss = 0;
  for (size_t at = 0; at < inputs.size(); at += micro) {
    train_step_.pass().Forward(weights_.params(), inputs.subspan(at, micro));
    loss += train_step_.pass().Loss(weights_.params(), targets.subspan(at, micro));
  }
  return loss / static_cast<double>(CountTargets(targets));
}

const ParamInfo& BatchTrainer::Named(std::string_view name) const {
  std::vector<std::string> names;
  for (const ParamInfo& info : weights_.table().params()) {
    if (info.name == name) return info;
    names.push_back(info.name);
  }
  throw UsageError(fmt::format("no parameter '{}'", name),
                   fmt::format("is {} meant?", Nearest(std::string(name), names)));
}

Tensor BatchTrainer::Parameter(std::string_view name) const {
  return weights_.table().View(Named(name), weights_.flat());
}

Tensor BatchTrainer::Gradient(std::string_view name) {
  const ParamInfo& info = Named(name);
  if (!info.trained) throw UsageError(fmt::format("{} is not trained", name), "adapters are");
  return weights_.table().View(info, train_step_.Gradient());
}

void BatchTrainer::Save(const fs::path& dir, const Tokenizer* tokenizer) const {
  const MadeParents parents(dir);
  AtomicDirectory made(dir);
  const std::unique_ptr<GptWeights> merged = config_.lora.on() ? MergeAdapter(weights_) : nullptr;
  SaveModel(made.path(), merged != nullptr ? *merged : weights_, {.checksums = true});
  if (merged != nullptr) {
    CreateDirectories(made.path() / kAdapterDir);
    SaveAdapter(made.path() / kAdapterDir, weights_, "");
  }
  if (tokenizer != nullptr) tokenizer->Save(made.path().string());
  SaveTrainState(made.path(), state_, weights_.table(), train_step_.optimizer().State());
  WriteChecksums(made.path());
  made.Commit();
}

void BatchTrainer::Resume(const fs::path& dir) {
  VerifyChecksums(dir);
  const GptConfig saved = LoadModelConfig(dir);
  if (ParamTable(saved).parameters() != ParamTable(config()).parameters()) {
    throw InputError(
        fmt::format("{} is another model", dir.string()),
        fmt::format("it has {} parameters, the one that is trained {}",
                    ParamTable(saved).parameters(), ParamTable(config()).parameters()));
  }
  if (config_.lora.on()) {
    LoadAdapter(dir / kAdapterDir, weights_);
  } else {
    InitWeightsFrom(*LoadModel(dir), weights_);
  }
  state_ = LoadTrainState(dir, weights_.table(), train_step_.optimizer(), &train_step_.shards());
}

std::unique_ptr<Model> BatchTrainer::Snapshot(std::shared_ptr<const Tokenizer> tokenizer) const {
  OpenedModel opened{.weights = config_.lora.on() ? MergeAdapter(weights_)
                                                  : std::make_unique<GptWeights>(config()),
                     .backend = MakeBackend(config_.backend),
                     .tokenizer = std::move(tokenizer)};
  if (!config_.lora.on()) InitWeightsFrom(weights_, *opened.weights);
  return std::make_unique<Model>(std::move(opened));
}

}  // namespace folio
