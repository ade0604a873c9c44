#include <fmt/format.h>

#include <algorithm>

#include "folio/base/thread_pool.h"
#include "folio/bench/describe.h"
#include "folio/bench/training.h"
#include "folio/cli/program.h"
#include "folio/commands/commands.h"
#include "folio/commands/model_flags.h"
#include "folio/train/precision.h"
#include "folio/train/ranks.h"

namespace folio {
namespace {

class BenchTrainCommand final : public Command {
 public:
  CommandInfo info() const override {
    return {.name = "bench train",
            .summary = "measure how fast a model trains on this machine",
            .group = "set-up",
            .details =
                "Takes whole training steps on random tokens and compares their arithmetic with\n"
                "the fastest matrix products of this machine in the same dtype. A step is one\n"
                "micro-batch for each rank, whatever a preset says, unless --grad-accumulation\n"
                "says more. With --recompute\n"
                "its steps take turns with those of the same model without, and with --lora with "
                "those\n"
                "of full fine-tuning, if both fit into\n"
                "memory. With --batches one size follows the other, and \"more\" is what each "
                "plans above\n"
                "the first. Under mpirun ranks share the micro-batches of a step "
                "(--grad-accumulation),\n"
                "and the first one says what their messages took.",
            .examples = {"folio bench train --preset char-cpu --batch 12 --context 64",
                         "folio bench train --preset gpt2 --batch 4 --dtype bf16 --json",
                         "folio bench train --preset gpt2 --batches 1,2,4,8 --steps 3",
                         "folio bench train --preset gpt2 --batch 2 --context 256 --lora 8",
                         "folio bench train --preset char-cpu --ops",
                         "mpirun -n 2 folio bench train --preset gpt2 --batch 4 --context 256 "
                         "--grad-accumulation 2"}};
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
    Group& group = JoinRanks(context.console, "folio bench train");
    const TrainConfig train = Train(group);
    RequireShares(train, group.size());
    UseThreads(train.threads);
    simd_.Use();
    RequireSameSimd(group);
    std::unique_ptr<Backend> backend = MakeBackend(train.backend);
    const Backend& plain = *backend;
    TimedBackend* timed = nullptr;
    if (ops_) {
      auto timing = std::make_unique<TimedBackend>(std::move(backend));
      timed = timing.get();
      backend = std::move(timing);
    }
    const std::vector<BenchTrainOptions> options = Options(train, *backend, group);
    std::vector<BenchTrainResult> results;
    for (const BenchTrainOptions& each : options) {
      if (group.first())
        context.console.Note(fmt::format("measuring {} with batches of {} x {} tokens",
                                         settings_.name(), each.train.batch_size, each.T));
      results.push_back(BenchTrain(*backend, each, timed));
    }
    if (!group.first()) return 0;
    context.console.Result(DescribeTraining(settings_.name(), plain, options, results,
                                            !batches_.empty(), context.console.json()));
    return 0;
  }

 private:
  // With a micro-batch for each rank, or as many in a row as are sent together, if nobody said how
  // many: a preset's would take minutes to measure what one shows.
  TrainConfig Train(const Group& group) const {
    TrainConfig train = settings_.config().train;
    if (!settings_.told("train.grad_accumulation")) {
      train.grad_accumulation =
          std::max<int64_t>(1, group.size() / train.tensor_parallel) * train.reduce_every;
    }
    return train;
  }

  // One for each batch size.
  std::vector<BenchTrainOptions> Options(const TrainConfig& train, const Backend& backend,
                                         Group& group) const {
    const GptConfig& model = settings_.config().model;
    BenchTrainOptions options{.model = model,
                              .train = train,
                              .T = settings_.Context(),
                              .pass = PassOptionsOf(train, model, backend),
                              .steps = steps_,
                              .seconds = seconds_,
                              .group = group.alone() ? nullptr : &group};
    if (batches_.empty()) return {options};
    std::vector<BenchTrainOptions> all;
    for (const int64_t B : ParseBatches(batches_, "--batches")) {
      options.train.batch_size = B;
      all.push_back(options);
    }
    return all;
  }

  ModelSettings settings_{std::vector<std::string>{
      "--batch", "--context", "--dtype", "--recompute", "--threads", "--backend", "--lora",
      "--grad-accumulation", "--reduce-every", "--reduce-dtype", "--tensor-parallel"}};
  std::string batches_;
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
