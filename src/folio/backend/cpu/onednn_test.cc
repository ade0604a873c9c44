#include "folio/backend/cpu/onednn.h"

#include <dnnl.h>
#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>
#include <iostream>
#include <vector>

#include "folio/base/test_simd_targets.h"
#include "folio/base/thread_pool.h"

namespace folio::cpu {
namespace {

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
