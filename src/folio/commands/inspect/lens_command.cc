#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>
#include <vector>

#include "folio/base/error.h"
#include "folio/base/strings.h"
#include "folio/commands/commands.h"
#include "folio/commands/inspect/inspect_input.h"
#include "folio/inspect/figures.h"
#include "folio/inspect/lens_view.h"
#include "folio/term/signals.h"

namespace folio {
namespace {

using Json = nlohmann::ordered_json;

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
    model_.Add(flags);
    text_.Add(flags);
    flags.Value(Field{"positions", &positions_, "which tokens to look at"},
                {.placeholder = "LIST|all"});
    flags.Value(Field{"top", &top_, "likeliest tokens to list", 1, 1e6});
    flags.Value(Field{"svg", &svg_, "draw the table"}, {.placeholder = "FILE"});
  }

  int Run(const Context& context) override {
    CatchSignals();
    CheckFigureFile(svg_);
    const OpenedModel model = OpenModel(model_);
    LensView view{.text = ReadOneText(model, text_, "inspect lens"), .positions = {}, .cells = {}};
    view.positions = ParsePositions(positions_, static_cast<int64_t>(view.text.ids.size()));
    view.layers = model.weights->config().n_layer + 1;
    Look(context, model, view);
    const Terminal& out = context.console.out();
    // Before stdout: its reader may go away.
    if (!svg_.empty()) {
      WriteFigure(context.console, svg_, LensSvg(view, TokenNames(model.tokenizer.get())));
    }
    context.console.Result(context.console.json()
                               ? AsJson(view, TokenNames(model, out))
                               : LensTerminalText(view, TokenNames(model, out), out));
    return 0;
  }

 private:
  void Look(const Context& context, const OpenedModel& model, LensView& view) const {
    constexpr size_t kAtOnce = 64;
    const TracePoint points[] = {TracePoint::kEmbedded, TracePoint::kOutput};
    const Trace trace(*model.backend, *model.weights, view.text.ids, points);
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

  static std::string AsJson(const LensView& view, const TokenNames& names) {
    Json json = {{"schema", 1},
                 {"left_out", view.text.left_out},
                 {"tokens", Json::parse(names.Json(view.text.ids))},
                 {"positions", Json::array()}};
    for (size_t i = 0; i < view.positions.size(); ++i) {
      Json layers = Json::array();
      for (int64_t layer = 0; layer < view.layers; ++layer) {
        const LensCell& cell = view.Cell(i, layer);
        Json top = Json::array();
        for (const TokenProbability& one : cell.top) {
          Json entry = Json::parse(names.Json(one.id));
          entry["probability"] = one.probability;
          top.push_back(std::move(entry));
        }
        layers.push_back({{"layer", layer},
                          {"kl", cell.kl},
                          {"final_rank", cell.final_rank + 1},
                          {"entropy", cell.entropy},
                          {"top", std::move(top)}});
      }
      json["positions"].push_back({{"position", view.positions[i]}, {"layers", std::move(layers)}});
    }
    return json.dump() + "\n";
  }

  ModelFlags model_;
  TextFlags text_;
  std::string positions_, svg_;
  int64_t top_ = 5;
};

}  // namespace

std::vector<int64_t> ParsePositions(const std::string& list, int64_t T) {
  std::vector<int64_t> positions;
  if (list.empty() || list == "all") {
    const int64_t first = list.empty() ? std::max<int64_t>(T - kDefaultPositions, 0) : 0;
    positions.resize(static_cast<size_t>(T - first));
    std::iota(positions.begin(), positions.end(), first);
    return positions;
  }
  for (const std::string& part : Split(list, ',')) {
    int64_t position = 0;
    const auto [end, problem] = std::from_chars(part.data(), part.data() + part.size(), position);
    if (problem != std::errc() || end != part.data() + part.size() || position < -T ||
        position >= T) {
      throw UsageError(
          fmt::format("--positions: '{}' is no position of the text", part),
          fmt::format("it has {} tokens: 0 to {}, or -{} to -1 from the end", T, T - 1, T),
          "write numbers with commas between them, or all");
    }
    if (position < 0) position += T;
    if (std::ranges::find(positions, position) == positions.end()) positions.push_back(position);
  }
  return positions;
}

std::unique_ptr<Command> NewInspectLensCommand() {
  return std::make_unique<InspectLensCommand>();
}

}  // namespace folio
