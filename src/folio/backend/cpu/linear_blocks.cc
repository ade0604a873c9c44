#include "folio/backend/cpu/linear_blocks.h"

#include <cmath>
#include <cstring>
#include <span>
#include <tuple>

#include "folio/backend/cpu/linear_blocks_x86.h"
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

// On any machine.
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
  constexpr int64_t kBytes = kScaleBytes + kBlock;
  const int64_t all = rows * stride;
  const auto place = [&](ScratchParts parts) {
    int8_t* to = parts.Take<int8_t>(all * kBlock);
    float* scale = parts.Take<float>(all);
    int32_t* correction = parts.Take<int32_t>(all * kBlock / 4);
    std::byte* encoded = parts.Take<std::byte>(rows * blocks * kBytes);
    return std::tuple(to, scale, correction, encoded, parts.bytes());
  };
  const int64_t bytes = std::get<4>(place(ScratchParts(nullptr)));
  const auto [to, scale, correction, encoded, unused] =
      place(ScratchParts(scratch.Get<std::byte>(bytes)));
  EncodeFloats({x.data<float>(), static_cast<size_t>(x.count())}, Dtype::kQ8_0, encoded);
  const int32_t offset = weight == Dtype::kQ8_0 ? -128 : -8;
  const std::byte* from = encoded;
  for (int64_t b = 0; b < all; ++b) {
    int8_t* numbers_of = to + b * kBlock;
    if (b % stride < blocks) {
      scale[b] = ScaleAt(from);
      std::memcpy(numbers_of, from + kScaleBytes, kBlock);
      from += kBytes;
    } else {
      scale[b] = 0;
      std::memset(numbers_of, 0, kBlock);
    }
    for (int64_t i = 0; i < kBlock; i += 4) {
      const int8_t* four = numbers_of + i;
      correction[(b * kBlock + i) / 4] = offset * (four[0] + four[1] + four[2] + four[3]);
    }
  }
  numbers = to;
  scales = scale;
  corrections = correction;
}

void BlockedRows::Multiply(const Tensor& weight, int64_t begin, int64_t end,
                           const Tensor& out) const {
  const Tensor part = weight.Slice(begin, end);
  KernelFor(weight.dtype(), rows == 1)(*this, part.raw(), end - begin, out.data<float>() + begin,
                                       out.dim(1));
}

}  // namespace folio::cpu
