#include <algorithm>
#include <span>

#include "folio/backend/cpu/kernels.h"
#include "folio/base/thread_pool.h"
#include "folio/tensor/dtype.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "folio/backend/cpu/embedding.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "folio/backend/cpu/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace folio::cpu::HWY_NAMESPACE {

// to = a + b
void EmbeddingSum(const float* a, const float* b, int64_t n, float* to) {
  const hn::ScalableTag<float> d;
  Map(
      d, n, to, [](auto x, auto y) HWY_ATTR { return hn::Add(x, y); }, a, b);
}

// Adds columns [begin, end) of the rows of d_out, in order, to those of the rows of the tables that
// they came from.
void EmbeddingScatter(const EmbeddingBackward& op, int64_t begin, int64_t end) {
  const hn::ScalableTag<float> d;
  const auto add = [](auto x, auto y) HWY_ATTR { return hn::Add(x, y); };
  const int64_t T = op.ids.dim(1), C = op.d_wte.dim(1), N = op.ids.count(), n = end - begin;
  const int32_t* ids = op.ids.data<int32_t>();
  const int32_t* at = op.positions.data<int32_t>();
  for (int64_t row = 0; row < N; ++row) {
    const float* from = op.d_out.data<float>() + row * C + begin;
    if (ids[row] != kElsewhere) {
      float* token = op.d_wte.data<float>() + ids[row] * C + begin;
      Map(d, n, token, add, token, from);
    }
    if (op.d_wpe) {
      float* position = op.d_wpe.data<float>() + (at != nullptr ? at[row] : row % T) * C + begin;
      Map(d, n, position, add, position, from);
    }
  }
}

}  // namespace folio::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace folio::cpu {

HWY_EXPORT(EmbeddingSum);
HWY_EXPORT(EmbeddingScatter);

namespace {

void CheckTokens(const Tensor& ids, int64_t V) {
  const int32_t* id = ids.data<int32_t>();
  for (int64_t i = 0; i < ids.count(); ++i) {
    FOLIO_CHECK((id[i] >= 0 && id[i] < V) || id[i] == kElsewhere, "token outside the vocabulary");
  }
}

void CheckPositions(const Tensor& positions, int64_t P) {
  const int32_t* at = positions.data<int32_t>();
  for (int64_t i = 0; i < positions.count(); ++i) {
    FOLIO_CHECK(at[i] >= 0 && at[i] < P, "position outside the context");
  }
}

// CheckRows checks tokens and positions before anything is read by them.
template <class Op>
void CheckRows(const Op& op, const Tensor& wte, const Tensor& wpe) {
  CheckTokens(op.ids, wte.dim(0));
  if (wpe && op.positions) CheckPositions(op.positions, wpe.dim(0));
}

}  // namespace

void Run(const EmbeddingForward& op, Scratch&) {
  CheckRows(op, op.wte, op.wpe);
  const int64_t T = op.ids.dim(1), C = op.wte.dim(1);
  const int32_t* ids = op.ids.data<int32_t>();
  const int32_t* at = op.positions.data<int32_t>();
  const float* wpe = op.wpe.data<float>();
  float* out = op.out.data<float>();
  ParallelRange(op.ids.count(), TaskRows(C), [&](int64_t begin, int64_t end, int) {
    for (int64_t row = begin; row < end; ++row) {
      float* to = out + row * C;
      if (ids[row] == kElsewhere) {
        std::fill_n(to, C, 0.0f);
      } else {
        DecodeFloats(op.wte.raw() + DtypeBytes(op.wte.dtype(), ids[row] * C), op.wte.dtype(),
                     std::span(to, static_cast<size_t>(C)));
      }
      if (wpe == nullptr) continue;
      const float* position = wpe + (at != nullptr ? at[row] : row % T) * C;
      HWY_DYNAMIC_DISPATCH(EmbeddingSum)(to, position, C, to);
    }
  });
}

// Tokens repeat, so threads share columns out rather than rows.
void Run(const EmbeddingBackward& op, Scratch&) {
  CheckRows(op, op.d_wte, op.d_wpe);
  constexpr int64_t kColumns = 64;
  ParallelRange(op.d_wte.dim(1), kColumns, [&](int64_t begin, int64_t end, int) {
    HWY_DYNAMIC_DISPATCH(EmbeddingScatter)(op, begin, end);
  });
}

}  // namespace folio::cpu
#endif  // HWY_ONCE
