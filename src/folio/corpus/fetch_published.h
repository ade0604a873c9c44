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

// A file of a published set.
struct SetFile {
  std::string name;  // below the directory of the set
  std::string url;
  std::string hash;  // in the form of WantedFile
  int64_t bytes = 0;
  std::filesystem::path path = {};  // its place, present or not
};

// The files that are published under one name, a vocabulary or a model, in the order of fetching.
struct PublishedSet {
  std::string name;
  std::string summary = {};
  std::filesystem::path dir = {};  // the directory of its files
  std::vector<SetFile> files = {};
  FetchLimits limits = {};
  Json more = Json::object();  // further members of its JSON
};

// A kind of published sets, and its words in messages.
struct PublishedKind {
  std::string_view one, many;  // "model", "models"
  std::string_view command;    // "folio fetch"
  std::string_view contents;   // the heading of the column with the summaries
  bool hashed;                 // the files are small: their hashes are always checked
  std::vector<std::string> names;
  // Returns the set of that name, if there is one. Throws a kUsage Error if there is no directory
  // for its files.
  std::function<std::optional<PublishedSet>(const std::string& name)> find;
  // Returns the help for a machine without a network on which these files are missing.
  std::function<std::string(const PublishedSet& set, const std::vector<size_t>& missing)> otherwise;
};

// A published file with its place.
SetFile AsSetFile(const PublishedFile& file, std::filesystem::path path);

// The vocabularies of encodings, which OpenTokenizer opens by name.
const PublishedKind& PublishedVocabularies();

// Returns FetchedHome(kind). Throws a kUsage Error if there is none.
std::filesystem::path RequireFetchedHome(std::string_view kind);

// The set of that name. Throws a kUsage Error with the nearest name if there is none.
PublishedSet PublishedNamed(const PublishedKind& kind, const std::string& name);

// The callbacks of a download; any of them may be empty.
struct FetchHooks {
  // Called with sentences to show: how much is downloaded, where it is saved.
  std::function<void(const std::string& note)> note = {};
  // Called while a file is downloaded, with the bytes so far and their total. May throw to stop.
  std::function<void(const std::string& file, int64_t done, int64_t total)> progress = {};
};

// Puts the missing files of a set at their paths: copies them from the directory `from`, or, if
// that is "", downloads them, and continues interrupted downloads. The files stay in `kArrivingDir`
// of the set's directory until all of them are complete. Throws like FetchFile and CopyFile
// (io/fetch.h), and a kRuntime Error before the download if the disk has no room.
void FetchSet(const PublishedKind& kind, const PublishedSet& set, const std::filesystem::path& from,
              const FetchHooks& hooks);

// Returns true if all files of the set are at their paths.
bool IsHere(const PublishedKind& kind, const PublishedSet& set);

// The published text of that name ("tinyshakespeare"). Throws a kUsage Error that lists all names
// if there is none.
const PublishedFile& PublishedText(const std::string& name);

// Saves a text as the file `out`, like FetchSet (`from` is a file); does nothing if it is there
// already. Throws a kUsage Error if `out` is another file, unless `overwrite`.
void FetchText(const PublishedFile& text, const std::filesystem::path& out,
               const std::filesystem::path& from, bool overwrite, const FetchHooks& hooks);

}  // namespace folio
