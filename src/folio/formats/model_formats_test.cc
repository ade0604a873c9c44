#include "folio/formats/model_formats.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "folio/formats/test_expected.h"
#include "folio/io/file.h"
#include "folio/io/gguf.h"
#include "folio/io/model_dir.h"
#include "folio/io/safetensors.h"
#include "folio/io/test_zip_bytes.h"
#include "folio/model/adapters.h"
#include "folio/model/lora.h"
#include "folio/model/test_models.h"
#include "folio/model/transformer.h"
#include "folio/model_files/adapter_files.h"
#include "folio/model_files/checkpoint.h"
#include "folio/tensor/dtype.h"
#include "folio/text/byte_tokenizer.h"
#include "folio/text/tokenizer_file.h"
#include "tests/kit/directory.h"
#include "tests/kit/expect.h"
#include "tests/kit/near.h"
#include "tests/kit/paths.h"

namespace folio {
namespace {

namespace fs = std::filesystem;

class Formats : public InTemporaryDirectory {
 protected:
  Formats() : weights_(TinyConfig()) { Scatter(weights_, 1); }

  GptWeights weights_;
};

TEST_F(Formats, AModelOfOursIsFoundInItsDirectoryAndInItsRun) {
  fs::create_directories(At("run/best"));
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
  fs::remove(At(kWeightsFile));
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
  WriteFileAtomically(At("a.gguf"), "GGUF");
  EXPECT_TRUE(Contains(ErrorAndHelp([&] { FindModel(At("")); }), "a.gguf is one by itself",
                       "give the file: " + At("a.gguf").string()));
  EXPECT_TRUE(Contains(ErrorAndHelp([&] { FindModel(At("nowhere")); }), "nowhere", "spelling"));
  WriteFileAtomically(At("text"), "nothing here");
  EXPECT_TRUE(Contains(ErrorAndHelp([&] { FindModel(At("text")); }),
                       "text: a text file, not a model", "it begins with \"nothing here\""));
  WriteFileAtomically(At("bytes"), "\x01\x02");
  EXPECT_TRUE(Contains(ErrorAndHelp([&] { FindModel(At("bytes")); }), "bytes: no model found"));
}

// Models that transformers saved, with its logits (tests/fixtures/transformers/README.md).
class SavedByTransformers : public testing::TestWithParam<const char*> {};

TEST_P(SavedByTransformers, GivesTheSameLogits) {
  const fs::path dir = Fixture("transformers") / GetParam();
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

const fs::path kTheirs = Fixture("transformers");

bool OpensAs(const fs::path& path, const char* name) {
  const auto ours = MapWeights(FindModel(path).model);
  const auto theirs = MapWeights(FindModel(kTheirs / name).model);
  return std::ranges::equal(ours->tensors(), theirs->tensors(), [](const auto& a, const auto& b) {
    return a.bytes() == b.bytes() && std::memcmp(a.raw(), b.raw(), a.bytes()) == 0;
  });
}

// "num_hidden_layers" and the like stand for GPT-2's own names, as in transformers' GPT2Config.
TEST_F(HfDirectory, OtherNamesOfSizesAreKnown) {
  fs::copy(kTheirs / "scaled", At("model"));
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
  fs::copy(kTheirs / "old", At("one"));
  fs::rename(At("one/model.safetensors"), At("one/model.fp16.safetensors"));
  EXPECT_TRUE(OpensAs(At("one"), "old"));
  fs::copy_file(At("one/model.fp16.safetensors"), At("one/model.bf16.safetensors"));
  EXPECT_TRUE(Contains(ErrorAndHelp([&] { FindModel(At("one")); }), "several variants",
                       "model.bf16.safetensors, model.fp16.safetensors",
                       (At("one") / "model.bf16.safetensors").string()));
  EXPECT_TRUE(OpensAs(At("one/model.fp16.safetensors"), "old"));
  // The plain name goes before any variant.
  WriteFileAtomically(At("one/model.safetensors"), "not this one");
  EXPECT_TRUE(Contains(ErrorOf([&] { FindModel(At("one")); }), "model.safetensors"));
  // Shards: model.fp16-00001-of-00003.safetensors, model.safetensors.index.fp16.json.
  fs::create_directories(At("many"));
  for (const auto& entry : fs::directory_iterator(kTheirs / "sharded")) {
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
  fs::copy(kTheirs / "old", At("model"));
  ByteTokenizer().Save(At("model").string());
  EXPECT_EQ(FindModel(At("model/model.safetensors")).tokenizer->kind(), "bytes");
  fs::rename(At("model/model.safetensors"), At("model/mine.safetensors"));
  EXPECT_TRUE(OpensAs(At("model/mine.safetensors"), "old"));
  fs::remove(At("model/config.json"));
  EXPECT_TRUE(Contains(ErrorAndHelp([&] { FindModel(At("model/mine.safetensors")); }),
                       "weights without their configuration", "config.json is missing beside it"));
  const fs::path torch = Fixture("torch-tiny");
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
  const fs::path out = At("deep/out");
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

class Convert : public InTemporaryDirectory {
 protected:
  Convert() {
    GptConfig config = TinyConfig();
    config.vocab_size = 257;
    config.n_embd = 256;
    config.n_layer = 1;
    config.bos_token_id = config.eos_token_id = ByteTokenizer::kEndOfText;
    const GptWeights weights(config);
    Scatter(weights, 1);
    fs::create_directories(At("hf"));
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
  EXPECT_EQ(there.bytes, fs::file_size(At("m.gguf")));
  EXPECT_EQ(there.tensors, 16);
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

TEST_F(Convert, AMixtureIsComparedAndBetterThanFourBits) {
  Conversion conversion = To("m.gguf", "gguf", Dtype::kQ4_K);
  const double four = ConvertModel(conversion, Nothing).logit_difference;
  conversion.to = At("mixed.gguf");
  conversion.mixed = true;
  const double mixed = ConvertModel(conversion, Nothing).logit_difference;
  EXPECT_GT(mixed, 0);
  EXPECT_LT(mixed, four);
  EXPECT_EQ(NameOfSaved(conversion.dtype, conversion.mixed), "q4_k_m");
}

TEST_F(Convert, WhatAFormatDoesNotHoldIsAUsageError) {
  // nanoGPT has no bytes.
  for (const char* file : {"tokenizer.json", "tokenizer_config.json"}) {
    fs::remove(At("hf") / file);
  }
  int refused = 0;
  for (const ModelFormat& format : ModelFormats()) {
    if (format.save == nullptr) continue;
    for (const Dtype dtype : SavedDtypes()) {
      const Conversion conversion = To("m", format.name, dtype);
      if (std::ranges::count(format.dtypes, dtype) > 0) {
        EXPECT_NO_THROW(ConvertModel(conversion, Nothing)) << format.name << DtypeName(dtype);
        fs::remove_all(At("m"));
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
  fs::create_directories(At("home/tokenizers/gpt2"));
  fs::copy_file(merges, At("home/tokenizers/gpt2/vocab.bpe"));
  fs::copy_file(ids, At("home/tokenizers/gpt2/encoder.json"));
  GptConfig config = TinyConfig();
  config.n_layer = 1;
  for (const int64_t tokens : {50257, 50304}) {
    config.vocab_size = tokens;
    const GptWeights weights(config);
    Scatter(weights, 1);
    fs::remove_all(At("hf"));
    fs::create_directories(At("hf"));
    SaveModel(At("hf"), weights);
    fs::remove(At("m.bin"));
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
  fs::create_directories(At("repeated"));
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
                 "the written model differs from the original",
                 "the output was removed; this is a bug in folio or a disk error"))
        << info.name;
    EXPECT_FALSE(fs::exists(At("m.gguf")));
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
                       "is both source and destination"));
  fs::create_directories(At("mine"));
  WriteFileAtomically(At("mine/thesis.tex"), "all of it");
  Conversion mine = To("mine", "hf");
  mine.overwrite = true;
  EXPECT_TRUE(
      Contains(ErrorOf([&] { ConvertModel(mine, Nothing); }, ErrorKind::kUsage), "thesis.tex"));
  EXPECT_TRUE(Contains(ErrorOf([&] { ConvertModel(To("x", "zip"), Nothing); }, ErrorKind::kUsage),
                       "gguf", "hf"));
}

// Adapters that PEFT saved (tests/fixtures/peft/README.md), and what is not one for a model. Their
// logits are of float64; merged weights are float32.
constexpr double kMerged = 3e-6;

class Peft : public InTemporaryDirectory {
 protected:
  Peft() { fs::copy(peft_ / "plain", At("adapter")); }

  FoundModel Open() const { return FindModel(model_, Loading::kMap, At("adapter")); }
  std::string Refusal() const {
    return ErrorAndHelp([&] { Open(); }, ErrorKind::kInput);
  }
  void Configure(const std::string& key, const nlohmann::json& value) const {
    auto json = nlohmann::json::parse(ReadFile(peft_ / "plain" / kAdapterConfigFile));
    json[key] = value;
    WriteFileAtomically(At("adapter") / kAdapterConfigFile, json.dump());
  }
  // The adapter's tensors after `change` of their names.
  template <class Change>
  void Rename(const Change& change) const {
    SafetensorsFile file(peft_ / "plain" / kAdapterWeightsFile);
    std::vector<NamedTensor> tensors;
    for (const TensorInfo& info : file.tensors()) {
      const std::string name = change(info.name);
      if (!name.empty()) tensors.push_back({name, file.Get(info.name)});
    }
    WriteSafetensors(At("adapter") / kAdapterWeightsFile, tensors);
  }

  const fs::path model_ = Fixture("fine-tuning") / "model", peft_ = Fixture("peft");
};

TEST_F(Peft, AnAdapterGivesTheLogitsThatPeftMerges) {
  for (const char* name : {"plain", "rslora"}) {
    for (const Loading loading : {Loading::kMap, Loading::kRead}) {
      const FoundModel found = FindModel(model_, loading, peft_ / name);
      EXPECT_TRUE(GivesExpected(found.model, peft_ / name, kMerged)) << name;
    }
    EXPECT_FALSE(GivesExpected(FindModel(model_).model, peft_ / name, 1e-2)) << name;
  }
}

// Linear layers lie the other way round there.
TEST_F(Peft, AnAdapterFitsTheModelInEveryFormat) {
  for (const char* format : {"gguf", "llmc"}) {
    ConvertModel({.from = model_, .to = At(format), .format = format}, [](int, auto) {});
    EXPECT_TRUE(GivesExpected(FindModel(At(format), Loading::kMap, peft_ / "rslora").model,
                              peft_ / "rslora", kMerged))
        << format;
  }
}

TEST_F(Peft, AConversionMergesIt) {
  ConvertModel({.from = model_, .to = At("merged"), .format = "hf", .adapter = peft_ / "rslora"},
               [](int, auto) {});
  EXPECT_TRUE(GivesExpected(FindModel(At("merged")).model, peft_ / "rslora", kMerged));
}

TEST_F(Peft, WhatHasNoAdapterIsNotCopied) {
  const auto weights = MapWeights(Open().model), bare = MapWeights(FindModel(model_).model);
  const BlockParams &a = weights->params().h[0], &b = bare->params().h[0];
  EXPECT_TRUE(
      std::ranges::equal(Elements<float>(a.mlp.c_fc.weight), Elements<float>(b.mlp.c_fc.weight)));
  EXPECT_FALSE(std::ranges::equal(Elements<float>(a.attn.c_attn.weight),
                                  Elements<float>(b.attn.c_attn.weight)));
  // The same numbers as those of a run that trains one.
  const GptWeights apart(
      ParamTable(bare->config(), LoadAdapterConfig(At("adapter"), bare->config())));
  for (size_t i = 0, k = 0; i < apart.tensors().size(); ++i) {
    if (apart.table().params()[i].kind == ParamKind::kAdapter) continue;
    const auto from = Elements<float>(bare->tensors()[k++]);
    std::copy(from.begin(), from.end(), apart.tensors()[i].data<float>());
  }
  LoadAdapter(At("adapter"), apart);
  EXPECT_TRUE(SameNumbers(*MergeAdapter(apart), *weights));
}

TEST_F(Peft, NamesOfAModelWithoutItsHeadAreKnown) {
  Rename([](std::string name) { return name.erase(name.find("transformer."), 12); });
  EXPECT_TRUE(GivesExpected(Open().model, peft_ / "plain", kMerged));
}

TEST_F(Peft, FilesOfBeforePeft05AreRead) {
  const SafetensorsFile file(peft_ / "plain" / kAdapterWeightsFile);
  ZipFiles items;
  std::vector<std::string> storages;
  for (const TensorInfo& info : file.tensors()) {
    items.emplace_back(
        info.name, PickleTensor("FloatStorage", std::to_string(storages.size()), info.shape.count(),
                                0, {info.shape[0], info.shape[1]}, {info.shape[1], 1}));
    storages.emplace_back(reinterpret_cast<const char*>(info.data), info.bytes);
  }
  fs::remove(At("adapter") / kAdapterWeightsFile);
  WriteFileAtomically(At("adapter") / kAdapterTorchFile, TorchBytes(PickleDict(items), storages));
  EXPECT_TRUE(GivesExpected(Open().model, peft_ / "plain", kMerged));
}

TEST_F(Peft, OtherKindsAreRefusedByName) {
  const std::pair<const char*, nlohmann::json> other[] = {{"peft_type", "IA3"},
                                                          {"bias", "lora_only"},
                                                          {"use_dora", true},
                                                          {"modules_to_save", {"wte"}},
                                                          {"rank_pattern", {{"c_attn", 4}}},
                                                          {"alpha_pattern", {{"c_attn", 4}}},
                                                          {"layers_to_transform", {0}},
                                                          {"init_lora_weights", "pissa"},
                                                          {"init_lora_weights", "olora"},
                                                          {"target_modules", ""},
                                                          {"target_modules", {"c_attn", "lm_head"}},
                                                          {"target_modules", {"attn"}},
                                                          {"r", 0},
                                                          {"lora_alpha", 0}};
  for (const auto& [key, value] : other) {
    Configure(key, value);
    const std::string refusal = Refusal();
    EXPECT_TRUE(Contains(refusal, kAdapterConfigFile)) << key << value;
    if (value != nlohmann::json(0)) {
      EXPECT_TRUE(
          Contains(refusal, std::string(key) == "target_modules" ? "" : key, "not supported"))
          << key << value;
    }
  }
}

// Parts that PEFT saves beside adapters, even where the configuration does not name them.
TEST_F(Peft, OtherPartsAreNamedForWhatTheyAre) {
  constexpr std::pair<const char*, const char*> kParts[] = {
      {"base_model.model.transformer.wte.weight",
       "a full embedding matrix, which PEFT saves if tokens were added"},
      {"base_model.model.model.embed_tokens.weight",
       "a full embedding matrix, which PEFT saves if tokens were added"},
      {"base_model.model.lm_head.weight",
       "a full embedding matrix, which PEFT saves if tokens were added"},
      {"base_model.model.score.weight", "a full layer"},
      {"base_model.model.transformer.h.0.attn.c_attn.bias", "a full bias"},
      {"base_model.model.transformer.wte.lora_embedding_A", "an adapter of embeddings"},
      {"base_model.model.transformer.h.0.attn.c_attn.lora_magnitude_vector.weight",
       "part of DoRA"}};
  const std::string last = "transformer.h.1.mlp.c_proj.lora_B.weight";
  for (const auto& [name, what] : kParts) {
    Rename([&, part = name](const std::string& old) { return old.ends_with(last) ? part : old; });
    EXPECT_TRUE(Contains(Refusal(), kAdapterWeightsFile,
                         fmt::format("tensor '{}' is {}", name, what), "merge_and_unload"));
  }
}

TEST_F(Peft, TensorsOfOtherDtypesAreReadOrRefusedByTheirName) {
  SafetensorsFile file(peft_ / "plain" / kAdapterWeightsFile);
  const std::vector<TensorInfo> infos(file.tensors().begin(), file.tensors().end());
  for (const TensorInfo& other : infos) {
    for (const Dtype dtype : {Dtype::kF64, Dtype::kI64, Dtype::kI32, Dtype::kU32, Dtype::kI16,
                              Dtype::kU16, Dtype::kI8, Dtype::kU8, Dtype::kBool}) {
      std::vector<std::byte> zeros(static_cast<size_t>(other.shape.count()) * DtypeSize(dtype));
      std::vector<NamedTensor> tensors;
      for (const TensorInfo& info : infos) tensors.push_back({info.name, file.Get(info.name)});
      std::ranges::find(tensors, other.name, &NamedTensor::name)->tensor =
          Tensor(zeros.data(), dtype, other.shape);
      WriteSafetensors(At("adapter") / kAdapterWeightsFile, tensors);
      if (IsFloating(dtype)) {
        EXPECT_NO_THROW(MapWeights(Open().model)) << other.name;
      } else {
        EXPECT_TRUE(Contains(Refusal(), other.name, "wrong dtype", DtypeName(dtype)));
      }
    }
  }
}

TEST_F(Peft, WhatDoesNotFitTheModelIsRefused) {
  Configure("r", 2);
  EXPECT_TRUE(Contains(Refusal(), "lora_A.weight\" has the wrong shape", "(2, 16)", "(3, 16)",
                       "../fine-tuning/model"));
  Configure("target_modules", {"c_attn", "c_proj"});
  EXPECT_TRUE(Contains(Refusal(), "no tensor", "attn.c_proj.lora_A"));
  Configure("target_modules", {"c_attn"});
  EXPECT_TRUE(Contains(Refusal(), "mlp.c_proj.lora_A.weight' is not part of the adapter"));
  Configure("target_modules", {"c_attn", "mlp.c_proj"});
  Rename([](const std::string& name) {
    return name.find("h.1.attn.c_attn.lora_B") == name.npos ? name : "";
  });
  EXPECT_TRUE(Contains(Refusal(), "no tensor", "h.1.attn.c_attn.lora_B"));
  Rename([](const std::string& name) {
    return name.find("h.1.attn.c_attn.lora_B") == name.npos ? name : "base_model.model.x";
  });
  EXPECT_TRUE(Contains(Refusal(), "tensor 'base_model.model.x' is a full layer"));
  // The adapter is of a model of another size, and of fewer blocks.
  GptConfig config = TinyConfig();
  fs::create_directories(At("other"));
  SaveModel(At("other"), GptWeights(config));
  EXPECT_TRUE(
      Contains(ErrorAndHelp([&] { FindModel(At("other"), Loading::kMap, peft_ / "plain"); }),
               "has the wrong shape", "(3, 6)", "give its base model"));
  config.n_embd = 16;
  config.n_layer = 1;
  SaveModel(At("other"), GptWeights(config));
  EXPECT_TRUE(
      Contains(ErrorAndHelp([&] { FindModel(At("other"), Loading::kMap, peft_ / "plain"); }),
               "h.1.attn.c_attn.lora_A.weight' is not part of the adapter", "has no such layer"));
}

TEST_F(Peft, CutShortFlippedOrMissingItIsReadOrRefused) {
  EXPECT_TRUE(
      Contains(ErrorAndHelp([&] { FindModel(model_, Loading::kMap, At("nowhere")); }), "nowhere"));
  EXPECT_TRUE(Contains(ErrorAndHelp([&] { FindModel(model_, Loading::kMap, model_); }),
                       ": no adapter found", "adapter_config.json is missing", "save_pretrained"));
  // An adapter is no model.
  EXPECT_TRUE(Contains(ErrorAndHelp([&] { FindModel(At("adapter")); }), ": an adapter, not a model",
                       "--adapter"));
  const std::string whole = ReadFile(At("adapter") / kAdapterWeightsFile);
  for (size_t at = 0; at < whole.size(); at += 97) {
    WriteFileAtomically(At("adapter") / kAdapterWeightsFile, whole.substr(0, at));
    EXPECT_FALSE(Refusal().empty()) << at;
    std::string flipped = whole;
    flipped[at] = static_cast<char>(flipped[at] ^ 0x15);
    WriteFileAtomically(At("adapter") / kAdapterWeightsFile, flipped);
    try {
      Open();
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kInput) << error.what();
    }
  }
  std::string infinite = whole;
  infinite.replace(infinite.size() - 4, 4, std::string("\x00\x00\x80\x7f", 4));
  WriteFileAtomically(At("adapter") / kAdapterWeightsFile, infinite);
  EXPECT_TRUE(Contains(Refusal(), "is damaged", "not finite"));
}

}  // namespace
}  // namespace folio
