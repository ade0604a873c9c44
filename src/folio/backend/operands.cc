#include "folio/backend/operands.h"

#include <algorithm>
#include <cstring>

#include "folio/base/rng.h"

namespace folio {
namespace {

const std::byte* ElementAddress(const Tensor& x, int64_t i) {
  return x.raw() + static_cast<size_t>(i) * DtypeSize(x.dtype());
}

const std::byte* ElementAddress(const SequenceView& x, int64_t i) {
  const int64_t row = i / x.C;
  const int64_t offset = row / x.T * x.batch_stride + row % x.T * x.row_stride + i % x.C;
  return x.data + static_cast<size_t>(offset) * DtypeSize(x.dtype);
}

template <class T>
double Load(const std::byte* address) {
  T value;
  std::memcpy(&value, address, sizeof(T));
  return static_cast<double>(value);
}

bool IsNumber(Dtype dtype) {
  return dtype == Dtype::kF32 || dtype == Dtype::kF64;
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

double Operand::Element(int64_t i) const {
  const std::byte* address = std::visit([&](const auto& x) { return ElementAddress(x, i); }, view);
  switch (dtype()) {
    case Dtype::kF32:
      return Load<float>(address);
    case Dtype::kF64:
      return Load<double>(address);
    case Dtype::kI32:
      return Load<int32_t>(address);
    default:
      FOLIO_CHECK(dtype() == Dtype::kU8, "no operand has this dtype");
      return Load<uint8_t>(address);
  }
}

Tensor OperandCopies::Copy(const Operand& x) {
  const bool number = IsNumber(x.dtype());
  const Dtype dtype = number ? Dtype::kF64 : x.dtype();
  const auto* tensor = std::get_if<Tensor>(&x.view);
  const Shape shape = tensor ? tensor->shape() : Shape{x.count()};
  for (Entry& entry : entries_) {
    if (entry.source == x.data() && entry.count == x.count()) {
      return {entry.memory.data(), dtype, shape};
    }
  }
  // One element more than needed, so that an empty array still has an address.
  entries_.push_back(
      {x.data(), x.count(), std::vector<double>(static_cast<size_t>(x.count()) + 1)});
  std::vector<double>& memory = entries_.back().memory;
  if (number) {
    const CounterRng rng(0, entries_.size());
    uint32_t bits = 0;  // one for each of 32 numbers
    for (int64_t i = 0; i < x.count(); ++i) {
      if (i % 32 == 0 && relative_ > 0) bits = rng.Bits(static_cast<uint64_t>(i));
      const double sign = (bits >> (i % 32)) & 1 ? 1 : -1;
      memory[static_cast<size_t>(i)] = x.Element(i) * (1 + relative_ * sign);
    }
  } else {
    std::memcpy(memory.data(), x.data(), x.bytes());  // integers are Tensors, which are dense
  }
  return {memory.data(), dtype, shape};
}

}  // namespace folio
