#include <string>

#include "folio/commands/commands.h"
#include "folio/commands/inspect/inspect_input.h"
#include "folio/inspect/probabilities.h"
#include "folio/term/signals.h"

namespace folio {
namespace {

class InspectProbabilitiesCommand final : public Command {
 public:
  CommandInfo info() const override {
    return {.name = "inspect probabilities",
            .summary = "see how well a model foresees each token of a text",
            .group = "inspect",
            .details =
                "For each token but the first: the probability that the model gave it after all\n"
                "before it, its rank (1 is the likeliest), its surprise (-ln probability) and\n"
                "the entropy of the prediction, in nats, and the --top likeliest tokens. On a\n"
                "terminal with colour the text itself is shown too, as GLTR does: coloured by\n"
                "the rank up to 10, 100, 1000 and beyond, from 11 on underlined, from 101 on\n"
                "bold too. Then perplexity, and bits for each byte of the tokens foreseen.\n"
                "\n"
                "A text that is longer than the model's context is seen in windows that begin\n"
                "every half of it, as folio eval perplexity does: each token has at least half a\n"
                "context before it, where there is that much. --tail takes the end alone.",
            .examples = {"folio inspect probabilities --model runs/demo --text \"the cat sat\"",
                         "folio inspect probabilities -m runs/demo --file a.txt --tail --svg a.svg",
                         "folio inspect probabilities -m runs/demo --file - --json < a.txt"}};
  }

  void AddFlags(Flags& flags) override {
    model_.AddModel(flags);
    model_.AddCompute(flags);
    text_.Add(flags);
    flags.Value(Field{"top", &top_, "likeliest tokens to list", 1, 1e6});
    flags.Value(
        Field{"by", &by_, "what colours the text"}.Choices({"rank", "probability", "entropy"}));
    flags.Value(Field{"svg", &svg_, "draw the coloured text"}, {.placeholder = "FILE"});
    page_.Add(flags);
  }

  int Run(const Context& context) override {
    CatchSignals();
    CheckFigureFile(svg_);
    page_.Check(context.console);
    const OpenedModel model = model_.Open();
    ModelText text = ReadOneText(model, text_, "inspect probabilities", TextLength::kAny);
    RequireTwoTokens(text, "the first token is not foreseen by anything");
    const TokenScores scores = ScoreTokens(model, std::move(text), top_);
    const Terminal& out = context.console.out();
    const TokenNames names(model, out);
    // Before stdout: its reader may go away.
    if (!svg_.empty()) {
      WriteFigure(context.console, svg_,
                  TokenScoresSvg(scores, by_, TokenNames(model.tokenizer.get())));
    }
    if (page_.given())
      page_.Write(context.console, TokenScoresHtml(scores, by_, TokenNames(model.tokenizer.get())));
    if (context.console.json()) {
      context.console.Result(TokenScoresJson(scores, names));
    } else if (!page_.given()) {
      context.console.Result(TokenScoresTerminalText(scores, by_, names, out));
    }
    return 0;
  }

 private:
  ModelFlags model_;
  TextFlags text_;
  int64_t top_ = 5;
  std::string by_ = "rank", svg_;
  PageFlag page_;
};

}  // namespace

std::unique_ptr<Command> NewInspectProbabilitiesCommand() {
  return std::make_unique<InspectProbabilitiesCommand>();
}

}  // namespace folio
