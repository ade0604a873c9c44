#include "folio/backend/cpu/matmul.h"

#include <algorithm>
#include <array>

#include "folio/backend/cpu/onednn.h"
#include "folio/backend/cpu/small_product.h"

namespace folio::cpu {
namespace {

// Cost of a cut in multiply-adds. A tile pays for packing its operands and writing its result
// (about 40 multiply-adds an element) and for the call itself; tiles run in rounds of kRound, a
// multiple of the number of cores on most machines.
double CutCost(const MatMulCut& cut, int64_t K) {
  constexpr double kPerElement = 40, kPerCall = 1e5;
  constexpr int64_t kRound = 4;
  const double m = static_cast<double>(cut.rows), n = static_cast<double>(cut.columns);
  const double k = static_cast<double>(K);
  const double tile = m * n * k + kPerElement * (k * (m + n) + m * n) + kPerCall;
  return static_cast<double>(CeilDiv(cut.tiles(), kRound)) * tile;
}

// IsSmall says whether SmallProduct is faster than oneDNN, as measured with operands that come from
// a third-level cache: oneDNN packs both of them, which is slow where B is transposed, and does not
// pay where few columns of C share what was packed. It wins where B does not stay in a second-level
// cache.
bool IsSmall(const MatMulArgs& args) {
  constexpr int64_t kMaxElements = 256 * 1024;  // of B
  if (args.K * args.N > kMaxElements) return false;
  if (args.transpose_b) return true;
  return args.N <= (args.transpose_a ? 64 : 128);
}

}  // namespace

void MatMulOnThread(const MatMulArgs& args) {
  if (IsSmall(args) || !OneDnnProduct(args)) SmallProduct(args);
}

MatMulCut CutMatMul(int64_t M, int64_t N, int64_t K) {
  constexpr std::array<int64_t, 6> kRows = {32, 64, 96, 128, 192, 256};
  constexpr std::array<int64_t, 8> kColumns = {64, 128, 192, 256, 384, 512, 768, 1024};
  MatMulCut best;
  double best_cost = 0;
  for (int64_t rows : kRows) {
    for (int64_t columns : kColumns) {
      MatMulCut cut{.rows = std::min(rows, M), .columns = std::min(columns, N)};
      cut.row_tiles = CeilDiv(M, cut.rows);
      cut.column_tiles = CeilDiv(N, cut.columns);
      const double cost = CutCost(cut, K);
      if (best.rows == 0 || cost < best_cost) best = cut, best_cost = cost;
      if (columns >= N) break;
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

void RunTile(const MatMulArgs& args, const MatMulTile& tile) {
  MatMulArgs part = args;
  part.M = tile.rows;
  part.N = tile.columns;
  part.a += args.transpose_a ? tile.row : tile.row * args.lda;
  part.b += args.transpose_b ? tile.column * args.ldb : tile.column;
  part.c += tile.row * args.ldc + tile.column;
  MatMulOnThread(part);
}

}  // namespace folio::cpu
