#include "folio/formats/convert_model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "folio/io/file.h"
#include "folio/io/gguf.h"
#include "folio/io/model_dir.h"
#include "folio/model/checkpoint.h"
#include "folio/model/test_models.h"
#include "folio/model/transformer.h"
#include "folio/text/byte_tokenizer.h"
#include "tests/kit/directory.h"
#include "tests/kit/expect.h"
#include "tests/kit/paths.h"

namespace folio {
namespace {

class Convert : public InTemporaryDirectory {
 protected:
  Convert() {
    GptConfig config = TinyConfig();
    config.vocab_size = 257;
    config.n_embd = 32;
    config.bos_token_id = config.eos_token_id = ByteTokenizer::kEndOfText;
    const GptWeights weights(config);
    Scatter(weights, 1);
    std::filesystem::create_directories(At("hf"));
    SaveModel(At("hf"), weights);
    ByteTokenizer().Save(At("hf").string());
  }
  Conversion To(std::string_view name, std::string_view format, Dtype dtype = Dtype::kF32) const {
    return {.from = At("hf"), .to = At(name), .format = format, .dtype = dtype};
  }

  static void Nothing(int, std::string_view) {}
};

TEST_F(Convert, ThroughGgufAndBackEveryFileIsTheSame) {
  const Converted there = ConvertModel(To("m.gguf", "gguf"), Nothing);
  EXPECT_EQ(there.from_format, "hf");
  EXPECT_EQ(there.bytes, std::filesystem::file_size(At("m.gguf")));
  EXPECT_EQ(there.tensors, 28);
  EXPECT_EQ(there.prompt, 5);
  EXPECT_EQ(there.logit_difference, 0);
  EXPECT_GT(there.largest_logit, 0);
  Conversion back = To("back", "hf");
  back.from = At("m.gguf");
  EXPECT_EQ(ConvertModel(back, Nothing).from_format, "gguf");
  EXPECT_EQ(FilesBelow(At("back")), FilesBelow(At("hf")));
}

TEST_F(Convert, NarrowerDtypesAreComparedAndTheirLogitsToldApart) {
  double before = 0;
  for (const Dtype dtype : {Dtype::kF16, Dtype::kBF16, Dtype::kQ8_0, Dtype::kQ4_0}) {
    const Converted made = ConvertModel(To(DtypeName(dtype), "gguf", dtype), Nothing);
    EXPECT_GT(made.logit_difference, before) << DtypeName(dtype);
    before = made.logit_difference;
  }
}

TEST_F(Convert, WhatAFormatDoesNotHoldIsAUsageError) {
  // nanoGPT has no bytes.
  for (const char* file : {"tokenizer.json", "tokenizer_config.json"}) {
    std::filesystem::remove(At("hf") / file);
  }
  int refused = 0;
  for (const ModelFormat& format : ModelFormats()) {
    if (format.save == nullptr) continue;
    for (const Dtype dtype : SavedDtypes()) {
      const Conversion conversion = To("m", format.name, dtype);
      if (std::ranges::count(format.dtypes, dtype) > 0) {
        EXPECT_NO_THROW(ConvertModel(conversion, Nothing)) << format.name << DtypeName(dtype);
        std::filesystem::remove_all(At("m"));
      } else {
        ++refused;
        EXPECT_TRUE(
            Contains(ErrorAndHelp([&] { ConvertModel(conversion, Nothing); }, ErrorKind::kUsage),
                     std::string(format.name), NameOfSaved(dtype), "it holds f32", "gguf"));
      }
      EXPECT_EQ(Names(), (Strings{"hf"})) << format.name << DtypeName(dtype);
    }
  }
  EXPECT_GE(refused, 5);
  const GptWeights weights(TinyConfig());
  EXPECT_TRUE(Contains(
      ErrorOf([&] { SaveModel(At("hf"), weights, {.dtype = Dtype::kQ8_0}); }, ErrorKind::kUsage),
      "Q8_0"));
}

// A reader of llm.c's files knows which tokenizer a vocabulary of that size has.
TEST_F(Convert, AModelWithoutATokenizerMayBeReadBackWithOne) {
  const std::string merges = TestData("gpt2/vocab.bpe"), ids = TestData("gpt2/encoder.json");
  if (merges.empty() || ids.empty()) GTEST_SKIP() << "GPT-2's tokenizer is not here";
  setenv("FOLIO_HOME", At("home").c_str(), 1);
  std::filesystem::create_directories(At("home/tokenizers/gpt2"));
  std::filesystem::copy_file(merges, At("home/tokenizers/gpt2/vocab.bpe"));
  std::filesystem::copy_file(ids, At("home/tokenizers/gpt2/encoder.json"));
  GptConfig config = TinyConfig();
  config.n_layer = 1;
  for (const int64_t tokens : {50257, 50304}) {
    config.vocab_size = tokens;
    const GptWeights weights(config);
    Scatter(weights, 1);
    std::filesystem::remove_all(At("hf"));
    std::filesystem::create_directories(At("hf"));
    SaveModel(At("hf"), weights);
    std::filesystem::remove(At("m.bin"));
    EXPECT_EQ(ConvertModel(To("m.bin", "llmc"), Nothing).logit_difference, 0);
    EXPECT_NE(FindModel(At("m.bin")).tokenizer, nullptr);
    // With tokens of its own beside GPT-2's it has them again.
    if (tokens == 50257) continue;
    const auto more = LoadTokenizer(At("home/tokenizers/gpt2").string())
                          ->WithSpecials(std::vector<std::string>{"<|user|>"});
    more->Save(At("hf").string());
    EXPECT_EQ(ConvertModel(To("n.bin", "llmc"), Nothing).logit_difference, 0);
    EXPECT_EQ(FindModel(At("n.bin")).tokenizer->hash(), more->hash());
  }
  unsetenv("FOLIO_HOME");
}

TEST_F(Convert, AHeadThatRepeatsTheEmbeddingsIsTheSameModel) {
  GptConfig config = TinyConfig();
  config.tie_word_embeddings = false;
  const GptWeights weights(config);
  Scatter(weights, 1);
  const GptParams& params = weights.params();
  std::copy_n(params.wte.data<float>(), params.wte.count(), params.lm_head_weight.data<float>());
  std::filesystem::create_directories(At("repeated"));
  SaveModel(At("repeated"), weights);
  Conversion conversion = To("m.gguf", "gguf");
  conversion.from = At("repeated");
  EXPECT_EQ(ConvertModel(conversion, Nothing).logit_difference, 0);
}

TEST_F(Convert, AResultThatDiffersIsRemoved) {
  // Each tensor spoilt in turn, between writing and reading back.
  ConvertModel(To("whole", "gguf", Dtype::kQ8_0), Nothing);
  const GgufFile whole(At("whole"));
  for (const TensorInfo& info : whole.tensors()) {
    const auto spoil = [&](int step, std::string_view) {
      if (step != 1) return;
      std::string bytes = ReadFile(At("m.gguf"));
      // Both files are as long but for the model's name, and data is aligned.
      const std::byte* end = whole.tensors().back().data + whole.tensors().back().bytes;
      const auto behind = static_cast<size_t>(end - (info.data + info.bytes)) + 1;
      const size_t padding = bytes.size() - bytes.size() / 32 * 32;
      ASSERT_EQ(padding, 0u);
      const size_t last = (static_cast<size_t>(whole.tensors().back().bytes) + 31) / 32 * 32 -
                          whole.tensors().back().bytes;
      char& byte = bytes[bytes.size() - last - behind];
      byte = static_cast<char>(byte ^ 1);
      WriteFileAtomically(At("m.gguf"), bytes);
    };
    // A head that is not the embeddings any more is another model.
    EXPECT_TRUE(
        Contains(ErrorAndHelp([&] { ConvertModel(To("m.gguf", "gguf", Dtype::kQ8_0), spoil); },
                              ErrorKind::kRuntime),
                 "is not the one that was read", "it was removed"))
        << info.name;
    EXPECT_FALSE(std::filesystem::exists(At("m.gguf")));
  }
}

TEST_F(Convert, WhoStopsItLeavesNothing) {
  struct Enough {};
  for (const int last : {0, 1, 2, 3}) {
    EXPECT_THROW(ConvertModel(To("m.gguf", "gguf"),
                              [&](int step, std::string_view) {
                                if (step == last) throw Enough{};
                              }),
                 Enough);
    EXPECT_EQ(Names(), (Strings{"hf"})) << last;
  }
}

TEST_F(Convert, ASlashBehindTheNameIsNoPartOfIt) {
  for (const char* format : {"gguf", "llmc", "hf"}) {
    const std::string name = std::string("as-") + format;
    ConvertModel(To(name + "/", format), Nothing);
    EXPECT_EQ(FindModel(At(name)).format, format);
  }
  Conversion nowhere = To("x", "gguf");
  nowhere.to = "";
  EXPECT_TRUE(Contains(ErrorOf([&] { ConvertModel(nowhere, Nothing); }, ErrorKind::kUsage),
                       "no place to write"));
}

TEST_F(Convert, NothingIsReplacedUnasked) {
  ConvertModel(To("m.gguf", "gguf"), Nothing);
  ConvertModel(To("dir", "hf"), Nothing);
  for (Conversion conversion : {To("m.gguf", "gguf"), To("dir", "hf")}) {
    EXPECT_TRUE(
        Contains(ErrorAndHelp([&] { ConvertModel(conversion, Nothing); }, ErrorKind::kUsage),
                 "--overwrite"));
    conversion.overwrite = true;
    EXPECT_NO_THROW(ConvertModel(conversion, Nothing));
  }
  Conversion itself = To("hf", "hf");
  itself.overwrite = true;
  EXPECT_TRUE(Contains(ErrorOf([&] { ConvertModel(itself, Nothing); }, ErrorKind::kUsage),
                       "converted to itself"));
  std::filesystem::create_directories(At("mine"));
  WriteFileAtomically(At("mine/thesis.tex"), "all of it");
  Conversion mine = To("mine", "hf");
  mine.overwrite = true;
  EXPECT_TRUE(
      Contains(ErrorOf([&] { ConvertModel(mine, Nothing); }, ErrorKind::kUsage), "thesis.tex"));
  EXPECT_TRUE(Contains(ErrorOf([&] { ConvertModel(To("x", "zip"), Nothing); }, ErrorKind::kUsage),
                       "gguf", "hf"));
}

}  // namespace
}  // namespace folio
