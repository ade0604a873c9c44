#include <string>

#include "folio/commands/commands.h"
#include "folio/commands/eval/eval_flags.h"
#include "folio/eval/cloze.h"
#include "folio/io/guarded_directory.h"
#include "folio/term/signals.h"

namespace folio {
namespace {

class EvalClozeCommand final : public Command {
 public:
  CommandInfo info() const override {
    return {.name = "eval cloze",
            .summary = "measure how often a model chooses the right ending",
            .group = "model",
            .details =
                "Each line of FILE is a question of multiple choice, as HellaSwag has them:\n"
                "{\"ctx\":\"...\",\"endings\":[\"...\",...],\"label\":0}, or with \"query\",\n"
                "\"choices\" and \"gold\". Context and ending, with a space between, are encoded\n"
                "together, and the tokens of the ending are scored. acc chooses the ending with\n"
                "the largest sum of ln p, acc_norm that for each of its characters (both are\n"
                "lm-eval's), acc_token that for each of its tokens (llm.c's acc_norm).\n"
                "\n"
                "--text hellaswag writes the items of HellaSwag's files as lm-eval does: with the\n"
                "activity before them and without what is in brackets. With --out a line is\n"
                "written for each item, and a call that was interrupted goes on where it stopped.",
            .examples = {"folio eval cloze --model gpt2 hellaswag_val.jsonl",
                         "folio eval cloze -m gpt2 hellaswag_val.jsonl --text hellaswag "
                         "--out items.jsonl"}};
  }

  void AddFlags(Flags& flags) override {
    flags.Positional(Field{"FILE", &file_, "JSON lines; - for standard input"}, {.required = true});
    AddModelFlag(flags, &open_.model, true);
    AddAdapterFlag(flags, &open_.adapter);
    flags.Value(Field{"text", &text_, "how contexts and endings are written"}.Choices(
        {"plain", "hellaswag"}));
    flags.Value(Field{"batch", &batch_,
                      "as many tokens run at once as so many windows of the model's context have; "
                      "0 for about 2048",
                      0, 1e6});
    flags.Value(Field{"out", &out_, "write a line for each item"}, {.placeholder = "FILE"});
    open_.Add(flags);
  }

  int Run(const Context& context) override {
    RequireFileName("--out", out_);
    CatchSignals();
    Group& group = open_.Use(context.console, "folio eval cloze");
    const OpenedModel model = open_.Open();
    model.RequireTokenizer(", or name it with --tokenizer");
    RequireSameModel(group, model, out_);
    const ClozeOptions options{
        .text = text_ == "hellaswag" ? ClozeText::kHellaSwag : ClozeText::kAsIs,
        .positions = BatchPositions(batch_, model.weights->config().n_positions),
        .out = out_,
        .group = &group};
    if (!group.first()) {
      MeasureCloze(model, file_, options);
      return 0;
    }
    const GuardedDirectory inside(open_.model);  // a run's own files lead nowhere
    MeasureReport report(context, /*max_tokens=*/false);
    const ClozeResult result = MeasureCloze(model, file_, options, report.hooks());
    report.Finish();
    context.console.Result(DescribeCloze(model, file_, result, context.console.json()));
    return 0;
  }

 private:
  std::string file_, text_ = "plain", out_;
  int64_t batch_ = 0;
  OpenFlags open_;
};

}  // namespace

std::unique_ptr<Command> NewEvalClozeCommand() {
  return std::make_unique<EvalClozeCommand>();
}

}  // namespace folio
