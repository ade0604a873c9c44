#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "folio/io/fetch.h"
#include "folio/io/json.h"
#include "folio/term/console.h"
#include "folio/text/published_encodings.h"

namespace folio {

// One of the files of a set.
struct SetFile {
  std::string name;  // below the directory of the set
  std::string url;
  std::string hash;  // as WantedFile has it
  int64_t bytes = 0;
  std::filesystem::path path = {};  // where it lies, or is to lie
};

// What is published under a name in several files, in the order in which they are to arrive: a
// vocabulary, a model.
struct PublishedSet {
  std::string name;
  std::string summary = {};
  std::filesystem::path dir = {};  // where its files are looked for
  std::vector<SetFile> files = {};
  FetchLimits limits = {};
  Json more = Json::object();  // what else its JSON says
};

// A kind of such sets, and how it is spoken of.
struct PublishedKind {
  std::string_view one, many;  // "model", "models"
  std::string_view command;    // "folio fetch"
  std::string_view contents;   // what `summary` tells of, as a heading
  bool hashed;                 // files are small enough to look at all their bytes
  std::vector<std::string> names;
  // The set of that name; nothing where there is none. Throws a kUsage Error where there is no
  // place for its files.
  std::function<std::optional<PublishedSet>(const std::string& name)> find;
  // Says how to do without the network, where those of its files are missing.
  std::function<std::string(const PublishedSet& set, const std::vector<size_t>& missing)> otherwise;
};

// A file that is always the same, and its place.
SetFile AsSetFile(const PublishedFile& file, std::filesystem::path path);

// The vocabularies of encodings, which OpenTokenizer opens by name.
const PublishedKind& PublishedVocabularies();

// FetchedHome(kind). Throws a kUsage Error where there is none.
std::filesystem::path RequireFetchedHome(std::string_view kind);

// The set of that name. Throws a kUsage Error that names the nearest where there is none.
PublishedSet PublishedNamed(const PublishedKind& kind, const std::string& name);

// Gets the files of a set that are not here yet to their paths: copies of those in the directory
// `from`, or where that is "" from the network, after a note of how much that is and with a
// progress line; what an earlier call left of a file is gone on from. They lie aside, in
// `kArrivingDir` of the set's directory, until all of them have come. Throws as FetchFile and
// CopyFile (io/fetch.h) do, and a kRuntime Error, before anything is fetched, where the disk has no
// room; a request to stop (term/signals.h) ends it by throwing Stopped.
void FetchSet(const PublishedKind& kind, const PublishedSet& set, const std::filesystem::path& from,
              Console& console, ProgressMode mode);

// All sets of a kind, and which of them are here: a table, or one JSON object (`json`).
std::string DescribePublished(const PublishedKind& kind, bool json);

// The published text of that name ("tinyshakespeare"), to learn from. Throws a kUsage Error that
// lists them where there is none.
const PublishedFile& PublishedText(const std::string& name);

// Gets a text to the file `out`, as FetchSet does (`from` is a file); nothing is done where it lies
// there already. Throws a kUsage Error where another file does, unless `overwrite`.
void FetchText(const PublishedFile& text, const std::filesystem::path& out,
               const std::filesystem::path& from, bool overwrite, Console& console,
               ProgressMode mode);

}  // namespace folio
