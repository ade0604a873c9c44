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

// IsOverwritten says whether an operand that is only read is the same array as one that is written.
bool IsOverwritten(const Operand& operand, const std::vector<Operand>& operands) {
  return std::any_of(operands.begin(), operands.end(), [&](const Operand& other) {
    return other.access != Access::kRead && other.data() == operand.data();
  });
}

double Largest(const Operand& x) {
  double largest = 0;
  for (const double value : x.Elements()) {
    if (std::isfinite(value)) largest = std::max(largest, std::abs(value));
  }
  return largest;
}

// Half a unit in the last place of a number stored as bfloat16; 0 for other dtypes.
double StoringError(Dtype dtype, double value) {
  if (dtype != Dtype::kBF16 || value == 0 || !std::isfinite(value)) return 0;
  constexpr int kSmallestExponent = -126, kPrecision = 8;
  return std::ldexp(1.0, std::max(std::ilogb(value), kSmallestExponent) - kPrecision);
}

bool Agree(double expected, double found, double tolerance) {
  if (std::isnan(expected) || std::isnan(found)) return std::isnan(expected) && std::isnan(found);
  return std::abs(expected - found) <= tolerance;
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

std::vector<double> LargestChanges(const std::vector<Operand>& from,
                                   const std::vector<Operand>& to) {
  std::vector<double> changes(from.size());
  for (size_t k = 0; k < from.size(); ++k) {
    const std::vector<double> before = from[k].Elements(), after = to[k].Elements();
    for (size_t i = 0; i < before.size(); ++i) {
      const double change = std::abs(after[i] - before[i]);
      if (std::isfinite(change)) changes[k] = std::max(changes[k], change);
    }
  }
  return changes;
}

std::vector<double> Tolerances(const std::vector<Operand>& operands,
                               const std::vector<Operand>& expected, const Sensitivity& sensitivity,
                               const CancelledTerms& cancelled) {
  const double unit = RoundingUnit(operands);
  int64_t length = 1;
  for (const Operand& operand : operands) length = std::max(length, operand.largest_dimension());
  const double errors = 8 + std::sqrt(static_cast<double>(length));
  std::vector<double> tolerances(operands.size());
  for (size_t k = 0; k < operands.size(); ++k) {
    if (operands[k].access == Access::kRead) continue;
    const bool cancels = operands[k].name == cancelled.operand;
    const double largest = std::max(Largest(expected[k]), cancels ? cancelled.largest : 0);
    // The change of a single number may be none by chance: its sum rounds all the same.
    const double change = std::max(sensitivity.to_numbers[k], unit * largest);
    tolerances[k] = errors * change + 4 * unit * largest;
    if (sensitivity.to_halves.empty() || operands[k].dtype() != Dtype::kBF16) continue;
    tolerances[k] += 4 * sensitivity.to_halves[k];
  }
  return tolerances;
}

std::optional<Mismatch> FindMismatch(const std::vector<Operand>& found,
                                     const std::vector<Operand>& expected,
                                     const std::vector<double>& tolerances,
                                     const Derivation& derivation) {
  const auto source = std::find_if(expected.begin(), expected.end(), [&](const Operand& operand) {
    return operand.name == derivation.source;
  });
  for (size_t k = 0; k < found.size(); ++k) {
    const bool read = found[k].access == Access::kRead;
    if (read && IsOverwritten(expected[k], expected)) continue;
    const std::vector<double> want = expected[k].Elements(), have = found[k].Elements();
    const Dtype dtype = found[k].dtype();
    std::vector<double> from;
    if (source != expected.end() && found[k].name == derivation.operand) from = source->Elements();
    for (size_t i = 0; i < want.size(); ++i) {
      if (want[i] == have[i]) continue;
      double tolerance = tolerances[k] + (read ? 0 : StoringError(dtype, want[i]));
      if (!from.empty()) tolerance += derivation.slope * StoringError(dtype, from[i]);
      if (Agree(want[i], have[i], tolerance)) continue;
      const auto element = static_cast<int64_t>(i);
      return Mismatch{std::string(found[k].name), element, want[i], have[i], tolerance};
    }
  }
  return std::nullopt;
}

}  // namespace internal
}  // namespace folio
