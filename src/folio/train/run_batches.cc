#include "folio/train/run_batches.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "folio/base/error.h"
#include "folio/base/fields.h"
#include "folio/data/conversations.h"
#include "folio/train/evaluate.h"
#include "folio/train/schedule.h"

namespace folio {

namespace {

// The number of training batches of an evaluation with so many held-out batches.
int64_t TrainingPart(const TrainConfig& config, int64_t held_out) {
  return config.train_eval_batches > 0 ? std::min(config.train_eval_batches, held_out) : held_out;
}

}  // namespace

EvaluationSize EvaluationSizeOf(const TrainConfig& config, int64_t val_tokens) {
  constexpr int64_t kTraining = 20;  // of an evaluation on the whole held-out set
  const int64_t T = config.context, stride = config.eval_stride > 0 ? config.eval_stride : T;
  const int64_t all = SequentialWindows::Batches(val_tokens, {config.batch_size, T, 1}, stride);
  const int64_t asked = config.eval_batches;
  const bool drawn = asked < all || config.rng == "torch" || val_tokens <= T;  // or refused
  if (asked > 0 && drawn) return {TrainingPart(config, asked), asked, false};
  return {TrainingPart(config, std::min(all, asked > 0 ? asked : kTraining)), all, true};
}

double StepsPerEpoch(const Dataset& data, const TrainConfig& config) {
  const BatchShape shape{config.batch_size, config.context, config.grad_accumulation};
  const auto steps = [&](int64_t windows) {
    return static_cast<double>(windows) / static_cast<double>(shape.sequences());
  };
  if (data.info().chat) {
    const PackedConversations packed(data.train(), data.train_chats(), shape, 0,
                                     PackedConversations::Order::kOnce);
    return steps(packed.windows());
  }
  const int64_t tokens = data.train().size();
  if (config.order == "windows") return steps(tokens - shape.T);
  return steps(tokens) / static_cast<double>(shape.T);
}

int64_t StepsOfEpochs(const Dataset& data, const TrainConfig& config) {
  return std::max<int64_t>(1, std::llround(config.epochs * StepsPerEpoch(data, config)));
}

void RequireTorchRngFits(const GptConfig& model, const TrainConfig& config, bool from_model,
                         bool ranks) {
  if (config.rng != "torch") return;
  if (ranks) {
    throw UsageError("--rng torch can only reproduce runs of one process",
                     "a single generator draws all numbers in order",
                     "run without mpirun or srun, or use --rng folio");
  }
  if (from_model || config.lora.on()) {
    throw UsageError("--rng torch can only reproduce runs with new parameters", "",
                     "use --rng folio with --init");
  }
  GptConfig named = model;
  for (const Field& field : named.Fields()) {
    const bool drops = std::ranges::any_of(GptConfig::DropoutRates(), [&](auto rate) {
      return model.*rate != 0 && field.value == Field::Value(&(named.*rate));
    });
    if (!drops) continue;
    throw UsageError("--rng torch can only reproduce runs without dropout",
                     fmt::format("{} is {}; PyTorch's dropout depends on the processor", field.key,
                                 FieldText(field)),
                     "set every model.*_pdrop to 0, or use --rng folio");
  }
  if (model.init != InitMethod::kNormal || !model.learned_positions() || config.order != "random") {
    throw UsageError("--rng torch can only reproduce runs of nanoGPT",
                     "these have model.init = normal, model.position_embedding = learned and "
                     "train.order = random",
                     "use these settings, or --rng folio");
  }
}

RunBatches::RunBatches(const Dataset& data, const TrainConfig& config)
    : short_batches_(config.first_eval_batches),
      worthwhile_steps_(WorthwhileSteps(config, data.train().size())) {
  if (data.info().chat) {
    DivideConversations(data, config);
  } else {
    DivideText(data, config);
  }
}

void RunBatches::DivideConversations(const Dataset& data, const TrainConfig& config) {
  if (config.rng == "torch") {
    throw UsageError("--rng torch can only reproduce runs of nanoGPT",
                     fmt::format("{} contains conversations", data.dir()), "use --rng folio");
  }
  using Order = PackedConversations::Order;
  const auto sampler = [&](const TokenFile& tokens, const ConversationTable& table, Order order) {
    const int64_t micro_batches = order == Order::kOnce ? 1 : config.grad_accumulation;
    return std::make_unique<PackedConversations>(
        tokens, table, BatchShape{config.batch_size, config.context, micro_batches},
        static_cast<uint64_t>(config.seed), order);
  };
  train_ = sampler(data.train(), data.train_chats(), Order::kShuffled);
  auto train = sampler(data.train(), data.train_chats(), Order::kOnce);
  auto val = sampler(data.val(), data.val_chats(), Order::kOnce);
  const int64_t most = config.eval_batches > 0 ? config.eval_batches : val->steps();
  val_eval_batches_ = std::min(most, val->steps());
  train_eval_batches_ = TrainingPart(config, std::min(most, std::min<int64_t>(train->steps(), 20)));
  train_eval_ = std::move(train);
  val_eval_ = std::move(val);
}

void RunBatches::DivideText(const Dataset& data, const TrainConfig& config) {
  const BatchShape shape{config.batch_size, config.context, config.grad_accumulation};
  const BatchShape eval_shape{shape.B, shape.T, 1};
  const uint64_t seed = static_cast<uint64_t>(config.seed);
  const EvaluationSize batches = EvaluationSizeOf(config, data.val().size());
  train_eval_batches_ = batches.train;
  val_eval_batches_ = batches.val;
  if (config.rng == "torch") {
    torch_.emplace(seed);
    train_ = std::make_unique<TorchWindows>(data.train(), shape, *torch_);
    train_eval_ = std::make_unique<TorchWindows>(data.train(), eval_shape, *torch_);
    if (!batches.whole) {
      val_eval_ = std::make_unique<TorchWindows>(data.val(), eval_shape, *torch_);
    }
  } else {
    if (config.order == "epochs") {
      train_ = std::make_unique<ShuffledEpochs>(data.train(), shape, seed);
    } else if (config.order == "windows") {
      train_ = std::make_unique<ShuffledWindows>(data.train(), shape, seed);
    } else {
      train_ = std::make_unique<RandomWindows>(data.train(), shape, seed);
    }
    const RngPurpose purpose = RngPurpose::kEvaluation;
    train_eval_ = std::make_unique<RandomWindows>(data.train(), eval_shape, seed, purpose);
    if (!batches.whole) {
      val_eval_ = std::make_unique<RandomWindows>(data.val(), eval_shape, seed, purpose);
    }
  }
  if (batches.whole) {
    const int64_t stride = config.eval_stride > 0 ? config.eval_stride : shape.T;
    val_eval_ = std::make_unique<SequentialWindows>(data.val(), eval_shape, stride);
  }
}

std::optional<Evaluation> RunBatches::Evaluate(
    GptPass& pass, const GptParams& params, bool is_short,
    const std::function<bool()>& stop_requested,
    const std::function<void(int64_t, int64_t)>& on_progress, const Communicator& communicator) {
  const auto batches = [&](int64_t usual) {
    return is_short ? std::min(usual, short_batches_) : usual;
  };
  const std::optional<TorchRng> before = torch_;
  std::optional<Evaluation> evaluation =
      folio::Evaluate(pass, params, {*train_eval_, batches(train_eval_batches_)},
                      {*val_eval_, batches(val_eval_batches_)}, eval_batch_, stop_requested,
                      on_progress, communicator);
  if (!evaluation) torch_ = before;
  return evaluation;
}

}  // namespace folio
