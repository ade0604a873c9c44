#include "folio/tensor/tensor.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdlib>
#include <cstring>

#include "folio/base/machine.h"

namespace folio {
namespace {

// Rows far apart, as in columns of a matrix, share an entry of the address cache in large pages;
// and untouched memory, such as the end of a KV cache, costs nothing.
bool InLargePages(size_t bytes) {
  return bytes >= 4 * kLargePageBytes;
}

class Host final : public Memory {
 public:
  bool on_host() const override { return true; }

  std::byte* Allocate(size_t bytes, std::span<const NamedPart> /*parts*/) override {
    // The system may grant more than there is and end the process when the memory is touched.
    const uint64_t there = ThisMachinesMemory().total;
    if (there != 0 && bytes > there) return nullptr;
    if (InLargePages(bytes)) return MapZeros(bytes);
    const size_t whole = (bytes + kAlignment - 1) / kAlignment * kAlignment;
    void* const memory = std::aligned_alloc(kAlignment, whole);
    if (memory != nullptr) std::memset(memory, 0, bytes);
    return static_cast<std::byte*>(memory);
  }

  void Free(std::byte* memory, size_t bytes) override {
    InLargePages(bytes) ? UnmapZeros(memory, bytes) : std::free(memory);
  }

  void Write(const std::byte* host, std::byte* to, size_t bytes) override {
    std::memcpy(to, host, bytes);
  }
  void Read(const std::byte* from, std::byte* host, size_t bytes) override {
    std::memcpy(host, from, bytes);
  }
};

}  // namespace

Memory& HostMemory() {
  static Host host;
  return host;
}

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
