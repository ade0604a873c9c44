#include "folio/io/posix.h"

#include <dlfcn.h>
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
#include "folio/io/guarded_directory.h"

namespace folio::internal {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kTemporaryMark = ".tmp-";
constexpr std::string_view kAsideMark = ".old-";
constexpr std::string_view kWholeMark = ".new-";  // finished, on its way to the target's name

std::string Beside(const HeldName& target, std::string_view mark) {
  return fmt::format(".{}{}", target.name(), mark);
}

// Returns whether `name` is `prefix` and then a process number.
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

// The kind of a file in words; "" for a regular file, or for nothing.
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
  return fd;
}

enum class Writer { kGone, kAlive, kUnknown };  // unknown: the file system has no locks

Writer WriterOf(const HeldName& target, const std::string& name) {
  // Without waiting, should it be a pipe.
  const FileDescriptor fd(target.Open(name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK));
  if (fd.get() < 0) return Writer::kUnknown;
  if (flock(fd.get(), LOCK_EX | LOCK_NB) == 0) return Writer::kGone;
  return errno == EWOULDBLOCK ? Writer::kAlive : Writer::kUnknown;
}

// The names beside a target that have `mark`.
std::vector<std::string> Marked(const HeldName& target, std::string_view mark) {
  const std::string prefix = Beside(target, mark);
  std::vector<std::string> found = target.Siblings();
  std::erase_if(found, [&](const std::string& name) { return !HasPrefixAndNumber(name, prefix); });
  return found;
}

std::vector<std::string> OwnMarked(const HeldName& target, std::string_view mark) {
  std::vector<std::string> found = Marked(target, mark);
  std::erase_if(found, [&](const std::string& name) {
    struct stat info = {};
    return target.Stat(name, info) != 0 || info.st_uid != geteuid();
  });
  return found;
}

bool HasLivingWriter(const HeldName& target) {
  for (const std::string_view mark : {kTemporaryMark, kWholeMark}) {
    for (const std::string& name : Marked(target, mark)) {
      if (WriterOf(target, name) == Writer::kAlive) return true;
    }
  }
  return false;
}

std::string OwnName(const HeldName& target, std::string_view mark) {
  return fmt::format("{}{}", Beside(target, mark), getpid());
}

bool IsThere(const HeldName& target) {
  struct stat info = {};
  return target.Stat(info) == 0;
}

// Puts `from` in the place of the target in two steps; what was there is aside then, or back if it
// fails. Returns an errno, or 0.
int SwapByRenames(const HeldName& target, const std::string& from) {
  const std::string aside = OwnName(target, kAsideMark);
  const bool there = IsThere(target);
  if (there && target.Rename(target.name(), aside) != 0) return errno;
  if (target.Rename(from, target.name()) == 0) return 0;
  const int error = errno;
  if (there) target.Rename(aside, target.name());
  return error;
}

}  // namespace

FileDescriptor::~FileDescriptor() {
  if (fd_ >= 0) close(fd_);
}

LateLibrary::LateLibrary(std::initializer_list<const char*> names,
                         Error (*refusal)(const char* cause))
    : refusal_(refusal) {
  for (const char* name : names) {
    if (library_ == nullptr) library_ = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  }
  if (library_ == nullptr) throw refusal_(dlerror());
}

void* LateLibrary::FindSymbol(const char* name) const {
  if (void* symbol = dlsym(library_, name)) return symbol;
  throw refusal_(dlerror());
}

std::string ErrnoText(int error) {
  if (error == ELOOP) return "symbolic links there lead back to themselves";
  return std::generic_category().message(error);
}

FileDescriptor OpenForReading(const fs::path& path) {
  struct stat info = {};
  FileDescriptor fd = OpenAtOnce(path, info);
  if (!S_ISREG(info.st_mode)) ThrowNotRegular(path, OtherKind(info));
  return fd;
}

