#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "folio/base/error.h"
#include "folio/io/file.h"
#include "folio/io/guarded_directory.h"
#include "folio/io/posix.h"

namespace folio {
namespace {

namespace fs = std::filesystem;
using internal::ThrowCannotWrite;

// Makes everything below `directory` and itself durable.
void SyncTree(const fs::path& directory) {
  std::error_code unread;
  for (const std::string& name : internal::NamesIn(directory, &unread)) {
    const fs::path inside = directory / name;
    const internal::HeldName held(inside);
    struct stat info = {};
    if (held.Stat(info) != 0) ThrowCannotWrite(inside, errno);
    if (S_ISDIR(info.st_mode)) SyncTree(inside);
    if (!S_ISREG(info.st_mode)) continue;
    const internal::FileDescriptor fd(held.Open(O_RDONLY | O_NOFOLLOW));
    if (fd.get() < 0 || fsync(fd.get()) != 0) ThrowCannotWrite(inside, errno);
  }
  if (unread) ThrowCannotWrite(directory, unread.value());
  internal::SyncDirectory(directory);
}

[[noreturn]] void ThrowClosed(const fs::path& name) {
  throw UsageError(fmt::format("{} is written and closed", name.string()),
                   "nothing can follow Commit", "write it again as a whole");
}

}  // namespace

AtomicFile::AtomicFile(const std::filesystem::path& target)
    : name_(target),
      target_(std::make_unique<internal::HeldName>(internal::ResolveTarget(target))),
      temporary_(internal::TemporaryFor(*target_)) {
  struct stat info;
  if (target_->Stat(info) == 0 && !S_ISREG(info.st_mode) && !S_ISLNK(info.st_mode)) {
    ThrowCannotWrite(name_, S_ISDIR(info.st_mode) ? EISDIR : EINVAL);
  }
  internal::CleanLeftovers(*target_);
  fd_ = target_->Open(temporary_, O_WRONLY | O_CREAT | O_EXCL);
  if (fd_ < 0 && errno == EEXIST) internal::ThrowBusy(name_);
  if (fd_ < 0) ThrowCannotWrite(name_, errno);
  internal::LockTemporary(fd_);
}

AtomicFile::~AtomicFile() {
  if (fd_ < 0) return;
  target_->Remove(temporary_);
  close(fd_);
}

void AtomicFile::Write(std::span<const std::byte> bytes) {
  if (fd_ < 0) ThrowClosed(name_);
  while (!bytes.empty()) {
    const ssize_t put = write(fd_, bytes.data(), bytes.size());
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) ThrowCannotWrite(name_, errno);
    bytes = bytes.subspan(static_cast<size_t>(put));
    written_ += static_cast<uint64_t>(put);
  }
}

void AtomicFile::Commit() {
  if (fd_ < 0) ThrowClosed(name_);
  if (fsync(fd_) != 0) ThrowCannotWrite(name_, errno);
  if (target_->Rename(temporary_, target_->name()) != 0) ThrowCannotWrite(name_, errno);
  if (close(std::exchange(fd_, -1)) != 0) ThrowCannotWrite(name_, errno);
  if (target_->SyncDirectory() != 0) ThrowCannotWrite(name_, errno);
}

void WriteFileAtomically(const std::filesystem::path& path, std::string_view bytes) {
  AtomicFile file(path);
  file.Write(bytes);
  file.Commit();
}

AtomicDirectory::AtomicDirectory(const fs::path& target)
    : name_(target),
      resolved_(internal::ResolveTarget(target)),
      target_(std::make_unique<internal::HeldName>(resolved_)),
      temporary_(internal::TemporaryFor(*target_)),
      path_(resolved_.parent_path() / temporary_),
      inside_(std::make_unique<GuardedDirectory>(GuardedDirectory::AlsoItself(path_))) {
  struct stat info;
  if (target_->Stat(info) == 0 && !S_ISDIR(info.st_mode) && !S_ISLNK(info.st_mode)) {
    ThrowCannotWrite(name_, ENOTDIR);
  }
  internal::CleanLeftovers(*target_);
  if (target_->MakeDirectory(temporary_) != 0) {
    if (errno == EEXIST) internal::ThrowBusy(name_);
    ThrowCannotWrite(name_, errno);
  }
  fd_ = target_->Open(temporary_, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
  if (fd_ < 0) ThrowCannotWrite(name_, errno);
  internal::LockTemporary(fd_);
}

AtomicDirectory::~AtomicDirectory() {
  if (fd_ < 0) return;
  target_->RemoveTree(temporary_);
  close(fd_);
}

void AtomicDirectory::Commit() {
  if (fd_ < 0) ThrowClosed(name_);
  SyncTree(path_);
  internal::ReplaceDirectory(*target_, temporary_, name_);
  close(std::exchange(fd_, -1));
}

}  // namespace folio
