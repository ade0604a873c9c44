#include "folio/apps/prepare.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "folio/io/file.h"
#include "folio/io/test_files.h"
#include "folio/text/tokenizer.h"

namespace folio {
namespace {

class Prepare : public InTemporaryDirectory {
 protected:
  PrepareOptions Options(const std::string& tokenizer, const std::vector<std::string>& texts) {
    PrepareOptions options;
    for (size_t i = 0; i < texts.size(); ++i) {
      options.files.push_back(At("file" + std::to_string(i)).string());
      WriteFileAtomically(options.files.back(), texts[i]);
    }
    options.tokenizer = tokenizer;
    options.out = At("out").string();
    return options;
  }

  static std::vector<int32_t> All(const TokenFile& file) {
    std::vector<int32_t> ids(static_cast<size_t>(file.size()));
    file.Read(0, ids);
    return ids;
  }
};

TEST_F(Prepare, CharactersAreSplitLikeNanoGpt) {
  const PrepareOptions options = Options("char", {"a\u00E9b", "\u20ACab\U0001F600aab\n"});
  const DatasetInfo info = PrepareDataset(options);
  EXPECT_EQ(info.vocab_size, 6);
  EXPECT_EQ(info.train_tokens, 9);  // int(11 * 0.9)
  EXPECT_EQ(info.val_tokens, 2);
  const Dataset dataset(options.out);
  const auto tokenizer = LoadTokenizer(dataset.TokenizerDir());
  EXPECT_EQ(tokenizer->hash(), dataset.info().tokenizer_hash);
  EXPECT_EQ(tokenizer->Decode(All(dataset.train())), "a\u00E9b\u20ACab\U0001F600aa");
  EXPECT_EQ(tokenizer->Decode(All(dataset.val())), "b\n");
}

TEST_F(Prepare, BytesHaveEndOfTextBetweenFilesAndTakeAnything) {
  PrepareOptions options = Options("bytes", {"ab\xFF", "", "cd"});
  options.val_fraction = 0.5;
  PrepareDataset(options);
  const Dataset dataset(options.out);
  EXPECT_EQ(All(dataset.train()), (std::vector<int32_t>{'a', 'b'}));
  EXPECT_EQ(All(dataset.val()), (std::vector<int32_t>{0xFF, 256, 256, 'c', 'd'}));
  EXPECT_EQ(dataset.info().vocab_size, 257);
}

// Characters of every length lie across the borders of the pieces that are read.
TEST_F(Prepare, LongTextsComeThroughWhole) {
  std::string text;
  while (text.size() < 2500000) text += "x\u00E9\u20AC\U0001F600yz";
  PrepareOptions options = Options("char", {text});
  options.val_fraction = 0;
  int64_t last = 0;
  PrepareDataset(options, [&](int64_t done, int64_t total) {
    EXPECT_GT(done, last);
    last = done;
    EXPECT_EQ(total, static_cast<int64_t>(2 * text.size()));
  });
  EXPECT_EQ(last, static_cast<int64_t>(2 * text.size()));
  const Dataset dataset(options.out);
  EXPECT_EQ(dataset.val().size(), 0);
  EXPECT_EQ(LoadTokenizer(options.out)->Decode(All(dataset.train())), text);
}

TEST_F(Prepare, ManyCharactersNeedUint32) {
  std::string text;
  for (char32_t code = 0x4E00; code < 0x4E00 + 20000; ++code) AppendUtf8(code, text);
  for (char32_t code = 0x20000; code < 0x20000 + 46000; ++code) AppendUtf8(code, text);
  const PrepareOptions options = Options("char", {text});
  const DatasetInfo info = PrepareDataset(options);
  EXPECT_EQ(info.width, TokenWidth::k32);
  const Dataset dataset(options.out);
  EXPECT_EQ(dataset.val().size(), 6600);
  EXPECT_EQ(All(dataset.val()).back(), 65999);
  EXPECT_EQ(LoadTokenizer(options.out)->vocab_size(), 66000);
}

TEST_F(Prepare, FailuresLeaveNothingBehind) {
  PrepareOptions options = Options("char", {"good", "ab\xFFz"});
  const std::string error = ErrorOf([&] { PrepareDataset(options); }, ErrorKind::kInput);
  EXPECT_NE(error.find("file1: not UTF-8"), std::string::npos) << error;
  EXPECT_NE(error.find("offset 2 "), std::string::npos) << error;
  options = Options("char", {"", ""});
  ErrorOf([&] { PrepareDataset(options); }, ErrorKind::kInput);
  options = Options("bytes", {"a"});
  ErrorOf([&] { PrepareDataset(options); }, ErrorKind::kInput);
  options.files.push_back(At("nothing").string());
  ErrorOf([&] { PrepareDataset(options); }, ErrorKind::kInput);
  options.files = {At("").string()};
  ErrorOf([&] { PrepareDataset(options); }, ErrorKind::kInput);
  options = Options("bytes", {"abcdef"});
  EXPECT_THROW(PrepareDataset(options, [](int64_t, int64_t) { throw 1; }), int);
  EXPECT_EQ(Names(), (std::vector<std::string>{"file0", "file1"}));
}

TEST_F(Prepare, WrongOptionsAreUsageErrors) {
  const PrepareOptions good = Options("char", {"abc"});
  PrepareOptions options = good;
  options.files.clear();
  ErrorOf([&] { PrepareDataset(options); }, ErrorKind::kUsage);
  options = good;
  options.out.clear();
  ErrorOf([&] { PrepareDataset(options); }, ErrorKind::kUsage);
  options = good;
  options.tokenizer = "words";
  ErrorOf([&] { PrepareDataset(options); }, ErrorKind::kUsage);
  options = good;
  options.val_fraction = 1;
  ErrorOf([&] { PrepareDataset(options); }, ErrorKind::kUsage);
}

TEST_F(Prepare, OnlyADataSetIsReplacedAndOnlyWhenAsked) {
  PrepareOptions options = Options("char", {"abcabcabcabc"});
  std::filesystem::create_directory(options.out);
  PrepareDataset(options);
  const std::string before = ReadFile(At("out/train.bin"));
  ErrorOf([&] { PrepareDataset(options); }, ErrorKind::kUsage);
  options.tokenizer = "bytes";
  options.overwrite = true;
  PrepareDataset(options);
  EXPECT_NE(ReadFile(At("out/train.bin")), before);
  WriteFileAtomically(At("out/notes.txt"), "mine");
  const std::string error = ErrorOf([&] { PrepareDataset(options); }, ErrorKind::kUsage);
  EXPECT_NE(error.find("notes.txt"), std::string::npos) << error;
  options.out = options.files[0];
  ErrorOf([&] { PrepareDataset(options); }, ErrorKind::kUsage);
}

TEST_F(Prepare, TinyShakespeareIsNanoGpts) {
  const std::string path = FOLIO_SOURCE_DIR "/../shared/data/tinyshakespeare/input.txt";
  if (!std::filesystem::exists(path)) GTEST_SKIP() << "tinyshakespeare is not here";
  PrepareOptions options = Options("char", {});
  options.files = {path};
  const DatasetInfo info = PrepareDataset(options);
  EXPECT_EQ(info.vocab_size, 65);
  EXPECT_EQ(info.train_tokens, 1003854);
  EXPECT_EQ(info.val_tokens, 111540);
  EXPECT_EQ(std::filesystem::file_size(At("out/train.bin")), 2 * 1003854u);
}

}  // namespace
}  // namespace folio
