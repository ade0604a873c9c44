#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "folio/base/error.h"
#include "folio/io/file.h"
#include "folio/io/posix.h"

namespace folio {
namespace {

namespace fs = std::filesystem;
using internal::ThrowCannotWrite;

// Makes everything below `directory` and itself durable.
void SyncTree(const fs::path& directory) {
  for (const fs::directory_entry& entry : fs::directory_iterator(directory)) {
    if (entry.is_symlink()) continue;
    if (entry.is_directory()) {
      SyncTree(entry.path());
    } else if (entry.is_regular_file()) {
      const internal::FileDescriptor fd(open(entry.path().c_str(), O_RDONLY | O_CLOEXEC));
      if (fd.get() < 0 || fsync(fd.get()) != 0) ThrowCannotWrite(entry.path(), errno);
    }
  }
  internal::SyncDirectory(directory);
}

[[noreturn]] void ThrowClosed(const fs::path& name) {
  throw UsageError(fmt::format("{} is written and closed", name.string()),
                   "nothing can follow Commit", "write it again as a whole");
}

}  // namespace

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
  if (fd_ < 0 && errno == EEXIST) internal::ThrowBusy(name_);
  if (fd_ < 0) ThrowCannotWrite(name_, errno);
  internal::LockTemporary(fd_);
}

AtomicFile::~AtomicFile() {
  if (fd_ < 0) return;
  unlink(temporary_.c_str());
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
  if (rename(temporary_.c_str(), target_.c_str()) != 0) ThrowCannotWrite(name_, errno);
  if (close(std::exchange(fd_, -1)) != 0) ThrowCannotWrite(name_, errno);
  internal::SyncDirectory(target_.parent_path());
}

void WriteFileAtomically(const std::filesystem::path& path, std::string_view bytes) {
  AtomicFile file(path);
  file.Write(bytes);
  file.Commit();
}

AtomicDirectory::AtomicDirectory(const fs::path& target)
    : name_(target),
      target_(internal::ResolveTarget(target)),
      temporary_(internal::TemporaryFor(target_)) {
  struct stat info;
  if (stat(target_.c_str(), &info) == 0 && !S_ISDIR(info.st_mode)) {
    ThrowCannotWrite(name_, ENOTDIR);
  }
  internal::CleanLeftovers(target_);
  if (mkdir(temporary_.c_str(), 0777) != 0) {
    if (errno == EEXIST) internal::ThrowBusy(name_);
    ThrowCannotWrite(name_, errno);
  }
  fd_ = open(temporary_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd_ < 0) ThrowCannotWrite(name_, errno);
  internal::LockTemporary(fd_);
}

AtomicDirectory::~AtomicDirectory() {
  if (fd_ < 0) return;
  std::error_code ignored;
  fs::remove_all(temporary_, ignored);
  close(fd_);
}

void AtomicDirectory::Commit() {
  if (fd_ < 0) ThrowClosed(name_);
  try {
    SyncTree(temporary_);
  } catch (const fs::filesystem_error& error) {
    ThrowCannotWrite(name_, error.code().value());
  }
  internal::ReplaceDirectory(temporary_, target_);
  close(std::exchange(fd_, -1));
}

}  // namespace folio
