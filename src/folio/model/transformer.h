#pragma once

#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

#include "folio/model/block.h"
#include "folio/model/context.h"
#include "folio/model/gpt_params.h"
#include "folio/model/layers/embedding.h"
#include "folio/model/layers/head.h"
#include "folio/model/layers/rotary.h"
#include "folio/tensor/memory_plan.h"

namespace folio {

struct GptActivations : EmbeddingActivations, HeadActivations {
  Tensor branch;      // (N,C), a sublayer's result before it joins the sum
  Tensor backed_out;  // (N,C), backout: what ln_f reads
  std::vector<BlockActivations> h;
};

// All that a pass over (B,T) tokens reads and writes, but parameters.
struct PassBuffers {
  Mirror ids, targets;          // (B,T) and (N) i32
  Mirror previous;              // (B,T) i32, smear: the tokens before, as EmbedForward has them
  Mirror sinusoids;             // (P,C), empty unless positions are
  RotaryTables rotary;          // empty unless positions are
  Mirror positions, same_text;  // (B,T) i32 and (B,1,T,T) u8 if packed: GptPass::set_begins
  GptActivations acts;
  GptGradients grads;  // empty unless kTraining
};

// The list of buffers, from which a pass is planned and bound: calls visit(row, slot) for each;
// slot is its tensor in `buffers`. Allocates nothing once `buffers` has its blocks.
template <class Visit>
void VisitBuffers(const PassShape& pass, PassBuffers& buffers, Visit&& visit) {
  const int64_t B = pass.B, T = pass.T, N = pass.N(), C = pass.config.n_embd;
  const BufferList<std::remove_reference_t<Visit>> list{pass, visit};
  const bool decode = pass.kind == PassKind::kDecode;
  list.Add("ids", buffers.ids, Dtype::kI32, {B, T}, Beyond::kInput);
  if (pass.config.smear)
    list.Add("previous", buffers.previous, Dtype::kI32, {B, T}, Beyond::kInput);
  if (!decode) list.Add("targets", buffers.targets, Dtype::kI32, {N}, Beyond::kInput);
  if (pass.options.packed) {
    list.Add("positions", buffers.positions, Dtype::kI32, {B, T}, Beyond::kInput);
    list.Add("same_text", buffers.same_text, Dtype::kU8, {B, 1, T, T}, Beyond::kInput);
  }
  VisitPositionBuffers(list, buffers.sinusoids);
  VisitRotaryBuffers(list, buffers.rotary);
  GptActivations& acts = buffers.acts;
  VisitEmbeddingBuffers(list, acts);
  list.Add("branch", acts.branch, list.low(), {N, C});
  acts.h.resize(static_cast<size_t>(pass.config.n_layer));
  auto block = list;
  for (BlockActivations& h : acts.h) {
    ++block.layer;
    VisitBlockBuffers(block, h);
  }
  if (pass.config.backout) list.Add("backed_out", acts.backed_out, list.number(), {N, C});
  VisitHeadBuffers(list, acts);
  if (!pass.training()) return;
  VisitEmbeddingGradients(list, buffers.grads);
  if (pass.config.residual_lambdas) {
    list.Add("d_embedded", buffers.grads.d_embedded, list.number(), {N, C});
  }
  if (pass.config.backout) {
    list.Add("d_middle", buffers.grads.d_middle, list.number(), {N, C});
  }
  VisitHeadGradients(list, buffers.grads);
  VisitBlockGradients(list, buffers.grads);
}

// Makes each buffer what tensor_of(row) gives for it.
template <class TensorOf>
void BindBuffersTo(const PassShape& pass, PassBuffers& buffers, const TensorOf& tensor_of) {
  VisitBuffers(pass, buffers, [&](const BufferRow& row, Tensor& slot) { slot = tensor_of(row); });
  if (buffers.rotary[0].frequencies.inverse.empty()) {
    FillRotaryFrequencies(pass.config, buffers.rotary);
  }
  if (pass.training() && !buffers.grads.d_logits) buffers.grads.d_logits = buffers.acts.chunk;
}

// The buffers of a pass, placed by the lives that lifetimes.h records. Throws a kResource Error on
// overflow.
MemoryPlan PlanBuffers(const PassShape& pass);

// Makes `buffers` those of a pass whose plan, or that of the same pass with a longer T, is `plan`,
// in its memory. REQUIRES: `buffers` is empty, or of such a pass.
void BindBuffers(const PassShape& pass, const MemoryPlan& plan, const Arena& arena,
                 PassBuffers& buffers);

// Copies tokens to a i32 tensor of the host with as many elements. REQUIRES: each in [lowest, V).
void CopyTokens(std::span<const int32_t> from, const Tensor& to, int32_t lowest, int64_t V);

// A model up to its final LayerNorm, from the tokens in buffers.ids: embeddings, blocks, ln_f. The
// step that training, evaluation and decoding share; logits and losses of acts.norm_f.out are
// layers/head.h's.
void TransformerForward(const PassContext& pass, const GptParams& params,
                        const PassBuffers& buffers);

// grads.d_branch holds the gradient of ln_f's result. d_params gets +=.
void TransformerBackward(const PassContext& pass, const GptParams& params,
                         const PassBuffers& buffers, const GptParams& d_params);

}  // namespace folio
