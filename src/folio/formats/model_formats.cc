#include "folio/formats/model_formats.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <deque>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "folio/base/error.h"
#include "folio/base/strings.h"
#include "folio/formats/other_programs.h"
#include "folio/io/checksums.h"
#include "folio/io/file.h"
#include "folio/io/gguf.h"
#include "folio/io/model_dir.h"
#include "folio/model/checkpoint.h"
#include "folio/model/lora.h"
#include "folio/text/encodings.h"

namespace folio {
namespace {

namespace fs = std::filesystem;

// Gives files that lie in a commit of a repository their addresses.
std::vector<PublishedFile> Addressed(std::string_view repository, std::string_view commit,
                                     std::vector<PublishedFile> files) {
  static std::deque<std::string> addresses;
  for (PublishedFile& file : files) {
    file.url = addresses.emplace_back(fmt::format(
        "https://huggingface.co/openai-community/{}/resolve/{}/{}", repository, commit, file.name));
  }
  return files;
}

std::vector<PublishedModel> MakeTable() {
  constexpr std::string_view kGpt2Commit = "607a30d783dfa663caf39e06633721c8d4cfcd7e";
  // One tokenizer for all of them.
  const std::vector<PublishedFile> tokenizer =
      Addressed("gpt2", kGpt2Commit,
                {{"tokenizer.json", "",
                  "8414cab924d8b9b33013f0d221c5862f365ee9be39c5c2bfae8a5a9e970478a6", 1355256},
                 {"tokenizer_config.json", "",
                  "5e04eb606e3a1583530a42e36c2a6b6615c86f34fe77e44d9ddeb43ff940931f", 26},
                 {"vocab.json", "",
                  "196139668be63f3b5d6574427317ae82f612a97c5d1cdaf36ed2256dbf636783", 1042301},
                 {"merges.txt", "",
                  "1ce1664773c50f3e0cc8842619a93edc4624525b728b188a9e0be33b7726adc5", 456318}});
  const auto model = [&](std::string_view name, std::string_view summary, std::string_view commit,
                         std::vector<PublishedFile> files) {
    files = Addressed(name, commit, std::move(files));
    files.insert(files.end() - 1, tokenizer.begin(), tokenizer.end());
    return PublishedModel{name, summary, std::move(files)};
  };
  constexpr std::string_view kConfig = "config.json", kGeneration = "generation_config.json",
                             kWeights = "model.safetensors";
  // The numbers of bytes of the two largest are limits.
  return {
      model("gpt2", "124M parameters", kGpt2Commit,
            {{kConfig, "", "0daed7749b4f02b8f76240d5444551d7b08712dab4d0adb8239c56ba823bb7b4", 665},
             {kGeneration, "", "ed0b32ac72c0f5f44a719abb2d7786ea5146c871f83717b7f2018065954de02b",
              124},
             {kWeights, "", "248dfc3911869ec493c76e65bf2fcf7f615828b0254c12b473182f0f81d3a707",
              548105171}}),
      model("gpt2-medium", "355M parameters", "6dcaa7a952f72f9298047fd5137cd6e4f05f41da",
            {{kConfig, "", "ef1a44d889ad1a0acc7731c78134f1b87d2d222f110e97dd10fd4117331caf22", 718},
             {kGeneration, "", "b90eadacf585a743a30ea51e8b5c88b8d282a2a34dc0c7e556d0987cdbd68805",
              124},
             {kWeights, "", "fc5a354a19255ad494f3d71549390baca1ccf61d1d822b9408971705c687c9cd",
              1519984962}}),
      model("gpt2-large", "774M parameters", "32b71b12589c2f8d625668d2335a01cac3249519",
            {{kConfig, "", "7fccdcfd6622055342a734c663ee0b61ff4fd697f42467595df0bf4448c8c170", 666},
             {kWeights, "", "5f47f3e12f91cd33b662ce7e433b6150ad5512b5884a2cee961b50e9c3bbebce",
              3247160000}}),
      model("gpt2-xl", "1558M parameters", "15ea56dee5df4983c59b2538573817e1667135e2",
            {{kConfig, "", "be48115d52314bc27327e160bf10197760db02ea689d10adb24db4102edf7a8a", 689},
             {kGeneration, "", "b90eadacf585a743a30ea51e8b5c88b8d282a2a34dc0c7e556d0987cdbd68805",
              124},
             {kWeights, "", "0f8b28eb05a8075f48b61b6f35332978c74fc7763fa9fb4051a1c30511736a6a",
              6431830000}})};
}

// Hugging Face's model directory, which is folio's own too, or the weights in it alone:
// model/checkpoint.h with the tokenizer.

// Whatever else lies there: what is missing is said when it is opened.
bool IsHfDirectory(const fs::path& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored) ||
         (fs::is_regular_file(path, ignored) && IsWeightsName(path));
}

FoundModel OpenHfDirectory(const fs::path& path, Loading loading) {
  FoundModel found{.model = OpenModelDir(path, loading)};
  const std::string dir = (DirOfModel(path) / "").string();
  if (!TokenizerFiles(dir).empty()) found.tokenizer = LoadTokenizer(dir);
  return found;
}

void SaveHfDirectory(const fs::path& path, const ModelToSave& model) {
  const MadeParents parents(path);
  AtomicDirectory dir(path);
  SaveModel(dir.path(), model.weights, {.dtype = model.dtype});
  if (model.tokenizer != nullptr) model.tokenizer->Save(dir.path().string());
  dir.Commit();
}

std::vector<ListedTensor> ListHfTensors(const fs::path& path) {
  return ListTensors(*OpenWeights(path));
}

fs::path Located(const fs::path& path) {
  std::error_code ignored;
  const PublishedModel* published = FindPublishedModel(path.string());
  if (published != nullptr && !fs::exists(path, ignored)) {
    return FetchedModelDir(*published);
  }
  RequireTyped(path);
  // Not to be taken for a tokenizer of that name.
  const bool name = path == "bytes" || FindPublishedEncoding(path.string()) != nullptr;
  return name ? "." / path : path;
}

// Throws a kInput Error where a checkpoint is not what it was when it was saved.
void RequireSound(const fs::path& at) {
  const fs::path list = at / kChecksumsFile;
  std::error_code ignored;
  if (!fs::is_directory(at, ignored)) return;
  for (fs::file_time_type listed;;) {
    const auto before = std::exchange(listed, fs::last_write_time(list, ignored));
    try {
      VerifyChecksums(at, /*below=*/false);
      return;
    } catch (const Error& error) {
      // A run that goes on may have put a newer checkpoint there meanwhile.
      if (listed != before) continue;
      // The error of a list that was not copied along says already what to do.
      if (error.kind() != ErrorKind::kInput || !fs::exists(list, ignored)) throw;
      const fs::path run = at.parent_path();
      const bool best = at.filename() == kBestDir && fs::exists(run / kLastDir, ignored);
      throw InputError(
          error.what(), error.cause(),
          (best
               ? fmt::format("{} is the newest checkpoint; folio train --resume --out {} makes the "
                             "best one again",
                             (run / kLastDir).string(), run.string())
               : std::string("take another checkpoint or a copy of this one")) +
              fmt::format("; where the change is meant, remove {}, and \"{}\" from {}",
                          list.string(), kChecksumsKey, kConfigFile));
    }
  }
}

}  // namespace

