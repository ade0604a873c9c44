#include "folio/model/transformer.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

#include "folio/base/error.h"
#include "folio/model/lifetimes.h"

namespace folio {

namespace {

// Made-up addresses are never dereferenced. Buffers lie one behind the other; tensors that are no
// buffers of the pass all have one address before them.
constexpr uintptr_t kElsewhereAddress = 64, kFirstAddress = 4096;

std::byte* MadeUp(uintptr_t address) {
  return reinterpret_cast<std::byte*>(address);
}

Tensor Outside(Dtype dtype, const Shape& shape) {
  return {MadeUp(kElsewhereAddress), dtype, shape};
}

// Parameters of the pass, or their gradients, if only the trained ones are wanted.
GptParams MadeUpParams(const PassShape& shape, bool trained_only) {
  GptParams params;
  params.h.resize(static_cast<size_t>(shape.config.n_layer));
  VisitParams(
      shape.config, shape.lora(), shape.shard(), params, [&](const ParamRow& row, Tensor& slot) {
        if (!row.trained && trained_only) return;
        slot = Outside(shape.options.number(), row.shape);
        params.BindHead(row, Outside(slot.dtype(), PaddedShape(row, shape.options.row_multiple)));
      });
  return params;
}

// Up to logits or losses, and all the way back in training.
void RunPass(const PassContext& pass, const PassShape& shape, const PassBuffers& buffers) {
  const GptParams params = MadeUpParams(shape, false);
  const HeadActivations& acts = buffers.acts;
  TransformerForward(pass, params, buffers);
  if (shape.kind == PassKind::kDecode) {
    const Tensor& logits = acts.logits.device;
    return HeadLogits(pass, params, acts.norm_f.out.Slice(0, logits.dim(0)), logits, acts.chunk);
  }
  // Two chunks of the head's rows use what any number of them uses.
  PassContext head = pass;
  head.B = 1;
  head.T = std::min(shape.N(), 2 * acts.chunk.dim(0));
  if (!shape.training()) {
    return HeadForward(head, params, acts, buffers.targets.device, Outside(Dtype::kF64, {1}));
  }
  const GptParams d_params = MadeUpParams(shape, true);
  HeadForwardBackward(head, params, acts, buffers.targets.device, 1, d_params, buffers.grads,
                      Outside(Dtype::kF64, {1}));
  TransformerBackward(pass, params, buffers, d_params);
}

// Runs a pass dry, over buffers at made-up addresses, and says how its operations use the buffers
// of VisitBuffers, which `plan` has in that order, placed or not.
std::vector<Lifetime> RecordLifetimes(const PassShape& shape, const MemoryPlan& plan) {
  std::vector<const std::byte*> begins;
  begins.reserve(plan.buffers().size() + 1);
  uintptr_t next = kFirstAddress;
  for (const MemoryPlan::Buffer& buffer : plan.buffers()) {
    begins.push_back(MadeUp(next));
    next += buffer.bytes;
  }
  begins.push_back(MadeUp(next));
  PassBuffers buffers;
  size_t at = 0;
  BindBuffersTo(shape, buffers, [&](const BufferRow& row) {
    return Tensor(const_cast<std::byte*>(begins[at++]), row.dtype, row.shape);
  });

  BufferUses uses(std::move(begins));
  PassContext pass{.backend = uses,
                   .config = shape.config,
                   .lora = shape.lora(),
                   .shard = shape.shard(),
                   .B = shape.B,
                   .T = shape.T,
                   .mask = buffers.same_text.device,
                   .dropout = {.on = shape.training()},
                   .trace = &uses,
                   .group = &uses.group(),
                   .positions = buffers.positions.device,
                   .residual_norm = shape.options.preferences.residual_norm};
  CachedRows cached;
  std::vector<Tensor> pages;
  if (shape.kind == PassKind::kDecode) {
    const int64_t N = shape.N(), width = shape.heads().kv_width();
    const Dtype number = shape.options.number();
    pages.assign(static_cast<size_t>(shape.config.n_layer), Outside(number, {N, width}));
    cached = {.pages = pages,
              .tables = Outside(Dtype::kI32, {N, 1}),
              .window_tables = Outside(Dtype::kI32, {N, 1}),
              .keys = Outside(number, {N, width}),
              .values = Outside(number, {N, width}),
              .S = N};
    pass.positions = Outside(Dtype::kI32, {1, N});
    pass.cached = &cached;
  }
  RunPass(pass, shape, buffers);
  return {uses.lives().begin(), uses.lives().end()};
}

}  // namespace

MemoryPlan PlanBuffers(const PassShape& pass) {
  MemoryPlan plan;
  PassBuffers none;
  std::vector<Beyond> beyond;
  VisitBuffers(pass, none, [&](const BufferRow& row, const Tensor&) {
    std::string name =
        row.layer < 0 ? std::string(row.name) : fmt::format("h.{}.{}", row.layer, row.name);
    if (row.mirror != nullptr) {
      plan.AddMirrored(std::move(name), row.dtype, row.shape);
    } else {
      plan.Add(std::move(name), row.dtype, row.shape);
    }
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
    const MemoryPlan::Id id = next++;
    FOLIO_CHECK(plan[id].dtype == row.dtype, "the plan is another pass's");
    if (row.mirror != nullptr) *row.mirror = arena.GetMirror(plan, id, row.shape).host;
    return arena.Get(plan, id, row.shape);
  });
}

namespace {

// The stream before a block, or behind the last: (N,C).
Tensor StreamBefore(const GptConfig& config, const GptActivations& acts, size_t layer) {
  return layer == 0 ? acts.embedded : BlockOutput(config, acts.h[layer - 1]);
}

// Returns the stream that a block reads.
Tensor InputOf(const GptConfig& config, const GptActivations& acts, size_t layer) {
  const Tensor& mixed = acts.h[layer].mixed;
  return mixed ? mixed : StreamBefore(config, acts, layer);
}

// Returns the stream that ln_f reads.
Tensor LastStream(const GptConfig& config, const GptActivations& acts) {
  return acts.backed_out ? acts.backed_out : StreamBefore(config, acts, acts.h.size());
}

// The layer's of a parameter that has one number for each, or nothing of none.
Tensor OfLayer(const Tensor& factors, size_t layer) {
  const auto l = static_cast<int64_t>(layer);
  return factors ? factors.Slice(l, l + 1) : Tensor();
}

// The mixes of a pass: residual_lambdas before each block, and backout behind the last.
struct Mixes {
  const PassContext& pass;
  const GptParams& params;
  const GptActivations& acts;

