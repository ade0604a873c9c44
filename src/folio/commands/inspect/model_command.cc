#include <fmt/format.h>

#include <cmath>

#include "folio/base/strings.h"
#include "folio/commands/commands.h"
#include "folio/commands/model_settings.h"
#include "folio/io/json.h"
#include "folio/model/config_json.h"
#include "folio/model/params.h"
#include "folio/term/table.h"

namespace folio {
namespace {

constexpr int64_t kBytesOfFloat = 4;

struct Total {
  int64_t tensors = 0, parameters = 0;
};

Total TotalOf(const ParamTable& table, bool decay) {
  Total total;
  for (const ParamInfo& info : table.params()) {
    if (info.decay != decay) continue;
    ++total.tensors;
    total.parameters += info.shape.count();
  }
  return total;
}

// "normal(0, 0.02)", "xavier_uniform", "zero", "one".
std::string InitText(InitKind init, const GptConfig& config) {
  if (init == InitKind::kZero) return "zero";
  if (init == InitKind::kOne) return "one";
  const bool residual = init == InitKind::kResidualWeight;
  const double scale = residual ? 1 / std::sqrt(2.0 * static_cast<double>(config.n_layer)) : 1;
  if (config.init == "normal") {
    return fmt::format("normal(0, {:.4g})", config.initializer_range * scale);
  }
  return residual ? fmt::format("xavier_uniform * {:.4g}", scale) : "xavier_uniform";
}

class InspectModelCommand final : public Command {
 public:
  CommandInfo info() const override {
    return {.name = "inspect model",
            .summary = "list the parameters of a model, and their number",
            .group = "inspect",
            .details = "Nothing is allocated, so models of any size can be looked at.",
            .examples = {"folio inspect model --preset gpt2-xl",
                         "folio inspect model --model runs/demo --json",
                         "folio inspect model --set model.n_layer=3 --set model.n_inner=1000"}};
  }

  void AddFlags(Flags& flags) override { settings_.AddFlags(flags); }

  int Run(const Context& context) override {
    settings_.Read(context.sources);
    const GptConfig& config = settings_.config().model;
    const ParamTable table(config);
    context.console.Result(context.console.json() ? AsJson(config, table) : AsText(config, table));
    return 0;
  }

 private:
  static std::string AsText(const GptConfig& config, const ParamTable& table) {
    std::vector<std::vector<std::string>> rows;
    for (const ParamInfo& info : table.params()) {
      rows.push_back({info.name, info.shape.ToString(), WithCommas(info.shape.count()),
                      InitText(info.init, config), info.decay ? "yes" : "no"});
    }
    const Total decayed = TotalOf(table, true), rest = TotalOf(table, false);
    const int64_t N = table.parameters();
    std::string text = RenderTable({"name", "shape", ">count", "init", "decay"}, rows);
    text += fmt::format("\nparameters   {} in {} tensors\n", WithCommas(N), table.params().size());
    text += fmt::format("decayed      {} in {} tensors\n", WithCommas(decayed.parameters),
                        decayed.tensors);
    text +=
        fmt::format("not decayed  {} in {} tensors\n", WithCommas(rest.parameters), rest.tensors);
    text += fmt::format("as float32   {}\n", HumanBytes(static_cast<double>(N * kBytesOfFloat)));
    return text;
  }

  static std::string AsJson(const GptConfig& config, const ParamTable& table) {
    Json tensors = Json::array();
    for (const ParamInfo& info : table.params()) {
      tensors.push_back({{"name", info.name},
                         {"shape", info.shape.dims()},
                         {"count", info.shape.count()},
                         {"init", InitText(info.init, config)},
                         {"decay", info.decay}});
    }
    const auto total = [&](bool decay) {
      const Total sum = TotalOf(table, decay);
      return Json{{"tensors", sum.tensors}, {"parameters", sum.parameters}};
    };
    const Json json = {{"schema", 1},
                       {"parameters", table.parameters()},
                       {"bytes", table.parameters() * kBytesOfFloat},
                       {"decayed", total(true)},
                       {"not_decayed", total(false)},
                       {"config", ParseJson(GptConfigToJson(config), "config.json")},
                       {"tensors", tensors}};
    return json.dump(2) + "\n";
  }

  ModelSettings settings_{std::vector<std::string>{}};
};

}  // namespace

std::unique_ptr<Command> NewInspectModelCommand() {
  return std::make_unique<InspectModelCommand>();
}

}  // namespace folio
