#include "folio/serve/sandbox.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <seccomp.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <type_traits>

#include "folio/base/error.h"
#include "folio/io/posix.h"

namespace folio {
namespace {

namespace fs = std::filesystem;

#if defined(FOLIO_SANITIZE)
// LeakSanitizer looks at the threads of its process from another, by ptrace.
constexpr bool kMayTraceItself = true;
#else
constexpr bool kMayTraceItself = false;
#endif

[[noreturn]] void Refused(const char* what, int error) {
  throw RuntimeError(fmt::format("cannot enter the sandbox: {}", what), std::strerror(error),
                     "disable it with --no-sandbox");
}

// Landlock's names are those of linux/landlock.h; what headers of older kernels lack is here.
struct Ruleset {
  uint64_t files = 0, network = 0, scoped = 0;
};
constexpr uint64_t kTruncate = 1 << 14, kDeviceControl = 1 << 15;         // of files
constexpr uint64_t kBindTcp = 1 << 0, kConnectTcp = 1 << 1;               // of the network
constexpr uint64_t kAbstractSockets = 1 << 0, kSignalsToOthers = 1 << 1;  // scoped
constexpr uint64_t kRead = LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR;
constexpr uint64_t kWrite = kRead | LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_MAKE_REG |
                            LANDLOCK_ACCESS_FS_REMOVE_FILE | kTruncate;
constexpr uint64_t kOfFiles = LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_WRITE_FILE |
                              kTruncate;  // and not of directories

// All that a version of Landlock can take away.
Ruleset WhatLandlockHas(int version) {
  constexpr uint64_t kFirst = LANDLOCK_ACCESS_FS_MAKE_SYM * 2 - 1;
  Ruleset all{.files = kFirst};
  if (version >= 2) all.files |= LANDLOCK_ACCESS_FS_REFER;
  if (version >= 3) all.files |= kTruncate;
  if (version >= 4) all.network = kBindTcp | kConnectTcp;
  if (version >= 5) all.files |= kDeviceControl;
  if (version >= 6) all.scoped = kAbstractSockets | kSignalsToOthers;
  return all;
}

int LandlockVersion() {
  const long version =
      syscall(SYS_landlock_create_ruleset, nullptr, size_t{0}, LANDLOCK_CREATE_RULESET_VERSION);
  return version > 0 ? static_cast<int>(version) : 0;
}

// Libraries may read these files of the system at any time: libc for the number of processors and
// the memory, the loader for libraries, the clock for its zone.
std::vector<fs::path> FilesOfSystem() {
  return {"/proc/self",
          "/proc/cpuinfo",
          "/proc/meminfo",
          "/proc/stat",
          "/proc/sys/vm/overcommit_memory",
          "/sys/devices/system",
          "/sys/fs/cgroup",
          "/sys/kernel/mm/transparent_hugepage",
          "/dev/null",
          "/dev/random",
          "/dev/urandom",
          "/etc/ld.so.cache",
          "/etc/localtime",
          "/lib",
          "/lib64",
          "/usr/lib",
          "/usr/lib64",
          "/usr/local/lib",
          "/usr/share/zoneinfo"};
}

void Allow(int ruleset, const fs::path& path, uint64_t rights) {
  internal::FileDescriptor place(open(path.c_str(), O_PATH | O_CLOEXEC));
  struct stat found = {};
  if (place.get() < 0 || fstat(place.get(), &found) != 0) return;
  landlock_path_beneath_attr rule{.allowed_access = rights, .parent_fd = place.get()};
  if (!S_ISDIR(found.st_mode)) rule.allowed_access &= kOfFiles;
  if (syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0) != 0) {
    Refused("a rule of Landlock", errno);
  }
  // A directory of /proc is forgotten, and its rule with it, where nobody has it open.
  if (path.string().starts_with("/proc")) (void)place.Release();
}

void RestrictFiles(int version, const SandboxRules& rules) {
  const Ruleset all = WhatLandlockHas(version);
  const internal::FileDescriptor ruleset(
      static_cast<int>(syscall(SYS_landlock_create_ruleset, &all, sizeof all, 0)));
  if (ruleset.get() < 0) Refused("the rules of Landlock", errno);
  for (const fs::path& path : FilesOfSystem()) Allow(ruleset.get(), path, kRead);
  for (const fs::path& path : rules.readable) Allow(ruleset.get(), path, kRead);
  for (const fs::path& path : rules.writable) Allow(ruleset.get(), path, kWrite & all.files);
  if (syscall(SYS_landlock_restrict_self, ruleset.get(), 0) != 0) Refused("Landlock", errno);
}

bool HasSeccomp() {
  const uint32_t action = SECCOMP_RET_ERRNO;
  return syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action) == 0;
}

