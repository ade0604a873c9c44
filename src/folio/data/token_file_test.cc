#include "folio/data/token_file.h"

#include <gtest/gtest.h>

#include "folio/base/hash.h"
#include "folio/data/test_tokens.h"
#include "tests/kit/directory.h"
#include "tests/kit/expect.h"

namespace folio {
namespace {

class TokenFiles : public InTemporaryDirectory {
 protected:
  std::string Write(TokenWidth width, const std::vector<int32_t>& ids) {
    WriteTokens(At("t.bin"), width, ids);
    return At("t.bin").string();
  }
};

TEST_F(TokenFiles, BytesAreLittleEndian) {
  EXPECT_EQ(ReadFile(Write(TokenWidth::k16, {1, 0xABCD})), std::string("\x01\x00\xCD\xAB", 4));
  EXPECT_EQ(ReadFile(Write(TokenWidth::k32, {0x1ABCD})), std::string("\xCD\xAB\x01\x00", 4));
}

TEST_F(TokenFiles, LongFilesReadBackInEveryWidth) {
  for (const TokenWidth width : {TokenWidth::k16, TokenWidth::k32}) {
    const int32_t vocab = width == TokenWidth::k16 ? 65536 : 100003;
    std::vector<int32_t> ids(700001);
    for (size_t i = 0; i < ids.size(); ++i) {
      ids[i] = static_cast<int32_t>(i * 7919 % static_cast<size_t>(vocab));
    }
    const TokenFile file(Write(width, ids), width, vocab);
    ASSERT_EQ(file.size(), 700001);
    std::vector<int32_t> all(ids.size());
    file.Read(0, all);
    EXPECT_EQ(all, ids);
    std::vector<int32_t> some(5);
    file.Read(699996, some);
    EXPECT_EQ(some, std::vector<int32_t>(ids.end() - 5, ids.end()));
  }
}

TEST_F(TokenFiles, TokensOutsideTheVocabularyAreNamed) {
  const std::string path = Write(TokenWidth::k16, {1, 2, 65, 3});
  const TokenFile file(path, TokenWidth::k16, 65);
  std::vector<int32_t> out(2);
  file.Read(0, out);
  const std::string error = ErrorOf([&] { file.Read(1, out); });
  EXPECT_TRUE(Contains(error, "token 65 is outside"));
  EXPECT_TRUE(Contains(error, "position 2"));
  const TokenFile free(path, TokenWidth::k16, 0);
  free.Read(1, out);
  free.Validate(66);
  ErrorOf([&] { free.Validate(65); });
}

TEST_F(TokenFiles, IdsAboveInt32AreRefusedEvenWithoutAVocabulary) {
  WriteFileAtomically(At("t.bin"), std::string_view("\x00\x00\x00\x80", 4));
  const TokenFile file(At("t.bin").string(), TokenWidth::k32, 0);
  std::vector<int32_t> out(1);
  ErrorOf([&] { file.Read(0, out); });
}

TEST_F(TokenFiles, ATornFileIsRefused) {
  WriteFileAtomically(At("t.bin"), "abc");
  ErrorOf([&] { TokenFile(At("t.bin").string(), TokenWidth::k16, 0); });
  WriteFileAtomically(At("t.bin"), "abcdef");
  ErrorOf([&] { TokenFile(At("t.bin").string(), TokenWidth::k32, 0); });
}

TEST_F(TokenFiles, ReadingPastTheEndIsAProgrammersMistake) {
  const TokenFile file(Write(TokenWidth::k16, {1, 2, 3}), TokenWidth::k16, 0);
  std::vector<int32_t> out(2);
  EXPECT_DEATH(file.Read(2, out), "outside the file");
  EXPECT_DEATH(file.Read(-1, out), "outside the file");
}

TEST_F(TokenFiles, SeveralFilesReadAsOne) {
  const std::vector<std::vector<int32_t>> parts = {{}, {0, 1, 2}, {}, {3}, {4, 5, 6, 7}, {}};
  std::vector<std::string> paths;
  for (const std::vector<int32_t>& part : parts) {
    paths.push_back(At(std::to_string(paths.size())).string());
    WriteTokens(paths.back(), TokenWidth::k32, part);
  }
  const TokenFile file(paths, "all of it", TokenWidth::k32, 7);
  ASSERT_EQ(file.size(), 8);
  EXPECT_EQ(file.shards(), parts.size());
  EXPECT_EQ(file.shard_tokens(4), 4);
  for (int64_t begin = 0; begin <= 7; ++begin) {
    for (int64_t count = 0; begin + count <= 7; ++count) {
      std::vector<int32_t> out(static_cast<size_t>(count), -1);
      file.Read(begin, out);
      for (int64_t i = 0; i < count; ++i) EXPECT_EQ(out[static_cast<size_t>(i)], begin + i);
    }
  }
  std::vector<int32_t> out(5);
  EXPECT_TRUE(
      Contains(ErrorOf([&] { file.Read(3, out); }), "all of it: token 7 is outside", "position 7"));
  EXPECT_DEATH(file.Read(4, out), "outside the file");
}

TEST_F(TokenFiles, TheHeaderOfLlmCIsNoToken) {
  const std::string tokens = ReadFile(Write(TokenWidth::k16, {7, 50256, 9}));
  const std::string header = TokenHeader(3);
  ASSERT_EQ(header.size(), 1024u);
  EXPECT_EQ(header.substr(0, 16), std::string("\x88\xD8\x34\x01\x01\0\0\0\x03\0\0\0\0\0\0\0", 16));
  const std::string path = At("t.bin").string();
  WriteFileAtomically(path, header + tokens);
  const TokenFile file(path, TokenWidth::k16, 50257);
  ASSERT_EQ(file.size(), 3);
  std::vector<int32_t> out(3);
  file.Read(0, out);
  EXPECT_EQ(out, (std::vector<int32_t>{7, 50256, 9}));
  EXPECT_EQ(file.ShardHash(0), HashHex(tokens));
  for (const std::string& bad : {header + tokens.substr(2), header + tokens + "xy", header}) {
    WriteFileAtomically(path, bad);
    EXPECT_TRUE(Contains(ErrorOf([&] { TokenFile(path, TokenWidth::k16, 0); }), "wrong length",
                         "3 tokens"));
  }
  // Tokens that begin like a header and go on otherwise are tokens.
  std::string other = header + tokens;
  other[1023] = 1;
  WriteFileAtomically(path, other);
  EXPECT_EQ(TokenFile(path, TokenWidth::k16, 0).size(), 515);
}

TEST(TokenBytes, IdsThatDoNotFitAreAProgrammersMistake) {
  std::vector<std::byte> out;
  const std::vector<int32_t> wide = {1, 65536}, negative = {-1, 1};
  EXPECT_DEATH(AppendTokenBytes(wide, TokenWidth::k16, out), "does not fit");
  EXPECT_DEATH(AppendTokenBytes(negative, TokenWidth::k16, out), "does not fit");
  EXPECT_DEATH(AppendTokenBytes(negative, TokenWidth::k32, out), "does not fit");
  AppendTokenBytes(wide, TokenWidth::k32, out);
  AppendTokenBytes(std::vector{65535}, TokenWidth::k16, out);
  EXPECT_EQ(out.size(), 10u);
}

TEST(TokenWidths, SixteenBitsHold65536Ids) {
  EXPECT_EQ(WidthForVocab(65536), TokenWidth::k16);
  EXPECT_EQ(WidthForVocab(65537), TokenWidth::k32);
}

// A sparse file: reads beyond 4 GiB must not wrap.
TEST_F(TokenFiles, PositionsBeyond4GiBWork) {
  const std::string path = Write(TokenWidth::k16, {7});
  const uint64_t bytes = (uint64_t{1} << 32) + 10;
  std::error_code error;
  std::filesystem::resize_file(path, bytes, error);
  if (error) GTEST_SKIP() << "no room for a sparse file: " << error.message();
  const TokenFile file(path, TokenWidth::k16, 0);
  ASSERT_EQ(file.size(), static_cast<int64_t>(bytes / 2));
  std::vector<int32_t> out(5, -1);
  file.Read(file.size() - 5, out);
  EXPECT_EQ(out, std::vector<int32_t>(5, 0));
}

}  // namespace
}  // namespace folio
