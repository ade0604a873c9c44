#pragma once

#include <cstdint>
#include <string>

#include "folio/base/thread_pool.h"

namespace folio::cpu {

// C = op(A) op(B) + beta * C, where op(A) is (M,K), op(B) is (K,N) and C is (M,N), all
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
  float beta = 0;
};

// The whole product on the calling thread, by one of the two that follow. REQUIRES: called from
// within a ParallelFor, which keeps the library from starting threads of its own.
void MatMulOnThread(const MatMulArgs& args);

// The whole product on the calling thread, for operands that fit in the second-level cache: rows
// that are contiguous are read where they lie, so that little is paid before the first
// multiply-add. Every element of C is a sum in the order of K, whatever part of C a call covers.
// With beta 0, C is not read. C may not overlap A or B. SmallProduct needs nothing of the thread:
// signals may arrive, and OpenMP is not used. REQUIRES: M, N, K >= 1.
void SmallProduct(const MatMulArgs& args);

// oneDNN keeps the instruction set of its first product for the life of the process. It is given
// the target in use then; it serves that one from then on, and those that it cannot tell from it
// (all with AVX-512). Below SSE4, the least that it knows, it serves none but the machine's best.

// The whole product on the calling thread; false, with nothing done, for a target that oneDNN does
// not serve. REQUIRES: called from within a ParallelFor.
bool OneDnnProduct(const MatMulArgs& args);

// Name and version, and the target that it serves where that is not the one in use.
std::string OneDnnDescription();

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
