#include <algorithm>

#include "folio/backend/cpu/bf16_product.h"
#include "folio/base/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "folio/backend/cpu/bf16_pack.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "folio/backend/cpu/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace folio::cpu::HWY_NAMESPACE {

using Floats = hn::CappedTag<float, 16>;
using Pairs = hn::RebindToUnsigned<Floats>;

// Below, the number of existing rows, columns or depth may be a compile-time constant: whole tiles
// then need no tests.

// The next lanes at p: n of them exist, the others are zero.
template <class D>
HWY_INLINE hn::Vec<D> LoadThere(D d, const hn::TFromD<D>* p, int64_t n) {
  if (n >= static_cast<int64_t>(hn::Lanes(d))) return hn::LoadU(d, p);
  if (n <= 0) return hn::Zero(d);
  return LoadPart(d, p, n);
}

// Ways to round. Pair: (a[i], b[i]). Store: a's lanes, then b's.
struct ByIntegers {
  static HWY_INLINE hn::Vec<Pairs> Pair(hn::Vec<Floats> a, hn::Vec<Floats> b) {
    const auto upper = hn::Set(Pairs(), 0xFFFF0000u);
    return hn::Or(hn::ShiftRight<16>(RoundedBits(Floats(), a)),
                  hn::And(RoundedBits(Floats(), b), upper));
  }
  static HWY_INLINE void Store(hn::Vec<Floats> a, hn::Vec<Floats> b, BF16* to) {
#if HWY_TARGET == HWY_SCALAR
    StoreU(a, Floats(), to);
    StoreU(b, Floats(), to + 1);
#else
    const hn::Repartition<uint16_t, Floats> d;
    const auto low = hn::BitCast(d, RoundedBits(Floats(), a));
    const auto high = hn::BitCast(d, RoundedBits(Floats(), b));
    hn::StoreU(hn::ConcatOdd(d, high, low), d, reinterpret_cast<uint16_t*>(to));
#endif
  }
};

#undef FOLIO_HAS_ROUNDING
#define FOLIO_HAS_ROUNDING (HWY_ARCH_X86_64 && HWY_TARGET <= HWY_AVX3)
#if FOLIO_HAS_ROUNDING

// Rounds with an instruction that every unit for products of bfloat16 numbers has. It treats
// subnormal numbers as zero, and so do the products of these units.
struct ByInstruction {
  static HWY_INLINE __m512i Both(hn::Vec<Floats> a, hn::Vec<Floats> b) {
    __m512i both;
    asm("vcvtne2ps2bf16 %1, %2, %0" : "=v"(both) : "v"(a.raw), "v"(b.raw));
    return both;
  }
  static HWY_INLINE hn::Vec<Pairs> Pair(hn::Vec<Floats> a, hn::Vec<Floats> b) {
    alignas(64) static constexpr uint16_t kOrder[32] = {0,  16, 1,  17, 2,  18, 3,  19, 4,  20, 5,
                                                        21, 6,  22, 7,  23, 8,  24, 9,  25, 10, 26,
                                                        11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
    return hn::Vec<Pairs>{_mm512_permutexvar_epi16(_mm512_load_si512(kOrder), Both(a, b))};
  }
  static HWY_INLINE void Store(hn::Vec<Floats> a, hn::Vec<Floats> b, BF16* to) {
    _mm512_storeu_si512(to, Both(a, b));
  }
};

#endif  // FOLIO_HAS_ROUNDING

// Kinds of rows in memory. Pair: pairs[i] = (a[i], b[i]) for i in [0, kTileRows). Copy: to[i] =
// x[i] for i in [0, kTileDepth). The first numbers of each row exist, the others are zero.
struct Bf16Rows {
  using Number = BF16;
  static constexpr bool kFar = false;  // written recently

