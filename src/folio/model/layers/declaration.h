#pragma once

#include <cstdint>
#include <string_view>

#include "folio/model/config.h"
#include "folio/model/lora.h"
#include "folio/model/params.h"
#include "folio/model/pass_shape.h"
#include "folio/model/shard.h"

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

// One row of the list of buffers.
struct BufferRow {
  int64_t layer;  // -1 outside of the blocks
  std::string_view name;
  Dtype dtype;
  Shape shape;
  Lifetime life;
};

// Takes the declarations of a pass's buffers, layer by layer, and hands each to visit(row, slot).
// Allocates nothing.
template <class Visit>
struct BufferList {
  const PassShape& pass;
  Visit& visit;
  int64_t layer = -1;  // -1 outside of the blocks
  int64_t tick = 0;    // of the first operation of the block or layer

  Dtype low() const { return pass.options.dtype; }
  Dtype number() const { return pass.options.number(); }
  // The same list from a later operation on.
  BufferList After(int64_t ticks) const { return {pass, visit, layer, tick + ticks}; }

  void Add(std::string_view name, Tensor& slot, Dtype dtype, const Shape& shape,
           const Lifetime& life) const {
    visit(BufferRow{layer, name, dtype, shape, life}, slot);
  }
  // Written at a tick, read up to one, and by the backward of the operation at `reader`.
  void Keep(std::string_view name, Tensor& slot, Dtype dtype, const Shape& shape, int64_t written,
            int64_t read, int64_t reader, bool dispensable = false) const {
    Add(name, slot, dtype, shape,
        pass.Kept(tick + written, tick + read, tick + reader, dispensable));
  }
  // Whether the backward does without a buffer that `reader` read: it is recomputed, or is wanted
  // by the gradient of that linear layer's weights, or by its adapter, alone.
  bool Dispensable(std::string_view reader) const {
    return pass.options.recompute || !pass.lora().Trains(reader);
  }
};

// Gradients that flow backward, and what the backward recomputes; one set serves all blocks.
struct GptGradients {
  Tensor d_stream = {};    // (N,C), of the residual stream
  Tensor d_branch = {};    // (N,C), of a sublayer's result, or of its input
  Tensor d_wide = {};      // (N,max((H+2K)D,F)), elements, of qkv and of fc
  Tensor d_attn = {};      // (N,HD)
  Tensor d_logits = {};    // (R,V): the logits' own memory unless their dtypes differ
  Tensor input = {};       // (N,C), a sublayer's input; empty where the forward's is there
  Tensor act = {};         // (N,F); empty where the forward's is there
  Tensor d_lora = {};      // (N,rank), of LinearActivations
  Tensor lora_input = {};  // (N,max(C,F,HD)), elements, what an adapter reads, dropped from
};

}  // namespace folio
