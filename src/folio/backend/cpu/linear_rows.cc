#include "folio/backend/cpu/linear_rows.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <tuple>

#include "folio/backend/cpu/linear_epilogue.h"
#include "folio/backend/cpu/stored_numbers.h"
#include "folio/base/simd_targets.h"
#include "folio/base/thread_pool.h"
#include "folio/tensor/blocks.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "folio/backend/cpu/linear_rows.cc"
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "folio/backend/cpu/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace folio::cpu::HWY_NAMESPACE {

using Floats = hn::ScalableTag<float>;

// Rows of a weight that are read side by side, rows of x that they are multiplied with at once, and
// columns whose results stay in a first-level cache meanwhile.
constexpr int64_t kSide = 8, kGroup = 8, kColumns = 256;

// Rows of a weight (I,O), and the rows that will be read next.
struct WeightRows {
  const float* numbers;
  const float* next;
  int64_t O;
};

// columns of out (kN) += x w for kRows rows of w, or = if `first`.
template <int64_t kN, int64_t kRows>
HWY_INLINE void AddProducts(const float* x, int64_t I, const WeightRows& w, int64_t columns,
                            bool first, float* out, int64_t ldo) {
  const Floats d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  float factors[kN][kRows];
  for (int64_t n = 0; n < kN; ++n) std::copy_n(x + n * I, kRows, factors[n]);
  const auto add = [&](int64_t c, const auto& load, const auto& store) HWY_ATTR {
    hn::Vec<Floats> u[kRows];
    for (int64_t r = 0; r < kRows; ++r) u[r] = load(w.numbers + r * w.O + c);
    for (int64_t n = 0; n < kN; ++n) {
      auto sum = first ? hn::Zero(d) : load(out + n * ldo + c);
      for (int64_t r = 0; r < kRows; ++r) sum = hn::MulAdd(hn::Set(d, factors[n][r]), u[r], sum);
      store(sum, out + n * ldo + c);
    }
  };
  int64_t c = 0;
  for (; c + lanes <= columns; c += lanes) {
    for (int64_t r = 0; r < kRows; ++r) __builtin_prefetch(w.next + r * w.O + c, 0, 2);
    add(
        c, [&](const float* from) HWY_ATTR { return LoadU(d, from); },
        [&](auto sum, float* to) HWY_ATTR { StoreU(sum, d, to); });
  }
  if (c == columns) return;
  add(
      c, [&](const float* from) HWY_ATTR { return LoadPart(d, from, columns - c); },
      [&](auto sum, float* to) HWY_ATTR { StorePart(sum, d, to, columns - c); });
}

// The same for N rows of x.
template <int64_t kRows>
void AddAllProducts(const float* x, int64_t N, int64_t I, const WeightRows& w, int64_t columns,
                    bool first, float* out, int64_t ldo) {
  int64_t n = 0;
  const auto add = [&]<int64_t kN>(std::integral_constant<int64_t, kN>) HWY_ATTR {
    for (; n + kN <= N; n += kN) {
      AddProducts<kN, kRows>(x + n * I, I, w, columns, first, out + n * ldo, ldo);
    }
  };
  add(std::integral_constant<int64_t, kGroup>());
  add(std::integral_constant<int64_t, 4>());
  add(std::integral_constant<int64_t, 2>());
  add(std::integral_constant<int64_t, 1>());
}

// out (N,O), whose rows are `ldo` apart, = x w for `rows` consecutive rows of a weight (I,O), and
// as many columns of x, whose own rows are I apart. Each element adds its products in order.
void ProductOfRows(const float* x, int64_t N, int64_t I, const float* w, int64_t rows, int64_t O,
                   float* out, int64_t ldo) {
  for (int64_t c = 0; c < O; c += kColumns) {
    const int64_t columns = std::min(kColumns, O - c);
    int64_t r = 0;
    for (; r + kSide <= rows; r += kSide) {
      const float* at = w + r * O + c;
      const float* next = r + 2 * kSide <= rows ? at + kSide * O : w + c + columns;
      AddAllProducts<kSide>(x + r, N, I, {at, next, O}, columns, r == 0, out + c, ldo);
    }
    for (; r < rows; ++r) {
      const float* at = w + r * O + c;
      AddAllProducts<1>(x + r, N, I, {at, at, O}, columns, r == 0, out + c, ldo);
    }
  }
}

