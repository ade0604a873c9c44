#include "folio/model_files/checkpoint.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "folio/backend/backend.h"
#include "folio/backend/operands.h"
#include "folio/io/file.h"
#include "folio/io/safetensors.h"
#include "folio/model/config.h"
#include "folio/model/decoder.h"
#include "folio/model/test_models.h"
#include "folio/model/transformer.h"
#include "folio/model_files/config_json.h"
#include "folio/model_files/families.h"
#include "folio/tensor/dtype.h"
#include "tests/kit/directory.h"
#include "tests/kit/expect.h"
#include "tests/kit/near.h"

namespace folio {
namespace {

class Checkpoints : public InTemporaryDirectory {
 protected:
  Checkpoints() : weights_(TinyConfig()) { Scatter(weights_, 1); }

  // Tensors of a file in the making.
  using Tensors = std::map<std::string, Tensor>;
  Tensors Parts(const GptWeights& weights) const {
    Tensors tensors;
    for (const ParamInfo& info : weights.table().params()) {
      tensors[info.name] = weights.table().View(info, weights.flat());
    }
    return tensors;
  }
  void Write(const Tensors& tensors) {
    std::vector<NamedTensor> list;
    for (const auto& [name, tensor] : tensors) list.push_back({name, tensor});
    WriteSafetensors(At(kWeightsFile), list);
    WriteFileAtomically(At(kConfigFile), GptConfigToJson(weights_.config()));
  }
  std::string Refusal() {
    return ErrorOf([&] { LoadModel(At("")); }, ErrorKind::kInput);
  }
  void ExpectSame(const GptWeights& loaded) const {
    EXPECT_EQ(loaded.config(), weights_.config());
    ASSERT_EQ(loaded.flat().bytes(), weights_.flat().bytes());
    EXPECT_EQ(std::memcmp(loaded.flat().raw(), weights_.flat().raw(), loaded.flat().bytes()), 0);
  }

