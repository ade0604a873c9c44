#include "folio/data/shard_writer.h"

#include <gtest/gtest.h>

#include "folio/data/test_tokens.h"
#include "tests/kit/directory.h"
#include "tests/kit/expect.h"

namespace folio {
namespace {

class Shards : public InTemporaryDirectory {
 protected:
  static std::vector<std::byte> Tokens(int32_t begin, int32_t end,
                                       TokenWidth width = TokenWidth::k16) {
    std::vector<int32_t> ids;
    for (int32_t id = begin; id < end; ++id) ids.push_back(id);
    std::vector<std::byte> bytes;
    AppendTokenBytes(ids, width, bytes);
    return bytes;
  }
  static std::string HashOf(const std::vector<std::byte>& bytes) {
    return HashHex({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  }
  ShardLayout Layout(int64_t shard_tokens, TokenFormat format = TokenFormat::kFolio) {
    return {.part = "part", .format = format, .shard_tokens = shard_tokens};
  }
};

// In a directory that all may write to, another user knows the names.
TEST_F(Shards, ALinkUnderTheirNameIsNotFollowed) {
  PutFile("precious", "modified since");
  std::filesystem::create_symlink(At("precious"), At("part.bin"));
  ShardWriter writer(At(""), Layout(0));
  ErrorOf([&] { writer.Append(Tokens(0, 5)); }, ErrorKind::kRuntime);
  EXPECT_EQ(ReadFile(At("precious")), "modified since");
  ErrorOf([&] { ShardWriter(At(""), Layout(-1)); }, ErrorKind::kUsage);
}

TEST_F(Shards, AreCutAtTheirLengthHowevertheTokensCome) {
  for (const int32_t piece : {1, 3, 7, 8, 23}) {
    ShardWriter writer(At(""), Layout(7));
    for (int32_t at = 0; at < 23; at += piece) {
      writer.Append(Tokens(at, std::min(23, at + piece)));
    }
    const std::vector<TokenShard> shards = writer.Finish();
    ASSERT_EQ(shards.size(), 4u) << piece;
    EXPECT_EQ(shards[1], (TokenShard{"part_000001.bin", 7, HashOf(Tokens(7, 14))}));
    EXPECT_EQ(shards[3], (TokenShard{"part_000003.bin", 2, HashOf(Tokens(21, 23))}));
    EXPECT_EQ(ReadFile(At("part_000003.bin")), std::string("\x15\x00\x16\x00", 4));
  }
}

TEST_F(Shards, AFullLastOneIsNotFollowedByAnEmptyOne) {
  ShardWriter writer(At(""), Layout(5));
  writer.Append(Tokens(0, 10));
  EXPECT_EQ(writer.Finish().size(), 2u);
  EXPECT_EQ(Names(), (Strings{"part_000000.bin", "part_000001.bin"}));
}

TEST_F(Shards, WithoutTokensThereIsAFileStill) {
  ShardWriter one(At(""), Layout(0));
  EXPECT_EQ(one.Finish(), (std::vector<TokenShard>{{"part.bin", 0, HashHex("")}}));
  ShardWriter many(At(""), Layout(3, TokenFormat::kLlmC));
  many.Finish();
  EXPECT_EQ(ReadFile(At("part.bin")), "");
  EXPECT_EQ(ReadFile(At("part_000000.bin")), TokenHeader(0, TokenWidth::k16));
}

TEST_F(Shards, AnotherWriterGoesOnFromACheckpoint) {
  for (const TokenFormat format : {TokenFormat::kFolio, TokenFormat::kLlmC}) {
    for (const int64_t length : {0, 4, 6}) {
      ShardProgress progress;
      {
        ShardWriter writer(At(""), Layout(length, format));
        writer.Append(Tokens(0, 6));
        progress = writer.Checkpoint();
        int64_t total = progress.tokens;
        for (const TokenShard& shard : progress.finished) total += shard.tokens;
        EXPECT_EQ(total, 6);
        writer.Append(Tokens(90, 99));  // lost: not in a checkpoint
      }
      ShardWriter writer(At(""), Layout(length, format), progress);
      writer.Append(Tokens(6, 11));
      const std::vector<TokenShard> shards = writer.Finish();
      std::vector<std::string> paths;
      for (const TokenShard& shard : shards) paths.push_back(At(shard.file).string());
      const TokenFile file(paths, "all", TokenWidth::k16, 11);
      ASSERT_EQ(file.size(), 11);
      const std::vector<int32_t> ids = ReadTokens(file);
      for (int32_t i = 0; i < 11; ++i) EXPECT_EQ(ids[static_cast<size_t>(i)], i);
      for (size_t i = 0; i < shards.size(); ++i) EXPECT_EQ(file.ShardHash(i), shards[i].hash);
    }
  }
}

TEST_F(Shards, FilesThatLostTokensAreNotGoneOnWith) {
  ShardProgress progress;
  {
    ShardWriter writer(At(""), Layout(4));
    writer.Append(Tokens(0, 6));
    progress = writer.Checkpoint();
  }
  const auto refusal = [&] { return ErrorOf([&] { ShardWriter(At(""), Layout(4), progress); }); };
  PutFile("part_000001.bin", "abc");
  EXPECT_TRUE(Contains(refusal(), "part_000001.bin"));
  std::filesystem::remove(At("part_000001.bin"));
  EXPECT_TRUE(Contains(refusal(), "part_000001.bin"));
  PutFile("part_000001.bin", "abcd");
  PutFile("part_000000.bin", "abcdef");
  EXPECT_TRUE(Contains(refusal(), "part_000000.bin"));
}

TEST_F(Shards, PlacesThatCannotBeWrittenAreRuntimeErrors) {
  ShardWriter writer(At("nowhere"), Layout(0));
  ErrorOf([&] { writer.Append(Tokens(0, 1)); }, ErrorKind::kRuntime);
}

}  // namespace
}  // namespace folio
