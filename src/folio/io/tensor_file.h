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

// A tensor in a file.
struct TensorInfo {
  std::string name;
  Dtype dtype = Dtype::kF32;
  Shape shape = {};                 // row-major
  const std::byte* data = nullptr;  // any alignment; valid while the file is open
  uint64_t bytes = 0;
};

// A tensor to write. Its numbers are requested row by row, by several threads at once: `read` fills
// whole rows from `row` on.
struct TensorToWrite {
  std::string name;
  Dtype dtype = Dtype::kF32;
  Shape shape;  // at least one size, row-major; the last one in whole blocks
  std::function<void(int64_t row, std::span<float> rows)> read;

  uint64_t bytes() const { return DtypeBytes(dtype, shape.count()); }
};

// Calls write(bytes) for consecutive parts. Throws a kInput Error if a number cannot be written as
// the tensor's dtype.
void EncodeTensor(const TensorToWrite& tensor,
                  const std::function<void(std::span<const std::byte> bytes)>& write);

// Multiplies the bytes of a tensor by the next size. Returns false if the product so far overflows
// 63 bits, even if a later size is 0: the total then needs no further check.
bool MultiplyBytes(uint64_t& bytes, uint64_t size);

// Returns true if a tensor's numbers can be read in place.
bool IsAligned(const TensorInfo& info);

// Throws a kInput Error, "FILE is damaged", with the cause of the first of `count` parts that is
// not sound. `sound` is called by several threads.
void CheckParts(const std::filesystem::path& file, int64_t count,
                const std::function<bool(int64_t index)>& sound,
                const std::function<std::string(int64_t index)>& cause);

// Tensors by name, in one file or several, mapped and completely validated when opened: any mistake
// throws a kInput Error that names file and tensor, and no later call meets a bad offset. Readers
// of formats derive from it and add what they find. Errors of the calls below name the file and the
// tensor too.
class TensorFile {
 public:
  const std::filesystem::path& path() const { return path_; }
  // In the order of their data in the file.
  std::span<const TensorInfo> tensors() const { return tensors_; }

  // Null if there is none with that name.
  const TensorInfo* Find(std::string_view name) const;
  // Throws a kInput Error, with the nearest name, if it does not exist; the second form also if its
  // shape differs.
  const TensorInfo& Require(std::string_view name) const;
  const TensorInfo& Require(std::string_view name, const Shape& shape) const;
  // Throws a kInput Error unless the tensor, one of this file, has a floating-point dtype.
  void RequireFloating(const TensorInfo& info) const;

  // Releases the memory of a tensor that was copied; it is read again on access.
  void Forget(const TensorInfo& info) const;

  // The tensor in the file: a read-only view, valid as long as this object. A tensor that is not
  // aligned for its dtype is copied once into memory that this object owns; one thread at a time
  // may call it. Throws if a BOOL is neither 0 nor 1.
  Tensor Get(std::string_view name);

  // Converts the whole tensor, from any alignment. Floats are read from floating dtypes (see
  // DecodeFloats), integers from all integer dtypes and BOOL. Throws a kInput Error if the dtype is
  // of the other kind or a number does not fit. REQUIRES: out.size() is the tensor's count.
  template <class T>  // float, double, int64_t or int32_t
  void Read(std::string_view name, std::span<T> out) const;

  // The same into new memory: ReadAs<float>("wte.weight").
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

  // Maps a file, or reads it; its bytes are valid as long as this object.
  std::span<const std::byte> Open(const std::filesystem::path& path, Loading loading);
  // Memory for tensors that must be assembled; valid as long as this object.
  std::span<std::byte> Allocate(size_t bytes);
  // Returns false if the name exists already.
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
