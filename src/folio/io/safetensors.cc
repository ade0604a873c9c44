#include "folio/io/safetensors.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <set>
#include <string_view>
#include <system_error>
#include <tuple>
#include <utility>

#include "folio/base/check.h"
#include "folio/base/error.h"
#include "folio/io/byte_reader.h"
#include "folio/io/file.h"
#include "folio/io/json.h"
#include "folio/io/model_dir.h"
#include "folio/io/posix.h"
#include "folio/io/torch_file.h"
#include "folio/tensor/dtype.h"
#include "folio/tensor/memory_plan.h"

namespace folio {
namespace {

// A file begins with the length of its header; lengths beyond the format's limit are refused.
constexpr uint64_t kLengthBytes = 8;
constexpr uint64_t kMaxHeader = 100'000'000;

// Dtypes of the format that folio does not support, as opposed to misspelt ones.
bool IsForeignDtype(std::string_view name) {
  constexpr std::array<std::string_view, 11> kForeign = {
      "U64",         "C64", "F8_E4M3", "F8_E5M2", "F8_E8M0",  "F8_E4M3FNUZ",
      "F8_E5M2FNUZ", "F4",  "F6_E2M3", "F6_E3M2", "F8_E4M3FN"};
  return std::find(kForeign.begin(), kForeign.end(), name) != kForeign.end();
}

// The entry of one tensor in the header of `file`.
struct HeaderEntry {
  const ByteReader& file;
  const std::string& name;
  const Json& json;

  [[noreturn]] void Refuse(std::string_view cause) const {
    file.Fail(fmt::format("tensor \"{}\": {}", name, cause));
  }

  Dtype ParseDtype() const {
    if (!json["dtype"].is_string()) Refuse("dtype is not a string");
    const std::string& text = json["dtype"].text();
    const std::optional<Dtype> dtype = DtypeFromName(text);
    if (dtype && DtypeBlock(*dtype) == 1) return *dtype;
    if (!IsForeignDtype(text)) Refuse(fmt::format("dtype {} is unknown", text));
    file.Fail(fmt::format("tensor \"{}\": dtype {} is not supported", name, text),
              "supported types are F32, F16, BF16 and F64: use the model in one of them, or as a "
              "GGUF file");
  }

  Shape ParseShape(uint64_t& bytes) const {
    const Json& shape = json["shape"];
    if (!shape.is_array()) Refuse("shape is not an array");
    if (shape.size() > static_cast<size_t>(Shape::kMaxRank)) {
      Refuse(fmt::format("{} dimensions, at most {} are supported", shape.size(), Shape::kMaxRank));
    }
    std::array<int64_t, Shape::kMaxRank> dims{};
    size_t rank = 0;
    for (const Json& dim : shape) {
      if (!dim.is_number_unsigned()) {
        Refuse(fmt::format("{} in its shape is not a valid size", dim.dump()));
      }
      if (!MultiplyBytes(bytes, dim.get<uint64_t>())) {
        Refuse(fmt::format("the sizes {} overflow", shape.dump()));
      }
      dims[rank++] = static_cast<int64_t>(dim.get<uint64_t>());
    }
    return Shape(std::span<const int64_t>(dims.data(), rank));
  }

