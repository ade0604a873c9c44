#include "folio/backend/cpu/attention_heads.h"

#include <algorithm>

#include "folio/backend/cpu/matmul.h"

namespace folio::cpu {
namespace {

void ZeroRows(const HeadRows& x, int64_t rows, int64_t D) {
  for (int64_t r = 0; r < rows; ++r) std::fill_n(x.data + r * x.stride, D, 0.0f);
}

}  // namespace

void Products(const HeadRows& x, int64_t queries, const HeadRows& y, int64_t keys, int64_t D,
              float alpha, float* scores, int64_t stride) {
  if (queries == 0 || keys == 0) return;
  MatMulOnThread({.M = queries,
                  .N = keys,
                  .K = D,
                  .a = x.data,
                  .lda = x.stride,
                  .b = y.data,
                  .ldb = y.stride,
                  .transpose_b = true,
                  .c = scores,
                  .ldc = stride,
                  .alpha = alpha});
}

void Combine(const float* weights, int64_t stride, int64_t queries, int64_t keys, const HeadRows& x,
             int64_t D, float alpha, const HeadRows& to) {
  if (queries == 0) return;
  if (keys == 0) return ZeroRows(to, queries, D);
  MatMulOnThread({.M = queries,
                  .N = D,
                  .K = keys,
                  .a = weights,
                  .lda = stride,
                  .b = x.data,
                  .ldb = x.stride,
                  .c = to.data,
                  .ldc = to.stride,
                  .alpha = alpha});
}

void Collect(const float* weights, int64_t stride, int64_t queries, int64_t keys, const HeadRows& x,
             int64_t D, float alpha, float beta, const HeadRows& to) {
  if (keys == 0) return;
  if (queries == 0) {
    if (beta == 0) ZeroRows(to, keys, D);
    return;
  }
  MatMulOnThread({.M = keys,
                  .N = D,
                  .K = queries,
                  .a = weights,
                  .lda = stride,
                  .transpose_a = true,
                  .b = x.data,
                  .ldb = x.stride,
                  .c = to.data,
                  .ldc = to.stride,
                  .alpha = alpha,
                  .beta = beta});
}

}  // namespace folio::cpu
