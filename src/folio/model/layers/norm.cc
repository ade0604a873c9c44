#include "folio/model/layers/norm.h"

namespace folio {

void NormForward(const PassContext& pass, const NormParams& params, const Tensor& x,
                 const NormActivations& acts) {
  const double eps = pass.config.layer_norm_epsilon;
  if (!pass.config.layer_norm()) {
    return pass.backend.Run(RmsNormForward{.x = x,
                                           .weight = params.weight,
                                           .out = acts.out,
                                           .rstd = acts.rstd,
                                           .eps = eps,
                                           .weight_offset = pass.config.norm_offset()});
  }
  pass.backend.Run(LayerNormForward{.x = x,
                                    .weight = params.weight,
                                    .bias = params.bias,
                                    .out = acts.out,
                                    .mean = acts.mean,
                                    .rstd = acts.rstd,
                                    .eps = eps});
}

void NormBackward(const PassContext& pass, const NormParams& params, const Tensor& x,
                  const NormActivations& acts, const Tensor& d_out, const NormParams& d_params,
                  const Tensor& d_x, bool accumulate) {
  if (!pass.config.layer_norm()) {
    return pass.backend.Run(RmsNormBackward{.x = x,
                                            .weight = params.weight,
                                            .rstd = acts.rstd,
                                            .d_out = d_out,
                                            .d_x = d_x,
                                            .d_weight = d_params.weight,
                                            .weight_offset = pass.config.norm_offset(),
                                            .accumulate_d_x = accumulate});
  }
  pass.backend.Run(LayerNormBackward{.x = x,
                                     .weight = params.weight,
                                     .mean = acts.mean,
                                     .rstd = acts.rstd,
                                     .d_out = d_out,
                                     .d_x = d_x,
                                     .d_weight = d_params.weight,
                                     .d_bias = d_params.bias,
                                     .accumulate_d_x = accumulate});
}

}  // namespace folio
