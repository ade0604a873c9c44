#include "folio/backend/cpu/linear_epilogue.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "folio/backend/cpu/linear_epilogue.cc"
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "folio/backend/cpu/activation-inl.h"
#include "folio/backend/cpu/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace folio::cpu::HWY_NAMESPACE {

// Asks for the part of a row that comes soon: short pieces of rows that lie far apart are nothing
// that a processor foresees.
template <class T>
HWY_INLINE void PrefetchRow(const T* x, int64_t columns, int64_t stride) {
  constexpr int64_t kAhead = 4, kLine = 64 / sizeof(T);
  for (int64_t c = 0; c < columns; c += kLine) hwy::Prefetch(x + kAhead * stride + c);
}

// f(sums, at) for each row: `at` is its place from the first one of out.
template <class T, class F>
HWY_INLINE void ForRows(const ResultBlock<T>& block, const F& f) {
  for (int64_t r = 0; r < block.rows; ++r) {
    f(block.sums + r * block.sums_stride, r * block.stride);
  }
}

// out = sums + bias, which may be null.
template <class T>
HWY_INLINE void StoreRow(const float* sums, const float* bias, int64_t columns, T* out) {
  const hn::ScalableTag<float> d;
  if (bias == nullptr) {
    Map(
        d, columns, out, [](auto a) HWY_ATTR { return a; }, sums);
  } else {
    Map(
        d, columns, out, [](auto a, auto b) HWY_ATTR { return hn::Add(a, b); }, sums, bias);
  }
}

template <class T>
HWY_INLINE void StoreSumsOf(const ResultBlock<T>& block, bool add) {
  const hn::ScalableTag<float> d;
  ForRows(block, [&](const float* sums, int64_t at) HWY_ATTR {
    T* out = block.out + at;
    PrefetchRow(out, block.columns, block.stride);
    if (add) {
      Map(
          d, block.columns, out, [](auto a, auto b) HWY_ATTR { return hn::Add(a, b); },
          static_cast<const T*>(out), sums);
    } else {
      StoreRow(sums, nullptr, block.columns, out);
    }
  });
}

// The activation is of what was stored: of a rounded number where T is BF16.
template <class T>
HWY_INLINE void StoreBiasedOf(const ResultBlock<T>& block, const float* bias, Activation activation,
                              T* act) {
  if (act == nullptr) {
    ForRows(block, [&](const float* sums, int64_t at) HWY_ATTR {
      PrefetchRow(block.out + at, block.columns, block.stride);
      StoreRow(sums, bias, block.columns, block.out + at);
    });
    return;
  }
  const hn::ScalableTag<float> d;
  WithActivation<Activated>(activation, [&](auto activate) HWY_ATTR {
    ForRows(block, [&](const float* sums, int64_t at) HWY_ATTR {
      PrefetchRow(block.out + at, block.columns, block.stride);
      PrefetchRow(act + at, block.columns, block.stride);
      StoreRow(sums, bias, block.columns, block.out + at);
      Map(
          d, block.columns, act + at, [=](auto v) HWY_ATTR { return activate(d, v); },
          static_cast<const T*>(block.out + at));
    });
  });
}

template <class T>
HWY_INLINE void StoreGradientOf(const ResultBlock<T>& block, Activation activation, const T* pre) {
  const hn::ScalableTag<float> d;
  WithActivation<ActivationGradient>(activation, [&](auto gradient) HWY_ATTR {
    ForRows(block, [&](const float* sums, int64_t at) HWY_ATTR {
      PrefetchRow(pre + at, block.columns, block.stride);
      PrefetchRow(block.out + at, block.columns, block.stride);
      Map(
          d, block.columns, block.out + at,
          [=](auto x, auto g) HWY_ATTR { return gradient(d, x, g); }, pre + at, sums);
    });
  });
}

void StoreSumsFloat(const ResultBlock<float>& block, bool add) {
  StoreSumsOf(block, add);
}
void StoreSumsBf16(const ResultBlock<BF16>& block, bool add) {
  StoreSumsOf(block, add);
}
void StoreBiasedFloat(const ResultBlock<float>& block, const float* bias, Activation activation,
                      float* act) {
  StoreBiasedOf(block, bias, activation, act);
}
void StoreBiasedBf16(const ResultBlock<BF16>& block, const float* bias, Activation activation,
                     BF16* act) {
  StoreBiasedOf(block, bias, activation, act);
}
void StoreGradientFloat(const ResultBlock<float>& block, Activation activation, const float* pre) {
  StoreGradientOf(block, activation, pre);
}
void StoreGradientBf16(const ResultBlock<BF16>& block, Activation activation, const BF16* pre) {
  StoreGradientOf(block, activation, pre);
}

}  // namespace folio::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace folio::cpu {

HWY_EXPORT(StoreSumsFloat);
HWY_EXPORT(StoreSumsBf16);
HWY_EXPORT(StoreBiasedFloat);
HWY_EXPORT(StoreBiasedBf16);
HWY_EXPORT(StoreGradientFloat);
HWY_EXPORT(StoreGradientBf16);

void StoreSums(const ResultBlock<float>& block, bool add) {
  HWY_DYNAMIC_DISPATCH(StoreSumsFloat)(block, add);
}
void StoreSums(const ResultBlock<BF16>& block, bool add) {
  HWY_DYNAMIC_DISPATCH(StoreSumsBf16)(block, add);
}

void StoreBiased(const ResultBlock<float>& block, const float* bias, Activation activation,
                 float* act) {
  HWY_DYNAMIC_DISPATCH(StoreBiasedFloat)(block, bias, activation, act);
}
void StoreBiased(const ResultBlock<BF16>& block, const float* bias, Activation activation,
                 BF16* act) {
  HWY_DYNAMIC_DISPATCH(StoreBiasedBf16)(block, bias, activation, act);
}

void StoreGradient(const ResultBlock<float>& block, Activation activation, const float* pre) {
  HWY_DYNAMIC_DISPATCH(StoreGradientFloat)(block, activation, pre);
}
void StoreGradient(const ResultBlock<BF16>& block, Activation activation, const BF16* pre) {
  HWY_DYNAMIC_DISPATCH(StoreGradientBf16)(block, activation, pre);
}

}  // namespace folio::cpu
#endif  // HWY_ONCE
