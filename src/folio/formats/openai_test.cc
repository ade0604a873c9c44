#include "folio/formats/openai.h"

#include <gtest/gtest.h>

#include <string>

#include "folio/formats/model_formats.h"
#include "folio/formats/test_expected.h"
#include "folio/io/file.h"
#include "folio/io/model_dir.h"
#include "folio/text/byte_tokenizer.h"
#include "tests/kit/directory.h"
#include "tests/kit/expect.h"
#include "tests/kit/paths.h"

namespace folio {
namespace {

const std::filesystem::path kOpenAi = Fixture("openai-tiny");

class OpenAi : public InTemporaryDirectory {
 protected:
  OpenAi() { std::filesystem::copy(kOpenAi, At("m")); }

  std::string Refusal() const {
    return ErrorOf([&] { FindModel(At("m")); });
  }
  std::string WithHparams(const std::string& name, const std::string& value) const {
    const std::string text = ReadFile(kOpenAi / "hparams.json");
    const size_t begin = text.find('"' + name + '"') + name.size() + 4;
    const size_t end = text.find_first_of(",\n", begin);
    WriteFileAtomically(At("m/hparams.json"), std::string(text).replace(begin, end - begin, value));
    return Refusal();
  }
};

TEST_F(OpenAi, ACheckpointOfTensorFlowGivesItsLogits) {
  for (const Loading loading : {Loading::kMap, Loading::kRead}) {
    const FoundModel found = FindModel(kOpenAi, loading);
    EXPECT_EQ(found.format, "openai");
    EXPECT_EQ(found.tokenizer, nullptr);
    EXPECT_TRUE(Contains(found.tokenizer_help, "vocab.bpe"));
    EXPECT_TRUE(GivesExpected(found.model, kOpenAi));
  }
}

TEST_F(OpenAi, TheCheckpointFileNamesTheCheckpoint) {
  for (const char* end : {".index", ".data-00000-of-00001"}) {
    std::filesystem::rename(At("m/model.ckpt" + std::string(end)),
                            At("m/model-1000" + std::string(end)));
  }
  EXPECT_TRUE(Contains(Refusal(), "no model found"));
  WriteFileAtomically(At("m/checkpoint"), "model_checkpoint_path: \"/elsewhere/../model-1000\"\n");
  EXPECT_TRUE(GivesExpected(FindModel(At("m")).model, kOpenAi));
}

TEST_F(OpenAi, TheTokenizerBesideItIsItsOwn) {
  ByteTokenizer().Save(At("m").string());
  // It has 256 tokens, the model 13: that they do not fit is seen by who uses both.
  EXPECT_NE(FindModel(At("m")).tokenizer, nullptr);
}

TEST_F(OpenAi, HparamsOfAnotherModelAreRefused) {
  EXPECT_TRUE(Contains(WithHparams("n_layer", "3"), "no tensor \"model/h2/ln_1/g\""));
  EXPECT_TRUE(Contains(WithHparams("n_layer", "1"), "'model/h1/", "not part of the model"));
  EXPECT_TRUE(Contains(WithHparams("n_layer", "65535"), "fewer tensors"));
  EXPECT_TRUE(Contains(WithHparams("n_vocab", "14"), "wrong shape"));
  EXPECT_TRUE(Contains(WithHparams("n_head", "5"), "n_head"));
  EXPECT_TRUE(Contains(WithHparams("n_embd", "-6"), "n_embd"));
  EXPECT_TRUE(Contains(WithHparams("n_ctx", "null"), "n_positions"));
  EXPECT_TRUE(Contains(WithHparams("n_ctx", "\"5\""), "n_positions has the wrong type"));
  WriteFileAtomically(At("m/hparams.json"), "{}");
  EXPECT_TRUE(Contains(Refusal(), "hparams.json: no n_vocab"));
}

}  // namespace
}  // namespace folio
