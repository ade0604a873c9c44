#include "folio/model/self_attention.h"

namespace folio {

SelfAttention::SelfAttention(Backend& backend, const AttentionSizes& sizes, int64_t B, int64_t T,
                             const AttentionOptions& options, Dtype dtype)
    : attention_(backend, sizes, B, T, T, options, dtype) {
  FOLIO_CHECK(sizes.H == 1 && !sizes.out_proj && sizes.kv_in() == sizes.d_in,
              "one head of self-attention has one input and no output projection");
}

const Tensor& SelfAttention::Forward(const AttentionParams& params, const Tensor& x) {
  return attention_.Forward(params, x, x);
}

void SelfAttention::Backward(const AttentionParams& params, const Tensor& x,
                             const Tensor& d_context, const AttentionParams& d_params,
                             const Tensor& d_x) {
  attention_.Backward(params, x, x, d_context, d_params, d_x, d_x);
}

}  // namespace folio
