#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
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

// The rounding unit of the operation's results.
double RoundingUnit(const std::vector<Operand>& operands);
std::optional<Mismatch> FindMismatch(const std::vector<Operand>& found,
                                     const std::vector<Operand>& expected,
                                     const std::vector<Operand>& disturbed,
                                     const CancelledTerms& cancelled);
}  // namespace internal

// What an operation should do, worked out in float64 by a trusted backend on copies.
//
// How far a result may be off is worked out too: the operation also runs on operands each off by
// one rounding unit u of the result's dtype, up or down at random. The largest change that this
// makes to an operand says how it magnifies rounding errors; rounding inside the operation may do
// (8 + sqrt(n)) times that, n being the longest dimension of any operand and so the most terms that
// a sum can have in one direction, and storing results 4 u of the largest magnitude. Operands that
// are only read must not change at all.
template <class Op>
class Comparison {
 public:
  // To be made before the operation runs. REQUIRES: trusted supports F64.
  Comparison(const Op& op, Backend& trusted)
      : expected_(op),
        disturbed_(op, internal::RoundingUnit(Operands(op))),
        cancelled_(internal::CancelledTermsOf(expected_.op())) {
    trusted.Run(expected_.op());
    trusted.Run(disturbed_.op());
  }

  // To be called after `op` ran elsewhere.
  std::optional<Mismatch> Check(const Op& op) const {
    return internal::FindMismatch(Operands(op), Operands(expected_.op()), Operands(disturbed_.op()),
                                  cancelled_);
  }

 private:
  Twin<Op> expected_, disturbed_;
  internal::CancelledTerms cancelled_;
};

}  // namespace folio
