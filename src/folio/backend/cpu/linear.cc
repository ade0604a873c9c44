#include <algorithm>
#include <cstddef>

#include "folio/backend/cpu/bf16_product.h"
#include "folio/backend/cpu/kernels.h"
#include "folio/backend/cpu/linear_epilogue.h"
#include "folio/backend/cpu/linear_rows.h"
#include "folio/backend/cpu/matmul.h"
#include "folio/backend/cpu/stored_numbers.h"
#include "folio/backend/operands.h"
#include "folio/base/simd_targets.h"
#include "folio/base/thread_pool.h"

namespace folio::cpu {
namespace {

// ---- float32 -----------------------------------------------------------------------------------

// A tile of `out`, which already holds the sums.
ResultBlock BlockOf(const MatMulTile& tile, const Tensor& out) {
  const int64_t stride = out.dim(1);
  const float* sums = out.data<float>() + tile.row * stride + tile.column;
  return {tile.row, tile.rows, tile.column, tile.columns, sums, stride};
}

// Columns [begin, begin + columns) of the result: `weight` is (I,columns), or (columns,I).
void RunColumns(const LinearForward& op, const float* x, const float* weight, int64_t begin,
                int64_t columns, float* memory) {
  const int64_t N = op.x.dim(0), I = op.x.dim(1), O = op.out.dim(1);
  const MatMulArgs product{.M = N,
                           .N = columns,
                           .K = I,
                           .a = x,
                           .lda = I,
                           .b = weight,
                           .ldb = op.transposed ? I : columns,
                           .transpose_b = op.transposed,
                           .c = op.out.data<float>() + begin,
                           .ldc = O,
                           .beta = op.accumulate ? 1.0f : 0.0f};
  if (!op.bias && !op.act) return MatMul(product, memory);
  MatMul(product, memory, [&](MatMulTile tile) {
    tile.column += begin;
    StoreForward(BlockOf(tile, op.out), op);
  });
}

// For many rows and a weight that is not float32: decodes some columns of the result at a time.
void RunStored(const LinearForward& op, Scratch& scratch) {
  constexpr int64_t kColumns = 512;
  const Dtype dtype = op.weight.dtype();
  const int64_t I = op.x.dim(1), O = op.out.dim(1), width = std::min(O, kColumns);
  float* memory = scratch.Get<float>(MatMulFloats() + I * width + op.x.count());
  float* decoded = memory + MatMulFloats();
  const float* x = RoundedRows(op.x, EntersAs(op, "x"), decoded + I * width);
  for (int64_t begin = 0; begin < O; begin += width) {
    const int64_t columns = std::min(O - begin, width);
    ParallelRange(columns, TaskRows(I), [&](int64_t first, int64_t last, int) {
      DecodeStored(dtype, op.weight.raw() + DtypeBytes(dtype, (begin + first) * I),
                   (last - first) * I, decoded + first * I);
    });
    RunColumns(op, x, decoded, begin, columns, memory);
  }
}

void RunFloat(const LinearBackward& op, Scratch& scratch) {
  float* memory = scratch.Get<float>(MatMulFloats());
  const int64_t N = op.d_out.dim(0), O = op.d_out.dim(1), I = op.weight.dim(op.transposed ? 1 : 0);
  const float* d_out = op.d_out.data<float>();
  // forward: out = x weight + bias
  if (op.d_x) {
    const MatMulArgs product{.M = N,
                             .N = I,
                             .K = O,
                             .a = d_out,
                             .lda = O,
                             .b = op.weight.data<float>(),
                             .ldb = op.transposed ? I : O,
                             .transpose_b = !op.transposed,
                             .c = op.d_x.data<float>(),
                             .ldc = I,
                             .beta = op.accumulate_d_x ? 1.0f : 0.0f};
    MatMul(product, memory, [&](const MatMulTile& tile) {
      if (op.pre) StoreGradient(BlockOf(tile, op.d_x), op);
    });
  }
  if (op.d_weight) {
    const float* x = op.x.data<float>();
    const bool t = op.transposed;  // d_weight = d_out^T x, else x^T d_out
    MatMul({.M = t ? O : I,
            .N = t ? I : O,
            .K = N,
            .a = t ? d_out : x,
            .lda = t ? O : I,
            .transpose_a = true,
            .b = t ? x : d_out,
            .ldb = t ? I : O,
            .c = op.d_weight.data<float>(),
            .ldc = t ? I : O,
            .beta = op.accumulate_d_weight ? 1.0f : 0.0f},
           memory);
  }
  if (op.d_bias) AddColumnSums(op.d_out, op.d_bias.data<float>());
}

// ---- bfloat16 ----------------------------------------------------------------------------------

// Begin and length of a part of M, of N or of K.
struct Range {
  int64_t begin = 0, size = 0;
};

// One product c (M,N) = left (M,K) right (K,N): its division, by sizes alone, and its memory.
// Operands are packed and multiplied a panel at a time, so that packed data is read again while it
// is in a cache.
class Bf16Work {
 public:
  // A block's part of right and its sums fit a second-level cache, and there are enough blocks to
  // distribute evenly.
  Bf16Work(int64_t M, int64_t N, int64_t K, Scratch& scratch) : M_(M), N_(N), K_(K) {
    constexpr int64_t kPanelDepth = 8192, kBlockTiles = 16, kFewBlocks = 16, kFewTiles = 4;
    panel_depth_ = std::min(kPanelDepth, DepthTiles(K) * kTileDepth);
    panel_rows_ = PanelRows(M, panel_depth_);
    panel_columns_ = PanelRows(N, panel_depth_);
    block_rows_ = std::min(kBlockTiles, RowTiles(M));
    block_columns_ = std::min(kBlockTiles, RowTiles(N));
    const auto few = [&] { return Blocks({0, panel_rows_}, {0, panel_columns_}) < kFewBlocks; };
    while (few() && std::max(block_rows_, block_columns_) > kFewTiles) {
      int64_t& longer = block_columns_ >= block_rows_ ? block_columns_ : block_rows_;
      longer = CeilDiv(longer, 2);
    }
    const bool whole = panel_depth_ < K;
    const int64_t sums =
        whole ? RowTiles(M) * RowTiles(N) : block_rows_ * block_columns_ * Threads();
    const auto take = [&](ScratchParts parts) {
      left_ = parts.Take<BF16>(PackedElements(panel_rows_, panel_depth_));
      right_ = parts.Take<BF16>(PackedElements(panel_columns_, panel_depth_));
      sums_ = parts.Take<float>(sums * kTileRows * kTileRows);
      return parts.bytes();
    };
    take(ScratchParts(scratch.Get<std::byte>(take(ScratchParts(nullptr)))));
  }

