#include "folio/commands/commands.h"
#include "folio/commands/model_settings.h"
#include "folio/run/preview.h"
#include "folio/train/precision.h"

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
                         "folio inspect plan --model runs/demo --json"}};
  }

  void AddFlags(Flags& flags) override { settings_.AddFlags(flags); }

  int Run(const Context& context) override {
    settings_.Read(context.sources);
    const TrainConfig& train = settings_.config().train;
    const GptConfig& model = settings_.config().model;
    const TrainShape shape = {.model = model,
                              .B = train.batch_size,
                              .T = settings_.Context(),
                              .options = PassOptionsOf(train, model, *MakeBackend(train.backend))};
    context.console.Result(DescribeBuffers(shape, context.console.json()));
    return 0;
  }

 private:
  ModelSettings settings_{std::vector<std::string>{"--batch", "--context", "--dtype", "--recompute",
                                                   "--backend", "--lora"}};
};

}  // namespace

std::unique_ptr<Command> NewInspectPlanCommand() {
  return std::make_unique<InspectPlanCommand>();
}

}  // namespace folio
