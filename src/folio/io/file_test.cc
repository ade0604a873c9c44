#include "folio/io/file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <utility>

#include "folio/io/posix.h"
#include "tests/kit/directory.h"
#include "tests/kit/expect.h"
#include "tests/kit/full_disk.h"
#include "tests/kit/sanitized.h"
#include "tests/kit/warnings.h"

namespace folio {
namespace {

namespace fs = std::filesystem;

class FileTest : public InTemporaryDirectory {};

std::string_view Text(const MappedFile& file) {
  return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

TEST_F(FileTest, ReadFileKeepsEveryByte) {
  std::string bytes;
  for (int i = 0; i < 70001; ++i) bytes += static_cast<char>(i * 7 % 256);
  PutFile("a", bytes);
  EXPECT_EQ(ReadFile(At("a")), bytes);
  PutFile("empty", "");
  EXPECT_EQ(ReadFile(At("empty")), "");
}

TEST_F(FileTest, ReadFileHoldsToItsLimit) {
  PutFile("a", "12345");
  EXPECT_EQ(ReadFile(At("a"), 5), "12345");
  EXPECT_TRUE(Contains(ErrorOf([&] { ReadFile(At("a"), 4); }), "it has 5 bytes", "at most 4"));
}

TEST_F(FileTest, MissingFilesAndDirectoriesAreInputErrors) {
  EXPECT_TRUE(Contains(ErrorOf([&] { ReadFile(At("none")); }), "none | No such file"));
  EXPECT_TRUE(Contains(ErrorOf([&] { ReadFile(At("")); }), "directory"));
  EXPECT_TRUE(Contains(ErrorOf([&] { MappedFile(At("none")); }), "none | No such file"));
  EXPECT_TRUE(Contains(ErrorOf([&] { MappedFile(At("")); }), "directory"));
  EXPECT_TRUE(Contains(ErrorOf([&] { MappedFile("/dev/null"); }), "not a regular file"));
}

TEST_F(FileTest, MapOutlivesMovesAndUnlinking) {
  PutFile("a", "hello");
  MappedFile first(At("a"));
  first.Advise(MappedFile::Access::kSequential);
  MappedFile second(std::move(first));
  MappedFile third;
  third = std::move(second);
  fs::remove(At("a"));
  EXPECT_EQ(Text(third), "hello");
  EXPECT_EQ(third.path(), At("a"));
}

TEST_F(FileTest, AnEmptyFileMapsToNoBytes) {
  PutFile("a", "");
  const MappedFile file(At("a"));
  file.Advise(MappedFile::Access::kSequential);
  EXPECT_TRUE(file.bytes().empty());
}

TEST_F(FileTest, AMapReachesPastFourGigabytes) {
  PutFile("big", "");
  const uint64_t size = (uint64_t{1} << 32) + 12345;
  fs::resize_file(At("big"), size);  // a hole: takes no disk space
  {
    std::fstream file(At("big"), std::ios::binary | std::ios::in | std::ios::out);
    file.seekp(static_cast<std::streamoff>(size - 1));
    file.put('x');
  }
  const MappedFile file(At("big"));
  ASSERT_EQ(file.bytes().size(), size);
  EXPECT_EQ(file.bytes()[size - 1], std::byte{'x'});
  EXPECT_EQ(file.bytes()[12344], std::byte{0});
}

TEST_F(FileTest, RequireDirectoryTellsMissingFromFile) {
  PutFile("file", "");
  RequireDirectory(At(""));
  EXPECT_TRUE(Contains(ErrorOf([&] { RequireDirectory(At("none"), "the model directory"); }),
                       "the model directory"));
  EXPECT_TRUE(Contains(ErrorOf([&] { RequireDirectory(At("file")); }), "Not a directory"));
}

TEST_F(FileTest, CreateDirectoriesFailsWhereAFileStands) {
  CreateDirectories(At("a/b/c"));
  CreateDirectories(At("a/b/c/"));
  EXPECT_TRUE(fs::is_directory(At("a/b/c")));
  PutFile("file", "");
  for (const char* name : {"file", "file/below"}) {
    EXPECT_TRUE(Contains(ErrorOf([&] { CreateDirectories(At(name)); }, ErrorKind::kRuntime), name));
  }
}

TEST_F(FileTest, ParentsThatWereMadeForNothingGoAgain) {
  std::filesystem::create_directory(At("old"));
  { const MadeParents parents(At("old/a/b/file")); }
  EXPECT_TRUE(std::filesystem::exists(At("old")));
  EXPECT_FALSE(std::filesystem::exists(At("old/a")));
  {
    const MadeParents parents(At("old/a/b/file"));
    EXPECT_TRUE(std::filesystem::is_directory(At("old/a/b")));
    WriteFileAtomically(At("old/a/other"), "x");
  }
  EXPECT_TRUE(std::filesystem::exists(At("old/a/other")));
  EXPECT_FALSE(std::filesystem::exists(At("old/a/b")));
}

TEST_F(FileTest, AParentThatIsNotThereIsNamed) {
  EXPECT_TRUE(Contains(ErrorOf([&] { RequireParentOf(At("none/file")); }, ErrorKind::kRuntime),
                       "none is not an existing directory"));
  RequireParentOf(At("file"));
}

// Such as something that never begins or never ends.
TEST_F(FileTest, WhatIsNoRegularFileIsRefusedAtOnce) {
  ASSERT_EQ(mkfifo(At("pipe").c_str(), 0600), 0);
  std::filesystem::create_symlink("/dev/zero", At("zero"));
  std::filesystem::create_directory(At("directory"));
  const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un name = {};
  name.sun_family = AF_UNIX;
  ASSERT_LT(At("socket").string().size(), sizeof(name.sun_path));
  At("socket").string().copy(name.sun_path, sizeof(name.sun_path) - 1);
  ASSERT_EQ(bind(fd, reinterpret_cast<const sockaddr*>(&name), sizeof(name)), 0);
  close(fd);
  const std::pair<const char*, const char*> kinds[] = {{"pipe", "it is a pipe, not a regular file"},
                                                       {"zero", "it is a device"},
                                                       {"directory", "Is a directory"},
                                                       {"socket", "it is a socket"}};
  for (const auto& [file, cause] : kinds) {
    EXPECT_TRUE(Contains(ErrorOf([path = At(file)] { ReadFile(path); }), At(file).string(), cause));
    EXPECT_TRUE(
        Contains(ErrorOf([path = At(file)] { MappedFile{path}; }), At(file).string(), cause));
    EXPECT_EQ(internal::OpenIfRegular(At(file)).get(), -1) << file;
  }
  EXPECT_TRUE(Contains(ErrorOf([&] { internal::OpenStream(At("zero")); }), "it is a device"));
  EXPECT_GE(internal::OpenStream(At("pipe")).get(), 0);
  EXPECT_GE(internal::OpenStream("/dev/null").get(), 0);
}

TEST_F(FileTest, AFileThatIsTooLongIsRefusedUnread) {
  PutFile("hole", "");
  std::filesystem::resize_file(At("hole"), uintmax_t{1} << 40);
  EXPECT_TRUE(Contains(ErrorOf([&] { ReadFile(At("hole"), 1000); }), At("hole").string(),
                       "it has 1099511627776 bytes", "at most 1000"));
}

// No memory is reserved for a mapped file, even if it is larger than all memory.
TEST_F(FileTest, AFileLargerThanMemoryIsMapped) {
  if (kSanitized) GTEST_SKIP() << "sanitizers have the address space";
  PutFile("hole", "");
  std::filesystem::resize_file(At("hole"), uintmax_t{1} << 40);
  const MappedFile file(At("hole"));
  EXPECT_EQ(file.bytes().size(), size_t{1} << 40);
  EXPECT_EQ(file.bytes().back(), std::byte{0});
}

TEST_F(FileTest, AMapThatDoesNotFitIsNoDamagedFile) {
  if (kSanitized) GTEST_SKIP() << "sanitizers have the address space";
  PutFile("hole", "");
  std::filesystem::resize_file(At("hole"), uintmax_t{1} << 40);
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_AS, &before), 0);
  rlimit low = before;
  low.rlim_cur = rlim_t{64} << 30;
  ASSERT_EQ(setrlimit(RLIMIT_AS, &low), 0);
  const std::string error = ErrorAndHelp([&] { MappedFile{At("hole")}; }, ErrorKind::kResource);
  ASSERT_EQ(setrlimit(RLIMIT_AS, &before), 0);
  EXPECT_TRUE(Contains(error, "cannot map " + At("hole").string(), "it has 1.10 TB",
                       "address space of this process is limited to 68.72 GB", "ulimit -v"));
}

class AtomicTest : public InTemporaryDirectory {
 protected:
  // A directory holding one file with this text.
  void MakeDirectory(const std::string& name, const std::string& text) {
    PutFile(name + "/text", text);
  }
  std::string TextIn(const std::string& name) { return ReadFile(At(name) / "text"); }
};

TEST_F(AtomicTest, FileIsNotThereBeforeCommit) {
  AtomicFile file(At("a"));
  file.Write("one ");
  file.Write("two");
  EXPECT_FALSE(fs::exists(At("a")));
  EXPECT_EQ(Names(), (Strings{".a.tmp-" + std::to_string(getpid())}));
  file.Commit();
  EXPECT_EQ(file.written(), 7u);
  EXPECT_EQ(ReadFile(At("a")), "one two");
  EXPECT_EQ(Names(), (Strings{"a"}));
}

TEST_F(AtomicTest, WithoutCommitTheOldFileStays) {
  WriteFileAtomically(At("a"), "old");
  {
    AtomicFile file(At("a"));
    file.Write("new");
  }
  EXPECT_EQ(ReadFile(At("a")), "old");
  EXPECT_EQ(Names(), (Strings{"a"}));
}

TEST_F(AtomicTest, AFullDiskLeavesTheOldFileAndNothingElse) {
  WriteFileAtomically(At("a"), "old");
  {
    const FullDisk full(1000);
    EXPECT_TRUE(Contains(
        ErrorOf([&] { WriteFileAtomically(At("a"), std::string(5000, 'x')); }, ErrorKind::kRuntime),
        "a | File too large"));
  }
  EXPECT_EQ(ReadFile(At("a")), "old");
  EXPECT_EQ(Names(), (Strings{"a"}));
}

TEST_F(AtomicTest, AFullDiskIsCalledSo) {
  EXPECT_TRUE(
      Contains(Refused([] { internal::ThrowCannotWrite("x", ENOSPC); }, ErrorKind::kRuntime).help(),
               "free some space"));
}

TEST_F(AtomicTest, ImpossibleTargetsAreErrorsThatNameThem) {
  const auto try_file = [&](const fs::path& path) {
    return ErrorOf([&] { AtomicFile file(path); }, ErrorKind::kRuntime);
  };
  fs::create_directory(At("directory"));
  EXPECT_TRUE(Contains(try_file(At("none/file")), "none is not an existing directory"));
  EXPECT_TRUE(Contains(try_file(At("directory")), "Is a directory"));
  EXPECT_TRUE(Contains(try_file("/dev/null"), "/dev/null"));
  EXPECT_TRUE(Contains(try_file("/"), "cannot write"));
  EXPECT_TRUE(Contains(try_file(""), "cannot write"));
  WriteFileAtomically(At("file"), "");
  EXPECT_TRUE(Contains(try_file(At("file") / "below"), "file is not an existing directory"));
  EXPECT_TRUE(Contains(ErrorOf([&] { AtomicDirectory d(At("file")); }, ErrorKind::kRuntime),
                       "Not a directory"));
  EXPECT_EQ(Names(), (Strings{"directory", "file"}));
}

TEST_F(AtomicTest, ASymbolicLinkIsWrittenWhereItPoints) {
  fs::create_directory(At("real"));
  WriteFileAtomically(At("real/a"), "old");
  fs::create_symlink(At("real/a"), At("link"));
  WriteFileAtomically(At("link"), "new");
  EXPECT_TRUE(fs::is_symlink(At("link")));
  EXPECT_EQ(ReadFile(At("real/a")), "new");
  EXPECT_EQ(Names(), (Strings{"link", "real"}));
}

TEST_F(AtomicTest, LeftoversOfAKilledWriterAreRemovedAndNothingElseIs) {
  PutFile(".a.tmp-1234567", "half");
  MakeDirectory(".a.tmp-89", "half");
  PutFile(".a.tmp-12x", "mine");
  PutFile(".ab.tmp-12", "mine");
  WriteFileAtomically(At("a"), "whole");
  EXPECT_EQ(Names(), (Strings{".a.tmp-12x", ".ab.tmp-12", "a"}));
}

TEST_F(AtomicTest, ALivingWritersTemporaryIsLeftAlone) {
  const fs::path other = At(".a.tmp-1234567");
  const internal::FileDescriptor fd(open(other.c_str(), O_CREAT | O_WRONLY, 0666));
  ASSERT_EQ(flock(fd.get(), LOCK_EX), 0);
  WriteFileAtomically(At("a"), "whole");
  EXPECT_EQ(Names(), (Strings{".a.tmp-1234567", "a"}));
}

TEST_F(AtomicTest, TwoWritersOfOneTargetAreRefused) {
  AtomicFile first(At("a"));
  EXPECT_TRUE(Contains(ErrorOf([&] { AtomicFile second(At("a")); }, ErrorKind::kRuntime),
                       "another process"));
  first.Write("first");
  first.Commit();
  EXPECT_EQ(ReadFile(At("a")), "first");
}

TEST_F(AtomicTest, DirectoryReplacesTheOldOneWhole) {
  for (const std::string text : {"one", "two", "three"}) {
    AtomicDirectory directory(At("d/"));
    WriteFileAtomically(directory.path() / "text", text);
    fs::create_directory(directory.path() / "below");
    WriteFileAtomically(directory.path() / "below" / text, text);
    directory.Commit();
    EXPECT_EQ(TextIn("d"), text);
    EXPECT_FALSE(fs::exists(At("d/below/one")) && text != "one");
    EXPECT_EQ(Names(), (Strings{"d"}));
  }
}

TEST_F(AtomicTest, DirectoryWithoutCommitLeavesTheOldOne) {
  MakeDirectory("d", "old");
  {
    AtomicDirectory directory(At("d"));
    WriteFileAtomically(directory.path() / "text", "new");
  }
  EXPECT_EQ(TextIn("d"), "old");
  EXPECT_EQ(Names(), (Strings{"d"}));
}

TEST_F(AtomicTest, DirectoryReplacesWithoutExchange) {
  MakeDirectory("d", "old");
  MakeDirectory("n", "new");
  internal::ReplaceDirectory(internal::HeldName(At("d")), "n", At("d"), false);
  EXPECT_EQ(TextIn("d"), "new");
  EXPECT_EQ(Names(), (Strings{"d"}));
}

TEST_F(AtomicTest, AnInterruptedReplacementPutsTheOldDirectoryBackAndAFinishedOneLosesIt) {
  for (const char* other : {".d.tmp-77", "d"}) {
    const bool finished = other == std::string("d");
    MakeDirectory(".d.old-77", "old");
    MakeDirectory(other, "new");
    { AtomicDirectory directory(At("d")); }
    EXPECT_EQ(TextIn("d"), finished ? "new" : "old");
    EXPECT_EQ(Names(), (Strings{"d"}));
    fs::remove_all(At("d"));
  }
}

TEST_F(AtomicTest, AWholeNewDirectoryWinsOverTheOneAsideAndTheOneInPlace) {
  for (const char* old : {".d.old-77", "d", ""}) {
    if (*old != 0) MakeDirectory(old, "old");
    MakeDirectory(".d.new-77", "new");
    internal::CleanLeftovers(internal::HeldName(At("d")));
    EXPECT_EQ(TextIn("d"), "new") << old;
    EXPECT_EQ(Names(), (Strings{"d"}));
    fs::remove_all(At("d"));
  }
}

TEST_F(AtomicTest, WhatALivingWriterHasAsideStaysThere) {
  MakeDirectory(".d.old-77", "old");
  MakeDirectory(".d.new-77", "new");
  const internal::FileDescriptor fd(open(At(".d.new-77").c_str(), O_RDONLY));
  ASSERT_EQ(flock(fd.get(), LOCK_EX), 0);
  internal::CleanLeftovers(internal::HeldName(At("d")));
  EXPECT_EQ(Names(), (Strings{".d.new-77", ".d.old-77"}));
}

// Each directory contains a number, in two files.
TEST_F(AtomicTest, AReplacementWithoutExchangeKilledAtAnyMomentLeavesAWholeDirectory) {
  const auto fill = [&](const fs::path& directory, int number) {
    fs::create_directory(directory);
    for (const char* name : {"a", "b"}) std::ofstream(directory / name) << number;
  };
  fill(At("d"), 0);
  int number = 0, replaced = 0;
  // On a busy machine more are killed before they do anything.
  for (int i = 0; i < 100 || (replaced <= 3 && i < 1000); ++i) {
    const pid_t child = fork();
    if (child == 0) {
      for (int next = number + 1;; ++next) {
        const internal::HeldName to(At("d"));
        const std::string from = internal::TemporaryFor(to);
        fill(At(from), next);
        internal::ReplaceDirectory(to, from, At("d"), /*may_exchange=*/false);
      }
    }
    usleep(static_cast<useconds_t>(100 + 29 * i));
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    internal::CleanLeftovers(internal::HeldName(At("d")));
    ASSERT_EQ(Names(), (Strings{"d"}));
    ASSERT_EQ(ReadFile(At("d/a")), ReadFile(At("d/b")));
    const int found = std::stoi(ReadFile(At("d/a")));
    ASSERT_GE(found, number);
    replaced += found > number ? 1 : 0;
    number = found;
  }
  EXPECT_GT(replaced, 3);
}

TEST_F(AtomicTest, WhatFollowsCommitIsRefused) {
  AtomicFile file(At("a"));
  file.Write("whole");
  file.Commit();
  EXPECT_TRUE(
      Contains(ErrorOf([&] { file.Write("more"); }, ErrorKind::kUsage), "is written and closed"));
  ErrorOf([&] { file.Commit(); }, ErrorKind::kUsage);
  AtomicDirectory directory(At("d"));
  directory.Commit();
  ErrorOf([&] { directory.Commit(); }, ErrorKind::kUsage);
  EXPECT_EQ(ReadFile(At("a")), "whole");
}

TEST_F(AtomicTest, ALinkToNothingIsReplacedAndNothingIsMadeWhereItPoints) {
  fs::create_symlink(At("elsewhere"), At("a"));
  WriteFileAtomically(At("a"), "new");
  EXPECT_FALSE(fs::is_symlink(At("a")));
  EXPECT_EQ(ReadFile(At("a")), "new");
  EXPECT_EQ(Names(), (Strings{"a"}));
}

// In a directory that all may write to, another process knows the names.
TEST_F(AtomicTest, ALinkUnderTheNameOfTheTemporaryIsNotFollowed) {
  WriteFileAtomically(At("precious"), "modified since");
  const std::string temporary = ".a.tmp-" + std::to_string(getpid());
  fs::create_symlink(At("precious"), At(temporary));
  EXPECT_TRUE(Contains(ErrorOf([&] { AtomicFile(At("a")); }, ErrorKind::kRuntime), "cannot write"));
  ErrorOf([&] { AtomicDirectory(At("a")); }, ErrorKind::kRuntime);
  EXPECT_EQ(ReadFile(At("precious")), "modified since");
  EXPECT_EQ(Names(), (Strings{temporary, "precious"}));
}

TEST_F(AtomicTest, APipeUnderTheNameOfALeftoverIsNotWaitedFor) {
  ASSERT_EQ(mkfifo(At(".a.tmp-1").c_str(), 0666), 0);
  WriteFileAtomically(At("a"), "new");
  EXPECT_EQ(ReadFile(At("a")), "new");
}

TEST_F(AtomicTest, WhatOthersHaveLeftIsNeitherTakenOverNorRemoved) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can leave files of others";
  MakeDirectory(".d.new-1", "of a stranger");
  MakeDirectory(".d.tmp-2", "of a stranger");
  WriteFileAtomically(At(".d.tmp-3"), "own");
  for (const char* name : {".d.new-1", ".d.tmp-2"})
    ASSERT_EQ(chown(At(name).c_str(), 1234, 1234), 0);
  MakeDirectory("d", "own");
  internal::CleanLeftovers(internal::HeldName(At("d")));
  EXPECT_EQ(TextIn("d"), "own");
  EXPECT_EQ(Names(), (Strings{".d.new-1", ".d.tmp-2", "d"}));
}

