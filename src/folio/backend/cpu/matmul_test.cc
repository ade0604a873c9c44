#include "folio/backend/cpu/matmul.h"

#include <gtest/gtest.h>
#include <sys/time.h>

#include <atomic>
#include <csignal>
#include <vector>

#include "folio/backend/cpu/linear.h"

namespace folio {
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
  const LinearBackward op{.x = Tensor(x.data(), {kRows, kIn}),
                          .weight = Tensor(weight.data(), {kIn, kOut}),
                          .d_out = Tensor(d_out.data(), {kRows, kOut}),
                          .d_weight = Tensor(d_weight.data(), {kIn, kOut})};
  cpu::RunLinear(op);
  const std::vector<float> expected = d_weight;
  const SignalStorm storm;
  g_signals = 0;
  for (int i = 0; i < 100000 && g_signals < 500; ++i) {
    std::fill(d_weight.begin(), d_weight.end(), 0.0f);
    cpu::RunLinear(op);
    ASSERT_EQ(d_weight, expected);
  }
  EXPECT_GE(g_signals, 500);
}

TEST(MatMul, TilesCoverTheProductOnce) {
  for (int64_t M : {1, 7, 64, 257, 2048}) {
    for (int64_t N : {1, 65, 1024, 1025}) {
      const cpu::MatMulCut cut = cpu::CutMatMul(M, N, 33);
      std::vector<int> covered(static_cast<size_t>(M * N));
      for (int64_t i = 0; i < cut.tiles(); ++i) {
        const cpu::MatMulTile tile = cpu::TileOf(cut, M, N, i);
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

}  // namespace
}  // namespace folio
