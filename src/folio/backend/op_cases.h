#pragma once

// Operations on random operands of awkward sizes, for tests that hold for every backend.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "folio/backend/ops.h"

namespace folio {

using AnyOp =
    std::variant<EmbeddingForward, EmbeddingBackward, LayerNormForward, LayerNormBackward,
                 LinearForward, LinearBackward, ActivationForward, ActivationBackward,
                 AttentionForward, AttentionBackward, AttentionScoresForward,
                 AttentionScoresBackward, MaskForward, SoftmaxForward, SoftmaxBackward,
                 NormalizeForward, NormalizeBackward, AttentionContextForward,
                 AttentionContextBackward, ResidualForward, ResidualBackward, CrossEntropyForward,
                 CrossEntropyBackward, AdamWUpdate, SumOfSquares, Fill>;

// Owns the operands of one operation. Bytes around each array, and between the rows of a Wide one,
// are set to 0xFF, which is NaN in every number type; so is what the operation has to write.
class OpMemory {
 public:
  // Arrays start at a 64-byte boundary, or one element past it if misaligned.
  OpMemory(Dtype number, bool misaligned) : number_(number), misaligned_(misaligned) {}

  Dtype number() const { return number_; }

  // Normal numbers times `scale`, exact in float32; the same for the same sequence of calls.
  Tensor Random(Shape shape, double scale = 1);
  Tensor Unset(Shape shape) { return Allocate(number_, shape); }
  Tensor Unset(Dtype dtype, Shape shape) { return Allocate(dtype, shape); }
  // Uniform in [0, limit); about a quarter is -1 instead if `ignore`.
  Tensor Integers(Shape shape, int64_t limit, bool ignore = false);
  Tensor Mask(Shape shape);  // 0 or 1
  // (B,T,C) with `gap` elements after each row and `spare` rows after each sequence, unset.
  SequenceView Wide(int64_t B, int64_t T, int64_t C, int64_t gap, int64_t spare);

  void Set(const Tensor& x, int64_t i, double value);
  void Randomize(const SequenceView& x);

  // Whether nothing was written outside the arrays.
  bool GuardsIntact() const;
  std::vector<std::byte> Bytes() const;  // of all arrays, one after the other

 private:
  struct Array {
    std::vector<std::byte> memory;
    std::vector<std::pair<size_t, size_t>> guards;  // begin and end, from the start of memory
  };
  Tensor Allocate(Dtype dtype, Shape shape);
  double Normal() { return Normal(draws_++); }
  double Normal(uint64_t index) const;

  Dtype number_;
  bool misaligned_;
  uint64_t draws_ = 0;
  std::deque<Array> arrays_;
};

struct OpCase {
  std::string op;    // kName
  std::string name;  // sizes and options
  std::function<AnyOp(OpMemory&)> make;
};

std::vector<OpCase> OpCases();

}  // namespace folio
