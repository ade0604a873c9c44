#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <set>
#include <utility>
#include <vector>

#include "folio/base/check.h"
#include "folio/base/error.h"
#include "folio/io/ggml_types.h"
#include "folio/io/gguf.h"
#include "folio/tensor/convert.h"

namespace folio {
namespace {

constexpr uint32_t kGgufVersion = 3;

template <class T>
void Append(std::string& to, T value) {
  static_assert(std::endian::native == std::endian::little);
  to.append(reinterpret_cast<const char*>(&value), sizeof value);
}

void AppendText(std::string& to, std::string_view text) {
  Append(to, uint64_t{text.size()});
  to += text;
}

constexpr size_t Padding(size_t bytes) {
  return (kGgufAlignment - bytes % kGgufAlignment) % kGgufAlignment;
}

// Everything before the data.
std::string Beginning(const GgufHeader& header, std::span<const GgufTensor> tensors) {
  std::string out(kGgufMagic);
  Append(out, kGgufVersion);
  Append(out, uint64_t{tensors.size()});
  Append(out, header.count());
  out += header.bytes();
  std::set<std::string_view> names;
  uint64_t offset = 0;
  for (const GgufTensor& tensor : tensors) {
    const Shape& shape = tensor.shape;
    FOLIO_CHECK(names.insert(tensor.name).second, "tensor name used twice");
    FOLIO_CHECK(tensor.name.size() <= kGgufMaxName, "tensor name too long");
    FOLIO_CHECK(shape.rank() >= 1 && shape.rank() <= kGgufMaxDims && shape.count() > 0,
                "bad shape");
    AppendText(out, tensor.name);
    Append(out, static_cast<uint32_t>(shape.rank()));
    for (int i = shape.rank(); i > 0; --i) Append(out, static_cast<uint64_t>(shape[i - 1]));
    Append(out, GgmlTypeOf(tensor.dtype).id);
    Append(out, offset);
    const size_t bytes = DtypeBytes(tensor.dtype, shape.count());
    offset += bytes + Padding(bytes);
  }
  out.append(Padding(out.size()), '\0');
  return out;
}

[[noreturn]] void RefuseNumber(const GgufTensor& tensor, int64_t row) {
  throw InputError(fmt::format("{} cannot be written as {}", tensor.name, DtypeName(tensor.dtype)),
                   fmt::format("row {} has a number that is too large for it, or is none", row),
                   "choose a wider dtype: bf16, or f32, which keeps every number");
}

// Reads, encodes and writes a tensor some rows at a time.
void WriteTensor(AtomicFile& file, const GgufTensor& tensor) {
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
    if (bad >= 0) RefuseNumber(tensor, first + bad);
    file.Write(std::span(bytes).first(static_cast<size_t>(count) * row_bytes));
  }
  file.Write(std::string(Padding(static_cast<size_t>(rows) * row_bytes), '\0'));
}

}  // namespace

void GgufHeader::Key(std::string_view key, GgufType type) {
  AppendText(bytes_, key);
  Append(bytes_, type);
  ++count_;
}

void GgufHeader::Array(std::string_view key, GgufType type, size_t count) {
  Key(key, GgufType::kArray);
  Append(bytes_, type);
  Append(bytes_, uint64_t{count});
}

void GgufHeader::AddU32(std::string_view key, uint32_t value) {
  Key(key, GgufType::kU32);
  Append(bytes_, value);
}

void GgufHeader::AddF32(std::string_view key, float value) {
  Key(key, GgufType::kF32);
  Append(bytes_, value);
}

void GgufHeader::AddBool(std::string_view key, bool value) {
  Key(key, GgufType::kBool);
  Append(bytes_, static_cast<uint8_t>(value));
}

void GgufHeader::AddText(std::string_view key, std::string_view value) {
  Key(key, GgufType::kText);
  AppendText(bytes_, value);
}

void GgufHeader::AddTexts(std::string_view key, std::span<const std::string> values) {
  Array(key, GgufType::kText, values.size());
  for (const std::string& value : values) AppendText(bytes_, value);
}

void GgufHeader::AddI32s(std::string_view key, std::span<const int32_t> values) {
  Array(key, GgufType::kI32, values.size());
  for (const int32_t value : values) Append(bytes_, value);
}

void WriteGguf(const std::filesystem::path& path, const GgufHeader& header,
               std::span<const GgufTensor> tensors) {
  AtomicFile file(path);
  file.Write(Beginning(header, tensors));
  for (const GgufTensor& tensor : tensors) WriteTensor(file, tensor);
  file.Commit();
}

}  // namespace folio
