#include "folio/io/file.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <fstream>
#include <utility>

#include "folio/io/posix.h"
#include "tests/kit/directory.h"
#include "tests/kit/expect.h"
#include "tests/kit/sanitized.h"

namespace folio {
namespace {

namespace fs = std::filesystem;

class FileTest : public InTemporaryDirectory {};

void Put(const fs::path& path, std::string_view bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

std::string_view Text(const MappedFile& file) {
  return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

TEST_F(FileTest, ReadFileKeepsEveryByte) {
  std::string bytes;
  for (int i = 0; i < 70001; ++i) bytes += static_cast<char>(i * 7 % 256);
  Put(At("a"), bytes);
  EXPECT_EQ(ReadFile(At("a")), bytes);
  Put(At("empty"), "");
  EXPECT_EQ(ReadFile(At("empty")), "");
}

TEST_F(FileTest, ReadFileHoldsToItsLimit) {
  Put(At("a"), "12345");
  EXPECT_EQ(ReadFile(At("a"), 5), "12345");
  EXPECT_TRUE(Contains(ErrorOf([&] { ReadFile(At("a"), 4); }), "it has 5 bytes", "up to 4"));
}

TEST_F(FileTest, MissingFilesAndDirectoriesAreInputErrors) {
  EXPECT_TRUE(Contains(ErrorOf([&] { ReadFile(At("none")); }), "none | No such file"));
  EXPECT_TRUE(Contains(ErrorOf([&] { ReadFile(At("")); }), "directory"));
  EXPECT_TRUE(Contains(ErrorOf([&] { MappedFile(At("none")); }), "none | No such file"));
  EXPECT_TRUE(Contains(ErrorOf([&] { MappedFile(At("")); }), "directory"));
  EXPECT_TRUE(Contains(ErrorOf([&] { MappedFile("/dev/null"); }), "not a regular file"));
}

TEST_F(FileTest, MapOutlivesMovesAndUnlinking) {
  Put(At("a"), "hello");
  MappedFile first(At("a"));
  first.Advise(MappedFile::Access::kRandom);
  MappedFile second(std::move(first));
  MappedFile third;
  third = std::move(second);
  fs::remove(At("a"));
  EXPECT_EQ(Text(third), "hello");
  EXPECT_EQ(third.path(), At("a"));
}

TEST_F(FileTest, AnEmptyFileMapsToNoBytes) {
  Put(At("a"), "");
  const MappedFile file(At("a"));
  file.Advise(MappedFile::Access::kSequential);
  EXPECT_TRUE(file.bytes().empty());
}

TEST_F(FileTest, AMapReachesPastFourGigabytes) {
  Put(At("big"), "");
  const uint64_t size = (uint64_t{1} << 32) + 12345;
  fs::resize_file(At("big"), size);  // a hole: takes no room on the disk
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
  Put(At("file"), "");
  RequireDirectory(At(""));
  EXPECT_TRUE(Contains(ErrorOf([&] { RequireDirectory(At("none"), "the model directory"); }),
                       "the model directory"));
  EXPECT_TRUE(Contains(ErrorOf([&] { RequireDirectory(At("file")); }), "Not a directory"));
}

TEST_F(FileTest, CreateDirectoriesFailsWhereAFileStands) {
  CreateDirectories(At("a/b/c"));
  CreateDirectories(At("a/b/c/"));
  EXPECT_TRUE(fs::is_directory(At("a/b/c")));
  Put(At("file"), "");
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

// As something that never begins or never ends.
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
  std::ofstream{At("hole")};
  std::filesystem::resize_file(At("hole"), uintmax_t{1} << 40);
  EXPECT_TRUE(Contains(ErrorOf([&] { ReadFile(At("hole"), 1000); }), At("hole").string(),
                       "it has 1099511627776 bytes", "up to 1000"));
}

// Nothing is promised for what a file lies over, be it larger than all memory.
TEST_F(FileTest, AFileLargerThanMemoryIsMapped) {
  if (kSanitized) GTEST_SKIP() << "sanitizers have the address space";
  std::ofstream{At("hole")};
  std::filesystem::resize_file(At("hole"), uintmax_t{1} << 40);
  const MappedFile file(At("hole"));
  EXPECT_EQ(file.bytes().size(), size_t{1} << 40);
  EXPECT_EQ(file.bytes().back(), std::byte{0});
}

TEST_F(FileTest, AMapThatDoesNotFitIsNoDamagedFile) {
  if (kSanitized) GTEST_SKIP() << "sanitizers have the address space";
  std::ofstream{At("hole")};
  std::filesystem::resize_file(At("hole"), uintmax_t{1} << 40);
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_AS, &before), 0);
  rlimit low = before;
  low.rlim_cur = rlim_t{64} << 30;
  ASSERT_EQ(setrlimit(RLIMIT_AS, &low), 0);
  const std::string error = ErrorAndHelp([&] { MappedFile{At("hole")}; }, ErrorKind::kResource);
  ASSERT_EQ(setrlimit(RLIMIT_AS, &before), 0);
  EXPECT_TRUE(Contains(error, "no room in memory for " + At("hole").string(), "it has 1.10 TB",
                       "address space of this process is limited to 68.72 GB", "ulimit -v"));
}

}  // namespace
}  // namespace folio
