#include "folio/base/machine.h"
#include "folio/bench/attention.h"
#include "folio/bench/describe.h"
#include "folio/bench/dtypes.h"
#include "folio/commands/commands.h"
#include "folio/commands/model_flags.h"

namespace folio {
namespace {

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
    context.console.Result(DescribeAttention(*backend, rates, context.console.json()));
    return 0;
  }

 private:
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
