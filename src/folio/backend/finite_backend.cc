#include "folio/backend/finite_backend.h"

#include <fmt/format.h>

#include <cmath>

#include "folio/base/error.h"

namespace folio {
namespace {

// FindIn finds the first number that is not finite among `count`, which begin with element `first`
// of the operand.
template <class T>
std::optional<NonFinite> FindIn(const std::byte* data, int64_t count, int64_t first) {
  const T* numbers = reinterpret_cast<const T*>(data);
  for (int64_t i = 0; i < count; ++i) {
    const double value = ToDouble(numbers[i]);
    if (!std::isfinite(value)) {
      return NonFinite{first + i, value, reinterpret_cast<const std::byte*>(numbers + i)};
    }
  }
  return {};
}

template <class T>
std::optional<NonFinite> Find(const Operand& x) {
  const auto* rows = std::get_if<SequenceView>(&x.view);
  if (!rows) return FindIn<T>(x.data(), x.count(), 0);
  for (int64_t row = 0; row < rows->B * rows->T; ++row) {
    const int64_t offset = row / rows->T * rows->batch_stride + row % rows->T * rows->row_stride;
    const std::byte* data = rows->data + offset * static_cast<int64_t>(sizeof(T));
    if (const auto found = FindIn<T>(data, rows->C, row * rows->C)) return found;
  }
  return {};
}

std::string ValueText(double value) {
  return std::isnan(value) ? "nan" : fmt::format("{}", value);
}

std::string ShapeText(const Operand& x) {
  if (const auto* tensor = std::get_if<Tensor>(&x.view)) return tensor->shape().ToString();
  const auto& rows = std::get<SequenceView>(x.view);
  return Shape{rows.B, rows.T, rows.C}.ToString();
}

}  // namespace

std::optional<NonFinite> FindNonFinite(const Operand& x) {
  switch (x.dtype()) {
    case Dtype::kF32:
      return Find<float>(x);
    case Dtype::kBF16:
      return Find<BF16>(x);
    case Dtype::kF64:
      return Find<double>(x);
    default:
      return {};
  }
}

std::string FiniteBackend::description() const {
  return fmt::format("{}, every number looked at", backend_->description());
}

void FiniteBackend::Remember(const std::vector<Operand>& operands) {
  if (!context_->name_of) return;
  for (const Operand& operand : operands) {
    if (std::string name = context_->name_of(operand.data()); !name.empty()) {
      near_ = std::move(name);
      return;
    }
  }
}

void FiniteBackend::Look(std::string_view operation, const std::vector<Operand>& operands) const {
  for (const Operand& result : operands) {
    if (result.access == Access::kRead) continue;
    const std::optional<NonFinite> found = FindNonFinite(result);
    if (!found) continue;
    std::string inputs = "what it read is finite";
    for (const Operand& input : operands) {
      if (input.access != Access::kRead) continue;
      const auto bad = FindNonFinite(input);
      if (bad) {
        inputs = fmt::format("element {} of {}, which it read, is {} already", bad->element,
                             input.name, ValueText(bad->value));
        break;
      }
    }
    const std::string when = context_->when ? context_->when() + ": " : "";
    const std::string own = context_->name_of ? context_->name_of(found->at) : "";
    std::string place = near_.empty() ? "" : fmt::format(", at or after {}", near_);
    if (!own.empty()) place = fmt::format(", which is {}", own);
    throw Error(ErrorKind::kDiverged,
                fmt::format("{}{} gives a number that is not finite", when, operation),
                fmt::format("element {} of {} {} is {}{}; {}", found->element, result.name,
                            ShapeText(result), ValueText(found->value), place, inputs),
                "lower train.learning_rate or raise train.warmup_steps; if that does not help, try "
                "--dtype fp32 or --backend checked");
  }
}

}  // namespace folio
