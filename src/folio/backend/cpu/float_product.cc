#include <algorithm>
#include <array>
#include <cstdint>

#include "folio/backend/cpu/matmul.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "folio/backend/cpu/float_product.cc"
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

// A block of C is at most kMaxRows rows of kPanelVectors vectors, so that registers are left for a
// row of B and an element of A.
#if HWY_TARGET <= HWY_AVX3 && HWY_ARCH_X86
inline constexpr int kMaxRows = 14;
#elif HWY_TARGET == HWY_NEON || HWY_HAVE_SCALABLE
inline constexpr int kMaxRows = 12;
#else
inline constexpr int kMaxRows = 6;
#endif

// Rows of a panel of A, including unused ones: whole vectors of them are transposed.
inline constexpr int64_t kPanelRows = kMaxRows == 14 ? 16 : kMaxRows == 12 ? 12 : 8;

// K is divided into equal parts of at most kDepth, whose sums are added in order.
inline constexpr int64_t kDepth = 384;
// Columns of B that are packed at a time, whole panels on every target: they are on the stack, and
// stay in a second-level cache.
inline constexpr int64_t kMaxColumns = 128;

// Up to this many columns, packing A costs more than reading it in place, which is cheaper if A is
// stored transposed.
constexpr int64_t FewColumns(bool transpose_a) {
  return transpose_a ? 512 : 128;
}

// A block of C, and its parts of A and B. All vectors of b are readable, whatever `columns`.
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
  float* panel = nullptr;  // a block that packs stores here what it reads of b
  // Data that will be read next, or nullptr. It is prefetched meanwhile: with each k of the depth
  // the cache line that is k % 16 rows and k / 16 * 16 columns from there.
  const float* next = nullptr;
  int64_t next_row = 0, next_column = 0;
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

 private:
  // A pointer serves three rows, at distances of 0, lda and 2 lda: few enough for registers.
  static constexpr int kStep = 3;
  static constexpr int kPointers = transposed ? 1 : (rows + kStep - 1) / kStep;
  const float* at_[kPointers];
  const int64_t lda_;
};

// C = sums + beta * C, where sums[i] is vector i % vectors of row i / vectors. Only the last vector
// of a row may be partial.
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

