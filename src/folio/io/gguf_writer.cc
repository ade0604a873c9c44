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
std::string Beginning(const GgufHeader& header, std::span<const TensorToWrite> tensors) {
  std::string out(kGgufMagic);
  Append(out, kGgufVersion);
  Append(out, uint64_t{tensors.size()});
  Append(out, header.count());
  out += header.bytes();
  std::set<std::string_view> names;
  uint64_t offset = 0;
  for (const TensorToWrite& tensor : tensors) {
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
               std::span<const TensorToWrite> tensors) {
  AtomicFile file(path);
  file.Write(Beginning(header, tensors));
  for (const TensorToWrite& tensor : tensors) {
    EncodeTensor(tensor, [&](std::span<const std::byte> bytes) { file.Write(bytes); });
    file.Write(std::string(Padding(static_cast<size_t>(tensor.bytes())), '\0'));
  }
  file.Commit();
}

}  // namespace folio
