#include "folio/apps/data_tokenizer.h"

#include <gtest/gtest.h>

#include "folio/apps/prepare.h"
#include "folio/io/file.h"
#include "folio/io/test_files.h"
#include "folio/text/byte_tokenizer.h"
#include "folio/text/char_tokenizer.h"

namespace folio {
namespace {

class DataTokenizer : public InTemporaryDirectory {
 protected:
  void SetUp() override {
    InTemporaryDirectory::SetUp();
    WriteFileAtomically(At("text"), "abracadabra");
    PrepareDataset(
        {.files = {At("text").string()}, .tokenizer = "char", .out = At("data").string()});
    std::filesystem::create_directory(At("model"));
  }
};

TEST_F(DataTokenizer, IsTheOneThatMadeTheTokens) {
  const Dataset data(At("data").string());
  EXPECT_EQ(LoadDataTokenizer(data)->hash(), data.info().tokenizer_hash);
  CharTokenizer({U'x', U'y'}).Save(At("data").string());
  EXPECT_TRUE(Contains(ErrorOf([&] { LoadDataTokenizer(data); }, ErrorKind::kInput),
                       "not the tokenizer that made the data", data.info().tokenizer_hash));
  std::filesystem::remove(At("data/tokenizer.json"));
  ErrorOf([&] { LoadDataTokenizer(data); }, ErrorKind::kInput);
  std::filesystem::remove(At("data/dataset.json"));
  EXPECT_EQ(LoadDataTokenizer(Dataset(At("data").string())), nullptr);
}

TEST_F(DataTokenizer, MustBeTheModels) {
  const Dataset data(At("data").string());
  const auto tokenizer = LoadDataTokenizer(data);
  RequireSameTokenizer(At("model"), data, *tokenizer);  // that came without one
  tokenizer->Save(At("model").string());
  RequireSameTokenizer(At("model"), data, *tokenizer);
  ByteTokenizer().Save(At("model").string());
  const std::string error =
      ErrorOf([&] { RequireSameTokenizer(At("model"), data, *tokenizer); }, ErrorKind::kInput);
  EXPECT_TRUE(Contains(error, "another tokenizer than the model", tokenizer->hash(),
                       ByteTokenizer().hash()));
}

}  // namespace
}  // namespace folio