  // Calls panel(rows, columns, depth) for each part, K outermost.
  template <class Panel>
  void ForEachPanel(const Panel& panel) const {
    ForEachRange(K_, panel_depth_, [&](const Range& depth) {
      ForEachRange(N_, panel_columns_, [&](const Range& columns) {
        ForEachRange(M_, panel_rows_, [&](const Range& rows) { panel(rows, columns, depth); });
      });
    });
  }

  bool first(const Range& depth) const { return depth.begin == 0; }
  bool last(const Range& depth) const { return depth.begin + depth.size == K_; }
  BF16* left() const { return left_; }
  BF16* right() const { return right_; }

  // The number of blocks of a panel, which threads share.
  int64_t Blocks(const Range& rows, const Range& columns) const {
    return CeilDiv(RowTiles(rows.size), block_rows_) *
           CeilDiv(RowTiles(columns.size), block_columns_);
  }

  // Sums block `task` of a packed panel, on the calling thread.
  ResultBlock Multiply(const Range& rows, const Range& columns, const Range& depth, int64_t task,
                       int thread) const {
    constexpr int64_t kDepth = 24;  // tiles multiplied at a time
    const int64_t across = CeilDiv(RowTiles(columns.size), block_columns_);
    const int64_t row = task / across * block_rows_, column = task % across * block_columns_;
    const int64_t tiles = DepthTiles(depth.size), stride = tiles * kTileElements;
    const bool whole = panel_depth_ < K_;
    const int64_t c_stride = (whole ? RowTiles(N_) : block_columns_) * kTileRows;
    float* sums = whole ? sums_ + (rows.begin + row * kTileRows) * c_stride + columns.begin +
                              column * kTileRows
                        : sums_ + thread * block_rows_ * block_columns_ * kTileRows * kTileRows;
    PackedProduct product{.left_stride = stride,
                          .right_stride = stride,
                          .row_tiles = std::min(block_rows_, RowTiles(rows.size) - row),
                          .column_tiles = std::min(block_columns_, RowTiles(columns.size) - column),
                          .c = sums,
                          .c_stride = c_stride};
    const PackedMultiplier multiplier;
    for (int64_t k = 0; k < tiles; k += kDepth) {
      product.left = left_ + row * stride + k * kTileElements;
      product.right = right_ + column * stride + k * kTileElements;
      product.depth_tiles = std::min(kDepth, tiles - k);
      product.accumulate = k > 0 || !first(depth);
      multiplier.Run(product);
    }
    const int64_t r = row * kTileRows, c = column * kTileRows;
    return {rows.begin + r,
            std::min(block_rows_ * kTileRows, rows.size - r),
            columns.begin + c,
            std::min(block_columns_ * kTileRows, columns.size - c),
            sums,
            c_stride};
  }

