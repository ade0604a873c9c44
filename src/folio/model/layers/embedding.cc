#include "folio/model/layers/embedding.h"

#include <cmath>

namespace folio {

void FillSinusoids(const Tensor& out) {
  const int64_t P = out.dim(0), C = out.dim(1);
  FOLIO_CHECK(C % 2 == 0, "sines and cosines come in pairs");
  const auto set = [&](int64_t index, double value) {
    if (out.dtype() == Dtype::kF64) {
      out.data<double>()[index] = value;
    } else {
      out.data<float>()[index] = static_cast<float>(value);
    }
  };
  for (int64_t p = 0; p < P; ++p) {
    for (int64_t c = 0; c < C; c += 2) {
      const double angle = static_cast<double>(p) /
                           std::pow(10000.0, static_cast<double>(c) / static_cast<double>(C));
      set(p * C + c, std::sin(angle));
      set(p * C + c + 1, std::cos(angle));
    }
  }
}

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
  if (pass.config.embedding_scale != 1) {
    pass.backend.Run(Scale{.x = out, .factor = pass.config.embedding_scale});
  }
  pass.Drop(out, pass.EmbeddingDropout());
  pass.Show(TracePoint::kEmbedded, 0, out);
}

void EmbedBackward(const PassContext& pass, const Tensor& ids, const Tensor& d_out,
                   const EmbeddingParams& d_params) {
  if (!d_params.wte) return;
  pass.Drop(d_out, pass.EmbeddingDropout());
  if (pass.config.embedding_scale != 1) {
    pass.backend.Run(Scale{.x = d_out, .factor = pass.config.embedding_scale});
  }
  pass.backend.Run(EmbeddingBackward{.ids = ids,
                                     .d_out = d_out,
                                     .d_wte = d_params.wte,
                                     .d_wpe = d_params.wpe,
                                     .positions = pass.positions});
}

}  // namespace folio
