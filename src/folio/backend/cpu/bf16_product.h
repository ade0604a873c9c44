#pragma once

#include <cstdint>

#include "folio/tensor/dtype.h"

namespace folio::cpu {

// Products of bfloat16 matrices on one thread, summed in float32: c (M,N) = left (M,K) right (K,N).
// Both operands are first packed into tiles, once for all the products that they take part in:
//   left   [M / 16][K / 32][16 rows][32]
//   right  [N / 16][K / 32][16 pairs of rows][16 columns][2]
// so that a tile is 1 KB, in the order in which every kind of multiplier reads it. Sizes are
// rounded up to whole tiles; elements beyond the matrix are zero. Packed memory is aligned to 64
// bytes.

inline constexpr int64_t kTileRows = 16, kTileDepth = 32, kTileElements = kTileRows * kTileDepth;

inline int64_t RowTiles(int64_t rows) {
  return (rows + kTileRows - 1) / kTileRows;
}
inline int64_t DepthTiles(int64_t depth) {
  return (depth + kTileDepth - 1) / kTileDepth;
}
// Elements of a packed operand: `rows` is M or N.
inline int64_t PackedElements(int64_t rows, int64_t depth) {
  return RowTiles(rows) * DepthTiles(depth) * kTileElements;
}

// A matrix of BF16 or float whose element (r,c) is data[r * stride + c], or data[c * stride + r] if
// transposed. Floats are rounded when they are packed; for a unit that treats subnormal numbers as
// zero this may already happen here.
template <class T>
struct MatrixView {
  const T* data = nullptr;
  int64_t stride = 0;
  bool transposed = false;
};

// x without its first rows, or its first columns.
template <class T>
MatrixView<T> RowsFrom(const MatrixView<T>& x, int64_t row) {
  return {x.data + (x.transposed ? row : row * x.stride), x.stride, x.transposed};
}
template <class T>
MatrixView<T> ColumnsFrom(const MatrixView<T>& x, int64_t column) {
  return {x.data + (x.transposed ? column * x.stride : column), x.stride, x.transposed};
}

void PackLeft(const MatrixView<BF16>& x, int64_t M, int64_t K, BF16* packed);
void PackLeft(const MatrixView<float>& x, int64_t M, int64_t K, BF16* packed);
void PackRight(const MatrixView<BF16>& x, int64_t K, int64_t N, BF16* packed);
void PackRight(const MatrixView<float>& x, int64_t K, int64_t N, BF16* packed);
// PackRight of x (rows, columns) with another order of its rows, which are the depth of the
// product: in each 32 of them, rows i and i + 16 make a pair.
void PackFolded(const BF16* x, int64_t stride, int64_t rows, int64_t columns, BF16* packed);

struct PackedProduct {
  const BF16* left = nullptr;
  const BF16* right = nullptr;
  // left_stride is from one row of tiles of left to the next, right_stride from one column of tiles
  // of right to the next, in elements: kTileElements times the tiles of the whole depth, of which
  // the product uses depth_tiles.
  int64_t left_stride = 0, right_stride = 0;
  int64_t row_tiles = 0, column_tiles = 0, depth_tiles = 0;  // >= 1
  float* c = nullptr;                                        // whole tiles are written
  int64_t c_stride = 0;
  bool accumulate = false;  // c += instead of c =
};

// Multiplies on the thread that made it. Cheap enough to be made once per task.
class PackedMultiplier {
 public:
  PackedMultiplier();
  ~PackedMultiplier();
  PackedMultiplier(const PackedMultiplier&) = delete;

  void Run(const PackedProduct& product) const;

 private:
  void (*run_)(const PackedProduct& product);
  bool tiles_;  // true while it holds the processor's tile registers
};

}  // namespace folio::cpu
