#include "folio/formats/nanogpt.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "folio/base/error.h"
#include "folio/base/utf8.h"
#include "folio/formats/gpt2_encoding.h"
#include "folio/formats/out_in_model.h"
#include "folio/io/file.h"
#include "folio/io/model_dir.h"
#include "folio/io/pickle_writer.h"
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

// --- writing

void RequireNanoGpt(const GptConfig& config) {
  std::string why = WhyNotOnlySizes(config);
  if (config.activation_function != "gelu" && config.activation_function != "gelu_new") {
    why += fmt::format("{}activation_function = {}", why.empty() ? "" : ", ",
                       config.activation_function);
  }
  if (why.empty()) return;
  throw InputError("nanoGPT cannot run this model", "it has " + why,
                   "convert it to another format");
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
      "nanoGPT cannot read this model's tokenizer",
      fmt::format("it has {} tokens of kind {}; nanoGPT knows characters and GPT-2's tokens{}",
                  tokenizer.vocab_size(), tokenizer.kind(),
                  gpt2 == nullptr ? ", which are not on this machine to compare" : ""),
      gpt2 == nullptr ? "if these are GPT-2's: folio tokenizer fetch gpt2"
                      : "convert it to another format");
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

Json CheckpointValues(const GptConfig& config, bool bias) {
  return {{"model_args",
           {{"n_layer", config.n_layer},
            {"n_head", config.n_head},
            {"n_embd", config.n_embd},
            {"block_size", config.n_positions},
            {"bias", bias},
            {"vocab_size", config.vocab_size},
            {"dropout", config.resid_pdrop}}},
          {"iter_num", 0},
          {"best_val_loss", 1e9}};
}

}  // namespace

bool IsNanoGpt(const fs::path& path) {
  std::error_code ignored;
  const fs::path file = FileOf(path);
  const bool may_be_hf = fs::is_directory(path, ignored) || IsWeightsName(path);
  return IsTorchFile(file) && !(may_be_hf && fs::exists(DirOfModel(file) / kConfigFile, ignored));
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

void SaveNanoGpt(const fs::path& path, const ModelToSave& model) {
  const GptConfig& config = model.weights.config();
  RequireNanoGpt(config);
  const bool characters = model.tokenizer != nullptr && model.tokenizer->kind() == "char";
  if (model.tokenizer != nullptr && !characters) RequireGpt2Tokens(*model.tokenizer);
  if (path.extension() == ".pt") {
    throw UsageError(fmt::format("{}: nanoGPT's files lie in a directory", path.string()),
                     "it looks for ckpt.pt in its out_dir", "name that directory");
  }
  // One setting for all biases.
  const bool bias =
      config.has_attention_bias() || config.has_mlp_bias() || config.has_layer_norm_bias();
  Json values = CheckpointValues(config, bias);
  const MadeParents parents(path);
  AtomicDirectory dir(path);
  if (characters) {
    // sample.py joins "data", this and "meta.pkl" where it is started: in nanoGPT's directory.
    const fs::path name = fs::absolute(path / "").lexically_normal().parent_path().filename();
    values["config"] = {{"dataset", "../" + ReplaceInvalidUtf8(name.string())}};
    WriteFileAtomically(dir.path() / kNanoGptMetaFile, MetaOf(*model.tokenizer));
  }
  const auto tensors = OutInTensors(model.weights, bias, model.dtype);
  const std::vector<std::pair<std::string, std::string>> tied = {
      {fmt::format("{}.weight", kHeadName), tensors.front().name}};
  WriteTorchFile(dir.path() / kCheckpointFile, values, "model", tensors, tied);
  dir.Commit();
}

}  // namespace folio
