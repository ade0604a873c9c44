#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "folio/apps/bench_train.h"
#include "folio/apps/commands.h"
#include "folio/apps/model_settings.h"
#include "folio/apps/percentile.h"
#include "folio/base/parallel.h"
#include "folio/base/strings.h"

namespace folio {
namespace {

using Json = nlohmann::ordered_json;

// The result as it is told.
struct Figures {
  explicit Figures(const BenchTrainOptions& options, const BenchTrainResult& result)
      : median(Percentile(result.step_seconds, 0.5)),
        fastest(Percentile(result.step_seconds, 0)),
        p90(Percentile(result.step_seconds, 0.9)),
        tokens_per_second(static_cast<double>(options.train.batch_size * options.T) / median),
        flops_per_second(result.flops_per_step / median),
        peak_share(flops_per_second / result.matmul_flops_per_second) {}

  double median, fastest, p90;  // seconds of a step
  double tokens_per_second, flops_per_second;
  double peak_share;  // of the measured matrix-product rate
};

class BenchTrainCommand final : public Command {
 public:
  CommandInfo info() const override {
    return {.name = "bench train",
            .summary = "measure how fast a model trains on this machine",
            .group = "set-up",
            .details =
                "Takes whole training steps on random tokens and compares their arithmetic with\n"
                "the fastest matrix products of this machine.",
            .examples = {"folio bench train --preset char-cpu --batch 12 --context 64",
                         "folio bench train --preset gpt2 --batch 4 --context 64 --json",
                         "folio bench train --preset char-cpu --ops"}};
  }

  void AddFlags(Flags& flags) override {
    settings_.AddFlags(flags);
    flags.Value(Field{"steps", &steps_, "measure at least so many steps", 1, 1e9});
    flags.Value(Field{"seconds", &seconds_, "and at least so long", 0, 1e6});
    flags.Switch("--ops", &ops_, "show where the time goes, operation by operation");
  }

  int Run(const Context& context) override {
    settings_.Read(context.sources);
    const TrainConfig& train = settings_.config().train;
    const BenchTrainOptions options{.model = settings_.config().model,
                                    .train = train,
                                    .T = settings_.Context(),
                                    .steps = steps_,
                                    .seconds = seconds_};
    if (train.threads > 0) SetThreads(static_cast<int>(train.threads));
    std::unique_ptr<Backend> backend = MakeBackend(train.backend);
    const std::string description = backend->description();
    TimedBackend* timed = nullptr;
    if (ops_) {
      auto timing = std::make_unique<TimedBackend>(std::move(backend));
      timed = timing.get();
      backend = std::move(timing);
    }
    context.console.Note(fmt::format("measuring {} with batches of {} x {} tokens",
                                     settings_.name(), train.batch_size, options.T));
    const BenchTrainResult result = BenchTrain(*backend, options, timed);
    context.console.Result(context.console.json() ? AsJson(options, result, description)
                                                  : AsText(options, result, description));
    return 0;
  }

 private:
  std::string AsText(const BenchTrainOptions& options, const BenchTrainResult& result,
                     const std::string& description) const {
    const Figures f(options, result);
    std::string text = fmt::format(
        "model       {}, {} parameters\n"
        "batch       {} x {} tokens\n"
        "backend     {}: {}, {} threads\n"
        "steps       {}\n"
        "step        {:.3f} ms (fastest {:.3f}, 90% below {:.3f})\n"
        "speed       {} tokens/s\n"
        "arithmetic  {:.1f} GFLOP/s, {:.0f}% of the {:.1f} of matrix products\n"
        "memory      {}\n",
        settings_.name(), WithCommas(result.parameters), options.train.batch_size, options.T,
        options.train.backend, description, Threads(), result.step_seconds.size(), f.median * 1e3,
        f.fastest * 1e3, f.p90 * 1e3, WithCommas(static_cast<int64_t>(f.tokens_per_second)),
        f.flops_per_second / 1e9, f.peak_share * 100, result.matmul_flops_per_second / 1e9,
        HumanBytes(static_cast<double>(result.peak_memory_bytes)));
    if (ops_) text += "\n" + TimesTable(result.ops);
    return text;
  }

  std::string AsJson(const BenchTrainOptions& options, const BenchTrainResult& result,
                     const std::string& description) const {
    const Figures f(options, result);
    Json json = {{"schema", 1},
                 {"model", settings_.name()},
                 {"parameters", result.parameters},
                 {"batch", options.train.batch_size},
                 {"context", options.T},
                 {"dtype", options.train.dtype},
                 {"backend", options.train.backend},
                 {"backend_description", description},
                 {"threads", Threads()},
                 {"steps", result.step_seconds.size()},
                 {"tokens_per_second", f.tokens_per_second},
                 {"seconds_per_step", f.median},
                 {"seconds_per_step_min", f.fastest},
                 {"seconds_per_step_p90", f.p90},
                 {"flops_per_step", result.flops_per_step},
                 {"flops_formula", kFlopsFormula},
                 {"flops_per_second", f.flops_per_second},
                 {"matmul_flops_per_second", result.matmul_flops_per_second},
                 {"peak_share", f.peak_share},
                 {"peak_memory_bytes", result.peak_memory_bytes},
                 {"last_loss", result.last_loss}};
    if (ops_) {
      json["ops"] = Json::array();
      for (const OpTime& op : result.ops) {
        json["ops"].push_back({{"name", op.name},
                               {"calls", op.calls},
                               {"seconds", op.seconds},
                               {"flops", op.flops},
                               {"bytes", op.bytes}});
      }
    }
    return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
  }

  ModelSettings settings_{
      std::vector<std::string>{"--batch", "--context", "--dtype", "--threads", "--backend"}};
  int64_t steps_ = 10;
  double seconds_ = 5;
  bool ops_ = false;
};

}  // namespace

std::unique_ptr<Command> NewBenchTrainCommand() {
  return std::make_unique<BenchTrainCommand>();
}

}  // namespace folio
