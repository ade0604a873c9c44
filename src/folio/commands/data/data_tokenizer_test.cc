#include "folio/corpus/data_tokenizer.h"

#include <gtest/gtest.h>

#include "folio/corpus/prepare.h"
#include "folio/io/file.h"
#include "folio/text/byte_tokenizer.h"
#include "folio/text/char_tokenizer.h"
#include "tests/kit/directory.h"
#include "tests/kit/expect.h"
#include "tests/kit/program.h"

namespace folio {
namespace {

class DataTokenizer : public InTemporaryDirectory {
 protected:
  void SetUp() override {
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
  EXPECT_TRUE(Contains(ErrorOf([&] { LoadDataTokenizer(data); }),
                       "not the tokenizer that made the data", data.info().tokenizer_hash));
  std::filesystem::remove(At("data/tokenizer.json"));
  ErrorOf([&] { LoadDataTokenizer(data); });
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
  const std::string error = ErrorOf([&] { RequireSameTokenizer(At("model"), data, *tokenizer); });
  EXPECT_TRUE(Contains(error, "another tokenizer than the model", tokenizer->hash(),
                       ByteTokenizer().hash()));
}

TEST_F(DataTokenizer, ARunIsNotResumedWithDataOfAnother) {
  WriteFileAtomically(At("other"), "cadabra brad bad card");
  for (const char* text : {"text", "other"}) {
    std::string letters;
    for (int i = 0; i < 20; ++i) letters += ReadFile(At(text));
    WriteFileAtomically(At(text), letters);
    PrepareDataset({.files = {At(text).string()},
                    .tokenizer = "char",
                    .out = At(std::string(text) + ".data").string()});
  }
  const std::string rest = " --out " + At("run").string() +
                           " --max-steps 1 --batch-size 1 --set model.n_layer=1 model.n_head=1 "
                           "model.n_embd=8 model.n_positions=8 model.vocab_size=8 --data ";
  const ProgramRun first = RunFolio("train" + rest + At("text.data").string());
  ASSERT_EQ(first.status, 0) << first.err;
  ExpectError(3, "train --resume" + rest + At("other.data").string(),
              "the data has another tokenizer than the model");
}

}  // namespace
}  // namespace folio
