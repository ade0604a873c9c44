#include <fmt/format.h>

#include "folio/base/simd_targets.h"
#include "folio/base/thread_pool.h"
#include "folio/bench/dtypes.h"
#include "folio/bench/matmul_rate.h"
#include "folio/cli/compute_flags.h"
#include "folio/commands/commands.h"
#include "folio/io/json.h"
#include "folio/term/table.h"
#include "folio/train/precision.h"

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
    context.console.Result(context.console.json() ? AsJson(*backend, dtypes, rates)
                                                  : AsText(*backend, dtypes, rates));
    return 0;
  }

 private:
  static std::string AsText(const Backend& backend, const std::vector<Dtype>& dtypes,
                            const std::vector<MatmulRate>& rates) {
    std::vector<std::vector<std::string>> rows;
    for (const MatmulRate& rate : rates) {
      const auto& [shape, kind, dtype] = rate.product;
      rows.push_back({TrainDtypeName(dtype), std::string(MatmulKindName(kind)),
                      fmt::format("{}", shape.N), fmt::format("{}", shape.I),
                      fmt::format("{}", shape.O), fmt::format("{:.3f}", rate.seconds * 1e3),
                      fmt::format("{:.1f}", rate.flops_per_second() / 1e9),
                      fmt::format("{:.1f}", rate.product.flops() / rate.seconds_min / 1e9)});
    }
    std::string text = fmt::format("{}, {} threads\n\n", backend.description(), Threads());
    text += RenderTable({"dtype", "product", ">N", ">I", ">O", ">ms", ">GFLOP/s", ">best"}, rows);
    text += "\n";
    for (const Dtype dtype : dtypes) {
      text += fmt::format("peak {}  {:.1f} GFLOP/s ({})\n", TrainDtypeName(dtype),
                          PeakOf(dtype, rates) / 1e9, backend.ProductUnit(dtype));
    }
    return text;
  }

  static std::string AsJson(const Backend& backend, const std::vector<Dtype>& dtypes,
                            const std::vector<MatmulRate>& rates) {
    Json products = Json::array();
    for (const MatmulRate& rate : rates) {
      const MatmulShape& shape = rate.product.shape;
      products.push_back({{"dtype", TrainDtypeName(rate.product.dtype)},
                          {"product", MatmulKindName(rate.product.kind)},
                          {"N", shape.N},
                          {"I", shape.I},
                          {"O", shape.O},
                          {"seconds", rate.seconds},
                          {"seconds_min", rate.seconds_min},
                          {"flops_per_second", rate.flops_per_second()},
                          {"flops_per_second_max", rate.product.flops() / rate.seconds_min}});
    }
    Json peaks = Json::object(), units = Json::object();
    for (const Dtype dtype : dtypes) {
      peaks[TrainDtypeName(dtype)] = PeakOf(dtype, rates);
      units[TrainDtypeName(dtype)] = backend.ProductUnit(dtype);
    }
    const Json json = {{"schema", 1},
                       {"backend", backend.name()},
                       {"backend_description", backend.description()},
                       {"simd", SimdTarget()},
                       {"threads", Threads()},
                       {"peak_flops_per_second", peaks},
                       {"units", units},
                       {"products", products}};
    return json.dump(2) + "\n";
  }

  std::string backend_ = "cpu", dtype_ = "both", products_ = "all";
  double seconds_ = 0.1;
  ComputeFlags compute_;
};

}  // namespace

std::unique_ptr<Command> NewBenchMatmulCommand() {
  return std::make_unique<BenchMatmulCommand>();
}

}  // namespace folio
