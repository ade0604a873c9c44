#include "folio/model/model_summary.h"

#include "folio/model/head_layout.h"

namespace folio {

ModelSummary::ModelSummary(const ParamTable& table)
    : layers(table.config().n_layer),
      heads(table.config().n_head),
      kv_heads(table.config().head_layout().kv_heads),
      head_size(table.config().head_size()),
      channels(table.config().n_embd),
      feed_forward(table.config().inner()),
      context(table.config().n_positions),
      vocabulary(table.config().vocab_size),
      positions(table.config().position_embedding),
      norm(table.config().norm_position),
      activation(table.config().activation_function),
      tied(table.config().tie_word_embeddings),
      causal(table.config().causal) {
  for (const ParamInfo& info : table.params()) {
    Total& total = info.decay ? decayed : not_decayed;
    ++total.tensors;
    total.parameters += info.shape.count();
  }
}

}  // namespace folio
