#include "folio/model/transformer.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "folio/base/error.h"
#include "folio/model/layer_gate.h"

namespace folio {
namespace {

// The stream before a block, or behind the last: (N,C).
Tensor StreamBefore(const GptConfig& config, const GptActivations& acts, size_t layer) {
  return layer == 0 ? acts.embedded : BlockOutput(config, acts.h[layer - 1]);
}

}  // namespace

void CopyTokens(std::span<const int32_t> from, const Tensor& to, int32_t lowest, int64_t V) {
  if (std::ssize(from) != to.count()) {
    throw UsageError(fmt::format("{} tokens for a pass over {}", from.size(), to.count()),
                     "a pass has one size, B sequences of T tokens");
  }
  RequireTokens(from, V, "a pass", lowest);
  std::copy(from.begin(), from.end(), to.data<int32_t>());
}

void TransformerForward(const PassContext& pass, const GptParams& params,
                        const PassBuffers& buffers) {
  const GptActivations& acts = buffers.acts;
  const size_t L = acts.h.size();
  const auto ready = [&](size_t layer) {
    if (pass.gate != nullptr) pass.gate->BeforeForward(static_cast<int64_t>(layer));
  };
  if (pass.gate != nullptr) pass.gate->BeforeForward(-1);
  EmbedForward(pass, params, buffers.ids, buffers.sinusoids, acts.embedded);
  for (size_t l = 0; l < L; ++l) {
    ready(l);
    BlockForward(pass, static_cast<int64_t>(l), params.h[l], acts.h[l],
                 StreamBefore(pass.config, acts, l), acts.branch);
  }
  ready(L);
  NormForward(pass, params.ln_f, StreamBefore(pass.config, acts, L), acts.norm_f);
  pass.Show(TracePoint::kFinal, 0, acts.norm_f.out);
}

void TransformerBackward(const PassContext& pass, const GptParams& params,
                         const PassBuffers& buffers, const GptParams& d_params) {
  const GptActivations& acts = buffers.acts;
  const GptGradients& grads = buffers.grads;
  const size_t L = acts.h.size();
  NormBackward(pass, params.ln_f, StreamBefore(pass.config, acts, L), acts.norm_f, grads.d_branch,
               d_params.ln_f, grads.d_stream, false);
  const auto done = [&](int64_t layer) {
    if (pass.gate != nullptr) pass.gate->AfterBackward(layer);
  };
  done(static_cast<int64_t>(L));
  for (size_t l = L; l-- > 0;) {
    if (pass.gate != nullptr) pass.gate->BeforeBackward(static_cast<int64_t>(l));
    BlockBackward(pass, static_cast<int64_t>(l), params.h[l], acts.h[l],
                  StreamBefore(pass.config, acts, l), d_params.h[l], grads);
    done(static_cast<int64_t>(l));
  }
  EmbedBackward(pass, buffers.ids, grads.d_stream, d_params);
  done(-1);
}

}  // namespace folio