// A service has no use for these calls. Calls that allocate, wait, read, write and accept are not
// among them, in whichever way libc does that, so that the list holds for any version of it.
constexpr std::array kDenied = {
    // programs and processes
    "execve", "execveat", "fork", "vfork", "unshare", "setns",
    // other processes
    "ptrace", "process_vm_readv", "process_vm_writev", "process_madvise", "process_mrelease",
    "kcmp", "pidfd_open", "pidfd_getfd", "pidfd_send_signal", "rt_sigqueueinfo",
    "rt_tgsigqueueinfo", "tkill", "shmget", "shmat", "shmctl", "semget", "semop", "semtimedop",
    "semctl", "msgget", "msgsnd", "msgrcv", "msgctl", "mq_open", "mq_unlink", "migrate_pages",
    "move_pages", "setpgid", "capget",
    // networks: its socket is there, and connections come by accept
    "socket", "socketpair", "connect", "bind", "listen", "socketcall",
    // files beyond their names, and what Landlock leaves to who owns a file
    "name_to_handle_at", "open_by_handle_at", "chmod", "fchmod", "fchmodat", "fchmodat2", "chown",
    "lchown", "fchown", "fchownat", "setxattr", "lsetxattr", "fsetxattr", "removexattr",
    "lremovexattr", "fremovexattr", "setxattrat", "removexattrat", "file_setattr", "utime",
    "utimes", "futimesat", "utimensat", "mknod", "mknodat", "quotactl", "quotactl_fd",
    "fanotify_init", "acct",
    // the tree of files
    "mount", "umount", "umount2", "pivot_root", "chroot", "move_mount", "open_tree", "fsopen",
    "fsconfig", "fsmount", "fspick", "mount_setattr", "swapon", "swapoff",
    // the kernel
    "bpf", "perf_event_open", "userfaultfd", "io_uring_setup", "io_uring_enter",
    "io_uring_register", "add_key", "request_key", "keyctl", "init_module", "finit_module",
    "delete_module", "kexec_load", "kexec_file_load", "reboot", "syslog", "iopl", "ioperm",
    "modify_ldt", "vm86", "vm86old", "personality", "lookup_dcookie", "nfsservctl", "vhangup",
    "sethostname", "setdomainname", "settimeofday", "stime", "clock_settime", "clock_adjtime",
    "clock_settime64", "clock_adjtime64", "adjtimex",
    // who it is
    "setuid", "setgid", "setreuid", "setregid", "setresuid", "setresgid", "setfsuid", "setfsgid",
    "setgroups", "capset"};

// A call of these names another process by this argument, or a group or a user; 0 is its own.
struct OfProcess {
  const char* call;
  unsigned argument;
};
constexpr OfProcess kOfProcesses[] = {
    {"prlimit64", 0},
    {"sched_setaffinity", 0},
    {"sched_setscheduler", 0},
    {"sched_setparam", 0},
    {"sched_setattr", 0},
    {"setpriority", 1},
    {"ioprio_set", 1},
    // These read from other processes. sched_getaffinity is not here: libc asks it for the thread
    // that a sanitizer looks at, by its number.
    {"sched_getscheduler", 0},
    {"sched_getparam", 0},
    {"sched_getattr", 0},
    {"sched_rr_get_interval", 0},
    {"getpriority", 1},
    {"ioprio_get", 1},
    {"getpgid", 0},
    {"getsid", 0},
    {"get_robust_list", 0}};

// A value of an argument for which a call reaches others.
struct Denied {
  const char* call;
  unsigned argument;
  uint32_t value;
};
constexpr Denied kDeniedValues[] = {
    // Priorities of other processes: a call for one process takes 0, which is this one.
    {"setpriority", 0, PRIO_PGRP},
    {"setpriority", 0, PRIO_USER},
    {"getpriority", 0, PRIO_PGRP},
    {"getpriority", 0, PRIO_USER},
    {"ioprio_set", 0, 2},
    {"ioprio_set", 0, 3},
    {"ioprio_get", 0, 2},
    {"ioprio_get", 0, 3},
    // The kernel sends signals to whom a file belongs.
    {"fcntl", 1, F_SETOWN},
    {"fcntl", 1, F_SETOWN_EX},
    {"fcntl", 1, F_SETSIG},
    {"ioctl", 1, FIOSETOWN},
    {"ioctl", 1, SIOCSPGRP},
    // Typing into the terminal that it was started from, and whose that is.
    {"ioctl", 1, TIOCSTI},
    {"ioctl", 1, TIOCLINUX},
    {"ioctl", 1, TIOCSIG},
    {"ioctl", 1, TIOCSPGRP},
    // Which processes share a core.
    {"prctl", 0, 62 /* PR_SCHED_CORE */}};

