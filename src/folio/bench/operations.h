#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "folio/backend/backend.h"
#include "folio/report/report.h"

namespace folio {

// The three products of a layer (N rows, weight (I,O)) in training, each 2 N I O multiplications
// and additions.
enum class MatmulKind {
  kForward,         // x W
  kInputGradient,   // d_out W^T
  kWeightGradient,  // x^T d_out, added to d_W
};
inline constexpr MatmulKind kMatmulKinds[] = {MatmulKind::kForward, MatmulKind::kInputGradient,
                                              MatmulKind::kWeightGradient};
std::string_view MatmulKindName(MatmulKind kind);  // "x W"

struct MatmulShape {
  int64_t N = 0, I = 0, O = 0;
};

// One product. The weight is float32 whatever the dtype is: that of x, d_out, out and d_x.
struct Matmul {
  MatmulShape shape;
  MatmulKind kind = MatmulKind::kForward;
  Dtype dtype = Dtype::kF32;

  double flops() const;
};

struct MatmulRate {
  Matmul product;          // with fewer rows than asked for on a slow backend
  double seconds = 0;      // median of the runs
  double seconds_min = 0;  // the fastest of them

  double flops_per_second() const { return product.flops() / seconds; }
};

// The layers of GPT-2 (124M) with 1024 rows, and its loss head with a chunk of 256.
std::span<const MatmulShape> Gpt2Matmuls();
// The products of a model of characters: C=128 with 12 x 64 rows, V=65, and one row alone.
std::span<const MatmulShape> SmallMatmuls();

// All three kinds of the products in all `dtypes`. Those of one shape take turns, run by run, so
// that whatever else the machine does meets all of them: at least three rounds, and until each has
// run for `seconds` on average.
std::vector<MatmulRate> MeasureMatmuls(Backend& backend, std::span<const MatmulShape> shapes,
                                       std::span<const Dtype> dtypes, double seconds);

// The highest rate among those of this dtype.
double PeakOf(Dtype dtype, std::span<const MatmulRate> rates);

// The product peak of the machine as share and estimates mean it: the highest rate (median of its
// runs) over forward products that grow as long as they fit into `seconds`; the first,
// a small one, always does.
double MeasureMatmulPeak(Backend& backend, Dtype dtype, double seconds);

// Causal self-attention as a model runs it: q, k and v side by side in one (B*T,3C) array.
struct AttentionShape {
  int64_t B = 1, T = 1, H = 12, D = 64;
  double dropout = 0;
  Dtype dtype = Dtype::kF32;
};

// One direction of it.
struct AttentionTiming {
  std::vector<double> seconds = {};  // of each run
  double flops = 0;                  // as the operation defines them: unmasked pairs only

  double flops_per_second() const;  // at the median
};

struct AttentionRate {
  AttentionShape shape;
  AttentionTiming forward, backward;
  // The memory that a model plans for it: qkv, out, lse and, for the backward, the gradients of the
  // first two.
  uint64_t planned_bytes = 0;

  double tokens_per_second() const;  // both directions, at their medians
};

// Bytes of those arrays.
uint64_t AttentionBytes(const AttentionShape& shape);

// Runs both directions in turns, at least three times and for `seconds` together, after a run of
// each that does not count.
AttentionRate MeasureAttention(Backend& backend, const AttentionShape& shape, double seconds);

// One pass over memory.
struct MemoryPass {
  std::string name;
  double bytes = 0;                  // read and written by one run
  std::vector<double> seconds = {};  // of each run

  double bytes_per_second() const;  // at the median
};

// The best that the machine's memory does: reading an array (what it returns keeps the compiler
// from leaving that out), copying it to another, on all threads.
uint32_t ReadAll(const float* x, int64_t n);
void CopyAll(const float* from, float* to, int64_t n);

struct OptimizerRates {
  // The passes of a step over all parameters beside its products: the norm of their gradients,
  // AdamW.
  MemoryPass norm, adamw;
  // The best that the machine's memory does: reading one such array, copying one to another.
  MemoryPass read, copy;

  double seconds_per_step() const;  // at the medians
  double bytes_per_step() const { return norm.bytes + adamw.bytes; }
};

// Takes turns over arrays of `parameters` float32 each: at least three rounds, and for `seconds`
// together.
OptimizerRates MeasureOptimizer(Backend& backend, int64_t parameters, double seconds);

// Bytes of the arrays: parameters, gradients and the state of the optimizer.
uint64_t OptimizerBytes(int64_t parameters);

// The dtypes that a benchmark's --dtype means: "fp32", "bf16", or "both" for all that the backend
// supports. Throws a kUsage Error for one that it does not.
std::vector<Dtype> DtypesNamed(const std::string& name, const Backend& backend);

// The lines that every report of a benchmark has of what computed it.
std::vector<Cell> MachineFacts(const Backend& backend);
// "12,345" of so many things a second.
Value WholeRate(double a_second);

// The findings as reports. REQUIRES: some rates.
Report MatmulReport(const Backend& backend, const std::vector<Dtype>& dtypes,
                    const std::vector<MatmulRate>& rates);
Report AttentionReport(const Backend& backend, const std::vector<AttentionRate>& rates);
Report OptimizerReport(const Backend& backend, int64_t parameters, const OptimizerRates& rates);

}  // namespace folio
