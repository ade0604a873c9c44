#include "folio/io/gguf.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cstring>
#include <iterator>
#include <limits>
#include <set>
#include <utility>

#include "folio/base/check.h"
#include "folio/base/error.h"
#include "folio/base/utf8.h"
#include "folio/io/file.h"
#include "folio/tensor/dtype.h"

namespace folio {
namespace {

// A storage type of ggml: numbers in blocks along rows.
struct GgmlType {
  uint32_t id;  // its number in GGUF files
  std::string_view name;
  size_t block;                     // numbers
  size_t bytes;                     // of a block
  std::optional<Dtype> dtype = {};  // the dtype in folio, if there is one
};

// The types that folio does not have, with ggml's sizes; ggml has removed the missing numbers.
constexpr GgmlType kForeignTypes[] = {
    {9, "Q8_1", 32, 40},     {15, "Q8_K", 256, 292},   {16, "IQ2_XXS", 256, 66},
    {17, "IQ2_XS", 256, 74}, {18, "IQ3_XXS", 256, 98}, {19, "IQ1_S", 256, 50},
    {21, "IQ3_S", 256, 110}, {22, "IQ2_S", 256, 82},   {23, "IQ4_XS", 256, 136},
    {29, "IQ1_M", 256, 56},  {34, "TQ1_0", 256, 54},   {35, "TQ2_0", 256, 66},
    {39, "MXFP4", 32, 17},   {40, "NVFP4", 64, 36},    {41, "Q1_0", 128, 18},
};

// Returns nothing if there is no such id.
std::optional<GgmlType> FindGgmlType(uint32_t id) {
  if (const std::optional<Dtype> dtype = DtypeFromGgml(id)) {
    const size_t block = DtypeBlock(*dtype);
    const size_t bytes = DtypeBytes(*dtype, static_cast<int64_t>(block));
    return GgmlType{id, DtypeName(*dtype), block, bytes, dtype};
  }
  const auto* const type = std::ranges::find(kForeignTypes, id, &GgmlType::id);
  return type == std::end(kForeignTypes) ? std::nullopt : std::optional(*type);
}

// REQUIRES: ggml has this dtype.
uint32_t GgmlId(Dtype dtype) {
  const std::optional<uint32_t> id = DtypeInGgml(dtype);
  FOLIO_CHECK(id.has_value(), "not a type of ggml");
  return *id;
}

constexpr uint32_t kNewestVersion = 3, kOldestVersion = 2;
// More than any model has; bounds memory.
constexpr uint64_t kMaxValues = 1 << 16, kMaxTensors = 1 << 16;
constexpr uint64_t kMaxAlignment = 1 << 20;
constexpr std::string_view kAlignmentKey = "general.alignment";

// Keys of a model in several files: the number of this file from 0, the number of files, and the
// count of all tensors.
constexpr std::string_view kPartKey = "split.no", kPartsKey = "split.count",
                           kPartsTensorsKey = "split.tensors.count";

std::string PartEnding(int64_t part, int64_t parts) {
  return fmt::format("-{:05}-of-{:05}.gguf", part + 1, parts);
}

// A key or a name, which may be shown in messages.
std::string_view ReadName(ByteReader& reader, std::string_view what) {
  const std::string_view name = reader.Text(reader.Number<uint64_t>());
  const auto control = [](char c) { return static_cast<unsigned char>(c) < ' ' || c == '\x7f'; };
  if (name.empty() || FindInvalidUtf8(name) != name.npos || std::ranges::any_of(name, control)) {
    reader.Fail(fmt::format("the {} before byte {} is not printable text", what, reader.at()));
  }
  return name;
}

// The items of each GgufType: bytes, 0 if not fixed, and 1 for integers, -1 for signed ones.
struct GgufItem {
  uint8_t bytes;
  int integer = 0;
};
constexpr std::array<GgufItem, 13> kItems = {
    {{1, 1}, {1, -1}, {2, 1}, {2, -1}, {4, 1}, {4, -1}, {4}, {1}, {0}, {0}, {8, 1}, {8, -1}, {8}}};

const GgufItem& ItemOf(GgufType type) {
  return kItems[static_cast<size_t>(type)];
}

GgufType ReadType(ByteReader& reader, std::string_view key) {
  const auto number = reader.Number<uint32_t>();
  if (number < kItems.size()) return static_cast<GgufType>(number);
  reader.Fail(fmt::format("\"{}\" has a value of the unknown type {}", key, number));
}

GgufValue ReadValue(ByteReader& reader, std::string_view key) {
  GgufValue value{.type = ReadType(reader, key)};
  if (value.type == GgufType::kArray) {
    value.array = true;
    value.type = ReadType(reader, key);
    value.count = reader.Number<uint64_t>();
  }
  if (value.type == GgufType::kArray) {
    reader.Fail(fmt::format("\"{}\" is an array of arrays", key), "only flat arrays are supported");
  }
  const size_t begin = reader.at();
  if (value.type == GgufType::kText) {
    for (uint64_t i = 0; i < value.count; ++i) reader.Text(reader.Number<uint64_t>());
  } else {
    const uint64_t size = ItemOf(value.type).bytes;
    if (value.count > std::numeric_limits<uint64_t>::max() / size) {
      reader.Fail(fmt::format("\"{}\" has {} items", key, value.count));
    }
    reader.Bytes(value.count * size);
  }
  value.bytes = reader.all().subspan(begin, reader.at() - begin);
  return value;
}

// A tensor as the header describes it; `bytes` is checked not to overflow.
struct Described {
  std::string_view name = {};
  GgmlType type = {};
  Shape shape = {};
  uint64_t bytes = 0;
  uint64_t offset = 0;
};

[[noreturn]] void RefuseTensor(const ByteReader& reader, std::string_view name,
                               std::string_view cause) {
  reader.Fail(fmt::format("tensor \"{}\": {}", name, cause));
}

Described ReadTensor(ByteReader& reader) {
  Described tensor{.name = ReadName(reader, "name of a tensor")};
  if (tensor.name.size() > kGgufMaxName) {
    reader.Fail(fmt::format("a tensor's name has {} bytes, at most {} are allowed",
                            tensor.name.size(), kGgufMaxName));
  }
  const auto rank = reader.Number<uint32_t>();
  if (rank > kGgufMaxDims) {
    RefuseTensor(reader, tensor.name,
                 fmt::format("{} dimensions, at most {} are allowed", rank, kGgufMaxDims));
  }
  std::array<int64_t, kGgufMaxDims> dims{};
  constexpr uint64_t kMaxCount = uint64_t{1} << 50;
  uint64_t count = 1;
  for (uint32_t i = rank; i > 0; --i) {  // the innermost size comes first
    const auto size = reader.Number<uint64_t>();
    if (size == 0 || size > kMaxCount / count) {
      RefuseTensor(reader, tensor.name, fmt::format("a size of {} is out of range", size));
    }
    count *= size;
    dims[i - 1] = static_cast<int64_t>(size);
  }
  tensor.shape = Shape(std::span<const int64_t>(dims).first(rank));
  const auto id = reader.Number<uint32_t>();
  const std::optional<GgmlType> type = FindGgmlType(id);
  if (!type) {
    reader.Fail(
        fmt::format("tensor \"{}\" is of the unknown type {}", tensor.name, id),
        "it may be newer than this version of folio: convert it to F16, BF16, Q8_0 or Q4_0");
  }
  tensor.type = *type;
  const uint64_t row = rank == 0 ? 1 : static_cast<uint64_t>(tensor.shape.back());
  if (row % tensor.type.block != 0) {
    RefuseTensor(reader, tensor.name,
                 fmt::format("rows of {} numbers do not divide into {} blocks of {}", row,
                             tensor.type.name, tensor.type.block));
  }
  tensor.bytes = count / tensor.type.block * tensor.type.bytes;
  tensor.offset = reader.Number<uint64_t>();
  return tensor;
}

constexpr uint64_t AlignUp(uint64_t value, uint64_t alignment) {
  return (value + alignment - 1) / alignment * alignment;
}

void CheckVersion(ByteReader& reader) {
  if (reader.Text(kGgufMagic.size()) != kGgufMagic) reader.Fail("it does not begin with GGUF");
  const auto version = reader.Number<uint32_t>();
  if (version >= kOldestVersion && version <= kNewestVersion) return;
  constexpr uint32_t kLargest = 0xffff;
  reader.Fail(
      version > kLargest ? "it is big-endian" : fmt::format("its version is {}", version),
      fmt::format("folio supports little-endian GGUF of version {} or {}: convert the model again",
                  kOldestVersion, kNewestVersion));
}

uint64_t ReadCount(ByteReader& reader, uint64_t most, std::string_view what) {
  const auto count = reader.Number<uint64_t>();
  if (count > most) reader.Fail(fmt::format("{} {}, at most {} are supported", count, what, most));
  return count;
}

// The integer of `type` at this address, as Out; nothing if it does not fit or is no integer.
template <class Out>
std::optional<Out> IntegerAt(const std::byte* at, GgufType type) {
  const auto fit = [](auto value) -> std::optional<Out> {
    if constexpr (std::is_integral_v<Out>) {
      if (!std::in_range<Out>(value)) return std::nullopt;
    }
    return static_cast<Out>(value);
  };
  const auto [bytes, integer] = ItemOf(type);
  if (integer == 0) return std::nullopt;
  uint64_t bits = 0;
  std::memcpy(&bits, at, bytes);
  const int unused = 64 - 8 * bytes;
  return integer > 0 ? fit(bits) : fit(static_cast<int64_t>(bits << unused) >> unused);
}

std::string_view TextAt(const std::byte* at) {
  return {reinterpret_cast<const char*>(at) + sizeof(uint64_t),
          static_cast<size_t>(LittleEndian<uint64_t>(at))};
}

void AppendText(std::string& to, std::string_view text) {
  AppendLittleEndian(to, uint64_t{text.size()});
  to += text;
}

constexpr size_t Padding(size_t bytes) {
  return (kGgufAlignment - bytes % kGgufAlignment) % kGgufAlignment;
}

// Everything before the data of tensors.
std::string Beginning(const GgufHeader& header, std::span<const TensorToWrite> tensors) {
  std::string out(kGgufMagic);
  AppendLittleEndian(out, kNewestVersion, uint64_t{tensors.size()}, header.count());
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
    AppendLittleEndian(out, static_cast<uint32_t>(shape.rank()));
    for (int i = shape.rank(); i > 0; --i)
      AppendLittleEndian(out, static_cast<uint64_t>(shape[i - 1]));
    AppendLittleEndian(out, GgmlId(tensor.dtype), offset);
    const size_t bytes = DtypeBytes(tensor.dtype, shape.count());
    offset += bytes + Padding(bytes);
  }
  out.append(Padding(out.size()), '\0');
  return out;
}

}  // namespace

