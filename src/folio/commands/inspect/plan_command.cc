#include <fmt/format.h>

#include "folio/base/strings.h"
#include "folio/commands/commands.h"
#include "folio/commands/model_settings.h"
#include "folio/io/json.h"
#include "folio/term/table.h"
#include "folio/train/learner.h"
#include "folio/train/plan_totals.h"
#include "folio/train/precision.h"

namespace folio {
namespace {

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
    const PassOptions options =
        PassOptionsOf(config.train, config.model, *MakeBackend(config.train.backend));
    const MemoryPlan plan = Learner::Plan(config.model, B, T, options);
    context.console.Result(context.console.json() ? AsJson(plan, B, T, options)
                                                  : AsText(plan, B, T, options));
    return 0;
  }

 private:
  static std::string AsText(const MemoryPlan& plan, int64_t B, int64_t T,
                            const PassOptions& options) {
    std::vector<std::vector<std::string>> rows;
    for (const MemoryPlan::Buffer& buffer : plan.buffers()) {
      const bool always = buffer.last_tick == MemoryPlan::kAlways;
      rows.push_back({buffer.name, std::string(DtypeName(buffer.dtype)), buffer.shape.ToString(),
                      WithCommas(static_cast<int64_t>(buffer.bytes)),
                      fmt::format("{}", buffer.first_tick),
                      always ? "end" : fmt::format("{}", buffer.last_tick),
                      WithCommas(static_cast<int64_t>(buffer.offset))});
    }
    const PlanTotals totals(plan);
    std::string text =
        RenderTable({"buffer", "dtype", "shape", ">bytes", ">first", ">last", ">offset"}, rows);
    const auto line = [&](const char* name, size_t bytes) {
      text += fmt::format("{:<12} {:>9}\n", name, HumanBytes(static_cast<double>(bytes)));
    };
    text += fmt::format("\nbatch        {} x {} tokens, {}{}\n", B, T,
                        TrainDtypeName(options.dtype), options.recompute ? ", recomputed" : "");
    line("weights", totals.weights);
    line("gradients", totals.gradients);
    line("optimizer", totals.optimizer);
    line("activations", totals.activations);
    line("  logits", totals.logits);
    line("peak", plan.arena_bytes());
    return text;
  }

  static std::string AsJson(const MemoryPlan& plan, int64_t B, int64_t T,
                            const PassOptions& options) {
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
    const PlanTotals totals(plan);
    const Json json = {{"schema", 1},
                       {"batch", B},
                       {"context", T},
                       {"dtype", TrainDtypeName(options.dtype)},
                       {"recompute", options.recompute},
                       {"peak_bytes", plan.arena_bytes()},
                       {"weights_bytes", totals.weights},
                       {"gradients_bytes", totals.gradients},
                       {"optimizer_bytes", totals.optimizer},
                       {"activations_bytes", totals.activations},
                       {"logits_bytes", totals.logits},
                       {"activations_unshared_bytes", totals.activations_unshared},
                       {"buffers", buffers}};
    return json.dump(2) + "\n";
  }

  ModelSettings settings_{
      std::vector<std::string>{"--batch", "--context", "--dtype", "--recompute", "--backend"}};
};

}  // namespace

std::unique_ptr<Command> NewInspectPlanCommand() {
  return std::make_unique<InspectPlanCommand>();
}

}  // namespace folio
