#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "folio/io/file.h"
#include "folio/tensor/tensor.h"

namespace folio {

// The safetensors format: 8 bytes little-endian header length, a JSON header, then the data of all
// tensors without gaps. https://github.com/huggingface/safetensors

struct TensorInfo {
  std::string name;
  Dtype dtype;
  Shape shape;
  uint64_t offset = 0;  // from the start of the file; of no particular alignment
  uint64_t bytes = 0;
};

using SafetensorsMetadata = std::map<std::string, std::string>;

// A safetensors file, mapped and wholly validated when opened: whatever is wrong with it throws a
// kInput Error naming file and tensor, and no later call meets a bad offset. Errors of the calls
// below name the file and the tensor too.
class SafetensorsFile {
 public:
  explicit SafetensorsFile(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return file_.path(); }
  // In the order of their data in the file.
  std::span<const TensorInfo> tensors() const { return tensors_; }
  const SafetensorsMetadata& metadata() const { return metadata_; }

  // Null if there is none of that name.
  const TensorInfo* Find(std::string_view name) const;
  // Throws a kInput Error, with the nearest name, if there is none; the second form also if its
  // shape is another.
  const TensorInfo& Require(std::string_view name) const;
  const TensorInfo& Require(std::string_view name, const Shape& shape) const;

  // The tensor as it lies in the file: a read-only view, valid as long as this object. A tensor
  // whose place is not aligned for its dtype is copied once into memory that this object owns; one
  // thread at a time may call it. Throws if a BOOL is neither 0 nor 1.
  Tensor Get(std::string_view name);

  // Converts the whole tensor, from any alignment. Floats come from F64, F32, F16 and BF16 (see
  // DecodeFloats), integers from all integer dtypes and BOOL. Throws a kInput Error if the dtype is
  // of the other kind or a number does not fit. REQUIRES: out.size() is the tensor's count.
  void Read(std::string_view name, std::span<float> out) const;
  void Read(std::string_view name, std::span<double> out) const;
  void Read(std::string_view name, std::span<int64_t> out) const;
  void Read(std::string_view name, std::span<int32_t> out) const;

  // The same into fresh memory: ReadAs<float>("wte.weight").
  template <class T>
  std::vector<T> ReadAs(std::string_view name) const {
    std::vector<T> out(static_cast<size_t>(Require(name).shape.count()));
    Read(name, std::span<T>(out));
    return out;
  }

 private:
  const std::byte* DataOf(const TensorInfo& info) const;
  template <class T>
  void ReadFloats(std::string_view name, std::span<T> out) const;
  template <class T>
  void ReadIntegers(std::string_view name, std::span<T> out) const;

  MappedFile file_;
  std::vector<TensorInfo> tensors_;
  SafetensorsMetadata metadata_;
  std::map<std::string, size_t, std::less<>> index_;
  std::map<std::string, std::unique_ptr<std::byte[]>, std::less<>> aligned_copies_;
};

struct NamedTensor {
  std::string name;
  Tensor tensor;
};

// Writes the tensors, largest element first and then by name, so that each lies aligned; the data
// begins at a multiple of 64 bytes. The file appears whole or not at all, and data goes from the
// tensors' memory straight to it. `metadata` is joined by {"format": "pt"}, which other readers ask
// for, unless it has a format of its own. REQUIRES: names are UTF-8, distinct and not
// "__metadata__"; no tensor is absent. Throws a kRuntime Error if it cannot be written.
void WriteSafetensors(const std::filesystem::path& path, std::span<const NamedTensor> tensors,
                      SafetensorsMetadata metadata = {});

}  // namespace folio
