#include "folio/io/posix.h"

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <mutex>
#include <optional>

#include "folio/base/fork.h"

#ifdef __linux__
#include <sys/syscall.h>
#endif
#if __has_include(<linux/openat2.h>)
#include <linux/openat2.h>
#endif

namespace folio {

namespace fs = std::filesystem;

struct GuardedDirectory::Guard {
  fs::path root;                      // as given; links in it are followed
  std::vector<std::string> prefixes;  // absolute names of guarded directories
  std::string front;                  // the prefix of names below the root; empty if both are the
                                      // same
};

namespace {

using Guard = GuardedDirectory::Guard;
using internal::FileDescriptor;

#ifndef O_PATH
#define O_PATH O_RDONLY  // on Linux: opens a name without reading it
#endif
constexpr int kDirectory = O_PATH | O_DIRECTORY | O_CLOEXEC;

ForkMutex g_guards_mutex;
std::vector<std::weak_ptr<const Guard>> g_guards;

// An absolute name without "." and without a slash at its end. Links before a ".." are resolved,
// since ".." refers to their target.
std::string AbsoluteName(const fs::path& path) {
  std::error_code error;
  fs::path whole = fs::absolute(path, error), followed, rest;
  if (error) whole = path;
  for (const fs::path& name : whole) {
    rest /= name;
    if (name != "..") continue;
    const fs::path up = followed / std::exchange(rest, {});
    followed = fs::weakly_canonical(up, error);
    if (error) followed = up;
  }
  whole = followed / rest;
  std::string name = whole.lexically_normal().string();
  while (name.size() > 1 && name.ends_with('/')) name.pop_back();
  return name;
}

// The rest of `name` below `prefix`, if it lies there.
std::optional<std::string> Below(const std::string& name, const std::string& prefix) {
  if (prefix == "/") return name == "/" ? std::nullopt : std::optional(name.substr(1));
  if (name.size() <= prefix.size() + 1 || !name.starts_with(prefix) || name[prefix.size()] != '/') {
    return std::nullopt;
  }
  return name.substr(prefix.size() + 1);
}

// A name below a guarded directory.
struct GuardedName {
  fs::path root;
  std::string rest;
};

// The outermost of several guards applies.
std::optional<GuardedName> FindGuard(const std::string& name) {
  const std::lock_guard lock(g_guards_mutex);
  std::optional<GuardedName> found;
  size_t shortest = name.size();
  for (const auto& held : g_guards) {
    const std::shared_ptr<const Guard> guard = held.lock();
    if (guard == nullptr) continue;
    for (const std::string& prefix : guard->prefixes) {
      const std::optional<std::string> rest = Below(name, prefix);
      if (!rest || prefix.size() >= shortest) continue;
      shortest = prefix.size();
      found = {guard->root, guard->front.empty() ? *rest : guard->front + "/" + *rest};
    }
  }
  return found;
}

std::shared_ptr<const Guard> Register(Guard guard) {
  auto held = std::make_shared<const Guard>(std::move(guard));
  const std::lock_guard lock(g_guards_mutex);
  std::erase_if(g_guards, [](const auto& one) { return one.expired(); });
  g_guards.push_back(held);
  return held;
}

// Opens one name at a time: for kernels without openat2.
int OpenStepByStep(int root, const std::string& rest) {
  int at = dup(root);
  for (size_t begin = 0; at >= 0 && begin < rest.size();) {
    const size_t end = std::min(rest.find('/', begin), rest.size());
    const std::string name = rest.substr(begin, end - begin);
    begin = end + 1;
    const FileDescriptor parent(at);
    if (name == "..") {
      errno = EXDEV;
      return -1;
    }
    at = openat(parent.get(), name.c_str(), kDirectory | O_NOFOLLOW);
    struct stat info = {};
    if (at >= 0 || errno != ENOTDIR) continue;
    const bool link = fstatat(parent.get(), name.c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0 &&
                      S_ISLNK(info.st_mode);
    errno = link ? ELOOP : ENOTDIR;
  }
  return at;
}

std::error_code CodeOf(int result) {
  return result == 0 ? std::error_code() : std::error_code(errno, std::generic_category());
}

// Closes `directory`. `error` says why it could not be read completely.
std::vector<std::string> NamesOf(int directory, std::error_code* error = nullptr) {
  std::vector<std::string> names;
  DIR* stream = directory < 0 ? nullptr : fdopendir(directory);
  int failed = stream == nullptr ? errno : 0;
  while (stream != nullptr) {
    errno = 0;
    const dirent* entry = readdir(stream);
    failed = errno;
    if (entry == nullptr) break;
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
  }
  if (stream != nullptr) {
    closedir(stream);
  } else if (directory >= 0) {
    close(directory);
  }
  if (error != nullptr) *error = {failed, std::generic_category()};
  return names;
}

int RemoveTreeAt(int directory, const std::string& name) {
  if (unlinkat(directory, name.c_str(), 0) == 0) return 0;
  // For a directory Linux returns EISDIR, POSIX EPERM.
  if (errno != EISDIR && errno != EPERM) return -1;
  const int why = errno;
  const FileDescriptor inside(
      openat(directory, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (inside.get() < 0) {
    if (errno == ENOTDIR) errno = why;
    return -1;
  }
  for (const std::string& one : NamesOf(dup(inside.get()))) {
    if (RemoveTreeAt(inside.get(), one) != 0 && errno != ENOENT) return -1;
  }
  return unlinkat(directory, name.c_str(), AT_REMOVEDIR);
}

}  // namespace

GuardedDirectory::GuardedDirectory(const fs::path& path) {
  std::error_code error;
  Guard guard{.root = fs::absolute(path, error), .prefixes = {AbsoluteName(path)}, .front = ""};
  if (error) guard.root = path;
  const fs::path canonical = fs::canonical(path, error);
  if (!error && canonical.string() != guard.prefixes[0]) {
    guard.prefixes.push_back(canonical.string());
  }
  guard_ = Register(std::move(guard));
}

GuardedDirectory GuardedDirectory::AlsoItself(const fs::path& path) {
  const fs::path whole = AbsoluteName(path);
  return GuardedDirectory(Register({.root = whole.parent_path(),
                                    .prefixes = {whole.string()},
                                    .front = whole.filename().string()}));
}

bool IsFileName(std::string_view name) {
  return !name.empty() && name != "." && name != ".." &&
         std::ranges::none_of(name, [](char c) { return c == '/' || c == '\\' || c == '\0'; });
}

namespace internal {

int OpenBeneath(int root, const std::string& rest, bool in_one_call) {
#if defined(SYS_openat2) && __has_include(<linux/openat2.h>)
  if (in_one_call && !rest.empty()) {
    open_how how = {};
    how.flags = kDirectory;
    how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;
    const auto fd = static_cast<int>(syscall(SYS_openat2, root, rest.c_str(), &how, sizeof(how)));
    // A kernel without openat2, a sandbox that does not know it, or a name that moved meanwhile.
    if (fd >= 0 || (errno != ENOSYS && errno != EPERM && errno != EINVAL && errno != EAGAIN)) {
      return fd;
    }
  }
#else
  (void)in_one_call;
#endif
  return OpenStepByStep(root, rest);
}

HeldName::HeldName(const fs::path& path) {
  const std::string whole = AbsoluteName(path);
  if (const std::optional<GuardedName> found = FindGuard(whole)) {
    guarded_ = true;
    const size_t slash = found->rest.rfind('/');
    name_ = slash == found->rest.npos ? found->rest : found->rest.substr(slash + 1);
    const FileDescriptor root(open(found->root.c_str(), kDirectory));
    if (root.get() >= 0) {
      directory_ = FileDescriptor(
          OpenBeneath(root.get(), found->rest.substr(0, slash == found->rest.npos ? 0 : slash)));
    }
  } else {
    fs::path named = path;
    if (!named.has_filename()) named = named.parent_path();  // "out/"
    name_ = named.filename().string();
    if (name_.empty()) name_ = ".";
    directory_ = FileDescriptor(
        open(named.has_parent_path() ? named.parent_path().c_str() : ".", kDirectory));
  }
  if (directory_.get() < 0) error_ = errno;
}

bool HeldName::Ready() const {
  if (directory_.get() < 0) errno = error_;
  return directory_.get() >= 0;
}

int HeldName::Open(const std::string& name, int flags) const {
  if (!Ready()) return -1;
  const int fd =
      openat(directory_.get(), name.c_str(), flags | O_CLOEXEC | (guarded_ ? O_NOFOLLOW : 0), 0666);
  // If a directory is wanted, the kernel reports a link as "not a directory".
  struct stat info = {};
  if (fd < 0 && errno == ENOTDIR && guarded_ && Stat(name, info) == 0) {
    errno = S_ISLNK(info.st_mode) ? ELOOP : ENOTDIR;
  }
  return fd;
}

int HeldName::Stat(const std::string& name, struct stat& info) const {
  return Ready() ? fstatat(directory_.get(), name.c_str(), &info, AT_SYMLINK_NOFOLLOW) : -1;
}

bool HeldName::IsThere() const {
  struct stat info = {};
  return Stat(info) == 0;
}

int HeldName::MakeDirectory(const std::string& name) const {
  return Ready() ? mkdirat(directory_.get(), name.c_str(), 0777) : -1;
}

int HeldName::Rename(const std::string& from, const std::string& to) const {
  return Ready() ? renameat(directory_.get(), from.c_str(), directory_.get(), to.c_str()) : -1;
}

int HeldName::Exchange(const std::string& one, const std::string& other) const {
  if (!Ready()) return -1;
  const int directory = directory_.get();
#ifdef __APPLE__
  return renameatx_np(directory, one.c_str(), directory, other.c_str(), RENAME_SWAP);
#else
  return renameat2(directory, one.c_str(), directory, other.c_str(), RENAME_EXCHANGE);
#endif
}

int HeldName::RenameTo(const HeldName& to) const {
  return Ready() && to.Ready()
             ? renameat(directory_.get(), name_.c_str(), to.directory_.get(), to.name_.c_str())
             : -1;
}

int HeldName::LinkTo(const HeldName& to) const {
  return Ready() && to.Ready()
             ? linkat(directory_.get(), name_.c_str(), to.directory_.get(), to.name_.c_str(), 0)
             : -1;
}

int HeldName::Remove(const std::string& name) const {
  return Ready() ? unlinkat(directory_.get(), name.c_str(), 0) : -1;
}

int HeldName::RemoveTree(const std::string& name) const {
  return Ready() ? RemoveTreeAt(directory_.get(), name) : -1;
}

std::vector<std::string> HeldName::Siblings() const {
  return NamesOf(Open(".", O_RDONLY | O_DIRECTORY));
}

int HeldName::SyncDirectory() const {
  const FileDescriptor fd(Open(".", O_RDONLY | O_DIRECTORY));
  if (fd.get() < 0) return -1;
  return fsync(fd.get()) == 0 || errno != EIO ? 0 : -1;
}

fs::path GuardedPath(const fs::path& path) {
  std::string whole = AbsoluteName(path);
  return FindGuard(whole) ? fs::path(std::move(whole)) : fs::path();
}

int OpenFile(const fs::path& path, int flags) {
  return HeldName(path).Open(flags);
}

bool IsThere(const fs::path& path) {
  return HeldName(path).IsThere();
}

bool IsDirectoryItself(const fs::path& path) {
  struct stat info = {};
  return HeldName(path).Stat(info) == 0 && S_ISDIR(info.st_mode);
}

std::vector<std::string> NamesIn(const fs::path& directory, std::error_code* error) {
  return NamesOf(OpenFile(directory, O_RDONLY | O_DIRECTORY), error);
}

std::error_code Rename(const fs::path& from, const fs::path& to) {
  return CodeOf(HeldName(from).RenameTo(HeldName(to)));
}

std::error_code Link(const fs::path& from, const fs::path& to) {
  return CodeOf(HeldName(from).LinkTo(HeldName(to)));
}

std::error_code MakeDirectory(const fs::path& path) {
  const HeldName held(path);
  if (held.MakeDirectory(held.name()) == 0) return {};
  const std::error_code error = CodeOf(-1);
  struct stat info = {};
  if (error.value() != EEXIST || held.Stat(info) != 0) return error;
  if (S_ISLNK(info.st_mode)) return {ELOOP, std::generic_category()};
  return S_ISDIR(info.st_mode) ? std::error_code() : error;
}

std::error_code RemoveTree(const fs::path& path) {
  const HeldName held(path);
  const std::error_code error = CodeOf(held.RemoveTree(held.name()));
  return error.value() == ENOENT ? std::error_code() : error;
}

namespace {

constexpr std::string_view kTemporaryMark = ".tmp-";
constexpr std::string_view kAsideMark = ".old-";
constexpr std::string_view kWholeMark = ".new-";  // complete, about to take the target's name

std::string Beside(const HeldName& target, std::string_view mark) {
  return fmt::format(".{}{}", target.name(), mark);
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

// Like open(), but a socket is refused with its own error.
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

// Why a link was refused: "RUN/last is a symbolic link, and none is followed below RUN"; for an
// unguarded link, that it leads back to itself.
std::string WhyNotFollowed(const fs::path& path) {
  const std::string whole = AbsoluteName(path);
  const std::optional<GuardedName> found = FindGuard(whole);
  if (!found) return ErrnoText(ELOOP);
  std::error_code ignored;
  fs::path at = whole.substr(0, whole.size() - found->rest.size() - 1);
  for (const fs::path& name : fs::path(found->rest)) {
    at /= name;
    if (!fs::is_symlink(at, ignored)) continue;
    return fmt::format("{} is a symbolic link, and links are not followed below {}", at.string(),
                       found->root.string());
  }
  return "there is a symbolic link, and links are not followed";
}

enum class Writer { kGone, kAlive, kUnknown };  // kUnknown: the file system has no locks

Writer WriterOf(const HeldName& target, const std::string& name) {
  // Does not block on a pipe.
  const FileDescriptor fd(target.Open(name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK));
  if (fd.get() < 0) return Writer::kUnknown;
  if (flock(fd.get(), LOCK_EX | LOCK_NB) == 0) return Writer::kGone;
  return errno == EWOULDBLOCK ? Writer::kAlive : Writer::kUnknown;
}

// The names beside a target that consist of `mark` and the number of a process; `own` leaves out
// those of other users.
std::vector<std::string> Marked(const HeldName& target, std::string_view mark, bool own) {
  const std::string prefix = Beside(target, mark);
  std::vector<std::string> found = target.Siblings();
  std::erase_if(found, [&](const std::string& name) {
    struct stat info = {};
    return !name.starts_with(prefix) || name.size() == prefix.size() ||
           name.find_first_not_of("0123456789", prefix.size()) != name.npos ||
           (own && (target.Stat(name, info) != 0 || info.st_uid != geteuid()));
  });
  return found;
}

bool HasLivingWriter(const HeldName& target) {
  for (const std::string_view mark : {kTemporaryMark, kWholeMark}) {
    for (const std::string& name : Marked(target, mark, /*own=*/false)) {
      if (WriterOf(target, name) == Writer::kAlive) return true;
    }
  }
  return false;
}

std::string OwnName(const HeldName& target, std::string_view mark) {
  return fmt::format("{}{}", Beside(target, mark), getpid());
}

// Replaces the target by `from` in two steps; the old target is then under its temporary name, or
// back in place if that fails. Returns an errno, or 0.
int SwapByRenames(const HeldName& target, const std::string& from) {
  const std::string aside = OwnName(target, kAsideMark);
  const bool there = target.IsThere();
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
  std::string cause;  // of the first name, the one most likely to be installed
  for (const char* name : names) {
    library_ = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (library_ != nullptr) return;
    if (cause.empty()) cause = dlerror();
  }
  throw refusal_(cause.c_str());
}

void* LateLibrary::FindSymbol(const char* name) const {
  if (void* symbol = dlsym(library_, name)) return symbol;
  throw refusal_(dlerror());
}

std::string ErrnoText(int error) {
  if (error == ELOOP) return "symbolic links form a loop";
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
    return "no such file or directory";
  }
  return ErrnoText(errno);
}

int WriteAll(int fd, std::string_view& left) {
  while (!left.empty()) {
    const ssize_t put = write(fd, left.data(), left.size());
    if (put > 0) {
      left.remove_prefix(static_cast<size_t>(put));
    } else if (put == 0 || errno != EINTR) {
      return put == 0 ? EIO : errno;
    }
  }
  return 0;
}

void ThrowCannotRead(const fs::path& path, int error) {
  throw InputError(fmt::format("cannot read {}", path.string()), ErrnoText(error),
                   error == EACCES ? "check the permissions of the file" : "");
}

void ThrowCannotWrite(const fs::path& path, int error) {
  std::string help = "choose a directory that you can write to";
  if (error == ENOSPC || error == EDQUOT) help = "the disk or the quota is full: free some space";
  if (error == EFBIG) help = "files of this size are not allowed (see ulimit -f)";
  if (error == EIO) help = "the disk reported an error: use another one";
  if (error == ELOOP) {
    help = GuardedPath(path).empty() ? "remove them, or choose another path"
                                     : "replace it by its target";
  }
  if (error == EBUSY)
    help = "if another disk is mounted there, mount the enclosing directory instead";
  throw RuntimeError(fmt::format("cannot write {}", path.string()),
                     error == ELOOP ? WhyNotFollowed(path) : ErrnoText(error), help);
}

void ThrowBusy(const fs::path& path) {
  throw RuntimeError(fmt::format("cannot write {}", path.string()), "another process is writing it",
                     "wait for the other process to end");
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
        fmt::format("create it first: mkdir -p {}", resolved.parent_path().string()));
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
    for (const std::string& whole : Marked(target, kWholeMark, /*own=*/true)) {
      // If a complete newer one exists, the one that it should replace is not needed.
      for (const std::string& aside : Marked(target, kAsideMark, /*own=*/true))
        target.RemoveTree(aside);
      SwapByRenames(target, whole);
    }
    for (const std::string& aside : Marked(target, kAsideMark, /*own=*/true)) {
      if (target.IsThere()) {
        target.RemoveTree(aside);
      } else {
        target.Rename(aside, target.name());
      }
    }
  }
  for (const std::string& temporary : Marked(target, kTemporaryMark, /*own=*/true)) {
    if (WriterOf(target, temporary) == Writer::kGone) target.RemoveTree(temporary);
  }
}

int FlushFile(int fd) {
#ifdef __APPLE__
  return fcntl(fd, F_FULLFSYNC);  // fsync leaves the data in the disk's own cache there
#else
  return fsync(fd);
#endif
}

int FlushData(int fd) {
#ifdef __APPLE__
  return FlushFile(fd);
#else
  return fdatasync(fd);
#endif
}

void LockTemporary(int fd) {
  flock(fd, LOCK_EX | LOCK_NB);
}

void SyncDirectory(const fs::path& directory) {
  const FileDescriptor fd(OpenFile(directory, O_RDONLY | O_DIRECTORY));
  // Some file systems cannot flush a directory and return EINVAL; only an I/O error counts.
  if (fd.get() < 0 || (fsync(fd.get()) != 0 && errno == EIO)) ThrowCannotWrite(directory, errno);
}

void ReplaceDirectory(const HeldName& to, const std::string& from, const fs::path& name,
                      bool may_exchange) {
  const auto check = [&](int result) {
    if (result != 0) ThrowCannotWrite(name, errno);
  };
  if (!to.IsThere()) {
    check(to.Rename(from, to.name()));
    check(to.SyncDirectory());
    return;
  }
  std::string old = from;
  if (!may_exchange || to.Exchange(from, to.name()) != 0) {
    // This name marks it as complete, whatever happens between the steps.
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

}  // namespace internal
}  // namespace folio
