#pragma once

#include <cstdint>

#include "folio/backend/backend.h"
#include "folio/model/config.h"
#include "folio/model/trace.h"

namespace folio {

// Dropout of a training pass: whether the configuration's rates apply, and which random numbers
// belong to it.
struct DropoutContext {
  bool on = false;
  uint64_t seed = 0;
  uint64_t step = 0;
  int64_t first_sequence = 0;  // of the micro-batch, in the whole batch of the step
};

// Where a dropout sits in the model.
enum class DropoutPlace : uint64_t {
  kAttention = 0,
  kAttentionResidual = 1,
  kMlpResidual = 2,
  kActivation = 3,
  kAttentionInput = 4,
  kMlpInput = 5,
  kAttnAdapter = 6,
  kAttnProjAdapter = 7,
  kFcAdapter = 8,
  kMlpProjAdapter = 9,
};

class KvCache;
class LayerGate;
class TensorTeam;

// Rows of a pass whose keys and values go to a KvCache, and which attend to what is there: those of
// one sequence, or few rows of any.
struct CachedRows {
  const KvCache* cache = nullptr;
  Tensor tables = {};        // (N,W) i32, as in ops.h
  Tensor keys, values = {};  // (S,C), room for those of a sequence
};

// What the sublayers of a pass share.
struct PassContext {
  Backend& backend;
  const GptConfig& config;
  int64_t B = 0, T = 0;
  Tensor key_mask = {};  // (B,T) u8, optional: keys that may be attended to
  Tensor mask = {};      // (B or 1,1,T,T) u8 or Number, optional: see ops.h
  DropoutContext dropout = {};
  TraceSink* trace = nullptr;
  LayerGate* gate = nullptr;
  TensorTeam* team = nullptr;          // of a part of the layers: those who have the other parts
  Tensor positions = {};               // (B,T) i32, optional: of each token, instead of 0 to T-1
  const CachedRows* cached = nullptr;  // optional, with positions
  bool accumulate = true;              // backward: gradients of matrices are added to what is there

  int64_t N() const { return B * T; }
  // Shows `x` to whoever looks.
  void Show(TracePoint point, int64_t layer, const Tensor& x) const {
    if (trace != nullptr) trace->Take(point, layer, x);
  }
  // Of what a part of the layers gives: the sum of what all parts give, in place.
  void Sum(const Tensor& x) const;

  // `rows_per_sequence`: rows that one sequence has in the array that is dropped from.
  Dropout DropoutAt(double p, uint64_t place, int64_t rows_per_sequence) const;
  Dropout EmbeddingDropout() const { return DropoutAt(config.embd_pdrop, 0, T); }
  Dropout BlockDropout(int64_t layer, DropoutPlace place) const;
  // Drops elements of x (N,...) in place, if `at` is active: of a value, or, which is the same, of
  // its gradient.
  void Drop(const Tensor& x, const Dropout& at) const;
};

}  // namespace folio
