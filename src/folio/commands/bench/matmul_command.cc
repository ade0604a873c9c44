#include "folio/bench/describe.h"
#include "folio/bench/dtypes.h"
#include "folio/bench/matmul_rate.h"
#include "folio/commands/commands.h"
#include "folio/commands/model_flags.h"

namespace folio {
namespace {

class BenchMatmulCommand final : public Command {
 public:
  CommandInfo info() const override {
    return {.name = "bench matmul",
            .summary = "measure the matrix products of this machine",
            .group = "set-up",
            .details =
                "The three products of a layer in training, over N rows and a weight (I,O): x W\n"
                "forward, d_out W^T and x^T d_out backward. With bf16, x and d_out are bfloat16\n"
                "and the float32 weight is rounded on the way. Products of one size take turns;\n"
                "the peak of a dtype is the highest median.",
            .examples = {"folio bench matmul", "folio bench matmul --dtype bf16 --products gpt2",
                         "folio bench matmul --threads 1 --simd AVX2 --json"}};
  }

  void AddFlags(Flags& flags) override {
    flags.Value(Field{"dtype", &dtype_, "number format; both: all that the backend has"}.Choices(
        {"fp32", "bf16", "both"}));
    flags.Value(
        Field{"products", &products_, "sizes of GPT-2, of a small model, or of both"}.Choices(
            {"gpt2", "small", "all"}));
    flags.Value(Field{"seconds", &seconds_, "measure each product at least so long", 0, 1e6});
    AddBackendFlag(flags, &backend_);
    compute_.Add(flags);
  }

  int Run(const Context& context) override {
    compute_.Use();
    const std::unique_ptr<Backend> backend = MakeBackend(backend_);
    const std::vector<Dtype> dtypes = DtypesNamed(dtype_, *backend);
    std::vector<MatmulShape> shapes;
    if (products_ != "small") shapes.assign(Gpt2Matmuls().begin(), Gpt2Matmuls().end());
    if (products_ != "gpt2") {
      shapes.insert(shapes.end(), SmallMatmuls().begin(), SmallMatmuls().end());
    }
    const std::vector<MatmulRate> rates = MeasureMatmuls(*backend, shapes, dtypes, seconds_);
    context.console.Result(DescribeMatmuls(*backend, dtypes, rates, context.console.json()));
    return 0;
  }

 private:
  std::string backend_ = "cpu", dtype_ = "both", products_ = "all";
  double seconds_ = 0.1;
  ComputeFlags compute_;
};

}  // namespace

std::unique_ptr<Command> NewBenchMatmulCommand() {
  return std::make_unique<BenchMatmulCommand>();
}

}  // namespace folio
