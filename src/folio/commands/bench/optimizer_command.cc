#include <fmt/format.h>

#include "folio/base/machine.h"
#include "folio/base/percentile.h"
#include "folio/base/simd_targets.h"
#include "folio/base/strings.h"
#include "folio/base/thread_pool.h"
#include "folio/bench/optimizer.h"
#include "folio/cli/compute_flags.h"
#include "folio/commands/commands.h"
#include "folio/commands/model_settings.h"
#include "folio/io/json.h"
#include "folio/model/params.h"
#include "folio/term/table.h"

namespace folio {
namespace {

// A part of the optimizer, and the pass of the machine that is like it.
struct Comparison {
  const MemoryPass& part;
  const MemoryPass& machine;
};

std::vector<Comparison> Comparisons(const OptimizerRates& rates) {
  return {{rates.norm, rates.read}, {rates.adamw, rates.copy}};
}

class BenchOptimizerCommand final : public Command {
 public:
  CommandInfo info() const override {
    return {.name = "bench optimizer",
            .summary = "measure what an optimizer step costs beside the products",
            .group = "set-up",
            .details =
                "The norm of the gradient and AdamW go through all parameters, as fast as memory\n"
                "is. Beside them the same arrays are read and copied by all threads: that is what\n"
                "the machine can do.",
            .examples = {"folio bench optimizer --preset gpt2",
                         "folio bench optimizer --parameters 1000000 --threads 1 --json"}};
  }

  void AddFlags(Flags& flags) override {
    settings_.AddFlags(flags);
    flags.Value(Field{"parameters", &parameters_, "so many, instead of a model's", 0, 1e12});
    flags.Value(Field{"seconds", &seconds_, "measure at least so long", 0, 1e6});
    simd_.Add(flags);
  }

  int Run(const Context& context) override {
    settings_.Read(context.sources);
    const TrainConfig& train = settings_.config().train;
    UseThreads(train.threads);
    simd_.Use();
    RefuseTogether(parameters_ > 0 && settings_.named(), "--parameters", "--preset or --model");
    const int64_t parameters =
        parameters_ > 0 ? parameters_ : ParamTable(settings_.config().model).flat_size();
    RequireMemory("this benchmark", OptimizerBytes(parameters),
                  parameters_ > 0 ? "lower --parameters" : "choose a smaller model");
    const std::unique_ptr<Backend> backend = MakeBackend(train.backend);
    const OptimizerRates rates = MeasureOptimizer(*backend, parameters, seconds_);
    context.console.Result(context.console.json() ? AsJson(*backend, parameters, rates)
                                                  : AsText(*backend, parameters, rates));
    return 0;
  }

 private:
  static std::string AsText(const Backend& backend, int64_t parameters,
                            const OptimizerRates& rates) {
    std::vector<std::vector<std::string>> rows;
    const auto row = [&](const std::string& name, double seconds, double bytes,
                         const std::string& share) {
      rows.push_back({name, fmt::format("{:.3f}", seconds * 1e3), HumanBytes(bytes),
                      fmt::format("{:.1f}", bytes / seconds / 1e9), share});
    };
    for (const auto& [part, machine] : Comparisons(rates)) {
      row(part.name, Median(part.seconds), part.bytes,
          fmt::format("{:.0f}% of {}", 100 * part.bytes_per_second() / machine.bytes_per_second(),
                      machine.name));
    }
    row("together", rates.seconds_per_step(), rates.bytes_per_step(), "");
    row("read", Median(rates.read.seconds), rates.read.bytes, "what memory does");
    row("copy", Median(rates.copy.seconds), rates.copy.bytes, "what memory does");
    return fmt::format("{} parameters\n{}, {} threads\n\n", WithCommas(parameters),
                       backend.description(), Threads()) +
           RenderTable({"pass", ">ms", ">bytes", ">GB/s", "share"}, rows);
  }

  static Json ToJson(const MemoryPass& pass) {
    return {{"name", pass.name},
            {"seconds", Median(pass.seconds)},
            {"seconds_min", Percentile(pass.seconds, 0)},
            {"bytes", pass.bytes},
            {"bytes_per_second", pass.bytes_per_second()}};
  }

  static std::string AsJson(const Backend& backend, int64_t parameters,
                            const OptimizerRates& rates) {
    Json passes = Json::array();
    for (const auto& [part, machine] : Comparisons(rates)) {
      Json pass = ToJson(part);
      pass["of"] = machine.name;
      pass["share"] = part.bytes_per_second() / machine.bytes_per_second();
      passes.push_back(std::move(pass));
    }
    const Json json = {{"schema", 1},
                       {"parameters", parameters},
                       {"backend", backend.name()},
                       {"backend_description", backend.description()},
                       {"simd", SimdTarget()},
                       {"threads", Threads()},
                       {"seconds_per_step", rates.seconds_per_step()},
                       {"bytes_per_step", rates.bytes_per_step()},
                       {"bytes_per_second", rates.bytes_per_step() / rates.seconds_per_step()},
                       {"passes", passes},
                       {"machine", Json::array({ToJson(rates.read), ToJson(rates.copy)})}};
    return json.dump(2) + "\n";
  }

  ModelSettings settings_{std::vector<std::string>{"--threads", "--backend"}};
  int64_t parameters_ = 0;
  double seconds_ = 1;
  SimdFlag simd_;
};

}  // namespace

std::unique_ptr<Command> NewBenchOptimizerCommand() {
  return std::make_unique<BenchOptimizerCommand>();
}

}  // namespace folio
