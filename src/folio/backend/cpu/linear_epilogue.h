#pragma once

#include <cstdint>

#include "folio/backend/ops.h"

namespace folio::cpu {

// A block of a product (N,O) that has just been summed, and is finished while it is in the cache of
// the calling thread.
struct ResultBlock {
  int64_t row = 0, rows = 0, column = 0, columns = 0;
  const float* sums = nullptr;  // of the block; may point into the result itself
  int64_t stride = 0;           // from one row of the sums to the next
};

// out (N,O) = sums, or out + sums if `add`.
void StoreSums(const ResultBlock& block, const Tensor& out, bool add);

// op.out = sums + op.bias; op.act = activation(op.out), if present.
void StoreForward(const ResultBlock& block, const LinearForward& op);

// op.d_x = sums activation'(op.pre).
void StoreGradient(const ResultBlock& block, const LinearBackward& op);

// sums[c] += the sum over r of x[r, c], for a matrix of float or BF16. On Threads() threads, at
// most kMaxSumColumns columns a task; rows are added in order.
inline constexpr int64_t kMaxSumColumns = 768;
void AddColumnSums(const Tensor& x, float* sums);

}  // namespace folio::cpu
