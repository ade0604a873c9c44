#include "folio/corpus/fetch_published.h"

#include <fmt/format.h>

#include <string_view>
#include <vector>

#include "folio/base/error.h"
#include "folio/base/strings.h"
#include "folio/io/file.h"
#include "folio/io/guarded_directory.h"
#include "folio/io/json.h"
#include "folio/term/signals.h"
#include "folio/term/table.h"

namespace folio {
namespace {

// The works of Shakespeare in 40,000 lines, as char-rnn and nanoGPT learn from them.
constexpr PublishedFile kTinyShakespeare = {
    "tinyshakespeare",
    "https://raw.githubusercontent.com/karpathy/char-rnn/master/data/tinyshakespeare/input.txt",
    "86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed", 1115394};

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

void FetchPublished(const PublishedFile& file, const WantedFile& wanted,
                    const std::filesystem::path& from, Console& console, ProgressMode mode) {
  if (!from.empty()) return CopyFile(from, wanted);
  const std::string name(file.name);
  Progress progress(console, mode);
  FetchFile(std::string(file.url), wanted, [&](int64_t bytes) {
    ThrowIfStopRequested();
    progress.Show({"bytes", bytes, wanted.bytes, {{"file", name, name}}});
  });
}

const PublishedFile& PublishedText(const std::string& name) {
  if (name == kTinyShakespeare.name) return kTinyShakespeare;
  throw UsageError(fmt::format("there is no published text '{}'", name),
                   fmt::format("folio knows {}", kTinyShakespeare.name),
                   "any other text is a file of yours: folio train --data FILE");
}

void FetchText(const PublishedFile& text, const std::filesystem::path& out,
               const std::filesystem::path& from, bool overwrite, Console& console,
               ProgressMode mode) {
  const std::string path = out.string();
  const WantedFile wanted = {
      out, std::string(text.sha256), text.bytes,
      fmt::format("download {} elsewhere and put it here as {}", text.url, path)};
  if (IsThere(wanted)) {
    console.Note(fmt::format("{} is {} already", path, text.name));
    return;
  }
  CheckNewFile(path, overwrite);
  RequireParentOf(out);
  FetchPublished(text, wanted, from, console, mode);
  console.Note(fmt::format("{} is now {}", text.name, path));
}

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
