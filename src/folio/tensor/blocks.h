#pragma once

// The layout of the blocks in which ggml's quantised types store the numbers of a row.
// https://github.com/ggml-org/llama.cpp/wiki/Tensor-Encoding-Schemes

#include <cstddef>
#include <cstdint>

namespace folio {

// 32 consecutive numbers of a block. Number i is scale[i / 16] * q[i], plus least[i / 16] for types
// with minima, each operation rounded to float32.
struct BlockPart {
  static constexpr size_t kNumbers = 32;

  int8_t q[kNumbers];
  float scale[2], least[2];
};

struct BlockLayout {
  size_t scales;  // offset of the first binary16 number of a block; the others follow
  size_t count;   // how many binary16 numbers
  bool minima;
  void (*unpack)(const std::byte* block, size_t part, BlockPart& out);
  // Quantises a block. Returns false, with NaN for a scale, if that is impossible. Null for types
  // that folio only reads.
  bool (*encode)(const float* numbers, std::byte* block) = nullptr;
};

extern const BlockLayout kQ80, kQ40, kQ41, kQ50, kQ51, kQ2K, kQ3K, kQ4K, kQ5K, kQ6K, kIq4Nl;

}  // namespace folio
