#include "folio/backend/cpu/bf16_product.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "folio/backend/cpu/test_guarded_memory.h"
#include "folio/base/rng.h"
#include "folio/base/test_simd_targets.h"

namespace folio::cpu {
namespace {

struct AlignedMemory {
  explicit AlignedMemory(int64_t count) : memory(static_cast<size_t>(count) + 32) {}
  BF16* data() {
    const auto address = reinterpret_cast<uintptr_t>(memory.data());
    return memory.data() + (64 - address % 64) % 64 / sizeof(BF16);
  }
  std::vector<BF16> memory;
};

double Value(BF16 x) {
  return ToFloat(x);
}
double Value(float x) {
  return ToFloat(ToBF16(x));
}

// A (rows, columns) matrix of random numbers, stored in either orientation, with `gap` NaNs between
// rows of memory.
template <class T>
struct SeededMatrix {
  SeededMatrix(int64_t rows, int64_t columns, bool transposed, uint64_t seed)
      : stride((transposed ? rows : columns) + 3),
        memory(static_cast<size_t>(stride * (transposed ? columns : rows)) + 1,
               Number(std::numeric_limits<float>::quiet_NaN())),
        view{memory.data() + 1, stride, transposed} {
    const CounterRng rng(seed, 1);
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t c = 0; c < columns; ++c) {
        memory[static_cast<size_t>(Index(r, c)) + 1] =
            Number(static_cast<float>(rng.Normal(static_cast<uint64_t>(r * columns + c))));
      }
    }
  }
  static T Number(float value) {
    if constexpr (std::is_same_v<T, BF16>) {
      return ToBF16(value);
    } else {
      return value;
    }
  }
  int64_t Index(int64_t r, int64_t c) const {
    return view.transposed ? c * stride + r : r * stride + c;
  }
  double at(int64_t r, int64_t c) const { return Value(view.data[Index(r, c)]); }

  int64_t stride;
  std::vector<T> memory;
  MatrixView<T> view;
};

struct Sizes {
  int64_t M, N, K;
};

// Both sides of a product, packed.
struct PackedSides {
  template <class T>
  PackedSides(const Sizes& s, const MatrixView<T>& left, const MatrixView<T>& right)
      : sizes(s), a(PackedElements(s.M, s.K)), b(PackedElements(s.N, s.K)) {
    PackLeft(left, s.M, s.K, a.data());
    PackRight(right, s.K, s.N, b.data());
  }
  // The whole product, into rows of c that are `stride` apart.
  PackedProduct Into(std::vector<float>& c, int64_t stride) {
    return {.left = a.data(),
            .right = b.data(),
            .left_stride = DepthTiles(sizes.K) * kTileElements,
            .right_stride = DepthTiles(sizes.K) * kTileElements,
            .row_tiles = RowTiles(sizes.M),
            .column_tiles = RowTiles(sizes.N),
            .depth_tiles = DepthTiles(sizes.K),
            .c = c.data(),
            .c_stride = stride};
  }

  Sizes sizes;
  AlignedMemory a, b;
};

template <class T>
void ExpectProduct(const Sizes& s, bool left_transposed, bool right_transposed, bool accumulate) {
  const SeededMatrix<T> left(s.M, s.K, left_transposed, 1), right(s.K, s.N, right_transposed, 2);
  PackedSides sides(s, left.view, right.view);
  const int64_t rows = RowTiles(s.M) * 16, columns = RowTiles(s.N) * 16, stride = columns + 5;
  std::vector<float> c(static_cast<size_t>(rows * stride), 0.5f);
  PackedProduct product = sides.Into(c, stride);
  product.accumulate = accumulate;
  PackedMultiplier().Run(product);
  for (int64_t m = 0; m < rows; ++m) {
    for (int64_t n = 0; n < stride; ++n) {
      const float found = c[static_cast<size_t>(m * stride + n)];
      if (n >= columns) {
        ASSERT_EQ(found, 0.5f) << "written beyond the tiles";
        continue;
      }
      double sum = accumulate ? 0.5 : 0, size = sum;
      for (int64_t k = 0; m < s.M && n < s.N && k < s.K; ++k) {
        sum += left.at(m, k) * right.at(k, n);
        size += std::abs(left.at(m, k) * right.at(k, n));
      }
      const double tolerance = size * static_cast<double>(s.K + 1) * std::ldexp(1.0, -24);
      ASSERT_NEAR(found, sum, tolerance) << m << ", " << n;
    }
  }
}

class Bf16Product : public OnSimdTarget {};

