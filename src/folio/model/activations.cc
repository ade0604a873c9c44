#include "folio/model/activations.h"

#include <fmt/format.h>

#include <algorithm>

namespace folio {
namespace {

// The order of operations. Forward: the embedding is tick 0, block l takes kBlockTicks ticks from
// 1 + l * kBlockTicks, the head follows. Backward: the same, mirrored.
constexpr int64_t kBlockTicks = 8;

}  // namespace

int64_t LossChunkRows(int64_t N, int64_t V) {
  constexpr int64_t kMinRows = 256, kElements = int64_t{1} << 22;
  return std::min(N, std::max(kMinRows, kElements / V / 64 * 64));
}

ActivationPlan::ActivationPlan(const GptConfig& config, int64_t B, int64_t T, PassKind kind,
                               Dtype dtype, MemoryPlan& memory) {
  const int64_t N = B * T, C = config.n_embd, F = config.inner(), L = config.n_layer;
  const int64_t V = config.vocab_size;
  const bool training = kind == PassKind::kTraining;
  const int64_t head = 1 + L * kBlockTicks;
  const int64_t end = 2 * head;
  const auto mirrored = [&](int64_t tick) { return end - tick; };
  // A buffer written at tick `first` and read by the forward up to `last`. If the backward of the
  // operation at tick `reader` reads it too, it lives until then when training.
  const auto add = [&](std::string name, Shape shape, int64_t first, int64_t last, int64_t reader) {
    return memory.Add(std::move(name), dtype, shape, first,
                      training ? std::max(last, mirrored(reader)) : last);
  };

  embedded_ = add("embedded", {N, C}, 0, 1 + kBlockTicks, 1);
  branch_ = memory.Add("branch", dtype, {N, C}, 1, head - 1);
  for (int64_t l = 0; l < L; ++l) {
    const int64_t t = 1 + l * kBlockTicks;
    const auto name = [&](const char* part) { return fmt::format("h.{}.{}", l, part); };
    BlockIds ids{};
    // Ticks of a pre-norm block: 0 ln_1, 1 c_attn, 2 attention, 3 c_proj + residual, 4 ln_2, 5
    // c_fc, 6 activation, 7 c_proj + residual. A post-norm block needs the same buffers no longer
    // than this, except its norms, which are the stream itself.
    const bool pre = config.pre_norm();
    ids.norm_1 = {add(name("norm_1"), {N, C}, t, pre ? t + 1 : t + 7, t),
                  add(name("norm_1.mean"), {N}, t, t + 4, t),
                  add(name("norm_1.rstd"), {N}, t, t + 4, t)};
    ids.qkv = kind == PassKind::kDecode ? memory.Add(name("qkv"), dtype, {N, 3 * C})
                                        : add(name("qkv"), {N, 3 * C}, t + 1, t + 2, t + 1);
    ids.lse = add(name("lse"), {B, config.n_head, T}, t + 2, t + 2, t + 2);
    ids.attn = add(name("attn"), {N, C}, t + 2, t + 3, t + 2);
    ids.sum_1 = add(name("sum_1"), {N, C}, t + 3, t + 7, t + 3);
    ids.norm_2 = {add(name("norm_2"), {N, C}, t + 4, pre ? t + 5 : t + 7 + kBlockTicks, t + 4),
                  add(name("norm_2.mean"), {N}, t + 4, t + 7, t + 4),
                  add(name("norm_2.rstd"), {N}, t + 4, t + 7, t + 4)};
    ids.fc = add(name("fc"), {N, F}, t + 5, t + 6, t + 5);
    ids.act = add(name("act"), {N, F}, t + 6, t + 7, t + 6);
    ids.sum_2 = add(name("sum_2"), {N, C}, t + 7, t + 7 + kBlockTicks, t + 7);
    blocks_.push_back(ids);
  }
  norm_f_ = {add("norm_f", {N, C}, head, head, head), add("norm_f.mean", {N}, head, head, head),
             add("norm_f.rstd", {N}, head, head, head)};
  logits_ = memory.Add("logits", dtype, {kind == PassKind::kDecode ? 1 : LossChunkRows(N, V), V},
                       head, mirrored(head));
  losses_ = memory.Add("losses", dtype, {N}, head, mirrored(head));
  loss_lse_ = memory.Add("losses.lse", dtype, {N}, head, mirrored(head));
  if (training) {
    d_stream_ = memory.Add("d_stream", dtype, {N, C}, mirrored(head), end);
    d_branch_ = memory.Add("d_branch", dtype, {N, C}, mirrored(head), end);
    d_wide_ = memory.Add("d_wide", dtype, {N, std::max(3 * C, F)}, mirrored(head), end);
    d_attn_ = memory.Add("d_attn", dtype, {N, C}, mirrored(head), end);
  }
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
  FOLIO_CHECK(d_stream_ >= 0, "a forward pass has no gradients");
  return {.d_stream = arena.Get(memory, d_stream_),
          .d_branch = arena.Get(memory, d_branch_),
          .d_wide = arena.Get(memory, d_wide_),
          .d_attn = arena.Get(memory, d_attn_)};
}

}  // namespace folio
