#include <algorithm>
#include <cstring>

#include "folio/backend/cpu/bf16_product.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "folio/backend/cpu/bf16_pack.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace folio::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using D32 = hn::CappedTag<uint32_t, 16>;
using V32 = hn::Vec<D32>;

// The next lanes of a row as bfloat16 bits in the lower halves.
HWY_INLINE V32 LoadBits(D32 d, const BF16* x) {
  const hn::Rebind<uint16_t, D32> d16;
  return hn::PromoteTo(d, hn::LoadU(d16, reinterpret_cast<const uint16_t*>(x)));
}
HWY_INLINE V32 LoadBits(D32 d, const float* x) {
  const auto bits = hn::LoadU(d, reinterpret_cast<const uint32_t*>(x));
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(d, 1u));
  const auto rounded = hn::Add(bits, hn::Add(odd, hn::Set(d, 0x7FFFu)));
  const hn::RebindToFloat<D32> df;
  const auto is_nan = hn::RebindMask(d, hn::IsNaN(hn::BitCast(df, bits)));
  const auto nan = hn::Or(bits, hn::Set(d, 0x400000u));
  return hn::ShiftRight<16>(hn::IfThenElse(is_nan, nan, rounded));
}

inline uint32_t Bits(BF16 x) {
  return x.bits;
}
inline uint32_t Bits(float x) {
  return ToBF16(x).bits;
}

// pairs[i] = (a[i], b[i]) for i in [0, 16), of which `n` are there and the others zero; b may be
// null, which stands for zeros.
template <class T>
HWY_INLINE void PairRows(const T* a, const T* b, int64_t n, uint32_t* pairs) {
  const D32 d;
  if (n >= kTileRows) {
    for (size_t i = 0; i < kTileRows; i += hn::Lanes(d)) {
      const auto low = LoadBits(d, a + i);
      const auto high = b == nullptr ? hn::Zero(d) : hn::ShiftLeft<16>(LoadBits(d, b + i));
      hn::StoreU(hn::Or(low, high), d, pairs + i);
    }
    return;
  }
  for (int64_t i = 0; i < kTileRows; ++i) {
    pairs[i] = i >= n ? 0 : Bits(a[i]) | (b == nullptr ? 0 : Bits(b[i]) << 16);
  }
}

// pairs[i] = (x[2 i], x[2 i + 1]) for i in [0, 16), of which `n` numbers are there.
HWY_INLINE void PairNeighbours(const BF16* x, int64_t n, uint32_t* pairs) {
  if (n >= kTileDepth) {
    std::memcpy(pairs, x, kTileDepth * sizeof(BF16));
    return;
  }
  std::memset(pairs, 0, kTileDepth * sizeof(BF16));
  if (n > 0) std::memcpy(pairs, x, static_cast<size_t>(n) * sizeof(BF16));
}
HWY_INLINE void PairNeighbours(const float* x, int64_t n, uint32_t* pairs) {
  const D32 d;
  if (n >= kTileDepth) {
    const hn::Rebind<uint16_t, D32> d16;
    uint16_t* to = reinterpret_cast<uint16_t*>(pairs);
    for (size_t i = 0; i < kTileDepth; i += hn::Lanes(d)) {
      hn::StoreU(hn::TruncateTo(d16, LoadBits(d, x + i)), d16, to + i);
    }
    return;
  }
  BF16 part[kTileDepth] = {};
  for (int64_t i = 0; i < n; ++i) part[i] = ToBF16(x[i]);
  std::memcpy(pairs, part, sizeof(part));
}

// to[j][i] = from[i][j] of 16 x 16, rows being 16 long.
HWY_INLINE void Transpose(const uint32_t* from, uint32_t* to) {
#if HWY_TARGET == HWY_SCALAR
  for (int i = 0; i < 16; ++i) {
    for (int j = 0; j < 16; ++j) to[j * 16 + i] = from[i * 16 + j];
  }
#else
  // Blocks of 4 x 4, which every vector of 16 bytes holds a row of.
  const hn::Full128<uint32_t> d;
  const hn::Full128<uint64_t> d64;
  for (int i = 0; i < 16; i += 4) {
    for (int j = 0; j < 16; j += 4) {
      const auto r0 = hn::LoadU(d, from + i * 16 + j), r1 = hn::LoadU(d, from + (i + 1) * 16 + j);
      const auto r2 = hn::LoadU(d, from + (i + 2) * 16 + j);
      const auto r3 = hn::LoadU(d, from + (i + 3) * 16 + j);
      const auto a = hn::BitCast(d64, hn::InterleaveLower(d, r0, r1));
      const auto b = hn::BitCast(d64, hn::InterleaveLower(d, r2, r3));
      const auto c = hn::BitCast(d64, hn::InterleaveUpper(d, r0, r1));
      const auto e = hn::BitCast(d64, hn::InterleaveUpper(d, r2, r3));
      hn::StoreU(hn::BitCast(d, hn::InterleaveLower(d64, a, b)), d, to + j * 16 + i);
      hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(d64, a, b)), d, to + (j + 1) * 16 + i);
      hn::StoreU(hn::BitCast(d, hn::InterleaveLower(d64, c, e)), d, to + (j + 2) * 16 + i);
      hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(d64, c, e)), d, to + (j + 3) * 16 + i);
    }
  }
