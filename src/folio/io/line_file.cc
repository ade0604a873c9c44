#include "folio/io/line_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>

#include "folio/base/log.h"
#include "folio/io/guarded_directory.h"
#include "folio/io/posix.h"

namespace folio {

LineFile::LineFile(const std::filesystem::path& path) : path_(path) {
  constexpr int kFlags = O_WRONLY | O_APPEND;
  const internal::HeldName held(path);
  fd_ = held.Open(kFlags);
  if (fd_ >= 0) return;
  if (errno == ENOENT) fd_ = held.Open(kFlags | O_CREAT);
  if (fd_ < 0 || held.SyncDirectory() != 0) internal::ThrowCannotWrite(path, errno);
}

LineFile::~LineFile() {
  if (fd_ >= 0) close(fd_);
}

int LineFile::TryToWrite() {
  while (!waiting_.empty()) {
    const ssize_t put = write(fd_, waiting_.data(), waiting_.size());
    if (put > 0) {
      waiting_.erase(0, static_cast<size_t>(put));
    } else if (put == 0 || errno != EINTR) {
      return put == 0 ? EIO : errno;
    }
  }
  return 0;
}

void LineFile::Warn(int error) {
  if (error == 0 || warned_) return;
  LogWarning(fmt::format("cannot write {}: {}; its lines are kept until that works again",
                         path_.string(), internal::ErrnoText(error)));
  warned_ = true;
}

void LineFile::Write(std::string_view line) {
  waiting_ += line;
  Warn(TryToWrite());
}

void LineFile::Sync() {
  if (fdatasync(fd_) != 0) Warn(errno);
}

void LineFile::Finish() {
  int error = TryToWrite();
  if (error == 0 && fdatasync(fd_) != 0) error = errno;
  if (error != 0) internal::ThrowCannotWrite(path_, error);
}

}  // namespace folio
