#include <algorithm>
#include <cmath>

#include "folio/backend/cpu/kernels.h"
#include "folio/base/thread_pool.h"
#include "folio/tensor/dtype.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "folio/backend/cpu/rotary.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "folio/backend/cpu/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace folio::cpu::HWY_NAMESPACE {

// Rotates the pairs (a[i], b[i]) for i in [0, n); sines are multiplied by `sign`.
template <class T>
HWY_INLINE void TurnPairs(const float* cosines, const float* sines, float sign, int64_t n, T* a,
                          T* b) {
  const hn::ScalableTag<float> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto turn = [&, way = hn::Set(d, sign)](auto c, auto s, auto& x, auto& y) HWY_ATTR {
    s = hn::Mul(s, way);
    const auto old = x;
    x = hn::NegMulAdd(y, s, hn::Mul(old, c));
    y = hn::MulAdd(old, s, hn::Mul(y, c));
  };
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    auto x = LoadU(d, a + i), y = LoadU(d, b + i);
    turn(hn::LoadU(d, cosines + i), hn::LoadU(d, sines + i), x, y);
    StoreU(x, d, a + i);
    StoreU(y, d, b + i);
  }
  if (const int64_t rest = n - i; rest > 0) {
    auto x = LoadPart(d, a + i, rest), y = LoadPart(d, b + i, rest);
    turn(LoadPart(d, cosines + i, rest), LoadPart(d, sines + i, rest), x, y);
    StorePart(x, d, a + i, rest);
    StorePart(y, d, b + i, rest);
  }
}

template <class T>
void RotaryRowsOf(const Rotary& op, int64_t begin, int64_t end) {
  const int64_t T_ = op.x.T, r = op.table.dim(1), half = r / 2;
  const bool shared = op.table.dim(0) == T_;
  const float sign = op.inverse ? -1.0f : 1.0f;
  for (int64_t n = begin; n < end; ++n) {
    const float* cosines = op.table.data<float>() + (shared ? n % T_ : n) * r;
    T* row = op.x.row<T>(n / T_, n % T_);
    for (T* head = row; head < row + op.x.C; head += op.D) {
      TurnPairs(cosines, cosines + half, sign, half, head, head + half);
    }
  }
}

void RotaryRows(const Rotary& op, int64_t begin, int64_t end) {
  WithNumber(op.x.dtype, [&]<class T>(T) { RotaryRowsOf<T>(op, begin, end); });
}

}  // namespace folio::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace folio::cpu {

void Run(const RotaryAngles& op, Scratch&) {
  constexpr int64_t kAnglesOfTask = 512;
  const auto pairs = static_cast<int64_t>(op.inv_freq.size());
  const int32_t* positions = op.positions.data<int32_t>();
  const int64_t rows = std::max<int64_t>(1, kAnglesOfTask / std::max<int64_t>(1, pairs));
  ParallelRange(op.out.dim(0), rows, [&](int64_t begin, int64_t end, int) {
    for (int64_t n = begin; n < end; ++n) {
      float* cosines = op.out.data<float>() + n * 2 * pairs;
      const auto position = static_cast<float>(positions != nullptr ? positions[n] : n);
      for (int64_t i = 0; i < pairs; ++i) {
        const double angle = position * op.inv_freq[static_cast<size_t>(i)];
        cosines[i] = static_cast<float>(std::cos(angle) * op.attention_factor);
        cosines[pairs + i] = static_cast<float>(std::sin(angle) * op.attention_factor);
      }
    }
  });
}

HWY_EXPORT(RotaryRows);

void Run(const Rotary& op, Scratch&) {
  ParallelRange(op.x.B * op.x.T, TaskRows(op.x.C), [&](int64_t begin, int64_t end, int) {
    HWY_DYNAMIC_DISPATCH(RotaryRows)(op, begin, end);
  });
}

}  // namespace folio::cpu
#endif  // HWY_ONCE
