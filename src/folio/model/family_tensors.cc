#include "folio/model/family_tensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <utility>

#include "folio/base/check.h"
#include "folio/base/error.h"

namespace folio {
namespace {

constexpr std::string_view kBlockNumber = "{}";

const FileTensor& RowInFiles(const Family& family, FileFormat format, std::string_view module) {
  const auto row = std::ranges::find(family.tensors, module, &TensorRow::module);
  FOLIO_CHECK(row != family.tensors.end(), "a module without a row in the family");
  return row->files[static_cast<size_t>(format)];
}

Transform TransformOf(const Family& family, FileFormat format, const ParamRow& param) {
  return param.part == "weight" ? RowInFiles(family, format, param.module).transform
                                : Transform::kNone;
}

bool SameNumbers(const TensorInfo& a, const TensorInfo& b) {
  return a.dtype == b.dtype && a.shape == b.shape &&
         (a.data == b.data || std::memcmp(a.data, b.data, a.bytes) == 0);
}

}  // namespace

std::string NameInFiles(const Family& family, FileFormat format, int64_t layer,
                        std::string_view module, std::string_view part) {
  std::string name(RowInFiles(family, format, module).name);
  if (const size_t at = name.find(kBlockNumber); at != name.npos) {
    name.replace(at, kBlockNumber.size(), fmt::format("{}", layer));
  }
  if (part == "weight" || name.empty()) return name;
  const size_t end = name.find_last_of("./");
  return name.substr(0, end + 1) + (name[end] == '/' ? "b" : "bias");
}

std::string NameInFiles(const Family& family, FileFormat format, const ParamRow& param) {
  return NameInFiles(family, format, param.layer, param.module, param.part);
}

Shape ShapeInFiles(const Family& family, FileFormat format, const ParamRow& param) {
  const Transform transform = TransformOf(family, format, param);
  if (transform == Transform::kUnitAxis) return {1, param.shape[0], param.shape[1]};
  return StoredShape(param.shape, transform == Transform::kTranspose);
}

const TensorInfo* FindTensor(const TensorFile& file, const Family& family, std::string_view name) {
  const TensorInfo* found = file.Find(name);
  if (found != nullptr || !name.starts_with(family.optional_prefix)) return found;
  return file.Find(name.substr(family.optional_prefix.size()));
}

void RequireBlocks(const GptConfig& config, const Family& family, int64_t tensors,
                   const std::string& where) {
  const int64_t least = std::ranges::count_if(family.tensors, [](const TensorRow& row) {
    return row.files.front().name.find(kBlockNumber) != std::string_view::npos;
  });
  if (config.n_layer <= tensors / least) return;
  throw InputError(fmt::format("{}: fewer tensors than the model has", where),
                   fmt::format("it holds {}, and n_layer is {}", tensors, config.n_layer),
                   "check n_layer, or copy the model again: it may be damaged");
}

bool HeadIsTied(const TensorFile& file, const Family& family, FileFormat format,
                const std::string& prefix) {
  const auto name = [&](std::string_view module) {
    return prefix + NameInFiles(family, format, -1, module, "weight");
  };
  const TensorInfo* head = file.Find(name(kHeadName));
  return head == nullptr || SameNumbers(*head, file.Require(name("wte")));
}

StoredModel FindParams(const GptConfig& config, std::shared_ptr<const TensorFile> file,
                       const Family& family, FileFormat format,
                       const std::function<void(const TensorInfo&)>& other,
                       const std::string& prefix) {
  StoredModel model{.config = config, .file = std::move(file)};
  std::set<std::string_view> used;
  const ParamTable table(config);
  for (const ParamInfo& info : table.params()) {
    const std::string name = prefix + NameInFiles(family, format, info);
    const TensorInfo* there = FindTensor(*model.file, family, name);
    const TensorInfo& from = model.file->Require(there == nullptr ? name : there->name,
                                                 ShapeInFiles(family, format, info));
    const bool transposed = TransformOf(family, format, info) == Transform::kTranspose;
    model.params.push_back({from, transposed});
    model.params.back().from.shape = StoredShape(info.shape, transposed);
    used.insert(from.name);
  }
  const TensorInfo& wte = model.params.front().from;
  const std::string head = prefix + NameInFiles(family, format, -1, kHeadName, "weight");
  for (const TensorInfo& info : model.file->tensors()) {
    const auto ends = [&](std::string_view end) { return info.name.ends_with(end); };
    const bool repeated = config.tie_word_embeddings && info.name == head && SameNumbers(info, wte);
    if (repeated || used.contains(info.name) || !info.name.starts_with(prefix) ||
        std::ranges::any_of(family.not_read, ends)) {
      continue;
    }
    other(info);
  }
  return model;
}

std::vector<TensorToWrite> TensorsToWrite(const GptWeights& weights, const GptConfig& described,
                                          const Family& family, FileFormat format, Dtype matrices) {
  const auto ours = TensorsByName(weights);
  std::vector<TensorToWrite> tensors;
  const ParamTable table(described);
  for (const ParamInfo& info : table.params()) {
    const bool transposed = TransformOf(family, format, info) == Transform::kTranspose;
    const auto found = ours.find(info.name);
    const Tensor* source = found == ours.end() ? nullptr : found->second;
    const auto read = [source, transposed](int64_t row, std::span<float> out) {
      if (source == nullptr) {
        std::ranges::fill(out, 0.0f);
      } else {
        GatherRows(*source, transposed, row, out);
      }
    };
    tensors.push_back({NameInFiles(family, format, info), IsMatrix(info) ? matrices : Dtype::kF32,
                       StoredShape(info.shape, transposed), read});
  }
  return tensors;
}

}  // namespace folio
