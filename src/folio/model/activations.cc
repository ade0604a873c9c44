#include "folio/model/activations.h"

#include <fmt/format.h>

#include <algorithm>

namespace folio {

// The order of operations. Forward: the embedding is tick 0, block l takes kBlockTicks ticks from
// 1 + l * kBlockTicks, the head with its own backward follows. Backward: the same, mirrored, and
// begins one tick after the head.
struct ActivationPlan::Outline {
  static constexpr int64_t kBlockTicks = 8;

  const GptConfig& config;
  int64_t B, T;
  PassKind kind;
  PassOptions options;
  MemoryPlan& memory;

  int64_t N() const { return B * T; }
  Dtype number() const { return options.number(); }
  Dtype half() const { return options.dtype; }
  bool training() const { return kind == PassKind::kTraining; }
  // Whether the backward makes these again.
  bool again() const { return training() && options.recompute; }
  bool norms_again() const { return again() && config.pre_norm(); }
  // Whether sublayers get rounded copies of their inputs.
  bool rounded_inputs() const { return half() != number() && !config.pre_norm(); }

  int64_t head() const { return 1 + config.n_layer * kBlockTicks; }
  int64_t mirrored(int64_t tick) const { return 2 * head() + 1 - tick; }
  int64_t end() const { return mirrored(0); }

