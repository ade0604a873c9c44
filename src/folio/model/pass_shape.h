#pragma once

#include <algorithm>
#include <cstdint>

#include "folio/model/config.h"
#include "folio/model/lora.h"
#include "folio/model/shard.h"
#include "folio/tensor/plan.h"

namespace folio {

// What a pass over B sequences of T tokens is for, and so how long its buffers live.
enum class PassKind {
  kForward,   // logits or loss only: a buffer lives until the next operations have read it
  kTraining,  // the backward follows: what it reads lives until then
  kDecode,    // T rows of sequences that grow, whose keys and values a KvCache has (B is 1)
};

// How a pass computes, and what it has of the model.
struct PassOptions {
  // F32, F64, or BF16: then what ops.h marks Low is bfloat16, and all else float32.
  Dtype dtype = Dtype::kF32;
  // kTraining: the backward recomputes the cheap activations instead of keeping them, to the same
  // bits: results of activation functions, and of pre-norm blocks' LayerNorms.
  bool recompute = false;
  // A sequence may be of several texts (GptPass::set_begins).
  bool packed = false;
  LoraConfig lora = {};  // the adapters of its linear layers
  Shard shard = {};      // of its layers, where ranks share them

  // The dtype of weights, of the stream and of the losses.
  Dtype number() const { return dtype == Dtype::kBF16 ? Dtype::kF32 : dtype; }
  bool operator==(const PassOptions&) const = default;
};

// The ticks from which and up to which a buffer lives.
struct Lifetime {
  int64_t first = 0, last = MemoryPlan::kAlways;
};

// A pass and the order of its operations in ticks. Forward: the embedding is tick 0, block l takes
// kBlockTicks ticks from BlockTick(l), the head with its own backward follows. Backward: the same,
// mirrored, and begins one tick after the head.
struct PassShape {
  static constexpr int64_t kBlockTicks = 8;

  const GptConfig& config;
  int64_t B = 1, T = 1;
  PassKind kind = PassKind::kForward;
  PassOptions options = {};

  int64_t N() const { return B * T; }
  const Shard& shard() const { return options.shard; }
  const LoraConfig& lora() const { return options.lora; }
  HeadLayout heads() const;  // of the shard
  int64_t F() const { return shard().Size(config.inner()); }
  bool training() const { return kind == PassKind::kTraining; }

  int64_t BlockTick(int64_t layer) const { return 1 + layer * kBlockTicks; }
  int64_t HeadTick() const { return BlockTick(config.n_layer); }
  int64_t Mirrored(int64_t tick) const { return 2 * HeadTick() + 1 - tick; }

  // What the forward writes at tick `written` and reads up to `read`, and, in training, the
  // backward of the operation at tick `reader` reads too: unless it recomputes or does not need it.
  Lifetime Kept(int64_t written, int64_t read, int64_t reader, bool dispensable = false) const {
    return {written, training() && !dispensable ? std::max(read, Mirrored(reader)) : read};
  }
  // What serves the backward of all blocks and of the embedding.
  Lifetime InBackward() const { return {Mirrored(HeadTick()), Mirrored(0)}; }
};

}  // namespace folio
