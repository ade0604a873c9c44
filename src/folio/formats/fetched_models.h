#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "folio/io/hub.h"

namespace folio {

// The models in FetchedHome("models"): published ones by their names (PublishedModels), and those
// of repositories in OWNER/NAME.

// A repository, and which of its GGUF files is meant: "OWNER/NAME:Q4_K_M" names it by what its
// numbers are quantised to, or its path. "" is the one that there is.
struct RepositoryModel {
  std::string repository, which;
};

// Returns nothing for other names.
std::optional<RepositoryModel> ParseRepositoryModel(std::string_view name);

// Returns the files of a repository that make up a model, or an adapter, in the order in which they
// are to arrive: without the last ones nothing could be opened. Of several GGUF files it takes that
// of Q4_K_M, unless `model` says which. Throws a kUsage Error that lists what there is
// where none or more than one is meant, and a kInput Error where no file is of a format that folio
// reads, or a part of one is missing.
std::vector<HubFile> FilesOfModel(const RepositoryModel& model, const std::vector<HubFile>& files);

// The directory of a fetched model's files, of a published name or a repository; empty for other
// names, or where there is no home. It may not be there.
std::filesystem::path FetchedDir(std::string_view name);

// Returns the directory, or the GGUF file, of the fetched model or adapter of that name. Empty
// where there is none. Throws a kUsage Error that lists the files where several are meant.
std::filesystem::path FindFetchedModel(std::string_view name);

// A model that was fetched, or began to be.
struct FetchedModel {
  std::string name = {};  // as --model takes it: "OWNER/NAME:FILE" of one GGUF file of several
  std::filesystem::path path = {};
  std::string kind = {};   // "GGUF", "safetensors", "adapter"; "incomplete"
  uint64_t bytes = 0;      // of its files
  int64_t fetched_at = 0;  // seconds since 1970
};
std::vector<FetchedModel> FetchedModels();

// Returns the bytes of all files below a directory, without links and what cannot be read.
uint64_t BytesBelow(const std::filesystem::path& dir);

// Removes what was fetched of that name, a GGUF file alone if it is one of several, and returns the
// bytes that it took. Throws a kInput Error where there is nothing, and a kRuntime Error where it
// cannot be removed.
uint64_t RemoveFetchedModel(const std::string& name);

}  // namespace folio
