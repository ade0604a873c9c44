#pragma once

// Sums over elements and over rows. Terms are objects that are passed to a kernel by value and
// called with the place of an element. The order of a sum depends on sizes alone, not on the
// threads of a block.

#include "folio/backend/device/numbers.h"

namespace folio::device {

// The parts in which BlockSumsKernel sums up a block of elements.
inline int SumParts(int64_t block) {
  return block > 4096 ? kMaxThreads : kWarp;
}

// Gives the sum of terms(i) over the i-th block of `block` elements out of n to result(i, sum), for
// each block of the grid: as `parts`, a power of two, that take elements in turn, and a tree of
// them. Shared memory: a double for each part.
template <class Terms, class Result>
FOLIO_KERNEL void BlockSumsKernel(Terms terms, Result result, int64_t n, int64_t block, int parts) {
  FOLIO_DYNAMIC_SHARED(double, sums);
  const int64_t begin = BlockX() * block;
  const int64_t end = begin + block < n ? begin + block : n;
  for (int part = ThreadInBlock(); part < parts; part += BlockThreads()) {
    double sum = 0;
    for (int64_t i = begin + part; i < end; i += parts) sum += terms(i);
    sums[part] = sum;
  }
  for (int half = parts / 2; half > 0; half /= 2) {
    Barrier();
    for (int part = ThreadInBlock(); part < half; part += BlockThreads()) {
      sums[part] += sums[part + half];
    }
  }
  if (ThreadInBlock() == 0) result(BlockX(), sums[0]);
}

template <class Number>
struct Elements {
  const Number* x;

  FOLIO_DEVICE double operator()(int64_t i) const { return static_cast<double>(x[i]); }
};

struct Squares {
  const float* x;

  FOLIO_DEVICE double operator()(int64_t i) const {
    return static_cast<double>(x[i]) * static_cast<double>(x[i]);
  }
};

struct SumsInto {
  double* out;

  FOLIO_DEVICE void operator()(int64_t i, double sum) const { out[i] = sum; }
};

struct SumAddedTo {
  float* out;

  FOLIO_DEVICE void operator()(int64_t i, double sum) const { out[i] += static_cast<float>(sum); }
};

// The parts in which AddColumnSumsKernel sums up the rows.
inline constexpr int kRowParts = 32;

// sums[c] += the sum of terms(n, c) over N rows, in kRowParts parts that take rows in turn. Each
// block has a warp's width of columns.
template <class Terms>
FOLIO_KERNEL void AddColumnSumsKernel(Terms terms, float* sums, int64_t N, int64_t C) {
  FOLIO_SHARED(float, parts, kRowParts* kWarp);
  const int64_t c = BlockX() * kWarp + Lane();
  for (int part = ThreadInBlock() / kWarp; part < kRowParts; part += BlockThreads() / kWarp) {
    float sum = 0;
    for (int64_t n = part; c < C && n < N; n += kRowParts) sum += terms(n, c);
    parts[part * kWarp + Lane()] = sum;
  }
  Barrier();
  if (ThreadInBlock() >= kWarp || c >= C) return;
  float sum = 0;
  for (int part = 0; part < kRowParts; ++part) sum += parts[part * kWarp + Lane()];
  sums[c] += sum;
}

}  // namespace folio::device
