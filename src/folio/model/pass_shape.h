#pragma once

#include <cstdint>

#include "folio/model/config.h"
#include "folio/model/lora.h"
#include "folio/model/shard.h"
#include "folio/tensor/dtype.h"

namespace folio {

// A kind of pass over B sequences of T tokens, from which follows how long its buffers live.
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

// A pass over B sequences of T tokens.
struct PassShape {
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
};

}  // namespace folio
