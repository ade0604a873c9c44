#include "folio/corpus/prepare_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>

#include "folio/base/error.h"
#include "folio/data/dataset.h"
#include "folio/io/output_directory.h"
#include "folio/text/tokenizer_file.h"

namespace folio {
namespace {

// A file that PrepareDataset writes: the tokenizer's and dataset.json, or one of tokens.
bool IsOurs(const std::string& name) {
  if (name == kDatasetFile || std::ranges::find(kTokenizerFiles, name) != kTokenizerFiles.end()) {
    return true;
  }
  for (const std::string_view part : {"train", "val"}) {
    if (!name.starts_with(part) || !name.ends_with(".bin")) continue;
    const std::string between = name.substr(part.size(), name.size() - part.size() - 4);
    if (between.empty() || (between[0] == '_' && between.size() > 1 &&
                            between.find_first_not_of("0123456789", 1) == std::string::npos)) {
      return true;
    }
  }
  return false;
}

}  // namespace

void CheckPrepareOptions(const PrepareOptions& options) {
  if (options.files.empty()) throw UsageError("no files to prepare", "", "name a text file");
  if (options.out.empty()) throw UsageError("no directory to write to", "", "name it with --out");
  if (!(options.val_fraction >= 0 && options.val_fraction < 1)) {
    throw UsageError(fmt::format("--val-fraction: {} is out of range", options.val_fraction),
                     "expected a number from 0 to below 1", "use --val-fraction 0.1");
  }
  if (options.shard_tokens < 0) {
    throw UsageError(fmt::format("--shard-tokens: {} is out of range", options.shard_tokens),
                     "expected a number of tokens, or 0", "use --shard-tokens 100000000");
  }
  if (!FindTokenFormat(options.format)) {
    throw UsageError(fmt::format("--format: unknown format '{}'", options.format),
                     "expected folio or llmc", "use --format folio");
  }
  if (options.special != "allow" && options.special != "raise" && options.special != "ordinary") {
    throw UsageError(fmt::format("--special: unknown rule '{}'", options.special),
                     "expected allow, raise or ordinary", "use --special ordinary");
  }
  CheckReplaceable(options.out, "data set", options.overwrite, IsOurs);
}

std::string PrepareIdentity(const PrepareOptions& options, std::span<const PrepareSource> sources,
                            const Tokenizer* tokenizer) {
  using Json = nlohmann::ordered_json;
  Json files = Json::array();
  for (const PrepareSource& source : sources) {
    files.push_back({source.path(), source.bytes(), source.modified()});
  }
  const Json json = {{"version", 1},
                     {"text", std::move(files)},
                     {"tokenizer", tokenizer == nullptr ? "char" : tokenizer->hash()},
                     {"val-fraction", options.val_fraction},
                     {"special", options.special},
                     {"format", options.format},
                     {"shard-tokens", options.shard_tokens}};
  // Names need not be UTF-8; what differs in such bytes alone differs in length or time too.
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace folio
