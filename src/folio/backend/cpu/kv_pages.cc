#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>

#include "folio/backend/cpu/attention_rows.h"
#include "folio/backend/cpu/kernels.h"
#include "folio/backend/cpu/stored_numbers.h"
#include "folio/base/thread_pool.h"
#include "folio/tensor/dtype.h"

namespace folio::cpu {
namespace {

// Pages (M,G,2,R,D) of T.
template <class T>
class Pages {
 public:
  explicit Pages(const Tensor& pages)
      : data_(pages.data<T>()), G(pages.dim(1)), R(pages.dim(3)), D(pages.dim(4)) {}

  // Part points to the keys (part 0) or values (part 1) of a head, from the first place of a page.
  T* Part(int32_t page, int64_t g, int64_t part) const {
    return data_ + ((page * G + g) * 2 + part) * R * D;
  }
  T* At(const int32_t* table, int64_t position, int64_t g, int64_t part) const {
    return Part(table[position / R], g, part) + position % R * D;
  }

 private:
  T* data_;

 public:
  const int64_t G, R, D;
};

const int32_t* TableOf(const Tensor& tables, int64_t n) {
  return tables.data<int32_t>() + n * tables.dim(1);
}

void Copy(const float* from, int64_t n, float* to) {
  std::copy_n(from, n, to);
}
void Copy(const float* from, int64_t n, BF16* to) {
  RoundToHalves(from, n, to);
}
void Copy(const BF16* from, int64_t n, float* to) {
  DecodeStored(Dtype::kBF16, reinterpret_cast<const std::byte*>(from), n, to);
}

template <class T>
void Write(const CacheWrite& op) {
  const Pages<T> pages(op.pages);
  ParallelRange(op.k.T, TaskRows(2 * op.k.C), [&](int64_t begin, int64_t end, int) {
    for (int64_t n = begin; n < end; ++n) {
      const int64_t position = op.positions.data<int32_t>()[n];
      for (int64_t g = 0; g < pages.G; ++g) {
        const int32_t* table = TableOf(op.tables, n);
        Copy(op.k.row<float>(0, n) + g * pages.D, pages.D, pages.At(table, position, g, 0));
        Copy(op.v.row<float>(0, n) + g * pages.D, pages.D, pages.At(table, position, g, 1));
      }
    }
  });
}

template <class T>
void Read(const CacheRead& op) {
  const Pages<T> pages(op.pages);
  const int32_t* table = op.table.data<int32_t>();
  ParallelRange(op.k.T, TaskRows(2 * op.k.C), [&](int64_t begin, int64_t end, int) {
    for (int64_t g = 0; g < pages.G; ++g) {
      for (int64_t s = begin; s < end; ++s) {
        Copy(pages.At(table, s, g, 0), pages.D, op.k.row<float>(0, s) + g * pages.D);
        Copy(pages.At(table, s, g, 1), pages.D, op.v.row<float>(0, s) + g * pages.D);
      }
    }
  });
}

// A head of keys of one row after the other: each page is read in its own order.
template <class T>
void Attend(const CacheAttention& op, Scratch& scratch) {
  const Pages<T> pages(op.pages);
  const int64_t N = op.q.T, shared = op.H / pages.G, R = pages.R, D = pages.D;
  const int32_t* positions = op.positions.data<int32_t>();
  const int64_t longest = N == 0 ? 0 : *std::max_element(positions, positions + N) + 1;
  const int64_t stride = CeilDiv(longest, 16) * 16;
  const auto scale =
      static_cast<float>(op.scale != 0 ? op.scale : 1 / std::sqrt(static_cast<double>(D)));
  float* memory = scratch.Get<float>(shared * stride * Threads());
  ParallelFor(N * pages.G, [&](int64_t task, int thread) {
    const int64_t n = task / pages.G, g = task % pages.G, keys = positions[n] + 1;
    const int32_t* table = TableOf(op.tables, n);
    float* scores = memory + thread * shared * stride;
    float* out = op.out.row<float>(0, n) + g * shared * D;
    const auto for_pages = [&](int64_t part, auto&& f) {
      for (int64_t s = 0; s < keys; s += R) {
        f(KeyRows{pages.Part(table[s / R], g, part), DtypeOf<T>(), D}, std::min(R, keys - s),
          scores + s);
      }
    };
    for_pages(0, [&](const KeyRows& k, int64_t count, float* to) {
      ScoreRows(op.q.row<float>(0, n) + g * shared * D, shared, D, k, count, scale, to, stride);
    });
    for (int64_t h = 0; h < shared; ++h) SoftmaxRow(scores + h * stride, keys, nullptr);
    std::fill_n(out, shared * D, 0.0f);
    for_pages(1, [&](const KeyRows& v, int64_t count, const float* weights) {
      CombineRows(weights, stride, shared, D, v, count, out);
    });
  });
}

}  // namespace

void Run(const CacheWrite& op, Scratch&) {
  op.pages.dtype() == Dtype::kBF16 ? Write<BF16>(op) : Write<float>(op);
}

void Run(const CacheRead& op, Scratch&) {
  op.pages.dtype() == Dtype::kBF16 ? Read<BF16>(op) : Read<float>(op);
}

void Run(const CacheAttention& op, Scratch& scratch) {
  op.pages.dtype() == Dtype::kBF16 ? Attend<BF16>(op, scratch) : Attend<float>(op, scratch);
}

}  // namespace folio::cpu
