#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

#include "folio/base/check.h"
#include "folio/tensor/dtype.h"

namespace folio {

// Sizes, the outermost first. REQUIRES: of at most kMaxRank dimensions, none below 0.
class Shape {
 public:
  static constexpr int kMaxRank = 5;

  Shape() = default;
  Shape(std::initializer_list<int64_t> dims) : Shape(std::span(dims.begin(), dims.size())) {}
  explicit Shape(std::span<const int64_t> dims);

  int rank() const { return rank_; }
  int64_t operator[](int i) const { return dims_[static_cast<size_t>(i)]; }
  int64_t back() const { return dims_[static_cast<size_t>(rank_ - 1)]; }
  int64_t count() const;  // product of the sizes; 1 for rank 0
  std::span<const int64_t> dims() const { return {dims_.data(), static_cast<size_t>(rank_)}; }
  std::string ToString() const;  // "(2, 3)"
  bool operator==(const Shape& other) const = default;

 private:
  std::array<int64_t, kMaxRank> dims_{};
  int rank_ = 0;
};

// n, or the next multiple of `multiple` above it.
constexpr int64_t RoundUp(int64_t n, int64_t multiple) {
  return (n + multiple - 1) / multiple * multiple;
}

// A part of a block of memory, and its name in errors.
struct NamedPart {
  std::string_view name;
  size_t offset = 0, bytes = 0;
};

// Memory that tensors lie in. That of a backend may be beyond the host's reach: then host code
// reads and writes it through Read and Write alone (tensor/memory_plan.h).
class Memory {
 public:
  virtual ~Memory() = default;

  // Returns true if the host may read and write it where it lies.
  virtual bool on_host() const = 0;

  // Large matrices best have a multiple of so many rows: zeros behind their own.
  virtual int64_t row_multiple() const { return 1; }

  static constexpr size_t kAlignment = 64;
  // Returns so many zeros, from a multiple of kAlignment on, or null if there is not so much
  // memory. `parts` say what lies where, for messages; the host's memory is told nothing.
  virtual std::byte* Allocate(size_t bytes, std::span<const NamedPart> parts) = 0;
  virtual void Free(std::byte* memory, size_t bytes) = 0;

  // Copies bytes to and from the host. A copy is made after the operations of the backend that were
  // begun before it, and before later ones; each returns when the caller may use or change what is
  // on the host. Any thread may call them, also while another one uses the backend.
  virtual void Write(const std::byte* host, std::byte* to, size_t bytes) = 0;
  virtual void Read(const std::byte* from, std::byte* host, size_t bytes) = 0;
};

// The memory of the process.
Memory& HostMemory();

// A non-owning view of a dense row-major array; copying it copies the view. An empty Tensor (no
// data) stands for an absent operand.
class Tensor {
 public:
  Tensor() = default;
  // In the host's memory, or in that of a backend.
  Tensor(void* data, Dtype dtype, Shape shape, Memory* memory = nullptr)
      : data_(static_cast<std::byte*>(data)), memory_(memory), dtype_(dtype), shape_(shape) {}
  template <class T>
  Tensor(T* data, Shape shape) : Tensor(data, DtypeOf<T>(), shape) {}

  explicit operator bool() const { return data_ != nullptr; }
  Dtype dtype() const { return dtype_; }
  const Shape& shape() const { return shape_; }
  int64_t dim(int i) const { return shape_[i]; }
  int64_t count() const { return shape_.count(); }
  size_t bytes() const { return DtypeBytes(dtype_, count()); }

  bool on_host() const { return memory_ == nullptr; }
  Memory& memory() const;

  // The elements. REQUIRES: T is the dtype's C++ type, and they lie in the host's memory. Null for
  // an absent operand.
  template <class T>
  T* host() const {
    RequireHost();
    return data<T>();
  }
  std::byte* host_bytes() const {
    RequireHost();
    return data_;
  }
  // The place of the first element, which only says which tensor it is.
  const std::byte* address() const { return data_; }

  // For backends and memories alone, which may read any memory of theirs; else as above.
  std::byte* raw() const { return data_; }
  template <class T>
  T* data() const {
    FOLIO_CHECK(data_ == nullptr || dtype_ == DtypeOf<T>(), "tensor read as another dtype");
    return reinterpret_cast<T*>(data_);
  }

  // The same elements with another shape. REQUIRES: an equal count.
  Tensor Reshape(Shape shape) const;
  // Rows [begin, end) of the outermost dimension. REQUIRES: they exist, whole blocks.
  Tensor Slice(int64_t begin, int64_t end) const;
  // The first elements with another shape; absent where this is. REQUIRES: there are so many.
  Tensor First(Shape shape) const;

 private:
  void RequireHost() const {
    FOLIO_CHECK(memory_ == nullptr, "the host reads a tensor in a backend's memory");
  }

  std::byte* data_ = nullptr;
  Memory* memory_ = nullptr;  // null: the host's
  Dtype dtype_ = Dtype::kF32;
  Shape shape_;
};

// B sequences of T rows of C elements; rows are contiguous, with any distance between rows and
// between sequences: q, k and v inside of one fused array, or a cache with room for more rows.
struct SequenceView {
  std::byte* data = nullptr;
  Dtype dtype = Dtype::kF32;
  int64_t B = 0, T = 0, C = 0;
  int64_t batch_stride = 0;  // elements from one sequence to the next
  int64_t row_stride = 0;    // elements from one row to the next

  SequenceView() = default;
  // Columns [column, column + C) of a dense (B*T, width) tensor. REQUIRES: it has them.
  SequenceView(const Tensor& x, int64_t B, int64_t T, int64_t column, int64_t C);

  explicit operator bool() const { return data != nullptr; }
  template <class Number>
  Number* row(int64_t b, int64_t t) const {
    FOLIO_CHECK(dtype == DtypeOf<Number>(), "tensor read as another dtype");
    return reinterpret_cast<Number*>(data) + b * batch_stride + t * row_stride;
  }
};

}  // namespace folio
