#include "folio/model/layers/mlp.h"

namespace folio {

void MlpForward(const PassContext& pass, int64_t layer, const MlpParams& params,
                const MlpActivations& acts, const Tensor& scratch, const Tensor& x,
                const Tensor& out) {
  LinearLayerForward(pass, layer, kCFc, params.c_fc, acts.c_fc, scratch,
                     {.x = x,
                      .weight = {},
                      .out = acts.fc,
                      .act = acts.act,
                      .activation = pass.config.activation()});
  pass.Show(TracePoint::kUp, layer, acts.fc);
  pass.Show(TracePoint::kActivated, layer, acts.act);
  pass.Drop(acts.act, pass.BlockDropout(layer, kActivationDropout));
  LinearLayerForward(pass, layer, kMlpCProj, params.c_proj, acts.c_proj, scratch,
                     {.x = acts.act, .weight = {}, .out = out});
  pass.Show(TracePoint::kMlp, layer, out);
}

void MlpBackward(const PassContext& pass, int64_t layer, const MlpParams& params,
                 const MlpActivations& acts, const Tensor& x, const Tensor& d_out,
                 const MlpParams& d_params, const GptGradients& grads, const Tensor& d_x,
                 bool accumulate) {
  const Dropout dropout = pass.BlockDropout(layer, kActivationDropout);
  const Tensor d_fc(grads.d_wide.raw(), grads.d_wide.dtype(), acts.fc.shape());
  LinearBackward down{.x = acts.act,
                      .weight = {},
                      .d_out = d_out,
                      .pre = acts.fc,
                      .d_x = d_fc,
                      .activation = pass.config.activation()};
  if (grads.act) {
    down.x = grads.act;
    pass.backend.Run(ActivationForward{.kind = down.activation, .x = acts.fc, .out = grads.act});
    pass.Drop(grads.act, dropout);
  }
  LinearLayerBackward(pass, layer, kMlpCProj, params.c_proj, acts.c_proj, d_params.c_proj, grads,
                      down);
  pass.Drop(d_fc, dropout);  // a factor of each element, as the activation's slope is
  LinearLayerBackward(
      pass, layer, kCFc, params.c_fc, acts.c_fc, d_params.c_fc, grads,
      {.x = x, .weight = {}, .d_out = d_fc, .d_x = d_x, .accumulate_d_x = accumulate});
}

}  // namespace folio
