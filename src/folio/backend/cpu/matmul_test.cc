#include "folio/backend/cpu/matmul.h"

#include <dnnl.h>
#include <gtest/gtest.h>
#include <sys/time.h>

#include <atomic>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <iostream>
#include <limits>
#include <string>
#include <vector>

#include "folio/backend/cpu/kernels.h"
#include "folio/backend/cpu/test_guarded_memory.h"
#include "folio/base/test_simd_targets.h"
#include "folio/base/thread_pool.h"

namespace folio::cpu {
namespace {

std::atomic<int> g_signals = 0;

// Sends this process a signal every 200 us, with a handler on the normal stack.
class SignalStorm {
 public:
  SignalStorm() {
    struct sigaction action = {};
    action.sa_handler = [](int) { ++g_signals; };
    action.sa_flags = SA_RESTART;
    sigaction(SIGALRM, &action, &before_);
    const itimerval timer{.it_interval = {0, 200}, .it_value = {0, 200}};
    setitimer(ITIMER_REAL, &timer, nullptr);
  }
  ~SignalStorm() {
    const itimerval off{};
    setitimer(ITIMER_REAL, &off, nullptr);
    sigaction(SIGALRM, &before_, nullptr);
  }

 private:
  struct sigaction before_ = {};
};

// A handler's frame on the stack of a thread inside oneDNN's product of this shape lands in the
// heap.
TEST(MatMul, SignalsDoNotDisturbProducts) {
  constexpr int64_t kRows = 2048, kIn = 57, kOut = 128;
  std::vector<float> x(kRows * kIn), d_out(kRows * kOut), weight(kIn * kOut), d_weight(kIn * kOut);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 7) - 3;
  for (size_t i = 0; i < d_out.size(); ++i) d_out[i] = static_cast<float>(i % 5) - 2;
  Scratch scratch;
  const LinearBackward op{.x = Tensor(x.data(), {kRows, kIn}),
                          .weight = Tensor(weight.data(), {kIn, kOut}),
                          .d_out = Tensor(d_out.data(), {kRows, kOut}),
                          .d_weight = Tensor(d_weight.data(), {kIn, kOut})};
  cpu::Run(op, scratch);
  const std::vector<float> expected = d_weight;
  const SignalStorm storm;
  g_signals = 0;
  for (int i = 0; i < 100000 && g_signals < 500; ++i) {
    std::fill(d_weight.begin(), d_weight.end(), 0.0f);
    cpu::Run(op, scratch);
    ASSERT_EQ(d_weight, expected);
  }
  EXPECT_GE(g_signals, 500);
}

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

// (rows, columns) numbers whose last one is the last of its page; the next page cannot be touched.
// Rows are `gap` NaNs apart.
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
  SmallProduct(product.args);
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

class SmallProducts : public OnSimdTarget {};

TEST_P(SmallProducts, EveryTranspositionAndOddSize) {
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

TEST_P(SmallProducts, EveryHeightOfABlock) {
  for (int64_t M = 1; M <= 30; ++M) {
    for (const bool transpose_a : {false, true}) {
      ExpectProduct({M, 33, 5, transpose_a, false, 1, 2});
    }
  }
}

// More rows than are read in place, more depth than is multiplied at a time, and both ends odd.
TEST_P(SmallProducts, LongSumsAndManyRows) {
  for (const bool transpose_a : {false, true}) {
    for (const bool transpose_b : {false, true}) {
      ExpectProduct({17, 35, 515, transpose_a, transpose_b, 0, 1});
      ExpectProduct({101, 35, 67, transpose_a, transpose_b, 1, 0});
    }
  }
}

TEST_P(SmallProducts, AddToWhatIsThere) {
  for (const float beta : {0.0f, 1.0f, -2.0f}) {
    for (const int64_t K : {3, 260}) ExpectProduct({7, 33, K, false, true, beta, 1});
  }
}

// The bits of an element do not depend on which part of C it is computed with.
TEST_P(SmallProducts, PartsAreThePartsOfTheWhole) {
  for (const bool transpose_a : {false, true}) {
    for (const bool transpose_b : {false, true}) {
      const Case x{131, 70, 260, transpose_a, transpose_b, 1, 0};
      const Product whole(x), parts(x);
      SmallProduct(whole.args);
      for (const int64_t m : {0, 11, 60}) {
        for (const int64_t n : {0, 1, 40}) {
          MatMulArgs part = parts.args;
          part.M = m == 0 ? 11 : m == 11 ? 49 : 71;
          part.N = n == 0 ? 1 : n == 1 ? 39 : 30;
          part.a += transpose_a ? m : m * part.lda;
          part.b += transpose_b ? n * part.ldb : n;
          part.c += m * part.ldc + n;
          SmallProduct(part);
        }
      }
      ASSERT_TRUE(parts.c.Equals(whole.c)) << transpose_a << transpose_b;
    }
  }
}

// One bad element of B spoils its own column alone.
TEST_P(SmallProducts, InfinitiesStayInTheirColumn) {
  const Case x{9, 33, 4, false, true, 0, 0};
  const Product product(x);
  product.b.at(32, 1) = std::numeric_limits<float>::infinity();
  SmallProduct(product.args);
  for (int64_t m = 0; m < x.M; ++m) {
    for (int64_t n = 0; n < 32; ++n) ASSERT_TRUE(std::isfinite(product.c.at(m, n)));
    ASSERT_FALSE(std::isfinite(product.c.at(m, 32)));
  }
}

INSTANTIATE_TEST_SUITE_P(, SmallProducts, EverySimdTarget(), SimdTargetName);

// ProductIsRight says whether oneDNN made the right product if `used`, and otherwise whether it
// declined and left c alone.
bool ProductIsRight(bool used) {
  constexpr int64_t kM = 37, kN = 29, kK = 41;
  std::vector<float> a(kM * kK), b(kK * kN), c(kM * kN, -1), expected = c;
  for (size_t i = 0; i < a.size(); ++i) a[i] = static_cast<float>(i % 7) - 3;
  for (size_t i = 0; i < b.size(); ++i) b[i] = static_cast<float>(i % 5) - 2;
  for (int64_t i = 0; used && i < kM * kN; ++i) {
    expected[i] = 0;
    for (int64_t k = 0; k < kK; ++k) expected[i] += a[i / kN * kK + k] * b[k * kN + i % kN];
  }
  const MatMulArgs args{.M = kM,
                        .N = kN,
                        .K = kK,
                        .a = a.data(),
                        .lda = kK,
                        .b = b.data(),
                        .ldb = kN,
                        .c = c.data(),
                        .ldc = kN};
  bool right = false;
  ParallelFor(1, [&](int64_t, int) { right = OneDnnProduct(args) == used; });
  return right && c == expected;
}

// HeldTo is the instruction set that oneDNN must be held to, 0 where it cannot be.
int HeldTo(const std::string& target) {
  if (target == "AMX" || target.starts_with("AVX3")) return dnnl_cpu_isa_avx512_core;
  if (target == "AVX2") return dnnl_cpu_isa_avx2;
  return target == "SSE4" ? dnnl_cpu_isa_sse41 : 0;
}

bool LikeTheBest(const std::string& target) {
  const std::string best = SimdTargets().front();
  return target == best || (HeldTo(target) != 0 && HeldTo(target) == HeldTo(best));
}

// The instruction set belongs to the process: each target gets one of its own.
class OneDnn : public testing::TestWithParam<std::string> {
 protected:
  OneDnn() { testing::FLAGS_gtest_death_test_style = "threadsafe"; }
};

[[noreturn]] void EndWith(bool right) {
  std::cerr << OneDnnDescription();
  std::_Exit(right ? 0 : 1);
}

TEST_P(OneDnn, IsHeldToTheTargetOfItsFirstProduct) {
  const std::string target = GetParam();
  const int isa = target == SimdTargets().front() ? 0 : HeldTo(target);
  if (isa == 0) return;  // it chooses for itself
  EXPECT_EXIT(
      {
        ForceSimdTarget(target);
        EndWith(ProductIsRight(true) && dnnl_get_effective_cpu_isa() == isa);
      },
      testing::ExitedWithCode(0), "^oneDNN [0-9.]+$");
}

TEST_P(OneDnn, DoesNotServeTheBestAfterALesserOne) {
  const bool held = HeldTo(GetParam()) != 0, serves = !held || LikeTheBest(GetParam());
  EXPECT_EXIT(
      {
        ForceSimdTarget(GetParam());
        const bool first = ProductIsRight(held || LikeTheBest(GetParam()));
        ForceSimdTarget("");
        EndWith(first && ProductIsRight(serves));
      },
      testing::ExitedWithCode(0), serves ? "^oneDNN [0-9.]+$" : "stays with " + GetParam());
}

// An embedding program may have used oneDNN before, so that it can no longer be held.
TEST_P(OneDnn, IsNotUsedBelowTheBestWhereItCannotBeHeld) {
  if (LikeTheBest(GetParam())) return;
  EXPECT_EXIT(
      {
        float one = 1;
        float result = 0;
        dnnl_sgemm('N', 'N', 1, 1, 1, 1, &one, 1, &one, 1, 0, &result, 1);
        ForceSimdTarget(GetParam());
        EndWith(ProductIsRight(false));
      },
      testing::ExitedWithCode(0), "stays with " + SimdTargets().front());
}

// oneDNN points the stack register into a buffer of the heap: a handler's frame would land there.
TEST(OneDnnProduct, IsMadeWithSignalsHeld) {
  ParallelFor(1, [](int64_t, int) {
    const float one = 1;
    float c = 0;
    const MatMulArgs args{
        .M = 1, .N = 1, .K = 1, .a = &one, .lda = 1, .b = &one, .ldb = 1, .c = &c, .ldc = 1};
    ASSERT_TRUE(OneDnnProduct(args));
    sigset_t mask;
    pthread_sigmask(SIG_SETMASK, nullptr, &mask);
    EXPECT_EQ(sigismember(&mask, SIGALRM), 1);
    EXPECT_EQ(c, 1);
  });
}

INSTANTIATE_TEST_SUITE_P(, OneDnn, EverySimdTarget(), SimdTargetName);

}  // namespace
}  // namespace folio::cpu
