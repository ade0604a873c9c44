#include "folio/backend/op_checks.h"

#include <fmt/format.h>

#include "folio/backend/ops.h"
#include "folio/base/check.h"

namespace folio {

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
