#include "folio/backend/cpu/matmul.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "folio/backend/cpu/test_guarded_memory.h"
#include "folio/base/simd_targets.h"
#include "folio/base/test_simd_targets.h"
#include "folio/base/thread_pool.h"

namespace folio::cpu {
namespace {

TEST(MatMul, TilesCoverTheProductOnce) {
  for (int64_t M : {1, 7, 64, 257, 2048}) {
    for (int64_t N : {1, 65, 1024, 1025}) {
      const MatMulCut cut = CutMatMul(M, N, 33);
      std::vector<int> covered(static_cast<size_t>(M * N));
      for (int64_t i = 0; i < cut.tiles(); ++i) {
        const MatMulTile tile = TileOf(cut, M, N, i);
        for (int64_t r = tile.row; r < tile.row + tile.rows; ++r) {
          for (int64_t c = tile.column; c < tile.column + tile.columns; ++c) {
            ++covered[static_cast<size_t>(r * N + c)];
          }
        }
      }
      for (int count : covered) ASSERT_EQ(count, 1) << M << " x " << N;
    }
  }
}

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

// (rows, columns) numbers, the last at the very end of a page; the next page is inaccessible. Rows
// are `gap` NaNs apart.
class ProductOperand {
 public:
  ProductOperand(int64_t rows, int64_t columns, int64_t gap, uint64_t stream)
      : rows_(rows),
        columns_(columns),
        stride_(columns + gap),
        memory_(static_cast<size_t>((rows - 1) * stride_ + columns) * sizeof(float)) {
    EXPECT_TRUE(memory_.ok());
    const size_t elements = static_cast<size_t>((rows - 1) * stride_ + columns);
    data_ = reinterpret_cast<float*>(memory_.end()) - elements;
    for (size_t i = 0; i < elements; ++i) data_[i] = kNaN;
    uint64_t state = stream;
    for (int64_t i = 0; i < rows * columns; ++i) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      at(i / columns, i % columns) = std::ldexp(static_cast<float>(state >> 40), -23) - 1;
    }
  }

  float* data() const { return data_; }
  int64_t stride() const { return stride_; }
  float& at(int64_t r, int64_t c) const { return data_[r * stride_ + c]; }

  // The same numbers, and NaN between the rows.
  bool Equals(const ProductOperand& other) const {
    for (int64_t r = 0; r < rows_; ++r) {
      for (int64_t c = 0; c < stride_; ++c) {
        if (c >= columns_ && r + 1 == rows_) break;
        const bool same = c < columns_ ? at(r, c) == other.at(r, c) : std::isnan(at(r, c));
        if (!same) return false;
      }
    }
    return true;
  }

