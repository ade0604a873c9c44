#include "folio/apps/matmul_rate.h"

#include <algorithm>

#include "folio/apps/percentile.h"
#include "folio/base/clock.h"

namespace folio {
namespace {

constexpr MatmulShape kLarge[] = {{1024, 1024, 4096}, {1024, 4096, 1024}, {2048, 2048, 2048}};

// Operands of a product, filled with numbers of either sign.
class MatmulOperands {
 public:
  explicit MatmulOperands(MatmulShape shape)
      : x_(Numbers(shape.N * shape.I, 7)),
        weight_(Numbers(shape.I * shape.O, 11)),
        out_(static_cast<size_t>(shape.N * shape.O)),
        op_{.x = Tensor(x_.data(), {shape.N, shape.I}),
            .weight = Tensor(weight_.data(), {shape.I, shape.O}),
            .out = Tensor(out_.data(), {shape.N, shape.O})} {}
  MatmulOperands(const MatmulOperands&) = delete;

  // Seconds of one run.
  double Run(Backend& backend) const {
    const double begin = SteadySeconds();
    backend.Run(op_);
    return SteadySeconds() - begin;
  }

 private:
  // In [-0.5, 0.5].
  static std::vector<float> Numbers(int64_t count, size_t step) {
    constexpr size_t kDistinct = 1009;
    std::vector<float> numbers(static_cast<size_t>(count));
    for (size_t i = 0; i < numbers.size(); ++i) {
      numbers[i] = static_cast<float>(i * step % kDistinct) / (kDistinct - 1) - 0.5f;
    }
    return numbers;
  }

  std::vector<float> x_, weight_, out_;
  LinearForward op_;
};

// `shape`, or on a slow backend one with fewer rows.
MatmulShape FitToSpeed(Backend& backend, MatmulShape shape) {
  constexpr double kTooLong = 1;
  constexpr int64_t kFewRows = 16;
  const MatmulOperands probe({kFewRows, shape.I, shape.O});
  probe.Run(backend);
  const double factor = static_cast<double>(shape.N) / static_cast<double>(kFewRows);
  if (probe.Run(backend) * factor > kTooLong) shape.N = kFewRows;
  return shape;
}

}  // namespace

std::span<const MatmulShape> LargeMatmuls() {
  return kLarge;
}

MatmulRate MeasureMatmul(Backend& backend, MatmulShape shape, double seconds) {
  constexpr size_t kFewestRuns = 3;
  shape = FitToSpeed(backend, shape);
  const MatmulOperands operands(shape);
  operands.Run(backend);
  std::vector<double> runs;
  for (double sum = 0; sum < seconds || runs.size() < kFewestRuns; sum += runs.back()) {
    runs.push_back(operands.Run(backend));
  }
  const double flops = 2.0 * static_cast<double>(shape.N) * static_cast<double>(shape.I) *
                       static_cast<double>(shape.O);
  const double median = Percentile(runs, 0.5);
  return {shape, median, flops / median};
}

double MeasureMatmulPeak(Backend& backend) {
  double peak = 0;
  for (const MatmulShape& shape : LargeMatmuls()) {
    peak = std::max(peak, MeasureMatmul(backend, shape).flops_per_second);
  }
  return peak;
}

}  // namespace folio
