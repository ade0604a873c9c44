#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string_view>
#include <type_traits>
#include <vector>

#include "folio/backend/operands.h"
#include "folio/tensor/convert.h"

namespace folio::reference {

// An operation with operands of bfloat16 or in blocks as one on float32: on dense copies of those
// operands, and of what else enters rounded. Operands that are one array stay one array.
template <class Op>
class Widened {
 public:
  explicit Widened(const Op& original) : op_(original) {
    VisitMutable(op_, [&](std::string_view name, auto& x, Access access) {
      if (!x) return;
      if constexpr (std::is_same_v<std::decay_t<decltype(x)>, Tensor>) {
        if (const Dtype as = EntersAs(original, name); as != Dtype::kF32) x = RoundedCopy(x, as);
        if (IsBlocked(x.dtype())) x = DecodedCopy(x);
        if (x.dtype() != Dtype::kBF16) return;
        const Tensor row = x.Reshape({1, x.count()});
        x = Tensor(Widen(SequenceView(row, 1, 1, 0, x.count()), access), x.shape());
      } else if (x.dtype == Dtype::kBF16) {
        const Tensor rows(Widen(x, access), {x.B * x.T, x.C});
        x = SequenceView(rows, x.B, x.T, 0, x.C);
      }
    });
  }
  Widened(const Widened&) = delete;
  Widened& operator=(const Widened&) = delete;

  // op() is the operation to run.
  const Op& op() const { return op_; }

  // Rounds what was written, to where the original's operands are.
  void Store() const {
    for (const Copy& copy : copies_) {
      if (!copy.written) continue;
      const SequenceView& x = copy.source;
      for (int64_t i = 0; i < x.B * x.T * x.C; ++i) {
        Element(x, i) = ToBF16(copy.memory[static_cast<size_t>(i)]);
      }
    }
  }

 private:
  struct Copy {
    SequenceView source;
    bool written;
    std::vector<float> memory;
  };

  static BF16& Element(const SequenceView& x, int64_t i) {
    const int64_t row = i / x.C;
    return x.row<BF16>(row / x.T, row % x.T)[i % x.C];
  }

  float* Widen(const SequenceView& x, Access access) {
    const bool written = access != Access::kRead;
    const int64_t count = x.B * x.T * x.C;
    for (Copy& copy : copies_) {
      const SequenceView& other = copy.source;
      if (other.data != x.data || other.B * other.T * other.C != count) continue;
      copy.written = copy.written || written;
      return copy.memory.data();
    }
    // One element more than needed, so that an empty array still has an address.
    Copy& copy =
        copies_.emplace_back(Copy{x, written, std::vector<float>(static_cast<size_t>(count) + 1)});
    for (int64_t i = 0; i < count; ++i) {
      copy.memory[static_cast<size_t>(i)] = ToFloat(Element(x, i));
    }
    return copy.memory.data();
  }

  Tensor RoundedCopy(const Tensor& x, Dtype dtype) {
    rounded_.assign(x.data<float>(), x.data<float>() + x.count());
    RoundTo(dtype, rounded_);
    return {rounded_.data(), x.shape()};
  }

  Tensor DecodedCopy(const Tensor& x) {
    decoded_.resize(static_cast<size_t>(x.count()));
    DecodeFloats(x.raw(), x.dtype(), std::span(decoded_));
    return {decoded_.data(), x.shape()};
  }

  Op op_;
  std::deque<Copy> copies_;  // a deque: op_ points into them
  std::vector<float> rounded_, decoded_;
};

}  // namespace folio::reference
