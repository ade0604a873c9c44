#include "folio/corpus/fetch_tokenizer.h"

#include <fmt/format.h>

#include <vector>

#include "folio/base/error.h"
#include "folio/base/strings.h"
#include "folio/corpus/fetch_published.h"
#include "folio/io/file.h"
#include "folio/io/guarded_directory.h"
#include "folio/io/json.h"
#include "folio/term/table.h"

namespace folio {
namespace {

namespace fs = std::filesystem;

// Returns where a file of an encoding lies, or is to lie.
fs::path PathOf(const PublishedEncoding& encoding, const PublishedFile& file) {
  const std::string path = EncodingFile(encoding, file);
  if (!path.empty()) return path;
  throw UsageError("there is no place for tokenizers",
                   "none of FOLIO_HOME, XDG_CACHE_HOME and HOME is set",
                   "set FOLIO_HOME to a directory for them");
}

fs::path EncodingDir(const PublishedEncoding& encoding) {
  return PathOf(encoding, encoding.files.front()).parent_path();
}

WantedFile Wanted(const PublishedEncoding& encoding, const PublishedFile& file) {
  return {PathOf(encoding, file), std::string(file.sha256), file.bytes};
}

bool AllThere(const PublishedEncoding& encoding) {
  for (const PublishedFile& file : encoding.files) {
    if (!IsThere(Wanted(encoding, file))) return false;
  }
  return true;
}

// Tells how to do without this machine's network.
std::string Elsewhere(const PublishedEncoding& encoding) {
  std::vector<std::string> parts;
  for (const PublishedFile& file : encoding.files) {
    const WantedFile wanted = Wanted(encoding, file);
    if (IsThere(wanted)) continue;
    parts.push_back(
        fmt::format("download {} elsewhere and put it here as {}", file.url, wanted.path.string()));
  }
  return Join(parts, "; ");
}

}  // namespace

const PublishedEncoding& EncodingNamed(const std::string& name) {
  if (const PublishedEncoding* encoding = FindPublishedEncoding(name)) return *encoding;
  const std::vector<std::string> names = PublishedEncodingNames();
  const std::string nearest = Nearest(name, names);
  throw UsageError(fmt::format("there is no published encoding '{}'", name),
                   "the encodings are " + Join(names, ", "),
                   nearest.empty() ? "folio tokenizer fetch --list describes them"
                                   : fmt::format("did you mean '{}'?", nearest));
}

fs::path FetchEncoding(const PublishedEncoding& encoding, const fs::path& from, Console& console,
                       ProgressMode mode) {
  bool any = false;
  for (const PublishedFile& file : encoding.files) {
    WantedFile wanted = Wanted(encoding, file);
    if (IsThere(wanted)) continue;
    any = true;
    CreateParentOf(wanted.path);
    const GuardedDirectory inside(wanted.path.parent_path());
    if (from.empty()) wanted.otherwise = Elsewhere(encoding);
    FetchPublished(file, wanted, from.empty() ? from : from / file.name, console, mode);
  }
  fs::path dir = EncodingDir(encoding);
  console.Note(any ? fmt::format("{} is now in {}", encoding.name, dir.string())
                   : fmt::format("{} is in {} already", encoding.name, dir.string()));
  return dir;
}

std::string DescribeEncodings(bool json) {
  Json all = {{"schema", 1}};
  std::vector<std::vector<std::string>> rows;
  for (const PublishedEncoding& encoding : PublishedEncodings()) {
    const bool here = AllThere(encoding);
    int64_t bytes = 0;
    for (const PublishedFile& file : encoding.files) bytes += file.bytes;
    all["encodings"].push_back({{"name", encoding.name},
                                {"vocab_size", encoding.vocab_size},
                                {"dir", EncodingDir(encoding).string()},
                                {"here", here}});
    rows.push_back({std::string(encoding.name), here ? "here" : "-",
                    HumanBytes(static_cast<double>(bytes)), std::string(encoding.summary)});
  }
  return json ? all.dump() + "\n" : RenderTable({"name", "files", ">size", "tokens"}, rows);
}

}  // namespace folio
