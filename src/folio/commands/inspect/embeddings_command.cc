#include <fmt/format.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "folio/base/error.h"
#include "folio/base/strings.h"
#include "folio/commands/commands.h"
#include "folio/commands/inspect/inspect_input.h"
#include "folio/inspect/embeddings.h"
#include "folio/term/signals.h"

namespace folio {
namespace {

class InspectEmbeddingsCommand final : public Command {
 public:
  CommandInfo info() const override {
    return {
        .name = "inspect embeddings",
        .summary = "see which tokens a model takes for alike",
        .group = "inspect",
        .details =
            "Prints how long the embeddings of tokens and positions are, and how much of the\n"
            "tokens' variance lies in its first two principal components. With --token or --id\n"
            "the tokens nearest to that one by cosine, else the longest and the shortest.\n\n"
            "--svg makes a directory with tokens.svg (--points tokens, evenly over the ids, in\n"
            "these two components, coloured by what they look like, and the density of all), "
            "positions.svg (the cosine of each pair of positions),\n"
            "norms.svg, and with a token neighbours.svg.",
        .examples = {"folio inspect embeddings --model runs/demo",
                     "folio inspect embeddings -m runs/demo --token \" the\" --top 20",
                     "folio inspect embeddings -m runs/demo --id 262 --json",
                     "folio inspect embeddings -m runs/demo --svg embeddings --points 500"}};
  }

  void AddFlags(Flags& flags) override {
    model_.AddModel(flags);
    model_.AddCompute(flags);
    flags.List("--token", &tokens_, "the token whose neighbours to list, as text",
               {.placeholder = "TEXT"});
    flags.Value(Field{"id", &id_, "the same, by its number", 0, 2147483647.0});
    flags.Value(Field{"top", &top_, "length of the lists", 1, 1e6});
    flags.Value(Field{"points", &points_, "tokens with names in the projection", 1, 1e6});
    flags.Value(Field{"svg", &svg_, "draw the figures into a directory"}, {.placeholder = "DIR"});
    page_.Add(flags);
  }

  int Run(const Context& context) override {
    CatchSignals();
    CheckFigureDirectory(svg_);
    page_.Check(context.console);
    RefuseTogether(!tokens_.empty() && id_.has_value(), "--token", "--id");
    const OpenedModel model = model_.Open();
    const std::optional<int32_t> token = ChosenToken(model);
    const EmbeddingsView view = InspectEmbeddings(model, token, top_, points_, [&] {
      context.console.SetStatus(fmt::format("principal components of {} tokens",
                                            WithCommas(model.weights->config().vocab_size)));
      ThrowIfStopRequested();
    });
    context.console.SetStatus("");
    const Terminal& out = context.console.out();
    const TokenNames names(model, out);
    // Before stdout: its reader may go away.
    if (!svg_.empty()) Draw(context.console, model, view);
    if (page_.given())
      page_.Write(context.console,
                  EmbeddingsHtml(view, *model.weights, TokenNames(model.tokenizer.get())));
    if (context.console.json()) {
      context.console.Result(EmbeddingsJson(view, names));
    } else if (!page_.given()) {
      context.console.Result(EmbeddingsTerminalText(view, names, out));
    }
    return 0;
  }

 private:
  std::optional<int32_t> ChosenToken(const OpenedModel& model) const {
    const int64_t V = model.weights->config().vocab_size;
    if (id_ && *id_ >= V) {
      throw UsageError(fmt::format("--id {}: there is no such token", *id_),
                       fmt::format("the model's tokens are 0 to {}", V - 1));
    }
    if (id_) return static_cast<int32_t>(*id_);
    if (tokens_.empty()) return std::nullopt;
    const std::string& text = tokens_.back();
    const std::vector<int32_t> ids =
        model.RequireTokenizer().Encode(text, "--token", SpecialRule::Allow());
    if (ids.size() == 1) return ids.front();
    std::string list;
    for (const std::string& shown : TokenNames(model.tokenizer.get()).Shown(ids)) {
      list += " " + shown;
    }
    if (ids.empty()) throw UsageError("--token: the text is empty", {}, "give a token's text");
    throw UsageError(fmt::format("--token '{}': {} tokens, not one", text, ids.size()),
                     "they are" + list, "give one of them, or a token's number with --id");
  }

  void Draw(Console& console, const OpenedModel& model, const EmbeddingsView& view) const {
    const std::filesystem::path dir(svg_);
    const TokenNames names(model.tokenizer.get());
    WriteFigure(console, dir / "tokens.svg", ProjectionSvg(view, names));
    WriteFigure(console, dir / "positions.svg", PositionsSvg(*model.weights));
    WriteFigure(console, dir / "norms.svg", NormsSvg(view));
    if (view.token) {
      WriteFigure(console, dir / "neighbours.svg", NeighboursSvg(*view.token, names));
    }
  }

  ModelFlags model_;
  std::vector<std::string> tokens_;
  std::optional<int64_t> id_;
  int64_t top_ = 10, points_ = 300;
  std::string svg_;
  PageFlag page_;
};

}  // namespace

std::unique_ptr<Command> NewInspectEmbeddingsCommand() {
  return std::make_unique<InspectEmbeddingsCommand>();
}

}  // namespace folio
