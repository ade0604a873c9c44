#include "folio/backend/operands.h"

#include <algorithm>
#include <cstring>

#include "folio/tensor/dtype.h"

namespace folio {
namespace {

template <class T>
void AppendRow(const std::byte* row, int64_t C, std::vector<double>& out) {
  for (int64_t c = 0; c < C; ++c) {
    T value;
    std::memcpy(&value, row + static_cast<size_t>(c) * sizeof(T), sizeof(T));
    out.push_back(ToDouble(value));
  }
}

void AppendRow(const std::byte* row, Dtype dtype, int64_t C, std::vector<double>& out) {
  switch (dtype) {
    case Dtype::kF32:
      return AppendRow<float>(row, C, out);
    case Dtype::kBF16:
      return AppendRow<BF16>(row, C, out);
    case Dtype::kF64:
      return AppendRow<double>(row, C, out);
    case Dtype::kI32:
      return AppendRow<int32_t>(row, C, out);
    case Dtype::kQ8_0:
    case Dtype::kQ4_0:
      out.resize(out.size() + static_cast<size_t>(C));
      return DecodeFloats(row, dtype, std::span(out).last(static_cast<size_t>(C)));
    default:
      FOLIO_CHECK(dtype == Dtype::kU8, "no operand has this dtype");
      return AppendRow<uint8_t>(row, C, out);
  }
}

}  // namespace

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
  std::vector<double> elements;
  elements.reserve(static_cast<size_t>(count()));
  const auto* rows = std::get_if<SequenceView>(&view);
  if (!rows) {
    AppendRow(data(), dtype(), count(), elements);
    return elements;
  }
  for (int64_t row = 0; row < rows->B * rows->T; ++row) {
    const int64_t offset = row / rows->T * rows->batch_stride + row % rows->T * rows->row_stride;
    AppendRow(data() + static_cast<size_t>(offset) * DtypeSize(dtype()), dtype(), rows->C,
              elements);
  }
  return elements;
}

}  // namespace folio
