#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "folio/io/fetch.h"
#include "folio/io/json.h"
#include "folio/text/published_encodings.h"

namespace folio {

// A file of a set.
struct SetFile {
  std::string name;  // below the directory of the set
  std::string url;
  std::string hash;  // as WantedFile has it
  int64_t bytes = 0;
  std::filesystem::path path = {};  // where it lies, or is to lie
};

// Several files that are published under one name, a vocabulary or a model, in the order in which
// they are to arrive.
struct PublishedSet {
  std::string name;
  std::string summary = {};
  std::filesystem::path dir = {};  // where its files are looked for
  std::vector<SetFile> files = {};
  FetchLimits limits = {};
  Json more = Json::object();  // further members of its JSON
};

// A kind of such sets, and the words of messages about it.
struct PublishedKind {
  std::string_view one, many;  // "model", "models"
  std::string_view command;    // "folio fetch"
  std::string_view contents;   // the heading of the column with the summaries
  bool hashed;                 // the files are small, and all their bytes are compared
  std::vector<std::string> names;
  // Returns the set of that name, if there is one. Throws a kUsage Error where there is no place
  // for its files.
  std::function<std::optional<PublishedSet>(const std::string& name)> find;
  // Returns the help for a machine without a network on which these files are missing.
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

// The callbacks of a download; any of them may be empty.
struct FetchHooks {
  // Called with a sentence for people: how much is downloaded, where it is saved.
  std::function<void(const std::string& note)> note = {};
  // Called while a file is downloaded, with the bytes so far and their total. May throw to stop.
  std::function<void(const std::string& file, int64_t done, int64_t total)> progress = {};
};

// Gets the files of a set that are not here yet to their paths: copies of those in the directory
// `from`, or where that is "" from the network. What an earlier call left of a file is continued.
// The files wait in `kArrivingDir` of the set's directory until all of them have come. Throws as
// FetchFile and CopyFile (io/fetch.h) do, and a kRuntime Error, before anything is fetched, where
// the disk has no room.
void FetchSet(const PublishedKind& kind, const PublishedSet& set, const std::filesystem::path& from,
              const FetchHooks& hooks);

// Returns whether all files of the set are at their paths.
bool IsHere(const PublishedKind& kind, const PublishedSet& set);

// The published text of that name ("tinyshakespeare"), to learn from. Throws a kUsage Error that
// lists them where there is none.
const PublishedFile& PublishedText(const std::string& name);

// Gets a text to the file `out`, as FetchSet does (`from` is a file); nothing is done where it lies
// there already. Throws a kUsage Error where another file does, unless `overwrite`.
void FetchText(const PublishedFile& text, const std::filesystem::path& out,
               const std::filesystem::path& from, bool overwrite, const FetchHooks& hooks);

}  // namespace folio
