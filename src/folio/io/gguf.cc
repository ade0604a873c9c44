#include "folio/io/gguf.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cstring>
#include <limits>
#include <utility>

#include "folio/base/error.h"
#include "folio/base/utf8.h"
#include "folio/io/ggml_types.h"

namespace folio {
namespace {

constexpr uint32_t kNewestVersion = 3, kOldestVersion = 2;
// More than any model has; what is made of each takes memory.
constexpr uint64_t kMaxValues = 1 << 16, kMaxTensors = 1 << 16;
constexpr uint64_t kMaxAlignment = 1 << 20;
constexpr std::string_view kAlignmentKey = "general.alignment";

class MalformedGguf {
 public:
  explicit MalformedGguf(const std::filesystem::path& path) : path_(path.string()) {}

  [[noreturn]] void Throw(std::string cause, std::string help = "") const {
    throw InputError(fmt::format("{} is not a sound GGUF file", path_), std::move(cause),
                     help.empty() ? "copy or download it again: it may be cut short or damaged"
                                  : std::move(help));
  }
  [[noreturn]] void ThrowTensor(std::string_view name, std::string_view cause) const {
    Throw(fmt::format("tensor \"{}\": {}", name, cause));
  }

 private:
  std::string path_;
};

template <class T>
T NumberIn(const std::byte* at) {
  static_assert(std::endian::native == std::endian::little);
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

// Reads the file from its beginning, never beyond its end.
class Cursor {
 public:
  Cursor(std::span<const std::byte> bytes, const MalformedGguf& malformed)
      : bytes_(bytes), malformed_(malformed) {}

  size_t at() const { return at_; }

  std::span<const std::byte> Take(uint64_t count) {
    if (count > bytes_.size() - at_) {
      malformed_.Throw(
          fmt::format("{} bytes at {} are not in the {} of the file", count, at_, bytes_.size()));
    }
    const auto taken = bytes_.subspan(at_, count);
    at_ += count;
    return taken;
  }
  template <class T>
  T Number() {
    return NumberIn<T>(Take(sizeof(T)).data());
  }
  std::string_view Text() {
    const auto text = Take(Number<uint64_t>());
    return {reinterpret_cast<const char*>(text.data()), text.size()};
  }
  // A key or a name, which messages show.
  std::string_view Name(std::string_view what) {
    const std::string_view name = Text();
    const auto control = [](char c) { return (c >= 0 && c < ' ') || c == '\x7f'; };
    if (name.empty() || FindInvalidUtf8(name) != name.npos || std::ranges::any_of(name, control)) {
      malformed_.Throw(fmt::format("the {} before byte {} is no printable text", what, at_));
    }
    return name;
  }

 private:
  std::span<const std::byte> bytes_;
  const MalformedGguf& malformed_;
  size_t at_ = 0;
};

// Bytes of one item, by GgufType; 0 for those without a size of their own.
constexpr std::array<uint8_t, 13> kItemBytes = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};

GgufType ReadType(Cursor& cursor, std::string_view key, const MalformedGguf& malformed) {
  const auto number = cursor.Number<uint32_t>();
  if (number < kItemBytes.size()) return static_cast<GgufType>(number);
  malformed.Throw(fmt::format("\"{}\" has a value of the unknown type {}", key, number));
}

GgufValue ReadValue(Cursor& cursor, std::span<const std::byte> file, std::string_view key,
                    const MalformedGguf& malformed) {
  GgufValue value{.type = ReadType(cursor, key, malformed)};
  if (value.type == GgufType::kArray) {
    value.array = true;
    value.type = ReadType(cursor, key, malformed);
    value.count = cursor.Number<uint64_t>();
  }
  if (value.type == GgufType::kArray) {
    malformed.Throw(fmt::format("\"{}\" is an array of arrays", key), "folio reads flat arrays");
  }
  const size_t begin = cursor.at();
  if (value.type == GgufType::kText) {
    for (uint64_t i = 0; i < value.count; ++i) cursor.Text();
  } else {
    const uint64_t size = kItemBytes[static_cast<size_t>(value.type)];
    if (value.count > std::numeric_limits<uint64_t>::max() / size) {
      malformed.Throw(fmt::format("\"{}\" has {} items", key, value.count));
    }
    cursor.Take(value.count * size);
  }
  value.bytes = file.subspan(begin, cursor.at() - begin);
  return value;
}

// A tensor as the header describes it; `bytes` is checked not to overflow.
struct Described {
  std::string_view name = {};
  const GgmlType* type = nullptr;
  Shape shape = {};
  uint64_t bytes = 0;
  uint64_t offset = 0;
};

Described ReadTensor(Cursor& cursor, const MalformedGguf& malformed) {
  Described tensor{.name = cursor.Name("name of a tensor")};
  if (tensor.name.size() > kGgufMaxName) {
    malformed.Throw(fmt::format("a tensor's name has {} bytes, at most {} are allowed",
                                tensor.name.size(), kGgufMaxName));
  }
  const auto rank = cursor.Number<uint32_t>();
  if (rank > kGgufMaxDims) {
    malformed.ThrowTensor(tensor.name,
                          fmt::format("{} dimensions, at most {} are allowed", rank, kGgufMaxDims));
  }
  std::array<int64_t, kGgufMaxDims> dims{};
  constexpr uint64_t kMaxCount = uint64_t{1} << 50;
  uint64_t count = 1;
  for (uint32_t i = rank; i > 0; --i) {  // the innermost comes first
    const auto size = cursor.Number<uint64_t>();
    if (size == 0 || size > kMaxCount / count) {
      malformed.ThrowTensor(tensor.name, fmt::format("a size of {} is out of range", size));
    }
    count *= size;
    dims[i - 1] = static_cast<int64_t>(size);
  }
  tensor.shape = Shape(std::span<const int64_t>(dims).first(rank));
  const auto type = cursor.Number<uint32_t>();
  tensor.type = FindGgmlType(type);
  if (tensor.type == nullptr) {
    malformed.Throw(fmt::format("tensor \"{}\" is of the unknown type {}", tensor.name, type),
                    "it may be newer than this folio: convert it to F16, BF16, Q8_0 or Q4_0");
  }
  const uint64_t row = rank == 0 ? 1 : static_cast<uint64_t>(tensor.shape.back());
  if (row % tensor.type->block != 0) {
    malformed.ThrowTensor(tensor.name, fmt::format("rows of {} numbers in {}'s blocks of {}", row,
                                                   tensor.type->name, tensor.type->block));
  }
  tensor.bytes = count / tensor.type->block * tensor.type->bytes;
  tensor.offset = cursor.Number<uint64_t>();
  return tensor;
}

constexpr uint64_t AlignUp(uint64_t value, uint64_t alignment) {
  return (value + alignment - 1) / alignment * alignment;
}

void CheckVersion(Cursor& cursor, const MalformedGguf& malformed) {
  const auto magic = cursor.Take(kGgufMagic.size());
  if (std::memcmp(magic.data(), kGgufMagic.data(), kGgufMagic.size()) != 0) {
    malformed.Throw("it does not begin with GGUF");
  }
  const auto version = cursor.Number<uint32_t>();
  if (version >= kOldestVersion && version <= kNewestVersion) return;
  constexpr uint32_t kLargest = 0xffff;
  malformed.Throw(
      version > kLargest ? "it is big-endian" : fmt::format("it is of version {}", version),
      fmt::format("folio reads little-endian GGUF of version {} or {}: convert the "
                  "model again",
                  kOldestVersion, kNewestVersion));
}

uint64_t Counted(Cursor& cursor, uint64_t most, std::string_view what,
                 const MalformedGguf& malformed) {
  const auto count = cursor.Number<uint64_t>();
  if (count > most) {
    malformed.Throw(fmt::format("{} {}, at most {} are read", count, what, most));
  }
  return count;
}

// The integer of `type` at a place, as Out; none where it does not fit or is no integer.
template <class Out>
std::optional<Out> NumberAt(const std::byte* at, GgufType type) {
  const auto fit = [](auto value) -> std::optional<Out> {
    if constexpr (std::is_integral_v<Out>) {
      if (!std::in_range<Out>(value)) return std::nullopt;
    }
    return static_cast<Out>(value);
  };
  switch (type) {
    case GgufType::kU8:
      return fit(NumberIn<uint8_t>(at));
    case GgufType::kI8:
      return fit(NumberIn<int8_t>(at));
    case GgufType::kU16:
      return fit(NumberIn<uint16_t>(at));
    case GgufType::kI16:
      return fit(NumberIn<int16_t>(at));
    case GgufType::kU32:
      return fit(NumberIn<uint32_t>(at));
    case GgufType::kI32:
      return fit(NumberIn<int32_t>(at));
    case GgufType::kU64:
      return fit(NumberIn<uint64_t>(at));
    case GgufType::kI64:
      return fit(NumberIn<int64_t>(at));
    default:
      return std::nullopt;
  }
}

std::string_view TextAt(const std::byte* at) {
  return {reinterpret_cast<const char*>(at) + sizeof(uint64_t), NumberIn<uint64_t>(at)};
}

}  // namespace

GgufFile::GgufFile(const std::filesystem::path& path, Loading loading) : TensorFile(path) {
  const MalformedGguf malformed(path);
  const std::span<const std::byte> bytes = Open(path, loading);
  Cursor cursor(bytes, malformed);
  CheckVersion(cursor, malformed);
  const uint64_t tensors = Counted(cursor, kMaxTensors, "tensors", malformed);
  const uint64_t values = Counted(cursor, kMaxValues, "keys", malformed);
  for (uint64_t i = 0; i < values; ++i) {
    const std::string_view key = cursor.Name("key");
    const GgufValue value = ReadValue(cursor, bytes, key, malformed);
    if (!values_.emplace(key, value).second) {
      malformed.Throw(fmt::format("the key \"{}\" is there twice", key));
    }
  }
  const auto alignment = static_cast<uint64_t>(Integer(kAlignmentKey).value_or(kGgufAlignment));
  if (!std::has_single_bit(alignment) || alignment > kMaxAlignment) {
    malformed.Throw(fmt::format("{} is {}, which is no alignment", kAlignmentKey, alignment));
  }
  std::vector<Described> described(tensors);
  for (Described& tensor : described) tensor = ReadTensor(cursor, malformed);

  const uint64_t begin = std::min<uint64_t>(AlignUp(cursor.at(), alignment), bytes.size());
  const std::span<const std::byte> data = bytes.subspan(begin);
  uint64_t end = 0;
  std::map<std::string_view, bool> seen;
  for (const Described& tensor : described) {
    if (!seen.emplace(tensor.name, true).second) {
      malformed.ThrowTensor(tensor.name, "is there twice");
    }
    if (tensor.offset != end) {
      malformed.ThrowTensor(tensor.name,
                            fmt::format("begins at {}, expected {}, where the one before it ends",
                                        tensor.offset, end));
    }
    if (end > data.size() || tensor.bytes > data.size() - end) {
      malformed.ThrowTensor(tensor.name, fmt::format("{} bytes from {} are not in the {} of data",
                                                     tensor.bytes, end, data.size()));
    }
    const std::string name(tensor.name);
    if (tensor.type->dtype) {
      Add({name, *tensor.type->dtype, tensor.shape, data.data() + end, tensor.bytes});
    } else {
      foreign_.push_back({name, tensor.type->name, tensor.shape, tensor.bytes});
    }
    end = AlignUp(end + tensor.bytes, alignment);
  }
}

const GgufValue* GgufFile::FindValue(std::string_view key) const {
  const auto found = values_.find(key);
  return found == values_.end() ? nullptr : &found->second;
}

void GgufFile::RefuseType(std::string_view key, std::string_view expected) const {
  throw InputError(fmt::format("{}: \"{}\" is not {}", path().string(), key, expected),
                   "its value is of another type, or out of range",
                   "convert the model again with a current program");
}

std::optional<int64_t> GgufFile::Integer(std::string_view key) const {
  const GgufValue* value = FindValue(key);
  if (value == nullptr) return std::nullopt;
  const auto number =
      value->array ? std::nullopt : NumberAt<int64_t>(value->bytes.data(), value->type);
  if (!number) RefuseType(key, "an integer");
  return number;
}

std::optional<double> GgufFile::Number(std::string_view key) const {
  const GgufValue* value = FindValue(key);
  if (value == nullptr) return std::nullopt;
  if (value->array) RefuseType(key, "a number");
  if (value->type == GgufType::kF64) return NumberIn<double>(value->bytes.data());
  // The decimal number that a float was, rather than its exact value.
  if (value->type == GgufType::kF32) {
    const std::string decimal = fmt::format("{}", NumberIn<float>(value->bytes.data()));
    double number = std::numeric_limits<double>::quiet_NaN();
    std::from_chars(decimal.data(), decimal.data() + decimal.size(), number);
    return number;
  }
  const auto number = NumberAt<double>(value->bytes.data(), value->type);
  if (!number) RefuseType(key, "a number");
  return number;
}

std::optional<std::string_view> GgufFile::Text(std::string_view key) const {
  const GgufValue* value = FindValue(key);
  if (value == nullptr) return std::nullopt;
  if (value->array || value->type != GgufType::kText) RefuseType(key, "a text");
  return TextAt(value->bytes.data());
}

bool GgufFile::Texts(std::string_view key,
                     const std::function<void(size_t, std::string_view)>& visit) const {
  const GgufValue* value = FindValue(key);
  if (value == nullptr) return false;
  if (!value->array || value->type != GgufType::kText) RefuseType(key, "an array of texts");
  const std::byte* at = value->bytes.data();
  for (size_t i = 0; i < value->count; ++i) {
    const std::string_view text = TextAt(at);
    visit(i, text);
    at += sizeof(uint64_t) + text.size();
  }
  return true;
}

bool GgufFile::Integers(std::string_view key,
                        const std::function<void(size_t, int64_t)>& visit) const {
  const GgufValue* value = FindValue(key);
  if (value == nullptr) return false;
  const size_t size = kItemBytes[static_cast<size_t>(value->type)];
  for (size_t i = 0; value->array && i < value->count; ++i) {
    const auto number = NumberAt<int64_t>(value->bytes.data() + i * size, value->type);
    if (!number) RefuseType(key, "an array of integers");
    visit(i, *number);
  }
  if (!value->array) RefuseType(key, "an array of integers");
  return true;
}

uint64_t GgufFile::Count(std::string_view key) const {
  const GgufValue* value = FindValue(key);
  return value == nullptr ? 0 : value->count;
}

bool IsGguf(const std::filesystem::path& path) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored)) return false;
  const MappedFile file(path);
  return file.bytes().size() >= kGgufMagic.size() &&
         std::memcmp(file.bytes().data(), kGgufMagic.data(), kGgufMagic.size()) == 0;
}

}  // namespace folio
