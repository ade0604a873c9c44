#include "folio/commands/commands.h"
#include "folio/commands/model_settings.h"
#include "folio/inspect/parameters.h"

namespace folio {
namespace {

class InspectModelCommand final : public Command {
 public:
  CommandInfo info() const override {
    return {.name = "inspect model",
            .summary = "say what a model is, and list its parameters",
            .group = "inspect",
            .details =
                "Layers, heads, channels, context, vocabulary, whether the head is tied, where the "
                "norms\n"
                "are and the activation; then each parameter with its shape and first values.\n"
                "Nothing is allocated, so models of any size can be looked at.",
            .examples = {"folio inspect model --preset gpt2-xl",
                         "folio inspect model --model runs/demo --json",
                         "folio inspect model --set model.n_layer=3 --set model.n_inner=1000"}};
  }

  void AddFlags(Flags& flags) override { settings_.AddFlags(flags); }

  int Run(const Context& context) override {
    settings_.Read(context.sources);
    context.console.Result(DescribeParameters(settings_.config().model, context.console.json()));
    return 0;
  }

 private:
  ModelSettings settings_;
};

}  // namespace

std::unique_ptr<Command> NewInspectModelCommand() {
  return std::make_unique<InspectModelCommand>();
}

}  // namespace folio
