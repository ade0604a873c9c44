#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

#include "folio/backend/cpu/matmul.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "folio/backend/cpu/small_product.cc"
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "folio/backend/cpu/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace folio::cpu::HWY_NAMESPACE {

// Panels of the right operand are PanelWidth() columns, row after row.
using Floats = hn::ScalableTag<float>;
using Vector = hn::Vec<Floats>;
inline constexpr int kPanelVectors = 2;

HWY_INLINE int64_t Lanes() {
  return static_cast<int64_t>(hn::Lanes(Floats()));
}
HWY_INLINE int64_t PanelWidth() {
  return kPanelVectors * Lanes();
}

// Packs (depth, columns) elements of B, or of its transpose. Missing columns are zeros.
HWY_INLINE void PackPanel(const float* b, int64_t ldb, bool transposed, int64_t depth,
                          int64_t columns, float* to) {
  const int64_t width = PanelWidth();
  if (columns < width) std::fill_n(to, depth * width, 0.0f);
  if (transposed) {
    CopyTransposed(b, ldb, columns, depth, to, width);
    return;
  }
  const Floats d;
  for (int64_t k = 0; k < depth; ++k) {
    Map(
        d, columns, to + k * width, [](auto v) HWY_ATTR { return v; }, b + k * ldb);
  }
}

// A block of C is at most kMaxRows rows of kPanelVectors vectors, which leaves registers for a row
// of B and an element of A.
#if HWY_TARGET == HWY_AVX3
inline constexpr int kMaxRows = 14;
#elif HWY_TARGET == HWY_NEON || HWY_HAVE_SCALABLE
inline constexpr int kMaxRows = 12;
#else
inline constexpr int kMaxRows = 6;
#endif

// Rows of B that are multiplied at a time: a panel of them stays in the first-level cache.
inline constexpr int64_t kDepth = 256;
// Columns of B that are, whole panels on every target: what is packed lies on the stack.
inline constexpr int64_t kMaxColumns = 128;

// Up to this many rows of C, packing a panel of B costs more than reading it where it is.
inline constexpr int64_t kFewRows = 96;

// A block of C, and what of A and B makes it. All vectors of b can be read, whatever `columns`.
struct Block {
  const float* a = nullptr;
  int64_t lda = 0;
  const float* b = nullptr;
  int64_t ldb = 0;
  int64_t depth = 0;
  float* c = nullptr;
  int64_t ldc = 0;
  int64_t columns = 0;  // of c
  float beta = 0;
  int64_t next_rows = 0;  // of A below this block, to be fetched for the next one
};

// Part of a row of C.
template <bool whole>
HWY_INLINE Vector LoadC(const float* c, int64_t columns) {
  return whole ? hn::LoadU(Floats(), c) : LoadPart(Floats(), c, columns);
}
template <bool whole>
HWY_INLINE void StoreC(Vector v, float* c, int64_t columns) {
  if constexpr (whole) {
    hn::StoreU(v, Floats(), c);
  } else {
    StorePart(v, Floats(), c, columns);
  }
}

// The elements of one column of A, by row.
template <bool transposed, int rows>
class Column {
 public:
  Column(const float* a, int64_t lda) : lda_(lda) {
    for (int i = 0; i < kPointers; ++i) at_[i] = a + kStep * i * lda;
  }
  HWY_INLINE float operator[](int row) const {
    return transposed ? at_[0][row] : at_[row / kStep][row % kStep * lda_];
  }
  HWY_INLINE void Next() {
    for (int i = 0; i < kPointers; ++i) at_[i] += transposed ? lda_ : 1;
  }
  // Column k of the rows below, each cache line of them once in the course of all columns.
  HWY_INLINE void FetchBelow(const float* a, int64_t k, int64_t next_rows) const {
    if constexpr (transposed) {
      hwy::Prefetch(at_[0] + rows + next_rows - 1);
    } else {
      hwy::Prefetch(a + (rows + std::min(k & 15, next_rows - 1)) * lda_ + (k & ~int64_t{15}));
    }
  }

 private:
  // A pointer serves three rows, at no distance, once and twice lda: few enough for registers.
  static constexpr int kStep = 3;
  static constexpr int kPointers = transposed ? 1 : (rows + kStep - 1) / kStep;
  const float* at_[kPointers];
  const int64_t lda_;
};

// C = sums + beta * C, where sums[i] is vector i % vectors of row i / vectors. Only the
// last vector of a row may be less than whole.
template <int vectors, bool whole, int... i, class... V>
HWY_INLINE void Finish(const Block& x, std::integer_sequence<int, i...>, V... sums) {
  const Floats d;
  const int64_t ldc = x.ldc, last = x.columns - (vectors - 1) * Lanes();
  float* c = x.c;
  const auto beta = hn::Set(d, x.beta);
  const auto at = [=](int j) HWY_ATTR { return c + j / vectors * ldc + j % vectors * Lanes(); };
  if (x.beta != 0) {
    ((sums = hn::MulAdd(beta, LoadC<(whole || i % vectors + 1 < vectors)>(at(i), last), sums)),
     ...);
  }
  (StoreC<(whole || i % vectors + 1 < vectors)>(sums, at(i), last), ...);
}

