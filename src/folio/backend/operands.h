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

// An element of an operand, in the type that holds those of each.
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

// VisitOperands with references that may be assigned to: f(name, Tensor& or SequenceView&, Access).
template <class Op, class F>
void VisitMutable(Op& op, F&& f) {
  static_assert(!std::is_const_v<Op>);
  // op is not const, so the constness that operands() adds may be taken off again.
  VisitOperands(op, [&](std::string_view name, const auto& x, Access access) {
    f(name, const_cast<std::decay_t<decltype(x)>&>(x), access);
  });
}

// How numbers of a float32 operand are rounded as they enter an operation.
enum class Rounding : uint8_t { kNone, kBF16, kBlockFloat };

// RoundNumbers rounds each number, or each 32 of them together (BlockFloat in ops.h). REQUIRES:
// then whole blocks.
void RoundNumbers(Rounding rounding, std::span<float> numbers);

// EntersAs says how the operand `name` is rounded.
template <class Op>
Rounding EntersAs(const Op&, std::string_view) {
  return Rounding::kNone;
}
inline Rounding EntersAs(const LinearForward& op, std::string_view name) {
  if (name == "weight" && op.x.dtype() == Dtype::kBF16) return Rounding::kBF16;
  if (name != "x") return Rounding::kNone;
  if (op.weight.dtype() == Dtype::kBF16) return Rounding::kBF16;
  return IsBlocked(op.weight.dtype()) ? Rounding::kBlockFloat : Rounding::kNone;
}
inline Rounding EntersAs(const LinearBackward& op, std::string_view name) {
  return name == "weight" && op.d_out.dtype() == Dtype::kBF16 ? Rounding::kBF16 : Rounding::kNone;
}

// The Check functions of the operations are made of these functions. Each check aborts with the
// operation's and the operand's name.
// The dtype of the operand that decides it for the whole operation: F32 or F64.
Dtype NumberDtype(std::string_view op, std::string_view name, const Tensor& x);

// The same of a weight that is marked "stored".
Dtype StoredDtype(std::string_view op, std::string_view name, const Tensor& x);

// The dtype of an operand that is marked Low, in an operation on `number`s.
Dtype LowDtype(std::string_view op, std::string_view name, Dtype dtype, Dtype number);

void CheckOperand(std::string_view op, std::string_view name, const Tensor& x, Dtype dtype,
                  const Shape& shape);
// CheckOptional does as CheckOperand, if x is there at all.
void CheckOptional(std::string_view op, std::string_view name, const Tensor& x, Dtype dtype,
                   const Shape& shape);
void CheckRank(std::string_view op, std::string_view name, const Tensor& x, int rank);
void CheckSequence(std::string_view op, std::string_view name, const SequenceView& x, Dtype dtype,
                   int64_t B, int64_t T, int64_t C);
void CheckDropout(std::string_view op, const Dropout& dropout);

bool Overlap(const Tensor& a, const Tensor& b);
[[noreturn]] void FailOverlap(std::string_view op, std::string_view name, std::string_view other);

// No written Tensor shares memory with another operand, except `written` being exactly one of
// `may_be`. Sequence views interleave by design and are not looked at.
template <class Op>
void CheckOverlap(const Op& op, std::string_view written = {},
                  std::initializer_list<std::string_view> may_be = {}) {
  VisitOperands(op, [&](std::string_view name, const auto& x, Access access) {
    if constexpr (std::is_same_v<std::decay_t<decltype(x)>, Tensor>) {
      if (access == Access::kRead) return;
      VisitOperands(op, [&](std::string_view other_name, const auto& other, Access) {
        if constexpr (std::is_same_v<std::decay_t<decltype(other)>, Tensor>) {
          if (name == other_name || !Overlap(x, other)) return;
          const bool allowed =
              x.raw() == other.raw() &&
              ((name == written && std::count(may_be.begin(), may_be.end(), other_name) > 0) ||
               (other_name == written && std::count(may_be.begin(), may_be.end(), name) > 0));
          if (!allowed) FailOverlap(Op::kName, name, other_name);
        }
      });
    }
  });
}

}  // namespace folio
