#include "folio/model/transformer.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

#include "folio/base/error.h"
#include "folio/model/lifetimes.h"

namespace folio {

MemoryPlan PlanBuffers(const PassShape& pass) {
  MemoryPlan plan;
  PassBuffers none;
  std::vector<Beyond> beyond;
  VisitBuffers(pass, none, [&](const BufferRow& row, const Tensor&) {
    std::string name =
        row.layer < 0 ? std::string(row.name) : fmt::format("h.{}.{}", row.layer, row.name);
    plan.Add(std::move(name), row.dtype, row.shape);
    beyond.push_back(row.beyond);
  });
  const std::vector<Lifetime> lives = RecordLifetimes(pass, plan);
  for (size_t i = 0; i < lives.size(); ++i) {
    const bool input = beyond[i] == Beyond::kInput, stays = beyond[i] != Beyond::kNothing;
    plan.SetLife(static_cast<MemoryPlan::Id>(i), input ? 0 : lives[i].first,
                 stays ? MemoryPlan::kAlways : lives[i].last);
  }
  plan.Place();
  return plan;
}

void BindBuffers(const PassShape& pass, const MemoryPlan& plan, const Arena& arena,
                 PassBuffers& buffers) {
  MemoryPlan::Id next = 0;
  BindBuffersTo(pass, buffers, [&](const BufferRow& row) {
    const Tensor planned = arena.Get(plan, next++);
    FOLIO_CHECK(planned.dtype() == row.dtype && row.shape.count() <= planned.count(),
                "the plan is another pass's");
    return Tensor(planned.raw(), row.dtype, row.shape);
  });
}

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
