#pragma once

#include <cstdint>

#include "folio/base/thread_pool.h"

namespace folio::cpu {

// C = alpha * op(A) op(B) + beta * C, where op(A) is (M,K), op(B) is (K,N) and C is (M,N), all
// row-major float32 with the given distances between rows; op transposes where the flag says so.
// REQUIRES: M, N, K >= 1.
struct MatMulArgs {
  int64_t M = 0, N = 0, K = 0;
  const float* a = nullptr;
  int64_t lda = 0;
  bool transpose_a = false;
  const float* b = nullptr;
  int64_t ldb = 0;
  bool transpose_b = false;
  float* c = nullptr;
  int64_t ldc = 0;
  float alpha = 1;
  float beta = 0;
};

// The whole product on the calling thread. REQUIRES: called from within a ParallelFor, which keeps
// the library from starting threads of its own.
void MatMulOnThread(const MatMulArgs& args);

// A MatMulCut says how C is cut into tiles that threads share: by the sizes alone, and never along
// K, so that the result does not depend on the number of threads.
struct MatMulCut {
  int64_t rows = 0, columns = 0;  // of a tile; the last ones may be smaller
  int64_t row_tiles = 0, column_tiles = 0;
  int64_t tiles() const { return row_tiles * column_tiles; }
};
MatMulCut CutMatMul(int64_t M, int64_t N, int64_t K);

// A MatMulTile says where a tile lies in C.
struct MatMulTile {
  int64_t row = 0, rows = 0, column = 0, columns = 0;
};
MatMulTile TileOf(const MatMulCut& cut, int64_t M, int64_t N, int64_t index);

// Computes one tile on the calling thread, under MatMulOnThread's condition.
void RunTile(const MatMulArgs& args, const MatMulTile& tile);

// The product on Threads() threads. `epilogue(const MatMulTile&)` is called for each tile when it
// is done, on the thread that made it, while it is still in that thread's cache.
template <class Epilogue>
void MatMul(const MatMulArgs& args, Epilogue&& epilogue) {
  const MatMulCut cut = CutMatMul(args.M, args.N, args.K);
  ParallelFor(cut.tiles(), [&](int64_t index, int) {
    const MatMulTile tile = TileOf(cut, args.M, args.N, index);
    RunTile(args, tile);
    epilogue(tile);
  });
}
inline void MatMul(const MatMulArgs& args) {
  MatMul(args, [](const MatMulTile&) {});
}

}  // namespace folio::cpu
