#include <algorithm>
#include <string>

#include "folio/commands/commands.h"
#include "folio/commands/inspect/inspect_input.h"
#include "folio/inspect/lens.h"
#include "folio/term/signals.h"

namespace folio {
namespace {

class InspectLensCommand final : public Command {
 public:
  CommandInfo info() const override {
    return {.name = "inspect lens",
            .summary = "see what a model would predict after each of its blocks",
            .group = "inspect",
            .details =
                "The logit lens: the stream of each position after the embedding and after each\n"
                "block goes through the last norm and the head, as if the model ended there. A\n"
                "cell has the likeliest next token and its probability; the last row is the\n"
                "model's prediction. Of a single position also: the divergence of the final\n"
                "prediction from this one (KL, in nats), the rank here of the token that is\n"
                "first at the end, the entropy in nats, and the --top likeliest tokens.\n\n"
                "--positions counts tokens from 0; negative numbers count from the end, -1 is\n"
                "the last. Without it all are shown, of a long text the last 32.",
            .examples = {"folio inspect lens --model runs/demo --text \"Once upon a\"",
                         "folio inspect lens -m runs/demo --text \"Once upon a\" --positions=-1",
                         "folio inspect lens -m runs/demo --file a.txt --positions 3,7 --json",
                         "folio inspect lens -m runs/demo --file a.txt --tail --svg lens.svg"}};
  }

  void AddFlags(Flags& flags) override {
    model_.AddModel(flags);
    model_.AddCompute(flags);
    text_.Add(flags);
    flags.Value(Field{"positions", &positions_, "which tokens to look at"},
                {.placeholder = "LIST|all"});
    flags.Value(Field{"top", &top_, "likeliest tokens to list", 1, 1e6});
    flags.Value(Field{"svg", &svg_, "draw the table"}, {.placeholder = "FILE"});
    page_.Add(flags);
  }

  int Run(const Context& context) override {
    CatchSignals();
    CheckFigureFile(svg_);
    page_.Check(context.console);
    const OpenedModel model = model_.Open();
    LensView view{.text = ReadOneText(model, text_, "inspect lens"), .positions = {}, .cells = {}};
    view.positions = ParsePositions(positions_, static_cast<int64_t>(view.text.ids.size()));
    view.layers = model.weights->config().n_layer + 1;
    Look(context, model, view);
    const Terminal& out = context.console.out();
    // Before stdout: its reader may go away.
    if (!svg_.empty()) {
      WriteFigure(context.console, svg_, LensSvg(view, TokenNames(model.tokenizer.get())));
    }
    if (page_.given())
      page_.Write(context.console, LensHtml(view, TokenNames(model.tokenizer.get())));
    if (context.console.json()) {
      context.console.Result(LensJson(view, TokenNames(model, out)));
    } else if (!page_.given()) {
      context.console.Result(LensTerminalText(view, TokenNames(model, out), out));
    }
    return 0;
  }

 private:
  void Look(const Context& context, const OpenedModel& model, LensView& view) const {
    constexpr size_t kAtOnce = 64;
    const Trace trace(*model.backend, *model.weights, view.text.ids,
                      {TracePoint::kEmbedded, TracePoint::kOutput}, view.text.mask);
    Progress progress(context.console, context.progress_mode);
    ProgressState state;
    state.unit = "position";
    state.total = static_cast<int64_t>(view.positions.size());
    for (size_t i = 0; i < view.positions.size(); i += kAtOnce) {
      ThrowIfStopRequested();
      const auto some =
          std::span(view.positions).subspan(i, std::min(kAtOnce, view.positions.size() - i));
      for (LensCell& cell : LogitLens(trace, some, top_)) view.cells.push_back(std::move(cell));
      state.done += static_cast<int64_t>(some.size());
      progress.Show(state);
    }
  }

  ModelFlags model_;
  TextFlags text_;
  std::string positions_, svg_;
  int64_t top_ = 5;
  PageFlag page_;
};

}  // namespace

std::unique_ptr<Command> NewInspectLensCommand() {
  return std::make_unique<InspectLensCommand>();
}

}  // namespace folio
