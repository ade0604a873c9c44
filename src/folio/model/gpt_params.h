#pragma once

#include <cstdint>
#include <string_view>
#include <type_traits>
#include <vector>

#include "folio/model/block.h"
#include "folio/model/layers/embedding.h"
#include "folio/model/layers/head.h"

namespace folio {

// The parameters of a model, or their gradients; what the configuration leaves out is empty.
struct GptParams : EmbeddingAndHeadParams {
  std::vector<BlockParams> h;
  Tensor resid_lambdas, x0_lambdas, backout_lambda;  // (L), (L), (1), where there are such
  NormParams ln_f;
};

// The list of parameters: calls visit(row, slot) for each that a shard of the model with these
// adapters has, in Hugging Face's order; slot is its tensor in `params`, a GptParams of n_layer
// blocks, const or not. Allocates nothing.
template <class Params, class Visit>
void VisitParams(const GptConfig& config, const LoraConfig& lora, const Shard& shard,
                 Params& params, Visit&& visit) {
  ParamList<std::remove_reference_t<Visit>> list{config, lora, shard, visit};
  VisitEmbeddingParams(list, params);
  for (auto& h : params.h) {
    ++list.layer;
    VisitBlockParams(list, h);
  }
  list.layer = -1;
  const auto factors = [&](std::string_view name, auto& slot, int64_t count, InitKind init) {
    list.Add(name, "weight", slot, {count}, ParamKind::kElementwise, init);
  };
  if (config.residual_lambdas) {
    factors("resid_lambdas", params.resid_lambdas, config.n_layer, InitKind::kResidualFactor);
    factors("x0_lambdas", params.x0_lambdas, config.n_layer, InitKind::kEmbeddingFactor);
  }
  if (config.backout) {
    factors("backout_lambda", params.backout_lambda, 1, InitKind::kBackoutFactor);
  }
  VisitNormParams(list, "ln_f", params.ln_f);
  VisitHeadParams(list, params);
}

}  // namespace folio
