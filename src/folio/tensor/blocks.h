#pragma once

// The blocks in which ggml's quantised types store the numbers of a row: what lies where in them.
// https://github.com/ggml-org/llama.cpp/wiki/Tensor-Encoding-Schemes

#include <cstddef>
#include <cstdint>

namespace folio {

// 32 consecutive numbers of a block. Number i is scale[i / 16] * q[i], or of a type that has
// minima that + least[i / 16], each operation rounded to float32.
struct BlockPart {
  static constexpr size_t kNumbers = 32;

  int8_t q[kNumbers];
  float scale[2], least[2];
};

struct BlockLayout {
  size_t scales;  // where the binary16 numbers of a block are, which follow each other
  size_t count;   // of these
  bool minima;
  void (*unpack)(const std::byte* block, size_t part, BlockPart& out);
  // Quantises a block. False if that cannot be done, with NaN for a scale then. Null where folio
  // only reads.
  bool (*encode)(const float* numbers, std::byte* block) = nullptr;
};

extern const BlockLayout kQ80, kQ40, kQ41, kQ50, kQ51, kQ2K, kQ3K, kQ4K, kQ5K, kQ6K, kIq4Nl;

}  // namespace folio
