#include "folio/train/evaluate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "folio/base/error.h"
#include "folio/base/fields.h"
#include "folio/data/conversations.h"

namespace folio {

namespace {

// The batches of the training part of an evaluation that has so many of the held-out part.
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

double MeanLoss(const std::vector<double>& mine, const Communicator& communicator,
                int64_t in_a_row) {
  const std::vector<std::vector<double>> ranks = communicator.GatherNumbers(mine);
  const size_t turn = 2 * static_cast<size_t>(in_a_row);
  double sum = 0, targets = 0;
  for (size_t begin = 0; begin < mine.size(); begin += turn) {
    for (const std::vector<double>& rank : ranks) {
      for (size_t i = begin; i < begin + turn; i += 2) {
        sum += rank[i];
        targets += rank[i + 1];
      }
    }
  }
  return sum / targets;
}

std::optional<Evaluation> Evaluate(
    GptPass& pass, const GptParams& params, const EvaluationData& train, const EvaluationData& val,
    Batch& batch, const std::function<bool()>& stop_requested,
    const std::function<void(int64_t done, int64_t total)>& on_progress,
    const Communicator& communicator) {
  const int64_t ranks = communicator.size(), rank = communicator.rank();
  const int64_t total = train.batches + val.batches;
  int64_t done = 0;
  std::vector<double> losses;
  for (const EvaluationData& data : {train, val}) {
    std::vector<double> sums;
    for (int64_t first = 0; first < data.batches; first += ranks) {
      if (stop_requested()) return {};
      const int64_t b = first + rank;
      if (b >= data.batches) {
        sums.insert(sums.end(), {0, 0});  // as many as the others have
        continue;
      }
      data.sampler.Fill(static_cast<uint64_t>(b), 0, batch);
      if (pass.packed()) pass.set_begins(batch.begins);
      pass.Forward(params, batch.inputs);
      sums.push_back(pass.Loss(params, batch.targets));
      sums.push_back(static_cast<double>(batch.CountTargets()));
      done = std::min(total, done + ranks);
      if (on_progress) on_progress(done, total);
    }
    losses.push_back(MeanLoss(sums, communicator));
  }
  return Evaluation{.train_loss = losses[0], .val_loss = losses[1]};
}

namespace {

RunSamplers ConversationSamplers(const Dataset& data, const TrainConfig& config, int64_t T) {
  if (config.rng == "torch") {
    throw UsageError("--rng torch can only reproduce runs of nanoGPT",
                     fmt::format("{} contains conversations", data.dir()), "use --rng folio");
  }
  using Order = PackedConversations::Order;
  const BatchShape shape{config.batch_size, T, config.grad_accumulation};
  const uint64_t seed = static_cast<uint64_t>(config.seed);
  const auto sampler = [&](const TokenFile& tokens, const ConversationTable& table, Order order) {
    const int64_t micro_batches = order == Order::kOnce ? 1 : shape.micro_batches;
    return std::make_unique<PackedConversations>(
        tokens, table, BatchShape{shape.B, shape.T, micro_batches}, seed, order);
  };
  RunSamplers samplers;
  samplers.train = sampler(data.train(), data.train_chats(), Order::kShuffled);
  auto train = sampler(data.train(), data.train_chats(), Order::kOnce);
  auto val = sampler(data.val(), data.val_chats(), Order::kOnce);
  const int64_t most = config.eval_batches > 0 ? config.eval_batches : val->steps();
  samplers.val_eval_batches = std::min(most, val->steps());
  samplers.train_eval_batches =
      TrainingPart(config, std::min(most, std::min<int64_t>(train->steps(), 20)));
  samplers.train_eval = std::move(train);
  samplers.val_eval = std::move(val);
  return samplers;
}

}  // namespace

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

RunSamplers MakeRunSamplers(const Dataset& data, const TrainConfig& config, int64_t T,
                            std::optional<TorchRng>& torch) {
  const BatchShape shape{config.batch_size, T, config.grad_accumulation};
  const BatchShape eval_shape{shape.B, shape.T, 1};
  const uint64_t seed = static_cast<uint64_t>(config.seed);
  if (data.info().chat) return ConversationSamplers(data, config, T);
  RunSamplers samplers;
  const EvaluationSize batches = EvaluationSizeOf(config, data.val().size());
  if (config.rng == "torch") {
    torch.emplace(seed);
    samplers.train = std::make_unique<TorchWindows>(data.train(), shape, *torch);
    samplers.train_eval = std::make_unique<TorchWindows>(data.train(), eval_shape, *torch);
    samplers.val_eval = std::make_unique<TorchWindows>(data.val(), eval_shape, *torch);
  } else {
    if (config.order == "epochs") {
      samplers.train = std::make_unique<ShuffledEpochs>(data.train(), shape, seed);
    } else if (config.order == "windows") {
      samplers.train = std::make_unique<ShuffledWindows>(data.train(), shape, seed);
    } else {
      samplers.train = std::make_unique<RandomWindows>(data.train(), shape, seed);
    }
    const RngPurpose purpose = RngPurpose::kEvaluation;
    samplers.train_eval = std::make_unique<RandomWindows>(data.train(), eval_shape, seed, purpose);
    if (!batches.whole) {
      samplers.val_eval = std::make_unique<RandomWindows>(data.val(), eval_shape, seed, purpose);
    }
  }
  samplers.train_eval_batches = batches.train;
  samplers.val_eval_batches = batches.val;
  if (batches.whole) {
    const int64_t stride = config.eval_stride > 0 ? config.eval_stride : shape.T;
    samplers.val_eval = std::make_unique<SequentialWindows>(data.val(), eval_shape, stride);
  }
  return samplers;
}

}  // namespace folio
