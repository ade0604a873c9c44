#include "folio/backend/cpu/attention_moves.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "folio/base/test_simd_targets.h"

namespace folio::cpu {
namespace {

class AttentionMoves : public OnSimdTarget {};

// Both orders of blocks, as either stride may be the larger, and what is left of them at each edge.
TEST_P(AttentionMoves, TransposeMovesEveryNumberAndNoOther) {
  for (const int64_t rows : {1, 3, 4, 7, 16, 23, 36, 64}) {
    for (const int64_t columns : {1, 2, 4, 5, 16, 21, 64}) {
      for (const int64_t gap : {0, 3, 70}) {
        const int64_t stride = columns + gap, to_stride = rows + 5;
        std::vector<float> x(static_cast<size_t>(rows * stride));
        for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i + 1);
        std::vector<float> to(static_cast<size_t>(columns * to_stride));
        Transpose(x.data(), stride, rows, columns, to.data(), to_stride);
        for (int64_t c = 0; c < columns; ++c) {
          for (int64_t r = 0; r < to_stride; ++r) {
            const float want = r < rows ? x[static_cast<size_t>(r * stride + c)] : 0.0f;
            ASSERT_EQ(to[static_cast<size_t>(c * to_stride + r)], want)
                << rows << " x " << columns << " at " << r << ", " << c;
          }
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(, AttentionMoves, EverySimdTarget(), SimdTargetName);

}  // namespace
}  // namespace folio::cpu