  GptWeights weights_;
};

TEST_F(Checkpoints, WhatIsSavedLoadsBitForBit) {
  SaveModel(At(""), weights_);
  EXPECT_EQ(Names(), (Strings{kConfigFile, kGenerationConfigFile, kWeightsFile}));
  ExpectSame(*LoadModel(At("")));
  EXPECT_EQ(LoadModelConfig(At("")), weights_.config());
  const std::string bytes = ReadFile(At(kWeightsFile));
  SaveModel(At(""), *LoadModel(At("")));
  EXPECT_EQ(ReadFile(At(kWeightsFile)), bytes);
}

TEST_F(Checkpoints, EveryOptionalPartIsSaved) {
  GptConfig config = TinyConfig();
  config.tie_word_embeddings = false;
  config.lm_head_bias = true;
  config.position_embedding = PositionKind::kSinusoidal;
  config.mlp_bias = false;
  GptWeights weights(config);
  Scatter(weights, 2);
  SaveModel(At(""), weights);
  const auto loaded = LoadModel(At(""));
  EXPECT_EQ(std::memcmp(loaded->flat().raw(), weights.flat().raw(), weights.flat().bytes()), 0);
}

TEST_F(Checkpoints, LoadsInFloat64) {
  SaveModel(At(""), weights_);
  const auto loaded = LoadModel(At(""), Dtype::kF64);
  const auto exact = Elements<double>(loaded->flat());
  const auto single = Elements<float>(weights_.flat());
  for (size_t i = 0; i < exact.size(); ++i) ASSERT_EQ(exact[i], double(single[i]));
}

TEST_F(Checkpoints, NamesMayLackThePrefix) {
  Tensors bare;
  for (const auto& [name, tensor] : Parts(weights_)) {
    bare[name.substr(std::string("transformer.").size())] = tensor;
  }
  Write(bare);
  ExpectSame(*LoadModel(At("")));
}

TEST_F(Checkpoints, MasksAndARepeatedHeadArePassedOver) {
  Tensors tensors = Parts(weights_);
  std::vector<float> mask(25, 1);
  tensors["transformer.h.0.attn.bias"] = Tensor(mask.data(), {1, 1, 5, 5});
  tensors["h.1.attn.masked_bias"] = Tensor(mask.data(), {1});
  tensors["lm_head.weight"] = weights_.params().wte;
  Write(tensors);
  ExpectSame(*LoadModel(At("")));
}

TEST_F(Checkpoints, ReadsHalfPrecision) {
  std::vector<uint16_t> half, brain;
  Tensors tensors = Parts(weights_);
  const std::string f16 = "transformer.ln_f.weight", bf16 = "transformer.ln_f.bias";
  for (int i = 0; i < 6; ++i) {
    half.push_back(static_cast<uint16_t>(0x3c00 + i));   // 1 + i / 1024
    brain.push_back(static_cast<uint16_t>(0xbf80 + i));  // -(1 + i / 128)
  }
  tensors[f16] = Tensor(half.data(), Dtype::kF16, {6});
  tensors[bf16] = Tensor(brain.data(), Dtype::kBF16, {6});
  Write(tensors);
  const auto loaded = LoadModel(At(""));
  for (int i = 0; i < 6; ++i) {
    EXPECT_EQ(loaded->params().ln_f.weight.data<float>()[i], 1 + static_cast<float>(i) / 1024);
    EXPECT_EQ(loaded->params().ln_f.bias.data<float>()[i], -(1 + static_cast<float>(i) / 128));
  }
}

TEST_F(Checkpoints, RefusesTensorsThatAreNotThoseOfTheConfiguration) {
  const auto refusal = [&](auto&& edit) {
    Tensors tensors = Parts(weights_);
    edit(tensors);
    Write(tensors);
    return Refusal();
  };
  const GptParams& p = weights_.params();
  EXPECT_TRUE(
      Contains(refusal([&](Tensors& t) { t["transformer.h.2.ln_1.weight"] = p.ln_f.weight; }),
               kWeightsFile, "'transformer.h.2.ln_1.weight'", "not part of the model"));
  // Not the matrix that a tied head repeats.
  EXPECT_TRUE(Contains(refusal([&](Tensors& t) { t["lm_head.weight"] = p.wpe; }),
                       "'lm_head.weight'", "differs from 'transformer.wte.weight'"));
  const std::string bias = "transformer.h.1.mlp.c_fc.bias";
  EXPECT_TRUE(Contains(refusal([&](Tensors& t) { t.erase(bias); }), kWeightsFile, bias));
  const std::string weight = "transformer.h.0.mlp.c_fc.weight";
  EXPECT_TRUE(Contains(refusal([&](Tensors& t) {
                         t[weight] = t[weight].Reshape({24, 6});
                       }),
                       weight, "(24, 6)", "(6, 24)"));
  std::vector<int32_t> integers(6);
  const std::string norm = "transformer.ln_f.weight";
  EXPECT_TRUE(Contains(refusal([&](Tensors& t) { t[norm] = Tensor(integers.data(), {6}); }), norm));
}

// The first of them by its place, whichever thread meets it, in every dtype.
TEST_F(Checkpoints, RefusesNumbersThatAreNotFinite) {
  const Tensor wte = weights_.params().wte;
  for (const float wrong : {NAN, -NAN, INFINITY, -INFINITY}) {
    const float before = wte.data<float>()[3 * 6 + 4];
    wte.data<float>()[3 * 6 + 4] = wte.data<float>()[10 * 6] = wrong;
    for (const Dtype dtype : {Dtype::kF32, Dtype::kF16, Dtype::kBF16}) {
      SaveModel(At(""), weights_, {.dtype = dtype});
      for (const Dtype as : {Dtype::kF32, Dtype::kF64}) {
        const Error error = Refused([&] { LoadModel(At(""), as); });
        EXPECT_TRUE(
            Contains(error.what(), At(kWeightsFile).string(), "\"transformer.wte.weight\""));
        EXPECT_TRUE(Contains(error.cause(), "[3,4] is ", std::isnan(wrong) ? "nan" : "inf"));
      }
      EXPECT_TRUE(
          Contains(ErrorOf([&] { MapWeights(OpenModelDir(At(""))); }, ErrorKind::kInput), "[3,4]"));
    }
    wte.data<float>()[3 * 6 + 4] = wte.data<float>()[10 * 6] = before;
  }
  weights_.params().ln_f.bias.data<float>()[5] = INFINITY;
  SaveModel(At(""), weights_);
  EXPECT_TRUE(Contains(Refusal(), "ln_f.bias", "[5] is inf"));
  // A finite number may be as large as it likes, or as small.
  for (const float x : {3.4028235e38f, -3.4028235e38f, 1e-45f, -0.0f}) {
    weights_.params().ln_f.bias.data<float>()[5] = x;
    SaveModel(At(""), weights_);
    EXPECT_EQ(LoadModel(At(""))->params().ln_f.bias.data<float>()[5], x);
  }
}

TEST_F(Checkpoints, OfManyNumbersThatAreNotFiniteTheFirstIsNamed) {
  GptConfig config = TinyConfig();
  config.vocab_size = 70001;
  const GptWeights large(config);
  Scatter(large, 2);
  SaveModel(At(""), large);
  EXPECT_NO_THROW(LoadModel(At("")));
  float* wte = large.params().wte.data<float>();
  for (const int64_t at : {420005, 300001, 131071, 400000}) {
    wte[at] = NAN;
    SaveModel(At(""), large);
    for (int i = 0; i < 20; ++i) {
      const std::string first = at == 420005   ? "[70000,5]"
                                : at == 300001 ? "[50000,1]"
                                               : "[21845,1]";
      EXPECT_TRUE(Contains(Refusal(), first));
    }
  }
}

TEST_F(Checkpoints, BiasesThatAModelLacksAreThereAsZeros) {
  GptConfig config = TinyConfig();
  config.bias = false;
  config.mlp_bias = true;
  GptWeights weights(config);
  Scatter(weights, 3);
  SaveModel(At(""), weights);
  // GPT-2's 2 embeddings, 12 of each block and the last LayerNorm's 2.
  EXPECT_EQ(SafetensorsFile(At(kWeightsFile)).tensors().size(), 2u + 12 * 2 + 2);
  const SafetensorsFile file(At(kWeightsFile));
  for (const float x : file.ReadAs<float>("transformer.h.1.attn.c_attn.bias")) EXPECT_EQ(x, 0);
  EXPECT_NE(file.ReadAs<float>("transformer.h.1.mlp.c_fc.bias")[0], 0);
  const auto loaded = LoadModel(At(""));
  EXPECT_EQ(loaded->config(), config);
  EXPECT_EQ(std::memcmp(loaded->flat().raw(), weights.flat().raw(), weights.flat().bytes()), 0);
}

TEST_F(Checkpoints, ABiasThatIsNotZeroIsNotPassedOver) {
  Write(Parts(weights_));
  GptConfig config = weights_.config();
  config.layer_norm_bias = false;
  WriteFileAtomically(At(kConfigFile), GptConfigToJson(config));
  EXPECT_TRUE(Contains(ErrorAndHelp([&] { LoadModel(At("")); }), kWeightsFile, "ln_1.bias",
                       "is not zero", "layer_norm_bias"));
}

TEST_F(Checkpoints, SavesInHalfPrecision) {
  for (const Dtype dtype : {Dtype::kF16, Dtype::kBF16}) {
    SaveModel(At(""), weights_, {.dtype = dtype});
    const SafetensorsFile file(At(kWeightsFile));
    const auto loaded = LoadModel(At(""));
    for (size_t i = 0; i < loaded->tensors().size(); ++i) {
      const ParamInfo& info = loaded->table().params()[i];
      EXPECT_EQ(file.Require(info.name).dtype, dtype) << info.name;
      const auto from = Elements<float>(weights_.tensors()[i]);
      const auto to = Elements<float>(loaded->tensors()[i]);
      // Half a unit in the last of 11 or 8 bits.
      const float most = dtype == Dtype::kF16 ? 0x1p-11f : 0x1p-8f;
      for (size_t k = 0; k < from.size(); ++k) {
        ASSERT_LE(std::abs(to[k] - from[k]), most * std::abs(from[k]) + 0x1p-25f) << info.name;
      }
    }
    EXPECT_TRUE(
        Contains(ReadFile(At(kConfigFile)), dtype == Dtype::kF16 ? "\"float16\"" : "\"bfloat16\""));
  }
}

TEST_F(Checkpoints, ALargeModelIsCutIntoShards) {
  // The largest tensor takes 576 bytes.
  SaveModel(At(""), weights_, {.max_shard_bytes = 1500});
  EXPECT_FALSE(std::filesystem::exists(At(kWeightsFile)));
  size_t shards = 0;
  for (const std::string& name : Names()) {
    if (!name.starts_with("model-")) continue;
    ++shards;
    EXPECT_TRUE(name.ends_with("-of-00004.safetensors")) << name;
    uint64_t bytes = 0;
    const SafetensorsFile shard(At(name));
    for (const TensorInfo& info : shard.tensors()) bytes += info.bytes;
    EXPECT_LE(bytes, 1500u);
  }
  EXPECT_EQ(shards, 4u);
  ExpectSame(*LoadModel(At("")));
}

TEST_F(Checkpoints, WhatIsNoGpt2HasATypeOfItsOwn) {
  const std::vector<std::function<void(GptConfig&)>> edits = {
      [](GptConfig& c) { c.norm_position = NormPosition::kPost; },
      [](GptConfig& c) { c.position_embedding = PositionKind::kSinusoidal; },
      [](GptConfig& c) { c.lm_head_bias = true; },
      [](GptConfig& c) { c.causal = false; },
  };
  const auto why = [](const GptConfig& config) {
    return WhyNot(Gpt2Family(), FileFormat::kHuggingFace, config);
  };
  EXPECT_EQ(why(TinyConfig()), "");
  for (const auto& edit : edits) {
    GptConfig config = TinyConfig();
    edit(config);
    EXPECT_NE(why(config), "");
    SaveModel(At(""), GptWeights(config));
    const std::string json = ReadFile(At(kConfigFile));
    EXPECT_TRUE(Contains(json, R"("model_type": "folio")", R"("FolioLMHeadModel")"));
    EXPECT_EQ(json.find("GPT2"), json.npos);
    // A program that passes over the type does not know the activation.
    EXPECT_EQ(json.find("\"gelu_new\""), json.npos);
    EXPECT_EQ(LoadModelConfig(At("")), config);
    // As it was saved before.
    WriteFileAtomically(At(kConfigFile),
                        Replaced(Replaced(json, "\"folio\"", "\"gpt2\""), "folio:", ""));
    EXPECT_EQ(LoadModelConfig(At("")), config);
  }
}

TEST_F(Checkpoints, TheEndOfATextMayStandInTheGenerationConfig) {
  SaveModel(At(""), weights_);
  const auto end_of = [&](const std::string& text) {
    WriteFileAtomically(At(kGenerationConfigFile), text);
    return LoadModelConfig(At("")).eos_token_id;
  };
  EXPECT_EQ(end_of(R"({"eos_token_id": 3, "max_length": 7})"), 3);
  EXPECT_EQ(end_of(R"({"eos_token_id": [4, 3]})"), 4);
  EXPECT_EQ(end_of(R"({"eos_token_id": 50256})"), std::nullopt);  // beyond the vocabulary
  EXPECT_EQ(end_of("{}"), std::nullopt);
  EXPECT_TRUE(Contains(ErrorOf([&] { end_of("["); }), kGenerationConfigFile));
}

TEST_F(Checkpoints, MoreLayersThanTheFileHasTakeNoMemory) {
  SaveModel(At(""), weights_);
  const std::string json = ReadFile(At(kConfigFile));
  WriteFileAtomically(At(kConfigFile), Replaced(json, "\"n_layer\": 2", "\"n_layer\": 65535"));
  EXPECT_TRUE(Contains(Refusal(), "fewer tensors", "65535"));
  WriteFileAtomically(At(kConfigFile),
                      Replaced(json, "\"vocab_size\": 11", "\"vocab_size\": 1073741824"));
  EXPECT_TRUE(Contains(Refusal(), "wte.weight", "wrong shape"));
}

TEST_F(Checkpoints, RefusesTruncatedWeights) {
  SaveModel(At(""), weights_);
  const std::string bytes = ReadFile(At(kWeightsFile));
  for (const size_t size : {bytes.size() - 1, bytes.size() / 2, size_t{9}, size_t{0}}) {
    WriteFileAtomically(At(kWeightsFile), bytes.substr(0, size));
    EXPECT_TRUE(Contains(Refusal(), kWeightsFile)) << size;
  }
}

TEST_F(Checkpoints, NamesTheFileThatIsMissing) {
  SaveModel(At(""), weights_);
  std::filesystem::remove(At(kWeightsFile));
  EXPECT_TRUE(Contains(Refusal(), "no model found", "model.safetensors is missing"));
  SaveModel(At(""), weights_);
  std::filesystem::remove(At(kConfigFile));
  EXPECT_TRUE(Contains(Refusal(), "no model found", "config.json is missing"));
  EXPECT_TRUE(Contains(ErrorOf([&] { LoadModel(At("nowhere")); }, ErrorKind::kInput), "nowhere"));
  EXPECT_TRUE(
      Contains(ErrorOf([&] { LoadModel(At(kWeightsFile)); }, ErrorKind::kInput), kWeightsFile));
}

TEST_F(Checkpoints, ConfigurationErrorsNameTheFile) {
  SaveModel(At(""), weights_);
  WriteFileAtomically(At(kConfigFile), R"({"model_type": "bert"})");
  EXPECT_TRUE(Contains(Refusal(), At(kConfigFile).string(), "model_type"));
}

GptConfig BlockConfig() {
  GptConfig config = TinyConfig();
  config.n_embd = 64;
  config.n_positions = 48;
  config.vocab_size = 37;
  return config;
}

GptWeights Scattered(const GptConfig& config) {
  GptWeights weights(config);
  Scatter(weights, 7);
  return weights;
}

// The numbers of a parameter, in its own shape.
std::vector<float> StoredNumbers(const Tensor& stored, const ParamInfo& info) {
  std::vector<float> numbers(static_cast<size_t>(stored.count()));
  DecodeFloats(stored.raw(), stored.dtype(), std::span(numbers));
  if (info.kind != ParamKind::kLinear) return numbers;
  std::vector<float> turned(numbers.size());
  GatherRows(Tensor(numbers.data(), stored.shape()), true, 0, turned);
  return turned;
}

// The same model with matrices that hold what `dtype` can.
GptWeights Rounded(const GptWeights& from, Dtype dtype) {
  GptWeights to(from.config());
  for (size_t i = 0; i < from.tensors().size(); ++i) {
    const ParamInfo& info = from.table().params()[i];
    const Tensor &x = from.tensors()[i], &y = to.tensors()[i];
    std::vector<float> rows(static_cast<size_t>(x.count()));
    const bool turned = info.kind == ParamKind::kLinear;
    GatherRows(x, turned, 0, rows);
    if (IsMatrix(info)) RoundTo(dtype, rows);
    GatherRows(Tensor(rows.data(), StoredShape(info.shape, turned)), turned, 0, Elements<float>(y));
  }
  return to;
}

// Logits of the last three positions, when the first `prompt` tokens come together.
std::vector<float> Decoded(const GptWeights& weights, size_t prompt,
                           const std::string& backend_name = "cpu") {
  const auto backend = MakeBackend(backend_name);
  Decoder decoder(*backend, weights);
  CachedSequence text(decoder.cache());
  const auto P = static_cast<size_t>(weights.config().n_positions);
  const std::vector<int32_t> ids =
      RandomTokens(weights.config().n_positions, weights.config().vocab_size, 5);
  std::vector<float> all;
  for (size_t at = 0; at < P;) {
    const size_t count = at == 0 ? prompt : 1;
    const auto logits = Elements<float>(decoder.Append(text, std::span(ids).subspan(at, count)));
    at += count;
    if (at + 3 > P) all.insert(all.end(), logits.begin(), logits.end());
  }
  return all;
}

TEST(MatrixDtype, MatricesHoldTheRoundedNumbers) {
  const GptWeights weights = Scattered(BlockConfig());
  for (const Dtype dtype : {Dtype::kBF16, Dtype::kQ8_0, Dtype::kQ4_0}) {
    const auto mapped = MapWeights(AsStored(weights), {.dtype = dtype});
    const GptWeights rounded = Rounded(weights, dtype);
    for (size_t i = 0; i < weights.tensors().size(); ++i) {
      const ParamInfo& info = weights.table().params()[i];
      const Tensor& x = mapped->tensors()[i];
      EXPECT_EQ(x.dtype(), IsMatrix(info) ? dtype : Dtype::kF32) << info.name;
      const auto expected = Elements<float>(rounded.tensors()[i]);
      const auto found = IsMatrix(info) ? StoredNumbers(x, info)
                                        : std::vector<float>(expected.begin(), expected.end());
      EXPECT_TRUE(std::ranges::equal(found, expected)) << info.name;
    }
  }
}

// Weights in memory of any type become float32 again, which lie the other way round.
TEST(MatrixDtype, StoredWeightsBecomeFloats) {
  const GptWeights weights = Scattered(BlockConfig());
  for (const Dtype dtype : {Dtype::kF16, Dtype::kBF16, Dtype::kQ8_0, Dtype::kQ4_0}) {
    const auto stored = MapWeights(AsStored(weights), {.dtype = dtype});
    const auto floats = MapWeights(AsStored(*stored));
    const GptWeights rounded = Rounded(weights, dtype);
    for (size_t i = 0; i < weights.tensors().size(); ++i) {
      const Tensor& x = floats->tensors()[i];
      ASSERT_EQ(x.dtype(), Dtype::kF32);
      EXPECT_TRUE(std::ranges::equal(Elements<float>(x), Elements<float>(rounded.tensors()[i])))
          << DtypeName(dtype) << ' ' << weights.table().params()[i].name;
    }
  }
}

// The rows that meet the rounded numbers are rounded too, as the specification says; where one lies
// between two steps, either may be taken.
TEST(MatrixDtype, ModelsWriteAsThoseOfTheRoundedNumbers) {
  for (const bool tied : {true, false}) {
    GptConfig config = BlockConfig();
    config.tie_word_embeddings = tied;
    const GptWeights weights = Scattered(config);
    for (const Dtype dtype : {Dtype::kBF16, Dtype::kQ8_0, Dtype::kQ4_0}) {
      const auto mapped = MapWeights(AsStored(weights), {.dtype = dtype});
      const std::vector<float> expected = Decoded(*mapped, 8, "reference");
      const double most = IsBlocked(dtype) ? 2e-2 : 5e-3;
      EXPECT_LT(Difference(Decoded(*mapped, 8), expected), most * Largest(expected));
      EXPECT_GT(Difference(Decoded(weights, 8), expected), 1e-4 * Largest(expected));
    }
  }
}

// A prompt of many rows takes other kernels than single tokens do.
TEST(MatrixDtype, TheCacheChangesNothing) {
  const GptWeights weights = Scattered(BlockConfig());
  for (const Dtype dtype : {Dtype::kF32, Dtype::kBF16, Dtype::kQ8_0, Dtype::kQ4_0}) {
    const auto mapped = MapWeights(AsStored(weights), {.dtype = dtype});
    const std::vector<float> one = Decoded(*mapped, 1);
    // Up to fifteen tokens at a time nothing differs at all.
    EXPECT_EQ(Decoded(*mapped, 13), one) << DtypeName(dtype);
    // Where a number lies between two steps, another rounding takes the other one.
    const double most = dtype == Dtype::kF32 ? 1e-5 : IsBlocked(dtype) ? 2e-2 : 5e-3;
    EXPECT_LT(Difference(Decoded(*mapped, 45), one), most * Largest(one)) << DtypeName(dtype);
  }
}

// Inputs of F16 matrices are not rounded: results are those of float32 with the same numbers.
TEST(MatrixDtype, OfSixteenBitsWithTheSameNumbersIsFloat32) {
  const GptWeights weights = Scattered(BlockConfig());
  for (const Tensor& x : weights.tensors()) {
    if (x) RoundTo(Dtype::kF16, std::span(x.data<float>(), static_cast<size_t>(x.count())));
  }
  const auto halves = MapWeights(AsStored(weights), {.dtype = Dtype::kF16});
  const std::vector<float> one = Decoded(*halves, 1);
  EXPECT_EQ(Decoded(*halves, 13), one);
  for (const int64_t rows : {1, 45}) {
    const std::vector<float> floats = Decoded(weights, rows);
    EXPECT_LT(Difference(Decoded(*halves, rows), floats), 1e-5 * Largest(floats)) << rows;
  }
}

TEST(MatrixDtype, RowsAreWholeBlocks) {
  const GptWeights weights = Scattered(TinyConfig());
  const Error error =
      Refused([&] { MapWeights(AsStored(weights), {.dtype = Dtype::kQ8_0}); }, ErrorKind::kUsage);
  EXPECT_TRUE(Contains(error.cause(), "blocks of 32"));
  EXPECT_TRUE(Contains(error.help(), "bf16"));
  EXPECT_NE(MapWeights(AsStored(weights), {.dtype = Dtype::kBF16}), nullptr);
}

class MatrixDtypeOfFiles : public InTemporaryDirectory {};

TEST_F(MatrixDtypeOfFiles, IsThatOfTheFile) {
  const GptWeights weights = Scattered(BlockConfig());
  for (const Dtype dtype : {Dtype::kF32, Dtype::kF16, Dtype::kBF16}) {
    const std::filesystem::path dir = At(DtypeName(dtype));
    std::filesystem::create_directories(dir);
    SaveModel(dir, weights, {.dtype = dtype});
    const StoredModel model = OpenModelDir(dir);
    const auto mapped = MapWeights(model, {.as_stored = true});
    EXPECT_EQ(mapped->params().wte.dtype(), dtype);
    EXPECT_EQ(mapped->params().h[0].mlp.c_fc.weight.dtype(), dtype);
    EXPECT_EQ(mapped->params().wpe.dtype(), Dtype::kF32);
    // Not copied where nothing has to be turned.
    EXPECT_EQ(mapped->params().wte.raw(), model.params[0].from.data);
  }
}

// A file whose tensors were copied is let go, and can be read once more.
TEST_F(MatrixDtypeOfFiles, AFileCanBeMappedTwice) {
  const GptWeights weights = Scattered(BlockConfig());
  SaveModel(At(""), weights);
  const StoredModel model = OpenModelDir(At(""));
  const auto first = MapWeights(model, {.dtype = Dtype::kQ8_0});
  const auto again = MapWeights(model, {.dtype = Dtype::kQ8_0});
  EXPECT_EQ(Decoded(*first, 8), Decoded(*again, 8));
  EXPECT_EQ(Decoded(*MapWeights(model), 8), Decoded(weights, 8));
}

}  // namespace
}  // namespace folio
