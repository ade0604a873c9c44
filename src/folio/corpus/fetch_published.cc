#include "folio/corpus/fetch_published.h"

#include <fmt/format.h>

#include <string_view>
#include <vector>

#include "folio/base/error.h"
#include "folio/base/strings.h"
#include "folio/io/file.h"
#include "folio/io/json.h"
#include "folio/io/posix.h"
#include "folio/term/signals.h"
#include "folio/term/terminal_text.h"

namespace folio {
namespace {

// The works of Shakespeare in 40,000 lines, as char-rnn and nanoGPT learn from them.
constexpr PublishedFile kTinyShakespeare = {
    "tinyshakespeare",
    "https://raw.githubusercontent.com/karpathy/char-rnn/master/data/tinyshakespeare/input.txt",
    "86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed", 1115394};

namespace fs = std::filesystem;

// Gets a published file to wanted.path: a copy of `from`, or where that is "" from the network.
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

WantedFile Wanted(const PublishedSet& set, size_t file) {
  return {set.paths[file], std::string(set.files[file].sha256), set.files[file].bytes};
}

std::vector<size_t> Missing(const PublishedKind& kind, const PublishedSet& set) {
  std::vector<size_t> missing;
  std::error_code ignored;
  for (size_t i = 0; i < set.files.size(); ++i) {
    const bool here = kind.hashed ? IsThere(Wanted(set, i)) : fs::exists(set.paths[i], ignored);
    if (!here) missing.push_back(i);
  }
  return missing;
}

std::optional<PublishedSet> FindVocabulary(const std::string& name) {
  const PublishedEncoding* encoding = FindPublishedEncoding(name);
  if (encoding == nullptr) return std::nullopt;
  RequireFetchedHome("tokenizers");
  PublishedSet set{.name = encoding->name, .summary = encoding->summary, .files = encoding->files};
  for (const PublishedFile& file : set.files) set.paths.push_back(EncodingFile(*encoding, file));
  set.dir = set.paths.front().parent_path();
  set.more["vocab_size"] = encoding->vocab_size;
  return set;
}

std::string DownloadElsewhere(const PublishedSet& set, const std::vector<size_t>& missing) {
  std::vector<std::string> parts;
  for (const size_t file : missing) {
    parts.push_back(fmt::format("download {} elsewhere and put it here as {}", set.files[file].url,
                                set.paths[file].string()));
  }
  return Join(parts, "; ");
}

}  // namespace

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

const PublishedKind& PublishedVocabularies() {
  static const PublishedKind kind = {.one = "encoding",
                                     .many = "encodings",
                                     .command = "folio tokenizer fetch",
                                     .contents = "tokens",
                                     .hashed = true,
                                     .names = PublishedEncodingNames(),
                                     .find = FindVocabulary,
                                     .otherwise = DownloadElsewhere};
  return kind;
}

fs::path RequireFetchedHome(std::string_view kind) {
  fs::path home = FetchedHome(kind);
  if (!home.empty()) return home;
  throw UsageError(fmt::format("there is no place for {}", kind),
                   "none of FOLIO_HOME, XDG_CACHE_HOME and HOME is set",
                   "set FOLIO_HOME to a directory for them");
}

PublishedSet PublishedNamed(const PublishedKind& kind, const std::string& name) {
  if (std::optional<PublishedSet> set = kind.find(name)) return *std::move(set);
  const std::string nearest = Nearest(name, kind.names);
  throw UsageError(fmt::format("there is no published {} '{}'", kind.one, name),
                   fmt::format("the {} are {}", kind.many, Join(kind.names, ", ")),
                   nearest.empty() ? fmt::format("{} --list describes them", kind.command)
                                   : fmt::format("did you mean '{}'?", nearest));
}

void FetchSet(const PublishedKind& kind, const PublishedSet& set, const fs::path& from,
              Console& console, ProgressMode mode) {
  bool any = false;
  for (size_t i = 0; i < set.files.size(); ++i) {
    WantedFile wanted = Wanted(set, i);
    if (IsThere(wanted)) continue;
    any = true;
    CreateParentOf(wanted.path);
    const GuardedDirectory inside(wanted.path.parent_path());
    if (from.empty()) wanted.otherwise = kind.otherwise(set, Missing(kind, set));
    FetchPublished(set.files[i], wanted, from.empty() ? from : from / set.files[i].name, console,
                   mode);
  }
  console.Note(fmt::format("{} is {} {}{}", set.name, any ? "now in" : "in", set.dir.string(),
                           any ? "" : " already"));
}

std::string DescribePublished(const PublishedKind& kind, bool json) {
  Json all = {{"schema", 1}};
  std::vector<std::vector<std::string>> rows;
  for (const std::string& name : kind.names) {
    const PublishedSet set = PublishedNamed(kind, name);
    const bool here = Missing(kind, set).empty();
    int64_t bytes = 0;
    for (const PublishedFile& file : set.files) bytes += file.bytes;
    Json one = {{"name", name}};
    one.update(set.more);
    one.update({{"dir", set.dir.string()}, {"here", here}});
    all[kind.many].push_back(std::move(one));
    rows.push_back({name, here ? "here" : "-", HumanBytes(static_cast<double>(bytes)),
                    std::string(set.summary)});
  }
  return json ? all.dump() + "\n"
              : RenderTable({"name", "files", ">size", std::string(kind.contents)}, rows);
}

}  // namespace folio
