#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "folio/backend/backend.h"
#include "folio/base/math.h"
#include "folio/model/params.h"

namespace folio {

// The times of repeated runs.
struct Timing {
  double work = 0;                   // of one run: FLOPs, bytes or tokens
  std::vector<double> seconds = {};  // of each run

  double median() const { return Median(seconds); }
  double fastest() const { return Percentile(seconds, 0); }
  double rate() const { return work / median(); }  // a second
};

struct MatmulShape {
  int64_t N = 0, I = 0, O = 0;
};

// One of the three products of a layer (N rows, weight (I,O)) in training, each 2 N I O
// multiplications and additions. The weight is float32 whatever the dtype is: that of x, d_out, out
// and d_x.
struct MatmulRate {
  MatmulShape shape;         // with fewer rows than asked for on a slow backend
  std::string_view product;  // "x W", "d_out W^T", or "x^T d_out", which is added to d_W
  Dtype dtype = Dtype::kF32;
  Timing timing = {};  // its work is FLOPs
};

// The layers of GPT-2 (124M) with 1024 rows, and its loss head with a chunk of 256.
std::span<const MatmulShape> Gpt2Matmuls();
// The products of a model of characters: C=128 with 12 x 64 rows, V=65, and one row alone.
std::span<const MatmulShape> SmallMatmuls();

// Measures all three products in all `dtypes`. Those of one shape are run in turns, so that other
// work of the machine affects all of them: at least three rounds, and until each has run for
// `seconds` on average.
std::vector<MatmulRate> MeasureMatmuls(Backend& backend, std::span<const MatmulShape> shapes,
                                       std::span<const Dtype> dtypes, double seconds);

// The peak rate of products of the machine, by which shares and estimates are computed: the highest
// rate (median of its runs) of forward products that grow as long as they fit into `seconds`; the
// first, a small one, is always run.
double MeasureMatmulPeak(Backend& backend, Dtype dtype, double seconds);

// Causal self-attention as a model runs it: q, k and v side by side in one (B*T,3C) array.
struct AttentionShape {
  int64_t B = 1, T = 1, H = 12, D = 64;
  double dropout = 0;
  Dtype dtype = Dtype::kF32;
};

struct AttentionRate {
  AttentionShape shape;
  Timing forward, backward;  // FLOPs of unmasked pairs, as the operations define them
  // The memory that a model plans for it: qkv, out, lse and the gradients of the first two.
  uint64_t planned_bytes = 0;

  // Both directions together, at their medians.
  double tokens_per_second() const {
    return static_cast<double>(shape.B * shape.T) / (forward.median() + backward.median());
  }
};

// Bytes of those arrays.
uint64_t AttentionBytes(const AttentionShape& shape);

// Runs both directions in turns, at least three times and for `seconds` together, after a run of
// each that does not count.
AttentionRate MeasureAttention(Backend& backend, const AttentionShape& shape, double seconds);

// The N rows of a block for its operations besides products and attention: C channels in heads of
// D, and a hidden layer of F. The dtype is that of operands marked Low.
struct RowShape {
  int64_t N = 2048, C = 1024, D = 64, F = 3072;
  Dtype dtype = Dtype::kF32;
};

struct RowRate {
  std::string_view operation;
  Dtype dtype = Dtype::kF32;
  Timing timing = {};  // its work is the bytes that it reads and writes
};

// Bytes of the arrays.
uint64_t RowBytes(const RowShape& shape);

// Runs the operations in turns, at least three times and for `seconds` together, and last "copy", a
// copy of their largest array.
std::vector<RowRate> MeasureRows(Backend& backend, const RowShape& shape, double seconds);

// Passes over memory, whose work is the bytes that one run reads and writes.
struct OptimizerRates {
  // A step over all parameters, beside its products: the norm of their gradients, AdamW.
  Timing norm, adamw;
  // The rates of the machine's memory: reading one such array, copying one to another.
  Timing read, copy;

  double seconds_per_step() const { return norm.median() + adamw.median(); }
  double bytes_per_step() const { return norm.work + adamw.work; }
};

// Takes turns over arrays of `parameters` float32 each: at least three rounds, and for `seconds`
// together.
OptimizerRates MeasureOptimizer(Backend& backend, int64_t parameters, double seconds);

// Bytes of the arrays: parameters, gradients and the state of the optimizer.
uint64_t OptimizerBytes(int64_t parameters);

struct BenchGenerateOptions {
  int64_t prompt_tokens = 512;  // of the timed prompt, at most n_positions
  // The numbers of tokens before the timed ones, each below n_positions.
  std::vector<int64_t> positions = {10};
  std::vector<int64_t> batches = {};  // sequences that are written together, each 1 to 32
  std::optional<Dtype> cache = {};    // of keys and values
  double seconds = 2;                 // measure at least so long
};

struct GenerationTimings {
  Dtype cache = Dtype::kF32;
  Timing prompt = {};  // its work is tokens
  // Single tokens behind so many others. Their work is the bytes read: the matrices, and the keys
  // and values so far.
  std::vector<std::pair<int64_t, Timing>> tokens = {};
  // A step of so many sequences, a token each, behind ten others.
  std::vector<Timing> batches = {};
  Timing read = {};  // as many bytes as the matrices that a token reads, in turns with the rest
};

// Times the prompt and the decoding of a model: at least three rounds.
GenerationTimings MeasureGeneration(Backend& backend, const GptWeights& weights,
                                    const BenchGenerateOptions& options);

// The dtypes of a benchmark's --dtype: "fp32", "bf16", or "both" for those that the backend
// supports. Throws a kUsage Error for one that it does not support.
std::vector<Dtype> DtypesNamed(const std::string& name, const Backend& backend);

}  // namespace folio
