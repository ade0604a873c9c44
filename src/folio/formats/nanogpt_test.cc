#include "folio/formats/nanogpt.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "folio/formats/model_formats.h"
#include "folio/formats/test_expected.h"
#include "folio/io/file.h"
#include "folio/io/json.h"
#include "folio/io/model_dir.h"
#include "folio/io/pickle.h"
#include "folio/io/test_zip_bytes.h"
#include "folio/io/torch_file.h"
#include "folio/model/test_models.h"
#include "folio/model/transformer.h"
#include "folio/model_files/checkpoint.h"
#include "folio/tensor/dtype.h"
#include "folio/text/byte_tokenizer.h"
#include "folio/text/char_tokenizer.h"
#include "folio/text/test_vocab.h"
#include "tests/kit/directory.h"
#include "tests/kit/expect.h"
#include "tests/kit/paths.h"

namespace folio {
namespace {

const std::filesystem::path kTorch = Fixture("torch-tiny"), kNano = Fixture("nanogpt-tiny");

class TorchFormats : public InTemporaryDirectory {
 protected:
  FoundModel Found(const std::string& bytes) const { return FindModel(PutFile("ckpt.pt", bytes)); }
  std::string Refusal(const std::string& bytes) const {
    return ErrorAndHelp([&] { Found(bytes); });
  }
};

TEST_F(TorchFormats, APytorchModelBinGivesItsLogits) {
  for (const Loading loading : {Loading::kMap, Loading::kRead}) {
    const FoundModel found = FindModel(kTorch, loading);
    EXPECT_EQ(found.format, "hf");
    EXPECT_TRUE(GivesExpected(found.model, kTorch));
  }
}

TEST_F(TorchFormats, ShardsOfAPytorchModelAreOneModel) {
  std::filesystem::copy(kTorch, At("model"));
  const std::string shard = "pytorch_model-00001-of-00001.bin";
  Json map = Json::object();
  const TorchFile whole(At("model") / kTorchWeightsFile);
  for (const TensorInfo& info : whole.tensors()) map.Add(info.name, shard);
  std::filesystem::rename(At("model") / kTorchWeightsFile, At("model") / shard);
  const Json index = {{"weight_map", map}};
  PutFile("model/pytorch_model.bin.index.json", index.dump());
  EXPECT_TRUE(GivesExpected(FindModel(At("model")).model, kTorch));
  std::filesystem::remove(At("model") / shard);
  EXPECT_TRUE(Contains(ErrorOf([&] { FindModel(At("model")); }), shard, "is missing"));
}

TEST_F(TorchFormats, SafetensorsComeFirst) {
  std::filesystem::copy(kTorch, At("model"));
  WriteFileAtomically(At("model/model.safetensors"), "not this one");
  EXPECT_TRUE(Contains(ErrorOf([&] { FindModel(At("model")); }), "safetensors"));
}

TEST_F(TorchFormats, ANanoGptCheckpointGivesItsLogitsAndItsCharacters) {
  for (const auto& path : {kNano, kNano / "ckpt.pt"}) {
    const FoundModel found = FindModel(path);
    EXPECT_EQ(found.format, "nanogpt");
    EXPECT_FALSE(found.model.config.bias);
    EXPECT_EQ(found.model.config.attn_pdrop, 0.25);
    EXPECT_TRUE(GivesExpected(found.model, kNano));
    ASSERT_NE(found.tokenizer, nullptr);
    EXPECT_EQ(found.tokenizer->vocab_size(), 11);
    EXPECT_EQ(found.tokenizer->Decode(found.tokenizer->EncodeOrdinary("hello\n")), "hello\n");
  }
}

TEST_F(TorchFormats, TheMetaOfANanoGptDataSetIsFoundWhereNanoGptKeepsIt) {
  std::filesystem::create_directories(At("data/letters"));
  PutFile("out/ckpt.pt", ReadFile(kNano / "ckpt.pt"));
  const FoundModel without = FindModel(At("out"));
  EXPECT_EQ(without.tokenizer, nullptr);
  EXPECT_TRUE(Contains(without.tokenizer_help, "meta.pkl"));
  std::filesystem::copy_file(kNano / "meta.pkl", At("data/letters/meta.pkl"));
  EXPECT_NE(FindModel(At("out")).tokenizer, nullptr);
  WriteFileAtomically(At("out/meta.pkl"), WholePickle(PickleDict({{"itos", "}"}})));
  EXPECT_TRUE(Contains(ErrorAndHelp([&] { FindModel(At("out")); }), "meta.pkl", "--tokenizer"));
}

// A checkpoint of nanoGPT's shape with one block of one channel; `args` replace model_args.
std::string NanoBytes(const std::string& args, const std::string& extra_name = "") {
  const auto tensor = [](const std::vector<int64_t>& sizes) {
    return PickleTensor(
        "FloatStorage", "0", 4, 0, sizes,
        sizes.size() == 2 ? std::vector<int64_t>{sizes[1], 1} : std::vector<int64_t>{1});
  };
  ZipFiles items = {{"transformer.wte.weight", tensor({2, 1})},
                    {"transformer.wpe.weight", tensor({2, 1})},
                    {"transformer.h.0.ln_1.weight", tensor({1})},
                    {"transformer.h.0.attn.c_attn.weight", tensor({3, 1})},
                    {"transformer.h.0.attn.c_proj.weight", tensor({1, 1})},
                    {"transformer.h.0.attn.bias", tensor({1, 1})},
                    {"transformer.h.0.ln_2.weight", tensor({1})},
                    {"transformer.h.0.mlp.c_fc.weight", tensor({4, 1})},
                    {"transformer.h.0.mlp.c_proj.weight", tensor({1, 4})},
                    {"transformer.ln_f.weight", tensor({1})},
                    {"lm_head.weight", tensor({2, 1})}};
  if (!extra_name.empty()) items.emplace_back(extra_name, tensor({1}));
  return TorchBytes(PickleDict({{"model", PickleDict(items)}, {"model_args", args}}),
                    {std::string(16, '\1')});
}

ZipFiles Args() {
  return {{"n_layer", PickleInt(1)},    {"n_head", PickleInt(1)},     {"n_embd", PickleInt(1)},
          {"block_size", PickleInt(2)}, {"vocab_size", PickleInt(2)}, {"bias", "\x89"},
          {"dropout", "K\x01"}};
}

TEST_F(TorchFormats, ModelArgsThatDoNotFitAreRefused) {
  const auto refusal = [&](const std::string& key, const std::string& value) {
    ZipFiles args = Args();
    for (auto& [name, pickled] : args) {
      if (name == key) pickled = value;
    }
    args.back().second = key == "dropout" ? value : "G" + std::string(8, '\0');
    return Refusal(NanoBytes(PickleDict(args)));
  };
  EXPECT_TRUE(Contains(refusal("n_layer", PickleInt(2)), "no tensor", "transformer.h.1"));
  EXPECT_TRUE(Contains(refusal("n_layer", PickleInt(65535)), "fewer tensors"));
  EXPECT_TRUE(Contains(refusal("n_layer", PickleInt(int64_t{1} << 60)), "n_layer"));
  EXPECT_TRUE(Contains(refusal("n_embd", PickleInt(64)), "wrong shape"));
  EXPECT_TRUE(Contains(refusal("n_embd", PickleInt(-1)), "n_embd"));
  EXPECT_TRUE(Contains(refusal("n_head", PickleInt(0)), "n_head"));
  EXPECT_TRUE(Contains(refusal("bias", "\x88"), "no tensor \"model/transformer.h.0.ln_1.bias\""));
  EXPECT_TRUE(Contains(refusal("vocab_size", PickleText("2")), "wrong type"));
  EXPECT_TRUE(Contains(refusal("dropout", PickleInt(7)), "embd_pdrop"));
  EXPECT_TRUE(Contains(refusal("block_size", "]"), "wrong type"));
}

TEST_F(TorchFormats, WhatANanoGptCheckpointHasNoPlaceForIsRefused) {
  ZipFiles args = Args();
  args.back().second = "G" + std::string(8, '\0');
  EXPECT_TRUE(Found(NanoBytes(PickleDict(args))).model.config.tie_word_embeddings);
  EXPECT_TRUE(Contains(Refusal(NanoBytes(PickleDict(args), "transformer.h.0.moe.weight")),
                       "moe.weight", "not part"));
  EXPECT_TRUE(Contains(Refusal(NanoBytes("}")), "model_args has no n_layer"));
  EXPECT_TRUE(Contains(Refusal(NanoBytes("N")), ": not a nanoGPT checkpoint", "config.json"));
}

class NanoGptSaved : public TorchFormats {
 protected:
  static GptConfig Config() {
    GptConfig config = TinyConfig();
    config.activation_function = Activation::kGelu;
    config.embd_pdrop = config.attn_pdrop = config.resid_pdrop = 0.25;
    return config;
  }
  Strings NamesIn(std::string_view dir) const {
    Strings names;
    for (const auto& [name, bytes] : FilesBelow(At(dir))) names.push_back(name);
    return names;
  }
  std::string SaveRefused(const GptConfig& config, const Tokenizer* tokenizer = nullptr) const {
    const GptWeights weights(config);
    return ErrorAndHelp([&] { SaveNanoGpt(At("no"), {weights, tokenizer}); });
  }
};

TEST_F(NanoGptSaved, ComesBackBitForBit) {
  for (const bool bias : {true, false}) {
    GptConfig config = Config();
    config.bias = bias;
    const GptWeights weights(config);
    Scatter(weights, 1);
    SaveNanoGpt(At("out"), {weights});
    const FoundModel found = FindModel(At("out"));
    EXPECT_EQ(found.format, "nanogpt");
    EXPECT_EQ(found.model.config, config);
    EXPECT_TRUE(SameNumbers(*ReadWeights(found.model), weights));
    EXPECT_EQ(NamesIn("out"), Strings{"ckpt.pt"});
    const TorchFile file(At("out/ckpt.pt"));
    EXPECT_EQ(file.Require("model/lm_head.weight").data,
              file.Require("model/transformer.wte.weight").data);
    EXPECT_FALSE(file.values().contains("config"));
  }
  // nanoGPT has one setting for all biases.
  GptConfig some = Config();
  some.mlp_bias = false;
  const GptWeights weights(some);
  Scatter(weights, 1);
  SaveNanoGpt(At("some"), {.weights = weights, .dtype = Dtype::kBF16});
  const FoundModel found = FindModel(At("some"));
  EXPECT_TRUE(found.model.config.has_mlp_bias());
  EXPECT_EQ(found.model.params[0].from.dtype, Dtype::kBF16);
}

TEST_F(NanoGptSaved, CharactersLieBesideItWhereItsSampleLooks) {
  const CharTokenizer plain({U'\n', U'a', U'é'});
  const auto more = plain.WithSpecials(std::vector<std::string>{"<|endoftext|>", "<|user|>"});
  for (const Tokenizer* tokenizer : std::initializer_list<const Tokenizer*>{&plain, more.get()}) {
    GptConfig config = Config();
    config.vocab_size = tokenizer->vocab_size();
    const GptWeights weights(config);
    SaveNanoGpt(At("out/"), {weights, tokenizer});
    EXPECT_EQ(NamesIn("out"), (Strings{"ckpt.pt", "meta.pkl"}));
    EXPECT_EQ(FindModel(At("out")).tokenizer->hash(), tokenizer->hash());
    const TorchFile file(At("out/ckpt.pt"));
    EXPECT_EQ(file.values()["config"]["dataset"].text(), "../out");
    const Json meta = ReadPlainPickle(At("out/meta.pkl"));
    EXPECT_EQ(meta["vocab_size"].get<int64_t>(), tokenizer->vocab_size());
    EXPECT_EQ(meta["itos"]["2"].text(), "é");
    EXPECT_EQ(meta["stoi"]["é"].get<int64_t>(), 2);
  }
}

TEST_F(NanoGptSaved, WhatNanoGptCannotComputeIsRefusedWithTheReason) {
  ExpectSettingsRefused(Config(),
                        {{"norm_position", "post"},
                         {"tie_word_embeddings", "false"},
                         {"n_inner", "5"},
                         {"layer_norm_epsilon", "1e-06"},
                         {"activation_function", "relu"}},
                        [&](const GptConfig& config) { return SaveRefused(config); });
  const ByteTokenizer bytes;
  GptConfig config = Config();
  config.vocab_size = 257;
  EXPECT_TRUE(Contains(SaveRefused(config, &bytes), "257 tokens of kind bytes", "characters"));
  const GptWeights weights(config);
  EXPECT_TRUE(Contains(ErrorOf([&] { SaveNanoGpt(At("ckpt.pt"), {weights}); }, ErrorKind::kUsage),
                       ": nanoGPT checkpoints are directories"));
  EXPECT_EQ(Names(), Strings{});
}

// GPT-2's activation is another than nanoGPT's, which loads GPT-2's weights all the same.
TEST_F(NanoGptSaved, AnotherActivationIsSaid) {
  std::filesystem::create_directories(At("hf"));
  GptConfig config = Config();
  config.activation_function = Activation::kGeluNew;
  const GptWeights weights(config);
  Scatter(weights, 1);
  SaveModel(At("hf"), weights);
  const Converted made = ConvertModel({.from = At("hf"), .to = At("out"), .format = "nanogpt"},
                                      [](int, std::string_view) {});
  EXPECT_TRUE(Contains(made.note, "nanogpt computes gelu", "gelu_new"));
  EXPECT_GT(made.logit_difference, 0);
  EXPECT_LT(made.logit_difference, 0.1 * made.largest_logit);
  Conversion again = {.from = At("out"), .to = At("twice"), .format = "nanogpt"};
  EXPECT_EQ(ConvertModel(again, [](int, std::string_view) {}).note, "");
  EXPECT_EQ(ReadFile(At("twice/ckpt.pt")), ReadFile(At("out/ckpt.pt")));
}

}  // namespace
}  // namespace folio
