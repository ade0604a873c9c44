#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "folio/apps/commands.h"
#include "folio/apps/matmul_rate.h"
#include "folio/apps/table.h"
#include "folio/base/parallel.h"

namespace folio {
namespace {

using Json = nlohmann::ordered_json;

class BenchMatmulCommand final : public Command {
 public:
  CommandInfo info() const override {
    return {.name = "bench matmul",
            .summary = "measure the matrix products of this machine",
            .group = "set-up",
            .details = "Float32 products of (N,I) by (I,O), the median of several runs each.",
            .examples = {"folio bench matmul", "folio bench matmul --threads 1 --json"}};
  }

  void AddFlags(Flags& flags) override {
    flags.Value(Field{"backend", &backend_, "what computes"}.Choices({"cpu", "reference"}));
    flags.Value(Field{"threads", &threads_, "processors to use; 0 for all", 0, 4096});
  }

  int Run(const Context& context) override {
    if (threads_ > 0) SetThreads(static_cast<int>(threads_));
    const std::unique_ptr<Backend> backend = MakeBackend(backend_);
    std::vector<MatmulRate> rates;
    for (const MatmulShape& shape : LargeMatmuls()) {
      rates.push_back(MeasureMatmul(*backend, shape));
    }
    context.console.Result(context.console.json() ? AsJson(*backend, rates) : AsText(rates));
    return 0;
  }

 private:
  static std::string AsText(const std::vector<MatmulRate>& rates) {
    std::vector<std::vector<std::string>> rows;
    for (const MatmulRate& rate : rates) {
      rows.push_back({fmt::format("{}", rate.shape.N), fmt::format("{}", rate.shape.I),
                      fmt::format("{}", rate.shape.O), fmt::format("{:.3f}", rate.seconds * 1e3),
                      fmt::format("{:.1f}", rate.flops_per_second / 1e9)});
    }
    return RenderTable({">N", ">I", ">O", ">ms", ">GFLOP/s"}, rows);
  }

  static std::string AsJson(const Backend& backend, const std::vector<MatmulRate>& rates) {
    Json products = Json::array();
    double peak = 0;
    for (const MatmulRate& rate : rates) {
      products.push_back({{"N", rate.shape.N},
                          {"I", rate.shape.I},
                          {"O", rate.shape.O},
                          {"seconds", rate.seconds},
                          {"flops_per_second", rate.flops_per_second}});
      peak = std::max(peak, rate.flops_per_second);
    }
    const Json json = {{"schema", 1},
                       {"backend", backend.name()},
                       {"backend_description", backend.description()},
                       {"threads", Threads()},
                       {"dtype", "fp32"},
                       {"flops_per_second", peak},
                       {"products", products}};
    return json.dump(2) + "\n";
  }

  std::string backend_ = "cpu";
  int64_t threads_ = 0;
};

}  // namespace

std::unique_ptr<Command> NewBenchMatmulCommand() {
  return std::make_unique<BenchMatmulCommand>();
}

}  // namespace folio
