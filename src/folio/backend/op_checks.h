#pragma once

// The Check functions of the operations are made of these functions. Each check aborts with the
// operation's and the operand's name.

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <string_view>
#include <type_traits>

#include "folio/backend/ops.h"
#include "folio/tensor/tensor.h"

namespace folio {

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
