#include "folio/data/token_file.h"

#include <gtest/gtest.h>

#include <random>

#include "folio/base/hash.h"
#include "folio/data/dataset.h"
#include "folio/data/test_tokens.h"
#include "tests/kit/directory.h"
#include "tests/kit/expect.h"

namespace folio {
namespace {

// llm.c's files, written according to its documentation: int32 words, little-endian.
std::string Words32(const std::vector<uint32_t>& words) {
  std::string bytes;
  for (const uint32_t word : words) {
    for (int shift = 0; shift < 32; shift += 8) bytes += static_cast<char>(word >> shift & 0xFF);
  }
  return bytes;
}

std::string Header(uint32_t magic, uint32_t version, uint32_t tokens) {
  std::vector<uint32_t> words = {magic, version, tokens};
  words.resize(256);
  return Words32(words);
}

constexpr uint32_t kGpt2 = 20240520, kLlama3 = 20240801;

class LlmCFiles : public InTemporaryDirectory {
 protected:
  // A directory with the file as both of its parts.
  Dataset Open(const std::string& bytes) {
    PutFile("a_train_000001.bin", bytes);
    PutFile("a_val_000000.bin", bytes);
    return Dataset(At("").string());
  }
  std::string Refusal(const std::string& bytes) {
    return ErrorAndHelp([&] { Open(bytes); });
  }
};

TEST_F(LlmCFiles, TheVersionSaysHowWideTokensAre) {
  const Dataset narrow = Open(Header(kGpt2, 1, 3) + std::string("\x01\0\x50\xC4\x03\0", 6));
  EXPECT_EQ(ReadTokens(narrow.train()), (std::vector<int32_t>{1, 50256, 3}));
  EXPECT_EQ(narrow.info().width, TokenWidth::k16);
  for (const uint32_t magic : {kLlama3, kGpt2}) {
    const Dataset wide = Open(Header(magic, 7, 2) + Words32({128000, 9}));
    EXPECT_EQ(ReadTokens(wide.val()), (std::vector<int32_t>{128000, 9}));
    EXPECT_EQ(wide.info().width, TokenWidth::k32);
    EXPECT_EQ(wide.info().format, TokenFormat::kLlmC);
    EXPECT_TRUE(Contains(wide.BareNote(), "uint32, from llm.c's header"));
  }
}

TEST_F(LlmCFiles, WhatTheHeaderDoesNotFitIsRefused) {
  const std::string tokens = Words32({5, 6});
  for (const uint32_t version : {0u, 2u, 3u, 8u, 0xFFFFFFFFu}) {
    const int32_t shown = static_cast<int32_t>(version);
    EXPECT_TRUE(Contains(Refusal(Header(kGpt2, version, 2) + tokens),
                         "the header has version " + std::to_string(shown), "1 (uint16)"));
  }
  EXPECT_TRUE(Contains(Refusal(Header(kLlama3, 7, 4) + tokens), "4 tokens of 4 bytes, 8 bytes"));
  EXPECT_TRUE(Contains(Refusal(Header(kGpt2, 1, 2) + tokens), "2 tokens of 2 bytes, 8 bytes"));
  EXPECT_TRUE(Contains(Refusal(Header(kGpt2, 1, 0x80000004) + tokens), "wrong length"));
  EXPECT_TRUE(Contains(Refusal(Header(20240522, 1, 1) + tokens), "evaluation"));
  const std::string whole = Header(kLlama3, 7, 2) + tokens;
  for (const size_t length : {4, 100, 1023, 1024, 1025, 1031}) {
    EXPECT_TRUE(Contains(Refusal(whole.substr(0, length)), "wrong length")) << length;
  }
  PutFile("a_train_000001.bin", whole);
  PutFile("a_val_000000.bin", Header(kGpt2, 1, 4) + tokens);
  EXPECT_TRUE(Contains(ErrorOf([&] { Dataset(At("").string()); }), "a_val_000000.bin",
                       "the header gives the type uint16"));
}

TEST(TokenHeaders, AreLlmCs) {
  EXPECT_EQ(TokenHeader(70000, TokenWidth::k16), Header(kGpt2, 1, 70000));
  EXPECT_EQ(TokenHeader(5, TokenWidth::k32), Header(kLlama3, 7, 5));
}

class BareDirectories : public InTemporaryDirectory {
 protected:
  // Expects the tokens to be read back, written with this width, and the guessed width.
  void ExpectTaken(const std::vector<int32_t>& ids, TokenWidth written) {
    WriteTokens(At("train.bin"), written, ids);
    WriteTokens(At("val.bin"), written, std::span(ids).first(ids.size() / 3));
    const Dataset dataset(At("").string());
    ASSERT_EQ(dataset.info().width, written) << ids.size() << " from " << ids[0];
    EXPECT_EQ(ReadTokens(dataset.train()), ids);
    EXPECT_TRUE(Contains(dataset.BareNote(), "The token type is ", TokenWidthName(written)));
  }
  static std::vector<int32_t> Ids(size_t count, size_t vocab, uint64_t seed) {
    std::mt19937_64 rng(seed);
    std::vector<int32_t> ids(count);
    for (int32_t& id : ids) id = static_cast<int32_t>(rng() % vocab);
    return ids;
  }
};

TEST_F(BareDirectories, EveryWidthIsKnownByItsBytes) {
  for (const size_t vocab : {2, 65, 257, 50257, 65536}) {
    for (const size_t count : {30, 1001, 100003}) {
      for (const TokenWidth width : {TokenWidth::k16, TokenWidth::k32, TokenWidth::k64}) {
        ExpectTaken(Ids(count, vocab, count), width);
      }
    }
  }
  for (const size_t vocab : {100277, 128256, 200019, 1000000}) {
    ExpectTaken(Ids(1001, vocab, vocab), TokenWidth::k32);
    ExpectTaken(Ids(1001, vocab, vocab), TokenWidth::k64);
  }
}

TEST_F(BareDirectories, ZerosAreUint16AndLengthsDecide) {
  const auto taken = [&](const std::string& train, const std::string& val) {
    PutFile("train.bin", train);
    PutFile("val.bin", val);
    return Dataset(At("").string()).info().width;
  };
  EXPECT_EQ(taken(std::string(80, '\0'), std::string(8, '\0')), TokenWidth::k16);
  EXPECT_EQ(taken("", ""), TokenWidth::k16);
  // Both parts have one width: one may exclude what the other allows.
  const std::string wide("\x05\0\0\0\0\0\0\0", 8);
  EXPECT_EQ(taken(wide + wide, wide), TokenWidth::k64);
  EXPECT_EQ(taken(wide + wide, wide.substr(0, 4)), TokenWidth::k32);
  EXPECT_EQ(taken(wide + wide, wide.substr(0, 2)), TokenWidth::k16);
  EXPECT_EQ(taken(wide + wide, std::string("\x05\0\x06\0", 4)), TokenWidth::k16);
}

TEST_F(BareDirectories, SixtyFourBitsThatAreNoIdsAreNamed) {
  std::string ids;
  for (int i = 0; i < 100000; ++i) ids += std::string("\x05\0\0\0\0\0\0\0", 8);
  ids[8 * 30000 + 5] = 1;  // where the guess does not look
  PutFile("train.bin", ids);
  PutFile("val.bin", ids.substr(0, 80));
  const Dataset dataset(At("").string());
  EXPECT_EQ(dataset.info().width, TokenWidth::k64);
  EXPECT_TRUE(Contains(ErrorOf([&] { dataset.train().Validate(0); }), "position 30000"));
}

TEST_F(BareDirectories, AnArrayOfNumPyIsRefused) {
  for (const char* name : {"train.bin", "val.bin"}) {
    PutFile(name, std::string("\x93NUMPY\x01\0", 8) + std::string(120, ' '));
  }
  EXPECT_TRUE(Contains(ErrorAndHelp([&] { Dataset(At("").string()); }), ".npy", "tofile"));
}

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
    EXPECT_EQ(ReadTokens(file), ids);
    EXPECT_EQ(ReadTokens(file, 699996, 5), std::vector<int32_t>(ids.end() - 5, ids.end()));
  }
}