// sums[i] as above: parameters, as no array can hold the vectors of every target.
template <bool transposed, int vectors, int... i, class... V>
HWY_INLINE void Accumulate(const Block& x, std::integer_sequence<int, i...> indices, V... sums) {
  const Floats d;
  Column<transposed, sizeof...(i) / vectors> a(x.a, x.lda);
  const float* b = x.b;
  (hwy::Prefetch(x.c + i / vectors * x.ldc + i % vectors * Lanes()), ...);
  for (int64_t k = 0; k < x.depth; ++k) {
    const auto first = hn::LoadU(d, b), last = hn::LoadU(d, b + (vectors - 1) * Lanes());
    if (x.next_rows > 0) a.FetchBelow(x.a, k, x.next_rows);
    ((sums = hn::MulAdd(hn::Set(d, a[i / vectors]), i % vectors == 0 ? first : last, sums)), ...);
    a.Next();
    b += x.ldb;
  }
  if (x.columns == vectors * Lanes()) {
    Finish<vectors, true>(x, indices, sums...);
  } else {
    Finish<vectors, false>(x, indices, sums...);
  }
}

template <bool transposed, int vectors, int... i>
HWY_INLINE void AccumulateFromZero(const Block& x, std::integer_sequence<int, i...> indices) {
  Accumulate<transposed, vectors>(x, indices, (static_cast<void>(i), hn::Zero(Floats()))...);
}

template <bool transposed, int vectors, int rows>
void RunBlock(const Block& x) {
  AccumulateFromZero<transposed, vectors>(x, std::make_integer_sequence<int, rows * vectors>());
}

using BlockFunction = void (*)(const Block& x);

// The table is indexed by the number of rows less one.
template <bool transposed, int vectors, int... i>
constexpr std::array<BlockFunction, kMaxRows> MakeTable(std::integer_sequence<int, i...>) {
  return {{RunBlock<transposed, vectors, i + 1>...}};
}
template <bool transposed, int vectors>
inline constexpr auto kTable =
    MakeTable<transposed, vectors>(std::make_integer_sequence<int, kMaxRows>());

BlockFunction FindBlock(bool transposed, int64_t columns, int64_t rows) {
  const size_t i = static_cast<size_t>(rows - 1);
  const bool wide = columns > Lanes();
  if (transposed) return wide ? kTable<true, 2>[i] : kTable<true, 1>[i];
  return wide ? kTable<false, 2>[i] : kTable<false, 1>[i];
}

// Adds to C what rows [k, k + depth) of op(B) give; `panels` begins with the packed ones, those
// that are not read where they are.
void MultiplyDepth(const MatMulArgs& args, int64_t k, int64_t depth, bool packed, float* panels) {
  const int64_t width = PanelWidth(), blocks = (args.M + kMaxRows - 1) / kMaxRows;
  Block x{.lda = args.lda, .depth = depth, .ldc = args.ldc};
  x.beta = k == 0 ? args.beta : 1;
  for (int64_t i = 0; i < blocks; ++i) {
    const int64_t m = args.M * i / blocks, end = args.M * (i + 1) / blocks;
    x.a = args.a + (args.transpose_a ? k * args.lda + m : m * args.lda + k);
    for (int64_t n = 0; n < args.N; n += width) {
      x.columns = std::min(width, args.N - n);
      const bool in_place = !packed && x.columns == width;
      x.b = in_place ? args.b + k * args.ldb + n : panels + (packed ? n * depth : 0);
      x.ldb = in_place ? args.ldb : width;
      x.c = args.c + m * args.ldc + n;
      x.next_rows = n + width < args.N ? 0 : args.M * (i + 2) / blocks - end;
      if (i + 1 == blocks) x.next_rows = 0;
      FindBlock(args.transpose_a, x.columns, end - m)(x);
    }
  }
}

// REQUIRES: N <= kMaxColumns.
void ProductOfColumns(const MatMulArgs& args, float* panels) {
  const int64_t width = PanelWidth();
  const bool packed = args.transpose_b || args.M > kFewRows;
  for (int64_t k = 0; k < args.K; k += kDepth) {
    const int64_t depth = std::min(kDepth, args.K - k);
    for (int64_t n = packed ? 0 : args.N / width * width; n < args.N; n += width) {
      const float* b = args.b + (args.transpose_b ? n * args.ldb + k : k * args.ldb + n);
      PackPanel(b, args.ldb, args.transpose_b, depth, std::min(width, args.N - n),
                panels + (packed ? n * depth : 0));
    }
    MultiplyDepth(args, k, depth, packed, panels);
  }
}

void Product(const MatMulArgs& args) {
  alignas(64) float panels[kDepth * kMaxColumns];
  for (int64_t n = 0; n < args.N; n += kMaxColumns) {
    MatMulArgs part = args;
    part.N = std::min(kMaxColumns, args.N - n);
    part.b += args.transpose_b ? n * args.ldb : n;
    part.c += n;
    ProductOfColumns(part, panels);
  }
}

}  // namespace folio::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace folio::cpu {

HWY_EXPORT(Product);

void SmallProduct(const MatMulArgs& args) {
  HWY_DYNAMIC_DISPATCH(Product)(args);
}

}  // namespace folio::cpu
#endif  // HWY_ONCE
