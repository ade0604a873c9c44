#include "folio/io/partial_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "folio/base/check.h"
#include "folio/base/error.h"
#include "folio/io/posix.h"

namespace folio {

using internal::ThrowCannotWrite;

PartialFile::PartialFile(const std::filesystem::path& target, std::string_view key,
                         int64_t worth_keeping)
    : name_(target),
      resolved_(internal::ResolveTarget(target)),
      target_(resolved_),
      part_(fmt::format(".{}.{}.part", target_.name(), key)),
      path_(resolved_.parent_path() / part_),
      worth_keeping_(worth_keeping) {
  constexpr int kHow = O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_NONBLOCK;
  fd_ = target_.Open(part_, kHow);
  if (fd_ < 0) ThrowCannotWrite(name_, errno);
  // A file system without locks is no reason not to download.
  if (flock(fd_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    close(std::exchange(fd_, -1));
    internal::ThrowBusy(name_);
  }
  struct stat info = {};
  if (fstat(fd_, &info) != 0 || !S_ISREG(info.st_mode)) {
    close(std::exchange(fd_, -1));
    ThrowCannotWrite(name_, EINVAL);
  }
  // Others may have put it there, as a file of their own or another name of one of this user's.
  if (info.st_uid != geteuid() || info.st_nlink != 1) {
    close(std::exchange(fd_, -1));
    throw RuntimeError(fmt::format("cannot write {}", name_.string()),
                       fmt::format("{} is there and not this user's alone", path_.string()),
                       "remove it, or choose a place that nobody else may write to");
  }
  bytes_ = info.st_size;
}

PartialFile::~PartialFile() {
  if (fd_ < 0) return;
  if (bytes_ < worth_keeping_) target_.Remove(part_);
  close(fd_);
}

void PartialFile::Add(std::string_view piece) {
  FOLIO_CHECK(fd_ >= 0, "write after Commit");
  while (!piece.empty()) {
    const ssize_t put = write(fd_, piece.data(), piece.size());
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) ThrowCannotWrite(name_, errno);
    piece.remove_prefix(static_cast<size_t>(put));
    bytes_ += put;
  }
}

void PartialFile::Clear(int64_t kept) {
  FOLIO_CHECK(kept <= bytes_, "there are fewer bytes");
  if (ftruncate(fd_, static_cast<off_t>(kept)) != 0) ThrowCannotWrite(name_, errno);
  bytes_ = kept;
}

void PartialFile::Commit() {
  FOLIO_CHECK(fd_ >= 0, "second Commit");
  if (fsync(fd_) != 0) ThrowCannotWrite(name_, errno);
  if (target_.Rename(part_, target_.name()) != 0) ThrowCannotWrite(name_, errno);
  if (close(std::exchange(fd_, -1)) != 0) ThrowCannotWrite(name_, errno);
  if (target_.SyncDirectory() != 0) ThrowCannotWrite(name_, errno);
}

}  // namespace folio
