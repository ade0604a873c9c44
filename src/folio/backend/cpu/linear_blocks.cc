#include "folio/backend/cpu/linear_blocks.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <tuple>

#include "folio/backend/cpu/kernels.h"
#include "folio/backend/cpu/linear_blocks_x86.h"
#include "folio/backend/cpu/stored_numbers.h"
#include "folio/backend/ops.h"
#include "folio/base/thread_pool.h"
#include "folio/tensor/convert.h"

namespace folio::cpu {
namespace {

float ScaleAt(const std::byte* block) {
  float scale = 0;
  DecodeFloats(block, Dtype::kF16, std::span(&scale, 1));
  return scale;
}

// The integers of a block.
void Unpack(const std::byte* block, Dtype dtype, int32_t* out) {
  const std::byte* at = block + BlockedRows::kScaleBytes;
  for (int64_t i = 0; i < BlockedRows::kBlock; ++i) {
    if (dtype == Dtype::kQ8_0) {
      out[i] = static_cast<int8_t>(at[i]);
    } else {
      const int pair = std::to_integer<int>(at[i % (BlockedRows::kBlock / 2)]);
      out[i] = (i < BlockedRows::kBlock / 2 ? pair & 15 : pair >> 4) - 8;
    }
  }
}

// PlainKernel runs on any machine.
template <Dtype dtype>
void PlainKernel(const BlockedRows& x, const std::byte* weight, int64_t rows, float* out,
                 int64_t stride) {
  constexpr int64_t kBlock = BlockedRows::kBlock, kFours = kBlock / 4;
  const auto block_bytes = static_cast<int64_t>(DtypeBytes(dtype, kBlock));
  int32_t w[kBlock];
  for (int64_t r = 0; r < rows; ++r, weight += x.blocks * block_bytes) {
    float sums[LinearForward::kFewRows][2][kFours] = {};
    for (int64_t b = 0; b < x.blocks; ++b) {
      const std::byte* block = weight + b * block_bytes;
      const float scale = ScaleAt(block);
      Unpack(block, dtype, w);
      for (int64_t n = 0; n < x.rows; ++n) {
        const int8_t* numbers = x.numbers + (n * x.stride + b) * kBlock;
        const float product = scale * x.scales[n * x.stride + b];
        for (int64_t i = 0; i < kBlock; i += 4) {
          const int32_t four = w[i] * numbers[i] + w[i + 1] * numbers[i + 1] +
                               w[i + 2] * numbers[i + 2] + w[i + 3] * numbers[i + 3];
          float& to = sums[n][b % 2][i / 4];
          to = std::fma(product, static_cast<float>(four), to);
        }
      }
    }
    for (int64_t n = 0; n < x.rows; ++n) {
      float fours[kFours / 2];
      for (int64_t i = 0; i < kFours / 2; ++i) {
        fours[i] = (sums[n][0][i] + sums[n][1][i]) +
                   (sums[n][0][i + kFours / 2] + sums[n][1][i + kFours / 2]);
      }
      out[n * stride + r] = (fours[0] + fours[1]) + (fours[2] + fours[3]);
    }
  }
}

BlockKernel KernelFor(Dtype dtype, bool one) {
  if (const BlockKernel kernel = X86BlockKernel(dtype, one)) return kernel;
  return dtype == Dtype::kQ8_0 ? PlainKernel<Dtype::kQ8_0> : PlainKernel<Dtype::kQ4_0>;
}

}  // namespace

BlockedRows::BlockedRows(const Tensor& x, Dtype weight, Scratch& scratch)
    : rows(x.dim(0)), blocks(x.dim(1) / kBlock), stride(CeilDiv(blocks, kGroup) * kGroup) {
  const int64_t all = rows * stride;
  const auto place = [&](ScratchParts parts) {
    int8_t* to = parts.Take<int8_t>(all * kBlock);
    float* scale = parts.Take<float>(all);
    int32_t* correction = parts.Take<int32_t>(all * kBlock / 4);
    return std::tuple(to, scale, correction, parts.bytes());
  };
  const int64_t bytes = std::get<3>(place(ScratchParts(nullptr)));
  const auto [to, scale, correction, unused] = place(ScratchParts(scratch.Get<std::byte>(bytes)));
  const int32_t offset = weight == Dtype::kQ8_0 ? -128 : -8;
  const auto round = [&, to = to, scale = scale, correction = correction](int64_t begin,
                                                                          int64_t end, int) {
    for (int64_t n = begin; n < end; ++n) {
      RoundToBlocks(x.data<float>() + n * blocks * kBlock, blocks, to + n * stride * kBlock,
                    scale + n * stride);
      std::fill_n(to + (n * stride + blocks) * kBlock, (stride - blocks) * kBlock, int8_t{0});
      std::fill_n(scale + n * stride + blocks, stride - blocks, 0.0f);
    }
    for (int64_t i = begin * stride * kBlock; i < end * stride * kBlock; i += 4) {
      const int8_t* four = to + i;
      correction[i / 4] = offset * (four[0] + four[1] + four[2] + four[3]);
    }
  };
  ParallelRange(rows, TaskRows(x.dim(1)), round);
  numbers = to;
  scales = scale;
  corrections = correction;
}

bool BlockedRows::MayBeMany() {
  return X86TakesAnyRows();
}

void BlockedRows::Multiply(const Tensor& weight, int64_t begin, int64_t end,
                           const Tensor& out) const {
  const Tensor part = weight.Slice(begin, end);
  KernelFor(weight.dtype(), rows == 1)(*this, part.raw(), end - begin, out.data<float>() + begin,
                                       out.dim(1));
}

}  // namespace folio::cpu
