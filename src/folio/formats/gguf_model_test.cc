#include "folio/formats/gguf_model.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <bit>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "folio/backend/backend.h"
#include "folio/backend/ops.h"
#include "folio/base/rng.h"
#include "folio/formats/test_expected.h"
#include "folio/io/file.h"
#include "folio/io/gguf.h"
#include "folio/io/model_dir.h"
#include "folio/io/safetensors.h"
#include "folio/model/gpt.h"
#include "folio/model/test_models.h"
#include "folio/model/transformer.h"
#include "folio/model_files/checkpoint.h"
#include "folio/tensor/blocks.h"
#include "folio/tensor/dtype.h"
#include "folio/text/bpe_tokenizer.h"
#include "folio/text/bpe_vocab.h"
#include "folio/text/byte_tokenizer.h"
#include "folio/text/char_tokenizer.h"
#include "folio/text/chat.h"
#include "folio/text/test_vocab.h"
#include "tests/kit/directory.h"
#include "tests/kit/expect.h"
#include "tests/kit/gguf_bytes.h"
#include "tests/kit/paths.h"

namespace folio {
namespace {

class GgufModel : public InTemporaryDirectory {
 protected:
  // A model of this configuration in a file, and as it is found there.
  FoundModel Saved(const GptConfig& config, Dtype dtype = Dtype::kF32) {
    weights_ = std::make_unique<GptWeights>(config);
    Scatter(*weights_, 3);
    SaveGgufModel(At("m.gguf"), {.weights = *weights_, .dtype = dtype});
    return FindModel(At("m.gguf"));
  }
  std::string SaveRefused(const GptConfig& config, Dtype dtype = Dtype::kF32) {
    return ErrorAndHelp([&] { Saved(config, dtype); });
  }