  size_t middle() const { return static_cast<size_t>(pass.config.middle_layer()); }
  Tensor Stream(size_t layer) const { return StreamBefore(pass.config, acts, layer); }

  void Before(size_t layer) const {
    if (!pass.config.residual_lambdas) return;
    pass.backend.Run(MixForward{.x = Stream(layer),
                                .y = acts.embedded,
                                .x_factor = OfLayer(params.resid_lambdas, layer),
                                .y_factor = OfLayer(params.x0_lambdas, layer),
                                .out = acts.h[layer].mixed});
  }
  void Last() const {
    if (!pass.config.backout) return;
    pass.backend.Run(MixForward{.x = Stream(acts.h.size()),
                                .y = Stream(middle() + 1),
                                .y_factor = params.backout_lambda,
                                .sign = -1,
                                .out = acts.backed_out});
    pass.Show(TracePoint::kOutput, pass.config.n_layer - 1, acts.backed_out);
  }

  void LastBackward(const GptParams& d_params, const GptGradients& grads) const {
    if (!pass.config.backout) return;
    pass.backend.Run(MixBackward{.x = Stream(acts.h.size()),
                                 .y = Stream(middle() + 1),
                                 .y_factor = params.backout_lambda,
                                 .sign = -1,
                                 .d_out = grads.d_stream,
                                 .d_x = grads.d_stream,
                                 .d_y = grads.d_middle,
                                 .d_y_factor = d_params.backout_lambda});
  }
  // Before the block's own backward: d_stream gets what the end took away of its result.
  void BehindBackward(size_t layer, const GptGradients& grads) const {
    if (pass.config.backout && layer == middle()) AddToStream(grads.d_middle, grads);
  }
  void BeforeBackward(size_t layer, const GptParams& d_params, const GptGradients& grads) const {
    if (!pass.config.residual_lambdas) return;
    pass.backend.Run(MixBackward{.x = Stream(layer),
                                 .y = acts.embedded,
                                 .x_factor = OfLayer(params.resid_lambdas, layer),
                                 .y_factor = OfLayer(params.x0_lambdas, layer),
                                 .d_out = grads.d_stream,
                                 .d_x = grads.d_stream,
                                 .d_y = grads.d_embedded,
                                 .d_x_factor = OfLayer(d_params.resid_lambdas, layer),
                                 .d_y_factor = OfLayer(d_params.x0_lambdas, layer),
                                 .accumulate_d_y = layer + 1 < acts.h.size()});
    if (layer == 0) AddToStream(grads.d_embedded, grads);
  }

