#include <string>

#include "folio/commands/commands.h"
#include "folio/commands/model_flags.h"
#include "folio/inspect/describe_model.h"
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
                "are and the activation; then each parameter with its shape. Of a model that lies\n"
                "somewhere, in whatever format, also the tokenizer and how each tensor is stored;\n"
                "what folio cannot run is listed with the reason. Of a preset or of settings, how\n"
                "each parameter begins. Nothing is allocated, so models of any size can be looked "
                "at.",
            .examples = {"folio inspect model runs/demo", "folio inspect model gpt2.gguf --json",
                         "folio inspect model --preset gpt2-xl",
                         "folio inspect model --set model.n_layer=3 --set model.n_inner=1000"}};
  }

  void AddFlags(Flags& flags) override {
    flags.Positional(Field{"MODEL", &path_, "a run, a model directory or a model file"});
    settings_.AddFlags(flags);
    AddAdapterFlag(flags, &adapter_);
  }

  int Run(const Context& context) override {
    settings_.SetPath(path_);
    settings_.Resolve(context.sources);
    RequireModelFor(adapter_, settings_.path());
    const bool json = context.console.json();
    const auto& [model, train, data, log] = settings_.config();
    context.console.Result(settings_.path().empty()
                               ? DescribeParameters(ParamTable(model, train.lora), json)
                               : DescribeModel(settings_.path(), adapter_, json));
    return 0;
  }

 private:
  std::string path_, adapter_;
  ModelSettings settings_;
};

}  // namespace

std::unique_ptr<Command> NewInspectModelCommand() {
  return std::make_unique<InspectModelCommand>();
}

}  // namespace folio