  std::unique_ptr<GptWeights> weights_;
};

TEST_F(GgufModel, OfAnotherProgramGivesItsNumbersLogitsAndIds) {
  const std::filesystem::path dir = Fixture("gguf-tiny");
  SafetensorsFile expected(dir / "expected.safetensors");
  const FoundModel found = FindModel(dir / "model.gguf");
  EXPECT_EQ(found.format, "gguf");
  EXPECT_TRUE(found.model.config.tie_word_embeddings);
  EXPECT_EQ(found.model.config.eos_token_id, 0);
  EXPECT_EQ(found.model.config.layer_norm_epsilon, 1e-5);
  const auto weights = MapWeights(found.model);
  const auto floats = [](const Tensor& x) {
    return std::vector<float>(x.data<float>(), x.data<float>() + x.count());
  };
  EXPECT_EQ(floats(weights->params().wte), expected.ReadAs<float>("wte"));
  EXPECT_EQ(floats(weights->params().h[1].attn.c_attn.weight), expected.ReadAs<float>("c_attn"));

  const std::vector<float> logits = LogitsOf(*weights, expected.ReadAs<int32_t>("ids"));
  const std::vector<double> theirs = expected.ReadAs<double>("logits");
  ASSERT_EQ(logits.size(), theirs.size());
  for (size_t i = 0; i < logits.size(); ++i) EXPECT_NEAR(logits[i], theirs[i], 2e-5) << i;

  std::string text;
  for (const int32_t byte : expected.ReadAs<int32_t>("text")) text += static_cast<char>(byte);
  const auto ids = expected.ReadAs<int32_t>("text_ids");
  EXPECT_EQ(found.tokenizer->Encode(text, "text", SpecialRule::Allow()), ids);
  EXPECT_EQ(found.tokenizer->Decode(ids), text);
}

TEST_F(GgufModel, EveryShapeOfGpt2ComesBackBitForBit) {
  GptConfig other = TinyConfig();
  other.tie_word_embeddings = false;
  other.n_inner = 10;
  other.layer_norm_epsilon = 1e-6;
  other.bos_token_id = 3;
  other.eos_token_id = 10;
  other.more_eos_token_ids = {4, 7};
  for (const GptConfig& config : {TinyConfig(), other}) {
    const FoundModel found = Saved(config);
    EXPECT_EQ(found.model.config, config);
    EXPECT_TRUE(SameNumbers(*ReadWeights(found.model), *weights_));
    EXPECT_TRUE(SameNumbers(*MapWeights(found.model), *weights_));
    // To a directory and back: the bytes of one that never was anything else.
    std::filesystem::create_directories(At("direct"));
    std::filesystem::create_directories(At("through"));
    SaveModel(At("direct"), *weights_);
    SaveModel(At("through"), *MapWeights(found.model));
    EXPECT_EQ(FilesBelow(At("direct")), FilesBelow(At("through")));
  }
}

TEST_F(GgufModel, HasNamesForThreeTokensThatEndATextAndNoMore) {
  GptConfig config = TinyConfig();
  config.eos_token_id = 10;
  config.more_eos_token_ids = {4, 7, 5};
  EXPECT_TRUE(Contains(SaveRefused(config), "the model has 4", ", GGUF has room for 3"));
}

TEST_F(GgufModel, HasTheNamesShapesAndTypesThatOtherProgramsAskFor) {
  GptConfig config = TinyConfig();
  config.n_embd = 64;
  config.n_inner = 96;
  config.n_layer = 1;
  for (const Dtype dtype : {Dtype::kF32, Dtype::kF16, Dtype::kBF16, Dtype::kQ8_0, Dtype::kQ4_0,
                            Dtype::kQ4_1, Dtype::kQ5_0, Dtype::kQ5_1}) {
    Saved(config, dtype);
    const GgufFile file(At("m.gguf"));
    const std::map<std::string, Shape> vectors = {
        {"position_embd.weight", {5, 64}}, {"blk.0.attn_norm.weight", {64}},
        {"blk.0.attn_norm.bias", {64}},    {"blk.0.attn_qkv.bias", {192}},
        {"blk.0.attn_output.bias", {64}},  {"blk.0.ffn_norm.weight", {64}},
        {"blk.0.ffn_norm.bias", {64}},     {"blk.0.ffn_up.bias", {96}},
        {"blk.0.ffn_down.bias", {64}},     {"output_norm.weight", {64}},
        {"output_norm.bias", {64}}};
    const std::map<std::string, Shape> matrices = {{"token_embd.weight", {11, 64}},
                                                   {"blk.0.attn_qkv.weight", {192, 64}},
                                                   {"blk.0.attn_output.weight", {64, 64}},
                                                   {"blk.0.ffn_up.weight", {96, 64}},
                                                   {"blk.0.ffn_down.weight", {64, 96}}};
    EXPECT_EQ(file.tensors().size(), vectors.size() + matrices.size());
    for (const auto& [name, shape] : vectors) {
      EXPECT_EQ(file.Require(name, shape).dtype, Dtype::kF32) << name;
    }
    for (const auto& [name, shape] : matrices) {
      EXPECT_EQ(file.Require(name, shape).dtype, dtype) << name;
    }
  }
  const std::vector<float> qkv = [&] {
    Saved(config);
    return GgufFile(At("m.gguf")).ReadAs<float>("blk.0.attn_qkv.weight");
  }();
  const float* ours = weights_->params().h[0].attn.c_attn.weight.data<float>();
  for (size_t in = 0; in < 64; ++in) {
    for (size_t out = 0; out < 192; ++out) EXPECT_EQ(qkv[out * 64 + in], ours[in * 192 + out]);
  }
}

// The types are those of llama.cpp's llama_tensor_get_type for Q4_K_M.
TEST_F(GgufModel, AMixtureHasTheTypesOfLlamaCpp) {
  const auto types = [&](const ConfigChanges& changes) {
    GptWeights weights(With(With(TinyConfig(), {{"n_embd", "256"}, {"n_layer", "4"}}), changes));
    Scatter(weights, 3);
    SaveGgufModel(At("m.gguf"), {.weights = weights, .dtype = Dtype::kQ4_K, .mixed = true});
    const GgufFile file(At("m.gguf"));
    EXPECT_EQ(file.Integer("general.file_type"), 15);
    std::map<std::string, std::string_view> found;
    for (const TensorInfo& info : file.tensors()) {
      if (info.dtype != Dtype::kF32) found[info.name] = DtypeName(info.dtype);
    }
    return found;
  };
  auto found = types({{"n_inner", "512"}});
  EXPECT_EQ(found.size(), 17u);
  EXPECT_EQ(found["token_embd.weight"], "Q6_K");
  for (const int layer : {0, 1, 2, 3}) {
    const std::string block = fmt::format("blk.{}.", layer);
    EXPECT_EQ(found[block + "attn_qkv.weight"], "Q5_K");
    EXPECT_EQ(found[block + "attn_output.weight"], "Q4_K");
    EXPECT_EQ(found[block + "ffn_up.weight"], "Q4_K");
    EXPECT_EQ(found[block + "ffn_down.weight"], layer >= 2 ? "Q6_K" : "Q4_K");
  }
  found = types({{"n_inner", "320"}, {"tie_word_embeddings", "false"}});
  EXPECT_EQ(found["output.weight"], "Q6_K");
  EXPECT_EQ(found["token_embd.weight"], "Q4_K");
  EXPECT_EQ(found["blk.1.ffn_down.weight"], "Q5_0");
  EXPECT_EQ(found["blk.2.ffn_down.weight"], "Q8_0");
  found = types({{"n_embd", "96"}, {"n_inner", "80"}});
  EXPECT_EQ(found["token_embd.weight"], "Q8_0");
  EXPECT_EQ(found["blk.0.attn_qkv.weight"], "Q5_1");
  EXPECT_EQ(found["blk.0.ffn_down.weight"], "F16");
}

TEST_F(GgufModel, SaysWhatOtherProgramsAskForInUnsigned32Bits) {
  Saved(TinyConfig(), Dtype::kF16);
  const std::string bytes = FilesBelow(At("")).at("m.gguf");
  GgufBytes expected;
  expected.String("general.architecture", "gpt2")
      .String("general.type", "model")
      .String("general.name", "m")
      .U32("general.file_type", 1)
      .U32("gpt2.context_length", 5)
      .U32("gpt2.embedding_length", 6)
      .U32("gpt2.block_count", 2)
      .U32("gpt2.feed_forward_length", 24)
      .U32("gpt2.attention.head_count", 2)
      .U32("gpt2.vocab_size", 11)
      .Key("gpt2.attention.layer_norm_epsilon", 6, GgufBytes::Raw(std::bit_cast<uint32_t>(1e-5f)))
      .String("tokenizer.ggml.model", "no_vocab")
      .Key("tokenizer.ggml.add_bos_token", 7, "\0");
  EXPECT_NE(bytes.find(expected.keys), bytes.npos);
}

TEST_F(GgufModel, WithoutBiasesComputesTheSame) {
  GptConfig config = TinyConfig();
  config.bias = false;
  const FoundModel found = Saved(config);
  EXPECT_TRUE(found.model.config.bias);
  const std::vector<int32_t> ids = {1, 10, 0, 7};
  EXPECT_EQ(LogitsOf(*MapWeights(found.model), ids), LogitsOf(*weights_, ids));
}

TEST_F(GgufModel, WhatGpt2CannotExpressIsNotWritten) {
  ExpectSettingsRefused(TinyConfig(),
                        {{"norm_position", "post"},
                         {"position_embedding", "sinusoidal"},
                         {"activation_function", "relu"},
                         {"lm_head_bias", "true"},
                         {"causal", "false"},
                         {"scale_attn_weights", "false"},
                         {"scale_attn_by_inverse_layer_idx", "true"}},
                        [&](const GptConfig& config) { return SaveRefused(config); });
  EXPECT_TRUE(
      Contains(SaveRefused(With(TinyConfig(), {{"norm_position", "post"}})), "convert to hf"));
  EXPECT_TRUE(Contains(SaveRefused(TinyConfig(), Dtype::kQ8_0), "blocks of 32", "n_embd is 6",
                       "use f16 or bf16"));
  const GptConfig wide = With(TinyConfig(), {{"n_embd", "32"}, {"n_inner", "48"}});
  EXPECT_TRUE(Contains(SaveRefused(wide, Dtype::kQ4_0), "n_inner is 48"));
  EXPECT_TRUE(Contains(SaveRefused(wide, Dtype::kQ6_K), "blocks of 256", "q4_k_m"));
  EXPECT_TRUE(Names().empty());
}

// --- files of other programs, put together by hand

// V 3, P 2, C 2, H 1, L 1, F 3.
GgufBytes Small(const std::string& leave_out = "") {
  GgufBytes bytes;
  bytes.String("general.architecture", "gpt2");
  const std::pair<const char*, uint32_t> sizes[] = {{"gpt2.context_length", 2},
                                                    {"gpt2.embedding_length", 2},
                                                    {"gpt2.block_count", 1},
                                                    {"gpt2.feed_forward_length", 3},
                                                    {"gpt2.attention.head_count", 1}};
  for (const auto& [key, value] : sizes) {
    if (key != leave_out) bytes.U32(key, value);
  }
  const std::pair<const char*, std::vector<uint64_t>> tensors[] = {
      {"token_embd.weight", {2, 3}},        {"position_embd.weight", {2, 2}},
      {"blk.0.attn_norm.weight", {2}},      {"blk.0.attn_norm.bias", {2}},
      {"blk.0.attn_qkv.weight", {2, 6}},    {"blk.0.attn_qkv.bias", {6}},
      {"blk.0.attn_output.weight", {2, 2}}, {"blk.0.attn_output.bias", {2}},
      {"blk.0.ffn_norm.weight", {2}},       {"blk.0.ffn_norm.bias", {2}},
      {"blk.0.ffn_up.weight", {2, 3}},      {"blk.0.ffn_up.bias", {3}},
      {"blk.0.ffn_down.weight", {3, 2}},    {"blk.0.ffn_down.bias", {2}},
      {"output_norm.weight", {2}},          {"output_norm.bias", {2}}};
  for (const auto& [name, dims] : tensors) {
    if (name == leave_out || (leave_out == "bias" && std::string(name).ends_with(".bias")))
      continue;
    uint64_t count = 1;
    for (const uint64_t dim : dims) count *= dim;
    bytes.Tensor(name, dims, 0, std::string(4 * count, '\x3C'));
  }
  return bytes;
}

class GgufModelByHand : public InTemporaryDirectory {
 protected:
  FoundModel Open(const GgufBytes& bytes) const { return FindModel(PutFile("x", bytes.File())); }
  std::string Refusal(const GgufBytes& bytes) const {
    return ErrorAndHelp([&] { Open(bytes); });
  }
};

TEST_F(GgufModelByHand, IsTiedWithoutAHeadOrWithTheEmbeddingsOnceMore) {
  EXPECT_TRUE(Open(Small()).model.config.tie_word_embeddings);
  GgufBytes again = Small();
  again.Tensor("output.weight", {2, 3}, 0, std::string(24, '\x3C'));
  EXPECT_TRUE(Open(again).model.config.tie_word_embeddings);
  GgufBytes other = Small();
  other.Tensor("output.weight", {2, 3}, 0, std::string(24, '\x3D'));
  EXPECT_FALSE(Open(other).model.config.tie_word_embeddings);
  GgufBytes halves = Small();
  halves.Tensor("output.weight", {2, 3}, 1, std::string(12, '\x3C'));
  EXPECT_FALSE(Open(halves).model.config.tie_word_embeddings);
}

TEST_F(GgufModelByHand, BiasesMayBeMissing) {
  EXPECT_TRUE(Open(Small()).model.config.bias);
  const GptConfig config = Open(Small("bias")).model.config;
  EXPECT_FALSE(config.has_attention_bias() || config.has_mlp_bias() ||
               config.has_layer_norm_bias());
  EXPECT_TRUE(Contains(Refusal(Small("blk.0.attn_output.bias")), "no tensor", "attn_output.bias"));
}

TEST_F(GgufModelByHand, WhatIsNotGpt2IsRefusedByName) {
  GgufBytes mamba;
  mamba.String("general.architecture", "mamba");
  EXPECT_TRUE(Contains(Refusal(mamba), "\"mamba\"", "folio supports gpt2, llama"));
  EXPECT_TRUE(Contains(Refusal({}), "architecture \"\""));
  for (const char* key :
       {"gpt2.context_length", "gpt2.block_count", "gpt2.attention.head_count",
        "gpt2.feed_forward_length", "token_embd.weight", "blk.0.ffn_down.weight"}) {
    EXPECT_TRUE(Contains(Refusal(Small(key)), key)) << key;
  }
  for (const uint32_t count : {0u, 2u, 65535u, 1u << 31}) {
    EXPECT_TRUE(Contains(Refusal(Small("gpt2.block_count").U32("gpt2.block_count", count)), "x"));
  }
  EXPECT_TRUE(Contains(Refusal(Small("gpt2.context_length").U32("gpt2.context_length", 3)),
                       "position_embd.weight", "wrong shape"));
  EXPECT_TRUE(
      Contains(Refusal(Small("gpt2.attention.head_count").U32("gpt2.attention.head_count", 3)),
               "n_head must divide n_embd"));
  EXPECT_TRUE(Contains(Refusal(Small().U32("gpt2.attention.head_count_kv", 4)), "head_count_kv"));
  EXPECT_TRUE(Contains(Refusal(Small().Tensor("rope_freqs.weight", {1}, 0, "1234")),
                       "rope_freqs.weight", "not part of the model"));
  EXPECT_TRUE(Contains(
      Refusal(Small("token_embd.weight").Tensor("token_embd.weight", {6}, 0, std::string(24, 'x'))),
      "\" is not a matrix"));
  EXPECT_TRUE(Contains(Refusal(Small().Tensor("k", {256}, 16, std::string(66, 'k'))),
                       "tensor \"k\" has the type IQ2_XXS", "Q2_K to Q6_K"));
  EXPECT_TRUE(Contains(Refusal(Small().String("tokenizer.ggml.model", "t5")), "tokenizer \"t5\""));
}

TEST_F(GgufModelByHand, CutShortOrFlippedItIsReadOrRefused) {
  const std::string whole = Small().File();
  const auto open = [&](const std::string& bytes) {
    try {
      MapWeights(FindModel(PutFile("x", bytes)).model);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kInput) << error.what();
    }
  };
  for (size_t at = 0; at < whole.size(); at += 3) {
    open(whole.substr(0, at));
    std::string bytes = whole;
    bytes[at] = static_cast<char>(bytes[at] ^ (at % 2 == 0 ? 0xFF : 0x04));
    open(bytes);
  }
}

TEST_F(GgufModelByHand, WhatCannotBeRunIsStillListed) {
  const std::vector<ListedTensor> listed =
      ListGgufTensors(PutFile("x", Small().Tensor("k", {256}, 16, std::string(66, 'k')).File()));
  ASSERT_EQ(listed.size(), 17u);
  EXPECT_EQ(listed[0].name, "token_embd.weight");
  EXPECT_EQ(listed[0].dtype, "F32");
  EXPECT_EQ(listed[0].bytes, 24u);
  EXPECT_EQ(listed[16].dtype, "IQ2_XXS");
}

// `rows` of 256 numbers in random blocks, whose scales are small.
std::string RandomBlocks(Dtype dtype, int64_t rows) {
  constexpr uint16_t kScale = 0x2123;
  const BlockLayout& layout = LayoutOf(dtype);
  const auto block = static_cast<int64_t>(DtypeBlock(dtype));
  const size_t bytes = DtypeBytes(dtype, block);
  std::string data(DtypeBytes(dtype, rows * 256), '\0');
  const CounterRng rng(static_cast<uint64_t>(dtype), 0);
  for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<char>(rng.Bits(i));
  for (size_t at = 0; at < data.size(); at += bytes) {
    for (size_t i = 0; i < layout.count; ++i) {
      data.replace(at + layout.scales + 2 * i, 2, GgufBytes::Raw(kScale));
    }
  }
  return data;
}

// Small() with matrices of blocks, the embeddings of one type and the others of another.
GgufBytes OfBlocks(Dtype embeddings, Dtype others) {
  GgufBytes bytes;
  bytes.String("general.architecture", "gpt2");
  const std::pair<const char*, uint32_t> sizes[] = {{"gpt2.context_length", 2},
                                                    {"gpt2.embedding_length", 256},
                                                    {"gpt2.block_count", 1},
                                                    {"gpt2.feed_forward_length", 256},
                                                    {"gpt2.attention.head_count", 1}};
  for (const auto& [key, value] : sizes) bytes.U32(key, value);
  const auto matrix = [&](const char* name, Dtype dtype, uint64_t rows) {
    bytes.Tensor(name, {256, rows}, *DtypeInGgml(dtype),
                 RandomBlocks(dtype, static_cast<int64_t>(rows)));
  };
  matrix("token_embd.weight", embeddings, 3);
  matrix("blk.0.attn_qkv.weight", others, 768);
  for (const char* name : {"attn_output", "ffn_up", "ffn_down"}) {
    matrix(fmt::format("blk.0.{}.weight", name).c_str(), others, 256);
  }
  for (const char* name : {"blk.0.attn_norm", "blk.0.ffn_norm", "output_norm"}) {
    bytes.Tensor(fmt::format("{}.weight", name), {256}, 0, std::string(1024, '\x3C'));
  }
  return bytes.Tensor("position_embd.weight", {256, 2}, 0, std::string(2048, '\x3C'));
}

TEST_F(GgufModelByHand, MatricesOfEveryTypeOfBlocksAreReadAndKept) {
  constexpr Dtype kTypes[] = {Dtype::kQ8_0, Dtype::kQ4_0, Dtype::kQ4_1,  Dtype::kQ5_0,
                              Dtype::kQ5_1, Dtype::kQ2_K, Dtype::kQ3_K,  Dtype::kQ4_K,
                              Dtype::kQ5_K, Dtype::kQ6_K, Dtype::kIQ4_NL};
  Dtype last = Dtype::kIQ4_NL;
  for (const Dtype type : kTypes) {
    const Dtype embeddings = std::exchange(last, type);
    const FoundModel found = Open(OfBlocks(embeddings, type));
    const auto floats = MapWeights(found.model);
    EXPECT_TRUE(SameNumbers(*ReadWeights(found.model), *floats));
    const auto stored = MapWeights(found.model, {.as_stored = true});
    for (size_t i = 0; i < found.model.params.size(); ++i) {
      const TensorInfo& from = found.model.params[i].from;
      if (!IsBlocked(from.dtype)) continue;
      const Tensor& x = stored->tensors()[i];
      EXPECT_EQ(x.dtype(), IsStored(from.dtype) ? from.dtype : Dtype::kQ8_0);
      std::vector<float> numbers(static_cast<size_t>(x.count()));
      DecodeFloats(from.data, from.dtype, std::span(numbers));
      RoundTo(IsStored(from.dtype) ? Dtype::kF32 : Dtype::kQ8_0, numbers);
      std::vector<float> kept(numbers.size());
      DecodeFloats(x.raw(), x.dtype(), std::span(kept));
      EXPECT_EQ(kept, numbers) << DtypeName(from.dtype);
      std::vector<float> turned(numbers.size());
      GatherRows(floats->tensors()[i], found.model.params[i].transposed, 0, turned);
      RoundTo(x.dtype() == from.dtype ? Dtype::kF32 : Dtype::kQ8_0, turned);
      EXPECT_EQ(turned, kept) << DtypeName(from.dtype);
    }
  }
}

TEST_F(GgufModelByHand, AMinimumThatIsNotFiniteIsFound) {
  GgufBytes bytes = OfBlocks(Dtype::kQ4_K, Dtype::kQ4_K);
  bytes.data.replace(144 + 2, 2, GgufBytes::Raw(uint16_t{0x7C00}));
  const FoundModel found = Open(bytes);
  EXPECT_TRUE(Contains(ErrorOf([&] { MapWeights(found.model, {.as_stored = true}); }),
                       "token_embd.weight", "not finite"));
}

}  // namespace
}  // namespace folio