  // A buffer written at tick `first` and read by the forward up to `last`.
  MemoryPlan::Id Add(std::string name, Dtype dtype, Shape shape, int64_t first,
                     int64_t last) const {
    return memory.Add(std::move(name), dtype, shape, first, last);
  }
  // One that the backward of the operation at tick `reader` reads too.
  MemoryPlan::Id Keep(std::string name, Dtype dtype, Shape shape, int64_t first, int64_t last,
                      int64_t reader) const {
    return Add(std::move(name), dtype, shape, first,
               training() ? std::max(last, mirrored(reader)) : last);
  }
};

int64_t LossChunkRows(int64_t N, int64_t V, Dtype dtype) {
  // A chunk of bfloat16 rounds and packs the head's whole matrix anew, as dear as about 100 rows of
  // its product; one of float32 reads the matrix as it is.
  const int64_t min_rows = dtype == Dtype::kBF16 ? 512 : 256;
  constexpr int64_t kElements = int64_t{1} << 22;
  return std::min(N, std::max(min_rows, kElements / V / 64 * 64));
}

ActivationPlan::ActivationPlan(const GptConfig& config, int64_t B, int64_t T, PassKind kind,
                               const PassOptions& options, MemoryPlan& memory) {
  const Outline outline{config, B, T, kind, options, memory};
  const Shape stream = {B * T, config.n_embd};
  embedded_ = outline.Keep("embedded", outline.number(), stream, 0, 1 + Outline::kBlockTicks, 1);
  branch_ = outline.Add("branch", outline.half(), stream, 1, outline.head() - 1);
  for (int64_t l = 0; l < config.n_layer; ++l) AddBlock(outline, l);
  AddHead(outline);
  if (outline.training()) AddGradients(outline);
}

void ActivationPlan::AddBlock(const Outline& o, int64_t layer) {
  const int64_t N = o.N(), C = o.config.n_embd, F = o.config.inner();
  const int64_t t = 1 + layer * Outline::kBlockTicks;
  const auto name = [&](const char* part) { return fmt::format("h.{}.{}", layer, part); };
  const auto keep = [&](const char* part, Dtype dtype, Shape shape, int64_t first, int64_t last) {
    return o.Keep(name(part), dtype, shape, t + first, t + last, t + first);
  };
  // Ticks of a pre-norm block: 0 ln_1, 1 c_attn, 2 attention, 3 c_proj + residual, 4 ln_2, 5 c_fc +
  // activation, 6 c_proj, 7 residual. A post-norm block needs the same buffers no longer than
  // this, except its norms, which are the stream itself.
  const bool pre = o.config.pre_norm();
  const auto norm_out = [&](const char* part, int64_t first, int64_t last) {
    if (!o.norms_again()) return keep(part, pre ? o.half() : o.number(), {N, C}, first, last);
    return o.Add(name(part), o.half(), {N, C}, t + first, t + last);
  };
  const Dtype half = o.half(), number = o.number();
  BlockIds ids{};
  ids.norm_1 = {norm_out("norm_1", 0, pre ? 1 : 7), keep("norm_1.mean", number, {N}, 0, 4),
                keep("norm_1.rstd", number, {N}, 0, 4)};
  ids.qkv = o.kind == PassKind::kDecode ? o.memory.Add(name("qkv"), half, {N, 3 * C})
                                        : keep("qkv", half, {N, 3 * C}, 1, 2);
  ids.lse = keep("lse", number, {o.B, o.config.n_head, o.T}, 2, 2);
  ids.attn = keep("attn", half, {N, C}, 2, 3);
  ids.sum_1 = keep("sum_1", number, {N, C}, 3, 7);
  ids.norm_2 = {norm_out("norm_2", 4, pre ? 5 : 7 + Outline::kBlockTicks),
                keep("norm_2.mean", number, {N}, 4, 7), keep("norm_2.rstd", number, {N}, 4, 7)};
  // The backward of the second c_proj reads both.
  ids.fc = o.Keep(name("fc"), half, {N, F}, t + 5, t + 5, t + 6);
  ids.act = o.again() ? o.Add(name("act"), half, {N, F}, t + 5, t + 6)
                      : o.Keep(name("act"), half, {N, F}, t + 5, t + 6, t + 6);
  ids.sum_2 = keep("sum_2", number, {N, C}, 7, 7 + Outline::kBlockTicks);
  blocks_.push_back(ids);
}

void ActivationPlan::AddHead(const Outline& o) {
  const int64_t N = o.N(), C = o.config.n_embd, V = o.config.vocab_size, head = o.head();
  const Dtype number = o.number();
  // What outlives the pass is for who ran it: losses, and the rows that logits are made of.
  norm_f_ = {o.memory.Add("norm_f", o.half(), {N, C}, head),
             o.Keep("norm_f.mean", number, {N}, head, head, head),
             o.Keep("norm_f.rstd", number, {N}, head, head, head)};
  const int64_t rows = o.kind == PassKind::kDecode ? 1 : LossChunkRows(N, V, o.half());
  logits_ = o.Add("logits", number, {rows, V}, head, head);
  losses_ = o.memory.Add("losses", number, {N}, head);
  loss_lse_ = o.Add("losses.lse", number, {N}, head, head);
  d_logits_ = logits_;
  if (o.training() && o.half() != number) {
    d_logits_ = o.Add("d_logits", o.half(), {rows, V}, head, head);
  }
}

void ActivationPlan::AddGradients(const Outline& o) {
  const int64_t N = o.N(), C = o.config.n_embd, F = o.config.inner();
  const int64_t first = o.mirrored(o.head());
  const Dtype half = o.half();
  d_stream_ = o.Add("d_stream", o.number(), {N, C}, first, o.end());
  d_branch_ = o.Add("d_branch", half, {N, C}, o.head(), o.end());
  d_wide_ = o.Add("d_wide", half, {N, std::max(3 * C, F)}, first, o.end());
  d_attn_ = o.Add("d_attn", half, {N, C}, first, o.end());
  if (o.norms_again() || o.rounded_inputs()) {
    input_ = o.Add("input", half, {N, C}, first, o.end());
  }
  if (o.again()) act_ = o.Add("act", half, {N, F}, first, o.end());
}

GptActivations ActivationPlan::Activations(const MemoryPlan& memory, const Arena& arena) const {
  const auto get = [&](MemoryPlan::Id id) { return arena.Get(memory, id); };
  const auto norm = [&](const NormIds& ids) {
    return NormActivations{get(ids.out), get(ids.mean), get(ids.rstd)};
  };
  GptActivations acts;
  acts.embedded = get(embedded_);
  acts.branch = get(branch_);
  for (const BlockIds& ids : blocks_) {
    acts.h.push_back({.norm_1 = norm(ids.norm_1),
                      .qkv = get(ids.qkv),
                      .past = {},
                      .lse = get(ids.lse),
                      .attn = get(ids.attn),
                      .sum_1 = get(ids.sum_1),
                      .norm_2 = norm(ids.norm_2),
                      .fc = get(ids.fc),
                      .act = get(ids.act),
                      .sum_2 = get(ids.sum_2)});
  }
  acts.norm_f = norm(norm_f_);
  acts.logits = get(logits_);
  acts.losses = get(losses_);
  acts.loss_lse = get(loss_lse_);
  return acts;
}

GptGradients ActivationPlan::Gradients(const MemoryPlan& memory, const Arena& arena) const {
  FOLIO_CHECK(d_stream_ != kNone, "a forward pass has no gradients");
  const auto get = [&](MemoryPlan::Id id) {
    return id == kNone ? Tensor() : arena.Get(memory, id);
  };
  return {.d_stream = get(d_stream_),
          .d_branch = get(d_branch_),
          .d_wide = get(d_wide_),
          .d_attn = get(d_attn_),
          .d_logits = get(d_logits_),
          .input = get(input_),
          .act = get(act_)};
}

}  // namespace folio
