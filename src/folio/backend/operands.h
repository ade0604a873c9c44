#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

#include "folio/backend/ops.h"
#include "folio/tensor/dtype.h"

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
  // Elements are in row-major order. REQUIRES: F32, BF16, Q8_0, Q4_0, F64, I32 or U8.
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

// EntersAs gives the dtype that the float32 operand `name` is rounded to as it enters the
// operation: F32 if it is not rounded.
template <class Op>
Dtype EntersAs(const Op&, std::string_view) {
  return Dtype::kF32;
}
inline Dtype EntersAs(const LinearForward& op, std::string_view name) {
  if (name == "weight" && op.x.dtype() == Dtype::kBF16) return Dtype::kBF16;
  if (name != "x" || !IsStored(op.weight.dtype())) return Dtype::kF32;
  return IsBlocked(op.weight.dtype()) ? Dtype::kQ8_0 : Dtype::kBF16;
}
inline Dtype EntersAs(const LinearBackward& op, std::string_view name) {
  return name == "weight" && op.d_out.dtype() == Dtype::kBF16 ? Dtype::kBF16 : Dtype::kF32;
}

// A Disturbance says how far numbers of a twin are off: each is multiplied by 1 plus or minus its
// part, at random.
struct Disturbance {
  double numbers = 0;  // of float32 and float64 operands
  double halves = 0;   // of bfloat16 ones
};

// Owns the arrays of a twin.
class OperandCopies {
 public:
  explicit OperandCopies(Disturbance disturbance) : disturbance_(disturbance) {}

  // The copy is dense, in the operand's row-major order, with its numbers as `rounded` can hold
  // them.
  Tensor Copy(const Operand& x, Dtype rounded = Dtype::kF32);

 private:
  struct Entry {
    const std::byte* source;
    int64_t count;
    Dtype rounded;
    std::vector<double> memory;  // of integers too
  };
  void CopyNumbers(const Operand& x, Entry& entry) const;

  Disturbance disturbance_;
  std::deque<Entry> entries_;  // a deque: tensors point into the entries
};

// The same operation on copies of its operands: numbers as float64, integers as they are. Operands
// that are one array stay one array, so that work in place stays work in place.
template <class Op>
class Twin {
 public:
  explicit Twin(const Op& original, Disturbance disturbance = {})
      : copies_(disturbance), op_(original) {
    VisitMutable(op_, [&](std::string_view name, auto& x, Access access) {
      if (!x) return;
      const Operand operand{name, access, x};
      const Tensor copy = copies_.Copy(operand);
      if constexpr (std::is_same_v<std::decay_t<decltype(x)>, Tensor>) {
        operands_.push_back({name, access, copy});
        const Dtype rounded = EntersAs(original, name);
        x = rounded == Dtype::kF32 ? copy : copies_.Copy(operand, rounded);
      } else {
        x = SequenceView(copy.Reshape({x.B * x.T, x.C}), x.B, x.T, 0, x.C);
        operands_.push_back({name, access, x});
      }
    });
  }
  Twin(const Twin&) = delete;
  Twin& operator=(const Twin&) = delete;

  // op() is the operation to run. What enters the original rounded is rounded already.
  const Op& op() const { return op_; }
  // operands() are as Operands(op()), but not rounded.
  const std::vector<Operand>& operands() const { return operands_; }

 private:
  OperandCopies copies_;
  Op op_;
  std::vector<Operand> operands_;
};

}  // namespace folio
