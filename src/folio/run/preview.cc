#include "folio/run/preview.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "folio/base/log.h"
#include "folio/base/simd_targets.h"
#include "folio/base/strings.h"
#include "folio/base/thread_pool.h"
#include "folio/bench/matmul_rate.h"
#include "folio/io/json.h"
#include "folio/model/params.h"
#include "folio/term/table.h"
#include "folio/train/flops.h"
#include "folio/train/learner.h"
#include "folio/train/precision.h"

namespace folio {
namespace {

std::string BuffersText(const MemoryPlan& plan, const TrainShape& shape) {
  std::vector<std::vector<std::string>> rows;
  for (const MemoryPlan::Buffer& buffer : plan.buffers()) {
    const bool always = buffer.last_tick == MemoryPlan::kAlways;
    rows.push_back({buffer.name, std::string(DtypeName(buffer.dtype)), buffer.shape.ToString(),
                    WithCommas(static_cast<int64_t>(buffer.bytes)),
                    fmt::format("{}", buffer.first_tick),
                    always ? "end" : fmt::format("{}", buffer.last_tick),
                    WithCommas(static_cast<int64_t>(buffer.offset))});
  }
  const PlanTotals totals(plan);
  std::string text =
      RenderTable({"buffer", "dtype", "shape", ">bytes", ">first", ">last", ">offset"}, rows);
  const auto line = [&](const char* name, size_t bytes) {
    text += fmt::format("{:<12} {:>9}\n", name, HumanBytes(static_cast<double>(bytes)));
  };
  text += fmt::format("\nbatch        {} x {} tokens, {}{}\n", shape.B, shape.T,
                      TrainDtypeName(shape.options.dtype),
                      shape.options.recompute ? ", recomputed" : "");
  line("weights", totals.weights);
  line("gradients", totals.gradients);
  line("optimizer", totals.optimizer);
  line("activations", totals.activations);
  line("  logits", totals.logits);
  line("peak", totals.peak);
  return text;
}

std::string BuffersJson(const MemoryPlan& plan, const TrainShape& shape) {
  Json buffers = Json::array();
  for (const MemoryPlan::Buffer& buffer : plan.buffers()) {
    const bool always = buffer.last_tick == MemoryPlan::kAlways;
    buffers.push_back({{"name", buffer.name},
                       {"dtype", DtypeName(buffer.dtype)},
                       {"shape", buffer.shape.dims()},
                       {"bytes", buffer.bytes},
                       {"first_tick", buffer.first_tick},
                       {"last_tick", always ? Json(nullptr) : Json(buffer.last_tick)},
                       {"offset", buffer.offset}});
  }
  const PlanTotals totals(plan);
  const Json json = {{"schema", 1},
                     {"batch", shape.B},
                     {"context", shape.T},
                     {"dtype", TrainDtypeName(shape.options.dtype)},
                     {"recompute", shape.options.recompute},
                     {"peak_bytes", totals.peak},
                     {"weights_bytes", totals.weights},
                     {"gradients_bytes", totals.gradients},
                     {"optimizer_bytes", totals.optimizer},
                     {"activations_bytes", totals.activations},
                     {"logits_bytes", totals.logits},
                     {"activations_unshared_bytes", totals.activations_unshared},
                     {"buffers", buffers}};
  return json.dump(2) + "\n";
}

// Tokens of one evaluation, training and held-out ones.
double EvaluationTokens(const TrainConfig& train, int64_t held_out_tokens) {
  constexpr double kTrainingBatches = 20;  // of an evaluation on the whole held-out set
  const double batch = static_cast<double>(train.batch_size * train.context);
  if (train.eval_batches > 0) return 2 * static_cast<double>(train.eval_batches) * batch;
  double held_out = static_cast<double>(held_out_tokens);
  if (train.eval_stride > 0) {
    held_out *= static_cast<double>(train.context) / static_cast<double>(train.eval_stride);
  }
  return held_out + std::min(held_out, kTrainingBatches * batch);
}

TrainShape ShapeOf(const RunConfig& config, const Backend& backend) {
  const TrainConfig& train = config.train;
  return {.model = config.model,
          .B = train.batch_size,
          .T = train.context,
          .grad_accumulation = train.grad_accumulation,
          .options = PassOptionsOf(train, config.model, backend)};
}

int64_t TokensPerStep(const TrainShape& shape) {
  return shape.B * shape.T * shape.grad_accumulation;
}

}  // namespace

std::string DescribeBuffers(const TrainShape& shape, bool json) {
  const MemoryPlan plan = Learner::Plan(shape.model, shape.B, shape.T, shape.options);
  return json ? BuffersJson(plan, shape) : BuffersText(plan, shape);
}

TrainWork WorkAhead(const GptConfig& model, const TrainConfig& train, int64_t held_out_tokens,
                    int64_t done) {
  const TrainFlops flops(model, train.context);
  const int64_t end = std::max(done, train.max_steps);
  TrainWork work{.steps = end - done,
                 .evaluations = 1,
                 .flops_per_token = flops.per_token(),
                 .channels = model.n_embd};
  // Those due from `done` on, before the last step; the one at the end is counted already.
  if (const int64_t every = train.eval_every; every > 0 && work.steps > 0) {
    const int64_t first = (done + every - 1) / every, last = (end - 1) / every;
    work.evaluations += last - first + 1;
  }
  const int64_t tokens = train.batch_size * train.grad_accumulation * train.context;
  work.flops = static_cast<double>(work.steps) * flops.per_step(tokens) +
               static_cast<double>(work.evaluations) * EvaluationTokens(train, held_out_tokens) *
                   flops.per_token() / 3;
  return work;
}

TrainSpeed ProbeSpeed(Backend& backend, Dtype dtype, const TrainWork& work) {
  constexpr double kShortest = 0.02, kLongest = 0.25, kPartOfRun = 0.02;
  const double little = MeasureMatmulPeak(backend, dtype, kShortest);
  const double seconds = std::min(kLongest, kPartOfRun * work.flops / little);
  const double more = seconds > kShortest ? MeasureMatmulPeak(backend, dtype, seconds) : 0;
  return {dtype, std::max(little, more)};
}

double UsualShare(const TrainWork& work, Dtype dtype) {
  if (dtype != Dtype::kBF16) return 0.65;
  return work.channels < 256 ? 0.3 : work.channels < 768 ? 0.45 : 0.6;
}

double EstimatedSeconds(const TrainWork& work, const TrainSpeed& speed) {
  return work.flops / (UsualShare(work, speed.dtype) * speed.product_flops_per_second);
}

std::string DescribeEstimate(const TrainWork& work, const TrainSpeed& speed) {
  return fmt::format(
      "about {}: {} steps and {} evaluations are {}; this machine just multiplied {} matrices "
      "at {:.0f} GFLOP/s, and training is taken to reach {:.0f}% of that",
      HumanSeconds(EstimatedSeconds(work, speed)), WithCommas(work.steps), work.evaluations,
      HumanFlops(work.flops), TrainDtypeName(speed.dtype), speed.product_flops_per_second / 1e9,
      UsualShare(work, speed.dtype) * 100);
}

TrainPreview::TrainPreview(const RunConfig& config, Backend& backend, const MachineMemory& memory)
    : config_(config), backend_(backend), memory_(memory), shape_(ShapeOf(config, backend)) {
  RequireTrainingFits(shape_, memory_);
  const std::string warning = MemoryWarning(PlannedBytes(shape_), memory_);
  if (!warning.empty()) LogWarning(warning);
}

std::string TrainPreview::Plan() const {
  const int64_t parameters = ParamTable(shape_.model).parameters();
  return fmt::format("{} parameters, {} tokens a step\n{} on {}, {} threads ({})\n",
                     HumanCount(static_cast<double>(parameters)), WithCommas(TokensPerStep(shape_)),
                     TrainDtypeName(shape_.options.dtype),
                     backend_.ProductUnit(shape_.options.dtype), Threads(),
                     backend_.description()) +
         DescribePlan(shape_);
}

void TrainPreview::Probe(int64_t held_out_tokens, int64_t done) {
  work_ = WorkAhead(config_.model, config_.train, held_out_tokens, done);
  speed_ = ProbeSpeed(backend_, shape_.options.dtype, work_);
}

std::string TrainPreview::Estimate() const {
  return DescribeEstimate(work_, speed_);
}

std::string TrainPreview::Event() const {
  const PlanTotals totals(Learner::Plan(shape_.model, shape_.B, shape_.T, shape_.options));
  const Json json = {{"event", "plan"},
                     {"schema", 1},
                     {"parameters", ParamTable(shape_.model).parameters()},
                     {"batch", shape_.B},
                     {"context", shape_.T},
                     {"grad_accumulation", shape_.grad_accumulation},
                     {"tokens_per_step", TokensPerStep(shape_)},
                     {"dtype", TrainDtypeName(shape_.options.dtype)},
                     {"product_unit", backend_.ProductUnit(shape_.options.dtype)},
                     {"recompute", shape_.options.recompute},
                     {"simd", SimdTarget()},
                     {"backend", backend_.name()},
                     {"backend_description", backend_.description()},
                     {"threads", Threads()},
                     {"weights_bytes", totals.weights},
                     {"gradients_bytes", totals.gradients},
                     {"optimizer_bytes", totals.optimizer},
                     {"activations_bytes", totals.activations},
                     {"logits_bytes", totals.logits},
                     {"peak_bytes", totals.peak},
                     {"memory_total_bytes", memory_.total},
                     {"memory_available_bytes", memory_.available},
                     {"steps", work_.steps},
                     {"evaluations", work_.evaluations},
                     {"flops", work_.flops},
                     {"product_flops_per_second", speed_.product_flops_per_second},
                     {"estimated_seconds", EstimatedSeconds(work_, speed_)}};
  return json.dump();
}

}  // namespace folio
