#include "folio/formats/published_models.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "folio/base/error.h"
#include "folio/base/strings.h"
#include "folio/io/model_dir.h"
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
  const bool there =
      std::ranges::all_of(files, [](const auto& file) { return std::filesystem::exists(file); });
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

}  // namespace folio
