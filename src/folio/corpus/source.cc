#include "folio/corpus/source.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "folio/base/error.h"
#include "folio/io/posix.h"

namespace folio {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

Error Changed(const std::string& path) {
  return InputError(fmt::format("{}: changed while it was read", path), "",
                    "try again when nothing writes to it");
}

int64_t ModifiedTime(const std::string& path) {
  return static_cast<int64_t>(fs::last_write_time(path).time_since_epoch().count());
}

}  // namespace

PrepareSource::PrepareSource(const std::string& path) : path_(path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (!fs::exists(status)) {
    throw InputError(fmt::format("{}: no such file", path), error ? error.message() : "",
                     "name a text file");
  }
  if (!fs::is_regular_file(status)) {
    throw InputError(fmt::format("{}: not a regular file", path),
                     "the data is read more than once, so it must be a file on disk",
                     "name a text file");
  }
  bytes_ = static_cast<int64_t>(fs::file_size(path));
  modified_ = ModifiedTime(path);
  json_lines_ = fs::path(path).extension() == ".jsonl";
  std::string begin;
  Read(0, std::min(bytes_, std::ssize(kByteOrderMark)), begin);
  if (begin != kByteOrderMark) return;
  mark_ = std::ssize(kByteOrderMark);
  bytes_ -= mark_;
}

void PrepareSource::Read(int64_t begin, int64_t end, std::string& out) const {
  const internal::FileDescriptor fd(open(path_.c_str(), O_RDONLY | O_CLOEXEC));
  if (fd.get() < 0) {
    throw InputError(fmt::format("{}: cannot be opened", path_), internal::ErrnoText(errno),
                     "check its permissions");
  }
  out.resize(static_cast<size_t>(end - begin));
  for (size_t done = 0; done < out.size();) {
    const ssize_t got = pread(fd.get(), out.data() + done, out.size() - done,
                              mark_ + begin + static_cast<int64_t>(done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) internal::ThrowCannotRead(path_, errno);
    if (got == 0) throw Changed(path_);
    done += static_cast<size_t>(got);
  }
}

TextPosition PrepareSource::PositionOf(int64_t byte) const {
  constexpr int64_t kPiece = int64_t{1} << 20;
  TextPosition position;
  std::string text;
  while (position.byte < byte) {
    Read(position.byte, std::min(byte, position.byte + kPiece), text);
    position.Advance(text);
  }
  return position;
}

void PrepareSource::CheckUnchanged() const {
  const PrepareSource now(path_);
  if (now.bytes_ != bytes_ || now.modified_ != modified_) throw Changed(path_);
}

}  // namespace folio