 private:
  // Rows of a panel with this depth: at most 8 Mi elements.
  static int64_t PanelRows(int64_t rows, int64_t depth) {
    constexpr int64_t kElements = int64_t{1} << 23, kStep = 4 * kTileRows;
    return std::min(CeilDiv(rows, kStep) * kStep,
                    std::max(kStep, kElements / depth / kStep * kStep));
  }

  template <class F>
  static void ForEachRange(int64_t size, int64_t step, const F& f) {
    for (int64_t begin = 0; begin < size; begin += step) f({begin, std::min(step, size - begin)});
  }

  int64_t M_, N_, K_;
  int64_t panel_rows_, panel_columns_, panel_depth_;  // multiples of a tile's sizes
  int64_t block_rows_, block_columns_;                // in tiles
  BF16 *left_, *right_;
  float* sums_;  // one block per thread, or all of c if K takes several panels
};

// The product on Threads() threads, for sizes of at least 1; calls use(const ResultBlock&) for each
// block of c once, on the thread that summed it, while it is in its cache. The order of sums
// depends on K alone.
template <class Left, class Right, class Use>
void Bf16MatMul(const MatrixView<Left>& left, const MatrixView<Right>& right, int64_t M, int64_t N,
                int64_t K, Scratch& scratch, Use&& use) {
  constexpr int64_t kRows = 4 * kTileRows;  // packed by one task
  const Bf16Work work(M, N, K, scratch);
  Range left_rows{-1}, left_depth{-1}, right_columns{-1}, right_depth{-1};  // packed last
  work.ForEachPanel([&](const Range& rows, const Range& columns, const Range& depth) {
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
      const ResultBlock block = work.Multiply(rows, columns, depth, task, thread);
      if (work.last(depth)) use(block);
    });
  });
}

template <class X, class Weight>
void RunProduct(const LinearForward& op, Scratch& scratch) {
  const int64_t N = op.x.dim(0), I = op.x.dim(1), O = op.out.dim(1);
  Bf16MatMul(MatrixView<X>{op.x.data<X>(), I},
             MatrixView<Weight>{op.weight.data<Weight>(), op.transposed ? I : O, op.transposed}, N,
             O, I, scratch, [&](const ResultBlock& block) {
               op.accumulate ? StoreSums(block, op.out, true) : StoreForward(block, op);
             });
}

void RunBf16(const LinearBackward& op, Scratch& scratch) {
  const int64_t N = op.d_out.dim(0), O = op.d_out.dim(1), I = op.weight.dim(op.transposed ? 1 : 0);
  const BF16* d_out = op.d_out.data<BF16>();
  // forward: out = x weight + bias
  if (op.d_x) {
    const auto product = [&]<class T>(const T* weight) {
      Bf16MatMul(MatrixView<BF16>{d_out, O},
                 MatrixView<T>{weight, op.transposed ? I : O, !op.transposed}, N, I, O, scratch,
                 [&](const ResultBlock& block) {
                   op.pre ? StoreGradient(block, op) : StoreSums(block, op.d_x, op.accumulate_d_x);
                 });
    };
    op.weight.dtype() == Dtype::kBF16 ? product(op.weight.data<BF16>())
                                      : product(op.weight.data<float>());
  }
  if (op.d_weight) {
    const MatrixView<BF16> x{op.x.data<BF16>(), I}, d{d_out, O};
    const auto& left = op.transposed ? d : x;  // d_weight = d_out^T x, else x^T d_out
    const auto& right = op.transposed ? x : d;
    Bf16MatMul(MatrixView<BF16>{left.data, left.stride, true}, right, left.stride, right.stride, N,
               scratch, [&](const ResultBlock& block) {
                 StoreSums(block, op.d_weight, op.accumulate_d_weight);
               });
  }
  if (op.d_bias) AddColumnSums(op.d_out, op.d_bias.data<float>());
}

}  // namespace

void Run(const LinearForward& op, Scratch& scratch) {
  if (RunsByRows(op)) return RunLinearRows(op, scratch);
  const bool stored = op.weight.dtype() == Dtype::kBF16 && Bf16UnitIsFast();
  if (op.x.dtype() == Dtype::kBF16) {
    return op.weight.dtype() == Dtype::kBF16 ? RunProduct<BF16, BF16>(op, scratch)
                                             : RunProduct<BF16, float>(op, scratch);
  }
  if (stored) return RunProduct<float, BF16>(op, scratch);
  if (op.weight.dtype() != Dtype::kF32) return RunStored(op, scratch);
  RunColumns(op, op.x.data<float>(), op.weight.data<float>(), 0, op.out.dim(1),
             scratch.Get<float>(MatMulFloats()));
}

void Run(const LinearBackward& op, Scratch& scratch) {
  op.d_out.dtype() == Dtype::kBF16 ? RunBf16(op, scratch) : RunFloat(op, scratch);
}

}  // namespace folio::cpu
