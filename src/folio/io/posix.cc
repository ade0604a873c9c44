#include "folio/io/posix.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <vector>

#include "folio/base/error.h"

namespace folio::internal {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kTemporaryMark = ".tmp-";
constexpr std::string_view kAsideMark = ".old-";
constexpr std::string_view kWholeMark = ".new-";  // finished, on its way to the target's name

std::string Beside(const fs::path& target, std::string_view mark) {
  return fmt::format(".{}{}", target.filename().string(), mark);
}

// Whether `name` is `prefix` and then a process number.
bool HasPrefixAndNumber(const std::string& name, const std::string& prefix) {
  return name.size() > prefix.size() && name.starts_with(prefix) &&
         std::all_of(name.begin() + static_cast<std::ptrdiff_t>(prefix.size()), name.end(),
                     [](char c) { return '0' <= c && c <= '9'; });
}

constexpr int kAtOnce = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;

[[noreturn]] void ThrowNotRegular(const fs::path& path, std::string_view kind) {
  throw InputError(fmt::format("cannot read {}", path.string()),
                   fmt::format("it is {}, not a regular file", kind), "save it as a file first");
}

// What is no regular file, in words; "" for one, or for nothing.
std::string_view OtherKind(const struct stat& info) {
  if (S_ISFIFO(info.st_mode)) return "a pipe";
  if (S_ISSOCK(info.st_mode)) return "a socket";
  if (S_ISCHR(info.st_mode) || S_ISBLK(info.st_mode)) return "a device";
  return "";
}

// As open(), but for its errors: a socket is refused before anything is known of it.
FileDescriptor OpenAtOnce(const fs::path& path, struct stat& info) {
  FileDescriptor fd(open(path.c_str(), kAtOnce));
  if (fd.get() < 0) {
    const int error = errno;
    if (error == ENXIO && stat(path.c_str(), &info) == 0 && !OtherKind(info).empty()) {
      ThrowNotRegular(path, OtherKind(info));
    }
    ThrowCannotRead(path, error);
  }
  if (fstat(fd.get(), &info) != 0) ThrowCannotRead(path, errno);
  if (S_ISDIR(info.st_mode)) ThrowCannotRead(path, EISDIR);
  return FileDescriptor(fd.Release());
}

enum class Writer { kGone, kAlive, kUnknown };  // unknown: the file system has no locks

Writer WriterOf(const fs::path& path) {
  // Without waiting, should it be a pipe.
  const FileDescriptor fd(open(path.c_str(), kAtOnce | O_NOFOLLOW));
  if (fd.get() < 0) return Writer::kUnknown;
  if (flock(fd.get(), LOCK_EX | LOCK_NB) == 0) return Writer::kGone;
  return errno == EWOULDBLOCK ? Writer::kAlive : Writer::kUnknown;
}

std::vector<fs::path> Siblings(const fs::path& target, std::string_view mark) {
  const std::string prefix = Beside(target, mark);
  std::vector<fs::path> found;
  std::error_code error;
  for (fs::directory_iterator it(target.parent_path(), error), end; !error && it != end;
       it.increment(error)) {
    if (HasPrefixAndNumber(it->path().filename().string(), prefix)) found.push_back(it->path());
  }
  return found;
}

std::vector<fs::path> OwnSiblings(const fs::path& target, std::string_view mark) {
  std::vector<fs::path> found = Siblings(target, mark);
  std::erase_if(found, [](const fs::path& path) { return !IsOwn(path); });
  return found;
}

bool HasLivingWriter(const fs::path& target) {
  for (const std::string_view mark : {kTemporaryMark, kWholeMark}) {
    for (const fs::path& path : Siblings(target, mark)) {
      if (WriterOf(path) == Writer::kAlive) return true;
    }
  }
  return false;
}

fs::path OwnName(const fs::path& target, std::string_view mark) {
  return target.parent_path() / fmt::format("{}{}", Beside(target, mark), getpid());
}

// Puts `from` in the place of `to` in two steps; what was there is aside then, or back if it fails.
void SwapByRenames(const fs::path& from, const fs::path& to, std::error_code& error) {
  const fs::path aside = OwnName(to, kAsideMark);
  std::error_code ignored;
  const bool there = fs::exists(to, ignored);
  error.clear();
  if (there) fs::rename(to, aside, error);
  if (error) return;
  fs::rename(from, to, error);
  if (error && there) fs::rename(aside, to, ignored);
}

}  // namespace

FileDescriptor::~FileDescriptor() {
  if (fd_ >= 0) close(fd_);
}

int FileDescriptor::Release() {
  const int fd = fd_;
  fd_ = -1;
  return fd;
}

std::string ErrnoText(int error) {
  return std::generic_category().message(error);
}

FileDescriptor OpenForReading(const fs::path& path) {
  struct stat info = {};
  FileDescriptor fd = OpenAtOnce(path, info);
  if (!S_ISREG(info.st_mode)) ThrowNotRegular(path, OtherKind(info));
  return FileDescriptor(fd.Release());
}

