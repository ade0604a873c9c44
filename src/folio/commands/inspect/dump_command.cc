#include <fmt/format.h>

#include "folio/commands/commands.h"
#include "folio/commands/model_flags.h"
#include "folio/run/dump.h"

namespace folio {
namespace {

class InspectDumpCommand final : public Command {
 public:
  CommandInfo info() const override {
    return {.name = "inspect dump",
            .summary = "write logits, gradients and AdamW steps, to compare with others",
            .group = "inspect",
            .details =
                "Takes integers `batches` [K,B,T+1] or `tokens` [B,T+1] and writes, for the first\n"
                "batch, logits, loss, grad.<parameter>, trace.attn.<layer> and\n"
                "trace.hidden.<layer>; with --adamw-steps also losses, grad_norms and\n"
                "after.<parameter>. Nothing is dropped out.",
            .examples = {"folio inspect dump --model runs/demo --batch batch.safetensors --out "
                         "dump.safetensors",
                         "folio inspect dump --model DIR --batch FILE --out OUT --adamw-steps 8 "
                         "--backend reference"}};
  }

  void AddFlags(Flags& flags) override {
    AddModelFlag(flags, &model_, /*required=*/true);
    AddAdapterFlag(flags, &adapter_);
    flags.Value(Field{"batch", &batch_, "safetensors file with the tokens"},
                {.placeholder = "FILE", .required = true});
    flags.Value(Field{"out", &out_, "safetensors file to write"}.WithFlag("-o,--out"),
                {.placeholder = "OUT", .required = true});
    AddBackendFlag(flags, &options_.backend);
    compute_.Add(flags);
    flags.Group("AdamW");
    flags.Value(Field{"adamw-steps", &options_.adamw_steps, "steps, one on each batch", 0, 1e9});
    flags.Value(Field{"lr", &options_.lr, "learning rate", 0, 1e3});
    flags.Value(Field{"beta1", &options_.optimizer.beta1, "memory of the gradient", 0, 0.999999});
    flags.Value(
        Field{"beta2", &options_.optimizer.beta2, "memory of the squared gradient", 0, 0.99999999});
    flags.Value(Field{"eps", &options_.optimizer.eps, "epsilon", 0, 1});
    flags.Value(Field{"weight-decay", &options_.optimizer.weight_decay,
                      "of tensors of two or more dimensions", 0, 1e3});
    flags.Value(Field{"clip", &options_.clip, "longest gradient; 0 for no limit", 0, 1e9});
  }

  int Run(const Context& context) override {
    compute_.Use();
    options_.model = model_;
    options_.adapter = adapter_;
    options_.batch = batch_;
    options_.out = out_;
    const DumpResult result = WriteDump(options_);
    context.console.Result(DescribeDump(options_, result, context.console.json()));
    context.console.Note(fmt::format("wrote {} ({} tensors)", out_, result.tensors));
    return 0;
  }

 private:
  std::string model_, adapter_, batch_, out_;
  ComputeFlags compute_;
  DumpOptions options_;
};

}  // namespace

std::unique_ptr<Command> NewInspectDumpCommand() {
  return std::make_unique<InspectDumpCommand>();
}

}  // namespace folio