 private:
  const int64_t rows_, columns_, stride_;
  GuardedMemory memory_;
  float* data_;
};

struct Case {
  int64_t M, N, K;
  bool transpose_a, transpose_b;
  float beta;
  int64_t gap;
  std::string ToString() const {
    return std::to_string(M) + " x " + std::to_string(N) + " x " + std::to_string(K) +
           (transpose_a ? " A transposed" : "") + (transpose_b ? " B transposed" : "") + ", beta " +
           std::to_string(beta) + ", gap " + std::to_string(gap);
  }
};

// The operands of a case.
struct Product {
  explicit Product(const Case& x)
      : a(x.transpose_a ? x.K : x.M, x.transpose_a ? x.M : x.K, x.gap, 1),
        b(x.transpose_b ? x.N : x.K, x.transpose_b ? x.K : x.N, x.gap, 2),
        c(x.M, x.N, x.gap, 3),
        args{.M = x.M,
             .N = x.N,
             .K = x.K,
             .a = a.data(),
             .lda = a.stride(),
             .transpose_a = x.transpose_a,
             .b = b.data(),
             .ldb = b.stride(),
             .transpose_b = x.transpose_b,
             .c = c.data(),
             .ldc = c.stride(),
             .beta = x.beta} {}
  ProductOperand a, b, c;
  MatMulArgs args;
};

// Element (m,n), and a bound on the rounding error of its sum.
struct Element {
  double value, bound;
};
Element Expected(const Case& x, const Product& before, int64_t m, int64_t n) {
  double sum = 0, size = 0;
  for (int64_t k = 0; k < x.K; ++k) {
    const double term = static_cast<double>(x.transpose_a ? before.a.at(k, m) : before.a.at(m, k)) *
                        static_cast<double>(x.transpose_b ? before.b.at(n, k) : before.b.at(k, n));
    sum += term;
    size += std::abs(term);
  }
  const double add = x.beta == 0 ? 0 : static_cast<double>(x.beta * before.c.at(m, n));
  const double unit = std::ldexp(1.0, -24);
  return {sum + add, unit * (static_cast<double>(x.K) + 4) * (size + std::abs(add))};
}

void ExpectProduct(const Case& x) {
  SCOPED_TRACE(x.ToString());
  const Product before(x), product(x);
  if (x.beta == 0) {
    for (int64_t i = 0; i < x.M * x.N; ++i) product.c.at(i / x.N, i % x.N) = kNaN;
  }
  FloatProduct(product.args);
  for (int64_t m = 0; m < x.M; ++m) {
    for (int64_t n = 0; n < x.N; ++n) {
      const Element expected = Expected(x, before, m, n);
      ASSERT_NEAR(product.c.at(m, n), expected.value, expected.bound) << m << "," << n;
    }
  }
  for (int64_t m = 0; m + 1 < x.M; ++m) {
    for (int64_t n = x.N; n < product.c.stride(); ++n) ASSERT_TRUE(std::isnan(product.c.at(m, n)));
  }
  ASSERT_TRUE(product.a.Equals(before.a));
  ASSERT_TRUE(product.b.Equals(before.b));
}

class FloatProducts : public OnSimdTarget {};

TEST_P(FloatProducts, EveryTranspositionAndOddSize) {
  int64_t gap = 0;
  for (const bool transpose_a : {false, true}) {
    for (const bool transpose_b : {false, true}) {
      for (const int64_t M : {1, 5, 13, 15, 29}) {
        for (const int64_t N : {1, 3, 17, 32, 37}) {
          for (const int64_t K : {1, 7, 20}) {
            gap = (gap + 3) % 7;
            ExpectProduct({M, N, K, transpose_a, transpose_b, 0, gap});
          }
        }
      }
    }
  }
}

TEST_P(FloatProducts, EveryHeightOfABlock) {
  for (int64_t M = 1; M <= 30; ++M) {
    for (const bool transpose_a : {false, true}) {
      ExpectProduct({M, 33, 5, transpose_a, false, 1, 2});
    }
  }
}

// More rows than are read in place, more depth than is multiplied at a time, and both with odd
// remainders.
TEST_P(FloatProducts, LongSumsAndManyRows) {
  for (const bool transpose_a : {false, true}) {
    for (const bool transpose_b : {false, true}) {
      ExpectProduct({17, 35, 515, transpose_a, transpose_b, 0, 1});
      ExpectProduct({101, 35, 67, transpose_a, transpose_b, 1, 0});
    }
  }
}

TEST_P(FloatProducts, AddToWhatIsThere) {
  for (const float beta : {0.0f, 1.0f, -2.0f}) {
    for (const int64_t K : {3, 260}) ExpectProduct({7, 33, K, false, true, beta, 1});
  }
}

// The bits of an element do not depend on which part of C it is computed with.
TEST_P(FloatProducts, PartsAreThePartsOfTheWhole) {
  for (const bool transpose_a : {false, true}) {
    for (const bool transpose_b : {false, true}) {
      const Case x{131, 70, 260, transpose_a, transpose_b, 1, 0};
      const Product whole(x), parts(x);
      FloatProduct(whole.args);
      for (const int64_t m : {0, 11, 60}) {
        for (const int64_t n : {0, 1, 40}) {
          MatMulArgs part = parts.args;
          part.M = m == 0 ? 11 : m == 11 ? 49 : 71;
          part.N = n == 0 ? 1 : n == 1 ? 39 : 30;
          part.a += transpose_a ? m : m * part.lda;
          part.b += transpose_b ? n * part.ldb : n;
          part.c += m * part.ldc + n;
          FloatProduct(part);
        }
      }
      ASSERT_TRUE(parts.c.Equals(whole.c)) << transpose_a << transpose_b;
    }
  }
}

// One bad element of B spoils its own column alone.
TEST_P(FloatProducts, InfinitiesStayInTheirColumn) {
  const Case x{9, 33, 4, false, true, 0, 0};
  const Product product(x);
  product.b.at(32, 1) = std::numeric_limits<float>::infinity();
  FloatProduct(product.args);
  for (int64_t m = 0; m < x.M; ++m) {
    for (int64_t n = 0; n < 32; ++n) ASSERT_TRUE(std::isfinite(product.c.at(m, n)));
    ASSERT_FALSE(std::isfinite(product.c.at(m, 32)));
  }
}

// Packing A changes where numbers are read, not one bit of the result.
TEST_P(FloatProducts, PackedRowsGiveTheSameBits) {
  std::vector<float> packed_a(kPackedFloats);
  for (const bool transpose_a : {false, true}) {
    for (const bool transpose_b : {false, true}) {
      for (const auto& [M, K] :
           {std::pair<int64_t, int64_t>{1, 3}, {15, 391}, {kMaxProductRows + 29, 5}}) {
        const Case x{M, 547, K, transpose_a, transpose_b, 1, M % 3};
        SCOPED_TRACE(x.ToString());
        const Product in_place(x), packed(x);
        FloatProduct(in_place.args);
        FloatProduct(packed.args, packed_a.data());
        ASSERT_TRUE(packed.c.Equals(in_place.c));
        const Element expected = Expected(x, Product(x), M - 1, 546);
        ASSERT_NEAR(packed.c.at(M - 1, 546), expected.value, expected.bound);
      }
    }
  }
}

// Sums have one order, and a fused multiply-add rounds the same everywhere.
TEST(FloatProduct, IsTheSameOnAllTargetsWithFusedMultiplyAdds) {
  const KeptSimdTarget kept;
  const Case x{31, 70, 400, false, true, 1, 0};
  const Product first(x);
  FloatProduct(first.args);
  for (const std::string& target : SimdTargets()) {
    if (target != "AMX" && target != "AVX2" && !target.starts_with("AVX3")) continue;
    ForceSimdTarget(target);
    const Product product(x);
    FloatProduct(product.args);
    EXPECT_TRUE(product.c.Equals(first.c)) << target;
  }
}

// The result does not depend on the number of threads or the division into tiles.
TEST(MatMul, DoesNotDependOnThreads) {
  const int threads = Threads();
  const Case x{267, 1100, 390, false, false, 1, 0};
  const Product first(x);
  FloatProduct(first.args);
  for (const int count : {1, 2, 3, 7}) {
    SetThreads(count);
    const Product product(x);
    std::vector<float> memory(static_cast<size_t>(MatMulFloats()));
    MatMul(product.args, memory.data());
    EXPECT_TRUE(product.c.Equals(first.c)) << count;
  }
  SetThreads(threads);
}

INSTANTIATE_TEST_SUITE_P(, FloatProducts, EverySimdTarget(), SimdTargetName);

}  // namespace
}  // namespace folio::cpu
