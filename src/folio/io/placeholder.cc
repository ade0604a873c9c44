#include "folio/io/placeholder.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>

#include "folio/base/error.h"
#include "folio/base/strings.h"
#include "folio/base/utf8.h"
#include "folio/io/byte_reader.h"
#include "folio/io/file.h"

namespace folio {
namespace {

constexpr size_t kLooked = 512;  // bytes examined at a file's beginning
constexpr std::string_view kPointer = "version https://git-lfs.github.com/spec/";

std::string_view Trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of("\xEF\xBB\xBF \t\r\n");
  return text.substr(std::min(begin, text.size()));
}

bool BeginsAs(std::string_view text, std::string_view lower_case) {
  return LowerAscii(text.substr(0, lower_case.size())) == lower_case;
}

// The size of the file according to a pointer.
std::string SizeIn(std::string_view pointer) {
  constexpr std::string_view kSize = "\nsize ";
  const size_t at = pointer.find(kSize);
  if (at == pointer.npos) return "";
  const std::string_view rest = pointer.substr(at + kSize.size());
  const size_t digits = std::min(rest.find_first_not_of("0123456789"), rest.size());
  return fmt::format(" of {} bytes", rest.substr(0, digits));
}

bool IsPrintable(std::string_view text) {
  const auto control = [](char c) {
    return (static_cast<unsigned char>(c) < ' ' && c != '\n' && c != '\r' && c != '\t') ||
           c == '\x7f';
  };
  // The last character may be incomplete.
  const size_t bad = FindInvalidUtf8(text);
  return std::ranges::none_of(text, control) && (bad == text.npos || bad + 4 > text.size());
}

}  // namespace

void RefusePlaceholder(std::string_view text, const std::string& where) {
  const std::string_view begin = Trimmed(text.substr(0, kLooked));
  if (begin.starts_with(kPointer)) {
    throw InputError(
        fmt::format("{}: a Git LFS pointer, not the file itself", where),
        fmt::format("the file{} was not downloaded: the repository was cloned without Git LFS",
                    SizeIn(begin)),
        "run git lfs pull in that directory, or download the file itself");
  }
  const bool html = BeginsAs(begin, "<!doctype html") || BeginsAs(begin, "<html");
  if (!html && !BeginsAs(begin, "<?xml")) return;
  throw InputError(fmt::format("{}: an {} page, not the file itself", where, html ? "HTML" : "XML"),
                   "the server sent a web page: a description of the file, a login, or an error",
                   "download the file itself; some files need a login or permission");
}

void RefuseText(std::string_view bytes, const std::string& where) {
  RefusePlaceholder(bytes, where);
  const std::string_view begin = bytes.substr(0, kLooked);
  constexpr size_t kLeast = 8, kShown = 80;  // fewer bytes may begin anything
  if (begin.size() < kLeast || !IsPrintable(begin)) return;
  throw InputError(
      fmt::format("{}: a text file, not a model", where),
      fmt::format("it begins with \"{}\"",
                  ReplaceInvalidUtf8(begin.substr(0, begin.find('\n')).substr(0, kShown))),
      "download the model file again: the server may have sent an error message");
}

void RefuseTextFile(const std::filesystem::path& path) {
  const MappedFile file(path, Loading::kMap);
  RefuseText(AsText(file.bytes().first(std::min(file.bytes().size(), kLooked))), path.string());
}

}  // namespace folio
