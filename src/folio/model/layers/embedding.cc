#include "folio/model/layers/embedding.h"

#include <cmath>

namespace folio {

void FillSinusoids(const Tensor& out) {
  const int64_t P = out.dim(0), C = out.dim(1);
  FOLIO_CHECK(C % 2 == 0, "sines and cosines come in pairs");
  const auto set = [&](int64_t index, double value) {
    if (out.dtype() == Dtype::kF64) {
      out.host<double>()[index] = value;
    } else {
      out.host<float>()[index] = static_cast<float>(value);
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

namespace {

// One lookup of a pass: of its tokens, or of those before them.
struct Lookup {
  const PassContext& pass;
  const Tensor& ids;
  const LookupActivations& acts;

  void Forward(const Tensor& wte, const Tensor& wpe, const Tensor& out) const {
    const Tensor& rows = acts.raw ? acts.raw : out;
    // The first shard adds the position.
    pass.backend.Run(EmbeddingForward{.ids = ids,
                                      .wte = wte,
                                      .wpe = pass.shard.index == 0 ? wpe : Tensor(),
                                      .out = rows,
                                      .positions = pass.positions});
    pass.Sum(rows);
    if (pass.config.embedding_scale != 1) {
      pass.backend.Run(Scale{.x = rows, .factor = pass.config.embedding_scale});
    }
    if (!acts.raw) return;
    pass.backend.Run(RmsNormForward{
        .x = rows, .out = out, .rstd = acts.rstd, .eps = pass.config.layer_norm_epsilon});
  }

  // d_out is overwritten.
  void Backward(const Tensor& d_out, const Tensor& d_wte, const Tensor& d_wpe) const {
    if (acts.raw) {
      pass.backend.Run(
          RmsNormBackward{.x = acts.raw, .rstd = acts.rstd, .d_out = d_out, .d_x = d_out});
    }
    if (pass.config.embedding_scale != 1) {
      pass.backend.Run(Scale{.x = d_out, .factor = pass.config.embedding_scale});
    }
    pass.backend.Run(EmbeddingBackward{
        .ids = ids, .d_out = d_out, .d_wte = d_wte, .d_wpe = d_wpe, .positions = pass.positions});
  }
};

}  // namespace

void EmbedForward(const PassContext& pass, const EmbeddingParams& params, const Tensor& previous,
                  const Tensor& sinusoids, const EmbeddingActivations& acts) {
  const Tensor& wpe = sinusoids ? sinusoids : params.wpe;
  const Tensor& out = acts.embedded;
  Lookup{pass, pass.ids, acts.tokens_raw}.Forward(params.wte, wpe, acts.tokens ? acts.tokens : out);
  if (acts.tokens) {
    Lookup{pass, previous, acts.previous_raw}.Forward(params.wte, {}, acts.previous);
    pass.backend.Run(ResidualForward{.x = acts.tokens, .out = out});
    pass.backend.Run(GatedAddForward{.x = acts.tokens,
                                     .weight = params.smear_gate,
                                     .y = acts.previous,
                                     .factor = params.smear_lambda,
                                     .out = SequenceView(out, 1, pass.N(), 0, out.dim(1))});
  }
  pass.Drop(out, pass.EmbeddingDropout());
  pass.Show(TracePoint::kEmbedded, 0, out);
}

void EmbedBackward(const PassContext& pass, const EmbeddingParams& params, const Tensor& previous,
                   const EmbeddingActivations& acts, const EmbeddingParams& d_params,
                   const GptGradients& grads) {
  if (!d_params.wte) return;
  const Tensor& d_out = grads.d_stream;
  pass.Drop(d_out, pass.EmbeddingDropout());
  if (acts.tokens) {
    pass.backend.Run(GatedAddBackward{.x = acts.tokens,
                                      .weight = params.smear_gate,
                                      .y = acts.previous,
                                      .factor = params.smear_lambda,
                                      .d_out = SequenceView(d_out, 1, pass.N(), 0, d_out.dim(1)),
                                      .d_y = grads.d_previous,
                                      .d_x = d_out,
                                      .d_weight = d_params.smear_gate,
                                      .d_factor = d_params.smear_lambda});
    Lookup{pass, previous, acts.previous_raw}.Backward(grads.d_previous, d_params.wte, {});
  }
  Lookup{pass, pass.ids, acts.tokens_raw}.Backward(d_out, d_params.wte, d_params.wpe);
}

}  // namespace folio
