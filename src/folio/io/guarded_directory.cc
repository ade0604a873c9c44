#include "folio/io/guarded_directory.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <mutex>
#include <optional>
#include <string_view>
#include <utility>

#include "folio/io/posix.h"

#if __has_include(<linux/openat2.h>)
#include <linux/openat2.h>
#endif

namespace folio {

namespace fs = std::filesystem;

struct GuardedDirectory::Guard {
  fs::path root;                      // as it was named; links in it are followed
  std::vector<std::string> prefixes;  // absolute names of what is guarded
  std::string front;                  // of that below the root; empty if they are one
};

namespace {

using Guard = GuardedDirectory::Guard;
using internal::FileDescriptor;

constexpr int kDirectory = O_PATH | O_DIRECTORY | O_CLOEXEC;

std::mutex& GuardsMutex() {
  static std::mutex mutex;
  return mutex;
}

std::vector<const Guard*>& Guards() {
  static std::vector<const Guard*> guards;
  return guards;
}

// Absolute, without "." and without a slash at its end. What comes before a ".." is followed, since
// that is what it is of.
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

// The outermost of several guards counts.
std::optional<GuardedName> FindGuard(const std::string& name) {
  const std::lock_guard<std::mutex> lock(GuardsMutex());
  std::optional<GuardedName> found;
  size_t shortest = name.size();
  for (const Guard* guard : Guards()) {
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
  const auto* added = new Guard(std::move(guard));
  std::shared_ptr<const Guard> held(added, [](const Guard* gone) {
    {
      const std::lock_guard<std::mutex> lock(GuardsMutex());
      std::erase(Guards(), gone);
    }
    delete gone;
  });
  const std::lock_guard<std::mutex> lock(GuardsMutex());
  Guards().push_back(added);
  return held;
}

// One name at a time: for kernels without openat2.
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

// Closes `directory`. What keeps it from reading all of it is in `error`.
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
  // Linux says EISDIR where it is a directory, POSIX EPERM.
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

namespace internal {

int OpenBeneath(int root, const std::string& rest, bool in_one_call) {
#if defined(SYS_openat2) && __has_include(<linux/openat2.h>)
  if (in_one_call && !rest.empty()) {
    open_how how = {};
    how.flags = kDirectory;
    how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;
    const auto fd = static_cast<int>(syscall(SYS_openat2, root, rest.c_str(), &how, sizeof(how)));
    // A kernel without it, a sandbox that does not know it, a name that moved meanwhile.
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
      directory_ =
          OpenBeneath(root.get(), found->rest.substr(0, slash == found->rest.npos ? 0 : slash));
    }
  } else {
    fs::path named = path;
    if (!named.has_filename()) named = named.parent_path();  // "out/"
    name_ = named.filename().string();
    if (name_.empty()) name_ = ".";
    directory_ = open(named.has_parent_path() ? named.parent_path().c_str() : ".", kDirectory);
  }
  if (directory_ < 0) error_ = errno;
}

HeldName::~HeldName() {
  if (directory_ >= 0) close(directory_);
}

bool HeldName::Ready() const {
  if (directory_ < 0) errno = error_;
  return directory_ >= 0;
}

int HeldName::Open(const std::string& name, int flags, mode_t mode) const {
  if (!Ready()) return -1;
  const int fd =
      openat(directory_, name.c_str(), flags | O_CLOEXEC | (guarded_ ? O_NOFOLLOW : 0), mode);
  // The kernel says of a link, where a directory is wanted, that it is none.
  struct stat info = {};
  if (fd < 0 && errno == ENOTDIR && guarded_ && Stat(name, info) == 0) {
    errno = S_ISLNK(info.st_mode) ? ELOOP : ENOTDIR;
  }
  return fd;
}

int HeldName::Stat(const std::string& name, struct stat& info) const {
  return Ready() ? fstatat(directory_, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) : -1;
}

int HeldName::MakeDirectory(const std::string& name) const {
  return Ready() ? mkdirat(directory_, name.c_str(), 0777) : -1;
}

int HeldName::Rename(const std::string& from, const std::string& to, unsigned flags) const {
  if (!Ready()) return -1;
  // Without flags also where the file system does not know the newer call.
  return flags == 0 ? renameat(directory_, from.c_str(), directory_, to.c_str())
                    : renameat2(directory_, from.c_str(), directory_, to.c_str(), flags);
}

int HeldName::RenameTo(const HeldName& to) const {
  return Ready() && to.Ready()
             ? renameat(directory_, name_.c_str(), to.directory_, to.name_.c_str())
             : -1;
}

int HeldName::LinkTo(const HeldName& to) const {
  return Ready() && to.Ready()
             ? linkat(directory_, name_.c_str(), to.directory_, to.name_.c_str(), 0)
             : -1;
}

int HeldName::Remove(const std::string& name) const {
  return Ready() ? unlinkat(directory_, name.c_str(), 0) : -1;
}

int HeldName::RemoveTree(const std::string& name) const {
  return Ready() ? RemoveTreeAt(directory_, name) : -1;
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

std::string WhyNotFollowed(const fs::path& path) {
  const std::string whole = AbsoluteName(path);
  const std::optional<GuardedName> found = FindGuard(whole);
  if (!found) return ErrnoText(ELOOP);
  std::error_code ignored;
  fs::path at = whole.substr(0, whole.size() - found->rest.size() - 1);
  for (const fs::path& name : fs::path(found->rest)) {
    at /= name;
    if (!fs::is_symlink(at, ignored)) continue;
    return fmt::format("{} is a symbolic link, and none is followed below {}", at.string(),
                       found->root.string());
  }
  return "a symbolic link was there, and none is followed";
}

int OpenFile(const fs::path& path, int flags, mode_t mode) {
  return HeldName(path).Open(flags, mode);
}

bool IsThere(const fs::path& path) {
  struct stat info = {};
  return HeldName(path).Stat(info) == 0;
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

}  // namespace internal
}  // namespace folio