 private:
  void AddToStream(const Tensor& d, const GptGradients& grads) const {
    pass.backend.Run(ResidualForward{.residual = grads.d_stream, .x = d, .out = grads.d_stream});
  }
};

// The pass with what the buffers have for all layers.
PassContext Bound(PassContext pass, const PassBuffers& buffers) {
  for (size_t i = 0; i < pass.angles.size(); ++i) pass.angles[i] = buffers.rotary[i].angles;
  pass.ids = buffers.ids.device;
  return pass;
}

}  // namespace

void CopyTokens(std::span<const int32_t> from, const Tensor& to, int32_t lowest, int64_t V) {
  if (std::ssize(from) != to.count()) {
    throw UsageError(fmt::format("{} tokens for a pass over {}", from.size(), to.count()),
                     "a pass has one size, B sequences of T tokens");
  }
  RequireTokens(from, V, "a pass", lowest);
  std::copy(from.begin(), from.end(), to.host<int32_t>());
}

void TransformerForward(const PassContext& rows, const GptParams& params,
                        const PassBuffers& buffers) {
  const PassContext pass = Bound(rows, buffers);
  const GptActivations& acts = buffers.acts;
  const size_t L = acts.h.size();
  const Mixes mixes{pass, params, acts};
  const auto ready = [&](size_t layer) {
    if (pass.gate != nullptr) pass.gate->BeforeForward(static_cast<int64_t>(layer));
  };
  const bool joins = JoinsNorms(pass);
  if (pass.gate != nullptr) pass.gate->BeforeForward(-1);
  FillRotaryAngles(pass, buffers.rotary);
  EmbedForward(pass, params, buffers.previous.device, buffers.sinusoids.device, acts);
  for (size_t l = 0; l < L; ++l) {
    ready(l);
    mixes.Before(l);
    // The next block's norm reads the sum that this block ends with, unless something is mixed in.
    const bool last = l + 1 == L;
    const NormStep next = last ? NormStep{params.ln_f, acts.norm_f}
                               : NormStep{params.h[l + 1].ln_1, acts.h[l + 1].norm_1};
    const bool joined = joins && !(last && pass.config.backout);
    BlockForward(pass, static_cast<int64_t>(l), params.h[l], acts.h[l],
                 InputOf(pass.config, acts, l), acts.branch, l > 0 && joins,
                 joined ? &next : nullptr);
  }
  ready(L);
  mixes.Last();
  if (!joins || pass.config.backout) {
    NormForward(pass, params.ln_f, LastStream(pass.config, acts), acts.norm_f);
  }
  pass.Show(TracePoint::kFinal, 0, acts.norm_f.out);
}

void TransformerBackward(const PassContext& rows, const GptParams& params,
                         const PassBuffers& buffers, const GptParams& d_params) {
  const PassContext pass = Bound(rows, buffers);
  const GptActivations& acts = buffers.acts;
  const GptGradients& grads = buffers.grads;
  const size_t L = acts.h.size();
  const Mixes mixes{pass, params, acts};
  NormBackward(pass, params.ln_f, LastStream(pass.config, acts), acts.norm_f, grads.d_branch,
               d_params.ln_f, grads.d_stream, false, RoundedResult(pass, grads));
  mixes.LastBackward(d_params, grads);
  const auto done = [&](int64_t layer) {
    if (pass.gate != nullptr) pass.gate->AfterBackward(layer);
  };
  done(static_cast<int64_t>(L));
  for (size_t l = L; l-- > 0;) {
    if (pass.gate != nullptr) pass.gate->BeforeBackward(static_cast<int64_t>(l));
    mixes.BehindBackward(l, grads);
    BlockBackward(pass, static_cast<int64_t>(l), params.h[l], acts.h[l],
                  InputOf(pass.config, acts, l), d_params.h[l], grads);
    mixes.BeforeBackward(l, d_params, grads);
    done(static_cast<int64_t>(l));
  }
  EmbedBackward(pass, params, buffers.previous.device, acts, d_params, grads);
  done(-1);
}

}  // namespace folio
