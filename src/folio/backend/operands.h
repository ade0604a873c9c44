#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

#include "folio/backend/ops.h"

namespace folio {

// One operand of an operation, of either kind, for code that treats all operations alike.
struct Operand {
  std::string_view name;
  Access access;
  std::variant<Tensor, SequenceView> view;

  Dtype dtype() const;
  const std::byte* data() const;
  int64_t count() const;
  size_t bytes() const { return static_cast<size_t>(count()) * DtypeSize(dtype()); }
  int64_t largest_dimension() const;
  // Element i in row-major order. REQUIRES: F32, F64, I32 or U8.
  double Element(int64_t i) const;
};

// The operands that are present, in the order of Visit.
template <class Op>
std::vector<Operand> Operands(const Op& op) {
  std::vector<Operand> operands;
  op.Visit([&](std::string_view name, const auto& x, Access access) {
    if (x) operands.push_back({name, access, x});
  });
  return operands;
}

// Visit with references that may be assigned to: f(name, Tensor& or SequenceView&, Access).
template <class Op, class F>
void VisitMutable(Op& op, F&& f) {
  static_assert(!std::is_const_v<Op>);
  // op is not const, so the constness that Visit adds may be taken off again.
  op.Visit([&](std::string_view name, const auto& x, Access access) {
    f(name, const_cast<std::decay_t<decltype(x)>&>(x), access);
  });
}

// Owns the arrays of a twin.
class OperandCopies {
 public:
  // Each number is multiplied by 1 + relative or 1 - relative, at random.
  explicit OperandCopies(double relative) : relative_(relative) {}

  Tensor Copy(const Operand& x);  // dense, in the operand's row-major order

 private:
  struct Entry {
    const std::byte* source;
    int64_t count;
    std::vector<double> memory;  // of integers too
  };

  double relative_;
  std::deque<Entry> entries_;  // a deque: tensors point into the entries
};

// The same operation on copies of its operands: numbers as float64, integers as they are. Operands
// that are one array stay one array, so that work in place stays work in place.
template <class Op>
class Twin {
 public:
  explicit Twin(const Op& original, double relative = 0) : copies_(relative), op_(original) {
    VisitMutable(op_, [&](std::string_view name, auto& x, Access access) {
      if (!x) return;
      const Tensor copy = copies_.Copy({name, access, x});
      if constexpr (std::is_same_v<std::decay_t<decltype(x)>, Tensor>) {
        x = copy;
      } else {
        x = SequenceView(copy.Reshape({x.B * x.T, x.C}), x.B, x.T, 0, x.C);
      }
    });
  }
  Twin(const Twin&) = delete;
  Twin& operator=(const Twin&) = delete;

  const Op& op() const { return op_; }

 private:
  OperandCopies copies_;
  Op op_;
};

}  // namespace folio
