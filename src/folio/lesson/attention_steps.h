#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "folio/backend/backend.h"
#include "folio/base/rng.h"
#include "folio/lesson/walk_parts.h"
#include "folio/model/layers/linear.h"
#include "folio/tensor/tensor.h"

namespace folio {

// Attention one step at a time (A. Vaswani et al., arXiv:1706.03762, section 3.2): the
// specification of what the fused AttentionForward computes in one, for whoever wants to see what
// is in between.
//
// Letters as in backend/ops.h, of one sequence: T queries, S keys. Arrays are dense and float32,
// sums are made in double. Sizes that do not fit are a programmer's mistake.

// Scores (H,T,S) = scale * q[t,h] . k[s,h / (H/G)], of q (T,H*D) and k (S,G*D).
StepTensor AttentionScores(const Tensor& q, const Tensor& k, int64_t H, double scale);
// x (H,T,S) where mask (T,S) is not 0, else `fill`.
StepTensor Masked(const Tensor& x, std::span<const uint8_t> mask, float fill);
// Context (T,H*D) = sum over s of weights[h,t,s] * v[s,h / (H/G)], of weights (H,T,S) and v
// (S,G*D).
StepTensor AttentionContext(const Tensor& weights, const Tensor& v, int64_t D);

// Each row, the last dimension of x, becomes exp(x) / sum of exp(x). A row of -infinity gives
// zeros.
StepTensor Softmax(const Tensor& x);
// NaiveSoftmax is the formula as it is written, without taking the row's maximum off first: it
// overflows to NaN from x = 89 on, and below -87 nothing is left. It shows why nobody computes it
// so.
StepTensor NaiveSoftmax(const Tensor& x);
// Each row becomes x / sum of x, zeros where the sum is 0.
StepTensor DividedBySum(const Tensor& x);

// Returns which of T queries may attend to which key, (T,S), 0 where it may not: to none that is 0
// in `keys` (S) and, if `causal`, to no later one; the last query stands at the last key.
std::vector<uint8_t> AttentionMask(int64_t T, std::span<const uint8_t> keys, bool causal);
inline std::vector<uint8_t> CausalMask(int64_t T) {
  return AttentionMask(T, std::vector<uint8_t>(static_cast<size_t>(T), 1), true);
}

// Weighting says how scores become weights.
enum class Weighting {
  kSoftmax,
  kNaiveSoftmax,  // exp(x) / sum of exp(x) as written: overflows
  kSum,           // x / sum of x: adds up to 1, but is no softmax
  kNone,          // the scores themselves
};

enum class MaskOrder {
  kBeforeSoftmax,  // scores become -infinity
  kAfterSoftmax,   // weights become 0, and the row is divided by its sum
};

// The parameters of an attention layer in GPT-2's orientation (in,out); those that are empty are
// left out.
struct AttentionParams {
  LinearParams q, k, v;  // (d_in, H*D), (d_kv_in, G*D), (d_kv_in, G*D)
  LinearParams out;      // (H*D, H*D)
};

struct AttentionOptions {
  int64_t H = 1;
  std::optional<double> scale = {};  // of the scores; 1/sqrt(D) if not given
  std::vector<uint8_t> mask = {};    // (T,S), see AttentionMask; empty for none
  MaskOrder mask_order = MaskOrder::kBeforeSoftmax;
  Weighting weighting = Weighting::kSoftmax;
  Dropout dropout = {};  // of the weights; rows are (h * T + t), of width S
};

// AttentionSteps holds the result of each step. A step that the options leave out is the tensor of
// the step before.
struct AttentionSteps {
  Tensor q, k, v;  // (T,H*D), (S,G*D), (S,G*D)
  Tensor scores;   // (H,T,S) as what follows: scale * q k^T
  Tensor masked;   // kBeforeSoftmax: -infinity where masked (0 for the weightings without exp)
  Tensor softmax;  // after the weighting: rows that add up to 1, unless that is kNone
  Tensor weights;  // kAfterSoftmax: 0 where masked, and rows that add up to 1 again
  Tensor kept;     // after dropout
  Tensor context;  // (T,H*D)
  Tensor out;      // (T,H*D)
  std::vector<StepTensor> memory = {};  // of these
};

// Attends from query (T,d_in) to key and value (S,d_kv_in), which may all be the same sequence
// (self-attention) and must outlive the result. `backend` runs projections and dropout.
AttentionSteps Attend(Backend& backend, const AttentionParams& params, const Tensor& query,
                      const Tensor& key, const Tensor& value, const AttentionOptions& options = {});
inline AttentionSteps Attend(Backend& backend, const AttentionParams& params, const Tensor& x,
                             const AttentionOptions& options = {}) {
  return Attend(backend, params, x, x, x, options);
}

// Returns matrices of equally many rows, side by side.
StepTensor SideBySide(std::span<const Tensor> parts);

// Sizes of an attention layer with weights. Heads of queries, keys and values all have D = d_out /
// H elements.
struct AttentionSizes {
  int64_t d_in = 0;     // of what queries are made from
  int64_t d_kv_in = 0;  // of what keys and values are made from; 0 for d_in
  int64_t d_out = 0;    // of all heads together
  int64_t H = 1;
  int64_t G = 0;          // heads of keys and values; 0 for H
  bool bias = false;      // of q, k and v
  bool out_proj = false;  // with an output projection, which has a bias

  int64_t kv_out() const { return (G == 0 ? H : G) * (d_out / H); }  // width of keys, of values
  int64_t kv_in() const { return d_kv_in == 0 ? d_in : d_kv_in; }
};

// Parameters in memory of their own.
struct AttentionWeights {
  AttentionParams params = {};
  std::vector<StepTensor> memory = {};
};

// Returns the weights of one layer split into heads that computes the same as these single ones,
// without biases or output projections, side by side: their columns side by side.
AttentionWeights JoinHeads(std::span<const AttentionWeights> heads);

// AttentionDraws draws random weights one after the other: PyTorch's draws, or folio's own numbers,
// each a function of seed, place among the draws, layer and element.
class AttentionDraws {
 public:
  AttentionDraws(uint64_t seed, bool torch) : seed_(seed) {
    if (torch) torch_.emplace(seed);
  }

  // Draws weights and biases uniformly within 1/sqrt(in), as torch.nn.Linear does: in the order
  // (out,in), each layer's weight before its bias; q, k, v and, if there is one, out.
  AttentionWeights Linear(const AttentionSizes& sizes);
  // Draws weights of a layer without biases or output projection uniformly in [0,1), in the order
  // (in,out): torch.rand(d_in, d_out).
  AttentionWeights Unit(const AttentionSizes& sizes);
  void Normal(std::span<float> out);

 private:
  // `layer` is q, k, v or out, from 0 on; `bias` whether this is its bias.
  void Uniform(std::span<float> out, double low, double high, uint64_t layer, bool bias);

  uint64_t seed_;
  uint64_t drawn_ = 0;
  std::optional<TorchRng> torch_;
};

}  // namespace folio
