#pragma once

#include <utility>
#include <vector>

#include "folio/model/block.h"
#include "folio/model/layers/embedding.h"
#include "folio/model/layers/head.h"

namespace folio {

// The parameters of a model, or their gradients; what the configuration leaves out is empty.
struct GptParams : EmbeddingParams, HeadParams {
  std::vector<BlockParams> h;
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
  VisitNormParams(list, "ln_f", params.ln_f);
  VisitHeadParams(list, params);
}

}  // namespace folio
