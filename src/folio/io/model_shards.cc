#include "folio/io/model_shards.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "folio/base/error.h"
#include "folio/io/guarded_directory.h"
#include "folio/io/json.h"
#include "folio/io/json_reader.h"
#include "folio/io/model_dir.h"
#include "folio/io/torch_file.h"

namespace folio {
namespace {

// From the name of a tensor to that of its shard.
using WeightMap = std::map<std::string, std::string>;

constexpr char kWeightMap[] = "weight_map";
constexpr char kHelp[] = "copy or download the model again, all of its files from one place";

[[noreturn]] void Refuse(const std::filesystem::path& index, std::string cause) {
  throw InputError(fmt::format("{} is not a sound index of shards", index.string()),
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

// Where the shard lies: beside the index, whatever it is called.
std::filesystem::path ShardPath(const std::filesystem::path& index, const std::string& name) {
  if (!IsFileName(name)) {
    Refuse(index, fmt::format("{} is not the name of a file beside it", Json(name).dump()));
  }
  std::filesystem::path path = index.parent_path() / name;
  std::error_code ignored;  // a name may be too long for any file
  if (!std::filesystem::exists(path, ignored)) {
    throw InputError(fmt::format("{} is missing", path.string()),
                     fmt::format("{} names it", index.filename().string()), kHelp);
  }
  return path;
}

std::shared_ptr<const TensorFile> OpenShard(const std::filesystem::path& index,
                                            const std::filesystem::path& shard, Loading loading) {
  if (IsTorchName(index)) return std::make_shared<const TorchFile>(shard, loading);
  return std::make_shared<const SafetensorsFile>(shard, loading);
}

}  // namespace

ModelShards::ModelShards(const std::filesystem::path& index, Loading loading) : TensorFile(index) {
  const WeightMap map = ReadWeightMap(index);
  std::set<std::string> names;
  for (const auto& [tensor, shard] : map) names.insert(shard);
  for (const std::string& name : names) {
    shards_.push_back(OpenShard(index, ShardPath(index, name), loading));
    for (const TensorInfo& info : shards_.back()->tensors()) {
      const auto listed = map.find(info.name);
      if (listed == map.end()) {
        Refuse(index, fmt::format("tensor \"{}\" of {} is not in it", info.name, name));
      }
      if (listed->second != name) {
        Refuse(index, fmt::format("it has tensor \"{}\" in {}, but {} holds one too", info.name,
                                  listed->second, name));
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
  // Ends of the shards in `tensors`.
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
