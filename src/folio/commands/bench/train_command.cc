#include <fmt/format.h>

#include "folio/base/percentile.h"
#include "folio/base/simd_targets.h"
#include "folio/base/strings.h"
#include "folio/base/thread_pool.h"
#include "folio/bench/training.h"
#include "folio/cli/compute_flags.h"
#include "folio/commands/commands.h"
#include "folio/commands/model_settings.h"
#include "folio/io/json.h"
#include "folio/term/table.h"
#include "folio/train/flops.h"
#include "folio/train/precision.h"

namespace folio {
namespace {

std::string Bytes(uint64_t bytes) {
  return HumanBytes(static_cast<double>(bytes));
}

Json ToJson(const BenchTrainOptions& options, const BenchTrainResult& result) {
  Json json = {{"batch", options.train.batch_size},
               {"context", options.T},
               {"steps", result.step_seconds.size()},
               {"tokens_per_second", result.tokens_per_second()},
               {"seconds_per_token", result.seconds_per_token()},
               {"seconds_per_step", result.seconds_per_step()},
               {"seconds_per_step_min", Percentile(result.step_seconds, 0)},
               {"seconds_per_step_p90", Percentile(result.step_seconds, 0.9)},
               {"flops_per_step", result.flops_per_step},
               {"model_flops_per_second", result.flops_per_second()},
               {"matmul_flops_per_second", result.matmul_flops_per_second},
               {"peak_share", result.peak_share()},
               {"peak_bytes", result.planned_bytes},
               {"peak_memory_bytes", result.peak_memory_bytes},
               {"last_loss", result.last_loss}};
  if (result.plain) {
    const WithoutRecompute& plain = *result.plain;
    json["without_recompute"] = {{"peak_bytes", plain.planned_bytes},
                                 {"saved_bytes", result.saved_bytes()},
                                 {"seconds_per_step", Median(plain.step_seconds)},
                                 {"seconds_per_step_min", Percentile(plain.step_seconds, 0)},
                                 {"time_paid", result.time_paid()}};
  }
  if (!result.ops.empty()) {
    json["ops"] = Json::array();
    for (const OpTime& op : result.ops) {
      json["ops"].push_back({{"name", op.name},
                             {"calls", op.calls},
                             {"seconds", op.seconds},
                             {"flops", op.flops},
                             {"bytes", op.bytes}});
    }
    json["seconds_outside_ops"] = result.seconds_outside_ops;
  }
  return json;
}

std::string RecomputeLine(const BenchTrainResult& result) {
  if (!result.plain) return "recompute   on; memory has no room to compare with a run without\n";
  return fmt::format(
      "recompute   saves {} of {} planned, steps take {:+.1f}% (without: {:.3f} ms, fastest "
      "{:.3f})\n",
      HumanBytes(static_cast<double>(result.saved_bytes())), Bytes(result.plain->planned_bytes),
      result.time_paid() * 100, Median(result.plain->step_seconds) * 1e3,
      Percentile(result.plain->step_seconds, 0) * 1e3);
}

std::string ToText(const BenchTrainOptions& options, const BenchTrainResult& result) {
  std::string text = fmt::format(
      "batch       {} x {} tokens\n"
      "steps       {}\n"
      "step        {:.3f} ms (fastest {:.3f}, 90% below {:.3f})\n"
      "speed       {} tokens/s\n"
      "arithmetic  {:.1f} GFLOP/s, {:.0f}% of the {:.1f} of {} matrix products\n"
      "memory      {} resident at most, {} planned\n",
      options.train.batch_size, options.T, result.step_seconds.size(),
      result.seconds_per_step() * 1e3, Percentile(result.step_seconds, 0) * 1e3,
      Percentile(result.step_seconds, 0.9) * 1e3,
      WithCommas(static_cast<int64_t>(result.tokens_per_second())), result.flops_per_second() / 1e9,
      result.peak_share() * 100, result.matmul_flops_per_second / 1e9,
      TrainDtypeName(options.pass.dtype), Bytes(result.peak_memory_bytes),
      Bytes(result.planned_bytes));
  if (options.pass.recompute) text += RecomputeLine(result);
  if (!result.ops.empty()) {
    text += "\n" + TimesTable(result.ops);
    text += fmt::format("outside of operations: {:.3f} ms\n", result.seconds_outside_ops * 1e3);
  }
  return text;
}

// How the cost grows from the first batch size to the others.
std::string GrowthTable(const std::vector<BenchTrainOptions>& options,
                        const std::vector<BenchTrainResult>& results) {
  std::vector<std::vector<std::string>> rows;
  const double first = results[0].seconds_per_token();
  for (size_t i = 0; i < results.size(); ++i) {
    const BenchTrainResult& result = results[i];
    const double more_than_first = static_cast<double>(results[i].planned_bytes) -
                                   static_cast<double>(results[0].planned_bytes);
    rows.push_back({fmt::format("{}", options[i].train.batch_size),
                    fmt::format("{:.3f}", result.seconds_per_step() * 1e3),
                    fmt::format("{:.1f}", result.seconds_per_token() * 1e6),
                    fmt::format("{:.2f}", result.seconds_per_token() / first),
                    WithCommas(static_cast<int64_t>(result.tokens_per_second())),
                    fmt::format("{:.1f}", result.flops_per_second() / 1e9),
                    fmt::format("{:.0f}%", result.peak_share() * 100),
                    Bytes(results[i].planned_bytes), HumanBytes(more_than_first),
                    Bytes(results[i].peak_memory_bytes)});
  }
  return RenderTable({">batch", ">ms/step", ">us/token", ">relative", ">tokens/s", ">GFLOP/s",
                      ">of peak", ">planned", ">more", ">resident"},
                     rows);
}

class BenchTrainCommand final : public Command {
 public:
  CommandInfo info() const override {
    return {.name = "bench train",
            .summary = "measure how fast a model trains on this machine",
            .group = "set-up",
            .details =
                "Takes whole training steps on random tokens and compares their arithmetic with\n"
                "the fastest matrix products of this machine in the same dtype. With --recompute\n"
                "its steps take turns with those of the same model without, if both fit into\n"
                "memory. With --batches one size follows the other, and \"more\" is what each "
                "plans above\n"
                "the first.",
            .examples = {"folio bench train --preset char-cpu --batch 12 --context 64",
                         "folio bench train --preset gpt2 --batch 4 --dtype bf16 --json",
                         "folio bench train --preset gpt2 --batches 1,2,4,8 --steps 3",
                         "folio bench train --preset char-cpu --ops"}};
  }

