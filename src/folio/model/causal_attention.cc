#include "folio/model/causal_attention.h"

namespace folio {

CausalAttention::CausalAttention(Backend& backend, const AttentionSizes& sizes, int64_t B,
                                 int64_t T, MaskOrder order, Dtype dtype)
    : mask_(AttentionMask::Causal(T, T)),
      attention_(backend, sizes, B, T, {.mask = mask_.tensor(), .mask_order = order}, dtype) {}

const Tensor& CausalAttention::Forward(const AttentionParams& params, const Tensor& x) {
  return attention_.Forward(params, x);
}

void CausalAttention::Backward(const AttentionParams& params, const Tensor& x,
                               const Tensor& d_context, const AttentionParams& d_params,
                               const Tensor& d_x) {
  attention_.Backward(params, x, d_context, d_params, d_x);
}

}  // namespace folio
