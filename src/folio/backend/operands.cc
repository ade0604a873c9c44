#include "folio/backend/operands.h"

#include <algorithm>
#include <cstring>

#include "folio/base/rng.h"
#include "folio/tensor/convert.h"

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

bool IsNumber(Dtype dtype) {
  return IsFloating(dtype);
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

void OperandCopies::CopyNumbers(const Operand& x, Entry& entry) const {
  const double relative = x.dtype() == Dtype::kBF16 ? disturbance_.halves : disturbance_.numbers;
  const CounterRng rng(0, entries_.size());
  std::vector<double> elements = x.Elements();
  if (entry.rounded != Dtype::kF32) {
    std::vector<float> rounded(elements.begin(), elements.end());
    RoundTo(entry.rounded, rounded);
    elements.assign(rounded.begin(), rounded.end());
  }
  uint32_t bits = 0;  // one for each of 32 numbers
  for (size_t i = 0; i < elements.size(); ++i) {
    const double value = elements[i];
    if (i % 32 == 0 && relative > 0) bits = rng.Bits(i);
    const double sign = (bits >> (i % 32)) & 1 ? 1 : -1;
    entry.memory[i] = value * (1 + relative * sign);
  }
}

Tensor OperandCopies::Copy(const Operand& x, Dtype rounded) {
  const bool number = IsNumber(x.dtype());
  const Dtype dtype = number ? Dtype::kF64 : x.dtype();
  const auto* tensor = std::get_if<Tensor>(&x.view);
  const Shape shape = tensor ? tensor->shape() : Shape{x.count()};
  for (Entry& entry : entries_) {
    if (entry.source == x.data() && entry.count == x.count() && entry.rounded == rounded) {
      return {entry.memory.data(), dtype, shape};
    }
  }
  // One element more than needed, so that an empty array still has an address.
  entries_.push_back(
      {x.data(), x.count(), rounded, std::vector<double>(static_cast<size_t>(x.count()) + 1)});
  Entry& entry = entries_.back();
  if (number) {
    CopyNumbers(x, entry);
  } else {
    std::memcpy(entry.memory.data(), x.data(), x.bytes());  // integers are dense Tensors
  }
  return {entry.memory.data(), dtype, shape};
}

}  // namespace folio
