#include "folio/data/dataset.h"

#include <fmt/format.h>

#include <filesystem>
#include <limits>

#include "folio/base/error.h"
#include "folio/io/file.h"
#include "folio/io/json_parse.h"

namespace folio {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr char kPrepareHelp[] = "make it with `folio data prepare FILE... --out DIR`";

// Reads members of dataset.json and complains by name.
class Reader {
 public:
  explicit Reader(const std::string& path) : path_(path), json_(ParseJson(ReadFile(path), path)) {
    if (!json_.is_object()) Fail("an object", json_);
  }

  int64_t Count(const char* key) const {
    const Json& value = Member(key);
    if (!value.is_number_integer() || value < 0 ||
        value > std::numeric_limits<int64_t>::max() / 8) {
      Fail(fmt::format("\"{}\" to be a count", key), value);
    }
    return value.get<int64_t>();
  }

  std::string Text(const char* key) const {
    const Json& value = Member(key);
    if (!value.is_string()) Fail(fmt::format("\"{}\" to be text", key), value);
    return value.get<std::string>();
  }

  TokenWidth Width() const {
    const std::string name = Text("dtype");
    for (const TokenWidth width : {TokenWidth::k16, TokenWidth::k32}) {
      if (name == TokenWidthName(width)) return width;
    }
    Fail("\"dtype\" to be \"uint16\" or \"uint32\"", name);
  }

  std::vector<DatasetInfo::Source> Sources() const {
    std::vector<DatasetInfo::Source> sources;
    const Json& list = Member("sources");
    if (!list.is_array()) Fail("\"sources\" to be a list", list);
    for (const Json& source : list) {
      if (!source.is_object() || !source.contains("path") || !source["path"].is_string() ||
          !source.contains("bytes") || !source["bytes"].is_number_integer()) {
        Fail("each source to have a path and bytes", source);
      }
      sources.push_back({source["path"].get<std::string>(), source["bytes"].get<int64_t>()});
    }
    return sources;
  }

 private:
  const Json& Member(const char* key) const {
    const auto found = json_.find(key);
    if (found == json_.end()) Fail(fmt::format("a \"{}\"", key), nullptr);
    return *found;
  }

  [[noreturn]] void Fail(const std::string& expected, const Json& found) const {
    throw InputError(fmt::format("{}: not the description of a data set", path_),
                     fmt::format("expected {}, found {}", expected, found.dump().substr(0, 80)),
                     "prepare the data again");
  }

  std::string path_;
  Json json_;
};

DatasetInfo ReadDatasetInfo(const std::string& path) {
  const Reader reader(path);
  const int64_t version = reader.Count("format_version");
  if (version != DatasetInfo::kFormatVersion) {
    throw InputError(fmt::format("{}: format version {} is not supported", path, version),
                     fmt::format("this folio reads version {}", DatasetInfo::kFormatVersion),
                     "prepare the data again with this folio");
  }
  DatasetInfo info;
  info.width = reader.Width();
  info.vocab_size = reader.Count("vocab_size");
  info.tokenizer_kind = reader.Text("tokenizer");
  info.tokenizer_hash = reader.Text("tokenizer_hash");
  info.train_tokens = reader.Count("train_tokens");
  info.val_tokens = reader.Count("val_tokens");
  info.sources = reader.Sources();
  return info;
}

void CheckCount(const TokenFile& file, int64_t said) {
  if (file.size() == said) return;
  throw InputError(
      fmt::format("{}: wrong length", file.path()),
      fmt::format("{} says {} tokens, the file has {}", kDatasetFile, said, file.size()),
      "the file was cut short or replaced; prepare the data again");
}

}  // namespace

void WriteDatasetInfo(const std::string& dir, const DatasetInfo& info) {
  Json sources = Json::array();
  for (const DatasetInfo::Source& source : info.sources) {
    sources.push_back({{"path", source.path}, {"bytes", source.bytes}});
  }
  const Json json = {{"format_version", DatasetInfo::kFormatVersion},
                     {"dtype", TokenWidthName(info.width)},
                     {"vocab_size", info.vocab_size},
                     {"tokenizer", info.tokenizer_kind},
                     {"tokenizer_hash", info.tokenizer_hash},
                     {"train_tokens", info.train_tokens},
                     {"val_tokens", info.val_tokens},
                     {"sources", std::move(sources)}};
  // A path that is not UTF-8 is still written: its bad bytes become U+FFFD.
  WriteFileAtomically(fs::path(dir) / kDatasetFile,
                      json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
}

bool IsDataset(const std::string& dir) {
  std::error_code ignored;
  const fs::path path(dir);
  return fs::is_regular_file(path / kDatasetFile, ignored) ||
         (fs::is_regular_file(path / kTrainFile, ignored) &&
          fs::is_regular_file(path / kValFile, ignored));
}

Dataset::Dataset(const std::string& dir, int64_t vocab_size) : dir_(dir) {
  RequireDirectory(dir, "the data directory");
  if (!IsDataset(dir)) {
    throw InputError(fmt::format("{}: no data set here", dir),
                     fmt::format("expected {}, {} and {}", kTrainFile, kValFile, kDatasetFile),
                     kPrepareHelp);
  }
  const fs::path path(dir);
  bare_ = !fs::exists(path / kDatasetFile);
  if (bare_) {
    info_.vocab_size = vocab_size;
  } else {
    info_ = ReadDatasetInfo((path / kDatasetFile).string());
  }
  train_.emplace((path / kTrainFile).string(), info_.width, info_.vocab_size);
  val_.emplace((path / kValFile).string(), info_.width, info_.vocab_size);
  if (bare_) {
    info_.train_tokens = train_->size();
    info_.val_tokens = val_->size();
  }
  CheckCount(*train_, info_.train_tokens);
  CheckCount(*val_, info_.val_tokens);
}

const std::string& Dataset::TokenizerDir() const {
  std::error_code ignored;
  if (fs::exists(fs::path(dir_) / "tokenizer.json", ignored)) return dir_;
  throw InputError(
      fmt::format("{}: the data came without a tokenizer", dir_),
      bare_ ? "the directory holds nanoGPT's train.bin and val.bin only"
            : "tokenizer.json is missing",
      fmt::format("put the tokenizer.json that made the tokens there, or {}", kPrepareHelp));
}

}  // namespace folio