TEST_P(Bf16Product, IsTheSumOfProductsForAnySizeAndLayout) {
  for (const Sizes s : {Sizes{1, 1, 1}, {16, 16, 32}, {17, 31, 33}, {33, 49, 65}, {5, 70, 100}}) {
    for (int kind = 0; kind < 8; ++kind) {
      ExpectProduct<BF16>(s, kind & 1, kind & 2, kind & 4);
      ExpectProduct<float>(s, kind & 1, kind & 2, kind & 4);
    }
  }
}

// A multiplier that uses part of the depth reads tiles that are further apart than that.
TEST_P(Bf16Product, PartsOfTheDepthAddUp) {
  const Sizes s{40, 50, 96};
  const SeededMatrix<BF16> left(s.M, s.K, false, 1), right(s.K, s.N, false, 2);
  PackedSides sides(s, left.view, right.view);
  std::vector<float> c(48 * 64, -1);
  PackedProduct part = sides.Into(c, 64);
  part.depth_tiles = 1;
  for (int64_t k = 0; k < 3; ++k) {
    PackedMultiplier().Run(part);
    part.left += kTileElements;
    part.right += kTileElements;
    part.accumulate = true;
  }
  for (int64_t m = 0; m < s.M; ++m) {
    for (int64_t n = 0; n < s.N; ++n) {
      double sum = 0;
      for (int64_t k = 0; k < s.K; ++k) sum += left.at(m, k) * right.at(k, n);
      ASSERT_NEAR(c[static_cast<size_t>(m * 64 + n)], sum, 1e-4);
    }
  }
}