  static HWY_INLINE void Pair(const BF16* a, int64_t a_there, const BF16* b, int64_t b_there,
                              uint32_t* pairs) {
    const Bf16Tag<Floats> d;
    const uint16_t* low = reinterpret_cast<const uint16_t*>(a);
    const uint16_t* high = reinterpret_cast<const uint16_t*>(b);
    for (int64_t i = 0; i < kTileRows; i += static_cast<int64_t>(hn::Lanes(d))) {
      const auto lower = hn::PromoteTo(Pairs(), LoadThere(d, low + i, a_there - i));
      const auto upper = hn::PromoteTo(Pairs(), LoadThere(d, high + i, b_there - i));
      hn::StoreU(hn::Or(lower, hn::ShiftLeft<16>(upper)), Pairs(), pairs + i);
    }
  }
  static HWY_INLINE void Copy(const BF16* x, int64_t there, BF16* to) {
    const hn::CappedTag<uint16_t, kTileDepth> d;
    const uint16_t* from = reinterpret_cast<const uint16_t*>(x);
    for (int64_t i = 0; i < kTileDepth; i += static_cast<int64_t>(hn::Lanes(d))) {
      hn::StoreU(LoadThere(d, from + i, there - i), d, reinterpret_cast<uint16_t*>(to) + i);
    }
  }
};

template <class Rounding>
struct FloatRows {
  using Number = float;
  static constexpr bool kFar = true;  // weights, which may not be in a cache

  static HWY_INLINE void Pair(const float* a, int64_t a_there, const float* b, int64_t b_there,
                              uint32_t* pairs) {
    const Floats d;
    for (int64_t i = 0; i < kTileRows; i += static_cast<int64_t>(hn::Lanes(d))) {
      const auto low = LoadThere(d, a + i, a_there - i), high = LoadThere(d, b + i, b_there - i);
      hn::StoreU(Rounding::Pair(low, high), Pairs(), pairs + i);
    }
  }
  static HWY_INLINE void Copy(const float* x, int64_t there, BF16* to) {
    const Floats d;
    const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
    for (int64_t i = 0; i < kTileDepth; i += 2 * lanes) {
      Rounding::Store(LoadThere(d, x + i, there - i),
                      LoadThere(d, x + i + lanes, there - i - lanes), to + i);
    }
  }
};

// Prefetches n numbers into the cache of that level. They may lie beyond the matrix.
template <int kLevel>
HWY_INLINE void Prefetch(const float* x, int64_t n) {
  constexpr int64_t kLine = 64 / sizeof(float);
  for (int64_t i = 0; i < n; i += kLine) __builtin_prefetch(x + i, 0, 4 - kLevel);
}

HWY_INLINE uint32_t* AsPairs(BF16* x) {
  return reinterpret_cast<uint32_t*>(x);
}

// `to` is `tile` with its rows as pairs and its pairs as rows.
HWY_INLINE void Turn(const uint32_t* tile, BF16* to) {
  CopyTransposed(tile, 16, 16, 16, AsPairs(to), 16);
}

// One tile of x whose pairs are along rows of memory.
template <class Rows, bool kTurned>
HWY_INLINE void TileAlong(const typename Rows::Number* x, int64_t stride, int64_t rows,
                          int64_t depth, BF16* tile) {
  HWY_ALIGN uint32_t pairs[kTurned ? kTileElements / 2 : 1];
  BF16* to = kTurned ? reinterpret_cast<BF16*>(pairs) : tile;
  for (int64_t r = 0; r < kTileRows; ++r, x += stride, to += kTileDepth) {
    if (r < rows) {
      Rows::Copy(x, depth, to);
    } else {
      std::fill_n(to, kTileDepth, BF16{});
    }
  }
  if constexpr (kTurned) Turn(pairs, tile);
}

template <class Rows, bool kTurned>
HWY_INLINE void PackAlong(const typename Rows::Number* x, int64_t stride, int64_t rows,
                          int64_t depth, BF16* packed) {
  constexpr int64_t kAhead = 4 * kTileDepth;
  for (int64_t row = 0; row < rows; row += kTileRows, x += kTileRows * stride) {
    const int64_t whole = rows - row >= kTileRows ? depth / kTileDepth * kTileDepth : 0;
    for (int64_t k = 0; k < whole; k += kTileDepth, packed += kTileElements) {
      if constexpr (Rows::kFar) {
        const int64_t ahead = k + kAhead;
        const float* far = x + (ahead < whole ? ahead : ahead - whole + kTileRows * stride);
        for (int64_t r = 0; r < kTileRows; ++r) Prefetch<1>(far + r * stride, kTileDepth);
      }
      TileAlong<Rows, kTurned>(x + k, stride, kTileRows, kTileDepth, packed);
    }
    for (int64_t k = whole; k < depth; k += kTileDepth, packed += kTileElements) {
      TileAlong<Rows, kTurned>(x + k, stride, rows - row, depth - k, packed);
    }
  }
}

// Pair i of a tile consists of rows `step` i and `step` i + `gap` of memory.
struct Pairing {
  int64_t step, gap;
};
constexpr Pairing kNeighbours{2, 1}, kFolded{1, kTileDepth / 2};
constexpr int64_t kStrip = 4;

// Rows of memory, from the first element of a tile on.
template <class Number>
struct RowsAcross {
  const Number* x;
  int64_t stride;
  Pairing pairing;
  bool prefetch;  // prefetch the rows kAhead further on

