#include "folio/formats/nanogpt.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "folio/base/error.h"
#include "folio/formats/gpt2_encoding.h"
#include "folio/formats/out_in_model.h"
#include "folio/io/file.h"
#include "folio/io/model_dir.h"
#include "folio/io/torch_file.h"
#include "folio/text/nanogpt_meta.h"

namespace folio {
namespace {

namespace fs = std::filesystem;

constexpr char kCheckpointFile[] = "ckpt.pt";
constexpr char kModel[] = "model/", kCompiled[] = "model/_orig_mod.";

fs::path FileOf(const fs::path& path) {
  return fs::is_directory(path) ? path / kCheckpointFile : path;
}

// model_args under the names of config.json.
Json ConfigFields(const TorchFile& file) {
  const Json* args = file.values().find("model_args");
  if (args == nullptr || !args->is_object()) {
    throw InputError(fmt::format("{}: no nanoGPT checkpoint", file.path().string()),
                     "there is no \"model_args\" in it that says how large the model is",
                     "weights alone, pytorch_model.bin, need a config.json beside them: give the "
                     "directory that holds both");
  }
  Json fields = {{"activation_function", "gelu"}};
  const auto take = [&](const char* name, const char* as) {
    const Json* value = args->find(name);
    if (value == nullptr) {
      throw InputError(fmt::format("{}: model_args has no {}", file.path().string(), name));
    }
    fields[as] = *value;
  };
  take("n_layer", "n_layer");
  take("n_head", "n_head");
  take("n_embd", "n_embd");
  take("block_size", "n_positions");
  take("vocab_size", "vocab_size");
  take("bias", "bias");
  for (const char* place : {"embd_pdrop", "attn_pdrop", "resid_pdrop"}) take("dropout", place);
  return fields;
}

bool HeadIsTied(const TensorFile& file, const std::string& prefix) {
  const TensorInfo& wte = file.Require(prefix + "transformer.wte.weight");
  const TensorInfo* head = file.Find(fmt::format("{}{}.weight", prefix, kHeadName));
  return head == nullptr || head->data == wte.data ||
         (head->shape == wte.shape && head->dtype == wte.dtype &&
          std::memcmp(head->data, wte.data, wte.bytes) == 0);
}

// Where nanoGPT has put it, or its user: "" if nowhere.
fs::path FindMeta(const fs::path& checkpoint, const Json& values) {
  const fs::path dir = fs::absolute(checkpoint).parent_path();
  std::vector<fs::path> places = {dir / kNanoGptMetaFile};
  const Json* config = values.find("config");
  const Json* dataset = config == nullptr ? nullptr : config->find("dataset");
  if (dataset != nullptr && dataset->is_string() && IsFileName(dataset->text())) {
    places.push_back(dir.parent_path() / "data" / dataset->text() / kNanoGptMetaFile);
  }
  std::error_code ignored;
  for (const fs::path& place : places) {
    if (fs::is_regular_file(place, ignored)) return place;
  }
  return {};
}

void FindTokenizer(const TorchFile& file, FoundModel& found) {
  if (const fs::path meta = FindMeta(file.path(), file.values()); !meta.empty()) {
    found.tokenizer = ReadNanoGptMeta(meta);
  } else {
    UseGpt2Encoding(found, "put the meta.pkl of nanoGPT's data set beside the checkpoint");
  }
}

}  // namespace

bool IsNanoGpt(const fs::path& path) {
  std::error_code ignored;
  return IsTorchFile(FileOf(path)) && !fs::exists(path / kConfigFile, ignored);
}

FoundModel OpenNanoGpt(const fs::path& path, Loading loading) {
  const auto file = std::make_shared<const TorchFile>(FileOf(path), loading);
  Json fields = ConfigFields(*file);
  const std::string where = file->path().string();
  const bool compiled = std::ranges::any_of(
      file->tensors(), [](const TensorInfo& info) { return info.name.starts_with(kCompiled); });
  const std::string prefix = compiled ? kCompiled : kModel;
  fields["tie_word_embeddings"] = HeadIsTied(*file, prefix);
  const GptConfig config = ConfigOfFields(fields, where, std::ssize(file->tensors()));
  FoundModel found{.model = OutInModel(config, file, prefix)};
  FindTokenizer(*file, found);
  return found;
}

}  // namespace folio
