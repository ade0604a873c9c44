#include "folio/train/train_cost.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <vector>

#include "folio/base/error.h"
#include "folio/base/strings.h"
#include "folio/model/adapters.h"
#include "folio/model/params.h"
#include "folio/train/checkpoints.h"
#include "folio/train/train_step.h"

namespace folio {

namespace {

TrainShape WithRecompute(TrainShape shape) {
  shape.options.recompute = true;
  return shape;
}

int64_t LargestBatch(TrainShape shape, uint64_t limit) {
  const auto bytes = [&](int64_t B) {
    shape.B = B;
    return PlannedBytes(shape);
  };
  return LargestThatFits(bytes, shape.B, limit);
}

// The largest divisor of `n` up to `most`, at least 1.
int64_t LargestDivisor(int64_t n, int64_t most) {
  int64_t best = 1;
  for (int64_t d = 1; d * d <= n; ++d) {
    if (n % d != 0) continue;
    if (d <= most) best = std::max(best, d);
    if (n / d <= most) best = std::max(best, n / d);
  }
  return best;
}

// The last shard has more of a vocabulary that is not cut evenly.
PassOptions OfLargestShard(const TrainShape& shape) {
  PassOptions options = shape.options;
  options.shard = {.index = shape.tensor - 1, .count = shape.tensor};
  return options;
}

// Returns what a user can do if this shape does not fit.
std::string WaysOut(const TrainShape& shape, uint64_t limit) {
  std::vector<std::string> ways;
  const int64_t most = LargestBatch(shape, limit);
  if (most > 0) {
    ways.push_back(fmt::format("--batch {} is the largest that fits", most));
    if (const int64_t step = shape.B * shape.grad_accumulation; step > 0) {
      TrainShape several = shape;  // which takes a place for the gradient of each
      several.grad_accumulation =
          std::max(2 * shape.ranks / shape.tensor * shape.reduce_every, shape.grad_accumulation);
      const int64_t micro =
          LargestDivisor(step, std::max<int64_t>(1, LargestBatch(several, limit)));
      if (step / micro <= kMaxMicroBatches) {
        ways.push_back(
            fmt::format("--batch {} --grad-accumulation {} gives the same steps of {} sequences",
                        micro, step / micro, step));
      }
    }
  }
  if (!shape.options.recompute) {
    const int64_t recomputed = LargestBatch(WithRecompute(shape), limit);
    if (recomputed == shape.B) {
      ways.push_back(fmt::format("with --recompute this batch fits in {}",
                                 HumanBytes(PlannedBytes(WithRecompute(shape)))));
    } else if (recomputed > most) {
      ways.push_back(fmt::format("with --recompute the largest is --batch {}", recomputed));
    }
  }
  if (ways.empty()) {
    return "a single sequence does not fit: use a shorter --context or a smaller model; folio "
           "inspect plan shows all buffers";
  }
  return Join(ways, "; ");
}

}  // namespace

TrainShape ShapeOf(const GptConfig& model, const TrainConfig& train, int64_t T,
                   const PassOptions& options, int ranks) {
  return {.model = model,
          .B = train.batch_size,
          .T = T,
          .grad_accumulation = train.grad_accumulation,
          .options = options,
          .ranks = ranks,
          .tensor = static_cast<int>(train.tensor_parallel),
          .reduce_every = train.reduce_every,
          .reduce = ReduceDtype(train),
          .optimizer = OptimizerSettingsOf(train)};
}

MemoryPlan PlanOf(const TrainShape& shape) {
  const int ranks = shape.ranks / shape.tensor;
  return TrainStep::Plan(
      shape.model, shape.B, shape.T, OfLargestShard(shape),
      {.ranks = ranks,
       .micro_batches = std::max(shape.reduce_every, shape.grad_accumulation / ranks),
       .reduce_every = shape.reduce_every,
       .reduce = shape.reduce},
      shape.optimizer);
}

PlanTotals::PlanTotals(const MemoryPlan& plan) : peak(plan.arena_bytes()) {
  for (const MemoryPlan::Buffer& buffer : plan.buffers()) {
    if (buffer.name == "weights") {
      weights += buffer.bytes;
    } else if (buffer.name.starts_with("gradients")) {
      gradients += buffer.bytes;
    } else if (IsStateBuffer(buffer.name)) {
      optimizer += buffer.bytes;
    } else {
      activations_unshared += buffer.bytes;
      if (buffer.name == "logits" || buffer.name == "d_logits") logits += buffer.bytes;
    }
  }
  activations = peak - weights - gradients - optimizer;
}

uint64_t MemoryBeside::Peak(uint64_t steps) const {
  return std::max(before, steps + checkpoint + merged + data + program);
}

MemoryBeside BesideOf(const TrainShape& shape, const MachineMemory& memory) {
  // Code and libraries that a run touches after its plan: 4 to 6 MB were measured.
  constexpr uint64_t kTouchedLater = 5'000'000;
  const LoraConfig& lora = shape.options.lora;
  const uint64_t copy = CheckpointWriter::BytesOfCopy(
      ParamTable(shape.model, lora, OfLargestShard(shape).shard), shape.optimizer);
  const uint64_t steps = PlannedBytes(shape);
  const bool room =
      memory.available == 0 || (steps < memory.available &&
                                CheckpointWriter::HasRoomForCopy(copy, memory.available - steps));
  return {.checkpoint = room ? copy : 0,
          .merged = MergedBytes(shape.model, lora),
          .program = HeldMemoryBytes() + kTouchedLater,
          .before = PeakMemoryBytes()};
}

uint64_t PlannedBytes(const TrainShape& shape) {
  try {
    return PlanOf(shape).arena_bytes();
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kResource) throw;
    return UINT64_MAX;
  }
}