FileDescriptor OpenIfRegular(const fs::path& path, int flags) {
  FileDescriptor fd(open(path.c_str(), kAtOnce | flags));
  struct stat info = {};
  const bool regular = fd.get() >= 0 && fstat(fd.get(), &info) == 0 && S_ISREG(info.st_mode);
  return FileDescriptor(regular ? fd.Release() : -1);
}

FileDescriptor OpenStream(const fs::path& path) {
  struct stat info = {};
  FileDescriptor fd = OpenAtOnce(path, info);
  struct stat null = {};
  const bool is_null =
      S_ISCHR(info.st_mode) && stat("/dev/null", &null) == 0 && info.st_rdev == null.st_rdev;
  const bool taken =
      S_ISREG(info.st_mode) || S_ISFIFO(info.st_mode) || is_null || isatty(fd.get()) == 1;
  if (!taken) ThrowNotRegular(path, OtherKind(info));
  return FileDescriptor(fd.Release());
}

void ThrowCannotRead(const fs::path& path, int error) {
  throw InputError(fmt::format("cannot read {}", path.string()), ErrnoText(error),
                   error == EACCES ? "ask for permission to read it" : "");
}

void ThrowCannotWrite(const fs::path& path, int error) {
  std::string help = "choose a place that you may write to";
  if (error == ENOSPC || error == EDQUOT) help = "the disk or the quota is full: make room there";
  if (error == EFBIG) help = "files of this size are not allowed there (see ulimit -f)";
  if (error == EIO) help = "the disk reported a fault: write to another one";
  throw RuntimeError(fmt::format("cannot write {}", path.string()), ErrnoText(error), help);
}

void ThrowBusy(const fs::path& path) {
  throw RuntimeError(fmt::format("cannot write {}", path.string()),
                     "somebody else is writing it now", "wait for the other process to end");
}

fs::path ResolveTarget(const fs::path& target) {
  std::error_code error;
  fs::path resolved = target.empty() ? target : fs::weakly_canonical(fs::absolute(target), error);
  if (error) ThrowCannotWrite(target, error.value());
  if (!resolved.has_filename()) resolved = resolved.parent_path();
  if (!resolved.has_filename()) ThrowCannotWrite(target, EINVAL);
  if (!fs::is_directory(resolved.parent_path(), error)) {
    throw RuntimeError(
        fmt::format("cannot write {}", target.string()),
        fmt::format("{} is not an existing directory", resolved.parent_path().string()),
        fmt::format("make it first: mkdir -p {}", resolved.parent_path().string()));
  }
  return resolved;
}

bool IsOwn(const fs::path& path) {
  struct stat info = {};
  return lstat(path.c_str(), &info) == 0 && info.st_uid == geteuid();
}

fs::path TemporaryFor(const fs::path& target) {
  return OwnName(target, kTemporaryMark);
}

void CleanLeftovers(const fs::path& target) {
  std::error_code ignored;
  if (!HasLivingWriter(target)) {
    for (const fs::path& whole : OwnSiblings(target, kWholeMark)) {
      // With a newer one that is whole nobody needs what it was to replace.
      for (const fs::path& aside : OwnSiblings(target, kAsideMark)) fs::remove_all(aside, ignored);
      SwapByRenames(whole, target, ignored);
    }
    for (const fs::path& aside : OwnSiblings(target, kAsideMark)) {
      if (fs::exists(target, ignored)) {
        fs::remove_all(aside, ignored);
      } else {
        fs::rename(aside, target, ignored);
      }
    }
  }
  for (const fs::path& temporary : OwnSiblings(target, kTemporaryMark)) {
    if (WriterOf(temporary) == Writer::kGone) fs::remove_all(temporary, ignored);
  }
}

void LockTemporary(int fd) {
  flock(fd, LOCK_EX | LOCK_NB);
}

void SyncDirectory(const fs::path& directory) {
  const FileDescriptor fd(open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  // Some file systems cannot flush a directory and say EINVAL; only a real fault counts.
  if (fd.get() < 0 || (fsync(fd.get()) != 0 && errno == EIO)) ThrowCannotWrite(directory, errno);
}

void ReplaceDirectory(const fs::path& from, const fs::path& to, bool may_exchange) {
  std::error_code error;
  if (!fs::exists(to, error)) {
    fs::rename(from, to, error);
    if (error) ThrowCannotWrite(to, error.value());
    SyncDirectory(to.parent_path());
    return;
  }
  fs::path old = from;
  if (!may_exchange ||
      renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_EXCHANGE) != 0) {
    // Under this name it is known to be whole, whatever happens between the steps.
    const fs::path whole = OwnName(to, kWholeMark);
    fs::rename(from, whole, error);
    if (error) ThrowCannotWrite(to, error.value());
    SwapByRenames(whole, to, error);
    if (error) {
      std::error_code ignored;
      fs::rename(whole, from, ignored);
      ThrowCannotWrite(to, error.value());
    }
    old = OwnName(to, kAsideMark);
  }
  SyncDirectory(to.parent_path());
  fs::remove_all(old, error);
}

}  // namespace folio::internal
