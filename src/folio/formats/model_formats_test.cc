#include "folio/formats/model_formats.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "folio/backend/backend.h"
#include "folio/formats/convert_model.h"
#include "folio/formats/test_expected.h"
#include "folio/io/file.h"
#include "folio/io/model_dir.h"
#include "folio/io/safetensors.h"
#include "folio/model/checkpoint.h"
#include "folio/model/gpt.h"
#include "folio/model/test_models.h"
#include "folio/model/transformer.h"
#include "folio/text/byte_tokenizer.h"
#include "tests/kit/directory.h"
#include "tests/kit/expect.h"
#include "tests/kit/near.h"
#include "tests/kit/paths.h"

namespace folio {
namespace {

class Formats : public InTemporaryDirectory {
 protected:
  Formats() : weights_(TinyConfig()) { Scatter(weights_, 1); }

  GptWeights weights_;
};

TEST_F(Formats, AModelOfOursIsFoundInItsDirectoryAndInItsRun) {
  std::filesystem::create_directories(At("run/best"));
  SaveModel(At("run/best"), weights_);
  for (const char* name : {"run", "run/best"}) {
    const FoundModel found = FindModel(At(name));
    EXPECT_EQ(found.format, "hf");
    EXPECT_EQ(found.path, At("run/best"));
    EXPECT_EQ(found.tokenizer, nullptr);
    EXPECT_TRUE(SameNumbers(*ReadWeights(found.model), weights_));
  }
}

TEST_F(Formats, WhatLiesThereAsItIsNeededIsNotCopied) {
  SaveModel(At(""), weights_);
  for (const Loading loading : {Loading::kMap, Loading::kRead}) {
    const FoundModel found = FindModel(At(""), loading);
    const auto mapped = MapWeights(found.model);
    EXPECT_TRUE(SameNumbers(*mapped, weights_));
    for (size_t i = 0; i < mapped->tensors().size(); ++i) {
      EXPECT_EQ(mapped->tensors()[i].raw(), found.model.params[i].from.data);
    }
  }
}

TEST_F(Formats, MappedWeightsOutliveWhatTheyWereFoundWith) {
  SaveModel(At(""), weights_);
  std::unique_ptr<GptWeights> mapped;
  {
    const FoundModel found = FindModel(At(""));
    mapped = MapWeights(found.model);
  }
  std::filesystem::remove(At(kWeightsFile));
  EXPECT_TRUE(SameNumbers(*mapped, weights_));
}

TEST_F(Formats, AMatrixThatLiesTheOtherWayRoundIsTurned) {
  SaveModel(At(""), weights_);
  FoundModel found = FindModel(At(""));
  // wte, read as (C,V) turned round.
  StoredParam& wte = found.model.params[0];
  const int64_t V = wte.from.shape[0], C = wte.from.shape[1];
  wte.from.shape = {C, V};
  wte.transposed = true;
  const auto mapped = MapWeights(found.model), read = ReadWeights(found.model);
  EXPECT_TRUE(SameNumbers(*mapped, *read));
  const float* from = weights_.params().wte.data<float>();
  const float* to = read->params().wte.data<float>();
  for (int64_t v = 0; v < V; ++v) {
    for (int64_t c = 0; c < C; ++c) EXPECT_EQ(to[v * C + c], from[c * V + v]);
  }
  // Errors name the place in the file.
  weights_.params().wte.data<float>()[2 * V + 1] = NAN;
  SaveModel(At(""), weights_);
  StoredModel damaged = FindModel(At("")).model;
  damaged.params[0].from.shape = {C, V};
  damaged.params[0].transposed = true;
  for (const auto load : {+[](const StoredModel& m) { return ReadWeights(m); },
                          +[](const StoredModel& m) { return MapWeights(m); }}) {
    EXPECT_TRUE(Contains(ErrorOf([&] { load(damaged); }, ErrorKind::kInput), "[2,1] is nan"));
  }
}

TEST_F(Formats, NoModelIsAnErrorThatSaysWhatToGive) {
  EXPECT_TRUE(Contains(ErrorAndHelp([&] { FindModel(At("")); }), "config.json", "RUN/best"));
  EXPECT_TRUE(Contains(ErrorAndHelp([&] { FindModel(At("nowhere")); }), "nowhere", "spelling"));
  WriteFileAtomically(At("text"), "no model");
  EXPECT_TRUE(Contains(ErrorAndHelp([&] { FindModel(At("text")); }), "text: no model here"));
}

// Models that transformers saved, with its logits (tests/fixtures/transformers/README.md).
class SavedByTransformers : public testing::TestWithParam<const char*> {};

TEST_P(SavedByTransformers, GivesTheSameLogits) {
  const std::filesystem::path dir = Fixture("transformers") / GetParam();
  const SafetensorsFile expected(dir / "expected.safetensors");
  const std::vector<float> logits = expected.ReadAs<float>("logits");
  for (const Loading loading : {Loading::kMap, Loading::kRead}) {
    const FoundModel found = FindModel(dir, loading);
    EXPECT_EQ(found.format, "hf");
    for (const char* backend : {"cpu", "reference"}) {
      const auto weights = MapWeights(found.model);
      const std::vector<float> ours = LogitsOf(*weights, expected.ReadAs<int32_t>("ids"), backend);
      ExpectNear(std::vector<double>(ours.begin(), ours.end()),
                 std::vector<double>(logits.begin(), logits.end()),
                 kFloat32Model * Largest(logits));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(HfDirectory, SavedByTransformers,
                         testing::Values("scaled", "sharded", "old"),
                         [](const auto& test) { return std::string(test.param); });

class HfDirectory : public InTemporaryDirectory {};

const std::filesystem::path kTheirs = Fixture("transformers");

bool OpensAs(const std::filesystem::path& path, const char* name) {
  const auto ours = MapWeights(FindModel(path).model);
  const auto theirs = MapWeights(FindModel(kTheirs / name).model);
  return std::ranges::equal(ours->tensors(), theirs->tensors(), [](const auto& a, const auto& b) {
    return a.bytes() == b.bytes() && std::memcmp(a.raw(), b.raw(), a.bytes()) == 0;
  });
}

// "num_hidden_layers" and the like stand for GPT-2's own names, as in transformers' GPT2Config.
TEST_F(HfDirectory, OtherNamesOfSizesAreKnown) {
  std::filesystem::copy(kTheirs / "scaled", At("model"));
  std::string config = ReadFile(At("model/config.json"));
  for (const auto& [own, other] : {std::pair{"\"n_layer\"", "\"num_hidden_layers\""},
                                   {"\"n_head\"", "\"num_attention_heads\""},
                                   {"\"n_embd\"", "\"hidden_size\""},
                                   {"\"n_positions\"", "\"max_position_embeddings\""}}) {
    ASSERT_NE(config.find(own), config.npos);
    config.replace(config.find(own), std::string_view(own).size(), other);
  }
  WriteFileAtomically(At("model/config.json"), config);
  EXPECT_TRUE(OpensAs(At("model"), "scaled"));
}

TEST_F(HfDirectory, VariantsAreReadWhereThereIsNothingElse) {
  std::filesystem::copy(kTheirs / "old", At("one"));
  std::filesystem::rename(At("one/model.safetensors"), At("one/model.fp16.safetensors"));
  EXPECT_TRUE(OpensAs(At("one"), "old"));
  std::filesystem::copy_file(At("one/model.fp16.safetensors"), At("one/model.bf16.safetensors"));
  EXPECT_TRUE(Contains(ErrorAndHelp([&] { FindModel(At("one")); }), "several variants",
                       "model.bf16.safetensors, model.fp16.safetensors",
                       (At("one") / "model.bf16.safetensors").string()));
  EXPECT_TRUE(OpensAs(At("one/model.fp16.safetensors"), "old"));
  // The plain name goes before any variant.
  WriteFileAtomically(At("one/model.safetensors"), "not this one");
  EXPECT_TRUE(Contains(ErrorOf([&] { FindModel(At("one")); }), "model.safetensors"));
  // Shards: model.fp16-00001-of-00003.safetensors, model.safetensors.index.fp16.json.
  std::filesystem::create_directories(At("many"));
  for (const auto& entry : std::filesystem::directory_iterator(kTheirs / "sharded")) {
    std::string name = entry.path().filename().string(), bytes = ReadFile(entry.path());
    if (name.starts_with("model-")) name.insert(5, ".fp16");
    if (name == "model.safetensors.index.json") {
      name = "model.safetensors.index.fp16.json";
      for (size_t at = 0; (at = bytes.find("\"model-", at)) != bytes.npos;) {
        bytes.insert(at + 6, ".fp16");
      }
    }
    WriteFileAtomically(At("many") / name, bytes);
  }
  EXPECT_TRUE(OpensAs(At("many"), "sharded"));
  EXPECT_TRUE(OpensAs(At("many/model.safetensors.index.fp16.json"), "sharded"));
}

TEST_F(HfDirectory, WeightsAloneHaveTheirConfigurationBesideThem) {
  EXPECT_TRUE(OpensAs(kTheirs / "old/model.safetensors", "old"));
  EXPECT_TRUE(OpensAs(kTheirs / "sharded/model.safetensors.index.json", "sharded"));
  std::filesystem::copy(kTheirs / "old", At("model"));
  ByteTokenizer().Save(At("model").string());
  EXPECT_EQ(FindModel(At("model/model.safetensors")).tokenizer->kind(), "bytes");
  std::filesystem::rename(At("model/model.safetensors"), At("model/mine.safetensors"));
  EXPECT_TRUE(OpensAs(At("model/mine.safetensors"), "old"));
  std::filesystem::remove(At("model/config.json"));
  EXPECT_TRUE(Contains(ErrorAndHelp([&] { FindModel(At("model/mine.safetensors")); }),
                       "weights without their configuration", "config.json is missing beside it"));
  const std::filesystem::path torch = Fixture("torch-tiny");
  EXPECT_EQ(FindModel(torch / "pytorch_model.bin").format, "hf");
  const auto bin = MapWeights(FindModel(torch / "pytorch_model.bin").model);
  EXPECT_EQ(bin->table().parameters(), MapWeights(FindModel(torch).model)->table().parameters());
}

TEST_F(HfDirectory, IsSavedAsAWholeWithItsTokenizer) {
  GptConfig config = TinyConfig();
  config.vocab_size = 257;
  GptWeights weights(config);
  Scatter(weights, 1);
  const ByteTokenizer tokenizer;
  const std::filesystem::path out = At("deep/out");
  for (const Dtype dtype : {Dtype::kBF16, Dtype::kF32}) {  // the second over the first
    SavedFormat("hf").save(out, {.weights = weights, .tokenizer = &tokenizer, .dtype = dtype});
    const FoundModel found = FindModel(out);
    EXPECT_EQ(found.model.config, config);
    EXPECT_EQ(found.tokenizer->hash(), tokenizer.hash());
    EXPECT_EQ(found.model.params[0].from.dtype, dtype);
  }
  const auto loaded = ReadWeights(FindModel(out).model);
  for (size_t i = 0; i < weights.tensors().size(); ++i) {
    const Tensor& ours = weights.tensors()[i];
    EXPECT_EQ(std::memcmp(loaded->tensors()[i].raw(), ours.raw(), ours.bytes()), 0);
  }
  EXPECT_EQ(FilesBelow(At("deep")).size(), FilesBelow(out).size());
}

}  // namespace
}  // namespace folio
