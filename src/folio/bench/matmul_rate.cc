#include "folio/bench/matmul_rate.h"

#include <algorithm>
#include <memory>

#include "folio/base/check.h"
#include "folio/base/clock.h"
#include "folio/base/math.h"

namespace folio {
namespace {

constexpr MatmulShape kGpt2[] = {
    {1024, 768, 2304}, {1024, 768, 768}, {1024, 768, 3072}, {1024, 3072, 768}, {256, 768, 50257}};
constexpr MatmulShape kSmall[] = {{768, 128, 384}, {768, 128, 128}, {768, 128, 512},
                                  {768, 512, 128}, {768, 128, 65},  {1, 128, 512}};

// Growing, each near what the one before it lets expect.
constexpr MatmulShape kPeak[] = {{64, 256, 256},     {256, 768, 768},    {1024, 1024, 1024},
                                 {1024, 1024, 4096}, {1024, 4096, 1024}, {2048, 2048, 2048}};

// In [-0.5, 0.5], of either sign.
float NumberAt(size_t i, size_t step) {
  constexpr size_t kDistinct = 1009;
  return static_cast<float>(i * step % kDistinct) / (kDistinct - 1) - 0.5f;
}

// An array of float32 or bfloat16 numbers.
class Numbers {
 public:
  Numbers(Dtype dtype, Shape shape, size_t step)
      : memory_(
            std::make_unique<std::byte[]>(static_cast<size_t>(shape.count()) * DtypeSize(dtype))),
        tensor_(memory_.get(), dtype, shape) {
    const size_t count = static_cast<size_t>(shape.count());
    for (size_t i = 0; i < count; ++i) {
      if (dtype == Dtype::kBF16) {
        tensor_.data<BF16>()[i] = ToBF16(NumberAt(i, step));
      } else {
        tensor_.data<float>()[i] = NumberAt(i, step);
      }
    }
  }

  const Tensor& tensor() const { return tensor_; }

 private:
  std::unique_ptr<std::byte[]> memory_;
  Tensor tensor_;
};

// The operands of the products of one shape and dtype.
class MatmulOperands {
 public:
  MatmulOperands(MatmulShape shape, Dtype dtype)
      : shape_(shape),
        dtype_(dtype),
        x_(dtype, {shape.N, shape.I}, 7),
        weight_(Dtype::kF32, {shape.I, shape.O}, 11),
        out_(dtype, {shape.N, shape.O}, 1),
        d_x_(dtype, {shape.N, shape.I}, 1),
        d_out_(dtype, {shape.N, shape.O}, 13),
        d_weight_(Dtype::kF32, {shape.I, shape.O}, 17) {}

  // Seconds of one run.
  double Run(Backend& backend, MatmulKind kind) const {
    const double begin = SteadySeconds();
    switch (kind) {
      case MatmulKind::kForward:
        backend.Run(
            LinearForward{.x = x_.tensor(), .weight = weight_.tensor(), .out = out_.tensor()});
        break;
      case MatmulKind::kInputGradient:
        backend.Run(LinearBackward{
            .weight = weight_.tensor(), .d_out = d_out_.tensor(), .d_x = d_x_.tensor()});
        break;
      case MatmulKind::kWeightGradient:
        backend.Run(LinearBackward{.x = x_.tensor(),
                                   .weight = weight_.tensor(),
                                   .d_out = d_out_.tensor(),
                                   .d_weight = d_weight_.tensor()});
        break;
    }
    return SteadySeconds() - begin;
  }

  Matmul product(MatmulKind kind) const { return {shape_, kind, dtype_}; }

