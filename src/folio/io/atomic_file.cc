#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "folio/base/check.h"
#include "folio/base/error.h"
#include "folio/io/file.h"
#include "folio/io/posix.h"

namespace folio {

using internal::ThrowCannotWrite;

AtomicFile::AtomicFile(const std::filesystem::path& target)
    : name_(target),
      target_(internal::ResolveTarget(target)),
      temporary_(internal::TemporaryFor(target_)) {
  struct stat info;
  if (stat(target_.c_str(), &info) == 0 && !S_ISREG(info.st_mode)) {
    ThrowCannotWrite(name_, S_ISDIR(info.st_mode) ? EISDIR : EINVAL);
  }
  internal::CleanLeftovers(target_);
  fd_ = open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (fd_ < 0 && errno == EEXIST) {
    throw RuntimeError(fmt::format("cannot write {}", name_.string()),
                       "somebody else is writing it now", "wait for the other process to end");
  }
  if (fd_ < 0) ThrowCannotWrite(name_, errno);
  internal::LockTemporary(fd_);
}

AtomicFile::~AtomicFile() {
  if (fd_ < 0) return;
  unlink(temporary_.c_str());
  close(fd_);
}

void AtomicFile::Write(std::span<const std::byte> bytes) {
  FOLIO_CHECK(fd_ >= 0, "write after Commit");
  while (!bytes.empty()) {
    const ssize_t put = write(fd_, bytes.data(), bytes.size());
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) ThrowCannotWrite(name_, errno);
    bytes = bytes.subspan(static_cast<size_t>(put));
    written_ += static_cast<uint64_t>(put);
  }
}

void AtomicFile::Commit() {
  FOLIO_CHECK(fd_ >= 0, "second Commit");
  if (fsync(fd_) != 0) ThrowCannotWrite(name_, errno);
  if (rename(temporary_.c_str(), target_.c_str()) != 0) ThrowCannotWrite(name_, errno);
  if (close(std::exchange(fd_, -1)) != 0) ThrowCannotWrite(name_, errno);
  internal::SyncDirectory(target_.parent_path());
}

void WriteFileAtomically(const std::filesystem::path& path, std::string_view bytes) {
  AtomicFile file(path);
  file.Write(bytes);
  file.Commit();
}

}  // namespace folio