#endif
}

// One tile, 16 by 16 pairs, of x whose pairs lie along rows of memory, as they lie there. `rows`
// and `depth` are what x has from here on.
template <class T>
HWY_INLINE void TileOfNeighbours(const T* x, int64_t stride, int64_t rows, int64_t depth,
                                 uint32_t* tile) {
  for (int64_t r = 0; r < kTileRows; ++r) {
    if (r < rows) {
      PairNeighbours(x + r * stride, depth, tile + r * 16);
    } else {
      std::fill_n(tile + r * 16, 16, 0u);
    }
  }
}

// The same where two rows of memory make a row of pairs.
template <class T>
HWY_INLINE void TileOfRows(const T* x, int64_t stride, int64_t depth, int64_t columns,
                           uint32_t* tile) {
  for (int64_t p = 0; p < kTileRows; ++p) {
    const T* row = x + 2 * p * stride;
    if (2 * p < depth) {
      PairRows(row, 2 * p + 1 < depth ? row + stride : nullptr, columns, tile + p * 16);
    } else {
      std::fill_n(tile + p * 16, 16, 0u);
    }
  }
}

// Calls make(row, depth, tile) for each tile of a packed operand of `rows` by `depth`.
template <class Make>
HWY_INLINE void ForTiles(int64_t rows, int64_t depth, BF16* packed, const Make& make) {
  for (int64_t row = 0; row < rows; row += kTileRows) {
    for (int64_t k = 0; k < depth; k += kTileDepth, packed += kTileElements) {
      make(row, k, reinterpret_cast<uint32_t*>(packed));
    }
  }
}

// The tiles of left, and the tiles of right with their pairs the other way round, are the same: a
// transposed left is a right whose tiles are turned, and so on.
template <class T>
HWY_INLINE void Pack(const MatrixView<T>& x, bool along_rows, bool turned, int64_t rows,
                     int64_t depth, BF16* packed) {
  HWY_ALIGN uint32_t pairs[256];
  ForTiles(rows, depth, packed, [&](int64_t row, int64_t k, uint32_t* tile) HWY_ATTR {
    uint32_t* to = turned ? pairs : tile;
    if (along_rows) {
      TileOfNeighbours(x.data + row * x.stride + k, x.stride, rows - row, depth - k, to);
    } else {
      TileOfRows(x.data + k * x.stride + row, x.stride, depth - k, rows - row, to);
    }
    if (turned) Transpose(pairs, tile);
  });
}

template <class T>
HWY_INLINE void PackLeftT(const MatrixView<T>& x, int64_t M, int64_t K, BF16* packed) {
  Pack(x, !x.transposed, x.transposed, M, K, packed);
}
template <class T>
HWY_INLINE void PackRightT(const MatrixView<T>& x, int64_t K, int64_t N, BF16* packed) {
  Pack(x, x.transposed, x.transposed, N, K, packed);
}

void PackLeftHalf(const MatrixView<BF16>& x, int64_t M, int64_t K, BF16* packed) {
  PackLeftT(x, M, K, packed);
}
void PackLeftFloat(const MatrixView<float>& x, int64_t M, int64_t K, BF16* packed) {
  PackLeftT(x, M, K, packed);
}
void PackRightHalf(const MatrixView<BF16>& x, int64_t K, int64_t N, BF16* packed) {
  PackRightT(x, K, N, packed);
}
void PackRightFloat(const MatrixView<float>& x, int64_t K, int64_t N, BF16* packed) {
  PackRightT(x, K, N, packed);
}

}  // namespace folio::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace folio::cpu {

HWY_EXPORT(PackLeftHalf);
HWY_EXPORT(PackLeftFloat);
HWY_EXPORT(PackRightHalf);
HWY_EXPORT(PackRightFloat);

void PackLeft(const MatrixView<BF16>& x, int64_t M, int64_t K, BF16* packed) {
  HWY_DYNAMIC_DISPATCH(PackLeftHalf)(x, M, K, packed);
}
void PackLeft(const MatrixView<float>& x, int64_t M, int64_t K, BF16* packed) {
  HWY_DYNAMIC_DISPATCH(PackLeftFloat)(x, M, K, packed);
}
void PackRight(const MatrixView<BF16>& x, int64_t K, int64_t N, BF16* packed) {
  HWY_DYNAMIC_DISPATCH(PackRightHalf)(x, K, N, packed);
}
void PackRight(const MatrixView<float>& x, int64_t K, int64_t N, BF16* packed) {
  HWY_DYNAMIC_DISPATCH(PackRightFloat)(x, K, N, packed);
}

}  // namespace folio::cpu
#endif  // HWY_ONCE