  static constexpr int64_t kAhead = 2 * kTileDepth;
};

// A tile whose pairs are across rows of memory, or up to kStrip whole adjacent ones, so that whole
// cache lines of a row are read at a time; they are tile_stride apart.
template <class Rows, bool kTurned>
HWY_INLINE void StripAcross(const RowsAcross<typename Rows::Number>& rows, int64_t tiles,
                            int64_t columns, int64_t depth, BF16* tile, int64_t tile_stride) {
  HWY_ALIGN uint32_t pairs[kTurned ? kStrip * kTileElements / 2 : 1];
  uint32_t* to = kTurned ? pairs : AsPairs(tile);
  const int64_t to_stride = (kTurned ? kTileElements : tile_stride) / 2;
  for (int64_t i = 0; i < kTileRows; ++i, to += kTileRows) {
    const int64_t low = i * rows.pairing.step, high = low + rows.pairing.gap;
    const auto *a = rows.x + low * rows.stride, *b = rows.x + high * rows.stride;
    if constexpr (Rows::kFar) {
      const int64_t ahead = rows.kAhead * rows.stride;
      Prefetch<2>(a + ahead, rows.prefetch ? tiles * kTileRows : 0);
      Prefetch<2>(b + ahead, rows.prefetch ? tiles * kTileRows : 0);
    }
    for (int64_t t = 0; t < tiles; ++t) {
      uint32_t* at = to + t * to_stride;
      if (low < depth) {
        Rows::Pair(a + t * kTileRows, columns, b + t * kTileRows, high < depth ? columns : 0, at);
      } else {
        std::fill_n(at, kTileRows, 0u);
      }
    }
  }
  for (int64_t t = 0; kTurned && t < tiles; ++t) {
    Turn(pairs + t * kTileElements / 2, tile + t * tile_stride);
  }
}

template <class Rows, bool kTurned>
HWY_INLINE void PackAcross(const typename Rows::Number* x, int64_t stride, Pairing pairing,
                           int64_t rows, int64_t depth, BF16* packed) {
  constexpr int64_t kWidth = kStrip * kTileRows;
  const int64_t tile_stride = DepthTiles(depth) * kTileElements;
  for (int64_t row = 0; row < rows; row += kWidth, packed += kStrip * tile_stride) {
    const int64_t columns = std::min(rows - row, kWidth);
    for (int64_t k = 0; k < depth; k += kTileDepth) {
      RowsAcross<typename Rows::Number> from{x + k * stride + row, stride, pairing, false};
      from.prefetch = k + from.kAhead < depth;
      BF16* to = packed + k * kTileRows;
      const int64_t whole = depth - k >= kTileDepth ? columns / kTileRows : 0;
      StripAcross<Rows, kTurned>(from, whole, kTileRows, kTileDepth, to, tile_stride);
      for (int64_t t = whole; t < RowTiles(columns); ++t) {
        from.x = x + k * stride + row + t * kTileRows;
        StripAcross<Rows, kTurned>(from, 1, columns - t * kTileRows, depth - k,
                                   to + t * tile_stride, tile_stride);
      }
    }
  }
}

// The tiles of left are the tiles of right with rows and pairs exchanged: a transposed left is a
// right whose tiles are turned, and so on.
template <class Rows>
HWY_INLINE void PackLeftT(const MatrixView<typename Rows::Number>& x, int64_t M, int64_t K,
                          BF16* packed) {
  if (x.transposed) {
    PackAcross<Rows, true>(x.data, x.stride, kNeighbours, M, K, packed);
  } else {
    PackAlong<Rows, false>(x.data, x.stride, M, K, packed);
  }
}
template <class Rows>
HWY_INLINE void PackRightT(const MatrixView<typename Rows::Number>& x, int64_t K, int64_t N,
                           BF16* packed) {
  if (x.transposed) {
    PackAlong<Rows, true>(x.data, x.stride, N, K, packed);
  } else {
    PackAcross<Rows, false>(x.data, x.stride, kNeighbours, N, K, packed);
  }
}

void PackLeftBf16(const MatrixView<BF16>& x, int64_t M, int64_t K, BF16* packed) {
  PackLeftT<Bf16Rows>(x, M, K, packed);
}
void PackRightBf16(const MatrixView<BF16>& x, int64_t K, int64_t N, BF16* packed) {
  PackRightT<Bf16Rows>(x, K, N, packed);
}
void PackFoldedBf16(const BF16* x, int64_t stride, int64_t rows, int64_t columns, BF16* packed) {
  PackAcross<Bf16Rows, false>(x, stride, kFolded, columns, rows, packed);
}

void PackLeftFloat(const MatrixView<float>& x, int64_t M, int64_t K, [[maybe_unused]] Bf16Unit unit,
                   BF16* packed) {
#if FOLIO_HAS_ROUNDING
  if (unit != Bf16Unit::kPlain) return PackLeftT<FloatRows<ByInstruction>>(x, M, K, packed);
#endif
  PackLeftT<FloatRows<ByIntegers>>(x, M, K, packed);
}
void PackRightFloat(const MatrixView<float>& x, int64_t K, int64_t N,
                    [[maybe_unused]] Bf16Unit unit, BF16* packed) {
#if FOLIO_HAS_ROUNDING
  if (unit != Bf16Unit::kPlain) return PackRightT<FloatRows<ByInstruction>>(x, K, N, packed);
#endif
  PackRightT<FloatRows<ByIntegers>>(x, K, N, packed);
}

}  // namespace folio::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace folio::cpu {

