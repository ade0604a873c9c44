#include "folio/model/layers/embedding.h"

namespace folio {

void EmbedForward(const PassContext& pass, const EmbeddingParams& params, const Tensor& ids,
                  const Tensor& sinusoids, const Tensor& out) {
  // The first shard adds the position.
  const Tensor wpe = sinusoids ? sinusoids : params.wpe;
  pass.backend.Run(EmbeddingForward{.ids = ids,
                                    .wte = params.wte,
                                    .wpe = pass.shard.index == 0 ? wpe : Tensor(),
                                    .out = out,
                                    .positions = pass.positions});
  pass.Sum(out);
  pass.Drop(out, pass.EmbeddingDropout());
  pass.Show(TracePoint::kEmbedded, 0, out);
}

void EmbedBackward(const PassContext& pass, const Tensor& ids, const Tensor& d_out,
                   const EmbeddingParams& d_params) {
  if (!d_params.wte) return;
  pass.Drop(d_out, pass.EmbeddingDropout());
  pass.backend.Run(EmbeddingBackward{.ids = ids,
                                     .d_out = d_out,
                                     .d_wte = d_params.wte,
                                     .d_wpe = d_params.wpe,
                                     .positions = pass.positions});
}

}  // namespace folio