GgufFile::GgufFile(const std::filesystem::path& path, Loading loading) : TensorFile(path) {
  AddPart(path, loading);
  if (Integer(kPartsKey).value_or(1) > 1) AddOtherParts(loading);
}

int64_t GgufFile::RequireInteger(std::string_view key) const {
  const std::optional<int64_t> value = Integer(key);
  if (!value) RefuseType(key, "an integer");
  return *value;
}

void GgufFile::AddOtherParts(Loading loading) {
  const int64_t parts = RequireInteger(kPartsKey), own = RequireInteger(kPartKey);
  const int64_t tensors = RequireInteger(kPartsTensorsKey);
  const std::string name = path().filename().string(), ending = PartEnding(own, parts);
  const std::string what =
      fmt::format("{}: part {} of {} of a split model", path().string(), own + 1, parts);
  if (!name.ends_with(ending)) {
    throw InputError(
        what,
        fmt::format("its name does not end with {}, so the other parts cannot be found", ending),
        "restore the original names of all parts");
  }
  const auto part_path = [&](int64_t part) {
    return path().parent_path() /
           (name.substr(0, name.size() - ending.size()) + PartEnding(part, parts));
  };
  std::string missing;
  for (int64_t part = 0; part < parts; ++part) {
    if (Exists(part_path(part))) continue;
    missing +=
        fmt::format("{}{}", missing.empty() ? "" : ", ", part_path(part).filename().string());
    constexpr size_t kShown = 200;
    if (missing.size() > kShown) break;
  }
  if (!missing.empty()) {
    throw InputError(what, fmt::format("{} is missing beside it", missing),
                     "put all parts into one directory");
  }
  Values first = own == 0 ? values_ : Values();
  for (int64_t part = 0; part < parts; ++part) {
    if (part == own) continue;
    AddPart(part_path(part), loading);
    if (Integer(kPartsKey) != parts || Integer(kPartKey) != part) {
      throw InputError(fmt::format("{} belongs to another model", part_path(part).string()),
                       fmt::format("it is not marked as part {} of {}", part + 1, parts),
                       "download all parts again, from one source");
    }
    if (part == 0) first = std::move(values_);
  }
  values_ = std::move(first);
  if (!std::cmp_equal(tensor_count(), tensors)) {
    throw InputError(
        what, fmt::format("the parts contain {} tensors, expected {}", tensor_count(), tensors),
        "download all parts again, from one source");
  }
}

