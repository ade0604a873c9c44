#include "folio/model/mlp.h"

#include "folio/model/linear_layer.h"

namespace folio {
namespace {

LinearLayer CFc(const PassContext& pass, int64_t layer, const BlockParams& params,
                const BlockActivations& acts) {
  return {params.c_fc, acts.lora.c_fc, pass.BlockDropout(layer, DropoutPlace::kFcAdapter),
          LinearLayer::kOutput};
}

LinearLayer CProj(const PassContext& pass, int64_t layer, const BlockParams& params,
                  const BlockActivations& acts) {
  return {params.mlp_c_proj, acts.lora.mlp_c_proj,
          pass.BlockDropout(layer, DropoutPlace::kMlpProjAdapter), LinearLayer::kInput};
}

}  // namespace

void MlpSublayerForward(const PassContext& pass, int64_t layer, const BlockParams& params,
                        const BlockActivations& acts, const Tensor& x, const Tensor& out) {
  LinearLayerForward(pass, CFc(pass, layer, params, acts), acts.lora.input,
                     {.x = x,
                      .weight = {},
                      .out = acts.fc,
                      .act = acts.act,
                      .activation = pass.config.activation()});
  pass.Show(TracePoint::kUp, layer, acts.fc);
  pass.Show(TracePoint::kActivated, layer, acts.act);
  pass.Drop(acts.act, pass.BlockDropout(layer, DropoutPlace::kActivation));
  LinearLayerForward(pass, CProj(pass, layer, params, acts), acts.lora.input,
                     {.x = acts.act, .weight = {}, .out = out});
  pass.Show(TracePoint::kMlp, layer, out);
}

void MlpSublayerBackward(const PassContext& pass, int64_t layer, const BlockParams& params,
                         const BlockActivations& acts, const Tensor& x, const Tensor& d_out,
                         const BlockParams& d_params, const GptGradients& grads, const Tensor& d_x,
                         bool accumulate) {
  const Dropout dropout = pass.BlockDropout(layer, DropoutPlace::kActivation);
  const Tensor d_fc = Tensor(grads.d_wide.raw(), grads.d_wide.dtype(),
                             {pass.N(), pass.shard.Size(pass.config.inner())});
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
  LinearLayerBackward(pass, CProj(pass, layer, params, acts), d_params.mlp_c_proj, grads, down);
  pass.Drop(d_fc, dropout);  // a factor of each element, as the activation's slope is
  LinearLayerBackward(
      pass, CFc(pass, layer, params, acts), d_params.c_fc, grads,
      {.x = x, .weight = {}, .d_out = d_fc, .d_x = d_x, .accumulate_d_x = accumulate});
}

}  // namespace folio
