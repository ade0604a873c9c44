#include "folio/io/model_dir.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <system_error>
#include <vector>

#include "folio/base/error.h"
#include "folio/io/file.h"
#include "folio/io/posix.h"

namespace folio {
namespace {

namespace fs = std::filesystem;

// Returns true if `name` is `plain` with one additional word: model.fp16.safetensors. A shard's
// name, model.fp16-00001-of-00002.safetensors, is not.
bool IsVariant(std::string_view name, std::string_view plain) {
  const size_t dot = plain.rfind('.');
  const std::string_view front = plain.substr(0, dot + 1), back = plain.substr(dot);
  if (name.size() <= front.size() + back.size() || !name.starts_with(front) ||
      !name.ends_with(back)) {
    return false;
  }
  const std::string_view word = name.substr(front.size(), name.size() - front.size() - back.size());
  return word.find_first_of(".-") == word.npos;
}

// The variants of the first of kWeightsFiles that has any, sorted by name.
std::vector<std::string> FindVariants(const fs::path& dir) {
  const std::vector<std::string> names = NamesIn(dir);
  std::vector<std::string> found;
  for (const char* plain : kWeightsFiles) {
    std::ranges::copy_if(names, std::back_inserter(found),
                         [&](const std::string& name) { return IsVariant(name, plain); });
    if (!found.empty()) break;
  }
  std::ranges::sort(found);
  return found;
}

fs::path FindPlainWeights(const fs::path& dir) {
  for (const char* name : kWeightsFiles) {
    if (Exists(dir / name)) return dir / name;
  }
  return {};
}

bool HoldsModel(const fs::path& dir) {
  if (Exists(dir / kBaseModelFile)) return true;
  return Exists(dir / kConfigFile) &&
         (!FindPlainWeights(dir).empty() || !FindVariants(dir).empty());
}

}  // namespace

fs::path FindWeightsFile(const fs::path& dir) {
  if (fs::path plain = FindPlainWeights(dir); !plain.empty()) return plain;
  const std::vector<std::string> variants = FindVariants(dir);
  if (variants.size() > 1) {
    throw InputError(fmt::format("{}: several variants of a model", dir.string()),
                     fmt::format("it contains {}", fmt::join(variants, ", ")),
                     fmt::format("choose one: {}", (dir / variants.front()).string()));
  }
  return variants.empty() ? fs::path() : dir / variants.front();
}

bool IsIndexName(const fs::path& path) {
  return path.extension() == ".json" &&
         path.filename().string().find(".index.") != std::string::npos;
}

bool IsTorchName(const fs::path& path) {
  return path.filename().string().starts_with("pytorch_model");
}

bool IsWeightsName(const fs::path& path) {
  return path.extension() == ".safetensors" || IsIndexName(path) ||
         (IsTorchName(path) && path.extension() == ".bin");
}

std::string OtherProgramsModel(const fs::path& path) {
  struct Other {
    std::string_view ending, program;
  };
  constexpr Other kOthers[] = {{".onnx", "ONNX"},
                               {".h5", "Keras or TensorFlow"},
                               {".msgpack", "Flax"},
                               {".tflite", "TensorFlow Lite"},
                               {".npz", "NumPy"},
                               {".mlpackage", "Core ML"},
                               {".mlmodel", "Core ML"},
                               {".engine", "TensorRT"},
                               {".nemo", "NeMo"},
                               {"openvino_model.xml", "OpenVINO"},
                               {"consolidated.00.pth", "Meta or Mistral"},
                               {"consolidated.safetensors", "Mistral"}};
  std::vector<std::string> names = {path.filename().string()};
  if (IsDirectory(path)) names = NamesIn(path);
  std::ranges::sort(names);
  for (const Other& other : kOthers) {
    const auto found = std::ranges::find_if(
        names, [&](const std::string& name) { return name.ends_with(other.ending); });
    if (found == names.end()) continue;
    return fmt::format("{} is in the format of {}, which folio does not support", *found,
                       other.program);
  }
  std::error_code ignored;
  if (IsFile(path) && fs::file_size(path, ignored) == 0)
    return fmt::format("{} is empty", names[0]);
  constexpr std::string_view kOldGgml[] = {"lmgg", "fmgg", "tjgg"};
  const bool old = IsFile(path) && std::ranges::any_of(kOldGgml, [&](std::string_view mark) {
                     return FileBeginsWith(path, mark);
                   });
  return old ? fmt::format("{} is in ggml's format before GGUF, which folio does not support",
                           names[0])
             : std::string();
}

fs::path DirOfModel(const fs::path& path) {
  if (!IsFile(path)) return path;
  return path.has_parent_path() ? path.parent_path() : fs::path(".");
}

fs::path FindModelDir(const fs::path& dir) {
  if (HoldsModel(dir)) return dir;
  const auto checkpoint_of = [](const fs::path& run) -> fs::path {
    for (const char* checkpoint : {kBestDir, kLastDir}) {
      if (HoldsModel(run / checkpoint)) return run / checkpoint;
    }
    return {};
  };
  fs::path found = checkpoint_of(dir);
  if (found.empty() && IsDirectory(dir)) {
    const GuardedDirectory inside(dir);
    for (const char* checkpoint : {kBestDir, kLastDir}) {
      internal::CleanLeftovers(internal::HeldName(dir / checkpoint));
    }
    found = checkpoint_of(dir);
    const bool interrupted = Exists(dir / kNewRunDir);
    if (found.empty() && interrupted) found = checkpoint_of(dir / kOldRunDir);
  }
  return found.empty() ? dir : found;
}

}  // namespace folio
