#pragma once

#include "folio/model/layers/linear.h"

namespace folio {

// The feed-forward sublayer: out = c_proj(dropout(activation(c_fc(x)))), or with a gate (N.
// Shazeer, arXiv:2002.05202) c_proj(dropout(activation(gate) * up)), where c_fc gives gate | up.

inline constexpr Linear kCFc = {.name = "mlp.c_fc",
                                .adapted = "lora.c_fc",
                                .init = InitKind::kWeight,
                                .axis = ShardAxis::kUp,
                                .adapter_dropout = {.number = 8},
                                .parts = {"mlp.c_fc.gate", "mlp.c_fc.up"},
                                .spread = "lora.c_fc.spread"};
inline constexpr Linear kMlpCProj = {.name = "mlp.c_proj",
                                     .adapted = "lora.mlp_c_proj",
                                     .init = InitKind::kResidualWeight,
                                     .axis = ShardAxis::kRows,
                                     .adapter_dropout = {.number = 9}};
inline constexpr DropoutPlace kActivationDropout = {
    .number = 3, .rate = &GptConfig::mlp_pdrop, .rows = DropoutPlace::kInner};

struct MlpParams {
  LinearParams c_fc;    // (C,F), gated (C,2F)
  LinearParams c_proj;  // (F,C)
};

struct MlpActivations {
  Tensor fc;   // (N,F), before the activation; gated (N,2F)
  Tensor act;  // (N,F)
  LinearActivations c_fc, c_proj;
};

// The same as ForEachAttentionLinear (attention.h), for the linear layers of this sublayer.
template <class Visit, class... Layers>
constexpr void ForEachMlpLinear(Visit&& visit, Layers&... layers) {
  visit(kCFc, layers.c_fc...);
  visit(kMlpCProj, layers.c_proj...);
}

template <class Visit, class Params>
void VisitMlpParams(const ParamList<Visit>& list, Params& params) {
  const int64_t C = list.config.n_embd, F = list.config.inner();
  const bool bias = list.config.has_mlp_bias();
  VisitParams(list, kCFc, params.c_fc, {C, list.config.up_width()}, bias);
  VisitParams(list, kMlpCProj, params.c_proj, {F, C}, bias);
}

template <class Visit>
void VisitMlpBuffers(const BufferList<Visit>& list, MlpActivations& acts) {
  const int64_t N = list.pass.N();
  list.Add("fc", acts.fc, list.low(), {N, list.pass.up_width()});
  list.Add("act", acts.act, list.low(), {N, list.pass.F()});
}

// x and out are (N,C); out is before its own dropout.
void MlpForward(const PassContext& pass, int64_t layer, const MlpParams& params,
                const MlpActivations& acts, const Tensor& scratch, const Tensor& x,
                const Tensor& out);

// d_out (N,C) is the gradient of out. d_x (N,C) gets that of x, added to what is there if
// accumulate. Scratch: grads.d_wide, grads.d_act, grads.act.
void MlpBackward(const PassContext& pass, int64_t layer, const MlpParams& params,
                 const MlpActivations& acts, const Tensor& x, const Tensor& d_out,
                 const MlpParams& d_params, const GptGradients& grads, const Tensor& d_x,
                 bool accumulate);

}  // namespace folio
