#include "folio/data/dataset.h"

#include <gtest/gtest.h>

#include "folio/io/file.h"
#include "folio/io/test_files.h"

namespace folio {
namespace {

class Datasets : public InTemporaryDirectory {
 protected:
  void Write(const char* name, const std::vector<int32_t>& ids) {
    TokenWriter writer(At(name).string(), TokenWidth::k16);
    writer.Append(ids);
    writer.Finish();
  }
  void WriteBoth() {
    Write(kTrainFile, {1, 2, 3});
    Write(kValFile, {4, 5});
  }
  DatasetInfo Info() {
    DatasetInfo info;
    info.vocab_size = 6;
    info.tokenizer_kind = "char";
    info.tokenizer_hash = "00ff";
    info.train_tokens = 3;
    info.val_tokens = 2;
    info.sources = {{"a \"b\".txt", 5}};
    return info;
  }
  std::string Refusal() {
    return ErrorOf([&] { Dataset(At("").string()); }, ErrorKind::kInput);
  }
};

TEST_F(Datasets, WhatIsWrittenReadsBack) {
  WriteBoth();
  WriteDatasetInfo(At("").string(), Info());
  const Dataset dataset(At("").string());
  EXPECT_EQ(dataset.info().vocab_size, 6);
  EXPECT_EQ(dataset.info().tokenizer_kind, "char");
  EXPECT_EQ(dataset.info().tokenizer_hash, "00ff");
  ASSERT_EQ(dataset.info().sources.size(), 1u);
  EXPECT_EQ(dataset.info().sources[0].path, "a \"b\".txt");
  EXPECT_EQ(dataset.train().size(), 3);
  EXPECT_EQ(dataset.val().size(), 2);
  EXPECT_EQ(dataset.val().vocab_size(), 6);
}

TEST_F(Datasets, CountsThatDisagreeWithTheFilesAreRefused) {
  WriteBoth();
  DatasetInfo info = Info();
  info.val_tokens = 3;
  WriteDatasetInfo(At("").string(), info);
  EXPECT_NE(Refusal().find("says 3 tokens, the file has 2"), std::string::npos);
  info = Info();
  info.width = TokenWidth::k32;
  WriteDatasetInfo(At("").string(), info);
  EXPECT_NE(Refusal().find("not a file of uint32 tokens"), std::string::npos);
}

TEST_F(Datasets, ADescriptionWithWrongMembersIsRefused) {
  WriteBoth();
  WriteDatasetInfo(At("").string(), Info());
  const std::string good = ReadFile(At(kDatasetFile));
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string bad = good;
    const size_t at = bad.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    WriteFileAtomically(At(kDatasetFile), bad.replace(at, from.size(), to));
    return Refusal();
  };
  EXPECT_NE(with("\"format_version\": 1", "\"format_version\": 2").find("version 2"),
            std::string::npos);
  EXPECT_NE(with("uint16", "uint8").find("\"dtype\""), std::string::npos);
  EXPECT_NE(with("\"vocab_size\": 6", "\"vocab_size\": -6").find("\"vocab_size\""),
            std::string::npos);
  EXPECT_NE(with("\"train_tokens\": 3", "\"train_tokens\": 1e30").find("\"train_tokens\""),
            std::string::npos);
  EXPECT_NE(with("\"val_tokens\"", "\"other\"").find("\"val_tokens\""), std::string::npos);
  EXPECT_NE(with("\"bytes\": 5", "\"bytes\": \"5\"").find("source"), std::string::npos);
  EXPECT_NE(with("{", "[").find("not valid JSON"), std::string::npos);
}

TEST_F(Datasets, ABareNanoGptDirectoryOpensButHasNoTokenizer) {
  EXPECT_NE(Refusal().find("no data set here"), std::string::npos);
  WriteBoth();
  const Dataset dataset(At("").string(), 5);
  EXPECT_EQ(dataset.info().train_tokens, 3);
  EXPECT_EQ(dataset.info().vocab_size, 5);
  EXPECT_NE(ErrorOf([&] { dataset.TokenizerDir(); }, ErrorKind::kInput).find("nanoGPT"),
            std::string::npos);
  std::vector<int32_t> out(2);
  ErrorOf([&] { dataset.val().Read(0, out); }, ErrorKind::kInput);
  WriteFileAtomically(At("tokenizer.json"), "{}");
  EXPECT_EQ(dataset.TokenizerDir(), At("").string());
}

TEST_F(Datasets, AMissingDirectoryIsAnInputError) {
  ErrorOf([&] { Dataset(At("nothing").string()); }, ErrorKind::kInput);
}

}  // namespace
}  // namespace folio
