#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "folio/io/file.h"
#include "folio/tensor/tensor.h"

namespace folio {

// A tensor as it lies in a file.
struct TensorInfo {
  std::string name;
  Dtype dtype = Dtype::kF32;
  Shape shape = {};                 // row-major
  const std::byte* data = nullptr;  // of no particular alignment; as long as the file is open
  uint64_t bytes = 0;
};

// A tensor to write. Its numbers are asked for row by row, by several threads at once: `read` fills
// whole rows from `row` on.
struct TensorToWrite {
  std::string name;
  Dtype dtype = Dtype::kF32;
  Shape shape;  // of at least one size, row-major; the last in whole blocks
  std::function<void(int64_t row, std::span<float> rows)> read;

  uint64_t bytes() const { return DtypeBytes(dtype, shape.count()); }
};

// Calls write(bytes) for one part after the other. Throws a kInput Error where a number cannot be
// written as the tensor's dtype.
void EncodeTensor(const TensorToWrite& tensor,
                  const std::function<void(std::span<const std::byte> bytes)>& write);

// Multiplies the bytes of a tensor by the next of its sizes. False where the product of those so
// far overflows 63 bits, even if a later size is 0: whoever multiplies them needs no check then.
bool MultiplyBytes(uint64_t& bytes, uint64_t size);

// Returns whether a tensor's numbers can be read where they lie.
bool IsAligned(const TensorInfo& info);

// Throws a kInput Error, "FILE is damaged", with the cause of the first of `count` parts that is
// not sound. `sound` is asked by several threads.
void CheckParts(const std::filesystem::path& file, int64_t count,
                const std::function<bool(int64_t index)>& sound,
                const std::function<std::string(int64_t index)>& cause);

// Tensors by name, in one file or several, mapped and wholly validated when opened: whatever is
// wrong with them throws a kInput Error naming file and tensor, and no later call meets a bad
// offset. What reads a format derives from it and adds what it finds. Errors of the calls below
// name the file and the tensor too.
class TensorFile {
 public:
  const std::filesystem::path& path() const { return path_; }
  // In the order of their data in the file.
  std::span<const TensorInfo> tensors() const { return tensors_; }

  // Null if there is none of that name.
  const TensorInfo* Find(std::string_view name) const;
  // Throws a kInput Error, with the nearest name, if there is none; the second form also if its
  // shape is another.
  const TensorInfo& Require(std::string_view name) const;
  const TensorInfo& Require(std::string_view name, const Shape& shape) const;
  // Throws a kInput Error unless the tensor, one of this file, holds floating-point numbers.
  void RequireFloating(const TensorInfo& info) const;

  // Lets the memory of a tensor go that was copied; it comes back if it is looked at again.
  void Forget(const TensorInfo& info) const;

  // The tensor as it lies in the file: a read-only view, valid as long as this object. A tensor
  // whose place is not aligned for its dtype is copied once into memory that this object owns; one
  // thread at a time may call it. Throws if a BOOL is neither 0 nor 1.
  Tensor Get(std::string_view name);

  // Converts the whole tensor, from any alignment. Floats come from floating dtypes (see
  // DecodeFloats), integers from all integer dtypes and BOOL. Throws a kInput Error if the dtype is
  // of the other kind or a number does not fit. REQUIRES: out.size() is the tensor's count.
  template <class T>  // float, double, int64_t or int32_t
  void Read(std::string_view name, std::span<T> out) const;

  // The same into fresh memory: ReadAs<float>("wte.weight").
  template <class T>
  std::vector<T> ReadAs(std::string_view name) const {
    std::vector<T> out(static_cast<size_t>(Require(name).shape.count()));
    Read(name, std::span<T>(out));
    return out;
  }

 protected:
  explicit TensorFile(std::filesystem::path path) : path_(std::move(path)) {}
  TensorFile(TensorFile&&) noexcept = default;
  TensorFile& operator=(TensorFile&&) noexcept = default;
  ~TensorFile() = default;

  // Maps a file, or reads it; its bytes live as long as this object.
  std::span<const std::byte> Open(const std::filesystem::path& path, Loading loading);
  // Memory for what has to be put together; lives as long as this object.
  std::span<std::byte> Allocate(size_t bytes);
  // False if there is one of that name already.
  bool Add(TensorInfo info);

 private:
  std::filesystem::path path_;
  std::vector<MappedFile> files_;
  std::vector<std::unique_ptr<std::byte[]>> memory_;
  std::vector<TensorInfo> tensors_;
  std::map<std::string, size_t, std::less<>> index_;
  std::map<std::string, const std::byte*, std::less<>> aligned_copies_;
};

}  // namespace folio
