#pragma once

#include <cstdint>

#include "folio/backend/ops.h"
#include "folio/tensor/dtype.h"

namespace folio::cpu {

// A block of a product that has just been summed: what its rows and columns become where they
// belong, while it is in the cache of the calling thread. T is float or BF16.
template <class T>
struct ResultBlock {
  int64_t rows = 0, columns = 0;
  const float* sums = nullptr;  // may be `out` itself, in the same stride
  int64_t sums_stride = 0;
  T* out = nullptr;
  int64_t stride = 0;  // of out, and of what else is of its shape
};

// out = sums, or out + sums if `add`.
void StoreSums(const ResultBlock<float>& block, bool add);
void StoreSums(const ResultBlock<BF16>& block, bool add);

// out = sums + bias (columns); act = activation(out), unless act is null.
void StoreBiased(const ResultBlock<float>& block, const float* bias, Activation activation,
                 float* act);
void StoreBiased(const ResultBlock<BF16>& block, const float* bias, Activation activation,
                 BF16* act);

// out = sums activation'(pre).
void StoreGradient(const ResultBlock<float>& block, Activation activation, const float* pre);
void StoreGradient(const ResultBlock<BF16>& block, Activation activation, const BF16* pre);

}  // namespace folio::cpu