// out (n) = the sum of `count` arrays, `stride` apart, in order.
void SumArrays(const float* arrays, int64_t count, int64_t stride, int64_t n, float* out) {
  const Floats d;
  const auto add = [](auto a, auto b) HWY_ATTR { return hn::Add(a, b); };
  std::copy_n(arrays, n, out);
  for (int64_t i = 1; i < count; ++i) {
    Map(d, n, out, add, static_cast<const float*>(out), arrays + i * stride);
  }
}

// From this many rows of x on, computing takes longer than reading w.
constexpr int64_t kManyRows = 2;
constexpr int64_t kLineBytes = 64;

// to[i][j] = x[i] . w[j], summed in Dot's order: two rows of each. Prefetches `lines` cache lines
// from `ahead` on with each four vectors of a row.
template <class T>
HWY_INLINE void DotTwoByTwo(const float* x, const T* w, int64_t I, const T* ahead, int64_t lines,
                            float (&to)[2][2]) {
  const Floats d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  hn::Vec<Floats> sums[2][2][4];
  for (auto& row : sums) {
    for (auto& parts : row) {
      for (auto& part : parts) part = hn::Zero(d);
    }
  }
  const auto add = [&](int part, int64_t at, int64_t n) HWY_ATTR {
    for (int64_t i = 0; i < 2; ++i) {
      for (int64_t j = 0; j < 2; ++j) {
        const float* left = x + i * I + at;
        const T* right = w + j * I + at;
        sums[i][j][part] =
            n == 0 ? hn::MulAdd(LoadU(d, left), LoadU(d, right), sums[i][j][part])
                   : hn::MulAdd(LoadPart(d, left, n), LoadPart(d, right, n), sums[i][j][part]);
      }
    }
  };
  int64_t at = 0;
  for (; at + 4 * lanes <= I; at += 4 * lanes) {
    for (int64_t line = 0; line < lines; ++line, ahead += kLineBytes / sizeof(T)) {
      __builtin_prefetch(ahead, 0, 2);
    }
    for (int part = 0; part < 4; ++part) add(part, at + part * lanes, 0);
  }
  for (; at + lanes <= I; at += lanes) add(0, at, 0);
  if (at < I) add(1, at, I - at);
  for (int64_t i = 0; i < 2; ++i) {
    for (int64_t j = 0; j < 2; ++j) {
      const auto& part = sums[i][j];
      to[i][j] = SumLanes(d, hn::Add(hn::Add(part[0], part[1]), hn::Add(part[2], part[3])));
    }
  }
}

// out[n * ldo + r] = x[n] . w[r] for `rows` consecutive rows of I numbers: in order, so that memory
// is read sequentially; for several rows of x by pairs.
template <class T>
void RowsOf(const float* x, int64_t N, int64_t I, const T* w, int64_t rows, float* out,
            int64_t ldo) {
  const Floats d;
  const int64_t pairs = N < kManyRows ? 0 : rows / 2 * 2, paired = pairs == 0 ? 0 : N / 2 * 2;
  // While a pair of rows of w is used the pair after the next is prefetched, a little with each
  // pair of rows of x.
  const int64_t four = 4 * static_cast<int64_t>(hn::Lanes(d) * sizeof(T));  // bytes
  const int64_t lines = paired == 0 ? 0 : CeilDiv(2 * four, kLineBytes * (paired / 2));
  const int64_t asked =
      lines * (I * static_cast<int64_t>(sizeof(T)) / four) * kLineBytes / sizeof(T);
  for (int64_t r = 0; r < pairs; r += 2) {
    for (int64_t n = 0; n < paired; n += 2) {
      float sums[2][2];
      const T* ahead = w + (r + 4) * I + n / 2 * asked;
      DotTwoByTwo(x + n * I, w + r * I, I, ahead, lines, sums);
      for (int64_t i = 0; i < 2; ++i) std::copy_n(sums[i], 2, out + (n + i) * ldo + r);
    }
    for (int64_t j = r; j < r + 2 && paired < N; ++j) {
      out[paired * ldo + j] = Dot(d, x + paired * I, w + j * I, I);
    }
  }
  for (int64_t r = pairs; r < rows; ++r) {
    for (int64_t n = 0; n < N; ++n) out[n * ldo + r] = Dot(d, x + n * I, w + r * I, I);
  }
}

