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
// specification of the fused AttentionForward, with all intermediate results.
//
// Letters as in backend/ops.h, for one sequence: T queries, S keys. Arrays are dense and float32,
// sums are double. REQUIRES everywhere: sizes that match.

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
// The formula as written, without subtracting the row's maximum: it overflows to NaN from x = 89
// on, and vanishes below -87. It shows why implementations subtract the maximum.
StepTensor NaiveSoftmax(const Tensor& x);
// Each row becomes x / sum of x, zeros where the sum is 0.
StepTensor DividedBySum(const Tensor& x);

// Returns which keys each of T queries may attend to, (T,S), 0 for not: keys that are 0 in `keys`
// (S) are masked and, if `causal`, later ones too; the last query is at the last key.
std::vector<uint8_t> AttentionMask(int64_t T, std::span<const uint8_t> keys, bool causal);
inline std::vector<uint8_t> CausalMask(int64_t T) {
  return AttentionMask(T, std::vector<uint8_t>(static_cast<size_t>(T), 1), true);
}

// How scores become weights.
enum class Weighting {
  kSoftmax,
  kNaiveSoftmax,  // exp(x) / sum of exp(x) as written: overflows
  kSum,           // x / sum of x: sums to 1, but is no softmax
  kNone,          // the scores themselves
};

enum class MaskOrder {
  kBeforeSoftmax,  // scores become -infinity
  kAfterSoftmax,   // weights become 0, and the row is divided by its sum
};

// The parameters of an attention layer in GPT-2's orientation (in,out); empty ones are left out.
struct AttentionParams {
  LinearParams q, k, v;  // (d_in, H*D), (d_kv_in, G*D), (d_kv_in, G*D)
  LinearParams out;      // (H*D, H*D)
};

struct AttentionOptions {
  int64_t H = 1;
  std::optional<double> scale = {};  // factor of the scores; 1/sqrt(D) if not given
  std::vector<uint8_t> mask = {};    // (T,S), see AttentionMask; empty for none
  MaskOrder mask_order = MaskOrder::kBeforeSoftmax;
  Weighting weighting = Weighting::kSoftmax;
  Dropout dropout = {};  // of the weights; row (h * T + t), width S
};

// The result of each step. A step that the options leave out is the same tensor as the step before.
struct AttentionSteps {
  Tensor q, k, v;  // (T,H*D), (S,G*D), (S,G*D)
  Tensor scores;   // (H,T,S), like the following: scale * q k^T
  Tensor masked;   // kBeforeSoftmax: -infinity where masked (0 for the weightings without exp)
  Tensor softmax;  // after the weighting: rows that sum to 1, except for kNone
  Tensor weights;  // kAfterSoftmax: 0 where masked, rows sum to 1 again
  Tensor kept;     // after dropout
  Tensor context;  // (T,H*D)
  Tensor out;      // (T,H*D)
  std::vector<StepTensor> memory = {};  // owns the tensors
};

// Attends from query (T,d_in) to key and value (S,d_kv_in), which may all be the same sequence
// (self-attention) and must outlive the result. `backend` runs projections and dropout.
AttentionSteps Attend(Backend& backend, const AttentionParams& params, const Tensor& query,
                      const Tensor& key, const Tensor& value, const AttentionOptions& options = {});
inline AttentionSteps Attend(Backend& backend, const AttentionParams& params, const Tensor& x,
                             const AttentionOptions& options = {}) {
  return Attend(backend, params, x, x, x, options);
}

// Returns matrices with equal numbers of rows, side by side.
StepTensor SideBySide(std::span<const Tensor> parts);

// Sizes of an attention layer with weights. Heads of queries, keys and values all have D = d_out /
// H elements.
struct AttentionSizes {
  int64_t d_in = 0;     // width of the input of queries
  int64_t d_kv_in = 0;  // width of the input of keys and values; 0 for d_in
  int64_t d_out = 0;    // for all heads together
  int64_t H = 1;
  int64_t G = 0;          // heads of keys and values; 0 for H
  bool bias = false;      // for q, k and v
  bool out_proj = false;  // with an output projection, which has a bias

  int64_t kv_out() const { return (G == 0 ? H : G) * (d_out / H); }  // width of keys, of values
  int64_t kv_in() const { return d_kv_in == 0 ? d_in : d_kv_in; }
};

// Parameters in memory of their own.
struct AttentionWeights {
  AttentionParams params = {};
  std::vector<StepTensor> memory = {};
};

// Returns the weights of one layer with several heads that computes the same as these single heads,
// without biases or output projections, side by side: their columns side by side.
AttentionWeights JoinHeads(std::span<const AttentionWeights> heads);

// Draws random weights one after the other: PyTorch's draws, or folio's own numbers, each a
// function of seed, index of the draw, layer and element.
class AttentionDraws {
 public:
  AttentionDraws(uint64_t seed, bool torch) : seed_(seed) {
    if (torch) torch_.emplace(seed);
  }

  // Draws weights and biases uniformly within 1/sqrt(in), like torch.nn.Linear: in the order
  // (out,in), each layer's weight before its bias; q, k, v and, if there is one, out.
  AttentionWeights Linear(const AttentionSizes& sizes);
  // Draws weights of a layer without biases or output projection uniformly in [0,1), in the order
  // (in,out), like torch.rand(d_in, d_out).
  AttentionWeights Unit(const AttentionSizes& sizes);
  void Normal(std::span<float> out);

 private:
  // `layer` is q, k, v or out, from 0 on; `bias` is true for its bias.
  void Uniform(std::span<float> out, double low, double high, uint64_t layer, bool bias);

  uint64_t seed_;
  uint64_t drawn_ = 0;
  std::optional<TorchRng> torch_;
};

}  // namespace folio
