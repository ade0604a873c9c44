#pragma once

#include <cstdint>
#include <span>

#include "folio/model/activations.h"
#include "folio/model/context.h"
#include "folio/model/params.h"

namespace folio {

// One sequence that grows token by token: keys and values of the tokens so far are kept, so that a
// new token costs one row of work. After construction a step of one token allocates nothing.
class Decoder {
 public:
  // `backend` and the weights behind `params` must outlive it. REQUIRES: dtype is theirs.
  Decoder(Backend& backend, const GptConfig& config, const GptParams& params,
          Dtype dtype = Dtype::kF32);
  Decoder(const Decoder&) = delete;

  int64_t size() const { return size_; }                    // tokens so far
  int64_t capacity() const { return config_.n_positions; }  // P
  void Clear() { size_ = 0; }

  // Appends tokens, each in [0,V), and returns the logits (V) of what follows the last of them;
  // they stay valid until the next call. REQUIRES: at least one token, size() + ids.size() <=
  // capacity().
  const Tensor& Append(std::span<const int32_t> ids);

 private:
  // The parts of the buffers that `rows` new rows use.
  void Bind(int64_t rows, GptActivations& bound) const;

  Backend& backend_;
  GptConfig config_;
  const GptParams& params_;
  Arena arena_;
  Tensor ids_;        // (1,P) i32
  Tensor sinusoids_;  // (P,C), empty for learned positions
  GptActivations acts_;
  GptActivations bound_;
  int64_t size_ = 0;
};

}  // namespace folio
