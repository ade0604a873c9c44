#include "folio/model/mlp.h"

namespace folio {

void MlpSublayerForward(const PassContext& pass, int64_t layer, const BlockParams& params,
                        const BlockActivations& acts, const Tensor& x, const Tensor& out) {
  pass.backend.Run(LinearForward{
      .x = x, .weight = params.c_fc.weight, .bias = params.c_fc.bias, .out = acts.fc});
  pass.Show(TracePoint::kUp, layer, acts.fc);
  pass.backend.Run(
      ActivationForward{.kind = pass.config.activation(), .x = acts.fc, .out = acts.act});
  pass.Show(TracePoint::kActivated, layer, acts.act);
  pass.backend.Run(LinearForward{.x = acts.act,
                                 .weight = params.mlp_c_proj.weight,
                                 .bias = params.mlp_c_proj.bias,
                                 .out = out});
  pass.Show(TracePoint::kMlp, layer, out);
}

void MlpSublayerBackward(const PassContext& pass, const BlockParams& params,
                         const BlockActivations& acts, const Tensor& x, const Tensor& d_out,
                         const BlockParams& d_params, const GptGradients& grads, const Tensor& d_x,
                         bool accumulate) {
  const Tensor d_fc =
      Tensor(grads.d_wide.raw(), grads.d_wide.dtype(), {pass.N(), pass.config.inner()});
  LinearBackward down{.x = acts.act,
                      .weight = params.mlp_c_proj.weight,
                      .d_out = d_out,
                      .d_x = d_fc,
                      .d_weight = d_params.mlp_c_proj.weight,
                      .d_bias = d_params.mlp_c_proj.bias};
  const ActivationBackward activation{
      .kind = pass.config.activation(), .x = acts.fc, .d_out = d_fc, .d_x = d_fc, .out = grads.act};
  if (!grads.act) {
    pass.backend.Run(down);
    pass.backend.Run(activation);
  } else {
    // The activation's backward gives its result again, with the same exponentials.
    pass.backend.Run(LinearBackward{.weight = down.weight, .d_out = d_out, .d_x = d_fc});
    pass.backend.Run(activation);
    down.x = grads.act;
    down.d_x = {};
    pass.backend.Run(down);
  }
  pass.backend.Run(LinearBackward{.x = x,
                                  .weight = params.c_fc.weight,
                                  .d_out = d_fc,
                                  .d_x = d_x,
                                  .d_weight = d_params.c_fc.weight,
                                  .d_bias = d_params.c_fc.bias,
                                  .accumulate_d_x = accumulate});
}

}  // namespace folio
