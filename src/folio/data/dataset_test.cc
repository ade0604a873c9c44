#include "folio/data/dataset.h"

#include <gtest/gtest.h>

#include "folio/base/hash.h"
#include "folio/data/test_tokens.h"
#include "tests/kit/directory.h"
#include "tests/kit/expect.h"

namespace folio {
namespace {

class Datasets : public InTemporaryDirectory {
 protected:
  void Write(const char* name, const std::vector<int32_t>& ids) {
    WriteTokens(At(name), TokenWidth::k16, ids);
  }
  void WriteBoth() {
    Write(kTrainFile, {1, 2, 3});
    Write(kValFile, {4, 5});
  }
  std::string HashOf(const char* name) { return HashHex(ReadFile(At(name))); }
  DatasetInfo Info() {
    DatasetInfo info;
    info.vocab_size = 6;
    info.tokenizer_kind = "char";
    info.tokenizer_hash = "00ff";
    info.train_tokens = 3;
    info.val_tokens = 2;
    info.special = "allow";
    info.documents = 2;
    info.text_bytes = 17;
    info.sources = {{"a \"b\".txt", 5}};
    info.train_shards = {{kTrainFile, 3, HashOf(kTrainFile)}};
    info.val_shards = {{kValFile, 2, HashOf(kValFile)}};
    return info;
  }
  std::string Refusal() {
    return ErrorOf([&] { Dataset(At("").string()); });
  }
};

TEST_F(Datasets, WhatIsWrittenReadsBack) {
  WriteBoth();
  WriteDatasetInfo(At("").string(), Info());
  const Dataset dataset(At("").string());
  EXPECT_EQ(DescribeDataset("x", dataset.info(), true), DescribeDataset("x", Info(), true));
  EXPECT_TRUE(dataset.Verify());
  EXPECT_EQ(dataset.BareNote(), "");
  EXPECT_EQ(dataset.train().size(), 3);
  EXPECT_EQ(dataset.val().size(), 2);
  EXPECT_EQ(dataset.val().vocab_size(), 6);
}

TEST_F(Datasets, CountsThatDisagreeWithTheFilesAreRefused) {
  WriteBoth();
  DatasetInfo info = Info();
  info.val_tokens = 3;
  WriteDatasetInfo(At("").string(), info);
  EXPECT_TRUE(Contains(Refusal(), "gives 3 tokens, the file has 2"));
  info = Info();
  info.width = TokenWidth::k32;
  WriteDatasetInfo(At("").string(), info);
  EXPECT_TRUE(Contains(Refusal(), "not a file of uint32 tokens"));
}

TEST_F(Datasets, ADescriptionWithWrongMembersIsRefused) {
  WriteBoth();
  WriteDatasetInfo(At("").string(), Info());
  const std::string good = ReadFile(At(kDatasetFile));
  const auto with = [&](const std::string& from, const std::string& to) {
    PutFile(kDatasetFile, Replaced(good, from, to));
    return Refusal();
  };
  EXPECT_TRUE(Contains(with("\"format_version\": 2", "\"format_version\": 3"), "version 3"));
  EXPECT_TRUE(Contains(with("uint16", "uint8"), "\"dtype\""));
  EXPECT_TRUE(Contains(with("\"vocab_size\": 6", "\"vocab_size\": -6"), "\"vocab_size\""));
  EXPECT_TRUE(Contains(with("\"train_tokens\": 3", "\"train_tokens\": 1e30"), "\"train_tokens\""));
  EXPECT_TRUE(Contains(with("\"val_tokens\"", "\"other\""), "\"val_tokens\""));
  EXPECT_TRUE(Contains(with("\"bytes\": 5", "\"bytes\": \"5\""), "source"));
  EXPECT_TRUE(Contains(with("\"file\": \"val.bin\"", "\"file\": \"../val.bin\""), "\"val\""));
  EXPECT_TRUE(Contains(with("\"file\": \"val.bin\"", "\"name\": \"val.bin\""), "\"val\""));
  EXPECT_TRUE(Contains(with("\"tokens\": 3", "\"tokens\": 4"), "gives 4 tokens, the file has 3"));
  EXPECT_TRUE(Contains(with("\"format\": \"folio\"", "\"format\": \"npy\""), "\"format\""));
  EXPECT_TRUE(Contains(with("{", "["), "not valid JSON"));
}

TEST_F(Datasets, VersionOneStillOpens) {
  WriteBoth();
  PutFile(kDatasetFile, R"({"format_version": 1, "dtype": "uint16", "vocab_size": 6,
                          "tokenizer": "char", "tokenizer_hash": "00ff", "train_tokens": 3,
                          "val_tokens": 2, "sources": [{"path": "a.txt", "bytes": 5}]})");
  const Dataset dataset(At("").string());
  EXPECT_EQ(dataset.train().size(), 3);
  EXPECT_EQ(dataset.info().documents, 0);
  EXPECT_FALSE(dataset.Verify());
}

TEST_F(Datasets, SeveralFilesAreOnePart) {
  WriteBoth();
  Write("x.bin", {1, 2});
  Write("y.bin", {3});
  DatasetInfo info = Info();
  info.train_shards = {{"x.bin", 2, HashOf("x.bin")}, {"y.bin", 1, HashOf("y.bin")}};
  WriteDatasetInfo(At("").string(), info);
  const Dataset dataset(At("").string());
  EXPECT_EQ(ReadTokens(dataset.train()), (std::vector<int32_t>{1, 2, 3}));
  EXPECT_TRUE(dataset.Verify());
  Write("y.bin", {2});
  EXPECT_TRUE(Contains(ErrorOf([&] { Dataset(At("").string()).Verify(); }),
                       "y.bin: the tokens have changed since they were prepared"));
}

TEST_F(Datasets, TheFilesOfLlmCAreADataSet) {
  Write("corpus_train_000002.bin", {3});
  Write("corpus_train_000001.bin", {1, 2});
  EXPECT_FALSE(IsDataset(At("").string()));
  PutFile("corpus_val_000000.bin", TokenHeader(1, TokenWidth::k16) + std::string("\4\0", 2));
  Write("retrain.bin", {9});
  const Dataset dataset(At("").string());
  EXPECT_EQ(ReadTokens(dataset.train()), (std::vector<int32_t>{1, 2, 3}));
  EXPECT_EQ(dataset.info().val_tokens, 1);
}

TEST_F(Datasets, ABareNanoGptDirectoryOpensButHasNoTokenizer) {
  EXPECT_TRUE(Contains(Refusal(), ": no data set found"));
  WriteBoth();
  const Dataset dataset(At("").string(), 5);
  EXPECT_EQ(dataset.info().train_tokens, 3);
  EXPECT_EQ(dataset.info().vocab_size, 5);
  EXPECT_TRUE(Contains(dataset.BareNote(), "without a tokenizer", "--ids", "--tokenizer"));
  EXPECT_TRUE(Contains(ErrorOf([&] { dataset.TokenizerPlace(); }), "nanoGPT"));
  ErrorOf([&] { ReadTokens(dataset.val()); });
  PutFile("tokenizer.json", "{}");
  EXPECT_EQ(dataset.TokenizerPlace(), At("").string());
}

TEST_F(Datasets, HeldOutTokensMayBeCalledValid) {
  Write(kTrainFile, {1, 2, 3});
  Write("valid.bin", {4, 5});
  EXPECT_TRUE(IsDataset(At("").string()));
  EXPECT_EQ(ReadTokens(Dataset(At("").string()).val()), (std::vector<int32_t>{4, 5}));
  Write(kValFile, {1});
  EXPECT_EQ(ReadTokens(Dataset(At("").string()).val()), (std::vector<int32_t>{1}));
}

TEST_F(Datasets, AMissingDirectoryIsAnInputError) {
  ErrorOf([&] { Dataset(At("nothing").string()); });
}

}  // namespace
}  // namespace folio
