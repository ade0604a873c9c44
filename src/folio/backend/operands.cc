#include "folio/backend/operands.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "folio/base/check.h"

namespace folio {

namespace {

void RoundBlock(std::span<float> block) {
  float largest = 0;
  bool finite = true;
  for (const float x : block) {
    finite = finite && std::isfinite(x);
    largest = std::max(largest, std::abs(x));
  }
  if (!finite) std::ranges::fill(block, std::numeric_limits<float>::quiet_NaN());
  if (!finite || largest == 0) return;
  const int unit = std::max(std::ilogb(largest) - 12, -126);
  for (float& x : block)
    x = std::ldexp(std::nearbyint(std::ldexp(x, -unit)), unit) + 0.0f;  // not -0
}

template <class T>
void CopyRow(const std::byte* row, std::span<double> out) {
  for (double& element : out) {
    T value;
    std::memcpy(&value, row, sizeof(T));
    element = ToDouble(value);
    row += sizeof(T);
  }
}

void CopyRow(const std::byte* row, Dtype dtype, std::span<double> out) {
  switch (dtype) {
    case Dtype::kF32:
      return CopyRow<float>(row, out);
    case Dtype::kBF16:
      return CopyRow<BF16>(row, out);
    case Dtype::kF64:
      return CopyRow<double>(row, out);
    case Dtype::kI32:
      return CopyRow<int32_t>(row, out);
    default:
      if (IsStored(dtype)) return DecodeFloats(row, dtype, out);
      FOLIO_CHECK(dtype == Dtype::kU8, "no operand has this dtype");
      return CopyRow<uint8_t>(row, out);
  }
}

}  // namespace

void RoundNumbers(Rounding rounding, std::span<float> numbers) {
  constexpr size_t kBlock = 32;
  if (rounding == Rounding::kBF16) RoundTo(Dtype::kBF16, numbers);
  if (rounding != Rounding::kBlockFloat) return;
  FOLIO_CHECK(numbers.size() % kBlock == 0, "part of a block");
  for (size_t i = 0; i < numbers.size(); i += kBlock) RoundBlock(numbers.subspan(i, kBlock));
}

Dtype Operand::dtype() const {
  const auto* tensor = std::get_if<Tensor>(&view);
  return tensor ? tensor->dtype() : std::get<SequenceView>(view).dtype;
}

const std::byte* Operand::data() const {
  const auto* tensor = std::get_if<Tensor>(&view);
  return tensor ? tensor->raw() : std::get<SequenceView>(view).data;
}

int64_t Operand::count() const {
  if (const auto* tensor = std::get_if<Tensor>(&view)) return tensor->count();
  const auto& rows = std::get<SequenceView>(view);
  return rows.B * rows.T * rows.C;
}

int64_t Operand::largest_dimension() const {
  if (const auto* tensor = std::get_if<Tensor>(&view)) {
    int64_t largest = 1;
    for (int64_t dim : tensor->shape().dims()) largest = std::max(largest, dim);
    return largest;
  }
  const auto& rows = std::get<SequenceView>(view);
  return std::max({rows.B, rows.T, rows.C});
}

std::vector<double> Operand::Elements() const {
  std::vector<double> elements(static_cast<size_t>(count()));
  const auto* rows = std::get_if<SequenceView>(&view);
  if (!rows) {
    CopyRow(data(), dtype(), elements);
    return elements;
  }
  const auto C = static_cast<size_t>(rows->C);
  for (int64_t row = 0; row < rows->B * rows->T; ++row) {
    const int64_t offset = row / rows->T * rows->batch_stride + row % rows->T * rows->row_stride;
    CopyRow(data() + static_cast<size_t>(offset) * DtypeSize(dtype()), dtype(),
            std::span(elements).subspan(static_cast<size_t>(row) * C, C));
  }
  return elements;
}

}  // namespace folio