// Columns [begin, end) of a product of x with a weight (O,I).
void TransposedSlice(const float* x, const LinearForward& op, int64_t begin, int64_t end) {
  const int64_t N = op.x.dim(0), I = op.x.dim(1), O = op.out.dim(1);
  float* out = op.out.data<float>() + begin;
  if (op.weight.dtype() == Dtype::kBF16) {
    RowsOf(x, N, I, op.weight.data<BF16>() + begin * I, end - begin, out, O);
  } else if (op.weight.dtype() == Dtype::kF16) {
    const auto* w = reinterpret_cast<const F16*>(op.weight.raw());
    RowsOf(x, N, I, w + begin * I, end - begin, out, O);
  } else {
    RowsOf(x, N, I, op.weight.data<float>() + begin * I, end - begin, out, O);
  }
}

}  // namespace folio::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace folio::cpu {

HWY_EXPORT(ProductOfRows);
HWY_EXPORT(SumArrays);
HWY_EXPORT(TransposedSlice);

// ---- Rows rounded to blocks --------------------------------------------------------------------

namespace {

// The portable kernel.
template <Dtype dtype>
void PlainKernel(const BlockedRows& x, const std::byte* weight, int64_t rows, float* out,
                 int64_t stride) {
  constexpr int64_t kBlock = BlockedRows::kBlock, kFours = kBlock / 4;
  const auto parts = static_cast<int64_t>(DtypeBlock(dtype)) / kBlock;
  const auto bytes = static_cast<int64_t>(DtypeBytes(dtype, parts * kBlock));
  const BlockLayout& layout = LayoutOf(dtype);
  BlockPart w;
  for (int64_t r = 0; r < rows; ++r, weight += x.blocks / parts * bytes) {
    float sums[LinearForward::kFewRows][2][kFours] = {};
    float minima[LinearForward::kFewRows][BlockedRows::kGroup] = {};
    for (int64_t b = 0; b < x.blocks; ++b) {
      layout.unpack(weight + b / parts * bytes, static_cast<size_t>(b % parts), w);
      for (int64_t n = 0; n < x.rows; ++n) {
        const int64_t at = n * x.stride + b;
        int32_t numbers[kBlock];
        for (int64_t i = 0; i < kBlock; ++i) {
          numbers[i] = 128 * x.high[at * kBlock + i] + x.low[at * kBlock + i];
        }
        const float products[2] = {w.scale[0] * x.scales[at], w.scale[1] * x.scales[at]};
        for (int64_t i = 0; i < kBlock; i += 4) {
          const int32_t four = w.q[i] * numbers[i] + w.q[i + 1] * numbers[i + 1] +
                               w.q[i + 2] * numbers[i + 2] + w.q[i + 3] * numbers[i + 3];
          float& to = sums[n][b % 2][i / 4];
          to = std::fma(products[i / (kBlock / 2)], static_cast<float>(four), to);
        }
        if (!layout.minima) continue;
        float& to = minima[n][b % BlockedRows::kGroup];
        to = std::fma(w.least[0], x.sums[at], to);
      }
    }
    for (int64_t n = 0; n < x.rows; ++n) {
      float fours[kFours / 2];
      for (int64_t i = 0; i < kFours / 2; ++i) {
        fours[i] = (sums[n][0][i] + sums[n][1][i]) +
                   (sums[n][0][i + kFours / 2] + sums[n][1][i + kFours / 2]);
      }
      float& to = out[n * stride + r];
      to = (fours[0] + fours[1]) + (fours[2] + fours[3]);
      if (layout.minima) to += (minima[n][0] + minima[n][1]) + (minima[n][2] + minima[n][3]);
    }
  }
}

// The amount by which unsigned integers exceed those of a weight.
int32_t OffsetOf(Dtype weight) {
  if (LayoutOf(weight).minima) return 0;
  return weight == Dtype::kQ8_0 ? 128 : weight == Dtype::kQ6_K ? 32 : 8;
}

}  // namespace

