#include "folio/text/encodings.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "folio/base/error.h"
#include "folio/base/strings.h"
#include "folio/io/file.h"
#include "folio/io/model_dir.h"
#include "folio/io/posix.h"
#include "folio/text/bpe_tokenizer.h"
#include "folio/text/byte_tokenizer.h"
#include "folio/text/published_encodings.h"
#include "folio/text/tokenizer_file.h"
#include "folio/text/vocab_files.h"

namespace folio {
namespace {

namespace fs = std::filesystem;

std::unique_ptr<Tokenizer> OpenPublished(const PublishedEncoding& encoding) {
  const std::string home = FetchedHome("tokenizers");
  const fs::path dir = fs::path(home) / encoding.name;
  std::vector<std::string> missing;
  for (const PublishedFile& file : encoding.files) {
    if (!Exists(EncodingFile(encoding, file))) missing.emplace_back(file.name);
  }
  if (!missing.empty()) {
    throw InputError(
        fmt::format("the tokenizer {} is not on this machine", encoding.name),
        home.empty() ? "there is no directory for tokenizers: set HOME or FOLIO_HOME"
                     : fmt::format("{} not in {}", Join(missing, ", "), dir.string()),
        fmt::format("download it: folio tokenizer fetch {}; without a network, put {} there",
                    encoding.name, missing.size() == 1 ? "the file" : "the files"));
  }
  const auto path = [&](size_t i) { return EncodingFile(encoding, encoding.files[i]); };
  const std::string name(encoding.name);
  return std::make_unique<BpeTokenizer>(encoding.files.size() == 1
                                            ? ReadTiktoken(path(0), name)
                                            : ReadVocabAndMerges(path(1), path(0), {.name = name}));
}

constexpr std::string_view kFileNames[] = {kTokenizerFile,  kTokenizerConfigFile, kVocabFile,
                                           kMergesFile,     "encoder.json",       "vocab.bpe",
                                           kNanoGptMetaFile};

// `spec`, or the checkpoint if it is a run directory.
std::string CheckpointOfRun(const std::string& spec) {
  for (const std::string_view name : kFileNames) {
    if (Exists(fs::path(spec) / name)) return spec;
  }
  return FindModelDir(spec).string();
}

// The encoding of a model that users name instead, by the beginning of the model's name:
// "gpt-4-turbo" is "gpt4turbo" here. "" if it is unknown.
std::string_view EncodingOfModel(std::string name) {
  constexpr std::pair<std::string_view, std::string_view> kModels[] = {
      {"gpt4o", "o200k_base"},        {"gpt41", "o200k_base"},     {"gpt45", "o200k_base"},
      {"gpt5", "o200k_base"},         {"o1", "o200k_base"},        {"o3", "o200k_base"},
      {"o4", "o200k_base"},           {"chatgpt4o", "o200k_base"}, {"gpt4", "cl100k_base"},
      {"gpt35", "cl100k_base"},       {"chatgpt", "cl100k_base"},  {"textembedding", "cl100k_base"},
      {"textdavinci00", "p50k_base"}, {"codex", "p50k_base"},      {"codedavinci", "p50k_base"},
      {"gpt3", "r50k_base"},          {"davinci", "r50k_base"},    {"gpt2", "gpt2"},
      {"tiktoken", "o200k_base"},
  };
  std::erase_if(name, [](char c) { return c == '-' || c == '_' || c == '.' || c == ' '; });
  name = LowerAscii(name);
  for (const auto& [model, encoding] : kModels) {
    if (name.starts_with(model)) return encoding;
  }
  return "";
}

}  // namespace

std::unique_ptr<Tokenizer> OpenTokenizer(const std::string& spec) {
  if (spec == "bytes") return std::make_unique<ByteTokenizer>();
  if (const PublishedEncoding* encoding = FindPublishedEncoding(spec)) {
    return OpenPublished(*encoding);
  }
  if (spec.find('/') != spec.npos || Exists(spec)) {
    RequireTyped(spec);
    return LoadTokenizer(CheckpointOfRun(spec));
  }
  const std::string_view of_model = EncodingOfModel(spec);
  const std::string nearest =
      !of_model.empty() ? std::string(of_model) : Nearest(spec, PublishedEncodingNames());
  throw UsageError(fmt::format("no tokenizer '{}'", spec),
                   fmt::format("{}, and it is not one of {}, bytes", internal::WhyNotThere(spec),
                               Join(PublishedEncodingNames(), ", ")),
                   nearest.empty()
                       ? "give one of these names, or the path of a tokenizer's directory or file"
                       : fmt::format("did you mean {}?", nearest));
}

std::vector<std::string> TokenizerFiles(const std::string& spec) {
  std::vector<std::string> files;
  if (spec == "bytes") return files;
  if (const PublishedEncoding* encoding = FindPublishedEncoding(spec)) {
    for (const PublishedFile& file : encoding->files) {
      files.push_back(EncodingFile(*encoding, file));
    }
    return files;
  }
  const fs::path path = CheckpointOfRun(spec);
  if (!IsDirectory(path)) return {path.string()};
  for (const std::string_view name : kFileNames) {
    if (Exists(path / name)) files.push_back((path / name).string());
  }
  return files;
}

}  // namespace folio
