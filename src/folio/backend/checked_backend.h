#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "folio/backend/backend.h"
#include "folio/backend/operands.h"

namespace folio {

// The first element of an operand that is not what it should be.
struct Mismatch {
  std::string operand;
  int64_t element = 0;  // in row-major order
  double expected = 0, found = 0, tolerance = 0;

  std::string ToString() const;  // "d_x[17] is 3, expected 2 within 1e-07"
};

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

namespace internal {
// Terms inside an operation that cancel in one of its results, whatever the operands are, so that
// only rounding shows: the largest of them.
struct CancelledTerms {
  std::string_view operand;
  double largest = 0;
};
template <class Op>
CancelledTerms CancelledTermsOf(const Op&) {
  return {};
}
// d_x has the average of d_out * weight taken off; in a row of one element, all of it. REQUIRES:
// F64.
CancelledTerms CancelledTermsOf(const LayerNormBackward& op);

// A result made, element by element, of another one as that was stored.
struct Derivation {
  std::string_view operand, source;
  double slope = 0;  // how much of an error of the source it has at most
};
template <class Op>
Derivation DerivationOf(const Op&) {
  return {};
}
inline Derivation DerivationOf(const LinearForward&) {
  return {"act", "out", 1.13};  // the steepest slope that an activation has, gelu's at 1.4
}

// MayRoundInside says whether the operation may round numbers inside to bfloat16.
template <class Op>
bool MayRoundInside(const Op&) {
  return false;
}
inline bool MayRoundInside(const AttentionForward& op) {
  return op.q.dtype == Dtype::kBF16;
}
inline bool MayRoundInside(const AttentionBackward& op) {
  return op.q.dtype == Dtype::kBF16;
}

// The usual error of rounding to bfloat16, which is 2^-8 at most.
inline constexpr double kHalfDisturbance = 0x1p-9;

// The rounding unit of what the operation computes in.
double RoundingUnit(const std::vector<Operand>& operands);

// The largest change of each operand; what is not finite is left out.
std::vector<double> LargestChanges(const std::vector<Operand>& from,
                                   const std::vector<Operand>& to);

// Sensitivity holds the largest change that each operand undergoes: `to_numbers` if all operands
// are off by the rounding unit of what the operation computes in; `to_halves`, empty unless the
// operation may round inside, if those of bfloat16 are off by kHalfDisturbance.
struct Sensitivity {
  std::vector<double> to_numbers;
  std::vector<double> to_halves = {};
};
// Tolerances gives how far each operand may be off, but for the storing of bfloat16 elements.
std::vector<double> Tolerances(const std::vector<Operand>& operands,
                               const std::vector<Operand>& expected, const Sensitivity& sensitivity,
                               const CancelledTerms& cancelled);
std::optional<Mismatch> FindMismatch(const std::vector<Operand>& found,
                                     const std::vector<Operand>& expected,
                                     const std::vector<double>& tolerances,
                                     const Derivation& derivation);
}  // namespace internal

// A Comparison knows what an operation should do: a trusted backend works it out in float64, on
// copies.
//
// How far a result may be off is worked out too. The operation also runs on operands each off by
// one rounding unit u of what it computes in (float64 if its results are, else float32), up or down
// at random. The largest change that this makes to an operand says how it magnifies rounding
// errors; rounding inside the operation may do (8 + sqrt(n)) times that, n being the longest
// dimension of any operand and so the most terms that a sum can have in one direction, and storing
// results 4 u of the largest magnitude. An element of a bfloat16 result may be off by half a unit
// in its own last place more. An operation that may round to bfloat16 inside does so once to a
// number, not to every partial sum; it runs a third time on bfloat16 operands that are each off by
// 2^-9, and its bfloat16 results may be off by 4 times the largest change that this makes. A result
// made of another one's elements has a share in their half units. Operands that are only read must
// not change at all.
template <class Op>
class Comparison {
 public:
  // A Comparison is made before the operation runs. REQUIRES: trusted supports F64.
  Comparison(const Op& op, Backend& trusted) : expected_(op) {
    const std::vector<Operand> operands = Operands(op);
    const internal::CancelledTerms cancelled = internal::CancelledTermsOf(expected_.op());
    trusted.Run(expected_.op());
    const double unit = internal::RoundingUnit(operands);
    internal::Sensitivity sensitivity = {Changes(op, {unit, unit}, trusted)};
    if (internal::MayRoundInside(op)) {
      sensitivity.to_halves = Changes(op, {0, internal::kHalfDisturbance}, trusted);
    }
    tolerances_ = internal::Tolerances(operands, expected_.operands(), sensitivity, cancelled);
  }

  // Check is called after `op` ran elsewhere.
  std::optional<Mismatch> Check(const Op& op) const {
    return internal::FindMismatch(Operands(op), expected_.operands(), tolerances_,
                                  internal::DerivationOf(op));
  }

 private:
  std::vector<double> Changes(const Op& op, Disturbance disturbance, Backend& trusted) const {
    const Twin<Op> disturbed(op, disturbance);
    trusted.Run(disturbed.op());
    return internal::LargestChanges(expected_.operands(), disturbed.operands());
  }

  Twin<Op> expected_;
  std::vector<double> tolerances_;
};

// Runs every operation on `fast` and beside it, on copies, on `trusted` (which must support F64).
// The first operation whose result is further off than rounding explains throws
// a kRuntime Error that names operation, operand, element and both values. Slow.
std::unique_ptr<Backend> MakeCheckedBackend(std::unique_ptr<Backend> fast,
                                            std::unique_ptr<Backend> trusted);

}  // namespace folio
