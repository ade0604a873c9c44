#include "folio/run/preview.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string_view>
#include <vector>

#include "folio/base/log.h"
#include "folio/base/simd_targets.h"
#include "folio/base/strings.h"
#include "folio/base/thread_pool.h"
#include "folio/bench/training.h"
#include "folio/model/params.h"
#include "folio/tensor/dtype.h"
#include "folio/train/config.h"
#include "folio/train/run_batches.h"
#include "folio/train/schedule.h"
#include "folio/train/train_step.h"
#include "folio/train/trainer.h"

namespace folio {
namespace {

// The shape of a step and its memory, as in JSON.
std::vector<Cell> ShapeCells(const TrainShape& shape, const PlanTotals& totals) {
  return {{"batch", "", shape.B},
          {"context", "", shape.T},
          {"dtype", "", DtypeSetting(shape.options.dtype)},
          {"recompute", "", shape.options.recompute},
          {"ranks", "", shape.ranks},
          {"tensor_parallel", "", shape.tensor},
          {"weights_bytes", "weights", Value::Bytes(totals.weights)},
          {"gradients_bytes", "gradients", Value::Bytes(totals.gradients)},
          {"optimizer_bytes", "optimizer", Value::Bytes(totals.optimizer)},
          {"activations_bytes", "activations", Value::Bytes(totals.activations)},
          {"logits_bytes", "  logits", Value::Bytes(totals.logits)},
          {"peak_bytes", "peak", Value::Bytes(totals.peak)}};
}

// Tokens that one evaluation computes, of `most` batches of each at most; 0 for as many as always.
double EvaluationTokens(const TrainConfig& train, int64_t held_out_tokens, int64_t most = 0) {
  const EvaluationSize batches = EvaluationSizeOf(train, held_out_tokens);
  const auto short_of = [&](int64_t all) { return most > 0 ? std::min(all, most) : all; };
  return static_cast<double>((short_of(batches.train) + short_of(batches.val)) * train.batch_size *
                             train.context);
}

}  // namespace

Report BuffersReport(const TrainShape& shape) {
  const MemoryPlan plan = PlanOf(shape);
  const PlanTotals totals(plan);
  ReportTable buffers{.key = "buffers"};
  for (const MemoryPlan::Buffer& buffer : plan.buffers()) {
    const bool always = buffer.last_tick == MemoryPlan::kAlways;
    buffers.rows.push_back(
        {{"name", "buffer", buffer.name},
         {"dtype", "dtype", DtypeName(buffer.dtype)},
         {"shape", "shape", {buffer.shape.ToString(), buffer.shape.dims()}},
         {"bytes", ">bytes", Value::Commas(static_cast<int64_t>(buffer.bytes))},
         {"first_tick", ">first", buffer.first_tick},
         {"last_tick", ">last", always ? Value("end", Json()) : Value(buffer.last_tick)},
         {"offset", ">offset", Value::Commas(static_cast<int64_t>(buffer.offset))},
         {"mirrored", "mirror", buffer.mirrored}});
  }
  std::vector<Cell> facts = {
      {"", "batch",
       fmt::format("{} x {} tokens, {}{}{}{}", shape.B, shape.T, DtypeSetting(shape.options.dtype),
                   shape.options.recompute ? ", recomputed" : "",
                   shape.ranks > 1 ? fmt::format("; on each of {} ranks", shape.ranks) : "",
                   shape.tensor > 1 ? fmt::format(", {} per layer", shape.tensor) : "")},
      {"activations_unshared_bytes", "", totals.activations_unshared}};
  std::ranges::copy(ShapeCells(shape, totals), std::back_inserter(facts));
  return {.parts = {{.table = buffers}, {.facts = facts}}};
}

std::string HowOften(double epochs) {
  if (epochs < 0.01) return "less than 0.01 times";
  if (epochs >= 0.95 && epochs < 1.05) return "about once";
  return epochs < 10 ? fmt::format("about {:.2g} times", epochs)
                     : fmt::format("about {} times", WithCommas(std::llround(epochs)));
}

TrainWork WorkAhead(const GptConfig& model, const TrainConfig& train, int64_t held_out_tokens,
                    int64_t done) {
  const TrainFlops flops(model, train.context, train.lora);
  const int64_t end = std::max(done, train.max_steps);
  TrainWork work{.steps = end - done, .evaluations = 1, .flops_per_token = flops.per_token()};
  // Evaluations are due from `done` on, before the last step; the one at the end is counted
  // already.
  if (const int64_t every = train.eval_every; every > 0 && work.steps > 0) {
    const int64_t first = (done + every - 1) / every, last = (end - 1) / every;
    work.evaluations += last - first + 1;
  }
  double evaluated =
      static_cast<double>(work.evaluations) * EvaluationTokens(train, held_out_tokens);
  if (done == 0 && work.evaluations > 1 && train.first_eval_is_short()) {
    evaluated += EvaluationTokens(train, held_out_tokens, train.first_eval_batches) -
                 EvaluationTokens(train, held_out_tokens);
  }
  work.evaluation_flops = evaluated * flops.per_token() / 3;
  work.flops = static_cast<double>(work.steps) * flops.per_step(train.tokens_per_step()) +
               work.evaluation_flops;
  return work;
}

std::string LengthWarning(const RunSettings& settings, const std::function<double()>& rate) {
  constexpr double kWeek = 7 * 86400;
  constexpr double kSlowMachine = 1e9;  // a second; what ends there in time is not measured
  constexpr std::string_view kPublished = "gpt2";  // presets called like a published model
  const auto& [model, train, data, log] = settings.config;
  if (!train.max_time.empty() || train.max_tokens > 0 || !train.budget.empty()) return "";
  TrainConfig ran = train;
  ran.context = ContextOf(model, train);
  const double flops = WorkAhead(model, ran, /*held_out_tokens=*/0, 0).flops;
  if (flops / kSlowMachine < kWeek) return "";
  const double seconds = flops / rate();
  if (seconds < kWeek) return "";
  const std::string& origin = settings.layers.origin("model.n_embd");
  const std::string preset = origin.starts_with("preset ") ? origin.substr(7) : "";
  std::string mend = "--max-steps N trains for fewer steps";
  if (!preset.empty()) {
    mend =
        fmt::format("instead of --preset {}, {}--budget 1h chooses a size for one hour; ", preset,
                    preset.starts_with(kPublished)
                        ? fmt::format("--init {} starts from the published model, and ", preset)
                        : "") +
        mend;
  } else if (train.init.empty()) {
    mend = "--budget 1h chooses a model size for one hour; " + mend;
  }
  return fmt::format("{} steps of {} tokens take more than {} on this machine: {}",
                     WithCommas(train.max_steps), WithCommas(ran.tokens_per_step()),
                     HumanSeconds(seconds), mend);
}

TrainPreview::TrainPreview(const RunConfig& config, const Dataset& data, Backend& backend,
                           const MachineMemory& memory, int ranks)
    : config_(config),
      data_(data),
      backend_(backend),
      memory_(memory),
      shape_(ShapeOf(config.model, config.train, config.train.context,
                     PassOptionsOf(config.train, config.model, backend), ranks)) {
  RequireTrainingFits(shape_, memory_);
  beside_ = BesideOf(shape_, memory_);
  if (config.train.saves_adapters()) beside_.merged = 0;
  beside_.data = static_cast<uint64_t>(data.bytes());
  epochs_ = static_cast<double>(config.train.max_steps) / StepsPerEpoch(data, config.train);
  const std::string warning = MemoryWarning(PlannedBytes(shape_), memory_);
  if (!warning.empty()) LogWarning(warning);
}

std::string TrainPreview::Plan() const {
  const int64_t parameters = ParamTable(shape_.model, shape_.options.lora).parameters();
  const int64_t tokens = data_.train().size();
  const std::string trained =
      shape_.options.lora.on()
          ? fmt::format(
                ", {} of them trained",
                HumanCount(static_cast<double>(
                    TrainFlops(shape_.model, shape_.T, shape_.options.lora).trained_parameters)))
          : "";
  std::string text =
      fmt::format("{} parameters{}, {} tokens per step\n{} on {}, {} threads ({})\n",
                  HumanCount(static_cast<double>(parameters)), trained,
                  WithCommas(config_.train.tokens_per_step()), DtypeSetting(shape_.options.dtype),
                  backend_.ProductUnit(shape_.options.dtype), Threads(), backend_.description());
  const std::string held_out = data_.info().WhereHeldOut();
  text += fmt::format("{} training tokens, read {}; {} held-out tokens{}; vocabulary {}\n",
                      WithCommas(tokens), HowOften(epochs_), WithCommas(data_.val().size()),
                      held_out.empty() ? "" : " (" + held_out + ")",
                      WithCommas(config_.model.vocab_size));
  text += fmt::format("learning rate {}\n", DescribeSchedule(config_.train));
  return text + DescribePlan(shape_, beside_);
}

void TrainPreview::Probe(int64_t done, double gone) {
  seconds_left_ = std::max(0.0, config_.train.budget_seconds() - gone);
  work_ = WorkAhead(config_.model, config_.train, data_.val().size(), done);
  constexpr double kPartOfRun = 0.02;
  flops_per_second_ = MeasureTrainRate(
      backend_,
      {.model = config_.model, .train = config_.train, .T = shape_.T, .pass = shape_.options},
      kPartOfRun * work_.flops);
}

// Returns whether the text ends a run with a budget before the time does.
bool TrainPreview::TextEndsIt() const {
  return config_.train.max_steps >= WorthwhileSteps(config_.train, data_.train().size());
}

double TrainPreview::EstimatedSeconds() const {
  const double measured = work_.flops / (flops_per_second_ * shape_.ranks);
  if (config_.train.budget.empty()) return measured;
  return TextEndsIt() ? std::min(measured, seconds_left_) : seconds_left_;
}

std::string TrainPreview::Estimate() const {
  std::string end;
  if (!config_.train.budget.empty()) {
    end = TextEndsIt() ? fmt::format(
                             "; the run ends when the text has been read {:.0f} times, "
                             "since more would not help",
                             WorthwhileEpochs(config_.train))
                       : "; the number of steps follows the clock";
  }
  return fmt::format(
      "estimated time {}: {} steps and {} evaluations at {:.3g} GFLOP/s, measured{}{}",
      HumanSeconds(EstimatedSeconds()), WithCommas(work_.steps), work_.evaluations,
      flops_per_second_ / 1e9,
      shape_.ranks > 1 ? fmt::format(", on each of {} ranks", shape_.ranks) : "", end);
}

Json TrainPreview::Event() const {
  Json event = {{"event", "plan"},
                {"schema", 1},
                {"parameters", ParamTable(shape_.model, shape_.options.lora).parameters()}};
  const PlanTotals totals(PlanOf(shape_));
  event.update(AsJson(ShapeCells(shape_, totals)));
  event.update({{"checkpoint_bytes", beside_.checkpoint},
                {"merged_bytes", beside_.merged},
                {"data_bytes", beside_.data},
                {"program_bytes", beside_.program},
                {"process_peak_bytes", beside_.Peak(totals.peak)}});
  event.update({{"grad_accumulation", shape_.grad_accumulation},
                {"tokens_per_step", config_.train.tokens_per_step()},
                {"train_tokens", data_.train().size()},
                {"val_tokens", data_.val().size()},
                {"vocab_size", config_.model.vocab_size},
                {"product_unit", backend_.ProductUnit(shape_.options.dtype)},
                {"simd", SimdTarget()},
                {"backend", backend_.name()},
                {"backend_description", backend_.description()},
                {"threads", Threads()},
                {"memory_total_bytes", memory_.total},
                {"memory_available_bytes", memory_.available},
                {"steps", work_.steps},
                {"epochs", epochs_},
                {"evaluations", work_.evaluations},
                {"flops", work_.flops},
                {"model_flops_per_second", flops_per_second_},
                {"estimated_seconds", EstimatedSeconds()}});
  return event;
}

}  // namespace folio
