#include "folio/serve/sandbox.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/ioctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <map>
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
          text += name + " " + std::to_string(result) + "\n";
        }
      } catch (const std::exception& error) {
        text = error.what() + std::string(" -1\n");
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
    for (int result = 0; lines >> name >> result;) found[name] = result;
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

TEST(Sandboxes, AreDescribed) {
  EXPECT_EQ(DescribeSandbox({}), "neither Landlock nor seccomp");
  EXPECT_EQ(DescribeSandbox({.seccomp = true}), "seccomp, and no Landlock");
  EXPECT_EQ(DescribeSandbox({.landlock = 1}), "Landlock 1, and no seccomp");
  EXPECT_EQ(DescribeSandbox({.landlock = 6, .seccomp = true}), "Landlock 6 and seccomp");
}

}  // namespace
}  // namespace folio