BlockedRows::BlockedRows(const Tensor& x, Dtype weight, Scratch& scratch)
    : rows(x.dim(0)), blocks(x.dim(1) / kBlock), stride(CeilDiv(blocks, kGroup) * kGroup) {
  const int64_t all = rows * stride;
  const auto place = [&](ScratchParts parts) {
    int8_t* high_bytes = parts.Take<int8_t>(all * kBlock);
    int8_t* low_bytes = parts.Take<int8_t>(all * kBlock);
    float* scale = parts.Take<float>(all);
    int32_t* correction = parts.Take<int32_t>(all * kBlock / 4);
    float* sum = parts.Take<float>(all);
    return std::tuple(high_bytes, low_bytes, scale, correction, sum, parts.bytes());
  };
  const int64_t bytes = std::get<5>(place(ScratchParts(nullptr)));
  const auto [high_bytes, low_bytes, scale, correction, sum, unused] =
      place(ScratchParts(scratch.Get<std::byte>(bytes)));
  const int32_t offset = OffsetOf(weight);
  const auto round = [&, to = high_bytes, rest = low_bytes, scale = scale, correction = correction,
                      sum = sum](int64_t begin, int64_t end, int) {
    for (int64_t n = begin; n < end; ++n) {
      RoundToBlocks(x.data<float>() + n * blocks * kBlock, blocks, to + n * stride * kBlock,
                    rest + n * stride * kBlock, scale + n * stride);
      for (int8_t* part : {to, rest}) {
        std::fill_n(part + (n * stride + blocks) * kBlock, (stride - blocks) * kBlock, int8_t{0});
      }
      std::fill_n(scale + n * stride + blocks, stride - blocks, 0.0f);
    }
    for (int64_t i = begin * stride * kBlock; offset != 0 && i < end * stride * kBlock; i += 4) {
      const int32_t four =
          128 * std::accumulate(to + i, to + i + 4, 0) + std::accumulate(rest + i, rest + i + 4, 0);
      correction[i / 4] = -offset * four;
    }
    for (int64_t b = begin * stride; offset == 0 && b < end * stride; ++b) {
      const int64_t from = b * kBlock, until = from + kBlock;
      const int32_t total = 128 * std::accumulate(to + from, to + until, 0) +
                            std::accumulate(rest + from, rest + until, 0);
      sum[b] = scale[b] * static_cast<float>(total);
    }
  };
  ParallelRange(rows, TaskRows(x.dim(1)), round);
  high = high_bytes;
  low = low_bytes;
  scales = scale;
  corrections = correction;
  sums = sum;
}

// ---- Few rows ----------------------------------------------------------------------------------

