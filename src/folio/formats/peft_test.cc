// Adapters that PEFT saved (tests/fixtures/peft/README.md), and what is not one for a model.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "folio/formats/convert_model.h"
#include "folio/formats/test_expected.h"
#include "folio/io/file.h"
#include "folio/io/safetensors.h"
#include "folio/io/test_zip_bytes.h"
#include "folio/model/checkpoint.h"
#include "folio/model/lora.h"
#include "folio/model/test_models.h"
#include "folio/model/transformer.h"
#include "tests/kit/directory.h"
#include "tests/kit/expect.h"
#include "tests/kit/paths.h"

namespace folio {
namespace {

namespace fs = std::filesystem;

// Theirs are of float64; merged weights are float32.
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
  const GptWeights apart(ParamTable(bare->config(), LoadAdapterConfig(At("adapter"))));
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
                                                          {"target_modules", ".*attn"},
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
    return name.find("h.1.attn.c_attn.lora_B") == name.npos ? name : "base_model.model.wte.weight";
  });
  EXPECT_TRUE(Contains(Refusal(), "no tensor", "h.1.attn.c_attn.lora_B"));
  // The adapter is of a model of another size, and of fewer blocks.
  GptConfig config = TinyConfig();
  std::filesystem::create_directories(At("other"));
  SaveModel(At("other"), GptWeights(config));
  EXPECT_TRUE(
      Contains(ErrorAndHelp([&] { FindModel(At("other"), Loading::kMap, peft_ / "plain"); }),
               "has the wrong shape", "(3, 6)", "give the model that it was trained for"));
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
                       "no adapter here", "adapter_config.json is missing", "save_pretrained"));
  // An adapter is no model.
  EXPECT_TRUE(Contains(ErrorAndHelp([&] { FindModel(At("adapter")); }), "an adapter, and no model",
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
