#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

#include "folio/backend/ops.h"
#include "folio/tensor/dtype.h"
#include "folio/tensor/tensor.h"

namespace folio {

// An element of an operand as double.
inline double ToDouble(BF16 x) {
  return static_cast<double>(ToFloat(x));
}
template <class T>
double ToDouble(T x) {
  return static_cast<double>(x);
}

// One operand of an operation, of either kind, for code that treats all operations alike.
struct Operand {
  std::string_view name;
  Access access;
  std::variant<Tensor, SequenceView> view;

  Dtype dtype() const;
  const std::byte* data() const;
  int64_t count() const;
  size_t bytes() const { return DtypeBytes(dtype(), count()); }
  int64_t largest_dimension() const;
  // Elements are in row-major order. REQUIRES: F32, BF16, blocks, F64, I32 or U8.
  std::vector<double> Elements() const;
};

// The operands that are present, in the order of operands().
template <class Op>
std::vector<Operand> Operands(const Op& op) {
  std::vector<Operand> operands;
  VisitOperands(op, [&](std::string_view name, const auto& x, Access access) {
    if (x) operands.push_back({name, access, x});
  });
  return operands;
}

// VisitOperands with mutable references: f(name, Tensor& or SequenceView&, Access).
template <class Op, class F>
void VisitMutable(Op& op, F&& f) {
  static_assert(!std::is_const_v<Op>);
  // op is not const, so the constness that operands() adds may be removed.
  VisitOperands(op, [&](std::string_view name, const auto& x, Access access) {
    f(name, const_cast<std::decay_t<decltype(x)>&>(x), access);
  });
}

// How numbers of a float32 operand are rounded as they enter an operation.
enum class Rounding : uint8_t { kNone, kBF16, kBlockFloat };

// Rounds each number, or each 32 together (BlockFloat in ops.h). REQUIRES: then whole blocks.
void RoundNumbers(Rounding rounding, std::span<float> numbers);

// How the operand `name` is rounded.
template <class Op>
Rounding EntersAs(const Op&, std::string_view) {
  return Rounding::kNone;
}
inline Rounding EntersAs(const LinearForward& op, std::string_view name) {
  const bool low = op.x.dtype() == Dtype::kBF16;
  if (low && name == "weight" && op.weight.dtype() != Dtype::kBF16) return Rounding::kBF16;
  if (low || name != "x") return Rounding::kNone;
  if (op.weight.dtype() == Dtype::kBF16) return Rounding::kBF16;
  return IsBlocked(op.weight.dtype()) ? Rounding::kBlockFloat : Rounding::kNone;
}
inline Rounding EntersAs(const LinearBackward& op, std::string_view name) {
  const bool low = op.d_out.dtype() == Dtype::kBF16 && op.weight.dtype() != Dtype::kBF16;
  return low && name == "weight" ? Rounding::kBF16 : Rounding::kNone;
}

}  // namespace folio
