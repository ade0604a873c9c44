#include "folio/io/tensor_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <limits>
#include <optional>
#include <type_traits>
#include <utility>

#include "folio/base/check.h"
#include "folio/base/error.h"
#include "folio/base/strings.h"
#include "folio/base/thread_pool.h"
#include "folio/io/byte_reader.h"
#include "folio/io/placeholder.h"
#include "folio/tensor/dtype.h"

namespace folio {

void EncodeTensor(const TensorToWrite& tensor,
                  const std::function<void(std::span<const std::byte> bytes)>& write) {
  constexpr int64_t kNumbers = 1 << 20;
  const int64_t columns = tensor.shape.back(), rows = tensor.shape.count() / columns;
  const int64_t step = std::max<int64_t>(1, kNumbers / columns);
  const size_t row_bytes = DtypeBytes(tensor.dtype, columns);
  std::vector<std::byte> bytes(static_cast<size_t>(std::min(step, rows)) * row_bytes);
  for (int64_t first = 0; first < rows; first += step) {
    const int64_t count = std::min(step, rows - first);
    const int64_t bad =
        EncodeRows(tensor.dtype, count, columns, bytes.data(),
                   [&](int64_t row, std::span<float> to) { tensor.read(first + row, to); });
    if (bad >= 0) {
      throw InputError(
          fmt::format("{} cannot be written as {}", tensor.name, DtypeName(tensor.dtype)),
          fmt::format("row {} has a number that is too large, or not a number", first + bad),
          "use a wider dtype: bf16, or f32, which is exact");
    }
    write(std::span(bytes).first(static_cast<size_t>(count) * row_bytes));
  }
}

bool MultiplyBytes(uint64_t& bytes, uint64_t size) {
  constexpr uint64_t kMax = std::numeric_limits<int64_t>::max();
  if (size > kMax || (size != 0 && bytes > kMax / size)) return false;
  bytes *= size;
  return true;
}

bool IsAligned(const TensorInfo& info) {
  return reinterpret_cast<uintptr_t>(info.data) % DtypeAlignment(info.dtype) == 0;
}

std::span<const std::byte> TensorFile::Open(const std::filesystem::path& path, Loading loading) {
  const std::span<const std::byte> bytes = files_.emplace_back(path, loading).bytes();
  RefuseText(AsText(bytes), path.string());
  return bytes;
}

std::span<std::byte> TensorFile::Allocate(size_t bytes) {
  memory_.push_back(std::make_unique_for_overwrite<std::byte[]>(bytes));
  return {memory_.back().get(), bytes};
}

bool TensorFile::Add(TensorInfo info) {
  if (!index_.emplace(info.name, tensors_.size()).second) return false;
  tensors_.push_back(std::move(info));
  return true;
}

void TensorFile::Forget(const TensorInfo& info) const {
  for (const MappedFile& file : files_) {
    const std::span<const std::byte> all = file.bytes();
    const bool inside = std::greater_equal<>()(info.data, all.data()) &&
                        std::less<>()(info.data, all.data() + all.size());
    if (inside) file.Forget({info.data, static_cast<size_t>(info.bytes)});
  }
}

const TensorInfo* TensorFile::Find(std::string_view name) const {
  const auto it = index_.find(name);
  return it == index_.end() ? nullptr : &tensors_[it->second];
}

const TensorInfo& TensorFile::Require(std::string_view name) const {
  if (const TensorInfo* info = Find(name)) return *info;
  std::vector<std::string> names;
  for (const TensorInfo& info : tensors_) names.push_back(info.name);
  const std::string nearest = Nearest(name, names);
  throw InputError(fmt::format("{} has no tensor \"{}\"", path().string(), name),
                   fmt::format("it has {} tensors", tensors_.size()),
                   nearest.empty() ? "" : fmt::format("the nearest name is \"{}\"", nearest));
}

const TensorInfo& TensorFile::Require(std::string_view name, const Shape& shape) const {
  const TensorInfo& info = Require(name);
  if (info.shape == shape) return info;
  throw InputError(fmt::format("{}: tensor \"{}\" has the wrong shape", path().string(), name),
                   fmt::format("expected {}, found {}", shape.ToString(), info.shape.ToString()));
}

void TensorFile::RequireFloating(const TensorInfo& info) const {
  if (IsFloating(info.dtype)) return;
  throw InputError(fmt::format("{}: tensor \"{}\" has the wrong dtype", path().string(), info.name),
                   fmt::format("expected floating-point numbers, found {}", DtypeName(info.dtype)));
}

Tensor TensorFile::Get(std::string_view name) {
  const TensorInfo& info = Require(name);
  const std::byte* data = info.data;
  if (info.dtype == Dtype::kBool &&
      std::any_of(data, data + info.bytes, [](std::byte b) { return b > std::byte{1}; })) {
    throw InputError(fmt::format("{}: tensor \"{}\" is damaged", path().string(), name),
                     "a BOOL is neither 0 nor 1");
  }
  if (!IsAligned(info)) {
    const std::byte*& copy = aligned_copies_[info.name];
    if (copy == nullptr) {
      const std::span<std::byte> memory = Allocate(info.bytes);
      std::copy_n(data, info.bytes, memory.data());
      copy = memory.data();
    }
    data = copy;
  }
  return {const_cast<std::byte*>(data), info.dtype, info.shape};
}

template <class T>
void TensorFile::Read(std::string_view name, std::span<T> out) const {
  const TensorInfo& info = Require(name);
  FOLIO_CHECK(out.size() == static_cast<size_t>(info.shape.count()), "read into another size");
  if constexpr (std::is_floating_point_v<T>) {
    RequireFloating(info);
    DecodeFloats(info.data, info.dtype, out);
  } else {
    if (IsFloating(info.dtype)) {
      throw InputError(fmt::format("{}: tensor \"{}\" has the wrong dtype", path().string(), name),
                       fmt::format("expected integers, found {}", DtypeName(info.dtype)));
    }
    if (const std::optional<size_t> bad = DecodeIntegers(info.data, info.dtype, out)) {
      throw InputError(
          fmt::format("{}: a number in tensor \"{}\" is too large", path().string(), name),
          fmt::format("element {} does not fit in {} bits", *bad, 8 * sizeof(T)));
    }
  }
}
template void TensorFile::Read(std::string_view name, std::span<float> out) const;
template void TensorFile::Read(std::string_view name, std::span<double> out) const;
template void TensorFile::Read(std::string_view name, std::span<int64_t> out) const;
template void TensorFile::Read(std::string_view name, std::span<int32_t> out) const;

void CheckParts(const std::filesystem::path& file, int64_t count,
                const std::function<bool(int64_t)>& sound,
                const std::function<std::string(int64_t)>& cause) {
  std::atomic<int64_t> first = count;
  ParallelFor(count, [&](int64_t i, int) {
    if (sound(i)) return;
    int64_t before = first;
    while (i < before && !first.compare_exchange_weak(before, i)) {
    }
  });
  if (first == count) return;
  throw InputError(fmt::format("{} is damaged", file.string()), cause(first),
                   "copy or download it again");
}

}  // namespace folio
