#include "folio/corpus/text_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "folio/base/error.h"

namespace folio {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> TextFilesBelow(const std::string& dir) {
  std::vector<std::string> found;
  std::error_code error;
  for (fs::recursive_directory_iterator it(dir, error), end; !error && it != end;
       it.increment(error)) {
    const std::string kind = it->path().extension().string();
    if (it->is_regular_file(error) && (kind == ".txt" || kind == ".md" || kind == ".jsonl")) {
      found.push_back(it->path().string());
    }
  }
  if (error) throw InputError(fmt::format("cannot read '{}'", dir), error.message());
  if (found.empty()) {
    throw InputError(fmt::format("'{}' holds neither a data set nor texts", dir),
                     "expected train.bin, or .txt, .md and .jsonl files in it or below it",
                     "name the files, whatever they are called");
  }
  std::ranges::sort(found);
  return found;
}

}  // namespace

std::vector<std::string> TextFiles(const std::vector<std::string>& paths) {
  std::vector<std::string> files;
  for (const std::string& path : paths) {
    if (!fs::is_directory(path)) {
      files.push_back(path);
    } else {
      std::ranges::copy(TextFilesBelow(path), std::back_inserter(files));
    }
  }
  return files;
}

int64_t TotalBytes(const std::vector<std::string>& files) {
  int64_t total = 0;
  for (const std::string& file : files) {
    std::error_code error;
    if (!fs::is_regular_file(file, error)) return 0;
    total += static_cast<int64_t>(fs::file_size(file, error));
  }
  return total;
}

}  // namespace folio
