#include "folio/run/run_lock.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <csignal>
#include <optional>
#include <string>
#include <thread>

#include "folio/base/error.h"
#include "folio/base/log.h"
#include "folio/base/machine.h"
#include "folio/io/guarded_directory.h"
#include "folio/io/posix.h"

namespace folio {
namespace {

namespace fs = std::filesystem;
using internal::FileDescriptor;

struct Owner {
  pid_t process = 0;
  std::string host;
};

// "PID HOST\n", or nothing if it is not written yet.
std::optional<Owner> ReadOwner(int fd) {
  std::array<char, 320> text = {};
  const ssize_t size = pread(fd, text.data(), text.size(), 0);
  if (size <= 0 || text[static_cast<size_t>(size) - 1] != '\n') return {};
  Owner owner;
  const char* end = text.data() + size - 1;
  const auto [rest, error] = std::from_chars(text.data(), end, owner.process);
  if (error != std::errc() || rest == end || *rest != ' ') return {};
  owner.host.assign(rest + 1, end);
  return owner;
}

// Nothing is known of processes of another machine.
bool MayLive(const Owner& owner) {
  return owner.host != HostName() || kill(owner.process, 0) == 0 || errno == EPERM;
}

[[noreturn]] void ThrowTaken(const fs::path& run, int fd) {
  // The name there may be that of an owner that was killed, for the instant until the next one has
  // written its own.
  std::optional<Owner> owner;
  for (int i = 0; i < 20; ++i) {
    owner = ReadOwner(fd);
    if (owner && MayLive(*owner)) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  std::string who = "another process", stop = "stop it";
  if (owner) {
    const bool here = owner->host == HostName();
    who = fmt::format("process {}{}", owner->process, here ? "" : " on " + owner->host);
    stop = fmt::format("stop it (kill {}{})", owner->process, here ? "" : ", there");
  }
  throw UsageError(fmt::format("the run '{}' is in use", run.string()),
                   fmt::format("{} is training in it", who),
                   fmt::format("wait for that to end or {}; or choose another --out", stop));
}

bool HasName(int fd, const internal::HeldName& name) {
  struct stat held = {}, named = {};
  return fstat(fd, &held) == 0 && name.Stat(named) == 0 && held.st_dev == named.st_dev &&
         held.st_ino == named.st_ino;
}

bool KnowsNoLocks(int error) {
  return error == ENOLCK || error == EOPNOTSUPP || error == ENOSYS;
}

}  // namespace

RunLock::RunLock(const fs::path& run, int (*lock)(int fd, int operation))
    : path_(run / kLockFile), inside_(run) {
  for (;;) {
    const internal::HeldName name(path_);
    // For writing: NFS gives no other lock that excludes.
    FileDescriptor fd(name.Open(O_RDWR | O_CREAT | O_NOFOLLOW));
    if (fd.get() < 0) internal::ThrowCannotWrite(path_, errno);
    if (lock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
      if (errno == EINTR) continue;
      if (errno == EWOULDBLOCK) ThrowTaken(run, fd.get());
      if (!KnowsNoLocks(errno)) internal::ThrowCannotWrite(path_, errno);
      LogWarning(
          fmt::format("'{}' is on a file system without locks ({}): see to it yourself that "
                      "no two runs write there",
                      run.string(), internal::ErrnoText(errno)));
    }
    // An owner that ended since the opening took the name away.
    if (!HasName(fd.get(), name)) continue;
    const std::string owner = fmt::format("{} {}\n", getpid(), HostName());
    // On a full disk the lock holds without it.
    if (ftruncate(fd.get(), 0) == 0) (void)!pwrite(fd.get(), owner.data(), owner.size(), 0);
    fd_ = fd.Release();
    return;
  }
}

RunLock::~RunLock() {
  const internal::HeldName held(path_);
  held.Remove(held.name());
  close(fd_);
}

bool IsLocked(const fs::path& run) {
  const FileDescriptor fd = internal::OpenIfRegular(run / kLockFile, O_NOFOLLOW);
  if (fd.get() < 0) return false;
  const std::optional<Owner> owner = ReadOwner(fd.get());
  return owner && MayLive(*owner);
}

}  // namespace folio
