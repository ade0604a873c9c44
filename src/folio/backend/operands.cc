#include "folio/backend/operands.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <span>

#include "folio/backend/ops.h"
#include "folio/base/check.h"
#include "folio/tensor/dtype.h"

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

Dtype NumberDtype(std::string_view op, std::string_view name, const Tensor& x) {
  FOLIO_CHECK(bool(x), fmt::format("{}: {} is missing", op, name));
  FOLIO_CHECK(x.dtype() == Dtype::kF32 || x.dtype() == Dtype::kF64,
              fmt::format("{}: {} is {}, expected F32 or F64", op, name, DtypeName(x.dtype())));
  return x.dtype();
}

Dtype StoredDtype(std::string_view op, std::string_view name, const Tensor& x) {
  return IsStored(x.dtype()) ? Dtype::kF32 : NumberDtype(op, name, x);
}

Dtype LowDtype(std::string_view op, std::string_view name, Dtype dtype, Dtype number) {
  FOLIO_CHECK(dtype == number || (dtype == Dtype::kBF16 && number == Dtype::kF32),
              fmt::format("{}: {} is {}, expected {}{}", op, name, DtypeName(dtype),
                          DtypeName(number), number == Dtype::kF32 ? " or BF16" : ""));
  return dtype;
}

void CheckOperand(std::string_view op, std::string_view name, const Tensor& x, Dtype dtype,
                  const Shape& shape) {
  FOLIO_CHECK(bool(x), fmt::format("{}: {} is missing", op, name));
  FOLIO_CHECK(x.dtype() == dtype, fmt::format("{}: {} is {}, expected {}", op, name,
                                              DtypeName(x.dtype()), DtypeName(dtype)));
  FOLIO_CHECK(x.shape() == shape, fmt::format("{}: {} is {}, expected {}", op, name,
                                              x.shape().ToString(), shape.ToString()));
}

void CheckOptional(std::string_view op, std::string_view name, const Tensor& x, Dtype dtype,
                   const Shape& shape) {
  if (x) CheckOperand(op, name, x, dtype, shape);
}

void CheckRank(std::string_view op, std::string_view name, const Tensor& x, int rank) {
  FOLIO_CHECK(bool(x), fmt::format("{}: {} is missing", op, name));
  FOLIO_CHECK(x.shape().rank() == rank, fmt::format("{}: {} is {}, expected {} dimensions", op,
                                                    name, x.shape().ToString(), rank));
}

void CheckSequence(std::string_view op, std::string_view name, const SequenceView& x, Dtype dtype,
                   int64_t B, int64_t T, int64_t C) {
  FOLIO_CHECK(bool(x), fmt::format("{}: {} is missing", op, name));
  FOLIO_CHECK(x.dtype == dtype, fmt::format("{}: {} is {}, expected {}", op, name,
                                            DtypeName(x.dtype), DtypeName(dtype)));
  FOLIO_CHECK(x.B == B && x.T == T && x.C == C,
              fmt::format("{}: {} is ({}, {}, {}), expected ({}, {}, {})", op, name, x.B, x.T, x.C,
                          B, T, C));
  FOLIO_CHECK(T <= 1 || x.row_stride >= C, fmt::format("{}: rows of {} overlap", op, name));
}

void CheckDropout(std::string_view op, const Dropout& dropout) {
  FOLIO_CHECK(dropout.p >= 0 && dropout.p < 1,
              fmt::format("{}: dropout {} is not in [0, 1)", op, dropout.p));
  FOLIO_CHECK(dropout.first_row >= 0, fmt::format("{}: first_row of dropout is negative", op));
  FOLIO_CHECK(dropout.first_column >= 0 && (dropout.first_column == 0 || dropout.width > 0),
              fmt::format("{}: dropout of a part of an array of no width", op));
}

bool Overlap(const Tensor& a, const Tensor& b) {
  return a && b && a.raw() < b.raw() + b.bytes() && b.raw() < a.raw() + a.bytes();
}

void FailOverlap(std::string_view op, std::string_view name, std::string_view other) {
  FOLIO_CHECK(false, fmt::format("{}: {} and {} share memory", op, name, other));
}

}  // namespace folio
