#include "folio/corpus/fetch_published.h"

#include <fmt/format.h>

#include <system_error>
#include <utility>

#include "folio/base/error.h"
#include "folio/base/strings.h"
#include "folio/io/file.h"
#include "folio/io/posix.h"

namespace folio {
namespace {

// The 40,000 lines of Shakespeare on which char-rnn and nanoGPT train.
constexpr PublishedFile kTinyShakespeare = {
    "tinyshakespeare",
    "https://raw.githubusercontent.com/karpathy/char-rnn/master/data/tinyshakespeare/input.txt",
    "86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed", 1115394};

namespace fs = std::filesystem;

// Puts a published file at wanted.path: a copy of `from`, or a download if that is "".
void FetchPublished(const SetFile& file, const WantedFile& wanted, const FetchLimits& limits,
                    const std::filesystem::path& from, const FetchHooks& hooks) {
  if (!from.empty()) return CopyFile(from, wanted);
  const auto show = [&](int64_t bytes) {
    if (hooks.progress) hooks.progress(file.name, bytes, wanted.bytes);
  };
  FetchFile(file.url, wanted, show, limits);
}

void Note(const FetchHooks& hooks, const std::string& text) {
  if (hooks.note) hooks.note(text);
}

WantedFile Wanted(const SetFile& file, const fs::path& path) {
  return {.path = path, .hash = file.hash, .bytes = file.bytes};
}

std::vector<size_t> Missing(const PublishedKind& kind, const PublishedSet& set) {
  std::vector<size_t> missing;
  std::error_code ignored;
  for (size_t i = 0; i < set.files.size(); ++i) {
    const SetFile& file = set.files[i];
    const bool here =
        kind.hashed ? IsThere(Wanted(file, file.path)) : fs::exists(file.path, ignored);
    if (!here) missing.push_back(i);
  }
  return missing;
}

std::optional<PublishedSet> FindVocabulary(const std::string& name) {
  const PublishedEncoding* encoding = FindPublishedEncoding(name);
  if (encoding == nullptr) return std::nullopt;
  RequireFetchedHome("tokenizers");
  PublishedSet set{.name = std::string(encoding->name), .summary = std::string(encoding->summary)};
  for (const PublishedFile& file : encoding->files) {
    set.files.push_back(AsSetFile(file, EncodingFile(*encoding, file)));
  }
  set.dir = set.files.front().path.parent_path();
  set.more["vocab_size"] = encoding->vocab_size;
  return set;
}

std::string DownloadElsewhere(const PublishedSet& set, const std::vector<size_t>& missing) {
  std::vector<std::string> parts;
  for (const size_t file : missing) {
    parts.push_back(fmt::format("download {} on another machine and save it here as {}",
                                set.files[file].url, set.files[file].path.string()));
  }
  return Join(parts, "; ");
}

// Removes the directory when it is destroyed, if the directory is empty.
struct EmptyEnd {
  explicit EmptyEnd(fs::path made) : dir(std::move(made)) {}
  ~EmptyEnd() {
    std::error_code ignored;
    fs::remove(dir, ignored);
  }
  EmptyEnd(const EmptyEnd&) = delete;