TEST_F(TokenFiles, TokensOutsideTheVocabularyAreNamed) {
  const std::string path = Write(TokenWidth::k16, {1, 2, 65, 3});
  const TokenFile file(path, TokenWidth::k16, 65);
  ReadTokens(file, 0, 2);
  EXPECT_TRUE(
      Contains(ErrorOf([&] { ReadTokens(file, 1, 2); }), "token 65 is outside", "position 2"));
  const TokenFile free(path, TokenWidth::k16, 0);
  ReadTokens(free, 1, 2);
  free.Validate(66);
  ErrorOf([&] { free.Validate(65); });
}

TEST_F(TokenFiles, IdsAboveInt32AreRefusedEvenWithoutAVocabulary) {
  PutFile("t.bin", std::string_view("\x00\x00\x00\x80", 4));
  const TokenFile file(At("t.bin").string(), TokenWidth::k32, 0);
  ErrorOf([&] { ReadTokens(file); });
}

TEST_F(TokenFiles, ATornFileIsRefused) {
  PutFile("t.bin", "abc");
  ErrorOf([&] { TokenFile(At("t.bin").string(), TokenWidth::k16, 0); });
  PutFile("t.bin", "abcdef");
  ErrorOf([&] { TokenFile(At("t.bin").string(), TokenWidth::k32, 0); });
}

