#pragma once

#include <cstdint>
#include <string_view>

#include "folio/model/config.h"
#include "folio/model/context.h"
#include "folio/model/lora.h"
#include "folio/model/param_row.h"
#include "folio/tensor/memory_plan.h"

namespace folio {

// The shape that a parameter of the whole model has in a shard.
Shape ShapeInShard(const GptConfig& config, const Shard& shard, const Shape& whole, ShardAxis axis);

// Takes the declarations of a model's parameters, layer by layer, and hands each to visit(row,
// slot). Allocates nothing.
template <class Visit>
struct ParamList {
  const GptConfig& config;
  const LoraConfig& lora;
  const Shard& shard;
  Visit& visit;
  int64_t layer = -1;  // -1 outside of the blocks

  // `shape` is that of the whole model. `slot` is the parameter's tensor.
  template <class Slot>
  void Add(std::string_view module, std::string_view part, Slot& slot, const Shape& shape,
           ParamKind kind, InitKind init, ShardAxis axis = ShardAxis::kNone) const {
    visit(ParamRow{.layer = layer,
                   .module = module,
                   .part = part,
                   .shape = ShapeInShard(config, shard, shape, axis),
                   .kind = kind,
                   .init = init,
                   .axis = axis,
                   .trained = !lora.on() || kind == ParamKind::kAdapter},
          slot);
  }
};

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
  Tensor* mirror = nullptr;  // where its mirror goes, if the host uses it too (memory_plan.h)
};

// Takes the declarations of a pass's buffers, layer by layer, and hands each to visit(row, slot).
// Allocates nothing.
template <class Visit>
struct BufferList {
  const PassShape& pass;
  Visit& visit;
  int64_t layer = -1;  // -1 outside of the blocks

  Dtype low() const { return pass.options.dtype; }
  Dtype number() const { return pass.options.number(); }
  void Add(std::string_view name, Tensor& slot, Dtype dtype, const Shape& shape,
           Beyond beyond = Beyond::kNothing) const {
    visit(BufferRow{layer, name, dtype, shape, beyond}, slot);
  }
  // The host uses it before or after the pass, so `beyond` says.
  void Add(std::string_view name, Mirror& slot, Dtype dtype, const Shape& shape,
           Beyond beyond) const {
    Tensor* const mirror = beyond == Beyond::kNothing ? nullptr : &slot.host;
    visit(BufferRow{layer, name, dtype, shape, beyond, mirror}, slot.device);
  }
};

// Gradients that flow backward, and what the backward recomputes; one set serves all blocks.
struct GptGradients {
  Tensor d_stream = {};   // (N,C), of the residual stream
  Tensor d_branch = {};   // (N,C), of a sublayer's result, or of its input
  Tensor d_beside = {};   // (N,C), of what the feed-forward sublayer reads beside attention
  Tensor d_raw = {};      // (N,C), the same before its norm; empty where d_branch can hold it
  Tensor d_wide = {};     // (N,max((H+2K)D,F or 2F)), elements, of qkv and of fc
  Tensor d_act = {};      // (N,F), gated: of what the gate lets through
  Tensor d_attn = {};     // (N,HD)
  Tensor d_qk_norm = {};  // (2,D), in a shard with weights of q_norm and k_norm of a head: of these
  Tensor d_logits = {};   // (R,V): the logits' own memory unless their dtypes differ
  Tensor input = {};      // (N,C), a sublayer's input; empty where the forward's is there
  Tensor act = {};        // (N,F); empty where the forward's is there
  Tensor d_lora = {};     // (N,p rank), elements, of LinearActivations::adapted
  Tensor lora_spread = {}, d_lora_spread = {};  // LinearActivations::spread, elements
  Tensor lora_input = {};  // (N,max(C,F,HD)), elements, what an adapter reads, dropped from
  Tensor value_rows = {};  // (N,KD): tokens' own values, made again, then their gradient
  Tensor d_embedded = {};  // (N,C), residual_lambdas: of the embeddings, from all blocks
  Tensor d_middle = {};    // (N,C), backout: of the stream in the middle
  Tensor d_previous = {};  // (N,C), smear: of the embedding of the token before
};

}  // namespace folio