TEST_F(AtomicTest, ModesAreThoseOfTheUmask) {
  for (const mode_t mask : {mode_t{022}, mode_t{077}, mode_t{0}}) {
    const mode_t before = umask(mask);
    WriteFileAtomically(At("f"), "x");
    AtomicDirectory directory(At("d"));
    WriteFileAtomically(directory.path() / "f", "x");
    directory.Commit();
    CreateDirectories(At("made"));
    umask(before);
    const auto mode = [&](const char* name) {
      struct stat info = {};
      EXPECT_EQ(stat(At(name).c_str(), &info), 0);
      return info.st_mode & 07777;
    };
    EXPECT_EQ(mode("f"), 0666 & ~mask);
    EXPECT_EQ(mode("d/f"), 0666 & ~mask);
    EXPECT_EQ(mode("d"), 0777 & ~mask);
    EXPECT_EQ(mode("made"), 0777 & ~mask);
    for (const char* name : {"f", "d", "made"}) fs::remove_all(At(name));
  }
}

using LineFiles = InTemporaryDirectory;

TEST_F(LineFiles, AreAppendedTo) {
  WriteFileAtomically(At("lines"), "one\n");
  LineFile file(At("lines"));
  file.Write("two\n");
  EXPECT_EQ(ReadFile(At("lines")), "one\ntwo\n");
  file.Finish();
  EXPECT_TRUE(Contains(ErrorOf([&] { LineFile(At("none/lines")); }, ErrorKind::kRuntime), "none"));
}

