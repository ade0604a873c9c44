#include "folio/tensor/tensor.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "folio/tensor/memory.h"

namespace folio {

Shape::Shape(std::span<const int64_t> dims) : rank_(static_cast<int>(dims.size())) {
  FOLIO_CHECK(rank_ <= kMaxRank, "too many dimensions");
  for (int i = 0; i < rank_; ++i) {
    FOLIO_CHECK(dims[static_cast<size_t>(i)] >= 0, "negative dimension");
    dims_[static_cast<size_t>(i)] = dims[static_cast<size_t>(i)];
  }
}

int64_t Shape::count() const {
  int64_t product = 1;
  for (int64_t dim : dims()) product *= dim;
  return product;
}

std::string Shape::ToString() const {
  return fmt::format("({})", fmt::join(dims(), ", "));
}

Memory& Tensor::memory() const {
  return memory_ == nullptr ? HostMemory() : *memory_;
}

Tensor Tensor::Reshape(Shape shape) const {
  FOLIO_CHECK(shape.count() == count(), "reshape changes the number of elements");
  return {data_, dtype_, shape, memory_};
}

Tensor Tensor::First(Shape shape) const {
  FOLIO_CHECK(data_ == nullptr || shape.count() <= count(), "the tensor has fewer elements");
  return {data_, dtype_, shape, memory_};
}

Tensor Tensor::Slice(int64_t begin, int64_t end) const {
  FOLIO_CHECK(shape_.rank() >= 1 && 0 <= begin && begin <= end && end <= dim(0), "bad slice");
  std::array<int64_t, Shape::kMaxRank> dims{};
  std::copy(shape_.dims().begin(), shape_.dims().end(), dims.begin());
  const int64_t row = dim(0) == 0 ? 0 : count() / dim(0);
  dims[0] = end - begin;
  return {data_ + DtypeBytes(dtype_, begin * row), dtype_,
          Shape(std::span<const int64_t>(dims.data(), static_cast<size_t>(shape_.rank()))),
          memory_};
}

SequenceView::SequenceView(const Tensor& x, int64_t B_, int64_t T_, int64_t column, int64_t C_)
    : dtype(x.dtype()),
      B(B_),
      T(T_),
      C(C_),
      batch_stride(T_ * x.shape().back()),
      row_stride(x.shape().back()) {
  FOLIO_CHECK(x.count() == B * batch_stride && 0 <= column && column + C <= row_stride,
              "view does not fit the tensor");
  data = x.raw() + static_cast<size_t>(column) * DtypeSize(dtype);
}

}  // namespace folio
