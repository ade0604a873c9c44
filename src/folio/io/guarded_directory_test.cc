#include "folio/io/guarded_directory.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <functional>
#include <thread>

#include "folio/io/file.h"
#include "folio/io/posix.h"
#include "tests/kit/directory.h"
#include "tests/kit/expect.h"

namespace folio {
namespace {

namespace fs = std::filesystem;

#ifdef SYS_openat2
// From here on this process has a kernel without openat2, as before Linux 5.6.
bool ForbidOpenat2() {
  const sock_filter program[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat2, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog filter = {.len = std::size(program),
                             .filter = const_cast<sock_filter*>(program)};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}
#endif

class GuardedDirectories : public InTemporaryDirectory {
 protected:
  GuardedDirectories() {
    fs::create_directories(At("run/real"));
    fs::create_directories(At("outside/inner"));
    WriteFileAtomically(At("outside/file"), "precious");
    WriteFileAtomically(At("outside/inner/file"), "precious");
    fs::create_directory_symlink(At("outside"), At("run/link"));
    fs::create_symlink(At("outside/file"), At("run/file"));
    fs::create_symlink(At("run/round"), At("run/round"));
  }

  // Runs the test's body with the kernel's own look-up and, in a process of its own, without.
  void WithBothWays(const std::function<void()>& body) {
    const auto outside = FilesBelow(At("outside"));
    body();
    EXPECT_EQ(FilesBelow(At("outside")), outside);
#ifdef SYS_openat2
    const pid_t child = fork();
    if (child == 0) {
      if (!ForbidOpenat2()) _exit(77);
      body();
      _exit(HasFailure() ? 1 : 0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77) GTEST_SKIP() << "no filters of calls here";
    EXPECT_EQ(status, 0) << "without openat2";
    EXPECT_EQ(FilesBelow(At("outside")), outside);
#endif
  }
};

TEST_F(GuardedDirectories, FollowNoLinkOnTheWay) {
  for (const bool in_one_call : {true, false}) {
    const internal::FileDescriptor run(open(At("run").c_str(), O_PATH));
    const auto error_of = [&](const std::string& rest) {
      errno = 0;
      const internal::FileDescriptor fd(internal::OpenBeneath(run.get(), rest, in_one_call));
      return fd.get() < 0 ? errno : 0;
    };
    EXPECT_EQ(error_of(""), 0);
    EXPECT_EQ(error_of("real"), 0);
    EXPECT_EQ(error_of("link"), ELOOP);
    EXPECT_EQ(error_of("link/inner"), ELOOP);
    EXPECT_EQ(error_of("round"), ELOOP);
    EXPECT_EQ(error_of("real/../../outside"), EXDEV);
    EXPECT_EQ(error_of("nothing"), ENOENT);
  }
}

TEST_F(GuardedDirectories, AreWrittenWithoutFollowingLinks) {
  WithBothWays([this] {
    const GuardedDirectory inside(At("run"));
    const auto refused = [&](const std::function<void()>& write) {
      EXPECT_TRUE(Contains(ErrorAndHelp(write, ErrorKind::kRuntime), "cannot write",
                           "run/link is a symbolic link", "below", "put there what it leads to"));
    };
    refused([&] { WriteFileAtomically(At("run/link/file"), "new"); });
    refused([&] { AtomicDirectory(At("run/link/inner")); });
    refused([&] { LineFile(At("run/link/file")); });
    refused([&] { PartialFile(At("run/link/file"), "key"); });
    refused([&] { CreateDirectories(At("run/link/made")); });
    refused([&] { CreateDirectories(At("run/link")); });
    EXPECT_TRUE(Contains(ErrorOf([&] { LineFile(At("run/file")); }, ErrorKind::kRuntime),
                         "run/file is a symbolic link"));
    EXPECT_EQ(internal::Rename(At("run/link/file"), At("run/taken")).value(), ELOOP);
    EXPECT_EQ(internal::Link(At("run/link/file"), At("run/taken")).value(), ELOOP);
    EXPECT_EQ(internal::RemoveTree(At("run/link/inner")).value(), ELOOP);
    EXPECT_FALSE(internal::IsThere(At("run/link/file")));
    EXPECT_TRUE(internal::NamesIn(At("run/link")).empty());

    // A link under the name itself gives way.
    fs::create_symlink(At("outside/file"), At("run/real/file"));
    WriteFileAtomically(At("run/real/file"), "new");
    EXPECT_FALSE(fs::is_symlink(At("run/real/file")));
    EXPECT_EQ(ReadFile(At("run/real/file")), "new");
    fs::create_directory_symlink(At("outside"), At("run/real/dir"));
    {
      AtomicDirectory dir(At("run/real/dir"));
      WriteFileAtomically(dir.path() / "file", "new");
      dir.Commit();
    }
    EXPECT_FALSE(fs::is_symlink(At("run/real/dir")));
    EXPECT_EQ(ReadFile(At("run/real/dir/file")), "new");
    fs::create_directory_symlink(At("outside"), At("run/real/dir/link"));
    EXPECT_FALSE(internal::RemoveTree(At("run/real/dir")));
    fs::remove(At("run/real/file"));
    EXPECT_EQ(internal::NamesIn(At("run/real")), Strings());
  });
}

// However somebody names what is inside.
TEST_F(GuardedDirectories, AreKnownByEveryName) {
  fs::create_directory_symlink(At("run"), At("latest"));
  const fs::path before = fs::current_path();
  for (const char* guarded : {"run", "latest", "./run/", "real/../latest"}) {
    fs::create_directories(At("real"));
    fs::current_path(At(""));
    {
      const GuardedDirectory inside(guarded);
      for (const fs::path& name :
           {At("run/link/x"), fs::path("run/link/x"), fs::path("./run//link/./x"),
            fs::path("run/real/../link/x"), fs::path("run/link/")}) {
        EXPECT_FALSE(internal::GuardedPath(name).empty()) << guarded << " " << name;
      }
      for (const fs::path& name : {At("run"), At("runs/x"), At("outside/file"), fs::path("run/..")})
        EXPECT_TRUE(internal::GuardedPath(name).empty()) << guarded << " " << name;
      ErrorOf([] { WriteFileAtomically("run/link/x", "new"); }, ErrorKind::kRuntime);
    }
    WriteFileAtomically("run/link/x", "new");  // whoever names a link means what it leads to
    EXPECT_EQ(ReadFile(At("outside/x")), "new");
    fs::remove(At("outside/x"));
    fs::current_path(before);
  }
}

TEST_F(GuardedDirectories, ThatComeBackAreWrittenAgain) {
  const GuardedDirectory inside(At("run"));
  fs::rename(At("run"), At("away"));
  ErrorOf([&] { WriteFileAtomically(At("run/a"), "1"); }, ErrorKind::kRuntime);
  fs::create_directory(At("run"));
  WriteFileAtomically(At("run/a"), "2");
  EXPECT_EQ(ReadFile(At("run/a")), "2");
  EXPECT_FALSE(fs::exists(At("away/a")));
}

// Somebody puts a link in the place of a directory while it is written.
TEST_F(GuardedDirectories, AreSafeFromLinksThatComeWhileTheyAreWritten) {
  WithBothWays([this] {
    const GuardedDirectory inside(At("run"));
    std::atomic<bool> stop = false;
    std::thread swapper([&] {
      while (!stop) {
        renameat2(AT_FDCWD, At("run/link").c_str(), AT_FDCWD, At("run/real").c_str(),
                  RENAME_EXCHANGE);
      }
    });
    int written = 0, refused = 0;
    for (int i = 0; i < 20000 && (i < 2000 || written == 0 || refused == 0); ++i) {
      try {
        WriteFileAtomically(At("run/real/file"), "new");
        ++written;
      } catch (const Error&) {
        ++refused;
      }
      internal::RemoveTree(At("run/real/inner"));
      internal::Rename(At("run/real/inner/file"), At("run/taken"));
    }
    stop = true;
    swapper.join();
    EXPECT_GT(written, 0);
    EXPECT_GT(refused, 0);
    if (!fs::is_symlink(At("run/link"))) fs::rename(At("run/link"), At("run/kept"));
    if (fs::is_symlink(At("run/real"))) fs::rename(At("run/real"), At("run/link"));
    if (fs::exists(At("run/kept"))) fs::rename(At("run/kept"), At("run/real"));
    EXPECT_EQ(ReadFile(At("outside/file")), "precious");
    EXPECT_EQ(ReadFile(At("outside/inner/file")), "precious");
  });
}

}  // namespace
}  // namespace folio