HWY_EXPORT(PackLeftBf16);
HWY_EXPORT(PackLeftFloat);
HWY_EXPORT(PackRightBf16);
HWY_EXPORT(PackRightFloat);
HWY_EXPORT(PackFoldedBf16);

void PackLeft(const MatrixView<BF16>& x, int64_t M, int64_t K, BF16* packed) {
  HWY_DYNAMIC_DISPATCH(PackLeftBf16)(x, M, K, packed);
}
void PackLeft(const MatrixView<float>& x, int64_t M, int64_t K, BF16* packed) {
  HWY_DYNAMIC_DISPATCH(PackLeftFloat)(x, M, K, Bf16UnitInUse(), packed);
}
void PackRight(const MatrixView<BF16>& x, int64_t K, int64_t N, BF16* packed) {
  HWY_DYNAMIC_DISPATCH(PackRightBf16)(x, K, N, packed);
}
void PackRight(const MatrixView<float>& x, int64_t K, int64_t N, BF16* packed) {
  HWY_DYNAMIC_DISPATCH(PackRightFloat)(x, K, N, Bf16UnitInUse(), packed);
}
void PackFolded(const BF16* x, int64_t stride, int64_t rows, int64_t columns, BF16* packed) {
  HWY_DYNAMIC_DISPATCH(PackFoldedBf16)(x, stride, rows, columns, packed);
}

}  // namespace folio::cpu
#endif  // HWY_ONCE
