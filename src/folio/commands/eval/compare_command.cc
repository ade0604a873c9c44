#include <algorithm>
#include <string>
#include <vector>

#include "folio/commands/commands.h"
#include "folio/commands/eval/eval_flags.h"
#include "folio/eval/compare.h"
#include "folio/term/signals.h"

namespace folio {
namespace {

class EvalCompareCommand final : public Command {
 public:
  CommandInfo info() const override {
    return {
        .name = "eval compare",
        .summary = "measure how far one model's predictions are from another's",
        .group = "model",
        .details =
            "Both models, of one vocabulary, read the same windows of the texts (see folio eval\n"
            "perplexity). Over all predicted tokens: mean, quantiles and largest of KL(A||B),\n"
            "which is what B's predictions miss of A's, in nats; how often their likeliest\n"
            "token is the same; both perplexities and B's divided by A's; and by how much\n"
            "ln p of the right token differs in the mean. --max-tokens reads the beginning of a\n"
            "large text alone.",
        .examples = {"folio eval compare runs/tour tour-q8.gguf stories.txt",
                     "folio eval compare runs/tour runs/tour --dtype-b int4 stories.txt",
                     "folio eval compare gpt2 gpt2 --adapter-b my-adapter stories.txt"}};
  }

  void AddFlags(Flags& flags) override {
    flags.Positional(Field{"MODEL-A", &model_a_, "a run, a model directory or a model file"},
                     {.required = true});
    flags.Positional(Field{"MODEL-B", &model_b_, "what is compared with it"}, {.required = true});
    flags.Positionals("FILE", &files_,
                      "texts or data, or directories of such; - for standard input",
                      {.required = true});
    windows_.Add(flags);
    open_.Add(flags);
    flags.Value(Field{"adapter", &adapter_a_, "an adapter (LoRA) to add to the weights of MODEL-A"},
                {.placeholder = "DIR"});
    flags.Value(Field{"adapter-b", &adapter_b_, "one for MODEL-B"}, {.placeholder = "DIR"});
    flags.Value(Field{"dtype-b", &dtype_b_, "of MODEL-B, if not --dtype"}, {.placeholder = "NAME"});
  }

  int Run(const Context& context) override {
    CatchSignals();
    Group& group = open_.Use(context.console, "folio eval compare");
    const OpenedModel a = open_.Open(model_a_, adapter_a_);
    if (!dtype_b_.empty()) open_.dtype = dtype_b_;
    const OpenedModel b = open_.Open(model_b_, adapter_b_);
    RequireComparable(a, b);
    const ReadingOptions reading = windows_.Options(
        std::min(a.weights->config().n_positions, b.weights->config().n_positions));
    RequireSameModel(group, a, "A");
    RequireSameModel(group, b, "B");
    if (!group.first()) {
      CompareModels(a, b, {}, reading, {}, &group);
      return 0;
    }
    const auto texts =
        FindTexts(files_, windows_.texts(), a.tokenizer || !b.tokenizer ? a : b, context.console);
    MeasureReport report(context, /*max_tokens=*/true);
    const ModelComparison comparison = CompareModels(a, b, texts, reading, report.hooks(), &group);
    report.Finish();
    context.console.Result(
        DescribeComparison(a, b, comparison, reading.shape, context.console.json()));
    return 0;
  }

 private:
  std::string model_a_, model_b_, adapter_a_, adapter_b_, dtype_b_;
  std::vector<std::string> files_;
  WindowFlags windows_;
  OpenFlags open_;
};

}  // namespace

std::unique_ptr<Command> NewEvalCompareCommand() {
  return std::make_unique<EvalCompareCommand>();
}

}  // namespace folio
