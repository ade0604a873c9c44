#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <vector>

#include "folio/backend/ops.h"
#include "folio/model/pass_shape.h"

namespace folio {

struct NormActivations {
  Tensor out, mean, rstd;  // (N,C), (N), (N)
};

// What adapters of linear layers give before their second matrix, (N,rank), times their scale().
struct AdapterActivations {
  Tensor c_attn, attn_c_proj, c_fc, mlp_c_proj;
  Tensor input;  // (N,max(C,F)), elements: what one of them reads, dropped from
};

// Buffers of one block, all (N,...) with N = B*T. The list below says which are of low precision.
struct BlockActivations {
  NormActivations norm_1;  // in a post-norm block out is the stream itself
  Tensor qkv;              // (N,3C)
  Tensor lse;              // (B,H,T)
  Tensor attn;             // (N,C), before c_proj
  Tensor sum_1;            // (N,C), input + attention sublayer
  NormActivations norm_2;
  Tensor fc;     // (N,F), before the activation
  Tensor act;    // (N,F)
  Tensor sum_2;  // (N,C), + feed-forward sublayer
  AdapterActivations lora;
};

struct GptActivations {
  Tensor embedded;  // (N,C)
  Tensor branch;    // (N,C), a sublayer's result before it joins the sum
  std::vector<BlockActivations> h;
  NormActivations norm_f;
  Tensor logits;                       // (R,V), rows of one chunk of the loss head
  Tensor losses, loss_lse, lse_parts;  // (N), (N); in a shard (count,R), of a chunk
};

// Gradients that flow backward, and what the backward recomputes; one set serves all blocks.
struct GptGradients {
  Tensor d_stream = {};    // (N,C), of the residual stream
  Tensor d_branch = {};    // (N,C), of a sublayer's result, or of its input
  Tensor d_wide = {};      // (N,max(3C,F)), elements, of qkv and of fc
  Tensor d_attn = {};      // (N,C)
  Tensor d_logits = {};    // (R,V): the logits' own memory unless their dtypes differ
  Tensor input = {};       // (N,C), a sublayer's input; empty where the forward's is there
  Tensor act = {};         // (N,F); empty where the forward's is there
  Tensor d_lora = {};      // (N,rank), of AdapterActivations
  Tensor lora_input = {};  // (N,max(C,F)), elements, as AdapterActivations::input
};

// All that a pass over (B,T) tokens reads and writes, but parameters.
struct PassBuffers {
  Tensor ids, targets;          // (B,T) and (N) i32
  Tensor sinusoids;             // (P,C), empty for learned positions
  Tensor positions, same_text;  // (B,T) i32 and (B,1,T,T) u8 if packed: GptPass::set_begins
  GptActivations acts;
  GptGradients grads;  // empty unless kTraining
};

// Rows of logits that the loss head holds at a time, of N rows of V.
int64_t LossChunkRows(int64_t N, int64_t V, Dtype dtype = Dtype::kF32);

// One row of the list of buffers.
struct BufferRow {
  int64_t layer;  // -1 outside of the blocks
  std::string_view name;
  Dtype dtype;
  Shape shape;
  Lifetime life;
};

// The buffers of a block.
template <class Visit>
void VisitBlockBuffers(const PassShape& pass, int64_t layer, BlockActivations& h, Visit&& visit) {
  const int64_t N = pass.N(), C = pass.config.n_embd;
  const int64_t A = pass.A(), F = pass.F();
  const bool pre = pass.config.pre_norm();
  const Dtype low = pass.options.dtype, number = pass.options.number();
  const int64_t t = pass.BlockTick(layer), next = PassShape::kBlockTicks;
  // Written at a tick of the block, read up to one, and by the backward of what is at `reader`.
  const auto row = [&](std::string_view name, Tensor& slot, Dtype dtype, const Shape& shape,
                       int64_t written, int64_t read, int64_t reader, bool dispensable = false) {
    visit(BufferRow{layer, name, dtype, shape,
                    pass.Kept(t + written, t + read, t + reader, dispensable)},
          slot);
  };
  // Asked for again by the gradient of this layer's weights, or by its adapter, alone.
  const LoraConfig& lora = pass.lora();
  const auto dispensable = [&](std::string_view reader) {
    return pass.options.recompute || !lora.Trains(reader);
  };
  const auto adapter = [&](std::string_view name, std::string_view module, Tensor& slot,
                           int64_t tick) {
    if (lora.Adapts(module)) row(name, slot, low, {N, lora.rank}, tick, tick, tick);
  };
  // Ticks of a pre-norm block: 0 ln_1, 1 c_attn, 2 attention, 3 c_proj + residual, 4 ln_2, 5 c_fc +
  // activation, 6 c_proj, 7 residual. A post-norm block's norms are the stream and live longer.
  row("norm_1", h.norm_1.out, pre ? low : number, {N, C}, 0, pre ? 1 : 7, 0,
      pre && dispensable("attn.c_attn"));
  row("norm_1.mean", h.norm_1.mean, number, {N}, 0, 4, 0);
  row("norm_1.rstd", h.norm_1.rstd, number, {N}, 0, 4, 0);
  row("qkv", h.qkv, low, {N, 3 * A}, 1, 2, 1);
  row("lse", h.lse, number, {pass.B, pass.shard().Size(pass.config.n_head), pass.T}, 2, 2, 2);
  row("attn", h.attn, low, {N, A}, 2, 3, 2);
  row("sum_1", h.sum_1, number, {N, C}, 3, 7, 3);
  row("norm_2", h.norm_2.out, pre ? low : number, {N, C}, 4, pre ? 5 : 7 + next, 4,
      pre && dispensable("mlp.c_fc"));
  row("norm_2.mean", h.norm_2.mean, number, {N}, 4, 7, 4);
  row("norm_2.rstd", h.norm_2.rstd, number, {N}, 4, 7, 4);
  row("fc", h.fc, low, {N, F}, 5, 5, 6);
  row("act", h.act, low, {N, F}, 5, 6, 6, dispensable("mlp.c_proj"));
  row("sum_2", h.sum_2, number, {N, C}, 7, 7 + next, 7);
  adapter("lora.c_attn", "attn.c_attn", h.lora.c_attn, 1);
  adapter("lora.attn_c_proj", "attn.c_proj", h.lora.attn_c_proj, 3);
  adapter("lora.c_fc", "mlp.c_fc", h.lora.c_fc, 5);
  adapter("lora.mlp_c_proj", "mlp.c_proj", h.lora.mlp_c_proj, 6);
  if (!pass.training() || !lora.on() || lora.dropout == 0) return;
  visit(BufferRow{layer, "lora.input", low, {N, std::max(C, F)}, {t + 1, t + 6}}, h.lora.input);
}

// The list of buffers, from which a pass is planned and bound: calls visit(row, slot) for each;
// slot is its tensor in `buffers`. Allocates nothing once `buffers` has its blocks.
template <class Visit>
void VisitBuffers(const PassShape& pass, PassBuffers& buffers, Visit&& visit) {
  const int64_t N = pass.N(), C = pass.config.n_embd, head = pass.HeadTick();
  const int64_t A = pass.A(), F = pass.F();
  const int64_t V = pass.shard().Size(pass.config.vocab_size), shards = pass.shard().count;
  const Dtype low = pass.options.dtype, number = pass.options.number();
  const auto row = [&](std::string_view name, Tensor& slot, Dtype dtype, const Shape& shape,
                       const Lifetime& life) {
    visit(BufferRow{-1, name, dtype, shape, life}, slot);
  };

  row("ids", buffers.ids, Dtype::kI32, {pass.B, pass.T}, {});
  row("targets", buffers.targets, Dtype::kI32, {N}, {});
  if (pass.options.packed) {
    row("positions", buffers.positions, Dtype::kI32, {pass.B, pass.T}, {});
    row("same_text", buffers.same_text, Dtype::kU8, {pass.B, 1, pass.T, pass.T}, {});
  }
  if (!pass.config.learned_positions()) {
    row("sinusoids", buffers.sinusoids, number, {pass.config.n_positions, C}, {});
  }
  GptActivations& acts = buffers.acts;
  row("embedded", acts.embedded, number, {N, C}, pass.Kept(0, pass.BlockTick(1), 1));
  row("branch", acts.branch, low, {N, C}, {1, head - 1});
  acts.h.resize(static_cast<size_t>(pass.config.n_layer));
  for (size_t l = 0; l < acts.h.size(); ++l) {
    VisitBlockBuffers(pass, static_cast<int64_t>(l), acts.h[l], visit);
  }
  // What outlives the pass: losses, and the rows that logits are made of.
  row("norm_f", acts.norm_f.out, low, {N, C}, {head});
  row("norm_f.mean", acts.norm_f.mean, number, {N}, pass.Kept(head, head, head));
  row("norm_f.rstd", acts.norm_f.rstd, number, {N}, pass.Kept(head, head, head));
  const int64_t few = std::min(N, LinearForward::kFewRows);
  const int64_t most = (pass.config.vocab_size + shards - 1) / shards;  // of all shards
  const int64_t rows = pass.kind == PassKind::kDecode ? few : LossChunkRows(N, most, low);
  row("logits", acts.logits, number, {rows, V}, {head, head});
  row("losses", acts.losses, number, {N}, {head});
  row("losses.lse", acts.loss_lse, number, {N}, {head, head});
  if (shards > 1) row("lse_parts", acts.lse_parts, number, {shards, rows}, {head, head});

  if (!pass.training()) return;
  GptGradients& grads = buffers.grads;
  if (low != number) row("d_logits", grads.d_logits, low, {rows, V}, {head, head});
  const Lifetime backward = pass.InBackward();
  row("d_stream", grads.d_stream, number, {N, C}, backward);
  row("d_branch", grads.d_branch, low, {N, C}, {head, backward.last});
  row("d_wide", grads.d_wide, low, {N, std::max(3 * A, F)}, backward);
  row("d_attn", grads.d_attn, low, {N, A}, backward);
  // Pre-norm blocks recompute their LayerNorms here, post-norm ones round or drop from the stream.
  const bool pre = pass.config.pre_norm();
  if (pre ? pass.options.recompute : low != number || pass.config.sublayer_pdrop > 0) {
    row("input", grads.input, low, {N, C}, backward);
  }
  const LoraConfig& lora = pass.lora();
  if (pass.options.recompute && lora.Trains("mlp.c_proj")) {
    row("act", grads.act, low, {N, F}, backward);
  }
  if (!lora.on()) return;
  row("d_lora", grads.d_lora, low, {N, lora.rank}, backward);
  if (lora.dropout > 0) row("lora_input", grads.lora_input, low, {N, std::max(C, F)}, backward);
}

// The buffers of a pass, placed. Throws a kResource Error on overflow.
MemoryPlan PlanBuffers(const PassShape& pass);

// Makes `buffers` those of a pass whose plan, or that of the same pass with a longer T, is `plan`,
// in its memory. REQUIRES: `buffers` is empty, or of such a pass.
void BindBuffers(const PassShape& pass, const MemoryPlan& plan, const Arena& arena,
                 PassBuffers& buffers);

}  // namespace folio