  fs::path dir;
};

// Throws a kRuntime Error if the disk has no room for this many bytes.
void RequireDiskRoom(const fs::path& dir, int64_t bytes) {
  std::error_code unknown;
  const fs::space_info space = fs::space(dir, unknown);
  if (unknown || static_cast<uintmax_t>(bytes) <= space.available) return;
  throw RuntimeError(
      fmt::format("not enough disk space in {}", dir.string()),
      fmt::format("{} to download, {} free", HumanBytes(bytes), HumanBytes(space.available)),
      "free some space, or set FOLIO_HOME to a directory on another disk");
}

}  // namespace

SetFile AsSetFile(const PublishedFile& file, fs::path path) {
  return {.name = std::string(file.name),
          .url = std::string(file.url),
          .hash = std::string(file.sha256),
          .bytes = file.bytes,
          .path = std::move(path)};
}

const PublishedFile& PublishedText(const std::string& name) {
  if (name == kTinyShakespeare.name) return kTinyShakespeare;
  throw UsageError(fmt::format("unknown text '{}'", name),
                   fmt::format("available: {}", kTinyShakespeare.name),
                   "to use your own text: folio train --data FILE");
}

void FetchText(const PublishedFile& text, const std::filesystem::path& out,
               const std::filesystem::path& from, bool overwrite, const FetchHooks& hooks) {
  const std::string path = out.string();
  const WantedFile wanted = {
      out, std::string(text.sha256), text.bytes,
      fmt::format("download {} on another machine and save it here as {}", text.url, path)};
  if (IsThere(wanted)) {
    Note(hooks, fmt::format("{} already contains {}", path, text.name));
    return;
  }
  CheckNewFile(path, overwrite);
  RequireParentOf(out);
  FetchPublished(AsSetFile(text, out), wanted, {}, from, hooks);
  Note(hooks, fmt::format("saved {} as {}", text.name, path));
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
  throw UsageError(fmt::format("there is no directory for {}", kind),
                   "none of FOLIO_HOME, XDG_CACHE_HOME and HOME is set",
                   "set FOLIO_HOME to a directory");
}

PublishedSet PublishedNamed(const PublishedKind& kind, const std::string& name) {
  if (std::optional<PublishedSet> set = kind.find(name)) return *std::move(set);
  const std::string nearest = Nearest(name, kind.names);
  throw UsageError(fmt::format("unknown {} '{}'", kind.one, name),
                   fmt::format("available {}: {}", kind.many, Join(kind.names, ", ")),
                   nearest.empty() ? fmt::format("{} --list describes them", kind.command)
                                   : fmt::format("did you mean '{}'?", nearest));
}

bool IsHere(const PublishedKind& kind, const PublishedSet& set) {
  return Missing(kind, set).empty();
}

void FetchSet(const PublishedKind& kind, const PublishedSet& set, const fs::path& from,
              const FetchHooks& hooks) {
  const fs::path aside = set.dir / kArrivingDir;
  const auto coming = [&](const SetFile& file) { return aside / file.name; };
  std::vector<const SetFile*> missing;
  int64_t bytes = 0;
  for (const SetFile& file : set.files) {
    if (IsThere(Wanted(file, file.path))) continue;
    missing.push_back(&file);
    if (!IsThere(Wanted(file, coming(file)))) bytes += file.bytes;
  }
  if (missing.empty()) {
    Note(hooks, fmt::format("{} is already in {}", set.name, set.dir.string()));
    return;
  }
  CreateDirectories(aside);
  const GuardedDirectory inside(set.dir);
  const EmptyEnd end(aside);
  if (from.empty()) {
    Note(hooks, fmt::format("{}: downloading {} of {} files, {}", set.name, missing.size(),
                            set.files.size(), HumanBytes(bytes)));
    RequireDiskRoom(set.dir, bytes);
  }
  for (const SetFile* file : missing) {
    WantedFile wanted = Wanted(*file, coming(*file));
    if (IsThere(wanted)) continue;
    CreateParentOf(wanted.path);
    if (from.empty()) wanted.otherwise = kind.otherwise(set, Missing(kind, set));
    FetchPublished(*file, wanted, set.limits, from.empty() ? from : from / file->name, hooks);
  }
  for (const SetFile* file : missing) {
    CreateParentOf(file->path);
    if (const std::error_code error = internal::Rename(coming(*file), file->path)) {
      internal::ThrowCannotWrite(file->path, error.value());
    }
  }
  internal::SyncDirectory(set.dir);
  for (const SetFile* file : missing) {
    std::error_code not_empty;
    for (fs::path dir = coming(*file).parent_path(); dir != aside; dir = dir.parent_path()) {
      fs::remove(dir, not_empty);
    }
  }
  Note(hooks, fmt::format("saved {} in {}", set.name, set.dir.string()));
}

}  // namespace folio
