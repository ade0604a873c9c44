#include "folio/formats/published_models.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "folio/base/error.h"
#include "folio/base/strings.h"
#include "folio/io/model_dir.h"

namespace folio {
namespace {

namespace fs = std::filesystem;

// One tokenizer for all of them.
constexpr PublishedFile kTokenizerJson = {
    "tokenizer.json",
    "https://huggingface.co/openai-community/gpt2/resolve/607a30d783dfa663caf39e06633721c8d4cfcd7e/"
    "tokenizer.json",
    "8414cab924d8b9b33013f0d221c5862f365ee9be39c5c2bfae8a5a9e970478a6", 1355256};
constexpr PublishedFile kTokenizerConfigJson = {
    "tokenizer_config.json",
    "https://huggingface.co/openai-community/gpt2/resolve/607a30d783dfa663caf39e06633721c8d4cfcd7e/"
    "tokenizer_config.json",
    "5e04eb606e3a1583530a42e36c2a6b6615c86f34fe77e44d9ddeb43ff940931f", 26};
constexpr PublishedFile kVocabJson = {
    "vocab.json",
    "https://huggingface.co/openai-community/gpt2/resolve/607a30d783dfa663caf39e06633721c8d4cfcd7e/"
    "vocab.json",
    "196139668be63f3b5d6574427317ae82f612a97c5d1cdaf36ed2256dbf636783", 1042301};
constexpr PublishedFile kMergesTxt = {
    "merges.txt",
    "https://huggingface.co/openai-community/gpt2/resolve/607a30d783dfa663caf39e06633721c8d4cfcd7e/"
    "merges.txt",
    "1ce1664773c50f3e0cc8842619a93edc4624525b728b188a9e0be33b7726adc5", 456318};

const std::vector<PublishedModel>& Table() {
  // The numbers of bytes of the two largest are limits.
  static const std::vector<PublishedModel> table = {
      {"gpt2",
       "124M parameters",
       {{"config.json",
         "https://huggingface.co/openai-community/gpt2/resolve/"
         "607a30d783dfa663caf39e06633721c8d4cfcd7e/config.json",
         "0daed7749b4f02b8f76240d5444551d7b08712dab4d0adb8239c56ba823bb7b4", 665},
        {"generation_config.json",
         "https://huggingface.co/openai-community/gpt2/resolve/"
         "607a30d783dfa663caf39e06633721c8d4cfcd7e/generation_config.json",
         "ed0b32ac72c0f5f44a719abb2d7786ea5146c871f83717b7f2018065954de02b", 124},
        kTokenizerJson,
        kTokenizerConfigJson,
        kVocabJson,
        kMergesTxt,
        {"model.safetensors",
         "https://huggingface.co/openai-community/gpt2/resolve/"
         "607a30d783dfa663caf39e06633721c8d4cfcd7e/model.safetensors",
         "248dfc3911869ec493c76e65bf2fcf7f615828b0254c12b473182f0f81d3a707", 548105171}}},
      {"gpt2-medium",
       "355M parameters",
       {{"config.json",
         "https://huggingface.co/openai-community/gpt2-medium/resolve/"
         "6dcaa7a952f72f9298047fd5137cd6e4f05f41da/config.json",
         "ef1a44d889ad1a0acc7731c78134f1b87d2d222f110e97dd10fd4117331caf22", 718},
        {"generation_config.json",
         "https://huggingface.co/openai-community/gpt2-medium/resolve/"
         "6dcaa7a952f72f9298047fd5137cd6e4f05f41da/generation_config.json",
         "b90eadacf585a743a30ea51e8b5c88b8d282a2a34dc0c7e556d0987cdbd68805", 124},
        kTokenizerJson,
        kTokenizerConfigJson,
        kVocabJson,
        kMergesTxt,
        {"model.safetensors",
         "https://huggingface.co/openai-community/gpt2-medium/resolve/"
         "6dcaa7a952f72f9298047fd5137cd6e4f05f41da/model.safetensors",
         "fc5a354a19255ad494f3d71549390baca1ccf61d1d822b9408971705c687c9cd", 1519984962}}},
      {"gpt2-large",
       "774M parameters",
       {{"config.json",
         "https://huggingface.co/openai-community/gpt2-large/resolve/"
         "32b71b12589c2f8d625668d2335a01cac3249519/config.json",
         "7fccdcfd6622055342a734c663ee0b61ff4fd697f42467595df0bf4448c8c170", 666},
        kTokenizerJson,
        kTokenizerConfigJson,
        kVocabJson,
        kMergesTxt,
        {"model.safetensors",
         "https://huggingface.co/openai-community/gpt2-large/resolve/"
         "32b71b12589c2f8d625668d2335a01cac3249519/model.safetensors",
         "5f47f3e12f91cd33b662ce7e433b6150ad5512b5884a2cee961b50e9c3bbebce", 3247160000}}},
      {"gpt2-xl",
       "1558M parameters",
       {{"config.json",
         "https://huggingface.co/openai-community/gpt2-xl/resolve/"
         "15ea56dee5df4983c59b2538573817e1667135e2/config.json",
         "be48115d52314bc27327e160bf10197760db02ea689d10adb24db4102edf7a8a", 689},
        {"generation_config.json",
         "https://huggingface.co/openai-community/gpt2-xl/resolve/"
         "15ea56dee5df4983c59b2538573817e1667135e2/generation_config.json",
         "b90eadacf585a743a30ea51e8b5c88b8d282a2a34dc0c7e556d0987cdbd68805", 124},
        kTokenizerJson,
        kTokenizerConfigJson,
        kVocabJson,
        kMergesTxt,
        {"model.safetensors",
         "https://huggingface.co/openai-community/gpt2-xl/resolve/"
         "15ea56dee5df4983c59b2538573817e1667135e2/model.safetensors",
         "0f8b28eb05a8075f48b61b6f35332978c74fc7763fa9fb4051a1c30511736a6a", 6431830000}}},
  };
  return table;
}

}  // namespace

std::span<const PublishedModel> PublishedModels() {
  return Table();
}

std::vector<std::string> PublishedModelNames() {
  std::vector<std::string> names;
  for (const PublishedModel& model : Table()) names.emplace_back(model.name);
  return names;
}

const PublishedModel* FindPublishedModel(std::string_view name) {
  const auto model = std::ranges::find(Table(), name, &PublishedModel::name);
  return model == Table().end() ? nullptr : &*model;
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

}  // namespace folio
