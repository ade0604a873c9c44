#include "folio/formats/nanogpt.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "folio/base/error.h"
#include "folio/base/utf8.h"
#include "folio/formats/renamed_fields.h"
#include "folio/io/file.h"
#include "folio/io/json.h"
#include "folio/io/model_dir.h"
#include "folio/io/pickle.h"
#include "folio/io/posix.h"
#include "folio/io/torch_file.h"
#include "folio/model/config.h"
#include "folio/model_files/config_json.h"
#include "folio/model_files/families.h"
#include "folio/text/tokenizer_file.h"

namespace folio {
namespace {

namespace fs = std::filesystem;

constexpr char kCheckpointFile[] = "ckpt.pt";
constexpr char kModelPrefix[] = "model/", kCompiled[] = "model/_orig_mod.";

fs::path FileOf(const fs::path& path) {
  return IsDirectory(path) ? path / kCheckpointFile : path;
}

constexpr auto kModelArgs = std::to_array<RenamedField>({
    {"n_layer", {"n_layer"}},
    {"n_head", {"n_head"}},
    {"n_embd", {"n_embd"}},
    {"block_size", {"n_positions"}},
    {"bias", {"bias"}},
    {"vocab_size", {"vocab_size"}},
    {"dropout", {"resid_pdrop", "attn_pdrop", "embd_pdrop"}},
});

Json ConfigFields(const TorchFile& file) {
  const Json* args = file.values().find("model_args");
  if (args == nullptr || !args->is_object()) {
    throw InputError(fmt::format("{}: not a nanoGPT checkpoint", file.path().string()),
                     "it has no \"model_args\" with the size of the model",
                     "pytorch_model.bin contains only weights and needs a config.json: give the "
                     "directory with both");
  }
  return FieldsFrom(*args, "gelu", kModelArgs, file.path().string() + ": model_args has");
}

// Returns the meta.pkl beside the checkpoint or in nanoGPT's data directory; "" if there is none.
fs::path FindMeta(const fs::path& checkpoint, const Json& values) {
  const fs::path dir = fs::absolute(checkpoint).parent_path();
  std::vector<fs::path> places = {dir / kNanoGptMetaFile};
  const Json* config = values.find("config");
  const Json* dataset = config == nullptr ? nullptr : config->find("dataset");
  if (dataset != nullptr && dataset->is_string() && IsFileName(dataset->text())) {
    places.push_back(dir.parent_path() / "data" / dataset->text() / kNanoGptMetaFile);
  }
  for (const fs::path& place : places) {
    if (IsFile(place)) return place;
  }
  return {};
}

// nanoGPT's sample.py takes GPT-2's tokens where it finds no meta.pkl.
void RequireGpt2Tokens(const Tokenizer& tokenizer) {
  const auto gpt2 = FindGpt2Encoding();
  bool same = gpt2 != nullptr && gpt2->vocab_size() == tokenizer.vocab_size();
  for (int32_t id = 0; same && id < tokenizer.vocab_size(); ++id) {
    same = gpt2->TokenBytes(id) == tokenizer.TokenBytes(id);
  }
  if (same) return;
  throw InputError(
      "nanoGPT does not support this model's tokenizer",
      fmt::format("it has {} tokens of kind {}; nanoGPT supports characters and GPT-2's tokens{}",
                  tokenizer.vocab_size(), tokenizer.kind(),
                  gpt2 == nullptr ? ", which are not on this machine to compare" : ""),
      gpt2 == nullptr ? "if they are GPT-2's: folio tokenizer fetch gpt2"
                      : "convert to another format");
}

// As the prepare.py of nanoGPT's data sets of characters writes it.
std::string MetaOf(const Tokenizer& tokenizer) {
  std::vector<std::pair<std::string, std::string>> itos, stoi;
  for (int32_t id = 0; id < tokenizer.vocab_size(); ++id) {
    const std::string number = Pickled(id), text = Pickled(tokenizer.TokenBytes(id));
    itos.emplace_back(number, text);
    stoi.emplace_back(text, number);
  }
  const std::vector<std::pair<std::string, std::string>> meta = {
      {Pickled("vocab_size"), Pickled(tokenizer.vocab_size())},
      {Pickled("special_tokens"), Pickled(tokenizer.special_tokens().size())},
      {Pickled("itos"), PickledDict(itos)},
      {Pickled("stoi"), PickledDict(stoi)}};
  return PickleOf(PickledDict(meta));
}

Json CheckpointValues(GptConfig config) {
  Json args;
  const std::vector<Field> fields = config.Fields();
  for (const RenamedField& arg : kModelArgs) {
    args[arg.name] = FieldJson(FieldOf(fields, arg.fields.front()));
  }
  return {{"model_args", args}, {"iter_num", 0}, {"best_val_loss", 1e9}};
}

}  // namespace

bool IsNanoGpt(const fs::path& path) {
  const fs::path file = FileOf(path);
  const bool may_be_hf = IsDirectory(path) || IsWeightsName(path);
  return IsTorchFile(file) && !(may_be_hf && Exists(DirOfModel(file) / kConfigFile));
}

FoundModel OpenNanoGpt(const fs::path& path, Loading loading) {
  const auto file = std::make_shared<const TorchFile>(FileOf(path), loading);
  Json fields = ConfigFields(*file);
  const std::string where = file->path().string();
  const bool compiled = std::ranges::any_of(
      file->tensors(), [](const TensorInfo& info) { return info.name.starts_with(kCompiled); });
  const std::string prefix = compiled ? kCompiled : kModelPrefix;
  const Family& family = Gpt2Family();
  fields["tie_word_embeddings"] = HeadIsTied(*file, family, FileFormat::kNanoGpt, prefix);
  const GptConfig config = GptConfigFromJson(fields.dump(), where);
  RequireBlocks(config, std::ssize(file->tensors()), where);
  const auto refuse = [&](const TensorInfo& info) {
    throw InputError(fmt::format("{}: tensor '{}' is not part of the model", where, info.name),
                     "folio supports only GPT-2 models in this format");
  };
  FoundModel found{.model = FindParams(config, file, family, FileFormat::kNanoGpt, refuse, prefix)};
  if (const fs::path meta = FindMeta(file->path(), file->values()); !meta.empty()) {
    found.tokenizer = ReadNanoGptMeta(meta);
  } else {
    UseGpt2Encoding(found, "put the meta.pkl of nanoGPT's data set beside the checkpoint");
  }
  return found;
}

void SaveNanoGpt(const fs::path& path, const ModelToSave& model) {
  const GptConfig& config = model.weights.config();
  RequireExpressed(config, FileFormat::kNanoGpt, "nanoGPT cannot run this model");
  const bool characters = model.tokenizer != nullptr && model.tokenizer->kind() == "char";
  if (model.tokenizer != nullptr && !characters) RequireGpt2Tokens(*model.tokenizer);
  if (path.extension() == ".pt") {
    throw UsageError(fmt::format("{}: nanoGPT checkpoints are directories", path.string()),
                     "nanoGPT reads ckpt.pt from its out_dir", "give the directory");
  }
  // One setting for all biases.
  const bool bias =
      config.has_attention_bias() || config.has_mlp_bias() || config.has_layer_norm_bias();
  GptConfig described = bias ? WithBiases(config) : config;
  described.bias = bias;
  Json values = CheckpointValues(described);
  const MadeParents parents(path);
  AtomicDirectory dir(path);
  if (characters) {
    // sample.py joins "data", this and "meta.pkl" where it is started: in nanoGPT's directory.
    const fs::path name = fs::absolute(path / "").lexically_normal().parent_path().filename();
    values["config"] = {{"dataset", "../" + ReplaceInvalidUtf8(name.string())}};
    WriteFileAtomically(dir.path() / kNanoGptMetaFile, MetaOf(*model.tokenizer));
  }
  const Family& family = Gpt2Family();
  const auto tensors =
      TensorsToWrite(model.weights, described, family, FileFormat::kNanoGpt, model.dtype);
  const std::vector<std::pair<std::string, std::string>> tied = {
      {NameInFiles(family, FileFormat::kNanoGpt, -1, kHeadName, "weight"), tensors.front().name}};
  WriteTorchFile(dir.path() / kCheckpointFile, values, "model", tensors, tied);
  dir.Commit();
}

}  // namespace folio
