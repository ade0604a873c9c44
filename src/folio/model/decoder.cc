#include "folio/model/decoder.h"

#include "folio/base/error.h"
#include "folio/model/head.h"
#include "folio/model/positions.h"
#include "folio/model/transformer.h"

namespace folio {
namespace {

const GptConfig& Causal(const GptConfig& config) {
  if (config.causal) return config;
  throw UsageError("this model cannot write, token by token",
                   "it has causal = false: what it makes of a token depends on those that follow",
                   "look into it with folio inspect and folio explain, or train one with "
                   "model.causal = true");
}

}  // namespace

Decoder::Decoder(Backend& backend, const GptConfig& config, const GptParams& params, Dtype dtype)
    : backend_(backend),
      config_(Causal(config)),
      params_(params),
      dtype_(dtype),
      cache_(config_, dtype) {
  FOLIO_CHECK(backend.Supports(dtype) && dtype != Dtype::kBF16, "decoding is in float32 or 64");
  plan_ = PlanBuffers(Pass(capacity()));
  arena_ = Arena(plan_);
  BindBuffers(Pass(capacity()), plan_, arena_, buffers_);
  if (buffers_.sinusoids) FillSinusoids(buffers_.sinusoids);
}

PassShape Decoder::Pass(int64_t rows) const {
  return {.config = config_, .B = 1, .T = rows, .kind = PassKind::kDecode, .options = {dtype_}};
}

const Tensor& Decoder::Append(std::span<const int32_t> ids) {
  const int64_t rows = static_cast<int64_t>(ids.size());
  FOLIO_CHECK(rows >= 1 && size() + rows <= capacity(), "the sequence is longer than the context");
  BindBuffers(Pass(rows), plan_, arena_, buffers_);
  GptActivations& acts = buffers_.acts;
  for (size_t l = 0; l < acts.h.size(); ++l) {
    acts.h[l].qkv = cache_.Next(l, rows);
    acts.h[l].past = cache_.UpToNext(l, rows);
  }
  CopyTokens(ids, buffers_.ids, 0, config_.vocab_size);
  const PassContext pass{
      .backend = backend_, .config = config_, .B = 1, .T = rows, .first_position = size()};
  TransformerForward(pass, params_, buffers_);
  HeadLogits(pass, params_, acts.norm_f.out.Slice(rows - 1, rows), acts.logits);
  cache_.Advance(rows);
  return acts.logits;
}

}  // namespace folio
