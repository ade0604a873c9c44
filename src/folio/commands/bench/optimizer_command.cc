#include "folio/base/machine.h"
#include "folio/bench/describe.h"
#include "folio/bench/optimizer.h"
#include "folio/commands/commands.h"
#include "folio/commands/model_flags.h"
#include "folio/model/params.h"

namespace folio {
namespace {

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
    const int64_t parameters = parameters_ > 0
                                   ? parameters_
                                   : ParamTable(settings_.config().model, train.lora).flat_size();
    RequireMemory("this benchmark", OptimizerBytes(parameters),
                  parameters_ > 0 ? "lower --parameters" : "choose a smaller model");
    const std::unique_ptr<Backend> backend = MakeBackend(train.backend);
    const OptimizerRates rates = MeasureOptimizer(*backend, parameters, seconds_);
    context.console.Result(DescribeOptimizer(*backend, parameters, rates, context.console.json()));
    return 0;
  }

 private:
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