  // `data` is what follows the header.
  TensorInfo Parse(std::span<const std::byte> data) const {
    if (!json.is_object()) Refuse("its entry is not an object");
    for (const char* key : {"dtype", "shape", "data_offsets"}) {
      if (!json.contains(key)) Refuse(fmt::format("no {}", key));
    }
    if (json.size() != 3) Refuse("it has fields other than dtype, shape and data_offsets");
    TensorInfo info{.name = name, .dtype = ParseDtype()};
    info.bytes = DtypeSize(info.dtype);
    info.shape = ParseShape(info.bytes);
    const Json& offsets = json["data_offsets"];
    if (!offsets.is_array() || offsets.size() != 2 || !offsets[0].is_number_unsigned() ||
        !offsets[1].is_number_unsigned()) {
      Refuse("data_offsets are not two offsets");
    }
    const uint64_t begin = offsets[0].get<uint64_t>(), end = offsets[1].get<uint64_t>();
    if (begin > end || end > data.size()) {
      Refuse(fmt::format("bytes {} to {} exceed the {} bytes of data", begin, end, data.size()));
    }
    if (end - begin != info.bytes) {
      Refuse(fmt::format("{} {} takes {} bytes, its data_offsets span {}", DtypeName(info.dtype),
                         info.shape.ToString(), info.bytes, end - begin));
    }
    info.data = data.data() + begin;
    return info;
  }
};

SafetensorsMetadata ParseMetadata(const Json& value, const ByteReader& file) {
  if (!value.is_object()) file.Fail("__metadata__ is not an object");
  SafetensorsMetadata metadata;
  for (const auto& [key, text] : value.items()) {
    if (!text.is_string()) file.Fail(fmt::format("__metadata__ \"{}\" is not a string", key));
    metadata.emplace(key, text.text());
  }
  return metadata;
}

std::string_view ReadHeader(ByteReader& file) {
  const size_t bytes = file.left();
  if (bytes < kLengthBytes) {
    file.Fail(fmt::format("{} bytes are too few for a safetensors file", bytes));
  }
  const auto length = file.Number<uint64_t>();
  if (length > kMaxHeader) {
    file.Fail(fmt::format("header of {} bytes, at most {} are allowed", length, kMaxHeader));
  }
  if (length > file.left()) {
    file.Fail(fmt::format("header of {} bytes in a file of {}", length, bytes));
  }
  const std::string_view header = file.Text(length);
  if (!header.starts_with('{')) file.Fail("its header does not begin with {");
  return header;
}

constexpr uint64_t kAlignment = 64;

std::string Quoted(const std::string& text) {
  return Json(text).dump();
}

// The order of the data: large elements first, so that every tensor begins at a multiple of its
// element size.
std::vector<const NamedTensor*> InFileOrder(std::span<const NamedTensor> tensors) {
  std::vector<const NamedTensor*> order;
  std::set<std::string_view> names = {"__metadata__"};
  for (const NamedTensor& named : tensors) {
    FOLIO_CHECK(names.insert(named.name).second, "tensor name used twice, or reserved");
    FOLIO_CHECK(named.tensor || named.read || named.tensor.count() == 0, "absent tensor");
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
  std::memcpy(header.data(), &length, kLengthBytes);
  return header;
}

// Converts piece by piece to another dtype.
void WriteData(const NamedTensor& named, AtomicFile& file) {
  if (named.read) {
    return EncodeTensor({named.name, named.stored(), named.tensor.shape(), named.read},
                        [&](std::span<const std::byte> bytes) { file.Write(bytes); });
  }
  const HostCopy copy(named.tensor);
  const Tensor& tensor = copy.tensor();
  if (named.stored() == tensor.dtype()) return file.Write({tensor.host_bytes(), tensor.bytes()});
  constexpr size_t kPiece = size_t{1} << 20;
  const std::span<const float> numbers(tensor.host<float>(), static_cast<size_t>(tensor.count()));
  std::vector<std::byte> bytes(std::min(kPiece, numbers.size()) * DtypeSize(named.stored()));
  for (size_t at = 0; at < numbers.size(); at += kPiece) {
    const std::span<const float> piece = numbers.subspan(at, std::min(kPiece, numbers.size() - at));
    EncodeFloats(piece, named.stored(), bytes.data());
    file.Write(std::span<const std::byte>(bytes).first(piece.size() * DtypeSize(named.stored())));
  }
}

// Name of a tensor -> name of its shard.
using WeightMap = std::map<std::string, std::string>;

constexpr char kWeightMap[] = "weight_map";
constexpr char kHelp[] = "copy or download the model again, all files from one source";

[[noreturn]] void Refuse(const std::filesystem::path& index, std::string cause) {
  throw InputError(fmt::format("{} is not a valid index of shards", index.string()),
                   std::move(cause), kHelp);
}

WeightMap ReadWeightMap(const std::filesystem::path& index) {
  // Enough for 50,000 tensors.
  constexpr uint64_t kMaxIndex = uint64_t{4} << 20;
  const std::string text = ReadFile(index, kMaxIndex);
  WeightMap map;
  bool there = false;
  JsonReader reader(text, {.name = index.string(), .help = kHelp});
  reader.Object([&](const std::string& key) {
    if (key != kWeightMap) return reader.SkipValue();
    there = true;
    reader.Object([&](const std::string& tensor) {
      const size_t at = reader.at();
      const Json shard = reader.Value();
      if (!shard.is_string()) reader.Fail(at, "expected the name of a file");
      map.emplace(tensor, shard.text());
    });
  });
  reader.ExpectEnd();
  if (!there) Refuse(index, fmt::format("it has no \"{}\"", kWeightMap));
  return map;
}

// The path of a shard: in the index's directory.
std::filesystem::path ShardPath(const std::filesystem::path& index, const std::string& name) {
  if (!IsFileName(name)) {
    Refuse(index, fmt::format("{} is not the name of a file in its directory", Json(name).dump()));
  }
  std::filesystem::path path = index.parent_path() / name;
  if (!Exists(path)) {
    throw InputError(fmt::format("{} is missing", path.string()),
                     fmt::format("it is listed in {}", index.filename().string()), kHelp);
  }
  return path;
}

std::shared_ptr<const TensorFile> OpenShard(const std::filesystem::path& index,
                                            const std::filesystem::path& shard, Loading loading) {
  if (IsTorchName(index)) return std::make_shared<const TorchFile>(shard, loading);
  return std::make_shared<const SafetensorsFile>(shard, loading);
}

}  // namespace

SafetensorsFile::SafetensorsFile(const std::filesystem::path& path, Loading loading)
    : TensorFile(path) {
  ByteReader file(Open(path, loading),
                  fmt::format("{} is not a valid safetensors file", path.string()));
  const Json header = ParseJson(ReadHeader(file), path.string() + " (header)");
  const std::span<const std::byte> data = file.all().subspan(file.at());
  std::vector<TensorInfo> tensors;
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__") {
      metadata_ = ParseMetadata(entry, file);
    } else {
      tensors.push_back(HeaderEntry{file, name, entry}.Parse(data));
    }
  }
  std::ranges::sort(tensors, {}, [](const TensorInfo& info) {
    return std::tie(info.data, info.bytes, info.name);
  });
  const std::byte* end = data.data();
  for (TensorInfo& info : tensors) {
    if (info.data != end) {
      file.Fail(fmt::format("tensor \"{}\": begins at {}, but the data before it ends at {}",
                            info.name, info.data - data.data(), end - data.data()));
    }
    end += info.bytes;
    Add(std::move(info));
  }
  if (end != data.data() + data.size()) {
    file.Fail(fmt::format("{} bytes of data, the tensors need {}", data.size(), end - data.data()));
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

ModelShards::ModelShards(const std::filesystem::path& index, Loading loading) : TensorFile(index) {
  const WeightMap map = ReadWeightMap(index);
  std::set<std::string> names;
  for (const auto& [tensor, shard] : map) names.insert(shard);
  for (const std::string& name : names) {
    shards_.push_back(OpenShard(index, ShardPath(index, name), loading));
    for (const TensorInfo& info : shards_.back()->tensors()) {
      const auto listed = map.find(info.name);
      if (listed == map.end()) {
        Refuse(index, fmt::format("tensor \"{}\" of {} is not listed", info.name, name));
      }
      if (listed->second != name) {
        Refuse(index, fmt::format("it lists tensor \"{}\" in {}, but {} contains it, too",
                                  info.name, listed->second, name));
      }
      Add(info);
    }
  }
  for (const auto& [tensor, shard] : map) {
    if (Find(tensor) == nullptr) {
      Refuse(index, fmt::format("tensor \"{}\" is not in {}", tensor, shard));
    }
  }
}

void WriteSafetensorsShards(const std::filesystem::path& dir, std::span<const NamedTensor> tensors,
                            uint64_t max_shard_bytes) {
  // End of each shard in `tensors`.
  std::vector<size_t> ends;
  uint64_t total = 0, shard = 0;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const uint64_t bytes = tensors[i].stored_bytes();
    if (shard > 0 && shard + bytes > max_shard_bytes) {
      ends.push_back(i);
      shard = 0;
    }
    shard += bytes;
    total += bytes;
  }
  const GuardedDirectory inside(dir);
  if (ends.empty()) return WriteSafetensors(dir / kWeightsFile, tensors);
  ends.push_back(tensors.size());
  Json map = Json::object();
  for (size_t i = 0, begin = 0; i < ends.size(); begin = ends[i++]) {
    const auto part = tensors.subspan(begin, ends[i] - begin);
    const std::string name = fmt::format("model-{:05}-of-{:05}.safetensors", i + 1, ends.size());
    WriteSafetensors(dir / name, part);
    for (const NamedTensor& named : part) map.Add(named.name, name);
  }
  const Json index = {{"metadata", {{"total_size", total}}}, {kWeightMap, std::move(map)}};
  WriteFileAtomically(dir / kWeightsIndexFile, index.dump(2) + "\n");
}

}  // namespace folio
