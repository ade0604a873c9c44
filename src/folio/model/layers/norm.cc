#include "folio/model/layers/norm.h"

namespace folio {

namespace {

// Calls run with the operation of a norm of x.
template <class Run>
void WithNorm(const PassContext& pass, const NormParams& params, const Tensor& x,
              const NormActivations& acts, const Run& run) {
  const double eps = pass.config.layer_norm_epsilon;
  if (!pass.config.layer_norm()) {
    return run(RmsNormForward{.x = x,
                              .weight = params.weight,
                              .out = acts.out,
                              .rstd = acts.rstd,
                              .eps = eps,
                              .weight_offset = pass.config.norm_offset()});
  }
  run(LayerNormForward{.x = x,
                       .weight = params.weight,
                       .bias = params.bias,
                       .out = acts.out,
                       .mean = acts.mean,
                       .rstd = acts.rstd,
                       .eps = eps});
}

}  // namespace

void NormForward(const PassContext& pass, const NormParams& params, const Tensor& x,
                 const NormActivations& acts) {
  WithNorm(pass, params, x, acts, [&](const auto& norm) { pass.backend.Run(norm); });
}

void ResidualNormForward(const PassContext& pass, const ResidualForward& residual,
                         const NormStep& norm) {
  if (!pass.residual_norm) {
    pass.backend.Run(residual);
    return NormForward(pass, norm.params, residual.out, norm.acts);
  }
  WithNorm(pass, norm.params, {}, norm.acts, [&]<class Norm>(const Norm& of_sum) {
    pass.backend.Run(ResidualNorm<Norm>{.residual = residual, .norm = of_sum});
  });
}

void NormBackward(const PassContext& pass, const NormParams& params, const Tensor& x,
                  const NormActivations& acts, const Tensor& d_out, const NormParams& d_params,
                  const Tensor& d_x, bool accumulate, const Tensor& d_x_low) {
  if (!pass.config.layer_norm()) {
    return pass.backend.Run(RmsNormBackward{.x = x,
                                            .weight = params.weight,
                                            .rstd = acts.rstd,
                                            .d_out = d_out,
                                            .d_x = d_x,
                                            .d_weight = d_params.weight,
                                            .d_x_low = d_x_low,
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
                                     .d_x_low = d_x_low,
                                     .accumulate_d_x = accumulate});
}

}  // namespace folio
