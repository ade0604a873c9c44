#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <vector>

#include "folio/backend/ops.h"
#include "folio/model/pass_shape.h"
#include "folio/tensor/plan.h"

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

// How a buffer lives beyond the operations of the pass that use it.
enum class Beyond {
  kNothing,
  kInput,   // it is filled before the pass, and stays
  kResult,  // it is read after the pass
};

// One row of the list of buffers.
struct BufferRow {
  int64_t layer;  // -1 outside of the blocks
  std::string_view name;
  Dtype dtype;
  Shape shape;
  Beyond beyond = Beyond::kNothing;
};

// The buffers of a block.
template <class Visit>
void VisitBlockBuffers(const PassShape& pass, int64_t layer, BlockActivations& h, Visit&& visit) {
  const int64_t N = pass.N(), C = pass.config.n_embd, A = pass.A(), F = pass.F();
  const Dtype low = pass.options.dtype, number = pass.options.number();
  // A post-norm block's norms are the stream.
  const Dtype norm = pass.config.pre_norm() ? low : number;
  const LoraConfig& lora = pass.lora();
  const auto row = [&](std::string_view name, Tensor& slot, Dtype dtype, const Shape& shape) {
    visit(BufferRow{layer, name, dtype, shape}, slot);
  };
  const auto adapter = [&](std::string_view name, std::string_view module, Tensor& slot) {
    if (lora.Adapts(module)) row(name, slot, low, {N, lora.rank});
  };
  row("norm_1", h.norm_1.out, norm, {N, C});
  row("norm_1.mean", h.norm_1.mean, number, {N});
  row("norm_1.rstd", h.norm_1.rstd, number, {N});
  row("qkv", h.qkv, low, {N, 3 * A});
  row("lse", h.lse, number, {pass.B, pass.shard().Size(pass.config.n_head), pass.T});
  row("attn", h.attn, low, {N, A});
  row("sum_1", h.sum_1, number, {N, C});
  row("norm_2", h.norm_2.out, norm, {N, C});
  row("norm_2.mean", h.norm_2.mean, number, {N});
  row("norm_2.rstd", h.norm_2.rstd, number, {N});
  row("fc", h.fc, low, {N, F});
  row("act", h.act, low, {N, F});
  row("sum_2", h.sum_2, number, {N, C});
  adapter("lora.c_attn", "attn.c_attn", h.lora.c_attn);
  adapter("lora.attn_c_proj", "attn.c_proj", h.lora.attn_c_proj);
  adapter("lora.c_fc", "mlp.c_fc", h.lora.c_fc);
  adapter("lora.mlp_c_proj", "mlp.c_proj", h.lora.mlp_c_proj);
  if (!pass.training() || !lora.on() || lora.dropout == 0) return;
  row("lora.input", h.lora.input, low, {N, std::max(C, F)});
}

// The list of buffers, from which a pass is planned and bound: calls visit(row, slot) for each;
// slot is its tensor in `buffers`. Allocates nothing once `buffers` has its blocks.
template <class Visit>
void VisitBuffers(const PassShape& pass, PassBuffers& buffers, Visit&& visit) {
  const int64_t N = pass.N(), C = pass.config.n_embd, A = pass.A(), F = pass.F();
  const int64_t V = pass.shard().Size(pass.config.vocab_size), shards = pass.shard().count;
  const Dtype low = pass.options.dtype, number = pass.options.number();
  const bool decode = pass.kind == PassKind::kDecode;
  const auto row = [&](std::string_view name, Tensor& slot, Dtype dtype, const Shape& shape,
                       Beyond beyond = Beyond::kNothing) {
    visit(BufferRow{-1, name, dtype, shape, beyond}, slot);
  };

  row("ids", buffers.ids, Dtype::kI32, {pass.B, pass.T}, Beyond::kInput);
  if (!decode) row("targets", buffers.targets, Dtype::kI32, {N}, Beyond::kInput);
  if (pass.options.packed) {
    row("positions", buffers.positions, Dtype::kI32, {pass.B, pass.T}, Beyond::kInput);
    row("same_text", buffers.same_text, Dtype::kU8, {pass.B, 1, pass.T, pass.T}, Beyond::kInput);
  }
  if (!pass.config.learned_positions()) {
    row("sinusoids", buffers.sinusoids, number, {pass.config.n_positions, C}, Beyond::kInput);
  }
  GptActivations& acts = buffers.acts;
  row("embedded", acts.embedded, number, {N, C});
  row("branch", acts.branch, low, {N, C});
  acts.h.resize(static_cast<size_t>(pass.config.n_layer));
  for (size_t l = 0; l < acts.h.size(); ++l) {
    VisitBlockBuffers(pass, static_cast<int64_t>(l), acts.h[l], visit);
  }
  row("norm_f", acts.norm_f.out, low, {N, C}, Beyond::kResult);  // logits are made of its rows
  row("norm_f.mean", acts.norm_f.mean, number, {N});
  row("norm_f.rstd", acts.norm_f.rstd, number, {N});
  const int64_t few = std::min(N, LinearForward::kFewRows);
  const int64_t most = (pass.config.vocab_size + shards - 1) / shards;  // of all shards
  const int64_t rows = decode ? few : LossChunkRows(N, most, low);
  row("logits", acts.logits, number, {rows, V}, decode ? Beyond::kResult : Beyond::kNothing);
  if (decode) return;
  row("losses", acts.losses, number, {N}, Beyond::kResult);
  row("losses.lse", acts.loss_lse, number, {N});
  if (shards > 1) row("lse_parts", acts.lse_parts, number, {shards, rows});

  if (!pass.training()) return;
  GptGradients& grads = buffers.grads;
  if (low != number) row("d_logits", grads.d_logits, low, {rows, V});
  row("d_stream", grads.d_stream, number, {N, C});
  row("d_branch", grads.d_branch, low, {N, C});
  row("d_wide", grads.d_wide, low, {N, std::max(3 * A, F)});
  row("d_attn", grads.d_attn, low, {N, A});
  // Pre-norm blocks recompute their LayerNorms here, post-norm ones round or drop from the stream.
  const bool pre = pass.config.pre_norm();
  if (pre ? pass.options.recompute : low != number || pass.config.sublayer_pdrop > 0) {
    row("input", grads.input, low, {N, C});
  }
  const LoraConfig& lora = pass.lora();
  if (pass.options.recompute && lora.Trains("mlp.c_proj")) row("act", grads.act, low, {N, F});
  if (!lora.on()) return;
  row("d_lora", grads.d_lora, low, {N, lora.rank});
  if (lora.dropout > 0) row("lora_input", grads.lora_input, low, {N, std::max(C, F)});
}

// Makes each buffer what tensor_of(row) gives for it.
template <class TensorOf>
void BindBuffersTo(const PassShape& pass, PassBuffers& buffers, const TensorOf& tensor_of) {
  VisitBuffers(pass, buffers, [&](const BufferRow& row, Tensor& slot) { slot = tensor_of(row); });
  if (pass.training() && !buffers.grads.d_logits) buffers.grads.d_logits = buffers.acts.logits;
}

// The buffers of a pass, placed by the lives that lifetimes.h records. Throws a kResource Error on
// overflow.
MemoryPlan PlanBuffers(const PassShape& pass);

// Makes `buffers` those of a pass whose plan, or that of the same pass with a longer T, is `plan`,
// in its memory. REQUIRES: `buffers` is empty, or of such a pass.
void BindBuffers(const PassShape& pass, const MemoryPlan& plan, const Arena& arena,
                 PassBuffers& buffers);

}  // namespace folio
