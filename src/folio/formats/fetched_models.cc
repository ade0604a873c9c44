#include "folio/formats/fetched_models.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <functional>
#include <map>
#include <system_error>
#include <utility>

#include "folio/base/error.h"
#include "folio/base/strings.h"
#include "folio/formats/published_models.h"
#include "folio/io/file.h"
#include "folio/io/model_dir.h"
#include "folio/io/posix.h"
#include "folio/model/lora.h"
#include "folio/text/published_encodings.h"

namespace folio {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kGgufEnding = ".gguf";

bool IsLetterOrDigit(char c) {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

std::string FileName(const std::string& path) {
  return path.substr(path.rfind('/') + 1);  // npos + 1 is 0
}

// A part of a model that is cut into several: "BEFORE-00002-of-00003.EXTENSION".
struct Part {
  std::string before;
  int number = 0, count = 0;
};

std::optional<Part> PartOf(std::string_view path, std::string_view extension) {
  constexpr std::string_view kForm = "-00001-of-00003";
  if (!path.ends_with(extension)) return {};
  path.remove_suffix(extension.size());
  if (path.size() <= kForm.size()) return {};
  const std::string_view form = path.substr(path.size() - kForm.size());
  const auto number = [&](size_t at) {
    int value = 0;
    const char* end = form.data() + at + 5;
    const auto read = std::from_chars(form.data() + at, end, value);
    return read.ec == std::errc() && read.ptr == end ? value : 0;
  };
  Part part{.before = std::string(path.substr(0, path.size() - kForm.size())),
            .number = number(1),
            .count = number(10)};
  const bool sound = form[0] == '-' && form.substr(6, 4) == "-of-" && part.number >= 1 &&
                     part.number <= part.count;
  return sound ? std::optional(part) : std::nullopt;
}

// The files of one model, the first part last; throws where one is missing.
template <class File>
std::vector<File> Whole(std::vector<File> parts, int count, const std::string& name,
                        const std::function<std::string(const File&)>& path_of) {
  std::ranges::sort(parts, std::greater(), path_of);
  if (std::ssize(parts) == count) return parts;
  throw InputError(fmt::format("{} is incomplete", name),
                   fmt::format("{} of its {} parts are present", parts.size(), count));
}

// GGUF files of a place by the model that they are, a single file or all parts of one: its path, or
// that of the first part.
template <class File>
std::map<std::string, std::vector<File>> GgufModels(
    const std::vector<File>& files, const std::function<std::string(const File&)>& path_of) {
  struct Split {
    std::vector<File> parts;
    int count = 0;
  };
  std::map<std::string, Split> splits;
  std::map<std::string, std::vector<File>> models;
  for (const File& file : files) {
    const std::string path = path_of(file);
    const std::string name = LowerAscii(FileName(path));
    // Projectors for images and importance matrices lie beside language models.
    const bool other = name.starts_with("mmproj") || name.find("imatrix") != name.npos;
    if (!name.ends_with(kGgufEnding) || other) continue;
    if (const auto part = PartOf(path, kGgufEnding)) {
      Split& split =
          splits[fmt::format("{}-00001-of-{:05}{}", part->before, part->count, kGgufEnding)];
      split.parts.push_back(file);
      split.count = part->count;
    } else {
      models[path].push_back(file);
    }
  }
  for (auto& [first, split] : splits) {
    models[first] = Whole<File>(std::move(split.parts), split.count, first, path_of);
  }
  return models;
}

// Returns true if `which` is the path, its file name, or a part of that between signs other than
// letters and digits.
bool Means(const std::string& which, const std::string& path) {
  const std::string name = LowerAscii(FileName(path)), wanted = LowerAscii(which);
  if (which == path || wanted == name || wanted + std::string(kGgufEnding) == name) return true;
  for (size_t at = name.find(wanted); at != name.npos; at = name.find(wanted, at + 1)) {
    const size_t end = at + wanted.size();
    const bool begins = at == 0 || !IsLetterOrDigit(name[at - 1]);
    const bool ends = end == name.size() || (!IsLetterOrDigit(name[end]) && name[end] != '_');
    if (begins && ends) return true;
  }
  return false;
}

// The one model of several that is meant.
template <class File>
const std::pair<const std::string, std::vector<File>>& Chosen(
    const RepositoryModel& wanted, const std::map<std::string, std::vector<File>>& models,
    std::string_view usual) {
  using Found = std::vector<const std::pair<const std::string, std::vector<File>>*>;
  const auto matching = [&](std::string_view which) {
    Found found;
    for (const auto& model : models) {
      if (which.empty() || Means(std::string(which), model.first)) found.push_back(&model);
    }
    return found;
  };
  Found found = matching(wanted.which);
  if (found.size() > 1 && wanted.which.empty() && !usual.empty()) {
    if (const Found best = matching(usual); best.size() == 1) found = best;
  }
  if (found.size() == 1) return *found.front();
  std::vector<std::string> names;
  for (const auto& [path, files] : models) names.push_back(path);
  throw UsageError(
      found.empty() ? fmt::format("{} has no GGUF file '{}'", wanted.repository, wanted.which)
                    : fmt::format("{} has several GGUF files{}", wanted.repository,
                                  wanted.which.empty() ? "" : fmt::format(" '{}'", wanted.which)),
      names.empty() ? "it has none" : fmt::format("there are {}", Join(names, ", ")),
      names.empty() ? fmt::format("give the repository only: {}", wanted.repository)
                    : fmt::format("choose one: {}:{}", wanted.repository, names.front()));
}

// Small files of a model directory, beside config.json.
bool IsSmallPart(const std::string& path) {
  constexpr std::array<std::string_view, 12> kNames = {"config.json",
                                                       "generation_config.json",
                                                       "tokenizer.json",
                                                       "tokenizer_config.json",
                                                       "special_tokens_map.json",
                                                       "added_tokens.json",
                                                       "vocab.json",
                                                       "merges.txt",
                                                       "tokenizer.model",
                                                       "chat_template.jinja",
                                                       "chat_template.json",
                                                       "adapter_config.json"};
  return std::ranges::count(kNames, path) > 0 ||
         (path.starts_with("additional_chat_templates/") && path.ends_with(".jinja"));
}

const HubFile* Named(const std::vector<HubFile>& files, std::string_view path) {
  const auto found = std::ranges::find(files, path, &HubFile::path);
  return found == files.end() ? nullptr : &*found;
}

// The weights of a model directory; the file by which they are found last.
std::vector<HubFile> WeightsIn(const std::string& repository, const std::vector<HubFile>& files) {
  if (const HubFile* one = Named(files, kWeightsFile)) return {*one};
  if (const HubFile* index = Named(files, kWeightsIndexFile)) {
    std::vector<HubFile> shards;
    int count = 0;
    for (const HubFile& file : files) {
      const auto part = PartOf(file.path, ".safetensors");
      if (!part || part->before != "model") continue;
      shards.push_back(file);
      count = part->count;
    }
    shards = Whole<HubFile>(std::move(shards), count, repository, &HubFile::path);
    shards.push_back(*index);
    return shards;
  }
  if (const HubFile* adapter = Named(files, kAdapterWeightsFile)) return {*adapter};
  return {};
}

int64_t TimeOf(const fs::path& path) {
  std::error_code ignored;
  const auto time = std::chrono::file_clock::to_sys(fs::last_write_time(path, ignored));
  return std::chrono::duration_cast<std::chrono::seconds>(time.time_since_epoch()).count();
}

// GGUF files below a directory, relative to it.
std::vector<std::string> GgufFilesIn(const fs::path& dir) {
  std::vector<std::string> paths;
  std::error_code failed, ignored;
  for (fs::recursive_directory_iterator it(dir, failed), end; !failed && it != end;
       it.increment(failed)) {
    if (it->path().filename().string().starts_with('.')) {
      it.disable_recursion_pending();
    } else if (it->is_regular_file(ignored)) {
      paths.push_back(it->path().lexically_relative(dir).generic_string());
    }
  }
  return paths;
}

std::map<std::string, std::vector<std::string>> GgufModelsIn(const fs::path& dir) {
  return GgufModels<std::string>(GgufFilesIn(dir), std::identity());
}

// Returns the file of a directory's model that arrives last; empty where there is no model.
fs::path WeightsOfDir(const fs::path& dir) {
  for (const char* name : {kWeightsFile, kWeightsIndexFile, kAdapterWeightsFile}) {
    if (IsFile(dir / name)) return dir / name;
  }
  return {};
}

// The contents of the directory of a name.
void AddModelsIn(const std::string& name, const fs::path& dir, std::vector<FetchedModel>& all) {
  if (const fs::path weights = WeightsOfDir(dir); !weights.empty()) {
    const bool adapter = weights.filename() == kAdapterWeightsFile;
    all.push_back({.name = name,
                   .path = dir,
                   .kind = adapter ? "adapter" : "safetensors",
                   .bytes = BytesBelow(dir) - BytesBelow(dir / kArrivingDir),
                   .fetched_at = TimeOf(weights)});
  }
  const auto ggufs = GgufModelsIn(dir);
  for (const auto& [path, files] : ggufs) {
    uint64_t bytes = 0;
    std::error_code ignored;
    for (const std::string& file : files) bytes += fs::file_size(dir / file, ignored);
    all.push_back({.name = ggufs.size() == 1 ? name : fmt::format("{}:{}", name, path),
                   .path = dir / path,
                   .kind = "GGUF",
                   .bytes = bytes,
                   .fetched_at = TimeOf(dir / path)});
  }
  if (const uint64_t bytes = BytesBelow(dir / kArrivingDir); bytes > 0) {
    all.push_back({.name = name,
                   .path = dir / kArrivingDir,
                   .kind = "incomplete",
                   .bytes = bytes,
                   .fetched_at = TimeOf(dir / kArrivingDir)});
  }
}

}  // namespace

uint64_t BytesBelow(const fs::path& dir) {
  uint64_t bytes = 0;
  std::error_code failed, ignored;
  for (fs::recursive_directory_iterator it(dir, failed), end; !failed && it != end;
       it.increment(failed)) {
    if (it->is_regular_file(ignored) && !it->is_symlink(ignored)) bytes += it->file_size(ignored);
  }
  return bytes;
}

std::optional<RepositoryModel> ParseRepositoryModel(std::string_view name) {
  const size_t colon = name.find(':');
  RepositoryModel model{std::string(name.substr(0, colon)),
                        colon == name.npos ? "" : std::string(name.substr(colon + 1))};
  if (!IsRepositoryName(model.repository)) return {};
  if (colon != name.npos && model.which.empty()) return {};
  return model;
}

std::vector<HubFile> FilesOfModel(const RepositoryModel& model, const std::vector<HubFile>& files) {
  std::vector<HubFile> weights;
  if (model.which.empty()) weights = WeightsIn(model.repository, files);
  if (!weights.empty()) {
    std::vector<HubFile> all;
    for (const HubFile& file : files) {
      if (IsSmallPart(file.path)) all.push_back(file);
    }
    all.insert(all.end(), weights.begin(), weights.end());
    return all;
  }
  const auto ggufs = GgufModels<HubFile>(files, &HubFile::path);
  if (!ggufs.empty() || !model.which.empty()) return Chosen(model, ggufs, "Q4_K_M").second;
  std::vector<std::string> others;
  for (const HubFile& file : files) {
    const std::string& path = file.path;
    const bool weighs = path.ends_with(".bin") || path.ends_with(".pth") || path.ends_with(".pt") ||
                        path.ends_with(".safetensors") || path.ends_with(".onnx") ||
                        path.ends_with(".h5");
    if (weighs && others.size() < 4) others.push_back(path);
  }
  throw InputError(fmt::format("{} has no model that folio can download", model.repository),
                   others.empty() ? "it has neither safetensors nor GGUF files"
                                  : fmt::format("it has {}", Join(others, ", ")),
                   fmt::format("expected {}, {} or a .gguf file", kWeightsFile, kWeightsIndexFile));
}

fs::path FetchedDir(std::string_view name) {
  if (const PublishedModel* published = FindPublishedModel(name)) {
    return PublishedModelDir(*published);
  }
  const fs::path home = FetchedHome("models");
  const auto model = ParseRepositoryModel(name);
  return model && !home.empty() ? home / model->repository : fs::path();
}

fs::path FindFetchedModel(std::string_view name) {
  const auto model = ParseRepositoryModel(name);
  fs::path dir = FetchedDir(name);
  if (!model || dir.empty() || !IsDirectory(dir)) return {};
  if (model->which.empty() && !WeightsOfDir(dir).empty()) return dir;
  const auto ggufs = GgufModelsIn(dir);
  if (ggufs.empty()) return {};
  return dir / Chosen(*model, ggufs, "").first;
}

std::vector<FetchedModel> FetchedModels() {
  std::vector<FetchedModel> all;
  const fs::path home = FetchedHome("models");
  if (home.empty()) return all;
  std::vector<std::string> owners = NamesIn(home);
  std::ranges::sort(owners);
  for (const std::string& owner : owners) {
    if (FindPublishedModel(owner) != nullptr) {
      AddModelsIn(owner, home / owner, all);
      continue;
    }
    std::vector<std::string> names = NamesIn(home / owner);
    std::ranges::sort(names);
    for (const std::string& name : names) {
      const std::string repository = owner + "/" + name;
      if (IsRepositoryName(repository)) AddModelsIn(repository, home / owner / name, all);
    }
  }
  return all;
}

uint64_t RemoveFetchedModel(const std::string& name) {
  const std::vector<FetchedModel> all = FetchedModels();
  const auto repository = ParseRepositoryModel(name);
  const fs::path dir = FetchedDir(name);
  const bool there = !dir.empty() && std::ranges::any_of(all, [&](const FetchedModel& model) {
    return model.path.string().starts_with((dir / "").string()) || model.path == dir;
  });
  if (!there) {
    std::vector<std::string> names;
    for (const FetchedModel& model : all) names.push_back(model.name);
    const std::string nearest = Nearest(name, names);
    throw InputError(fmt::format("there is no fetched model {}", name),
                     names.empty() ? "no model has been fetched"
                                   : fmt::format("there are {}", Join(names, ", ")),
                     nearest.empty() ? "" : fmt::format("did you mean '{}'?", nearest));
  }
  const auto remove = [](const fs::path& path) {
    if (const std::error_code error = internal::RemoveTree(path)) {
      internal::ThrowCannotWrite(path, error.value());
    }
  };
  if (repository && !repository->which.empty()) {
    const auto ggufs = GgufModelsIn(dir);
    const auto& [path, files] = Chosen(*repository, ggufs, "");
    if (ggufs.size() > 1) {
      uint64_t bytes = 0;
      std::error_code ignored;
      for (const std::string& file : files) {
        bytes += fs::file_size(dir / file, ignored);
        remove(dir / file);
      }
      return bytes;
    }
  }
  const uint64_t bytes = BytesBelow(dir);
  remove(dir);
  if (repository && NamesIn(dir.parent_path()).empty()) remove(dir.parent_path());
  return bytes;
}

}  // namespace folio
