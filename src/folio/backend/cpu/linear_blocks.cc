#include "folio/backend/cpu/linear_blocks.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <span>
#include <tuple>
#include <vector>

#include "folio/backend/cpu/linear_blocks_x86.h"
#include "folio/backend/ops.h"
#include "folio/base/thread_pool.h"
#include "folio/tensor/convert.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "folio/backend/cpu/linear_blocks.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "folio/backend/cpu/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace folio::cpu::HWY_NAMESPACE {

// Writes a block's integers and returns their scale, as EncodeFloats does it, but for rounding
// that. NaN, and zeros, if a number is not finite.
float RoundBlock(const float* x, int8_t* out) {
  constexpr size_t kCount = BlockedRows::kBlock;
  const hn::CappedTag<float, kCount> d;
  const hn::RebindToSigned<decltype(d)> di;
  const hn::Rebind<int8_t, decltype(d)> d8;
  auto magnitude = hn::Zero(d);
  bool finite = true;
  for (size_t i = 0; i < kCount; i += hn::Lanes(d)) {
    const auto v = hn::Abs(LoadU(d, x + i));
    finite = finite && hn::AllTrue(d, hn::Le(v, hn::Set(d, std::numeric_limits<float>::max())));
    magnitude = hn::Max(magnitude, v);
  }
  if (!finite) {
    std::memset(out, 0, kCount);
    return std::numeric_limits<float>::quiet_NaN();
  }
  const float scale = MaxLane(d, magnitude) / 127, inverse = 1.0f / scale;
  const auto factor = hn::Set(d, inverse <= std::numeric_limits<float>::max() ? inverse : 0.0f);
  const auto half = hn::Set(d, 0.5f), one = hn::Set(d, 1.0f);
  for (size_t i = 0; i < kCount; i += hn::Lanes(d)) {
    const auto v = hn::Mul(LoadU(d, x + i), factor), whole = hn::Trunc(v);
    const auto away = hn::Ge(hn::Abs(hn::Sub(v, whole)), half);
    const auto nearest = hn::Add(whole, hn::IfThenElseZero(away, hn::CopySign(one, v)));
    hn::StoreU(hn::DemoteTo(d8, hn::ConvertTo(di, nearest)), d8, out + i);
  }
  return scale;
}

}  // namespace folio::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace folio::cpu {

HWY_EXPORT(RoundBlock);

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
  for (int64_t b = 0; b < all; ++b) {
    const int64_t n = b / stride, block = b % stride;
    int8_t* numbers_of = to + b * kBlock;
    if (block < blocks) {
      scale[b] = HWY_DYNAMIC_DISPATCH(RoundBlock)(x.data<float>() + (n * blocks + block) * kBlock,
                                                  numbers_of);
    } else {
      scale[b] = 0;
      std::memset(numbers_of, 0, kBlock);
    }
    for (int64_t i = 0; i < kBlock; i += 4) {
      const int8_t* four = numbers_of + i;
      correction[(b * kBlock + i) / 4] = offset * (four[0] + four[1] + four[2] + four[3]);
    }
  }
  // Scales are binary16 numbers; one beyond them makes what it is part of NaN.
  std::vector<std::byte> halves(static_cast<size_t>(all) * sizeof(uint16_t));
  const std::span<float> all_scales(scale, static_cast<size_t>(all));
  EncodeFloats(all_scales, Dtype::kF16, halves.data());
  DecodeFloats(halves.data(), Dtype::kF16, all_scales);
  for (float& value : all_scales) {
    if (std::isinf(value)) value = std::numeric_limits<float>::quiet_NaN();
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
#endif  // HWY_ONCE
