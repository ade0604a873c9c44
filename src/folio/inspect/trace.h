#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "folio/model/context.h"
#include "folio/model/gpt.h"

namespace folio {

// Row `row` of (rows, width), float32.
inline std::span<const float> Row(const Tensor& x, int64_t row) {
  return {x.host<float>() + row * x.dim(1), static_cast<size_t>(x.dim(1))};
}

// One head's attention over the traced tokens.
struct HeadTrace {
  int64_t T = 0, D = 0;
  std::vector<float> q = {}, k = {}, v = {};  // (T,D)
  std::vector<float> scores = {};             // (T,T), scaled, before the mask
  std::vector<float> weights = {};            // (T,T), 0 for keys after the query if causal
  std::vector<float> context = {};            // (T,D)
};

// The intermediate results of one text in a model, kept for `folio inspect`, `folio explain`,
// figures and the web page. Attention weights are not kept (H*T*T numbers a layer): each head's are
// recomputed from its queries and keys on request.
class Trace {
 public:
  // Runs the model on ids (1 to n_positions ids, each in [0,V)) and keeps `points`. Head needs
  // kQkv, the logit lens needs kEmbedded and kOutput, token scores need kOutput. `backend` and
  // `weights` (float32) must outlive it. `mask` (T,T) is added to the scores of each query in
  // addition to the configuration's mask (as ops.h defines), or empty. Throws a kUsage Error for
  // other ids, weights or masks, and a kResource Error if memory does not suffice.
  Trace(Backend& backend, const GptWeights& weights, std::span<const int32_t> ids,
        const std::vector<TracePoint>& points, std::span<const float> mask = {});
  Trace(const Trace&) = delete;

  static std::vector<TracePoint> AllPoints();

  int64_t T() const { return static_cast<int64_t>(ids_.size()); }
  std::span<const int32_t> ids() const { return ids_; }
  const GptWeights& weights() const { return weights_; }
  const GptConfig& config() const { return weights_.config(); }
  Backend& backend() const { return backend_; }

  bool Has(TracePoint point) const { return !Kept(point).empty(); }
  // (T, width), float32. Throws a kUsage Error for a layer or, below, a head that the model lacks.
  // REQUIRES: the point was kept.
  Tensor At(TracePoint point, int64_t layer = 0) const;
  // The stream before block `layer`, for layer = L after the last: (T,C). REQUIRES: kEmbedded for
  // layer 0, kOutput for the others.
  Tensor Stream(int64_t layer) const;
  HeadTrace Head(int64_t layer, int64_t head) const;
  // Writes only the weights into (T,T). REQUIRES: `weights` has room for them.
  void HeadWeights(int64_t layer, int64_t head, std::span<float> weights) const;
  // Logits of rows [begin, end) of `stream` (any number of rows, C), as if it were the last block's
  // output: through ln_f and the head, into out (end - begin, V). Throws a kDiverged Error if they
  // are not finite.
  void Logits(const Tensor& stream, int64_t begin, int64_t end, const Tensor& out) const;

 private:
  class Keeper;

  const std::vector<Tensor>& Kept(TracePoint point) const {
    return kept_[static_cast<size_t>(point)];
  }

  Backend& backend_;
  const GptWeights& weights_;
  std::vector<int32_t> ids_;
  std::vector<float> mask_values_;
  Tensor mask_;  // (1,1,T,T), empty for none
  Arena arena_;
  std::array<std::vector<Tensor>, kTracePoints.size()> kept_;  // by layer; empty if not kept
};

}  // namespace folio
