#pragma once

#include <cstdint>
#include <vector>

#include "folio/tensor/tensor.h"

namespace folio {

// AttentionMask says which query may attend to which key, u8, 0 where it may not.
class AttentionMask {
 public:
  // (1,1,T,S): query t sees keys s <= t + (S - T).
  static AttentionMask Causal(int64_t T, int64_t S);
  // (B,1,T,S): of the (B,S) u8 `key_mask` (0 for padding) and, if `causal`, of Causal both.
  static AttentionMask Combined(const Tensor& key_mask, int64_t T, bool causal);

  // Returns the mask to be read, while it lives.
  Tensor tensor() const { return {const_cast<uint8_t*>(memory_.data()), shape_}; }

 private:
  explicit AttentionMask(const Shape& shape);

  std::vector<uint8_t> memory_;
  Shape shape_;
};

}  // namespace folio
