#include "folio/corpus/text_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "folio/base/error.h"
#include "folio/base/strings.h"
#include "folio/corpus/source.h"
#include "folio/data/dataset.h"

namespace folio {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> FilesBelow(const std::string& dir) {
  std::vector<std::string> found;
  std::error_code error;
  for (fs::recursive_directory_iterator it(dir, error), end; !error && it != end;
       it.increment(error)) {
    const bool hidden = it->path().filename().string().starts_with('.');
    if (it->is_directory(error) && (hidden || IsDataset(it->path().string()))) {
      it.disable_recursion_pending();
    }
    if (!hidden && it->is_regular_file(error)) found.push_back(it->path().string());
  }
  if (error) throw InputError(fmt::format("cannot read '{}'", dir), error.message());
  std::ranges::sort(found);
  return found;
}

// Returns what a file below a directory is, where it is no text; "" where it is one.
std::string WhyNot(const std::string& path, const TextOptions& options) {
  try {
    TextStream stream(path, options);
    // A data set whose lines lack the field is a mistake, settings of some program are not.
    if (!stream.begins_with_document() && !NamedForJsonLines(path)) {
      return fmt::format("JSON without a \"{}\"", options.field);
    }
    if (!stream.form().converted && !options.raw) CheckPlaces(path, path);
    return "";
  } catch (const NotText& error) {
    return error.looks_like();
  }
}

// "left out 12 files that are no texts: a.png (a PNG image), ..."
std::string DescribeLeftOut(const std::vector<std::string>& some, size_t count) {
  if (count == 0) return "";
  return fmt::format("left out {} file{} that {} no text{}: {}{}",
                     WithCommas(static_cast<int64_t>(count)), count == 1 ? "" : "s",
                     count == 1 ? "is" : "are", count == 1 ? "" : "s", Join(some, ", "),
                     count > some.size() ? ", ..." : "");
}

}  // namespace

TextFiles FindTextFiles(const std::vector<std::string>& paths, const TextOptions& options) {
  constexpr size_t kTold = 3;
  TextFiles texts;
  std::vector<std::string> told;
  size_t left_out = 0;
  for (const std::string& path : paths) {
    std::error_code ignored;
    if (!fs::is_directory(path, ignored)) {
      texts.files.push_back(path);
      continue;
    }
    const size_t before = texts.files.size();
    const size_t left_out_before = left_out;
    for (const std::string& file : FilesBelow(path)) {
      const std::string why = WhyNot(file, options);
      if (why.empty()) {
        texts.files.push_back(file);
      } else if (++left_out; told.size() < kTold) {
        told.push_back(fmt::format("{} ({})", fs::path(file).filename().string(), why));
      }
    }
    if (texts.files.size() > before) continue;
    throw InputError(fmt::format("'{}' holds neither a data set nor texts", path),
                     left_out == left_out_before ? "there is no file in it or below it"
                                                 : DescribeLeftOut(told, left_out),
                     "name the files, or a directory with texts; --field NAME says which member of "
                     "JSON lines is the text");
  }
  texts.left_out = DescribeLeftOut(told, left_out);
  return texts;
}

int64_t TextBytes(const std::vector<std::string>& files, const TextOptions& options,
                  int64_t enough) {
  constexpr size_t kPiece = size_t{1} << 20;
  int64_t total = 0;
  std::string piece;
  for (const std::string& file : files) {
    const TextInput input = FindTextInput(file, options);
    if (input.once) return -1;
    if (!input.form.converted) {
      total += input.bytes;
      continue;
    }
    TextStream stream(file, options);
    while (total < enough) {
      piece.clear();
      const size_t got = stream.Read(piece, kPiece);
      if (got == 0) break;
      total += static_cast<int64_t>(got);
    }
  }
  return total;
}

}  // namespace folio
