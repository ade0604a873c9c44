#pragma once

// Operations on random operands of awkward sizes, for tests of all backends.

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "folio/backend/operands.h"
#include "folio/backend/ops.h"

namespace folio {

namespace internal {
template <class... Ops>
std::variant<Ops...> VariantOf(OperationList<Ops...>);
}  // namespace internal
using AnyOp = decltype(internal::VariantOf(Operations()));

// Owns the operands of one operation. Operands that it must write are 0xFF, which is NaN in every
// number type. Bytes around each array, and between the rows of a Wide one, are the same, or
// numbers if misaligned: what is added to a NaN leaves no trace.
class OpMemory {
 public:
  // Arrays begin at a 64-byte boundary, or one element after it if misaligned. `half` is the dtype
  // of operands marked Low.
  OpMemory(Dtype number, Dtype half, bool misaligned)
      : number_(number),
        half_(half),
        misaligned_(misaligned),
        guard_{misaligned ? std::byte{0x3F} : std::byte{0xFF}} {}
  OpMemory(Dtype number, bool misaligned) : OpMemory(number, number, misaligned) {}

  Dtype number() const { return number_; }
  Dtype half() const { return half_; }

  // Normal numbers times `scale`, exact in float32 or, with that dtype, in bfloat16; the same for
  // the same sequence of calls.
  Tensor Random(Dtype dtype, Shape shape, double scale = 1);
  Tensor Random(Shape shape, double scale = 1) { return Random(number_, shape, scale); }
  Tensor RandomLow(Shape shape, double scale = 1) { return Random(half_, shape, scale); }
  Tensor Unset(Dtype dtype, Shape shape) { return Allocate(dtype, shape); }
  Tensor Unset(Shape shape) { return Allocate(number_, shape); }
  Tensor UnsetLow(Shape shape) { return Allocate(half_, shape); }
  // Integers are uniform in [0, limit); about a quarter is -1 instead if `ignore`.
  Tensor Integers(Shape shape, int64_t limit, bool ignore = false);
  Tensor Mask(Shape shape);  // 0 or 1
  // (B,T,C) with `gap` elements after each row and `spare` rows after each sequence, unset.
  SequenceView Wide(Dtype dtype, int64_t B, int64_t T, int64_t C, int64_t gap, int64_t spare);
  SequenceView Wide(int64_t B, int64_t T, int64_t C, int64_t gap, int64_t spare) {
    return Wide(number_, B, T, C, gap, spare);
  }
  SequenceView WideLow(int64_t B, int64_t T, int64_t C, int64_t gap, int64_t spare) {
    return Wide(half_, B, T, C, gap, spare);
  }

  // Sets element i, in row-major order.
  void Set(const Tensor& x, int64_t i, double value);
  void Set(const SequenceView& x, int64_t i, double value);
  void Randomize(const SequenceView& x);

  // Returns true if nothing was written outside of the arrays.
  bool GuardsIntact() const;
  std::vector<std::byte> Bytes() const;  // of all arrays, in order

 private:
  struct Array {
    std::vector<std::byte> memory;
    std::vector<std::pair<size_t, size_t>> guards;  // begin and end, from the start of memory
  };
  Tensor Allocate(Dtype dtype, Shape shape);
  double Normal() { return Normal(draws_++); }
  static double Normal(uint64_t index);

  Dtype number_, half_;
  bool misaligned_;
  std::byte guard_;
  uint64_t draws_ = 0;
  std::deque<Array> arrays_;
};

struct OpCase {
  std::string op;    // kName
  std::string name;  // sizes and options
  std::function<AnyOp(OpMemory&)> make;
  // `plain`: the case applies if half is number; `bf16`: it applies if half is bfloat16.
  bool plain = true, bf16 = true;
};

std::vector<OpCase> OpCases();

// The numbers of a tensor or a SequenceView, in row-major order, whatever the dtype.
template <class View>
std::vector<double> Values(const View& x) {
  return Operand{.name = {}, .access = Access::kRead, .view = x}.Elements();
}

// The backward of a forward that was run, without the gradients.
inline AttentionBackward BackwardOf(const AttentionForward& forward) {
  AttentionBackward op;
  op.q = forward.q;
  op.k = forward.k;
  op.v = forward.v;
  op.key_mask = forward.key_mask;
  op.mask = forward.mask;
  op.out = forward.out;
  op.lse = forward.lse;
  op.H = forward.H;
  op.G = forward.G;
  op.scale = forward.scale;
  op.cap = forward.cap;
  op.causal = forward.causal;
  op.window = forward.window;
  op.dropout = forward.dropout;
  return op;
}

// x in another array of `dtype`; elements that x has not set stay NaN.
inline Tensor Converted(OpMemory& memory, const Tensor& x, Dtype dtype) {
  const Tensor copy = memory.Unset(dtype, x.shape());
  const std::vector<double> numbers = Values(x);
  for (int64_t i = 0; i < x.count(); ++i) memory.Set(copy, i, numbers[static_cast<size_t>(i)]);
  return copy;
}

// Expects `actual` to equal the float32 array `expected`, rounded if `actual` is bfloat16, bit for
// bit except for the kind of NaN.
template <class View, class Twin>
void ExpectTwin(std::string_view name, const View& expected, const Twin& actual) {
  const bool rounded = Operand{name, Access::kRead, actual}.dtype() == Dtype::kBF16;
  const std::vector<double> exact = Values(expected), found = Values(actual);
  ASSERT_EQ(exact.size(), found.size());
  for (size_t i = 0; i < exact.size(); ++i) {
    const double want = rounded ? ToFloat(ToBF16(static_cast<float>(exact[i]))) : exact[i];
    if (std::isnan(want) && std::isnan(found[i])) continue;
    ASSERT_EQ(std::bit_cast<uint64_t>(want), std::bit_cast<uint64_t>(found[i]))
        << name << "[" << i << "]: " << found[i] << " instead of " << want << ", from " << exact[i];
  }
}

}  // namespace folio
