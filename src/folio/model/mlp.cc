#include "folio/model/mlp.h"

namespace folio {

void MlpSublayerForward(const PassContext& pass, int64_t layer, const BlockParams& params,
                        const BlockActivations& acts, const Tensor& x, const Tensor& out) {
  pass.backend.Run(LinearForward{.x = x,
                                 .weight = params.c_fc.weight,
                                 .bias = params.c_fc.bias,
                                 .out = acts.fc,
                                 .act = acts.act,
                                 .activation = pass.config.activation()});
  pass.Show(TracePoint::kUp, layer, acts.fc);
  pass.Show(TracePoint::kActivated, layer, acts.act);
  pass.Drop(acts.act, pass.BlockDropout(layer, DropoutPlace::kActivation));
  pass.backend.Run(LinearForward{.x = acts.act,
                                 .weight = params.mlp_c_proj.weight,
                                 .bias = params.mlp_c_proj.bias,
                                 .out = out});
  pass.Show(TracePoint::kMlp, layer, out);
}

void MlpSublayerBackward(const PassContext& pass, int64_t layer, const BlockParams& params,
                         const BlockActivations& acts, const Tensor& x, const Tensor& d_out,
                         const BlockParams& d_params, const GptGradients& grads, const Tensor& d_x,
                         bool accumulate) {
  const Dropout dropout = pass.BlockDropout(layer, DropoutPlace::kActivation);
  const Tensor d_fc =
      Tensor(grads.d_wide.raw(), grads.d_wide.dtype(), {pass.N(), pass.config.inner()});
  LinearBackward down{.x = acts.act,
                      .weight = params.mlp_c_proj.weight,
                      .d_out = d_out,
                      .pre = acts.fc,
                      .d_x = d_fc,
                      .d_weight = d_params.mlp_c_proj.weight,
                      .d_bias = d_params.mlp_c_proj.bias,
                      .accumulate_d_weight = pass.accumulate,
                      .activation = pass.config.activation()};
  if (grads.act) {
    down.x = grads.act;
    pass.backend.Run(ActivationForward{.kind = down.activation, .x = acts.fc, .out = grads.act});
    pass.Drop(grads.act, dropout);
  }
  pass.backend.Run(down);
  pass.Drop(d_fc, dropout);  // a factor of each element, as the activation's slope is
  pass.backend.Run(LinearBackward{.x = x,
                                  .weight = params.c_fc.weight,
                                  .d_out = d_fc,
                                  .d_x = d_x,
                                  .d_weight = d_params.c_fc.weight,
                                  .d_bias = d_params.c_fc.bias,
                                  .accumulate_d_x = accumulate,
                                  .accumulate_d_weight = pass.accumulate});
}

}  // namespace folio