namespace {

// Bias and activation for columns [begin, end), which hold the sums.
void FinishColumns(const LinearForward& op, int64_t begin, int64_t end) {
  if (!op.bias && !op.act) return;
  const int64_t O = op.out.dim(1);
  StoreForward({0, op.x.dim(0), begin, end - begin, op.out.data<float>() + begin, O}, op);
}

// Calls f for columns [begin, end), which for a weight (O,I) are a contiguous part: several parts
// per thread, so that a slow thread leaves some to others.
template <class F>
void ForSlices(int64_t O, F&& f) {
  constexpr int64_t kColumns = 64, kEach = 4;
  const int64_t slice = CeilDiv(CeilDiv(O, kEach * Threads()), kColumns) * kColumns;
  ParallelRange(O, slice, [&](int64_t begin, int64_t end, int) { f(begin, end); });
}

// Rows of x rounded to bfloat16, for Bf16Unit's dot products.
HalfRows RoundedHalves(const Tensor& x, Scratch& scratch) {
  constexpr int64_t kVector = 32;
  const int64_t N = x.dim(0), I = x.dim(1), whole = CeilDiv(I, kVector) * kVector;
  const int64_t stride = whole + kVector;  // rows 2^n apart would collide in caches
  BF16* to = scratch.Get<BF16>(N * stride);
  ParallelRange(N, TaskRows(I), [&](int64_t begin, int64_t end, int) {
    for (int64_t n = begin; n < end; ++n) {
      RoundToHalves(x.data<float>() + n * I, I, to + n * stride);
      std::fill_n(to + n * stride + I, whole - I, BF16{});
    }
  });
  return {.numbers = to, .rows = N, .stride = stride};
}

// Columns [begin, end), some rows of x at a time, so that these stay in a second-level cache.
void MultiplyHalves(const HalfRows& x, const LinearForward& op, int64_t begin, int64_t end) {
  constexpr int64_t kRows = 128;
  const int64_t I = op.x.dim(1), O = op.out.dim(1);
  for (int64_t n = 0; n < x.rows; n += kRows) {
    const HalfRows some{x.numbers + n * x.stride, std::min(kRows, x.rows - n), x.stride};
    MultiplyHalfRows(some, op.weight.data<BF16>() + begin * I, end - begin, I,
                     op.out.data<float>() + n * O + begin, O);
  }
}

// Sums columns with multiply(begin, end), and finishes them.
template <class F>
void ForFinishedSlices(const LinearForward& op, F&& multiply) {
  ForSlices(op.out.dim(1), [&](int64_t begin, int64_t end) {
    multiply(begin, end);
    FinishColumns(op, begin, end);
  });
}

void RunTransposed(const LinearForward& op, Scratch& scratch) {
  const Dtype dtype = op.weight.dtype();
  if (IsBlocked(dtype)) {
    const BlockedRows x(op.x, dtype, scratch);
    BlockKernel kernel = X86BlockKernel(dtype, x.rows == 1);
    if (kernel == nullptr) {
      kernel = ForBlockDtype(
          dtype, []<Dtype weight>(DtypeIs<weight>) -> BlockKernel { return PlainKernel<weight>; });
    }
    return ForFinishedSlices(op, [&](int64_t begin, int64_t end) {
      kernel(x, op.weight.Slice(begin, end).raw(), end - begin, op.out.data<float>() + begin,
             op.out.dim(1));
    });
  }
  if (dtype == Dtype::kBF16 && Bf16UnitInUse() != Bf16Unit::kPlain) {
    const HalfRows x = RoundedHalves(op.x, scratch);
    return ForFinishedSlices(
        op, [&](int64_t begin, int64_t end) { MultiplyHalves(x, op, begin, end); });
  }
  const float* x = RoundedRows(op.x, EntersAs(op, "x"), scratch.Get<float>(op.x.count()));
  ForFinishedSlices(op, [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(TransposedSlice)(x, op, begin, end);
  });
}

// A weight (I,O): ranges of its rows give products that are summed, so that memory is read
// sequentially here too.
void RunInOut(const LinearForward& op, Scratch& scratch) {
  constexpr int64_t kRows = 64;
  constexpr int64_t kApart = 16;  // rows 2^n apart would collide in caches
  const int64_t N = op.x.dim(0), I = op.x.dim(1), O = op.out.dim(1), ldo = O + kApart;
  float* products = scratch.Get<float>(CeilDiv(I, kRows) * N * ldo);
  ParallelRange(I, kRows, [&](int64_t begin, int64_t end, int) {
    HWY_DYNAMIC_DISPATCH(ProductOfRows)
    (op.x.data<float>() + begin, N, I, op.weight.data<float>() + begin * O, end - begin, O,
     products + begin / kRows * N * ldo, ldo);
  });
  ForSlices(O, [&](int64_t begin, int64_t end) {
    for (int64_t n = 0; n < N; ++n) {
      HWY_DYNAMIC_DISPATCH(SumArrays)
      (products + n * ldo + begin, CeilDiv(I, kRows), N * ldo, end - begin,
       op.out.data<float>() + n * O + begin);
    }
    FinishColumns(op, begin, end);
  });
}

}  // namespace

bool RunsByRows(const LinearForward& op) {
  if (op.x.dtype() != Dtype::kF32 || op.accumulate) return false;
  if (op.x.dim(0) <= LinearForward::kFewRows) return true;
  if (IsBlocked(op.weight.dtype())) return X86TakesAnyRows();
  return op.weight.dtype() == Dtype::kBF16 && Bf16UnitIsFast() &&
         Bf16UnitInUse() == Bf16Unit::kAvx512;
}

const float* RoundedRows(const Tensor& x, Rounding as, float* to) {
  if (as == Rounding::kNone) return x.data<float>();
  const int64_t I = x.dim(1);
  ParallelRange(x.dim(0), TaskRows(I), [&](int64_t begin, int64_t end, int) {
    RoundInto(as, x.data<float>() + begin * I, (end - begin) * I, to + begin * I);
  });
  return to;
}

void RunLinearRows(const LinearForward& op, Scratch& scratch) {
  op.transposed ? RunTransposed(op, scratch) : RunInOut(op, scratch);
}

}  // namespace folio::cpu
#endif  // HWY_ONCE