  void AddFlags(Flags& flags) override {
    settings_.AddFlags(flags);
    flags.Value(
        Field{"batches", &batches_, "several batch sizes one after the other, instead of --batch"},
        {.placeholder = "N,N,..."});
    flags.Value(Field{"steps", &steps_, "measure at least so many steps", 1, 1e9});
    flags.Value(Field{"seconds", &seconds_, "and at least so long", 0, 1e6});
    flags.Switch("--ops", &ops_, "show where the time goes, operation by operation");
    simd_.Add(flags);
  }

  int Run(const Context& context) override {
    settings_.Read(context.sources);
    RefuseTogether(!batches_.empty() && settings_.flagged("train.batch_size"), "--batches",
                   "--batch");
    const TrainConfig& train = settings_.config().train;
    UseThreads(train.threads);
    simd_.Use();
    std::unique_ptr<Backend> backend = MakeBackend(train.backend);
    description_ = backend->description();
    TimedBackend* timed = nullptr;
    if (ops_) {
      auto timing = std::make_unique<TimedBackend>(std::move(backend));
      timed = timing.get();
      backend = std::move(timing);
    }
    const std::vector<BenchTrainOptions> options = Options(*backend);
    unit_ = backend->ProductUnit(options.front().pass.dtype);
    std::vector<BenchTrainResult> results;
    for (const BenchTrainOptions& each : options) {
      context.console.Note(fmt::format("measuring {} with batches of {} x {} tokens",
                                       settings_.name(), each.train.batch_size, each.T));
      results.push_back(BenchTrain(*backend, each, timed));
    }
    context.console.Result(context.console.json() ? AsJson(options, results)
                                                  : AsText(options, results));
    return 0;
  }

