#include "folio/serve/sandbox.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <map>
#include <sstream>
#include <thread>

#include "tests/kit/directory.h"
#include "tests/kit/sanitized.h"

namespace folio {
namespace {

// Results says by name how calls in a sandbox ended: 0 or errno.
using Results = std::map<std::string, int>;

int Result(long returned) {
  return returned < 0 ? errno : 0;
}

int Opened(const std::filesystem::path& path, int flags = O_RDONLY) {
  const int fd = open(path.c_str(), flags | O_CLOEXEC, 0600);
  const int result = Result(fd);
  if (fd >= 0) close(fd);
  return result;
}

class SandboxTest : public InTemporaryDirectory {
 protected:
  SandboxTest() {
    for (const char* dir : {"in", "out", "other"}) {
      std::filesystem::create_directories(At(dir));
      std::ofstream(At(dir) / "file") << "text";
    }
  }

  // Returns what `calls` finds in a process of its own that has entered a sandbox. `meanwhile` is
  // called here when it has.
  Results Confined(
      const std::function<Results()>& calls, const std::function<void()>& meanwhile = [] {}) {
    int entered[2], go[2], results[2];
    if (pipe(entered) != 0 || pipe(go) != 0 || pipe(results) != 0) return {{"pipe", errno}};
    const pid_t child = fork();
    if (child == 0) {
      std::string text;
      try {
        EnterSandbox({.readable = {At("in"), At("not there")}, .writable = {At("out")}});
        char ready = 0;
        (void)!write(entered[1], &ready, 1);
        (void)!read(go[0], &ready, 1);
        for (const auto& [name, result] : calls()) {
          text += std::to_string(result) + " " + name + "\n";
        }
      } catch (const std::exception& error) {
        text = std::string("-1 ") + error.what() + "\n";
      }
      (void)!write(results[1], text.data(), text.size());
      _exit(0);
    }
    close(entered[1]);
    close(results[1]);
    char ready = 0;
    (void)!read(entered[0], &ready, 1);
    meanwhile();
    (void)!write(go[1], &ready, 1);
    std::string text;
    for (char c; read(results[0], &c, 1) == 1;) text += c;
    for (const int fd : {entered[0], results[0], go[0], go[1]}) close(fd);
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
    Results found;
    std::istringstream lines(text);
    std::string name;
    for (int result = 0; lines >> result && std::getline(lines >> std::ws, name);) {
      found[name] = result;
    }
    return found;
  }
};

TEST_F(SandboxTest, FilesAreReadAndWrittenWhereTheRulesSayAndNowhereElse) {
  if (FindSandbox().landlock == 0) GTEST_SKIP() << "this kernel has no Landlock";
  const auto calls = [this] {
    Results found;
    found["read"] = Opened(At("in/file"));
    found["read_later"] = Opened(At("in/later/file"));
    found["read_elsewhere"] = Opened(At("other/file"));
    found["read_users"] = Opened("/etc/passwd");
    found["list_elsewhere"] = Opened(At("other"), O_RDONLY | O_DIRECTORY);
    found["read_itself"] = Opened("/proc/self/status");
    found["read_other_process"] = Opened("/proc/1/status");
    found["write_readable"] = Opened(At("in/file"), O_WRONLY);
    found["create_readable"] = Opened(At("in/new"), O_WRONLY | O_CREAT);
    found["remove_readable"] = Result(unlink(At("in/file").c_str()));
    found["append"] = Opened(At("out/file"), O_WRONLY | O_APPEND);
    found["create"] = Opened(At("out/new"), O_WRONLY | O_CREAT);
    found["rename"] = Result(rename(At("out/new").c_str(), At("out/old").c_str()));
    // A thread that begins later is confined too.
    std::thread([&] { found["read_by_thread"] = Opened("/etc/passwd"); }).join();
    return found;
  };
  const Results found = Confined(calls, [this] {
    std::filesystem::create_directories(At("in/later"));
    std::ofstream(At("in/later/file")) << "text";
  });
  EXPECT_EQ(found, (Results{{"read", 0},
                            {"read_later", 0},
                            {"read_elsewhere", EACCES},
                            {"read_users", EACCES},
                            {"list_elsewhere", EACCES},
                            {"read_itself", 0},
                            {"read_other_process", EACCES},
                            {"write_readable", EACCES},
                            {"create_readable", EACCES},
                            {"remove_readable", EACCES},
                            {"append", 0},
                            {"create", 0},
                            {"rename", 0},
                            {"read_by_thread", EACCES}}));
}

TEST_F(SandboxTest, NoProgramsProcessesSocketsOrSignals) {
  if (!FindSandbox().seccomp) GTEST_SKIP() << "this kernel has no seccomp";
  int sockets[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets), 0);
  const pid_t gone = fork();
  if (gone == 0) _exit(0);
  waitpid(gone, nullptr, 0);
  const auto calls = [&] {
    Results found;
    char program[] = "/bin/true";
    char* const words[] = {program, nullptr};
    found["execve"] = Result(execve(program, words, environ));
    for (const auto& [name, family] : std::map<std::string, int>{
             {"inet", AF_INET}, {"unix", AF_UNIX}, {"netlink", AF_NETLINK}}) {
      found["socket_" + name] = Result(socket(family, SOCK_DGRAM, 0));
    }
    sockaddr nowhere = {.sa_family = AF_UNIX, .sa_data = "x"};
    found["connect"] = Result(connect(sockets[0], &nowhere, sizeof nowhere));
    found["signal_parent"] = Result(kill(getppid(), SIGUSR1));
    found["ask_for_gone"] = Result(kill(gone, 0));
    found["signal_itself"] = Result(kill(getpid(), SIGCONT));
    found["chmod"] = Result(chmod(At("in/file").c_str(), 0777));
    found["type"] = Result(ioctl(STDIN_FILENO, TIOCSTI, "x"));
    found["mount"] = Result(syscall(SYS_mount, "", "/", "", 0, ""));
    if (!kSanitized) {  // which look at themselves so
      found["fork"] = Result(fork());
      found["ptrace"] = Result(ptrace(PTRACE_TRACEME, 0, nullptr, nullptr));
    }
    bool ran = false;
    std::thread([&] { ran = true; }).join();
    found["thread"] = ran ? 0 : 1;
    return found;
  };
  Results expected{{"execve", EPERM},         {"socket_inet", EPERM}, {"socket_unix", EPERM},
                   {"socket_netlink", EPERM}, {"connect", EPERM},     {"signal_parent", EPERM},
                   {"ask_for_gone", ESRCH},   {"signal_itself", 0},   {"chmod", EPERM},
                   {"type", EPERM},           {"mount", EPERM},       {"thread", 0}};
  if (!kSanitized) {
    expected["fork"] = EPERM;
    expected["ptrace"] = EPERM;
  }
  EXPECT_EQ(Confined(calls), expected);
  close(sockets[0]);
  close(sockets[1]);
}

// Each call that names a process, for another one of the same user and for this one.
TEST_F(SandboxTest, OtherProcessesAreOutOfReach) {
  if (!FindSandbox().seccomp) GTEST_SKIP() << "this kernel has no seccomp";
  const pid_t other = fork();
  if (other == 0) {
    for (;;) pause();
  }
  int sockets[2], listening = socket(AF_INET, SOCK_STREAM, 0),
                  fresh = socket(AF_INET, SOCK_STREAM, 0);
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_DGRAM, 0, sockets), 0);
  const auto calls = [&] {
    constexpr long kProcess = 1, kHigh = 1L << 32;
    rlimit limit{};
    rlimit* const none = nullptr;
    sched_param param{};
    unsigned long cpus[16] = {1};
    unsigned attributes[14] = {sizeof attributes};
    Results found;
    const auto on = [&](const std::string& whom, long pid) {
      const auto add = [&](const char* call, long result) { found[call + whom] = Result(result); };
      add("prlimit64", syscall(SYS_prlimit64, pid, RLIMIT_CPU, none, &limit));
      add("sched_setaffinity", syscall(SYS_sched_setaffinity, pid, sizeof cpus, cpus));
      add("sched_setscheduler", syscall(SYS_sched_setscheduler, pid, SCHED_BATCH, &param));
      add("sched_setparam", syscall(SYS_sched_setparam, pid, &param));
      add("sched_getattr", syscall(SYS_sched_getattr, pid, attributes, sizeof attributes, 0));
      add("sched_setattr", syscall(SYS_sched_setattr, pid, attributes, 0));
      add("sched_getscheduler", syscall(SYS_sched_getscheduler, pid));
      add("sched_getparam", syscall(SYS_sched_getparam, pid, &param));
      add("setpriority", syscall(SYS_setpriority, PRIO_PROCESS, pid, 5));
      add("getpriority", syscall(SYS_getpriority, PRIO_PROCESS, pid));
      add("ioprio_set", syscall(SYS_ioprio_set, kProcess, pid, 2L << 13));
      add("ioprio_get", syscall(SYS_ioprio_get, kProcess, pid));
      add("getpgid", syscall(SYS_getpgid, pid));
      add("getsid", syscall(SYS_getsid, pid));
    };
    on("", 0);
    on(" of another", other);
    found["setpriority of a group"] = Result(syscall(SYS_setpriority, PRIO_PGRP, 0, 5));
    found["setpriority of a user"] = Result(syscall(SYS_setpriority, PRIO_USER | kHigh, 0, 5));
    found["ioprio_set of a group"] = Result(syscall(SYS_ioprio_set, 2 | kHigh, 0, 2L << 13));
    found["setpgid"] = Result(syscall(SYS_setpgid, 0, other));
    found["owner"] = Result(syscall(SYS_fcntl, sockets[0], F_SETOWN | kHigh, other));
    found["signal of owner"] = Result(fcntl(sockets[0], F_SETSIG, SIGKILL));
    found["ioctl owner"] = Result(ioctl(listening, FIOSETOWN, &other));
    found["type"] = Result(syscall(SYS_ioctl, 0, TIOCSTI | kHigh, "x"));
    found["share a core"] = Result(syscall(SYS_prctl, 62, 0, other, 0, 0));
    found["name itself"] = Result(syscall(SYS_prctl, 15 /* PR_SET_NAME */, "name", 0, 0, 0));
    // Ways to others that are no connect.
    int pair[2];
    found["socketpair"] = Result(socketpair(AF_UNIX, SOCK_DGRAM, 0, pair));
    sockaddr_un log{.sun_family = AF_UNIX, .sun_path = "/dev/log"};
    const auto* const at = reinterpret_cast<const sockaddr*>(&log);
    found["datagram to"] = Result(sendto(sockets[0], "x", 1, 0, at, sizeof log));
    found["datagram"] = Result(sendto(sockets[0], "x", 1, 0, nullptr, 0));
    sockaddr_in web{};
    web.sin_family = AF_INET;
    web.sin_port = htons(9);
    web.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    char byte = 'x';
    iovec bytes{.iov_base = &byte, .iov_len = 1};
    msghdr message{};
    message.msg_name = &web;
    message.msg_namelen = sizeof web;
    message.msg_iov = &bytes;
    message.msg_iovlen = 1;
    found["fast open"] = Result(sendmsg(fresh, &message, MSG_FASTOPEN));
    found["listen"] = Result(listen(listening, 1));
    return found;
  };
  const Results found = Confined(calls);
  kill(other, SIGKILL);
  waitpid(other, nullptr, 0);
  for (const int fd : {sockets[0], sockets[1], listening, fresh}) close(fd);
  EXPECT_EQ(found.size(), 14u * 2 + 15);
  for (const auto& [call, result] : found) {
    const bool own =
        found.contains(call + " of another") || call == "name itself" || call == "datagram";
    EXPECT_EQ(result, own ? 0 : EPERM) << call;
  }
}

TEST(Sandboxes, AreDescribed) {
  EXPECT_EQ(DescribeSandbox({}), "neither Landlock nor seccomp");
  EXPECT_EQ(DescribeSandbox({.seccomp = true}), "seccomp, and no Landlock");
  EXPECT_EQ(DescribeSandbox({.landlock = 1}), "Landlock 1, and no seccomp");
  EXPECT_EQ(DescribeSandbox({.landlock = 6, .seccomp = true}), "Landlock 6 and seccomp");
}

}  // namespace
}  // namespace folio
