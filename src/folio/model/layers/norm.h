#pragma once

#include <array>
#include <string_view>

#include "folio/model/context.h"
#include "folio/model/layers/declaration.h"

namespace folio {

// LayerNorm: J. L. Ba, J. R. Kiros, G. E. Hinton, arXiv:1607.06450.

struct NormParams {
  Tensor weight, bias;  // (C), (C)
};

struct NormActivations {
  Tensor out, mean, rstd;  // (N,C), (N), (N)
};

template <class Visit, class Params>
void VisitNormParams(const ParamList<Visit>& list, std::string_view module, Params& params) {
  using enum ParamKind;
  const Shape shape = {list.config.n_embd};
  list.Add(module, "weight", params.weight, shape, kElementwise, InitKind::kOne);
  if (!list.config.has_layer_norm_bias()) return;
  list.Add(module, "bias", params.bias, shape, kElementwise, InitKind::kZero);
}

// `names` are those of the result, which is in `dtype`, of mean and of rstd.
template <class Visit>
void VisitNormBuffers(const BufferList<Visit>& list, const std::array<std::string_view, 3>& names,
                      NormActivations& acts, Dtype dtype, Beyond beyond = Beyond::kNothing) {
  const int64_t N = list.pass.N();
  list.Add(names[0], acts.out, dtype, {N, list.pass.config.n_embd}, beyond);
  list.Add(names[1], acts.mean, list.number(), {N});
  list.Add(names[2], acts.rstd, list.number(), {N});
}

// x is (N,C).
void NormForward(const PassContext& pass, const NormParams& params, const Tensor& x,
                 const NormActivations& acts);

// d_x gets the gradient of x, added to what is there if accumulate; it may be d_out itself if that
// is not BF16.
void NormBackward(const PassContext& pass, const NormParams& params, const Tensor& x,
                  const NormActivations& acts, const Tensor& d_out, const NormParams& d_params,
                  const Tensor& d_x, bool accumulate);

}  // namespace folio
