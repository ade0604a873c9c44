#include <fmt/format.h>

#include <string>
#include <vector>

#include "folio/base/error.h"
#include "folio/commands/commands.h"
#include "folio/commands/inspect/inspect_input.h"
#include "folio/inspect/attention.h"
#include "folio/term/signals.h"

namespace folio {
namespace {

class InspectAttentionCommand final : public Command {
 public:
  CommandInfo info() const override {
    return {
        .name = "inspect attention",
        .summary = "see what each head of a model attends to",
        .group = "inspect",
        .details =
            "Prints the scores of each head: the entropy of its weights in nats, the mean\n"
            "distance in tokens from query to key, and the mean weight on the first token, the\n"
            "token before, the query itself, earlier occurrences of its token (duplicate) and\n"
            "the tokens that followed those (induction). --layer looks at one layer; with\n"
            "--head too the map is printed, queries down, keys across. --json has the weights\n"
            "of the heads that --layer and --head choose, rows are queries.\n\n"
            "--svg draws: without --layer all heads, a row for each layer; with --layer its\n"
            "heads; with --head too one large map. Several texts (repeat --text or --file) with\n"
            "--layer are one figure, a row for each text; otherwise --svg is a directory that\n"
            "gets text-1.svg, text-2.svg and so on.\n\n"
            "Attention weights say where a head looks, not why the model answers as it does.",
        .examples = {
            "folio inspect attention --model runs/demo --text \"the cat and the dog\"",
            "folio inspect attention -m runs/demo --text \"Once upon\" --layer 1 --head 0",
            "folio inspect attention -m runs/demo --file a.txt --svg heads.svg --sort previous",
            "folio inspect attention -m runs/demo --text one --text two --layer 0 --svg both.svg",
            "folio inspect attention -m runs/demo --text abc --layer 0 --json"}};
  }

  void AddFlags(Flags& flags) override {
    model_.AddModel(flags);
    model_.AddCompute(flags);
    text_.Add(flags);
    flags.Value(Field{"layer", &view_.layer, "only this layer, from 0", 0, 1e6});
    flags.Value(Field{"head", &view_.head, "only this head of the layer, from 0", 0, 1e6});
    std::vector<std::string> orders = ScoreNames();
    orders.insert(orders.begin(), "layer");
    flags.Value(Field{"sort", &view_.sort, "order of the heads: the largest first"}.Choices(orders),
                {.placeholder = "SCORE"});
    flags.Value(Field{"svg", &svg_, "draw a figure"}, {.placeholder = "FILE|DIR"});
    page_.Add(flags);
    flags.Value(
        Field{"scale", &scale_, "how a weight becomes colour"}.Choices({"linear", "sqrt", "log"}));
    flags.Switch("--per-row", &view_.per_row, "the largest weight of each query is full colour");
    flags.Switch("--first-aside", &view_.first_aside,
                 "draw without the first token's share, the rest made to sum to 1");
  }

  int Run(const Context& context) override {
    CatchSignals();
    if (view_.head && !view_.layer) {
      throw UsageError("--head needs --layer", {}, "say whose head: --layer 0");
    }
    page_.Check(context.console);
    if (FigurePerText()) {
      CheckFigureDirectory(svg_);
    } else {
      CheckFigureFile(svg_);
    }
    view_.scale = scale_ == "linear" ? HeatScale::kLinear
                  : scale_ == "log"  ? HeatScale::kLog
                                     : HeatScale::kSqrt;
    const OpenedModel model = model_.Open();
    const GptConfig& config = model.weights->config();
    CheckIndex("layer", view_.layer, config.n_layer);
    CheckIndex("head", view_.head, config.n_head);
    const std::vector<AttentionText> texts = Look(context, model);
    const TokenNames shown(model, context.console.out());
    // Before stdout: its reader may go away.
    if (!svg_.empty()) Draw(context.console, texts, model);
    if (page_.given())
      page_.Write(context.console,
                  AttentionHtml(texts, view_, TokenNames(model.tokenizer.get()), config.n_head));
    if (context.console.json()) {
      context.console.Result(AttentionJson(texts, view_, config, shown));
    } else if (!page_.given()) {
      context.console.Result(AttentionTerminalText(texts, view_, shown, context.console.out()));
    }
    return 0;
  }

 private:
  // Returns true where --svg is a directory: for several texts, and not one layer of them.
  bool FigurePerText() const {
    const size_t count = text_.texts.size() + text_.files.size() + text_.ids.size();
    return count > 1 && (!view_.layer || view_.head);
  }

  std::vector<AttentionText> Look(const Context& context, const OpenedModel& model) {
    const GptConfig& config = model.weights->config();
    const std::vector<ModelText> inputs = ReadTexts(model, text_);
    if (view_.first_aside) {
      for (const ModelText& text : inputs) RequireTwoTokens(text, "--first-aside leaves nothing");
    }
    view_.maps = view_.head || !svg_.empty() || page_.given();
    view_.weights = view_.layer && context.console.json();
    Progress progress(context.console, context.progress_mode);
    ProgressState state;
    state.unit = "head";
    state.total = config.n_layer * config.n_head * static_cast<int64_t>(inputs.size());
    std::vector<AttentionText> texts;
    for (const ModelText& input : inputs) {
      texts.push_back(InspectHeads(model, input, view_, [&] {
        ThrowIfStopRequested();
        ++state.done;
        progress.Show(state);
      }));
    }
    return texts;
  }

  void Draw(Console& console, const std::vector<AttentionText>& texts, const OpenedModel& model) {
    const TokenNames names(model.tokenizer.get());
    const int64_t H = model.weights->config().n_head;
    if (texts.size() == 1) {
      WriteFigure(console, svg_, AttentionSvg(texts.front(), view_, names, H));
    } else if (!FigurePerText()) {
      WriteFigure(console, svg_, AttentionBatchSvg(texts, view_, names));
    } else {
      for (size_t i = 0; i < texts.size(); ++i) {
        WriteFigure(console, std::filesystem::path(svg_) / fmt::format("text-{}.svg", i + 1),
                    AttentionSvg(texts[i], view_, names, H));
      }
    }
  }

  ModelFlags model_;
  TextFlags text_;
  AttentionView view_;
  std::string svg_, scale_ = "sqrt";
  PageFlag page_;
};

}  // namespace

std::unique_ptr<Command> NewInspectAttentionCommand() {
  return std::make_unique<InspectAttentionCommand>();
}

}  // namespace folio