std::span<const PublishedModel> PublishedModels() {
  static const std::vector<PublishedModel> table = MakeTable();
  return table;
}

std::vector<std::string> PublishedModelNames() {
  std::vector<std::string> names;
  for (const PublishedModel& model : PublishedModels()) names.emplace_back(model.name);
  return names;
}

const PublishedModel* FindPublishedModel(std::string_view name) {
  const auto models = PublishedModels();
  const auto model = std::ranges::find(models, name, &PublishedModel::name);
  return model == models.end() ? nullptr : &*model;
}

fs::path PublishedModelDir(const PublishedModel& model) {
  const fs::path home = FetchedHome("models");
  return home.empty() ? home : home / model.name;
}

fs::path FetchedModelDir(const PublishedModel& model) {
  fs::path dir = PublishedModelDir(model);
  std::vector<std::string> missing;
  std::error_code ignored;
  for (const PublishedFile& file : model.files) {
    if (!fs::exists(dir / file.name, ignored)) missing.emplace_back(file.name);
  }
  if (missing.empty()) return dir;
  throw InputError(fmt::format("the model {} is not on this machine", model.name),
                   dir.empty() ? "there is no directory to look in: set HOME or FOLIO_HOME"
                               : fmt::format("{} not in {}", Join(missing, ", "), dir.string()),
                   fmt::format("type: folio fetch {}", model.name));
}

