#include "folio/formats/model_formats.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <system_error>
#include <utility>

#include "folio/base/error.h"
#include "folio/formats/other_programs.h"
#include "folio/formats/published_models.h"
#include "folio/io/checksums.h"
#include "folio/io/file.h"
#include "folio/io/gguf.h"
#include "folio/io/model_dir.h"
#include "folio/model/checkpoint.h"
#include "folio/model/lora.h"
#include "folio/text/encodings.h"

namespace folio {
namespace {

// Hugging Face's model directory, which is folio's own too, or the weights in it alone:
// model/checkpoint.h with the tokenizer.

// Whatever else lies there: what is missing is said when it is opened.
bool IsHfDirectory(const std::filesystem::path& path) {
  std::error_code ignored;
  return std::filesystem::is_directory(path, ignored) ||
         (std::filesystem::is_regular_file(path, ignored) && IsWeightsName(path));
}

FoundModel OpenHfDirectory(const std::filesystem::path& path, Loading loading) {
  FoundModel found{.model = OpenModelDir(path, loading)};
  const std::string dir = (DirOfModel(path) / "").string();
  if (!TokenizerFiles(dir).empty()) found.tokenizer = LoadTokenizer(dir);
  return found;
}

void SaveHfDirectory(const std::filesystem::path& path, const ModelToSave& model) {
  const MadeParents parents(path);
  AtomicDirectory dir(path);
  SaveModel(dir.path(), model.weights, {.dtype = model.dtype});
  if (model.tokenizer != nullptr) model.tokenizer->Save(dir.path().string());
  dir.Commit();
}

std::vector<ListedTensor> ListHfTensors(const std::filesystem::path& path) {
  return ListTensors(*OpenWeights(path));
}

std::filesystem::path Located(const std::filesystem::path& path) {
  std::error_code ignored;
  const PublishedModel* published = FindPublishedModel(path.string());
  if (published != nullptr && !std::filesystem::exists(path, ignored)) {
    return FetchedModelDir(*published);
  }
  RequireTyped(path);
  // Not to be taken for a tokenizer of that name.
  const bool name = path == "bytes" || FindPublishedEncoding(path.string()) != nullptr;
  return name ? "." / path : path;
}

// Throws a kInput Error where a checkpoint is not what it was when it was saved.
void RequireSound(const std::filesystem::path& at) {
  const std::filesystem::path list = at / kChecksumsFile;
  std::error_code ignored;
  if (!std::filesystem::is_directory(at, ignored)) return;
  for (std::filesystem::file_time_type listed;;) {
    const auto before = std::exchange(listed, std::filesystem::last_write_time(list, ignored));
    try {
      VerifyChecksums(at, /*below=*/false);
      return;
    } catch (const Error& error) {
      // A run that goes on may have put a newer checkpoint there meanwhile.
      if (listed != before) continue;
      // The error of a list that was not copied along says already what to do.
      if (error.kind() != ErrorKind::kInput || !std::filesystem::exists(list, ignored)) throw;
      const std::filesystem::path run = at.parent_path();
      const bool best =
          at.filename() == kBestDir && std::filesystem::exists(run / kLastDir, ignored);
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

const ModelFormat& FormatOf(const std::filesystem::path& path) {
  const auto formats = ModelFormats();
  const auto format = std::ranges::find_if(
      formats, [&](const ModelFormat& candidate) { return candidate.recognises(path); });
  if (format != formats.end()) return *format;
  throw InputError(fmt::format("{}: no model here", path.string()),
                   "expected config.json and model.safetensors, or another program's model",
                   "give a run, or the directory of a checkpoint, such as RUN/last or RUN/best");
}

FoundModel FindModel(const std::filesystem::path& path, Loading loading,
                     const std::filesystem::path& adapter) {
  if (path.empty()) {
    throw InputError("no model is named", "its name is empty",
                     "give a run, a model directory or a model file: --model DIR");
  }
  const std::filesystem::path at = FindModelDir(Located(path));
  RequireSound(at);
  const ModelFormat& format = FormatOf(at);
  FoundModel found = format.open(at, loading);
  found.path = at;
  found.format = format.name;
  if (!adapter.empty()) found.model = WithAdapter(found.model, adapter);
  return found;
}

}  // namespace folio