TEST_F(LineFiles, WaitForRoomAndLoseNothing) {
  const Warnings warnings;
  LineFile file(At("lines"));
  file.Write("first\n");
  {
    const FullDisk full(10);
    file.Write("second\n");
    EXPECT_EQ(ReadFile(At("lines")), "first\nseco");
    file.Write("third\n");
    EXPECT_EQ(Count(warnings.text(), "cannot write"), 1u) << warnings.text();
    EXPECT_TRUE(Contains(ErrorOf([&] { file.Finish(); }, ErrorKind::kRuntime), "lines"));
  }
  file.Write("fourth\n");
  EXPECT_EQ(ReadFile(At("lines")), "first\nsecond\nthird\nfourth\n");
  file.Finish();
}

int SumOf(const MappedFile& file) {
  int sum = 0;
  for (const std::byte byte : file.bytes()) sum += static_cast<int>(byte);
  return sum;
}

class MappedFaults : public InTemporaryDirectory {};

TEST_F(MappedFaults, NameTheFileThatBecameShorter) {
  const fs::path path = At("tokens.bin"), other = At("other.bin");
  WriteFileAtomically(path, std::string(1 << 20, 'x'));
  WriteFileAtomically(other, std::string(1 << 20, 'y'));
  const auto shorten = [&] {
    ReportMappedFaults();
    const MappedFile before(other);
    MappedFile file(path);
    const MappedFile moved = std::move(file), after(other);
    fs::resize_file(path, 1000);
    std::exit(SumOf(moved) % 2);
  };
  EXPECT_EXIT(shorten(), testing::ExitedWithCode(3), "tokens.bin became shorter");
}

TEST_F(MappedFaults, AreNoExcuseForOthers) {
  const fs::path path = At("tokens.bin");
  WriteFileAtomically(path, "text");
  const auto fail = [&] {
    ReportMappedFaults();
    const MappedFile file(path);
    std::raise(SIGBUS);
    std::raise(SIGBUS);
  };
  EXPECT_EXIT(fail(), testing::KilledBySignal(SIGBUS), "");
}

#ifdef SYS_openat2
// Makes openat2 unavailable in this process, as before Linux 5.6.
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

  // Runs the test's body with openat2 and, in a process of its own, without.
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
                           "run/link is a symbolic link", "below", "replace it by its target"));
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

    // A link under the name itself is replaced.
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

// By whatever name a path refers to the inside.
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
    WriteFileAtomically("run/link/x", "new");  // a link given by the user is followed
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

// Another process replaces a directory by a link during the writing.
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