int64_t LargestThatFits(const std::function<uint64_t(int64_t n)>& bytes, int64_t most,
                        uint64_t limit) {
  int64_t fits = 0, too_many = most + 1;
  while (too_many - fits > 1) {
    const int64_t middle = fits + (too_many - fits) / 2;
    (bytes(middle) <= limit ? fits : too_many) = middle;
  }
  return fits;
}

void RequireTrainingFits(const TrainShape& shape, const MachineMemory& memory) {
  const uint64_t bytes = PlannedBytes(shape);
  if (memory.total == 0 || bytes <= memory.total) return;
  throw Error(ErrorKind::kResource, "this run does not fit in memory",
              fmt::format("batches of {} x {} tokens need {}, the machine has {}", shape.B, shape.T,
                          bytes == UINT64_MAX ? "a size that overflows" : HumanBytes(bytes),
                          HumanBytes(memory.total)),
              WaysOut(shape, memory.total));
}

std::string MemoryWarning(uint64_t bytes, const MachineMemory& memory) {
  if (memory.available == 0 || bytes <= memory.available) return "";
  return fmt::format(
      "this needs {} of memory, but only {} are free: the system may swap or kill the process; "
      "close other programs, or use a smaller --batch",
      HumanBytes(bytes), HumanBytes(memory.available));
}

std::string DescribePlan(const TrainShape& shape, const MemoryBeside& beside) {
  const PlanTotals totals(PlanOf(shape));
  std::string text;
  const auto line = [&](const char* name, size_t bytes, const std::string& more = "") {
    text += fmt::format("{:<12} {:>9}{}\n", name, HumanBytes(bytes), more);
  };
  line("weights", totals.weights);
  line("gradients", totals.gradients);
  line("moments", totals.optimizer, fmt::format(" ({})", DescribeState(shape.optimizer)));
  const RecomputeBytes recompute =
      CompareRecompute(shape.model, shape.B, shape.T, OfLargestShard(shape));
  std::string saved;
  if (recompute.saved() > 0) {
    saved = fmt::format("; --recompute {} {}", shape.options.recompute ? "saves" : "would save",
                        HumanBytes(recompute.saved()));
  }
  line("activations", totals.activations,
       fmt::format(" ({} of them logits; {} x {} tokens{})", HumanBytes(totals.logits), shape.B,
                   shape.T, saved));
  line("checkpoint", beside.checkpoint,
       beside.checkpoint > 0
           ? " (a copy, written during training)"
           : " (not enough memory for a copy: training pauses during each checkpoint)");
  if (beside.merged > 0)
    line("merged", beside.merged, " (layers with merged adapters, for saving)");
  line("data", beside.data);
  line("program", beside.program);
  line("peak", beside.Peak(totals.peak));
  return text;
}

TrainFlops::TrainFlops(const GptConfig& config, int64_t T, const LoraConfig& lora)
    : matrix_parameters(ParamTable(config, lora).matrix_parameters()),
      trained_parameters(ParamTable(config, lora).matrix_parameters(/*trained_only=*/true)),
      products_per_token(4.0 * static_cast<double>(matrix_parameters) +
                         2.0 * static_cast<double>(trained_parameters)),
      attention_per_token(12.0 * static_cast<double>(config.n_layer) * static_cast<double>(T) *
                          static_cast<double>(config.head_layout().q_width())),
      n_layer_(config.n_layer),
      T_(T),
      q_width_(config.head_layout().q_width()) {}

std::string TrainFlops::Explanation() const {
  const std::string products =
      trained_parameters == matrix_parameters
          ? fmt::format("6 x {} parameters in matrix products", WithCommas(matrix_parameters))
          : fmt::format("4 x {} parameters in matrix products + 2 x {} of adapters",
                        WithCommas(matrix_parameters), WithCommas(trained_parameters));
  return fmt::format(
      "{} per token = {} + 12 x {} layers x {} positions x {} channels of attention (including the "
      "masked half)",
      HumanFlops(per_token()), products, n_layer_, T_, q_width_);
}

std::string HumanFlops(double flops) {
  static constexpr std::array kUnits = {"", "K", "M", "G", "T", "P", "E"};
  size_t unit = 0;
  for (; unit + 1 < kUnits.size() && flops >= 999.95; ++unit) flops /= 1000;
  return fmt::format("{:.1f} {}FLOP", flops, kUnits[unit]);
}

}  // namespace folio
