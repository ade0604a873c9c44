#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "folio/apps/commands.h"
#include "folio/apps/model_settings.h"
#include "folio/apps/table.h"
#include "folio/base/strings.h"
#include "folio/train/learner.h"

namespace folio {
namespace {

using Json = nlohmann::ordered_json;

// Bytes of the buffers that live from step to step, by kind, and what a step takes beside them.
struct PlanTotals {
  size_t weights = 0, gradients = 0, optimizer = 0;
  size_t activations = 0;           // of the arena: buffers whose lives do not meet share memory
  size_t activations_unshared = 0;  // all of them side by side
};

PlanTotals TotalsOf(const MemoryPlan& plan) {
  PlanTotals totals;
  for (const MemoryPlan::Buffer& buffer : plan.buffers()) {
    if (buffer.name == "weights") {
      totals.weights += buffer.bytes;
    } else if (buffer.name == "gradients") {
      totals.gradients += buffer.bytes;
    } else if (buffer.name.starts_with("adamw.")) {
      totals.optimizer += buffer.bytes;
    } else {
      totals.activations_unshared += buffer.bytes;
    }
  }
  totals.activations = plan.arena_bytes() - totals.weights - totals.gradients - totals.optimizer;
  return totals;
}

class InspectPlanCommand final : public Command {
 public:
  CommandInfo info() const override {
    return {.name = "inspect plan",
            .summary = "list every buffer of a training step, and the memory it takes",
            .group = "inspect",
            .details =
                "A buffer lives from its first to its last tick, the steps of one pass forward\n"
                "and backward; buffers that never live together share memory. Nothing is\n"
                "allocated.",
            .examples = {"folio inspect plan --preset gpt2 --batch 4 --context 64",
                         "folio inspect plan --model runs/demo --json"}};
  }

  void AddFlags(Flags& flags) override { settings_.AddFlags(flags); }

  int Run(const Context& context) override {
    settings_.Read(context.sources);
    const RunConfig& config = settings_.config();
    const int64_t B = config.train.batch_size, T = settings_.Context();
    const MemoryPlan plan = Learner::Plan(config.model, B, T, Dtype::kF32);
    context.console.Result(context.console.json() ? AsJson(plan, B, T) : AsText(plan, B, T));
    return 0;
  }

 private:
  static std::string AsText(const MemoryPlan& plan, int64_t B, int64_t T) {
    std::vector<std::vector<std::string>> rows;
    for (const MemoryPlan::Buffer& buffer : plan.buffers()) {
      const bool always = buffer.last_tick == MemoryPlan::kAlways;
      rows.push_back({buffer.name, std::string(DtypeName(buffer.dtype)), buffer.shape.ToString(),
                      WithCommas(static_cast<int64_t>(buffer.bytes)),
                      fmt::format("{}", buffer.first_tick),
                      always ? "end" : fmt::format("{}", buffer.last_tick),
                      WithCommas(static_cast<int64_t>(buffer.offset))});
    }
    const PlanTotals totals = TotalsOf(plan);
    std::string text =
        RenderTable({"buffer", "dtype", "shape", ">bytes", ">first", ">last", ">offset"}, rows);
    const auto line = [&](const char* name, size_t bytes) {
      text += fmt::format("{:<12} {:>9}\n", name, HumanBytes(static_cast<double>(bytes)));
    };
    text += fmt::format("\nbatch        {} x {} tokens\n", B, T);
    line("weights", totals.weights);
    line("gradients", totals.gradients);
    line("optimizer", totals.optimizer);
    line("activations", totals.activations);
    line("peak", plan.arena_bytes());
    return text;
  }

  static std::string AsJson(const MemoryPlan& plan, int64_t B, int64_t T) {
    Json buffers = Json::array();
    for (const MemoryPlan::Buffer& buffer : plan.buffers()) {
      const bool always = buffer.last_tick == MemoryPlan::kAlways;
      buffers.push_back({{"name", buffer.name},
                         {"dtype", DtypeName(buffer.dtype)},
                         {"shape", buffer.shape.dims()},
                         {"bytes", buffer.bytes},
                         {"first_tick", buffer.first_tick},
                         {"last_tick", always ? Json(nullptr) : Json(buffer.last_tick)},
                         {"offset", buffer.offset}});
    }
    const PlanTotals totals = TotalsOf(plan);
    const Json json = {{"schema", 1},
                       {"batch", B},
                       {"context", T},
                       {"peak_bytes", plan.arena_bytes()},
                       {"weights_bytes", totals.weights},
                       {"gradients_bytes", totals.gradients},
                       {"optimizer_bytes", totals.optimizer},
                       {"activations_bytes", totals.activations},
                       {"activations_unshared_bytes", totals.activations_unshared},
                       {"buffers", buffers}};
    return json.dump(2) + "\n";
  }

  ModelSettings settings_{std::vector<std::string>{"--batch", "--context"}};
};

}  // namespace

std::unique_ptr<Command> NewInspectPlanCommand() {
  return std::make_unique<InspectPlanCommand>();
}

}  // namespace folio