std::unique_ptr<Tokenizer> FindGpt2Encoding() {
  const std::vector<std::string> files = TokenizerFiles("gpt2");
  const bool there = std::ranges::all_of(files, [](const auto& file) { return fs::exists(file); });
  return there ? OpenTokenizer("gpt2") : nullptr;
}

void UseGpt2Encoding(FoundModel& found, const char* otherwise) {
  constexpr int64_t kTokens = 50257, kPadded = 50304;
  const int64_t V = found.model.config.vocab_size;
  if (V != kTokens && V != kPadded) {
    found.tokenizer_help = otherwise;
    return;
  }
  found.tokenizer = FindGpt2Encoding();
  if (found.tokenizer == nullptr) {
    found.tokenizer_help = "a vocabulary of this size is GPT-2's: folio tokenizer fetch gpt2";
  }
}

std::span<const ModelFormat> ModelFormats() {
  static constexpr std::array kGgufDtypes = {Dtype::kF32, Dtype::kF16, Dtype::kBF16, Dtype::kQ8_0,
                                             Dtype::kQ4_0};
  static constexpr std::array kLlmcDtypes = {Dtype::kF32, Dtype::kBF16};
  // Directories are not looked into before they are opened, so their format comes last.
  static constexpr std::array kFormats = {
      ModelFormat{.name = "gguf",
                  .title = "GGUF file",
                  .recognises = IsGguf,
                  .open = OpenGgufModel,
                  .save = SaveGgufModel,
                  .dtypes = kGgufDtypes,
                  .list = ListGgufTensors},
      ModelFormat{.name = "llmc",
                  .title = "llm.c model file",
                  .recognises = IsLlmc,
                  .open = OpenLlmc,
                  .save = SaveLlmc,
                  .dtypes = kLlmcDtypes},
      ModelFormat{.name = "openai",
                  .title = "OpenAI's TensorFlow checkpoint",
                  .recognises = IsOpenAiCheckpoint,
                  .open = OpenOpenAiCheckpoint},
      ModelFormat{.name = "nanogpt",
                  .title = "nanoGPT checkpoint",
                  .recognises = IsNanoGpt,
                  .open = OpenNanoGpt,
                  .save = SaveNanoGpt,
                  .dtypes = kModelDirDtypes},
      ModelFormat{.name = "hf",
                  .title = "Hugging Face directory",
                  .recognises = IsHfDirectory,
                  .open = OpenHfDirectory,
                  .save = SaveHfDirectory,
                  .dtypes = kModelDirDtypes,
                  .list = ListHfTensors},
  };
  return kFormats;
}

std::vector<ListedTensor> ListTensors(const TensorFile& file) {
  std::vector<ListedTensor> listed;
  for (const TensorInfo& info : file.tensors()) {
    listed.push_back({info.name, std::string(DtypeName(info.dtype)), info.shape, info.bytes});
  }
  return listed;
}

const ModelFormat& FormatOf(const fs::path& path) {
  const auto formats = ModelFormats();
  const auto format = std::ranges::find_if(
      formats, [&](const ModelFormat& candidate) { return candidate.recognises(path); });
  if (format != formats.end()) return *format;
  throw InputError(fmt::format("{}: no model here", path.string()),
                   "expected config.json and model.safetensors, or another program's model",
                   "give a run, or the directory of a checkpoint, such as RUN/last or RUN/best");
}

FoundModel FindModel(const fs::path& path, Loading loading, const fs::path& adapter) {
  if (path.empty()) {
    throw InputError("no model is named", "its name is empty",
                     "give a run, a model directory or a model file: --model DIR");
  }
  const fs::path at = FindModelDir(Located(path));
  RequireSound(at);
  const ModelFormat& format = FormatOf(at);
  FoundModel found = format.open(at, loading);
  found.path = at;
  found.format = format.name;
  if (!adapter.empty()) found.model = WithAdapter(found.model, adapter);
  return found;
}

}  // namespace folio
