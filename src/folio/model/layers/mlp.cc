#include "folio/model/layers/mlp.h"

namespace folio {

namespace {

// Applies the activation to c_fc's result, where no product did so on its way.
void Activate(const PassContext& pass, bool gated, const Tensor& fc, const Tensor& act) {
  const Activation kind = pass.config.activation_function;
  if (gated) {
    pass.backend.Run(GatedForward{.kind = kind, .x = fc, .out = act});
  } else {
    pass.backend.Run(ActivationForward{.kind = kind, .x = fc, .out = act});
  }
}

}  // namespace

void MlpForward(const PassContext& pass, int64_t layer, const MlpParams& params,
                const MlpActivations& acts, const Tensor& scratch, const Tensor& x,
                const Tensor& out) {
  const bool gated = pass.config.layer(layer).mlp == MlpKind::kGated;
  LinearLayerForward(pass, layer, kCFc, params.c_fc, acts.c_fc, scratch,
                     {.x = x,
                      .weight = {},
                      .out = acts.fc,
                      .act = gated ? Tensor() : acts.act,
                      .activation = pass.config.activation_function});
  if (gated) Activate(pass, gated, acts.fc, acts.act);
  pass.Show(TracePoint::kUp, layer, acts.fc);
  pass.Show(TracePoint::kActivated, layer, acts.act);
  pass.Drop(acts.act, pass.BlockDropout(layer, kActivationDropout));
  LinearLayerForward(pass, layer, kMlpCProj, params.c_proj, acts.c_proj, scratch,
                     {.x = acts.act, .weight = {}, .out = out});
}

void MlpBackward(const PassContext& pass, int64_t layer, const MlpParams& params,
                 const MlpActivations& acts, const Tensor& x, const Tensor& d_out,
                 const MlpParams& d_params, const GptGradients& grads, const Tensor& d_x,
                 bool accumulate) {
  const Dropout dropout = pass.BlockDropout(layer, kActivationDropout);
  const Tensor d_fc = grads.d_wide.First(acts.fc.shape());
  const bool gated = pass.config.layer(layer).mlp == MlpKind::kGated;
  LinearBackward down{.x = acts.act,
                      .weight = {},
                      .d_out = d_out,
                      .pre = gated ? Tensor() : acts.fc,
                      .d_x = gated ? grads.d_act : d_fc,
                      .activation = pass.config.activation_function};
  if (grads.act) {
    down.x = grads.act;
    Activate(pass, gated, acts.fc, grads.act);
    pass.Drop(grads.act, dropout);
  }
  LinearLayerBackward(pass, layer, kMlpCProj, params.c_proj, acts.c_proj, d_params.c_proj, grads,
                      down);
  pass.Drop(down.d_x, dropout);  // a factor of each element, as the activation's slope is
  if (gated) {
    pass.backend.Run(
        GatedBackward{.kind = down.activation, .x = acts.fc, .d_out = grads.d_act, .d_x = d_fc});
  }
  LinearLayerBackward(
      pass, layer, kCFc, params.c_fc, acts.c_fc, d_params.c_fc, grads,
      {.x = x, .weight = {}, .d_out = d_fc, .d_x = d_x, .accumulate_d_x = accumulate});
}

}  // namespace folio
