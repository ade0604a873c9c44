#include "folio/backend/cpu/matmul.h"

#include <algorithm>
#include <array>

namespace folio::cpu {
namespace {

// Cost of a cut in multiply-adds. A tile costs packing its operands, writing its result, and the
// call itself; tiles run in rounds of one per thread.
double CutCost(const MatMulCut& cut, int64_t K) {
  constexpr double kPerElement = 12, kPerCall = 1e5;
  const double m = static_cast<double>(cut.rows), n = static_cast<double>(cut.columns);
  const double k = static_cast<double>(K);
  const double tile = m * n * k + kPerElement * (k * (m + n) + m * n) + kPerCall;
  return static_cast<double>(CeilDiv(cut.tiles(), Threads())) * tile;
}

}  // namespace

MatMulCut CutMatMul(int64_t M, int64_t N, int64_t K) {
  constexpr std::array<int64_t, 6> kRows = {32, 64, 96, 128, 192, kMaxProductRows};
  constexpr int64_t kMaxColumns = 1024, kStep = 64, kTries = 16;
  MatMulCut best;
  double best_cost = 0;
  for (const int64_t rows : kRows) {
    const int64_t fewest = CeilDiv(N, kMaxColumns);
    for (int64_t tiles = fewest; tiles < fewest + kTries; ++tiles) {
      const int64_t columns = CeilDiv(CeilDiv(N, tiles), kStep) * kStep;
      MatMulCut cut{.rows = std::min(rows, M), .columns = std::min(columns, N)};
      cut.row_tiles = CeilDiv(M, cut.rows);
      cut.column_tiles = CeilDiv(N, cut.columns);
      const double cost = CutCost(cut, K);
      if (best.rows == 0 || cost < best_cost) best = cut, best_cost = cost;
      if (columns == kStep) break;
    }
    if (rows >= M) break;
  }
  return best;
}

MatMulTile TileOf(const MatMulCut& cut, int64_t M, int64_t N, int64_t index) {
  MatMulTile tile;
  tile.row = index % cut.row_tiles * cut.rows;
  tile.rows = std::min(cut.rows, M - tile.row);
  tile.column = index / cut.row_tiles * cut.columns;
  tile.columns = std::min(cut.columns, N - tile.column);
  return tile;
}

void RunTile(const MatMulArgs& args, const MatMulTile& tile, float* packed_a) {
  MatMulArgs part = args;
  part.M = tile.rows;
  part.N = tile.columns;
  part.a += args.transpose_a ? tile.row : tile.row * args.lda;
  part.b += args.transpose_b ? tile.column * args.ldb : tile.column;
  part.c += tile.row * args.ldc + tile.column;
  FloatProduct(part, packed_a);
}

}  // namespace folio::cpu
