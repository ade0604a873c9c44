#pragma once

#include <algorithm>
#include <cstdint>

#include "folio/backend/cpu/bf16_product.h"
#include "folio/backend/cpu/scratch.h"
#include "folio/base/thread_pool.h"

namespace folio::cpu {

// The first element and the number of a part of M, of N or of K.
struct Bf16Range {
  int64_t begin = 0, size = 0;
};

// A Bf16Block says where a part of c (M,N) = left (M,K) right (K,N) lies, and has its sums.
struct Bf16Block {
  Bf16Range rows, columns;
  const float* sums = nullptr;  // (rows, columns), rows `stride` apart
  int64_t stride = 0;
};

// One product: how it is cut, by its sizes alone, and its memory. Operands are packed and
// multiplied a panel at a time, so that what is packed is read again while it is near.
class Bf16Work {
 public:
  Bf16Work(int64_t M, int64_t N, int64_t K, Scratch& scratch);

  // Calls panel(rows, columns, depth) for each part, K outermost.
  template <class Panel>
  void ForEachPanel(const Panel& panel) const {
    ForEachRange(K_, panel_depth_, [&](const Bf16Range& depth) {
      ForEachRange(N_, panel_columns_, [&](const Bf16Range& columns) {
        ForEachRange(M_, panel_rows_, [&](const Bf16Range& rows) { panel(rows, columns, depth); });
      });
    });
  }

  bool first(const Bf16Range& depth) const { return depth.begin == 0; }
  bool last(const Bf16Range& depth) const { return depth.begin + depth.size == K_; }
  BF16* left() const { return left_; }
  BF16* right() const { return right_; }

  // The blocks of a panel that threads share out.
  int64_t Blocks(const Bf16Range& rows, const Bf16Range& columns) const;
  // Sums block `task` of a packed panel, on the calling thread.
  Bf16Block Multiply(const Bf16Range& rows, const Bf16Range& columns, const Bf16Range& depth,
                     int64_t task, int thread) const;

 private:
  template <class F>
  static void ForEachRange(int64_t size, int64_t step, const F& f) {
    for (int64_t begin = 0; begin < size; begin += step) f({begin, std::min(step, size - begin)});
  }

  int64_t M_, N_, K_;
  int64_t panel_rows_, panel_columns_, panel_depth_;  // multiples of a tile's
  int64_t block_rows_, block_columns_;                // in tiles
  BF16 *left_, *right_;
  float* sums_;  // of one block a thread, or of all of c where K takes several panels
};

// The product on Threads() threads, of sizes of at least 1; use(const Bf16Block&) takes each block
// of c once, on the thread that summed it, while it is in its cache. Sums are made in an order that
// depends on K alone.
template <class Left, class Right, class Use>
void Bf16MatMul(const MatrixView<Left>& left, const MatrixView<Right>& right, int64_t M, int64_t N,
                int64_t K, Scratch& scratch, Use&& use) {
  constexpr int64_t kRows = 4 * kTileRows;  // packed by one task
  const Bf16Work work(M, N, K, scratch);
  Bf16Range left_rows{-1}, left_depth{-1}, right_columns{-1}, right_depth{-1};  // packed last
  work.ForEachPanel([&](const Bf16Range& rows, const Bf16Range& columns, const Bf16Range& depth) {
    const bool pack_left = left_rows.begin != rows.begin || left_depth.begin != depth.begin;
    const bool pack_right =
        right_columns.begin != columns.begin || right_depth.begin != depth.begin;
    const int64_t left_tasks = pack_left ? (rows.size + kRows - 1) / kRows : 0;
    const int64_t right_tasks = pack_right ? (columns.size + kRows - 1) / kRows : 0;
    ParallelFor(left_tasks + right_tasks, [&](int64_t task, int) {
      const bool is_left = task < left_tasks;
      const int64_t at = (is_left ? task : task - left_tasks) * kRows;
      const int64_t offset = PackedElements(at, depth.size);
      if (is_left) {
        PackLeft(ColumnsFrom(RowsFrom(left, rows.begin + at), depth.begin),
                 std::min(kRows, rows.size - at), depth.size, work.left() + offset);
      } else {
        PackRight(ColumnsFrom(RowsFrom(right, depth.begin), columns.begin + at), depth.size,
                  std::min(kRows, columns.size - at), work.right() + offset);
      }
    });
    left_rows = rows, left_depth = depth, right_columns = columns, right_depth = depth;
    ParallelFor(work.Blocks(rows, columns), [&](int64_t task, int thread) {
      const Bf16Block block = work.Multiply(rows, columns, depth, task, thread);
      if (work.last(depth)) use(block);
    });
  });
}

}  // namespace folio::cpu
