#include "folio/io/checksums.h"

#include <gtest/gtest.h>

#include <fstream>

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

// As folio's own checkpoints have it.
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
  // A line is lost, wherever its file is.
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
  EXPECT_TRUE(Contains(error(), "dir/SHA256SUMS is missing", "folio wrote it",
                       "take \"checksums\" out of config.json"));
  WriteFileAtomically(At("dir/config.json"), "{}");
  EXPECT_FALSE(VerifyChecksums(At("dir"))) << "a model from elsewhere has none";
}

// A hole of a terabyte, of which no hash comes to its end.
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

}  // namespace
}  // namespace folio
