#include "folio/io/checksums.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <string>

#include "folio/io/crc32c.h"
#include "folio/io/file.h"
#include "tests/kit/directory.h"
#include "tests/kit/expect.h"

namespace folio {
namespace {

namespace fs = std::filesystem;

class Checksums : public InTemporaryDirectory {
 protected:
  void SetUp() override {
    fs::create_directories(At("dir/inside"));
    WriteFileAtomically(At("dir/b"), "abc");
    WriteFileAtomically(At("dir/inside/a"), "");
    WriteFileAtomically(At("dir/a"), "some bytes");
    WriteChecksums(At("dir"));
  }
  // Writes over the list.
  void List(const std::string& text) {
    std::ofstream(At("dir") / kChecksumsFile, std::ios::binary) << text;
  }
};

// Digests of "abc" and of nothing: FIPS 180-4's examples.
constexpr char kOfAbc[] = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
constexpr char kOfNothing[] = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

TEST_F(Checksums, AreALineForEachFileByName) {
  const std::string text = ReadFile(At("dir") / kChecksumsFile);
  EXPECT_TRUE(Contains(text, "  a\n" + std::string(kOfAbc) + "  b\n" + kOfNothing + "  inside/a\n"))
      << text;
  EXPECT_EQ(Count(text, "\n"), 3u);
  EXPECT_TRUE(VerifyChecksums(At("dir")));
}

TEST_F(Checksums, NameWhatIsDamagedOrMissing) {
  WriteFileAtomically(At("dir/more"), "what is not in the list is of no concern");
  EXPECT_TRUE(VerifyChecksums(At("dir")));
  std::ofstream(At("dir/b"), std::ios::binary) << "abd";
  EXPECT_TRUE(Contains(ErrorOf([&] { VerifyChecksums(At("dir")); }), "dir/b is damaged"));
  fs::remove(At("dir/b"));
  EXPECT_TRUE(Contains(ErrorOf([&] { VerifyChecksums(At("dir")); }), "dir/b is missing"));
  WriteFileAtomically(At("dir") / kChecksumsFile,
                      std::string(64, '0') + "  " + std::string(300, 'x') + "\n");
  EXPECT_TRUE(Contains(ErrorOf([&] { VerifyChecksums(At("dir")); }), "xx is missing"))
      << "no file has so long a name";
  fs::remove(At("dir") / kChecksumsFile);
  EXPECT_FALSE(VerifyChecksums(At("dir")));
}

TEST_F(Checksums, AnEmptyListIsDamaged) {
  List("");
  EXPECT_TRUE(Contains(ErrorOf([&] { VerifyChecksums(At("dir")); }),
                       "dir/SHA256SUMS is damaged | it is empty"));
}

// In the form of folio's own checkpoints.
TEST_F(Checksums, ThatFolioHasWrittenMustBeThereAndComplete) {
  const auto error = [&](bool below = true) {
    return ErrorAndHelp([&] { VerifyChecksums(At("dir"), below); });
  };
  WriteFileAtomically(At("dir/config.json"), R"({"n_layer": 1, "checksums": "SHA256SUMS"})");
  WriteFileAtomically(At("dir/inside/state.json"), "{}");
  WriteChecksums(At("dir"));
  EXPECT_TRUE(VerifyChecksums(At("dir")));
  WriteFileAtomically(At("dir/README.md"), "what somebody puts there");
  fs::create_directory(At("dir/some.json"));
  EXPECT_TRUE(VerifyChecksums(At("dir")));
  // A missing line is noticed, wherever its file is.
  const std::string whole = ReadFile(At("dir") / kChecksumsFile);
  const size_t state = whole.find("  inside/state.json\n") - 64,
               config = whole.find("  config") - 64;
  List(whole.substr(0, state));
  EXPECT_TRUE(Contains(error(), "dir/SHA256SUMS has no line for inside/state.json"));
  EXPECT_TRUE(VerifyChecksums(At("dir"), /*below=*/false));
  List(whole.substr(0, config) + whole.substr(whole.find('\n', config) + 1));
  EXPECT_TRUE(Contains(error(false), "SHA256SUMS has no line for config.json"));
  List("");
  EXPECT_TRUE(Contains(error(), "it is empty"));
  fs::remove(At("dir") / kChecksumsFile);
  EXPECT_TRUE(Contains(error(), "dir/SHA256SUMS is missing", "part of the model",
                       "remove \"checksums\" from config.json"));
  WriteFileAtomically(At("dir/config.json"), "{}");
  EXPECT_FALSE(VerifyChecksums(At("dir"))) << "a model from elsewhere has none";
}

// A hole of a terabyte, whose hash would never be finished.
TEST_F(Checksums, OfAFileWithoutAnEndAreNotComputed) {
  for (const char* file : {"a", "a.safetensors"}) {
    std::ofstream(At("dir") / file) << "";
    fs::resize_file(At("dir") / file, uintmax_t{1} << 40);
    List(std::string(kOfAbc) + "  " + file + "\n");
    EXPECT_TRUE(Contains(ErrorOf([&] { VerifyChecksums(At("dir")); }), "is damaged")) << file;
    fs::remove(At("dir") / file);
  }
}

TEST_F(Checksums, OfTheSameFileAreNotComputedAgain) {
  fs::create_directories(At("link"));
  fs::create_hard_link(At("dir/b"), At("link/b"));
  WriteFileAtomically(At("link/a"), "another file of that name");
  std::string known = ReadFile(At("dir") / kChecksumsFile);
  List(Replaced(known, kOfAbc, kOfNothing));
  WriteChecksums(At("link"), At("dir"));
  EXPECT_TRUE(Contains(ReadFile(At("link") / kChecksumsFile), std::string(kOfNothing) + "  b"));
  EXPECT_TRUE(Contains(ErrorOf([&] { VerifyChecksums(At("link")); }), "link/b is damaged"));
}

TEST_F(Checksums, ThatAreNoneAreRefused) {
  WriteFileAtomically(At("b"), "abc");
  for (const std::string& text :
       {std::string("no sums\n"), std::string(kOfAbc) + "  b", std::string(kOfAbc) + "  \n",
        std::string(kOfAbc) + "  ../b\n", std::string(kOfAbc) + "  " + At("b").string() + "\n",
        std::string(kOfAbc) + "  inside\n", "A" + std::string(kOfAbc).substr(1) + "  b\n"}) {
    List(text);
    EXPECT_NE(ErrorOf([&] { VerifyChecksums(At("dir")); }), "") << text;
  }
}

// RFC 3720, appendix B.4.
TEST(Crc32c, VectorsOfTheRfc) {
  EXPECT_EQ(Crc32c(std::string(32, '\0')), 0x8A9136AAu);
  EXPECT_EQ(Crc32c(std::string(32, '\xFF')), 0x62A8AB43u);
  std::string bytes;
  for (char c = 0; c < 32; ++c) bytes += c;
  EXPECT_EQ(Crc32c(bytes), 0x46DD794Eu);
  std::ranges::reverse(bytes);
  EXPECT_EQ(Crc32c(bytes), 0x113FDB5Cu);
  std::string read_command(48, '\0');  // an iSCSI Read (10) command
  read_command[0] = 0x01;
  read_command[1] = '\xC0';
  read_command[16] = 0x14;
  read_command[22] = 0x04;
  read_command[27] = 0x14;
  read_command[31] = 0x18;
  read_command[32] = 0x28;
  read_command[40] = 0x02;
  EXPECT_EQ(Crc32c(read_command), 0xD9963A56u);
}

TEST(Crc32c, CheckValueAndNothing) {
  EXPECT_EQ(Crc32c("123456789"), 0xE3069283u);
  EXPECT_EQ(Crc32c(""), 0u);
}

// At every length and alignment of the eight-byte steps.
TEST(Crc32c, IsTheSameWithoutTheProcessorsInstruction) {
  std::string bytes;
  for (int i = 0; i < 300; ++i) bytes += static_cast<char>(i * 37 + i / 7);
  for (size_t from = 0; from < 9; ++from) {
    for (size_t size = 0; from + size <= bytes.size(); ++size) {
      const std::string_view some = std::string_view(bytes).substr(from, size);
      ASSERT_EQ(Crc32c(some, false), Crc32c(some, true)) << from << " " << size;
    }
  }
  EXPECT_EQ(Crc32c("123456789", false), 0xE3069283u);
}

}  // namespace
}  // namespace folio