// A condition for an argument: its relation to a value or, masked, that none of its bits is set.
scmp_arg_cmp If(unsigned argument, scmp_compare how, scmp_datum_t value) {
  return {argument, how, value, 0};
}

class Filter {
 public:
  Filter() : context_(seccomp_init(SCMP_ACT_ALLOW), &seccomp_release) {
    if (context_ == nullptr) throw std::bad_alloc();
  }

  // Denies the call, if this processor has it, where all conditions hold.
  void Deny(const char* call, int error, const std::vector<scmp_arg_cmp>& conditions = {}) {
    const int number = seccomp_syscall_resolve_name(call);
    if (number == __NR_SCMP_ERROR) return;
    const int result = seccomp_rule_add_array(
        context_.get(), SCMP_ACT_ERRNO(static_cast<uint32_t>(error)), number,
        static_cast<unsigned>(conditions.size()), conditions.empty() ? nullptr : conditions.data());
    if (result != 0 && result != -EDOM) Refused(call, -result);  // EDOM: not on this processor
  }

  void Load() {
    seccomp_attr_set(context_.get(), SCMP_FLTATR_CTL_TSYNC, 1);  // for all threads
    // A tree instead of a list, and nothing of what older kernels slow a process down by for it.
    seccomp_attr_set(context_.get(), SCMP_FLTATR_CTL_OPTIMIZE, 2);
    seccomp_attr_set(context_.get(), SCMP_FLTATR_CTL_SSB, 1);
    if (const int result = seccomp_load(context_.get()); result != 0) Refused("seccomp", -result);
  }

 private:
  std::unique_ptr<std::remove_pointer_t<scmp_filter_ctx>, void (*)(scmp_filter_ctx)> context_;
};

void RestrictCalls() {
  Filter filter;
  const auto self = static_cast<scmp_datum_t>(getpid());
  for (const char* call : kDenied) {
    if (kMayTraceItself && std::strcmp(call, "ptrace") == 0) continue;
    filter.Deny(call, EPERM);
  }
  if (!kMayTraceItself) {
    // Threads, and no processes. The arguments of clone3 lie in memory, where a filter does not see
    // them: libc takes clone where there is no clone3.
    filter.Deny("clone", EPERM, {If(0, SCMP_CMP_MASKED_EQ, CLONE_THREAD)});
    filter.Deny("clone3", ENOSYS);
  }
  // Signals to itself, and the question whether a process is there, which runs are asked.
  filter.Deny("kill", EPERM, {If(0, SCMP_CMP_NE, self), If(1, SCMP_CMP_NE, 0)});
  filter.Deny("tgkill", EPERM, {If(0, SCMP_CMP_NE, self)});
  for (const auto& [call, argument] : kOfProcesses) {
    filter.Deny(call, EPERM, {If(argument, SCMP_CMP_NE, 0)});
  }
  // The kernel looks at the lower half of these arguments alone.
  constexpr scmp_datum_t kHalf = std::numeric_limits<uint32_t>::max();
  for (const auto& [call, argument, value] : kDeniedValues) {
    filter.Deny(call, EPERM, {{argument, SCMP_CMP_MASKED_EQ, kHalf, value}});
  }
  // Sending opens a connection where it names to whom, or does so with its first bytes.
  filter.Deny("sendto", EPERM, {If(4, SCMP_CMP_NE, 0)});
  for (const auto& [call, argument] :
       {OfProcess{"sendto", 3}, OfProcess{"sendmsg", 2}, OfProcess{"sendmmsg", 3}}) {
    filter.Deny(call, EPERM, {{argument, SCMP_CMP_MASKED_EQ, MSG_FASTOPEN, MSG_FASTOPEN}});
  }
  filter.Load();
}

}  // namespace

Sandbox FindSandbox() {
  return {.landlock = LandlockVersion(), .seccomp = HasSeccomp()};
}

std::string DescribeSandbox(const Sandbox& sandbox) {
  if (sandbox.landlock == 0) {
    return sandbox.seccomp ? "seccomp, and no Landlock" : "neither Landlock nor seccomp";
  }
  return fmt::format("Landlock {}{}", sandbox.landlock,
                     sandbox.seccomp ? " and seccomp" : ", and no seccomp");
}

Sandbox EnterSandbox(const SandboxRules& rules) {
  const Sandbox sandbox = FindSandbox();
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) Refused("no new privileges", errno);
  if (sandbox.landlock > 0) RestrictFiles(sandbox.landlock, rules);
  if (sandbox.seccomp) RestrictCalls();
  return sandbox;
}

}  // namespace folio