FileDescriptor OpenIfRegular(const fs::path& path, int flags) {
  FileDescriptor fd(open(path.c_str(), kAtOnce | flags));
  struct stat info = {};
  const bool regular = fd.get() >= 0 && fstat(fd.get(), &info) == 0 && S_ISREG(info.st_mode);
  return regular ? std::move(fd) : FileDescriptor(-1);
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
  return fd;
}

std::string WhyNotThere(const fs::path& path) {
  struct stat info = {};
  if (stat(path.c_str(), &info) == 0 || errno == ENOENT) {
    return "there is no such file or directory";
  }
  return ErrnoText(errno);
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
  if (error == ELOOP) {
    help = GuardedPath(path).empty() ? "remove them, or name another place"
                                     : "put there what it leads to";
  }
  if (error == EBUSY) help = "if another disk is mounted there, mount what is around it instead";
  throw RuntimeError(fmt::format("cannot write {}", path.string()),
                     error == ELOOP ? WhyNotFollowed(path) : ErrnoText(error), help);
}

void ThrowBusy(const fs::path& path) {
  throw RuntimeError(fmt::format("cannot write {}", path.string()),
                     "somebody else is writing it now", "wait for the other process to end");
}

fs::path ResolveTarget(const fs::path& target) {
  std::error_code error;
  if (fs::path guarded = GuardedPath(target); !guarded.empty()) {
    const FileDescriptor parent(OpenFile(guarded.parent_path(), O_PATH | O_DIRECTORY));
    if (parent.get() < 0) ThrowCannotWrite(target, errno);
    return guarded;
  }
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

std::string TemporaryFor(const HeldName& target) {
  return OwnName(target, kTemporaryMark);
}

void CleanLeftovers(const HeldName& target) {
  if (!HasLivingWriter(target)) {
    for (const std::string& whole : OwnMarked(target, kWholeMark)) {
      // With a newer one that is whole nobody needs what it was to replace.
      for (const std::string& aside : OwnMarked(target, kAsideMark)) target.RemoveTree(aside);
      SwapByRenames(target, whole);
    }
    for (const std::string& aside : OwnMarked(target, kAsideMark)) {
      if (IsThere(target)) {
        target.RemoveTree(aside);
      } else {
        target.Rename(aside, target.name());
      }
    }
  }
  for (const std::string& temporary : OwnMarked(target, kTemporaryMark)) {
    if (WriterOf(target, temporary) == Writer::kGone) target.RemoveTree(temporary);
  }
}

void LockTemporary(int fd) {
  flock(fd, LOCK_EX | LOCK_NB);
}

void SyncDirectory(const fs::path& directory) {
  const FileDescriptor fd(OpenFile(directory, O_RDONLY | O_DIRECTORY));
  // Some file systems cannot flush a directory and say EINVAL; only a real fault counts.
  if (fd.get() < 0 || (fsync(fd.get()) != 0 && errno == EIO)) ThrowCannotWrite(directory, errno);
}

void ReplaceDirectory(const HeldName& to, const std::string& from, const fs::path& name,
                      bool may_exchange) {
  const auto check = [&](int result) {
    if (result != 0) ThrowCannotWrite(name, errno);
  };
  if (!IsThere(to)) {
    check(to.Rename(from, to.name()));
    check(to.SyncDirectory());
    return;
  }
  std::string old = from;
  if (!may_exchange || to.Rename(from, to.name(), RENAME_EXCHANGE) != 0) {
    // Under this name it is known to be whole, whatever happens between the steps.
    const std::string whole = OwnName(to, kWholeMark);
    check(to.Rename(from, whole));
    if (const int error = SwapByRenames(to, whole); error != 0) {
      to.Rename(whole, from);
      ThrowCannotWrite(name, error);
    }
    old = OwnName(to, kAsideMark);
  }
  check(to.SyncDirectory());
  to.RemoveTree(old);
}

}  // namespace folio::internal
