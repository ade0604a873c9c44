#pragma once

#include <sys/file.h>

#include <filesystem>

#include "folio/io/guarded_directory.h"

namespace folio {

inline constexpr char kLockFile[] = ".lock";

// The right to write a run directory, of one process at a time. The kernel gives it back when its
// owner dies, however that is. Readers ask for no lock.
//
// It is flock's lock on RUN/.lock, which names process and host of its owner and is removed with
// the lock. On NFS, Linux makes a lock of the server's out of it, which holds between machines
// where the export and both mounts have locks (not with "nolock" or "local_lock=flock").
class RunLock {
 public:
  // Throws a kUsage Error that names the run and the owner if another has it, a kRuntime Error if
  // the directory cannot be written. Where the file system knows no locks there is one warning and
  // no protection. `lock` is flock, but for tests.
  explicit RunLock(const std::filesystem::path& run, int (*lock)(int fd, int operation) = flock);
  ~RunLock();
  RunLock(const RunLock&) = delete;

 private:
  std::filesystem::path path_;
  GuardedDirectory inside_;  // whoever may write the run writes nothing else
  int fd_ = -1;
};

// Returns whether somebody has the lock, as far as its file tells: a process of this machine that
// is there, or one of another. Asks for no lock itself.
bool IsLocked(const std::filesystem::path& run);

}  // namespace folio
