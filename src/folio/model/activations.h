#pragma once

#include <cstdint>
#include <vector>

#include "folio/model/config.h"
#include "folio/tensor/plan.h"

namespace folio {

// What a pass over B sequences of T tokens is for, and so how long its buffers live.
enum class PassKind {
  kForward,   // logits or loss only: a buffer lives until the next operations have read it
  kTraining,  // the backward follows: what it reads lives until then
  kDecode,    // one sequence that grows: keys and values stay, and logits are for one row
};

// How a pass computes.
struct PassOptions {
  // F32, F64, or BF16: then what ops.h marks Half is bfloat16, and all else float32.
  Dtype dtype = Dtype::kF32;
  // kTraining: the backward makes the cheap half of the activations again instead of keeping them,
  // to the same bits: results of activation functions, and of pre-norm blocks' LayerNorms.
  bool recompute = false;

  // The dtype of weights, of the stream and of the losses.
  Dtype number() const { return dtype == Dtype::kBF16 ? Dtype::kF32 : dtype; }
  bool operator==(const PassOptions&) const = default;
};

struct NormActivations {
  Tensor out, mean, rstd;  // (N,C), (N), (N)
};

// Buffers of one block, all (N,...) with N = B*T. Those marked Half are in the options' dtype, the
// others in its number().
struct BlockActivations {
  NormActivations norm_1;  // out is Half in a pre-norm block, and the stream itself in a post-norm
  Tensor qkv;              // (N,3C) Half
  Tensor past;   // (S,3C) when decoding: all rows so far, the last of them qkv; else empty
  Tensor lse;    // (B,H,T)
  Tensor attn;   // (N,C) Half, before c_proj
  Tensor sum_1;  // (N,C), input + attention sublayer
  NormActivations norm_2;
  Tensor fc;     // (N,F) Half, before the activation
  Tensor act;    // (N,F) Half
  Tensor sum_2;  // (N,C), + feed-forward sublayer
};

struct GptActivations {
  Tensor embedded;  // (N,C)
  std::vector<BlockActivations> h;
  Tensor branch;            // (N,C) Half, a sublayer's result before it joins the sum
  NormActivations norm_f;   // out is Half
  Tensor logits;            // (R,V), rows of one chunk of the loss head
  Tensor losses, loss_lse;  // (N)
};

// Gradients that flow backward, and what the backward makes again; one set serves all blocks.
struct GptGradients {
  Tensor d_stream = {};  // (N,C), of the residual stream
  Tensor d_branch = {};  // (N,C) Half, of a sublayer's result, or of its input
  Tensor d_wide = {};    // (N,max(3C,F)) Half, elements, of qkv and of fc
  Tensor d_attn = {};    // (N,C) Half
  Tensor d_logits = {};  // (R,V) Half: the logits' own memory unless their dtypes differ
  Tensor input = {};     // (N,C) Half, a sublayer's input; empty where the forward's is there
  Tensor act = {};       // (N,F) Half; empty where the forward's is there
};

// Rows of logits that the loss head holds at a time, of N rows of V.
int64_t LossChunkRows(int64_t N, int64_t V, Dtype dtype = Dtype::kF32);

// The plan of a pass: which buffers, from when to when.
class ActivationPlan {
 public:
  // Adds the buffers to `memory`, which others may share. Throws a kResource Error on overflow.
  ActivationPlan(const GptConfig& config, int64_t B, int64_t T, PassKind kind,
                 const PassOptions& options, MemoryPlan& memory);

  GptActivations Activations(const MemoryPlan& memory, const Arena& arena) const;
  GptGradients Gradients(const MemoryPlan& memory, const Arena& arena) const;  // kTraining only

 private:
  struct Outline;  // what the buffers are planned for
  struct NormIds {
    MemoryPlan::Id out, mean, rstd;
  };
  struct BlockIds {
    NormIds norm_1, norm_2;
    MemoryPlan::Id qkv, lse, attn, sum_1, fc, act, sum_2;
  };
  void AddBlock(const Outline& outline, int64_t layer);
  void AddHead(const Outline& outline);
  void AddGradients(const Outline& outline);

  static constexpr MemoryPlan::Id kNone = -1;
  std::vector<BlockIds> blocks_;
  NormIds norm_f_{};
  MemoryPlan::Id embedded_, branch_, logits_ = kNone, losses_ = kNone, loss_lse_ = kNone;
  MemoryPlan::Id d_stream_ = kNone, d_branch_ = kNone, d_wide_ = kNone, d_attn_ = kNone;
  MemoryPlan::Id d_logits_ = kNone, input_ = kNone, act_ = kNone;
};

}  // namespace folio