 private:
  // One for each batch size.
  std::vector<BenchTrainOptions> Options(const Backend& backend) const {
    const RunConfig& config = settings_.config();
    BenchTrainOptions options{.model = config.model,
                              .train = config.train,
                              .T = settings_.Context(),
                              .pass = PassOptionsOf(config.train, config.model, backend),
                              .steps = steps_,
                              .seconds = seconds_};
    if (batches_.empty()) return {options};
    std::vector<BenchTrainOptions> all;
    for (const int64_t B : ParseBatches(batches_, "--batches")) {
      options.train.batch_size = B;
      all.push_back(options);
    }
    return all;
  }

  std::string AsText(const std::vector<BenchTrainOptions>& options,
                     const std::vector<BenchTrainResult>& results) const {
    const BenchTrainOptions& first = options.front();
    std::string text = fmt::format(
        "model       {}, {} parameters\n"
        "backend     {}: {}\n"
        "computing   {} on {}, {} threads\n"
        "counted     {}\n",
        settings_.name(), WithCommas(results[0].parameters), first.train.backend, description_,
        TrainDtypeName(first.pass.dtype), unit_, Threads(),
        TrainFlops(first.model, first.T).Explanation());
    for (size_t i = 0; i < results.size(); ++i) {
      text += (batches_.empty() ? "" : "\n") + ToText(options[i], results[i]);
    }
    if (!batches_.empty()) text += "\n" + GrowthTable(options, results);
    return text;
  }

  std::string AsJson(const std::vector<BenchTrainOptions>& options,
                     const std::vector<BenchTrainResult>& results) const {
    const BenchTrainOptions& first = options.front();
    const TrainFlops flops(first.model, first.T);
    Json json = {{"schema", 1},
                 {"model", settings_.name()},
                 {"parameters", results[0].parameters},
                 {"dtype", TrainDtypeName(first.pass.dtype)},
                 {"product_unit", unit_},
                 {"recompute", first.pass.recompute},
                 {"backend", first.train.backend},
                 {"backend_description", description_},
                 {"simd", SimdTarget()},
                 {"threads", Threads()},
                 {"flops_formula", kFlopsFormula},
                 {"matrix_parameters", flops.matrix_parameters},
                 {"flops_per_token", flops.per_token()},
                 {"attention_flops_per_token", flops.attention_per_token}};
    if (batches_.empty()) {
      json.update(ToJson(first, results[0]));
    } else {
      const double seconds = results[0].seconds_per_token();
      json["batches"] = Json::array();
      for (size_t i = 0; i < results.size(); ++i) {
        Json each = ToJson(options[i], results[i]);
        each["relative_seconds_per_token"] = results[i].seconds_per_token() / seconds;
        json["batches"].push_back(std::move(each));
      }
    }
    return json.dump(2) + "\n";
  }

  ModelSettings settings_{std::vector<std::string>{"--batch", "--context", "--dtype", "--recompute",
                                                   "--threads", "--backend"}};
  std::string batches_, description_, unit_;
  int64_t steps_ = 10;
  double seconds_ = 5;
  bool ops_ = false;
  SimdFlag simd_;
};

}  // namespace

std::unique_ptr<Command> NewBenchTrainCommand() {
  return std::make_unique<BenchTrainCommand>();
}

}  // namespace folio
