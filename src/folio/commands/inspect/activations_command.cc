#include <optional>
#include <string>
#include <vector>

#include "folio/commands/commands.h"
#include "folio/commands/inspect/inspect_input.h"
#include "folio/inspect/activation_stats.h"
#include "folio/term/signals.h"

namespace folio {
namespace {

class InspectActivationsCommand final : public Command {
 public:
  CommandInfo info() const override {
    return {
        .name = "inspect activations",
        .summary = "see how large a model's activations are, and which stand out",
        .group = "inspect",
        .details =
            "For each point of each block, over all positions of the text: root mean square,\n"
            "mean, deviation and largest value; the median length of the rows, and the longest\n"
            "with its position; kurtosis (3 for a normal distribution), how many values are\n"
            "more than 6 deviations from the mean, and the units of the feed-forward layer that\n"
            "are off at every position (dead on this text). Below it the farthest values.\n\n"
            "Points, in order: embedded (tokens and positions), ln_1, qkv, heads (before\n"
            "c_proj), attention (what joins the stream), middle (the stream after it), ln_2,\n"
            "up (before the activation), activated, mlp (what joins the stream), output (the\n"
            "stream after the block), final (after the last norm).\n\n"
            "--svg draws the lengths of the rows over the layers; with --layer the root mean\n"
            "squares of that layer's points.",
        .examples = {"folio inspect activations --model runs/demo --text \"the cat sat\"",
                     "folio inspect activations -m runs/demo --file a.txt --tail --layer 2",
                     "folio inspect activations -m runs/demo --file a.txt --svg norms.svg",
                     "folio inspect activations -m runs/demo --text abc --json"}};
  }

  void AddFlags(Flags& flags) override {
    model_.AddModel(flags);
    model_.AddCompute(flags);
    text_.Add(flags);
    flags.Value(Field{"layer", &layer_, "only this layer, from 0", 0, 1e6});
    flags.Value(Field{"svg", &svg_, "draw a figure"}, {.placeholder = "FILE"});
    page_.Add(flags);
  }

  int Run(const Context& context) override {
    CatchSignals();
    CheckFigureFile(svg_);
    page_.Check(context.console);
    const OpenedModel model = model_.Open();
    CheckIndex("layer", layer_, model.weights->config().n_layer);
    const ModelText text = ReadOneText(model, text_, "inspect activations");
    const Trace trace(*model.backend, *model.weights, text.ids, Trace::AllPoints(), text.mask);
    ThrowIfStopRequested();
    std::vector<ActivationStats> stats = ActivationStatistics(trace);
    if (layer_) {
      std::erase_if(
          stats, [&](const ActivationStats& one) { return one.layer != *layer_ || one.outside(); });
    }
    const TokenNames names(model, context.console.out());
    // Before stdout: its reader may go away.
    if (!svg_.empty())
      WriteFigure(context.console, svg_,
                  layer_ ? LayerActivationsSvg(stats) : ActivationCurvesSvg(stats));
    if (page_.given())
      page_.Write(context.console, ActivationsHtml(stats, text, TokenNames(model.tokenizer.get()),
                                                   layer_.has_value()));
    if (context.console.json()) {
      context.console.Result(ActivationsJson(stats, text, names));
    } else if (!page_.given()) {
      context.console.Result(ActivationsText(stats, text, names, context.console.out()));
    }
    return 0;
  }

 private:
  ModelFlags model_;
  TextFlags text_;
  std::optional<int64_t> layer_;
  std::string svg_;
  PageFlag page_;
};

}  // namespace

std::unique_ptr<Command> NewInspectActivationsCommand() {
  return std::make_unique<InspectActivationsCommand>();
}

}  // namespace folio
