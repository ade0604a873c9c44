#include <algorithm>

#include "folio/commands/commands.h"
#include "folio/commands/model_flags.h"
#include "folio/model/shard.h"
#include "folio/run/preview.h"
#include "folio/train/precision.h"
#include "folio/train/ranks.h"

namespace folio {
namespace {

class InspectPlanCommand final : public Command {
 public:
  CommandInfo info() const override {
    return {.name = "inspect plan",
            .summary = "list every buffer of a training step, and the memory it takes",
            .group = "inspect",
            .details =
                "A buffer lives from its first to its last tick, the steps of one pass forward\n"
                "and backward; buffers that never live together share memory. Nothing is\n"
                "allocated.",
            .examples = {"folio inspect plan --preset gpt2 --batch 4 --context 64",
                         "folio inspect plan --model runs/demo --json",
                         "folio inspect plan --preset gpt2 --batch 4 --ranks 8"}};
  }

  void AddFlags(Flags& flags) override {
    settings_.AddFlags(flags);
    flags.Value(Field{"ranks", &ranks_,
                      "of so many ranks, what the first one keeps; they divide the micro-batches",
                      1, 1 << 20},
                {.placeholder = "N"});
  }

  int Run(const Context& context) override {
    settings_.Read(context.sources);
    TrainConfig train = settings_.config().train;
    train.grad_accumulation =
        std::max(ranks_ / train.tensor_parallel * train.reduce_every, train.grad_accumulation);
    const GptConfig& model = settings_.config().model;
    train.Validate("settings");
    RequireTensorParallelRanks(train, static_cast<int>(ranks_));
    RequireShards(model, train.lora, train.tensor_parallel);
    const TrainShape shape =
        ShapeOf(model, train, settings_.Context(),
                PassOptionsOf(train, model, *MakeBackend(train.backend)), static_cast<int>(ranks_));
    context.console.Result(DescribeBuffers(shape, context.console.json()));
    return 0;
  }

 private:
  ModelSettings settings_{std::vector<std::string>{
      "--batch", "--context", "--dtype", "--recompute", "--backend", "--lora",
      "--grad-accumulation", "--reduce-every", "--reduce-dtype", "--tensor-parallel"}};
  int64_t ranks_ = 1;
};

}  // namespace

std::unique_ptr<Command> NewInspectPlanCommand() {
  return std::make_unique<InspectPlanCommand>();
}

}  // namespace folio
