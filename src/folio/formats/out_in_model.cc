#include "folio/formats/out_in_model.h"

#include <fmt/format.h>

#include <set>
#include <utility>

#include "folio/base/error.h"
#include "folio/model/config_json.h"

namespace folio {

GptConfig ConfigOfFields(const Json& fields, const std::string& where, int64_t tensors) {
  GptConfig config = GptConfigFromJson(fields.dump(), where);
  constexpr int64_t kLeast = 6;  // tensors of a block
  if (config.n_layer <= tensors / kLeast) return config;
  throw InputError(fmt::format("{}: fewer tensors than the model has", where),
                   fmt::format("it has {} tensors for {} blocks", tensors, config.n_layer),
                   "copy or download it again: it may be damaged");
}

StoredModel OutInModel(const GptConfig& config, std::shared_ptr<const TensorFile> file,
                       const std::string& prefix) {
  StoredModel model{.config = config, .file = std::move(file)};
  std::set<std::string, std::less<>> used = {fmt::format("{}{}.weight", prefix, kHeadName)};
  const ParamTable table(config);
  for (const ParamInfo& info : table.params()) {
    const std::string name = prefix + info.name;
    const bool turned = info.kind == ParamKind::kLinear;
    model.params.push_back({model.file->Require(name, StoredShape(info.shape, turned)), turned});
    used.insert(name);
  }
  for (const TensorInfo& info : model.file->tensors()) {
    if (!info.name.starts_with(prefix) || used.contains(info.name) || IsMaskBuffer(info.name))
      continue;
    throw InputError(fmt::format("{}: tensor '{}' is not part of the model",
                                 model.file->path().string(), info.name),
                     "folio runs GPT-2 models only");
  }
  return model;
}

}  // namespace folio
