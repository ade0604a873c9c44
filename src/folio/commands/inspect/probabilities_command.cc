#include <cmath>
#include <nlohmann/json.hpp>
#include <numbers>
#include <string>
#include <vector>

#include "folio/base/error.h"
#include "folio/commands/commands.h"
#include "folio/commands/inspect/inspect_input.h"
#include "folio/inspect/figures.h"
#include "folio/inspect/probabilities.h"
#include "folio/inspect/trace.h"
#include "folio/term/signals.h"

namespace folio {
namespace {

using Json = nlohmann::ordered_json;

ForeseenText Foresee(const OpenedModel& model, ModelText text, int64_t top) {
  const TracePoint points[] = {TracePoint::kOutput};
  const Trace trace(*model.backend, *model.weights, text.ids, points);
  ForeseenText seen{.text = std::move(text), .scores = ScoreTokens(trace, top)};
  seen.vocab_size = model.weights->config().vocab_size;
  const TokenNames names(model.tokenizer.get());
  double bytes = 0;
  for (const TokenScore& score : seen.scores) {
    seen.surprise += score.surprise;
    seen.entropy += score.entropy;
    bytes += static_cast<double>(names.Bytes(score.id).size());
  }
  if (bytes > 0) seen.bits_per_byte = seen.surprise / std::numbers::ln2 / bytes;
  seen.surprise /= static_cast<double>(seen.scores.size());
  seen.entropy /= static_cast<double>(seen.scores.size());
  return seen;
}

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
                "bold too. Then perplexity, and bits for each byte of the tokens foreseen.",
            .examples = {"folio inspect probabilities --model runs/demo --text \"the cat sat\"",
                         "folio inspect probabilities -m runs/demo --file a.txt --tail --svg a.svg",
                         "folio inspect probabilities -m runs/demo --file - --json < a.txt"}};
  }

  void AddFlags(Flags& flags) override {
    model_.Add(flags);
    text_.Add(flags);
    flags.Value(Field{"top", &top_, "likeliest tokens to list", 1, 1e6});
    flags.Value(
        Field{"by", &by_, "what colours the text"}.Choices({"rank", "probability", "entropy"}));
    flags.Value(Field{"svg", &svg_, "draw the coloured text"}, {.placeholder = "FILE"});
  }

  int Run(const Context& context) override {
    CatchSignals();
    CheckFigureFile(svg_);
    const OpenedModel model = OpenModel(model_);
    ModelText text = ReadOneText(model, text_, "inspect probabilities");
    RequireTwoTokens(text, "the first token is not foreseen by anything");
    const ForeseenText seen = Foresee(model, std::move(text), top_);
    const Terminal& out = context.console.out();
    const TokenNames names(model, out);
    // Before stdout: its reader may go away.
    if (!svg_.empty()) {
      WriteFigure(context.console, svg_, ForeseenSvg(seen, by_, TokenNames(model.tokenizer.get())));
    }
    context.console.Result(context.console.json() ? AsJson(seen, names)
                                                  : ForeseenTerminalText(seen, by_, names, out));
    return 0;
  }

 private:
  static std::string AsJson(const ForeseenText& seen, const TokenNames& names) {
    Json json = {{"schema", 1},
                 {"left_out", seen.text.left_out},
                 {"first", Json::parse(names.Json(seen.text.ids[0]))},
                 {"tokens", seen.text.ids.size()},
                 {"perplexity", std::exp(seen.surprise)},
                 {"surprise", seen.surprise},
                 {"entropy", seen.entropy},
                 {"bits_per_byte", nullptr},
                 {"ranks", Json::object()},
                 {"scores", Json::array()}};
    if (seen.bits_per_byte > 0) json["bits_per_byte"] = seen.bits_per_byte;
    const std::vector<int64_t> counts = RankClasses(seen);
    for (int c = 0; c < kRankClasses; ++c) {
      json["ranks"][RankClassName(c)] = counts[static_cast<size_t>(c)];
    }
    for (size_t i = 0; i < seen.scores.size(); ++i) {
      const TokenScore& score = seen.scores[i];
      Json entry = {{"position", i + 1}};
      entry.update(Json::parse(names.Json(score.id)));
      entry["probability"] = score.probability;
      entry["surprise"] = score.surprise;
      entry["rank"] = score.rank + 1;
      entry["entropy"] = score.entropy;
      entry["top"] = Json::array();
      for (const TokenProbability& one : score.top) {
        Json other = Json::parse(names.Json(one.id));
        other["probability"] = one.probability;
        entry["top"].push_back(std::move(other));
      }
      json["scores"].push_back(std::move(entry));
    }
    return json.dump() + "\n";
  }

  ModelFlags model_;
  TextFlags text_;
  int64_t top_ = 5;
  std::string by_ = "rank", svg_;
};

}  // namespace

std::unique_ptr<Command> NewInspectProbabilitiesCommand() {
  return std::make_unique<InspectProbabilitiesCommand>();
}

}  // namespace folio
