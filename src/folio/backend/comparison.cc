#include "folio/backend/comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace folio {

std::string Mismatch::ToString() const {
  return fmt::format("{}[{}] is {:.9g}, expected {:.9g} within {:.2g}", operand, element, found,
                     expected, tolerance);
}

namespace internal {
namespace {

// Whether an operand that is only read is the same array as one that is written.
bool IsOverwritten(const Operand& operand, const std::vector<Operand>& operands) {
  return std::any_of(operands.begin(), operands.end(), [&](const Operand& other) {
    return other.access != Access::kRead && other.data() == operand.data();
  });
}

double Tolerance(const Operand& expected, const Operand& disturbed, double unit, int64_t length,
                 const CancelledTerms& cancelled) {
  double change = 0, largest = expected.name == cancelled.operand ? cancelled.largest : 0;
  for (int64_t i = 0; i < expected.count(); ++i) {
    const double value = expected.Element(i), other = disturbed.Element(i);
    if (!std::isfinite(value) || !std::isfinite(other)) continue;
    change = std::max(change, std::abs(other - value));
    largest = std::max(largest, std::abs(value));
  }
  return (8 + std::sqrt(static_cast<double>(length))) * change + 4 * unit * largest;
}

bool Agree(double expected, double found, double tolerance) {
  if (std::isnan(expected) || std::isnan(found)) return std::isnan(expected) && std::isnan(found);
  return expected == found || std::abs(expected - found) <= tolerance;
}

}  // namespace

CancelledTerms CancelledTermsOf(const LayerNormBackward& op) {
  const int64_t C = op.x.dim(1);
  double largest = 0;
  for (int64_t i = 0; i < op.x.count(); ++i) {
    largest =
        std::max(largest, std::abs(op.d_out.data<double>()[i] * op.weight.data<double>()[i % C] *
                                   op.rstd.data<double>()[i / C]));
  }
  return {"d_x", largest};
}

double RoundingUnit(const std::vector<Operand>& operands) {
  for (const Operand& operand : operands) {
    if (operand.access == Access::kRead) continue;
    return std::ldexp(1.0, operand.dtype() == Dtype::kF64 ? -53 : -24);
  }
  FOLIO_CHECK(false, "an operation without results");
}

std::optional<Mismatch> FindMismatch(const std::vector<Operand>& found,
                                     const std::vector<Operand>& expected,
                                     const std::vector<Operand>& disturbed,
                                     const CancelledTerms& cancelled) {
  const double unit = RoundingUnit(found);
  int64_t length = 1;
  for (const Operand& operand : found) length = std::max(length, operand.largest_dimension());
  for (size_t k = 0; k < found.size(); ++k) {
    const bool read = found[k].access == Access::kRead;
    if (read && IsOverwritten(expected[k], expected)) continue;
    const double tolerance =
        read ? 0 : Tolerance(expected[k], disturbed[k], unit, length, cancelled);
    for (int64_t i = 0; i < found[k].count(); ++i) {
      const double want = expected[k].Element(i), have = found[k].Element(i);
      if (Agree(want, have, tolerance)) continue;
      return Mismatch{std::string(found[k].name), i, want, have, tolerance};
    }
  }
  return std::nullopt;
}

}  // namespace internal
}  // namespace folio
