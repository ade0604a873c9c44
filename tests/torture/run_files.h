#pragma once

#include <filesystem>
#include <map>
#include <string>

namespace folio::torture {

// Files below a directory, hidden or not: the bytes of files, "directory" of directories, by
// their paths. What differs from one run to the next is left out: times in metrics.jsonl, the
// number of threads in config.toml, and the lines that were put aside as damaged.
using Files = std::map<std::string, std::string>;
Files FilesOf(const std::filesystem::path& directory);

// Without what is hidden.
Files Visible(Files files);

// How `found` differs from `wanted`, "" if not at all.
std::string Difference(const Files& wanted, const Files& found);

std::string BytesOf(const std::filesystem::path& file);

}  // namespace folio::torture
