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

struct NormActivations {
  Tensor out, mean, rstd;  // (N,C), (N), (N)
};

// Buffers of one block, all (N,...) with N = B*T.
struct BlockActivations {
  NormActivations norm_1;
  Tensor qkv;    // (N,3C)
  Tensor past;   // (S,3C) when decoding: all rows so far, the last of them qkv; else empty
  Tensor lse;    // (B,H,T)
  Tensor attn;   // (N,C), before c_proj
  Tensor sum_1;  // (N,C), input + attention sublayer
  NormActivations norm_2;
  Tensor fc;     // (N,F), before the activation
  Tensor act;    // (N,F)
  Tensor sum_2;  // (N,C), + feed-forward sublayer
};

struct GptActivations {
  Tensor embedded;  // (N,C)
  std::vector<BlockActivations> h;
  Tensor branch;  // (N,C), a sublayer's result before it joins the sum
  NormActivations norm_f;
  Tensor logits;            // (R,V), rows of one chunk of the loss head
  Tensor losses, loss_lse;  // (N)
};

// Gradients that flow backward; one set serves all blocks.
struct GptGradients {
  Tensor d_stream;  // (N,C), of the residual stream
  Tensor d_branch;  // (N,C), of a sublayer's result, or of its input
  Tensor d_wide;    // (N,max(3C,F)) elements, of qkv and of fc
  Tensor d_attn;    // (N,C)
};

// Rows of logits that the loss head holds at a time.
int64_t LossChunkRows(int64_t N, int64_t V);

// The plan of a pass: which buffers, from when to when.
class ActivationPlan {
 public:
  // Adds the buffers to `memory`, which others may share. Throws a kResource Error on overflow.
  ActivationPlan(const GptConfig& config, int64_t B, int64_t T, PassKind kind, Dtype dtype,
                 MemoryPlan& memory);

  GptActivations Activations(const MemoryPlan& memory, const Arena& arena) const;
  GptGradients Gradients(const MemoryPlan& memory, const Arena& arena) const;  // kTraining only

 private:
  struct NormIds {
    MemoryPlan::Id out, mean, rstd;
  };
  struct BlockIds {
    NormIds norm_1, norm_2;
    MemoryPlan::Id qkv, lse, attn, sum_1, fc, act, sum_2;
  };
  std::vector<BlockIds> blocks_;
  NormIds norm_f_;
  MemoryPlan::Id embedded_, branch_, logits_, losses_, loss_lse_;
  MemoryPlan::Id d_stream_ = -1, d_branch_ = -1, d_wide_ = -1, d_attn_ = -1;
};

}  // namespace folio
