#include <fmt/format.h>

#include "folio/base/machine.h"
#include "folio/base/percentile.h"
#include "folio/base/simd_targets.h"
#include "folio/base/strings.h"
#include "folio/base/thread_pool.h"
#include "folio/bench/attention.h"
#include "folio/bench/dtypes.h"
#include "folio/cli/compute_flags.h"
#include "folio/commands/commands.h"
#include "folio/io/json.h"
#include "folio/term/table.h"
#include "folio/train/precision.h"

namespace folio {
namespace {

Json ToJson(const AttentionTiming& timing) {
  return {{"seconds", Median(timing.seconds)},
          {"seconds_min", Percentile(timing.seconds, 0)},
          {"flops", timing.flops},
          {"flops_per_second", timing.flops_per_second()}};
}

class BenchAttentionCommand final : public Command {
 public:
  CommandInfo info() const override {
    return {
        .name = "bench attention",
        .summary = "measure attention, forward and backward",
        .group = "set-up",
        .details =
            "Causal self-attention on random numbers. Arithmetic is counted where the mask\n"
            "lets through; memory is all arrays that a model plans for it, which grow as T\n"
            "does. Without --context it goes through T = 64 to 2048.",
        .examples = {"folio bench attention", "folio bench attention --dtype bf16 --dropout 0.2",
                     "folio bench attention --batch 4 --context 1024 --json"}};
  }

  void AddFlags(Flags& flags) override {
    flags.Value(Field{"batch", &shape_.B, "sequences", 1, 1 << 20});
    flags.Value(Field{"context", &context_, "tokens in a sequence; 0 for several", 0, 1 << 20});
    flags.Value(Field{"heads", &shape_.H, "heads", 1, 1 << 16});
    flags.Value(Field{"head-size", &shape_.D, "channels of a head", 1, 1 << 16});
    flags.Value(Field{"dropout", &shape_.dropout, "part of the weights that is dropped", 0, 0.99});
    flags.Value(Field{"dtype", &dtype_, "number format; both: all that the backend has"}.Choices(
        {"fp32", "bf16", "both"}));
    flags.Value(Field{"seconds", &seconds_, "measure each at least so long", 0, 1e6});
    AddBackendFlag(flags, &backend_);
    compute_.Add(flags);
  }

  int Run(const Context& context) override {
    compute_.Use();
    const std::unique_ptr<Backend> backend = MakeBackend(backend_);
    std::vector<int64_t> contexts = {64, 128, 256, 512, 1024, 2048};
    if (context_ > 0) contexts = {context_};
    std::vector<AttentionRate> rates;
    for (const Dtype dtype : DtypesNamed(dtype_, *backend)) {
      for (const int64_t T : contexts) {
        shape_.T = T;
        shape_.dtype = dtype;
        RequireMemory("this benchmark", AttentionBytes(shape_),
                      "lower --batch, --context, --heads or --head-size");
        rates.push_back(MeasureAttention(*backend, shape_, seconds_));
      }
    }
    context.console.Result(context.console.json() ? AsJson(*backend, rates)
                                                  : AsText(*backend, rates));
    return 0;
  }

 private:
  std::string AsText(const Backend& backend, const std::vector<AttentionRate>& rates) const {
    std::vector<std::vector<std::string>> rows;
    for (const AttentionRate& rate : rates) {
      const double tokens = static_cast<double>(rate.shape.B * rate.shape.T);
      rows.push_back({TrainDtypeName(rate.shape.dtype), fmt::format("{}", rate.shape.T),
                      fmt::format("{:.3f}", Median(rate.forward.seconds) * 1e3),
                      fmt::format("{:.1f}", rate.forward.flops_per_second() / 1e9),
                      fmt::format("{:.3f}", Median(rate.backward.seconds) * 1e3),
                      fmt::format("{:.1f}", rate.backward.flops_per_second() / 1e9),
                      WithCommas(static_cast<int64_t>(rate.tokens_per_second())),
                      HumanBytes(static_cast<double>(rate.planned_bytes)),
                      fmt::format("{:.0f}", static_cast<double>(rate.planned_bytes) / tokens)});
    }
    std::string text =
        fmt::format("{} sequences, {} heads of {} channels, dropout {}\n{}, {} threads\n\n",
                    shape_.B, shape_.H, shape_.D, shape_.dropout, backend.description(), Threads());
    return text + RenderTable({"dtype", ">T", ">forward ms", ">GFLOP/s", ">backward ms", ">GFLOP/s",
                               ">tokens/s", ">memory", ">bytes/token"},
                              rows);
  }

  static std::string AsJson(const Backend& backend, const std::vector<AttentionRate>& rates) {
    Json runs = Json::array();
    for (const AttentionRate& rate : rates) {
      runs.push_back({{"dtype", TrainDtypeName(rate.shape.dtype)},
                      {"batch", rate.shape.B},
                      {"context", rate.shape.T},
                      {"heads", rate.shape.H},
                      {"head_size", rate.shape.D},
                      {"dropout", rate.shape.dropout},
                      {"forward", ToJson(rate.forward)},
                      {"backward", ToJson(rate.backward)},
                      {"tokens_per_second", rate.tokens_per_second()},
                      {"peak_bytes", rate.planned_bytes}});
    }
    const Json json = {{"schema", 1},
                       {"backend", backend.name()},
                       {"backend_description", backend.description()},
                       {"simd", SimdTarget()},
                       {"threads", Threads()},
                       {"runs", runs}};
    return json.dump(2) + "\n";
  }

  AttentionShape shape_{};
  int64_t context_ = 0;
  double seconds_ = 0.3;
  std::string dtype_ = "both", backend_ = "cpu";
  ComputeFlags compute_;
};

}  // namespace

std::unique_ptr<Command> NewBenchAttentionCommand() {
  return std::make_unique<BenchAttentionCommand>();
}

}  // namespace folio