 private:
  MatmulShape shape_;
  Dtype dtype_;
  Numbers x_, weight_, out_, d_x_, d_out_, d_weight_;
};

// `shape`, or on a slow backend one with fewer rows.
MatmulShape FitToSpeed(Backend& backend, MatmulShape shape) {
  constexpr double kTooLong = 1;
  constexpr int64_t kFewRows = 16;
  if (shape.N <= kFewRows) return shape;
  // The rate of a little product, as its weight alone may be too much for a slow backend.
  const MatmulOperands probe({kFewRows, 128, 128}, Dtype::kF32);
  probe.Run(backend, MatmulKind::kForward);
  const double rate =
      probe.product(MatmulKind::kForward).flops() / probe.Run(backend, MatmulKind::kForward);
  if (Matmul{.shape = shape}.flops() / rate > kTooLong) shape.N = kFewRows;
  return shape;
}

MatmulRate RateOf(const Matmul& product, const std::vector<double>& runs) {
  return {product, Median(runs), Percentile(runs, 0)};
}

void MeasureShape(Backend& backend, MatmulShape shape, std::span<const Dtype> dtypes,
                  double seconds, std::vector<MatmulRate>& rates) {
  constexpr size_t kFewestRuns = 3;
  struct Entrant {
    const MatmulOperands* operands;
    MatmulKind kind;
    std::vector<double> runs;
  };
  std::vector<std::unique_ptr<MatmulOperands>> operands;
  std::vector<Entrant> entrants;
  for (const Dtype dtype : dtypes) {
    operands.push_back(std::make_unique<MatmulOperands>(shape, dtype));
    for (const MatmulKind kind : kMatmulKinds)
      entrants.push_back({operands.back().get(), kind, {}});
  }
  for (const Entrant& entrant : entrants) entrant.operands->Run(backend, entrant.kind);
  const double enough = seconds * static_cast<double>(entrants.size());
  for (double sum = 0; sum < enough || entrants.back().runs.size() < kFewestRuns;) {
    for (Entrant& entrant : entrants) {
      entrant.runs.push_back(entrant.operands->Run(backend, entrant.kind));
      sum += entrant.runs.back();
    }
  }
  for (const Entrant& entrant : entrants) {
    rates.push_back(RateOf(entrant.operands->product(entrant.kind), entrant.runs));
  }
}

}  // namespace

std::string_view MatmulKindName(MatmulKind kind) {
  static constexpr std::string_view kNames[] = {"x W", "d_out W^T", "x^T d_out"};
  return kNames[static_cast<int>(kind)];
}

double Matmul::flops() const {
  return 2.0 * static_cast<double>(shape.N) * static_cast<double>(shape.I) *
         static_cast<double>(shape.O);
}

std::span<const MatmulShape> Gpt2Matmuls() {
  return kGpt2;
}

std::span<const MatmulShape> SmallMatmuls() {
  return kSmall;
}

std::vector<MatmulRate> MeasureMatmuls(Backend& backend, std::span<const MatmulShape> shapes,
                                       std::span<const Dtype> dtypes, double seconds) {
  FOLIO_CHECK(!dtypes.empty(), "no dtypes");
  std::vector<MatmulRate> rates;
  for (const MatmulShape& shape : shapes) {
    MeasureShape(backend, FitToSpeed(backend, shape), dtypes, seconds, rates);
  }
  return rates;
}

double PeakOf(Dtype dtype, std::span<const MatmulRate> rates) {
  double peak = 0;
  for (const MatmulRate& rate : rates) {
    if (rate.product.dtype == dtype) peak = std::max(peak, rate.flops_per_second());
  }
  return peak;
}

double MeasureMatmulPeak(Backend& backend, Dtype dtype, double seconds) {
  constexpr double kRuns = 5;
  const double begin = SteadySeconds();
  double peak = 0;
  for (const MatmulShape& shape : kPeak) {
    // A run that does not count comes first.
    const double expected = peak > 0 ? Matmul{.shape = shape}.flops() / peak : 0;
    if (peak > 0 && SteadySeconds() - begin + expected * (kRuns + 1) > seconds) break;
    const MatmulOperands operands(shape, dtype);
    operands.Run(backend, MatmulKind::kForward);
    std::vector<double> runs;
    for (int i = 0; i < kRuns; ++i) runs.push_back(operands.Run(backend, MatmulKind::kForward));
    peak = std::max(peak, RateOf(operands.product(MatmulKind::kForward), runs).flops_per_second());
  }
  return peak;
}

}  // namespace folio
