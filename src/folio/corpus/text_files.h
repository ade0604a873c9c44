#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace folio {

// The files to make data of: each path that is a directory is replaced by the .txt, .md and .jsonl
// files below it, in the order of their names. Throws a kInput Error for a directory without any.
std::vector<std::string> TextFiles(const std::vector<std::string>& paths);

// Together, in bytes; 0 where one of them is no file on disk.
int64_t TotalBytes(const std::vector<std::string>& files);

}  // namespace folio