TEST_P(Bf16Product, NotANumberStaysInItsRowsAndColumns) {
  std::vector<float> x(20 * 40, 1.0f), ones(40 * 20, 1.0f), c(32 * 32);
  x[3 * 40 + 39] = std::numeric_limits<float>::quiet_NaN();
  PackedSides sides({20, 20, 40}, MatrixView<float>{x.data(), 40, false},
                    MatrixView<float>{ones.data(), 20, false});
  PackedMultiplier().Run(sides.Into(c, 32));
  for (int64_t m = 0; m < 20; ++m) {
    for (int64_t n = 0; n < 20; ++n) {
      const float value = c[static_cast<size_t>(m * 32 + n)];
      ASSERT_TRUE(m == 3 ? std::isnan(value) : value == 40.0f) << m << ", " << n;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(, Bf16Product, EverySimdTarget(), SimdTargetName);

BF16 Rounded(BF16 x) {
  return x;
}
BF16 Rounded(float x) {
  return ToBF16(x);
}

// Normal numbers of every size, ties between two bfloat16 numbers, zeros and infinities.
float NumberAt(uint64_t i) {
  static constexpr float kOdd[] = {0.0f,       -0.0f,           0x1.01p0f, 0x1.03p0f,
                                   -0x1.01p5f, 0x1.fffffep127f, -INFINITY, 0x1p-126f};
  if (i % 11 == 0) return kOdd[i / 11 % std::size(kOdd)];
  const CounterRng rng(5, 1);
  return std::ldexp(static_cast<float>(rng.Normal(i)), static_cast<int>(i % 200) - 100);
}

// A matrix in memory of `rows` rows, `gap` numbers apart, with its last number at the very end.
template <class T>
struct Matrix {
  Matrix(int64_t memory_rows, int64_t columns, int64_t gap)
      : stride(columns + gap),
        memory(static_cast<size_t>((memory_rows - 1) * stride + columns) * sizeof(T)) {
    const int64_t count = (memory_rows - 1) * stride + columns;
    data = reinterpret_cast<T*>(memory.end()) - count;
    for (int64_t i = 0; memory.ok() && i < count; ++i) {
      const float value = i % stride < columns ? NumberAt(static_cast<uint64_t>(i))
                                               : std::numeric_limits<float>::quiet_NaN();
      if constexpr (std::is_same_v<T, BF16>) {
        data[i] = ToBF16(value);
      } else {
        data[i] = value;
      }
    }
  }

  int64_t stride;
  GuardedMemory memory;
  T* data;
};

struct alignas(64) Tile {
  BF16 numbers[kTileElements];
};
using Tiles = std::vector<Tile>;

// Returns tiles filled with a value that no packer may leave behind.
Tiles Unpacked(int64_t rows, int64_t depth) {
  Tiles tiles(static_cast<size_t>(RowTiles(rows) * DepthTiles(depth)));
  for (Tile& tile : tiles) std::fill_n(tile.numbers, kTileElements, BF16{0x1234});
  return tiles;
}

// Element (r, k) of a packed operand, of which r is a row of left or a column of right.
BF16 Packed(const Tiles& tiles, bool left, int64_t depth, int64_t r, int64_t k) {
  const int64_t row = r % kTileRows, pair = k % kTileDepth / 2;
  const int64_t at = left ? row * 16 + pair : pair * 16 + row;
  const int64_t tile = r / kTileRows * DepthTiles(depth) + k / kTileDepth;
  return tiles[static_cast<size_t>(tile)].numbers[at * 2 + k % 2];
}

// Elements beyond the matrix are zero; source(r, k) gives those inside.
template <class Source>
void ExpectPacked(const Tiles& packed, bool left, int64_t rows, int64_t depth,
                  const Source& source) {
  for (int64_t r = 0; r < RowTiles(rows) * kTileRows; ++r) {
    for (int64_t k = 0; k < DepthTiles(depth) * kTileDepth; ++k) {
      const BF16 want = r < rows && k < depth ? source(r, k) : BF16{};
      ASSERT_EQ(Packed(packed, left, depth, r, k).bits, want.bits)
          << (left ? "left " : "right ") << rows << " x " << depth << " at " << r << ", " << k;
    }
  }
}

template <class T>
void ExpectPacks(int64_t rows, int64_t depth, bool left, bool along_rows, int64_t gap) {
  const Matrix<T> x(along_rows ? rows : depth, along_rows ? depth : rows, gap);
  ASSERT_TRUE(x.memory.ok());
  Tiles packed = Unpacked(rows, depth);
  const MatrixView<T> view{x.data, x.stride, left != along_rows};
  if (left) {
    PackLeft(view, rows, depth, packed.data()->numbers);
  } else {
    PackRight(view, depth, rows, packed.data()->numbers);
  }
  ExpectPacked(packed, left, rows, depth, [&](int64_t r, int64_t k) {
    return Rounded(x.data[along_rows ? r * x.stride + k : k * x.stride + r]);
  });
}

class Bf16Pack : public OnSimdTarget {};

// Whole tiles, strips of tiles, and every edge of both; rows that no vector is aligned with.
TEST_P(Bf16Pack, HoldsEveryNumberInItsPlaceAndZerosBeyond) {
  const int64_t sizes[][2] = {{1, 1},   {16, 32},  {15, 31},  {17, 33}, {2, 130},
                              {65, 65}, {149, 34}, {80, 161}, {33, 7},  {129, 1}};
  for (const auto& [rows, depth] : sizes) {
    for (int kind = 0; kind < 8; ++kind) {
      ExpectPacks<BF16>(rows, depth, kind & 1, kind & 2, kind & 4 ? 3 : 0);
      ExpectPacks<float>(rows, depth, kind & 1, kind & 2, kind & 4 ? 3 : 0);
    }
  }
}

TEST_P(Bf16Pack, FoldedPairsRowsSixteenApart) {
  for (const int64_t rows : {1, 16, 17, 31, 32, 33, 71}) {
    for (const int64_t columns : {1, 15, 16, 48, 65, 83}) {
      const Matrix<BF16> x(rows, columns, 5);
      ASSERT_TRUE(x.memory.ok());
      Tiles packed = Unpacked(columns, rows);
      PackFolded(x.data, x.stride, rows, columns, packed.data()->numbers);
      ExpectPacked(packed, false, columns, DepthTiles(rows) * kTileDepth, [&](auto c, auto k) {
        const int64_t row = k / 32 * 32 + k % 32 / 2 + k % 2 * 16;
        return row < rows ? x.data[row * x.stride + c] : BF16{};
      });
    }
  }
}

TEST_P(Bf16Pack, NotANumberStaysOne) {
  // `bits` are quiet and signalling NaNs, of which rounding as if they were numbers would make
  // others.
  const uint32_t bits[] = {0x7FC00000, 0xFFC00000, 0x7FFFFFFF, 0xFFFFFFFF, 0x7F800001, 0xFF80FFFF};
  std::vector<float> x(20 * 40, 1.0f);
  for (size_t i = 0; i < std::size(bits); ++i) std::memcpy(&x[i * 41], &bits[i], sizeof(float));
  for (const bool transposed : {false, true}) {
    Tiles packed = Unpacked(20, 40);
    PackLeft({x.data(), transposed ? 20 : 40, transposed}, 20, 40, packed.data()->numbers);
    for (int64_t r = 0; r < 20; ++r) {
      for (int64_t k = 0; k < 40; ++k) {
        const float from = x[static_cast<size_t>(transposed ? k * 20 + r : r * 40 + k)];
        ASSERT_EQ(std::isnan(ToFloat(Packed(packed, true, 40, r, k))), std::isnan(from));
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(, Bf16Pack, EverySimdTarget(), SimdTargetName);

}  // namespace
}  // namespace folio::cpu
