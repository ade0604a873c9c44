#include <string>
#include <vector>

#include "folio/commands/commands.h"
#include "folio/commands/eval/eval_flags.h"
#include "folio/io/guarded_directory.h"
#include "folio/term/signals.h"

namespace folio {
namespace {

class EvalPerplexityCommand final : public Command {
 public:
  CommandInfo info() const override {
    return {
        .name = "eval perplexity",
        .summary = "measure how well a model predicts texts of any length",
        .group = "model",
        .details =
            "Texts are what folio data prepare takes for such, and data directories, of which\n"
            "the held-out part is read. Every token but the first of a document is predicted\n"
            "once: a window of --context tokens goes over the text in steps of --stride, and\n"
            "behind the first window each token has at least context - stride before it. A\n"
            "stride of the context measures as training does; a shorter one lowers the\n"
            "number, as models are quoted.\n"
            "\n"
            "nats/token is the mean of -ln p, perplexity its exponential, bits/byte the sum in\n"
            "bits for each byte of the predicted tokens, and word perplexity lm-eval's: the\n"
            "sum for each word of the text, between white space. With --csv a row is written\n"
            "for each token, and a call that was interrupted goes on where it stopped.",
        .examples = {"folio eval perplexity --model runs/tour stories.txt",
                     "folio eval perplexity -m gpt2 wikitext/ --stride 512 --csv tokens.csv",
                     "folio eval perplexity -m runs/tour data/stories --stride 256 --json"}};
  }

  void AddFlags(Flags& flags) override {
    flags.Positionals("FILE", &files_,
                      "texts or data, or directories of such; - for standard input",
                      {.required = true});
    AddModelFlag(flags, &open_.model, true);
    AddAdapterFlag(flags, &open_.adapter);
    windows_.Add(flags);
    flags.Value(Field{"csv", &csv_, "write a row for each token"}, {.placeholder = "FILE"});
    open_.Add(flags);
  }

  int Run(const Context& context) override {
    RequireFileName("--csv", csv_);
    CatchSignals();
    Group& group = open_.Use(context.console, "folio eval perplexity");
    const OpenedModel model = open_.Open();
    const ReadingOptions reading = windows_.Options(model.weights->config().n_positions);
    RequireSameModel(group, model, csv_);
    const PerplexityOptions options{.reading = reading, .csv = csv_, .group = &group};
    if (!group.first()) {
      MeasurePerplexity(model, {}, options);
      return 0;
    }
    const auto texts = FindTexts(files_, windows_.texts(), model, context.console);
    MeasureReport report(context, /*max_tokens=*/true);
    const GuardedDirectory inside(open_.model);  // a run's own files lead nowhere
    const auto measured = MeasurePerplexity(model, texts, options, report.hooks());
    report.Finish();
    context.console.Result(
        DescribePerplexity(model, measured, reading.shape, context.console.json()));
    return 0;
  }

 private:
  std::vector<std::string> files_;
  std::string csv_;
  WindowFlags windows_;
  OpenFlags open_;
};

}  // namespace

std::unique_ptr<Command> NewEvalPerplexityCommand() {
  return std::make_unique<EvalPerplexityCommand>();
}

}  // namespace folio
