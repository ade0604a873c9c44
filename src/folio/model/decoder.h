#pragma once

#include <cstdint>
#include <span>

#include "folio/model/activations.h"
#include "folio/model/context.h"
#include "folio/model/kv_cache.h"
#include "folio/model/params.h"

namespace folio {

// One sequence that grows token by token: keys and values of the tokens so far are kept, so that a
// new token costs one row of work. After construction a step of one token allocates nothing.
class Decoder {
 public:
  // `backend` and the weights behind `params` must outlive it. Throws a kUsage Error for a model
  // that is not causal. REQUIRES: dtype is theirs.
  Decoder(Backend& backend, const GptConfig& config, const GptParams& params,
          Dtype dtype = Dtype::kF32);
  Decoder(const Decoder&) = delete;

  int64_t size() const { return cache_.size(); }          // tokens so far
  int64_t capacity() const { return cache_.capacity(); }  // P
  void Clear() { cache_.Clear(); }

  // Appends tokens, each in [0,V), and returns the logits (V) of what follows the last of them;
  // they stay valid until the next call. REQUIRES: at least one token, size() + ids.size() <=
  // capacity().
  const Tensor& Append(std::span<const int32_t> ids);

 private:
  PassShape Pass(int64_t rows) const;  // of as many new tokens

  Backend& backend_;
  GptConfig config_;
  const GptParams& params_;
  Dtype dtype_;
  KvCache cache_;
  MemoryPlan plan_;  // of a pass of P rows
  Arena arena_;
  PassBuffers buffers_;
};

}  // namespace folio
