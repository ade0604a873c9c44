#include "folio/backend/cpu/linear_blocks.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>
#include <tuple>

#include "folio/backend/cpu/linear_blocks_x86.h"
#include "folio/backend/ops.h"
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
  constexpr int64_t kBlock = BlockedRows::kBlock, kSums = BlockedRows::kSums;
  const auto block_bytes = static_cast<int64_t>(DtypeBytes(dtype, kBlock));
  int32_t w[kBlock];
  for (int64_t r = 0; r < rows; ++r, weight += x.blocks * block_bytes) {
    float sums[LinearForward::kFewRows][kSums] = {};
    for (int64_t b = 0; b < x.blocks; ++b) {
      const std::byte* block = weight + b * block_bytes;
      const float scale = ScaleAt(block);
      Unpack(block, dtype, w);
      for (int64_t n = 0; n < x.rows; ++n) {
        const int8_t* numbers = x.numbers + (n * x.blocks + b) * kBlock;
        int32_t sum = 0;
        for (int64_t i = 0; i < kBlock; ++i) sum += w[i] * numbers[i];
        float& to = sums[n][b % kSums];
        to = std::fma(scale * x.scales[n * x.scale_stride + b], static_cast<float>(sum), to);
      }
    }
    for (int64_t n = 0; n < x.rows; ++n) {
      out[n * stride + r] = (sums[n][0] + sums[n][1]) + (sums[n][2] + sums[n][3]);
    }
  }
}

BlockKernel KernelFor(Dtype dtype) {
  if (const BlockKernel kernel = X86BlockKernel(dtype)) return kernel;
  return dtype == Dtype::kQ8_0 ? PlainKernel<Dtype::kQ8_0> : PlainKernel<Dtype::kQ4_0>;
}

}  // namespace

BlockedRows::BlockedRows(const Tensor& x, Dtype weight, Scratch& scratch)
    : rows(x.dim(0)),
      blocks(x.dim(1) / BlockedRows::kBlock),
      scale_stride((blocks + kSums - 1) / kSums * kSums) {
  constexpr int64_t kBytes = BlockedRows::kScaleBytes + BlockedRows::kBlock;
  const int64_t all = rows * blocks;
  const auto place = [&](ScratchParts parts) {
    int8_t* to = parts.Take<int8_t>(all * BlockedRows::kBlock);
    float* scale = parts.Take<float>(rows * scale_stride);
    int32_t* correction = parts.Take<int32_t>(all * BlockedRows::kBlock / 4);
    std::byte* encoded = parts.Take<std::byte>(all * kBytes);
    return std::tuple(to, scale, correction, encoded, parts.bytes());
  };
  const int64_t bytes = std::get<4>(place(ScratchParts(nullptr)));
  const auto [to, scale, correction, encoded, unused] =
      place(ScratchParts(scratch.Get<std::byte>(bytes)));
  EncodeFloats({x.data<float>(), static_cast<size_t>(x.count())}, Dtype::kQ8_0, encoded);
  std::fill_n(scale, rows * scale_stride, 0.0f);
  const int32_t offset = weight == Dtype::kQ8_0 ? -128 : -8;
  for (int64_t b = 0; b < all; ++b) {
    const std::byte* from = encoded + b * kBytes;
    scale[b / blocks * scale_stride + b % blocks] = ScaleAt(from);
    std::memcpy(to + b * BlockedRows::kBlock, from + BlockedRows::kScaleBytes, BlockedRows::kBlock);
    for (int64_t i = 0; i < BlockedRows::kBlock; i += 4) {
      const int8_t* four = to + b * BlockedRows::kBlock + i;
      correction[(b * BlockedRows::kBlock + i) / 4] =
          offset * (four[0] + four[1] + four[2] + four[3]);
    }
  }
  numbers = to;
  scales = scale;
  corrections = correction;
}

void BlockedRows::Multiply(const Tensor& weight, int64_t begin, int64_t end,
                           const Tensor& out) const {
  const Tensor part = weight.Slice(begin, end);
  KernelFor(weight.dtype())(*this, part.raw(), end - begin, out.data<float>() + begin, out.dim(1));
}

}  // namespace folio::cpu