void GgufFile::AddPart(const std::filesystem::path& path, Loading loading) {
  ByteReader reader(Open(path, loading), fmt::format("{} is not a valid GGUF file", path.string()));
  CheckVersion(reader);
  values_.clear();
  const uint64_t tensors = ReadCount(reader, kMaxTensors, "tensors");
  const uint64_t values = ReadCount(reader, kMaxValues, "keys");
  for (uint64_t i = 0; i < values; ++i) {
    const std::string_view key = ReadName(reader, "key");
    const GgufValue value = ReadValue(reader, key);
    if (!values_.emplace(key, value).second) {
      reader.Fail(fmt::format("the key \"{}\" appears twice", key));
    }
  }
  const auto alignment = static_cast<uint64_t>(Integer(kAlignmentKey).value_or(kGgufAlignment));
  if (!std::has_single_bit(alignment) || alignment > kMaxAlignment) {
    reader.Fail(fmt::format("{} is {}, which is not a valid alignment", kAlignmentKey, alignment));
  }
  std::vector<Described> described(tensors);
  for (Described& tensor : described) tensor = ReadTensor(reader);

  const std::span<const std::byte> data = reader.all().subspan(
      std::min<uint64_t>(AlignUp(reader.at(), alignment), reader.all().size()));
  uint64_t end = 0;
  std::set<std::string_view> seen;
  for (const Described& tensor : described) {
    if (!seen.insert(tensor.name).second) RefuseTensor(reader, tensor.name, "appears twice");
    if (tensor.offset != end) {
      RefuseTensor(reader, tensor.name,
                   fmt::format("begins at {}, expected {}, the end of the previous tensor",
                               tensor.offset, end));
    }
    if (end > data.size() || tensor.bytes > data.size() - end) {
      RefuseTensor(reader, tensor.name,
                   fmt::format("{} bytes at offset {} exceed the {} bytes of data", tensor.bytes,
                               end, data.size()));
    }
    const std::string name(tensor.name);
    if (!tensor.type.dtype) {
      foreign_.push_back({name, tensor.type.name, tensor.shape, tensor.bytes});
    } else if (!Add({name, *tensor.type.dtype, tensor.shape, data.data() + end, tensor.bytes})) {
      RefuseTensor(reader, tensor.name, "appears in another part, too");
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
                   "its value has the wrong type, or is out of range",
                   "convert the model again with a current version of the converter");
}

std::optional<int64_t> GgufFile::Integer(std::string_view key) const {
  const GgufValue* value = FindValue(key);
  if (value == nullptr) return std::nullopt;
  const auto number =
      value->array ? std::nullopt : IntegerAt<int64_t>(value->bytes.data(), value->type);
  if (!number) RefuseType(key, "an integer");
  return number;
}

std::optional<double> GgufFile::Number(std::string_view key) const {
  const GgufValue* value = FindValue(key);
  if (value == nullptr) return std::nullopt;
  if (value->array) RefuseType(key, "a number");
  if (value->type == GgufType::kF64) return LittleEndian<double>(value->bytes.data());
  // The decimal number that was written as a float, rather than the float's exact value.
  if (value->type == GgufType::kF32) {
    const std::string decimal = fmt::format("{}", LittleEndian<float>(value->bytes.data()));
    double number = std::numeric_limits<double>::quiet_NaN();
    std::from_chars(decimal.data(), decimal.data() + decimal.size(), number);
    return number;
  }
  const auto number = IntegerAt<double>(value->bytes.data(), value->type);
  if (!number) RefuseType(key, "a number");
  return number;
}

std::optional<bool> GgufFile::Bool(std::string_view key) const {
  const GgufValue* value = FindValue(key);
  if (value == nullptr) return std::nullopt;
  if (value->array || value->type != GgufType::kBool) RefuseType(key, "true or false");
  return value->bytes[0] != std::byte{0};
}

std::optional<double> GgufFile::NumberOrTruth(std::string_view key) const {
  const GgufValue* value = FindValue(key);
  if (value == nullptr || value->array || value->type != GgufType::kBool) return Number(key);
  return value->bytes[0] != std::byte{0} ? 1 : 0;
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
  if (!value->array || value->type != GgufType::kText) RefuseType(key, "an array of strings");
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
  const size_t size = ItemOf(value->type).bytes;
  for (size_t i = 0; value->array && i < value->count; ++i) {
    const auto number = IntegerAt<int64_t>(value->bytes.data() + i * size, value->type);
    if (!number) RefuseType(key, "an array of integers");
    visit(i, *number);
  }
  if (!value->array) RefuseType(key, "an array of integers");
  return true;
}

bool GgufFile::Floats(std::string_view key, const std::function<void(size_t, float)>& visit) const {
  const GgufValue* value = FindValue(key);
  if (value == nullptr) return false;
  if (!value->array || value->type != GgufType::kF32) RefuseType(key, "an array of 32-bit numbers");
  for (size_t i = 0; i < value->count; ++i) {
    visit(i, LittleEndian<float>(value->bytes.data() + i * sizeof(float)));
  }
  return true;
}

bool GgufFile::Bools(std::string_view key, const std::function<void(size_t, bool)>& visit) const {
  const GgufValue* value = FindValue(key);
  if (value == nullptr) return false;
  if (!value->array || value->type != GgufType::kBool) RefuseType(key, "an array of booleans");
  for (size_t i = 0; i < value->count; ++i) visit(i, value->bytes[i] != std::byte{0});
  return true;
}

bool GgufFile::IsArray(std::string_view key) const {
  const GgufValue* value = FindValue(key);
  return value != nullptr && value->array;
}

std::vector<std::string_view> GgufFile::Keys(std::string_view prefix) const {
  std::vector<std::string_view> keys;
  for (auto at = values_.lower_bound(prefix); at != values_.end(); ++at) {
    if (!at->first.starts_with(prefix)) break;
    keys.push_back(at->first);
  }
  return keys;
}

uint64_t GgufFile::Count(std::string_view key) const {
  const GgufValue* value = FindValue(key);
  return value == nullptr ? 0 : value->count;
}

std::vector<std::filesystem::path> GgufParts(const std::filesystem::path& path) {
  // NAME-00001-of-00003.gguf: `front` ends before the first number, `back` begins behind it.
  constexpr std::string_view kBack = "-of-00003.gguf";
  constexpr size_t kNumber = 5;
  const std::string name = path.filename().string();
  if (name.size() <= kNumber + kBack.size()) return {path};
  const size_t end = name.size() - kBack.size();
  const std::string front = name.substr(0, end - kNumber), back = name.substr(end);
  if (!front.ends_with('-') || !back.starts_with("-of-") || !back.ends_with(".gguf")) return {path};
  std::vector<std::filesystem::path> found;
  for (const std::string& other : NamesIn(path.parent_path().empty() ? "." : path.parent_path())) {
    if (other.size() == name.size() && other.starts_with(front) && other.ends_with(back)) {
      found.push_back(path.parent_path() / other);
    }
  }
  return found;
}

bool IsGguf(const std::filesystem::path& path) {
  return FileBeginsWith(path, kGgufMagic);
}

void GgufHeader::Key(std::string_view key, GgufType type) {
  AppendText(bytes_, key);
  AppendLittleEndian(bytes_, type);
  ++count_;
}

void GgufHeader::Array(std::string_view key, GgufType type, size_t count) {
  Key(key, GgufType::kArray);
  AppendLittleEndian(bytes_, type, uint64_t{count});
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
  for (const int32_t value : values) AppendLittleEndian(bytes_, value);
}

void GgufHeader::AddF32s(std::string_view key, std::span<const float> values) {
  Array(key, GgufType::kF32, values.size());
  for (const float value : values) AppendLittleEndian(bytes_, value);
}

void GgufHeader::AddBools(std::string_view key, const std::vector<bool>& values) {
  Array(key, GgufType::kBool, values.size());
  for (const bool value : values) AppendLittleEndian(bytes_, uint8_t{value});
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