// sums[i] as above: passed as parameters, since no array can hold vectors of all targets. A block
// that packs reads B from memory, and prefetches the next rows.
template <bool transposed, bool packs, int vectors, int... i, class... V>
HWY_INLINE void Accumulate(const Block& x, std::integer_sequence<int, i...> indices, V... sums) {
  constexpr int64_t kRowsAhead = 32;
  const Floats d;
  Column<transposed, sizeof...(i) / vectors> a(x.a, x.lda);
  const float* b = x.b;
  float* panel = x.panel;
  (hwy::Prefetch(x.c + i / vectors * x.ldc + i % vectors * Lanes()), ...);
  for (int64_t k = 0; k < x.depth; ++k) {
    const auto first = hn::LoadU(d, b), last = hn::LoadU(d, b + (vectors - 1) * Lanes());
    if constexpr (packs) {
      hwy::Prefetch(b + kRowsAhead * x.ldb);
      hwy::Prefetch(b + kRowsAhead * x.ldb + (vectors - 1) * Lanes());
      hn::StoreU(first, d, panel);
      hn::StoreU(last, d, panel + (vectors - 1) * Lanes());
      panel += vectors * Lanes();
    }
    if (x.next != nullptr) {
      hwy::Prefetch(x.next + k % 16 * x.next_row + k / 16 * 16 * x.next_column);
    }
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

template <bool transposed, bool packs, int vectors, int... i>
HWY_INLINE void AccumulateFromZero(const Block& x, std::integer_sequence<int, i...> indices) {
  Accumulate<transposed, packs, vectors>(x, indices, (static_cast<void>(i), hn::Zero(Floats()))...);
}

template <bool transposed, bool packs, int vectors, int rows>
void RunBlock(const Block& x) {
  AccumulateFromZero<transposed, packs, vectors>(x,
                                                 std::make_integer_sequence<int, rows * vectors>());
}

using BlockFunction = void (*)(const Block& x);

// The table is indexed by the number of rows minus one.
template <bool transposed, bool packs, int vectors, int... i>
constexpr std::array<BlockFunction, kMaxRows> MakeTable(std::integer_sequence<int, i...>) {
  return {{RunBlock<transposed, packs, vectors, i + 1>...}};
}
template <bool transposed, bool packs, int vectors>
inline constexpr auto kTable =
    MakeTable<transposed, packs, vectors>(std::make_integer_sequence<int, kMaxRows>());

// `transposed`: A is stored transposed; only whole panels are packed by blocks.
BlockFunction FindBlock(bool transposed, bool packs, int64_t columns, int64_t rows) {
  const size_t i = static_cast<size_t>(rows - 1);
  if (packs) return transposed ? kTable<true, true, 2>[i] : kTable<false, true, 2>[i];
  const bool wide = columns > Lanes();
  if (transposed) return wide ? kTable<true, false, 2>[i] : kTable<true, false, 1>[i];
  return wide ? kTable<false, false, 2>[i] : kTable<false, false, 1>[i];
}

// Divides the rows of a product into blocks of nearly equal height.
struct RowBlocks {
  explicit RowBlocks(int64_t M) : rows(M), count((M + kMaxRows - 1) / kMaxRows) {}
  int64_t begin(int64_t block) const { return rows * block / count; }

  int64_t rows, count;
};

// Packs `depth` columns of `rows` rows of op(A): column after column.
HWY_INLINE void PackA(const float* a, int64_t lda, bool transposed, int64_t rows, int64_t depth,
                      float* to) {
  if (!transposed) return CopyTransposed(a, lda, rows, depth, to, kPanelRows);
  const Floats d;
  for (int64_t k = 0; k < depth; ++k) {
    Map(
        d, rows, to + k * kPanelRows, [](auto v) HWY_ATTR { return v; }, a + k * lda);
  }
}

// A product of at most kMaxProductRows rows. Packs A in `packed_a` if that pays off.
class Multiplier {
 public:
  Multiplier(const MatMulArgs& args, float* packed_a)
      : args_(args),
        blocks_(args.M),
        packed_a_(args.N > FewColumns(args.transpose_a) ? packed_a : nullptr) {}

  void Run() const {
    alignas(64) float panels[kDepth * kMaxColumns];
    const int64_t parts = (args_.K + kDepth - 1) / kDepth;
    const int64_t step = ((args_.K + parts - 1) / parts + 15) / 16 * 16;
    for (int64_t k = 0; k < args_.K; k += step) {
      const int64_t depth = std::min(step, args_.K - k);
      for (int64_t n = 0; n < args_.N; n += kMaxColumns) {
        Multiply({k, depth, n, std::min(kMaxColumns, args_.N - n)}, panels);
      }
    }
  }

 private:
  // Columns [column, column + columns) of rows [k, k + depth) of op(B).
  struct Part {
    int64_t k, depth, column, columns;
  };

  const float* A(int64_t m, int64_t k) const {
    return args_.a + (args_.transpose_a ? k * args_.lda + m : m * args_.lda + k);
  }
  const float* B(int64_t k, int64_t n) const {
    return args_.b + (args_.transpose_b ? n * args_.ldb + k : k * args_.ldb + n);
  }

  // Adds the part's product to C. Panels of B that need neither transposing nor padding are packed
  // by the first block of rows, and not at all for a single block; A is packed with the first part
  // of a depth.
  void Multiply(const Part& part, float* panels) const {
    const int64_t width = PanelWidth(), whole = part.columns / width * width;
    for (int64_t n = args_.transpose_b ? 0 : whole; n < part.columns; n += width) {
      PackPanel(B(part.k, part.column + n), args_.ldb, args_.transpose_b, part.depth,
                std::min(width, part.columns - n), panels + n * part.depth);
    }
    const bool packed = packed_a_ != nullptr;
    Block x{.lda = packed ? kPanelRows : args_.lda, .depth = part.depth, .ldc = args_.ldc};
    x.beta = part.k == 0 ? args_.beta : 1;
    for (int64_t i = 0; i < blocks_.count; ++i) {
      const int64_t m = blocks_.begin(i), rows = blocks_.begin(i + 1) - m;
      float* const panel = packed_a_ + i * kPanelRows * part.depth;
      if (packed && part.column == 0) {
        PackA(A(m, part.k), args_.lda, args_.transpose_a, std::min(kPanelRows, args_.M - m),
              part.depth, panel);
      }
      x.a = packed ? panel : A(m, part.k);
      for (int64_t n = 0; n < part.columns; n += width) {
        const bool in_place = !args_.transpose_b && i == 0 && n < whole;
        x.columns = std::min(width, part.columns - n);
        x.panel = panels + n * part.depth;
        x.b = in_place ? B(part.k, part.column + n) : x.panel;
        x.ldb = in_place ? args_.ldb : width;
        x.c = args_.c + m * args_.ldc + part.column + n;
        Fetch(part, i, n, x);
        FindBlock(packed || args_.transpose_a, in_place && blocks_.count > 1, x.columns, rows)(x);
      }
    }
  }

  // The last panel of a block prefetches the rows of A for the next block; the last blocks prefetch
  // the next part of B, sixteen of its rows or columns each.
  void Fetch(const Part& part, int64_t block, int64_t n, Block& x) const {
    const int64_t width = PanelWidth(), left = blocks_.count - 1 - block;
    x.next = nullptr;
    if (left > 0 && (packed_a_ == nullptr || part.column == 0) && n + width >= part.columns) {
      // A row of the transpose is one and a half cache lines, whose beginning this block has read.
      x.next =
          A(args_.transpose_a ? blocks_.begin(block + 2) - 1 : blocks_.begin(block + 1), part.k);
      x.next_row = args_.lda;
      x.next_column = args_.transpose_a ? args_.lda : 1;
    } else if (block > 0 && 16 * left < width) {
      const bool same_depth = part.column + kMaxColumns < args_.N;
      x.next = B(part.k + (same_depth ? 0 : part.depth),
                 (same_depth ? part.column + kMaxColumns : 0) + n + 16 * left);
      x.next_row = args_.ldb;
      x.next_column = args_.transpose_b ? 1 : args_.ldb;
    }
  }

  const MatMulArgs& args_;
  const RowBlocks blocks_;
  float* const packed_a_;
};

void Product(const MatMulArgs& args, float* packed_a) {
  static_assert((kMaxProductRows / kMaxRows + 1) * kPanelRows * kDepth <= kPackedFloats);
  for (int64_t m = 0; m < args.M; m += kMaxProductRows) {
    MatMulArgs part = args;
    part.M = std::min(kMaxProductRows, args.M - m);
    part.a += args.transpose_a ? m : m * args.lda;
    part.c += m * args.ldc;
    Multiplier(part, packed_a).Run();
  }
}

}  // namespace folio::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace folio::cpu {

HWY_EXPORT(Product);

void FloatProduct(const MatMulArgs& args, float* packed_a) {
  HWY_DYNAMIC_DISPATCH(Product)(args, packed_a);
}

}  // namespace folio::cpu
#endif  // HWY_ONCE