TEST_F(TokenFiles, ReadingPastTheEndIsRefused) {
  const TokenFile file(Write(TokenWidth::k16, {1, 2, 3}), TokenWidth::k16, 0);
  EXPECT_TRUE(Contains(ErrorOf([&] { ReadTokens(file, 2, 2); }, ErrorKind::kUsage),
                       ": tokens 2 to 3 are out of range"));
  EXPECT_TRUE(Contains(ErrorOf([&] { ReadTokens(file, -1, 2); }, ErrorKind::kUsage),
                       ": tokens -1 to 0 are out of range"));
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
      const std::vector<int32_t> out = ReadTokens(file, begin, count);
      for (int64_t i = 0; i < count; ++i) EXPECT_EQ(out[static_cast<size_t>(i)], begin + i);
    }
  }
  EXPECT_TRUE(Contains(ErrorOf([&] { ReadTokens(file, 3, 5); }), "all of it: token 7 is outside",
                       "position 7"));
  EXPECT_TRUE(Contains(ErrorOf([&] { ReadTokens(file, 4, 5); }, ErrorKind::kUsage),
                       ": tokens 4 to 8 are out of range"));
}

TEST_F(TokenFiles, FingerprintsAreOfTheTokensAlone) {
  const auto fingerprint = [&](const std::vector<std::vector<int32_t>>& parts, TokenWidth width) {
    std::vector<std::string> paths;
    for (const std::vector<int32_t>& part : parts) {
      paths.push_back(At("p" + std::to_string(paths.size())).string());
      WriteTokens(paths.back(), width, part);
    }
    return TokenFile(paths, "all", width, 0).Fingerprint();
  };
  const std::string one = fingerprint({{1, 2, 3}}, TokenWidth::k16);
  EXPECT_EQ(fingerprint({{1}, {2, 3}}, TokenWidth::k32), one);
  EXPECT_NE(fingerprint({{1, 2, 4}}, TokenWidth::k16), one);
  EXPECT_NE(fingerprint({{1, 2}}, TokenWidth::k16), one);
  // Larger than all pieces: first and last tokens count.
  std::vector<int32_t> many((size_t{1} << 24) + 5, 7);
  const std::string large = fingerprint({many}, TokenWidth::k16);
  for (const size_t at : {size_t{0}, many.size() - 1}) {
    many[at] = 8;
    EXPECT_NE(fingerprint({many}, TokenWidth::k16), large) << at;
    many[at] = 7;
  }
}

TEST_F(TokenFiles, TheHeaderOfLlmCIsNoToken) {
  const std::string tokens = ReadFile(Write(TokenWidth::k16, {7, 50256, 9}));
  const std::string path = At("t.bin").string();
  std::string whole = TokenHeader(3, TokenWidth::k16) + tokens;
  WriteFileAtomically(path, whole);
  const TokenFile file(path, TokenWidth::k16, 50257);
  ASSERT_EQ(file.size(), 3);
  EXPECT_EQ(ReadTokens(file), (std::vector<int32_t>{7, 50256, 9}));
  EXPECT_EQ(file.ShardHash(0), HashHex(tokens));
  WriteFileAtomically(path, whole + "xy");
  EXPECT_TRUE(Contains(ErrorOf([&] { TokenFile(path, TokenWidth::k16, 0); }), "wrong length"));
  // Tokens that begin like a header and continue differently are tokens.
  whole[1023] = 1;
  WriteFileAtomically(path, whole);
  EXPECT_EQ(TokenFile(path, TokenWidth::k16, 0).size(), 515);
}

TEST(TokenBytes, IdsThatDoNotFitAreRefused) {
  std::vector<std::byte> out;
  const std::vector<int32_t> wide = {1, 65536}, negative = {-1, 1};
  for (const auto& [ids, width] : {std::pair(wide, TokenWidth::k16),
                                   {negative, TokenWidth::k16},
                                   {negative, TokenWidth::k32}}) {
    const auto append = [&out, &ids = ids, width = width] { AppendTokenBytes(ids, width, out); };
    EXPECT_TRUE(Contains(ErrorOf(append, ErrorKind::kUsage), "does not fit"));
  }
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
  EXPECT_EQ(ReadTokens(file, file.size() - 5), std::vector<int32_t>(5, 0));
}

}  // namespace

}  // namespace folio
