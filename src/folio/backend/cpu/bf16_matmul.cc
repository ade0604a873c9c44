#include "folio/backend/cpu/bf16_matmul.h"

#include <cstddef>

namespace folio::cpu {
namespace {

// Rows of a panel that is `depth` deep: of at most 8 Mi elements.
int64_t PanelRows(int64_t rows, int64_t depth) {
  constexpr int64_t kElements = int64_t{1} << 23, kStep = 4 * kTileRows;
  return std::min(CeilDiv(rows, kStep) * kStep, std::max(kStep, kElements / depth / kStep * kStep));
}

}  // namespace

// A block's part of right and its sums fit in a second-level cache, and there are enough blocks to
// share out evenly.
Bf16Work::Bf16Work(int64_t M, int64_t N, int64_t K, Scratch& scratch) : M_(M), N_(N), K_(K) {
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
  const int64_t sums = whole ? RowTiles(M) * RowTiles(N) : block_rows_ * block_columns_ * Threads();
  const auto take = [&](ScratchParts parts) {
    left_ = parts.Take<BF16>(PackedElements(panel_rows_, panel_depth_));
    right_ = parts.Take<BF16>(PackedElements(panel_columns_, panel_depth_));
    sums_ = parts.Take<float>(sums * kTileRows * kTileRows);
    return parts.bytes();
  };
  take(ScratchParts(scratch.Get<std::byte>(take(ScratchParts(nullptr)))));
}

int64_t Bf16Work::Blocks(const Bf16Range& rows, const Bf16Range& columns) const {
  return CeilDiv(RowTiles(rows.size), block_rows_) *
         CeilDiv(RowTiles(columns.size), block_columns_);
}

Bf16Block Bf16Work::Multiply(const Bf16Range& rows, const Bf16Range& columns,
                             const Bf16Range& depth, int64_t task, int thread) const {
  constexpr int64_t kDepth = 24;  // tiles that are multiplied at a time
  const int64_t across = CeilDiv(RowTiles(columns.size), block_columns_);
  const int64_t row = task / across * block_rows_, column = task % across * block_columns_;
  const int64_t tiles = DepthTiles(depth.size), stride = tiles * kTileElements;
  const bool whole = panel_depth_ < K_;
  const int64_t c_stride = (whole ? RowTiles(N_) : block_columns_) * kTileRows;
  float* sums =
      whole ? sums_ + (rows.begin + row * kTileRows) * c_stride + columns.begin + column * kTileRows
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
  const auto part = [](const Bf16Range& range, int64_t tile, int64_t tiles_there) -> Bf16Range {
    const int64_t at = tile * kTileRows;
    return {range.begin + at, std::min(tiles_there * kTileRows, range.size - at)};
  };
  return {.rows = part(rows, row, block_rows_),
          .columns = part(columns, column, block_columns_),
          .sums = sums,
          .stride = c_stride};
}

}  // namespace folio::cpu
