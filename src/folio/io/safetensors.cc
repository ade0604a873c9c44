#include "folio/io/safetensors.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "folio/base/check.h"
#include "folio/base/error.h"
#include "folio/io/json.h"
#include "folio/tensor/convert.h"

namespace folio {
namespace {

// A file begins with the length of its header; longer headers than the format allows are refused.
constexpr uint64_t kLengthBytes = 8;
constexpr uint64_t kMaxHeader = 100'000'000;

class Malformed {
 public:
  explicit Malformed(const std::filesystem::path& path) : path_(path.string()) {}

  [[noreturn]] void Throw(std::string cause) const {
    throw InputError(fmt::format("{} is not a sound safetensors file", path_), std::move(cause),
                     "copy or download it again: it may be cut short or damaged");
  }
  [[noreturn]] void ThrowTensor(const std::string& name, std::string_view cause) const {
    Throw(fmt::format("tensor \"{}\": {}", name, cause));
  }

 private:
  std::string path_;
};

// Dtypes of the format that folio has no use for: told apart from spelling mistakes.
bool IsForeignDtype(std::string_view name) {
  constexpr std::array<std::string_view, 11> kForeign = {
      "U64",         "C64", "F8_E4M3", "F8_E5M2", "F8_E8M0",  "F8_E4M3FNUZ",
      "F8_E5M2FNUZ", "F4",  "F6_E2M3", "F6_E3M2", "F8_E4M3FN"};
  return std::find(kForeign.begin(), kForeign.end(), name) != kForeign.end();
}

Dtype ParseDtype(const Json& value, const std::string& name, const Malformed& malformed) {
  if (!value.is_string()) malformed.ThrowTensor(name, "dtype is not a string");
  const std::string& text = value.text();
  const std::optional<Dtype> dtype = DtypeFromName(text);
  if (dtype && DtypeBlock(*dtype) == 1) return *dtype;
  malformed.ThrowTensor(name, fmt::format("dtype {} is {}", text,
                                          IsForeignDtype(text) ? "not supported" : "unknown"));
}

// The shape, and the bytes it takes. Every product of leading sizes is checked, so that nobody who
// multiplies them later overflows, not even where a later size is 0.
std::pair<Shape, uint64_t> ParseShape(const Json& value, Dtype dtype, const std::string& name,
                                      const Malformed& malformed) {
  if (!value.is_array()) malformed.ThrowTensor(name, "shape is not an array");
  if (value.size() > static_cast<size_t>(Shape::kMaxRank)) {
    malformed.ThrowTensor(name, fmt::format("{} dimensions, at most {} are supported", value.size(),
                                            Shape::kMaxRank));
  }
  constexpr uint64_t kMax = std::numeric_limits<int64_t>::max();
  std::array<int64_t, Shape::kMaxRank> dims{};
  uint64_t bytes = DtypeSize(dtype);
  size_t rank = 0;
  for (const Json& dim : value) {
    if (!dim.is_number_unsigned()) {
      malformed.ThrowTensor(name, fmt::format("{} in its shape is not a size", dim.dump()));
    }
    const uint64_t size = dim.get<uint64_t>();
    if (size > kMax || (size != 0 && bytes > kMax / size)) {
      malformed.ThrowTensor(name, fmt::format("the sizes {} overflow", value.dump()));
    }
    bytes *= size;
    dims[rank++] = static_cast<int64_t>(size);
  }
  return {Shape(std::span<const int64_t>(dims.data(), rank)), bytes};
}

// The entry of one tensor; `data` lies behind the header.
TensorInfo ParseEntry(const std::string& name, const Json& entry, std::span<const std::byte> data,
                      const Malformed& malformed) {
  if (!entry.is_object()) malformed.ThrowTensor(name, "its entry is not an object");
  for (const char* key : {"dtype", "shape", "data_offsets"}) {
    if (!entry.contains(key)) malformed.ThrowTensor(name, fmt::format("no {}", key));
  }
  if (entry.size() != 3) {
    malformed.ThrowTensor(name, "fields other than dtype, shape and data_offsets");
  }
  TensorInfo info;
  info.name = name;
  info.dtype = ParseDtype(entry["dtype"], name, malformed);
  std::tie(info.shape, info.bytes) = ParseShape(entry["shape"], info.dtype, name, malformed);

  const Json& offsets = entry["data_offsets"];
  if (!offsets.is_array() || offsets.size() != 2 || !offsets[0].is_number_unsigned() ||
      !offsets[1].is_number_unsigned()) {
    malformed.ThrowTensor(name, "data_offsets are not two offsets");
  }
  const uint64_t begin = offsets[0].get<uint64_t>();
  const uint64_t end = offsets[1].get<uint64_t>();
  if (begin > end || end > data.size()) {
    malformed.ThrowTensor(name, fmt::format("bytes {} to {} do not lie in the {} bytes of data",
                                            begin, end, data.size()));
  }
  if (end - begin != info.bytes) {
    malformed.ThrowTensor(
        name, fmt::format("{} {} takes {} bytes, its data_offsets span {}", DtypeName(info.dtype),
                          info.shape.ToString(), info.bytes, end - begin));
  }
  info.data = data.data() + begin;
  return info;
}

SafetensorsMetadata ParseMetadata(const Json& value, const Malformed& malformed) {
  if (!value.is_object()) malformed.Throw("__metadata__ is not an object");
  SafetensorsMetadata metadata;
  for (const auto& [key, text] : value.items()) {
    if (!text.is_string()) malformed.Throw(fmt::format("__metadata__ \"{}\" is not a string", key));
    metadata.emplace(key, text.get<std::string>());
  }
  return metadata;
}

// The length of the header, checked against the length of the file.
uint64_t HeaderLength(std::span<const std::byte> bytes, const Malformed& malformed) {
  if (bytes.size() < kLengthBytes) {
    malformed.Throw(fmt::format("{} bytes, shorter than any safetensors file", bytes.size()));
  }
  uint64_t length;
  std::memcpy(&length, bytes.data(), sizeof length);
  static_assert(std::endian::native == std::endian::little);
  if (length > kMaxHeader) {
    malformed.Throw(fmt::format("header of {} bytes, at most {} are allowed", length, kMaxHeader));
  }
  if (length > bytes.size() - kLengthBytes) {
    malformed.Throw(fmt::format("header of {} bytes in a file of {}", length, bytes.size()));
  }
  return length;
}

constexpr uint64_t kAlignment = 64;

std::string Quoted(const std::string& text) {
  return Json(text).dump();
}

// The order of the data: large elements first, so that every tensor starts at a multiple of its
// element's size.
std::vector<const NamedTensor*> InFileOrder(std::span<const NamedTensor> tensors) {
  std::vector<const NamedTensor*> order;
  std::set<std::string_view> names = {"__metadata__"};
  for (const NamedTensor& named : tensors) {
    FOLIO_CHECK(names.insert(named.name).second, "tensor name used twice, or reserved");
    FOLIO_CHECK(named.tensor || named.tensor.count() == 0, "absent tensor");
    order.push_back(&named);
  }
  std::sort(order.begin(), order.end(), [](const NamedTensor* a, const NamedTensor* b) {
    const size_t size_a = DtypeSize(a->stored()), size_b = DtypeSize(b->stored());
    return std::tie(size_b, a->name) < std::tie(size_a, b->name);
  });
  return order;
}

// Length and header, padded so that the data behind it is aligned.
std::string Header(std::span<const NamedTensor* const> order, const SafetensorsMetadata& metadata) {
  std::string header(kLengthBytes, '\0');
  header += "{\"__metadata__\":{";
  for (const char* separator = ""; const auto& [key, value] : metadata) {
    header += fmt::format("{}{}:{}", std::exchange(separator, ","), Quoted(key), Quoted(value));
  }
  header += '}';
  uint64_t offset = 0;
  for (const NamedTensor* named : order) {
    const Tensor& tensor = named->tensor;
    const uint64_t end = offset + named->stored_bytes();
    header += fmt::format(R"(,{}:{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})",
                          Quoted(named->name), DtypeName(named->stored()),
                          fmt::join(tensor.shape().dims(), ","), offset, end);
    offset = end;
  }
  header += '}';
  header.resize((header.size() + kAlignment - 1) / kAlignment * kAlignment, ' ');
  const uint64_t length = header.size() - kLengthBytes;
  for (size_t i = 0; i < kLengthBytes; ++i) {
    header[i] = static_cast<char>(length >> (8 * i) & 255u);
  }
  return header;
}

// In another dtype piece by piece.
void WriteData(const NamedTensor& named, AtomicFile& file) {
  const Tensor& tensor = named.tensor;
  if (named.stored() == tensor.dtype()) return file.Write({tensor.raw(), tensor.bytes()});
  constexpr size_t kPiece = size_t{1} << 20;
  const std::span<const float> numbers(tensor.data<float>(), static_cast<size_t>(tensor.count()));
  std::vector<std::byte> bytes(std::min(kPiece, numbers.size()) * DtypeSize(named.stored()));
  for (size_t at = 0; at < numbers.size(); at += kPiece) {
    const std::span<const float> piece = numbers.subspan(at, std::min(kPiece, numbers.size() - at));
    EncodeFloats(piece, named.stored(), bytes.data());
    file.Write(std::span<const std::byte>(bytes).first(piece.size() * DtypeSize(named.stored())));
  }
}

}  // namespace

SafetensorsFile::SafetensorsFile(const std::filesystem::path& path, Loading loading)
    : TensorFile(path) {
  const Malformed malformed(path);
  const std::span<const std::byte> bytes = Open(path, loading);
  const uint64_t header_length = HeaderLength(bytes, malformed);
  const std::span<const std::byte> data = bytes.subspan(kLengthBytes + header_length);
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()) + kLengthBytes,
                              header_length);
  if (!text.starts_with('{')) malformed.Throw("its header does not begin with {");

  const Json header = ParseJson(text, path.string() + " (header)");
  std::vector<TensorInfo> tensors;
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__") {
      metadata_ = ParseMetadata(entry, malformed);
    } else {
      tensors.push_back(ParseEntry(name, entry, data, malformed));
    }
  }
  std::sort(tensors.begin(), tensors.end(), [](const TensorInfo& a, const TensorInfo& b) {
    return std::tie(a.data, a.bytes, a.name) < std::tie(b.data, b.bytes, b.name);
  });
  const std::byte* end = data.data();
  for (TensorInfo& info : tensors) {
    if (info.data != end) {
      malformed.ThrowTensor(info.name,
                            fmt::format("begins at {}, but the data before it ends at {}",
                                        info.data - data.data(), end - data.data()));
    }
    end += info.bytes;
    Add(std::move(info));
  }
  if (end != data.data() + data.size()) {
    malformed.Throw(
        fmt::format("{} bytes of data, its tensors take {}", data.size(), end - data.data()));
  }
}

SafetensorsLayout LayOutSafetensors(std::span<const NamedTensor> tensors,
                                    SafetensorsMetadata metadata) {
  metadata.try_emplace("format", "pt");
  const std::vector<const NamedTensor*> order = InFileOrder(tensors);
  SafetensorsLayout layout{.header = Header(order, metadata), .offsets = {}};
  layout.bytes = layout.header.size();
  for (const NamedTensor* named : order) {
    layout.offsets[named->name] = layout.bytes;
    layout.bytes += named->stored_bytes();
  }
  return layout;
}

void WriteSafetensors(const std::filesystem::path& path, std::span<const NamedTensor> tensors,
                      SafetensorsMetadata metadata) {
  metadata.try_emplace("format", "pt");
  const std::vector<const NamedTensor*> order = InFileOrder(tensors);
  const std::string header = Header(order, metadata);
  if (header.size() > kMaxHeader) {
    throw RuntimeError(fmt::format("cannot write {}", path.string()),
                       fmt::format("its header would take {} bytes, the format allows {}",
                                   header.size(), kMaxHeader));
  }
  AtomicFile file(path);
  file.Write(header);
  for (const NamedTensor* named : order) {
    WriteData(*named, file);
  }
  file.Commit();
}

}  // namespace folio
