#pragma once

#include "folio/model/activations.h"
#include "folio/model/context.h"
#include "folio/model/params.h"

namespace folio {

// LayerNorm: J. L. Ba, J. R. Kiros, G. E. Hinton, arXiv:1607.06450. x is (N,C).
void NormForward(const PassContext& pass, const NormParams& params, const Tensor& x,
                 const NormActivations& acts);

// d_x gets the gradient of x, added to what is there if accumulate; it may be d_out itself if that
// is not BF16.
void NormBackward(const PassContext& pass, const NormParams& params, const Tensor& x,
                  const NormActivations& acts, const Tensor& d_out, const NormParams& d_params,
                  const Tensor& d_x, bool accumulate);

}  // namespace folio
