#pragma once

#include <cstdint>

#include "folio/base/thread_pool.h"

namespace folio::cpu {

// C = op(A) op(B) + beta * C, where op(A) is (M,K), op(B) is (K,N) and C is (M,N), all row-major
// float32 with the given row strides; op transposes if the flag says so. REQUIRES: M, N, K >= 1.
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

// The product of any size on the calling thread. The order of the sum in each element of C depends
// on K alone, whatever part of C a call covers: all targets with fused multiply-adds give the same
// bits. With beta 0, C is not read. C may not overlap A or B. `packed_a` has room for
// kPackedFloats; without it A is read in place, which is as good for small products. REQUIRES: M,
// N, K >= 1.
void FloatProduct(const MatMulArgs& args, float* packed_a = nullptr);

inline constexpr int64_t kMaxProductRows = 256;      // multiplied at a time
inline constexpr int64_t kPackedFloats = 344 * 384;  // rows of A, up to 384 of their columns

// How C is divided into tiles for threads, never along K.
struct MatMulCut {
  int64_t rows = 0, columns = 0;  // of a tile; the last ones may be smaller
  int64_t row_tiles = 0, column_tiles = 0;
  int64_t tiles() const { return row_tiles * column_tiles; }
};
MatMulCut CutMatMul(int64_t M, int64_t N, int64_t K);

// The place of a tile in C.
struct MatMulTile {
  int64_t row = 0, rows = 0, column = 0, columns = 0;
};
MatMulTile TileOf(const MatMulCut& cut, int64_t M, int64_t N, int64_t index);

// Computes one tile on the calling thread.
void RunTile(const MatMulArgs& args, const MatMulTile& tile, float* packed_a);

// Working memory of MatMul, a part for each of Threads() threads.
inline int64_t MatMulFloats() {
  return Threads() * kPackedFloats;
}

// The product on Threads() threads, which do not influence the result; `memory` has MatMulFloats().
// `epilogue(const MatMulTile&)` is called for each finished tile, on the thread that made it, while
// it is in that thread's cache.
template <class Epilogue>
void MatMul(const MatMulArgs& args, float* memory, Epilogue&& epilogue) {
  const MatMulCut cut = CutMatMul(args.M, args.N, args.K);
  ParallelFor(cut.tiles(), [&](int64_t index, int thread) {
    const MatMulTile tile = TileOf(cut, args.M, args.N, index);
    RunTile(args, tile, memory + thread * kPackedFloats);
    epilogue(tile);
  });
}
inline void MatMul(const MatMulArgs& args, float* memory) {
  MatMul(args, memory, [](const MatMulTile&) {});
}

}  // namespace folio::cpu
