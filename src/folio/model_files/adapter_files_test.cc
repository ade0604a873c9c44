#include "folio/model_files/adapter_files.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "folio/backend/backend.h"
#include "folio/io/file.h"
#include "folio/io/safetensors.h"
#include "folio/model/adapters.h"
#include "folio/model/decoder.h"
#include "folio/model/gpt.h"
#include "folio/model/test_models.h"
#include "folio/model/transformer.h"
#include "folio/model/weight_init.h"
#include "folio/model_files/checkpoint.h"
#include "tests/kit/directory.h"
#include "tests/kit/expect.h"
#include "tests/kit/paths.h"
#include "tests/kit/warnings.h"

namespace folio {
namespace {

class AdapterFiles : public InTemporaryDirectory {
 protected:
  AdapterFiles() : weights_(AdaptedTiny("c_attn,mlp.c_proj")) {
    Scatter(weights_, 1);
    SaveAdapter(At(""), weights_, "models/base");
  }
  void Configure(const std::string& key, const nlohmann::json& value) const {
    auto json = nlohmann::json::parse(config_);
    json[key] = value;
    WriteFileAtomically(At(kAdapterConfigFile), json.dump());
  }
  std::string Refusal() const {
    const GptWeights into(weights_.table());
    return ErrorAndHelp([&] { LoadAdapter(At(""), into); }, ErrorKind::kInput);
  }

  GptWeights weights_;
  std::string config_ =
      (SaveAdapter(At(""), weights_, "models/base"), ReadFile(At(kAdapterConfigFile)));
};

TEST_F(AdapterFiles, AreLaidOutAsPeftDoes) {
  const auto json = nlohmann::json::parse(config_);
  EXPECT_EQ(json, nlohmann::json::parse(R"({"peft_type": "LORA", "task_type": "CAUSAL_LM",
      "base_model_name_or_path": "models/base", "r": 3, "lora_alpha": 5.0, "lora_dropout": 0.0,
      "target_modules": ["c_attn", "mlp.c_proj"], "fan_in_fan_out": true, "bias": "none",
      "inference_mode": true})"));
  const SafetensorsFile file(At(kAdapterWeightsFile));
  EXPECT_EQ(file.tensors().size(), 8);
  const std::string name = "base_model.model.transformer.h.1.";
  EXPECT_EQ(file.Require(name + "attn.c_attn.lora_A.weight").shape, (Shape{3, 6}));
  EXPECT_EQ(file.Require(name + "attn.c_attn.lora_B.weight").shape, (Shape{18, 3}));
  EXPECT_EQ(file.Require(name + "mlp.c_proj.lora_A.weight").shape, (Shape{3, 24}));
  EXPECT_EQ(file.Require(name + "mlp.c_proj.lora_B.weight").shape, (Shape{6, 3}));
}

TEST_F(AdapterFiles, ComeBackBitForBit) {
  const GptWeights loaded(weights_.table());
  LoadAdapter(At(""), loaded);
  const size_t trained = static_cast<size_t>(weights_.table().trained_size()) * sizeof(float);
  EXPECT_EQ(std::memcmp(loaded.flat().raw(), weights_.flat().raw(), trained), 0);
  const LoraConfig config = LoadAdapterConfig(At(""), weights_.config());
  EXPECT_EQ(config, weights_.table().lora());
}

TEST_F(AdapterFiles, OfOtherKindsAreRefusedByName) {
  const std::pair<const char*, nlohmann::json> other[] = {
      {"peft_type", "IA3"},
      {"use_dora", true},
      {"use_rslora", "yes"},
      {"init_lora_weights", "pissa_niter_4"},
      {"init_lora_weights", "loftq"},
      {"target_modules", {"lm_head"}},
      {"bias", "all"},
      {"modules_to_save", {"wte"}},
      {"rank_pattern", {{"c_attn", 4}}},
      {"target_modules", ""},
      {"target_modules", nlohmann::json::array()},
      {"r", 0},
      {"r", -1},
      {"r", 1 << 20},
      {"r", "3"},
      {"lora_alpha", 0},
      {"lora_dropout", 1},
      {"target_modules", {1}},
      {"lora_alpha", nullptr}};
  for (const auto& [key, value] : other) {
    Configure(key, value);
    EXPECT_TRUE(Contains(Refusal(), kAdapterConfigFile)) << key << " " << value;
  }
  Configure("use_dora", false);
  Configure("rank_pattern", nlohmann::json::object());
  EXPECT_EQ(LoadAdapterConfig(At(""), weights_.config()), weights_.table().lora());
}

// tests/fixtures/families/keys.py has every key of PEFT's class.
TEST_F(AdapterFiles, KeysThatNobodyKnowsAreToldOnce) {
  Warnings warnings;
  const auto golden = nlohmann::json::parse(ReadFile(Fixture("families/keys.json")));
  for (const auto& [key, value] : golden["adapter"].items()) {
    if (key == "r" || key == "lora_alpha" || key == "target_modules") continue;
    Configure(key, value);
    EXPECT_NO_THROW(LoadAdapterConfig(At(""), weights_.config())) << key;
  }
  EXPECT_EQ(warnings.Take(), "");
  Configure("use_dorra", true);
  for (int i = 0; i < 2; ++i) LoadAdapterConfig(At(""), weights_.config());
  const std::string told = warnings.Take();
  EXPECT_TRUE(Contains(told, kAdapterConfigFile,
                       "unknown key ignored: \"use_dorra\" (did you mean use_dora?)"));
  EXPECT_EQ(std::ranges::count(told, '\n'), 1);
}

TEST_F(AdapterFiles, NumbersThatAreNotFiniteAreWhoseTheyAre) {
  const GptWeights base(TinyConfig());
  Scatter(base, 4);
  const auto merged = [&] {
    std::filesystem::create_directories(At("base"));
    SaveModel(At("base"), base);
    SaveAdapter(At(""), weights_, "");
    ReadWeights(WithAdapter(OpenModelDir(At("base")), At("")));
  };
  EXPECT_NO_THROW(merged());
  Elements<float>(base.params().h[0].attn.c_attn.weight)[3] = INFINITY;
  EXPECT_TRUE(Contains(ErrorAndHelp(merged), "base/model.safetensors", "not finite"));
  Elements<float>(base.params().h[0].attn.c_attn.weight)[3] = 1;
  // Each of these is finite, and their product is not.
  for (const ParamInfo& info : weights_.table().params()) {
    if (info.kind != ParamKind::kAdapter) continue;
    std::ranges::fill(Elements<float>(weights_.table().View(info, weights_.flat())), 1e30f);
  }
  const std::string refusal = ErrorAndHelp(merged);
  EXPECT_TRUE(Contains(refusal, "the adapter makes weights that are not finite", "c_attn", "rank 3",
                       "the base model is valid"));
  EXPECT_EQ(refusal.find("model.safetensors"), std::string::npos) << refusal;
}

TEST_F(AdapterFiles, OfAnotherRunAreRefused) {
  Configure("r", 2);
  EXPECT_TRUE(
      Contains(Refusal(), ": the adapters differ from those of this run", "rank 2", "rank 3"));
  Configure("lora_alpha", 6);
  EXPECT_TRUE(Contains(Refusal(), ": the adapters differ from those of this run", "alpha 6"));
  Configure("target_modules", {"c_attn", "c_proj"});
  EXPECT_TRUE(Contains(Refusal(), ": the adapters differ from those of this run", "c_attn,c_proj"));
  std::filesystem::remove(At(kAdapterConfigFile));
  EXPECT_TRUE(Contains(Refusal(), kAdapterConfigFile));
}

TEST_F(AdapterFiles, BrokenInAnyByteAreRefusedOrOfTheRightShapes) {
  for (const char* name : {kAdapterConfigFile, kAdapterWeightsFile}) {
    const std::string whole = ReadFile(At(name));
    for (size_t length = 0; length + 1 < whole.size(); length += 1 + whole.size() / 300) {
      WriteFileAtomically(At(name), whole.substr(0, length));
      EXPECT_FALSE(Refusal().empty()) << name << " cut to " << length;
    }
    const size_t head = std::min<size_t>(whole.size(), 1200);
    for (size_t at = 0; at < head; at += 1 + head / 300) {
      std::string broken = whole;
      broken[at] = static_cast<char>(broken[at] ^ 0x15);
      WriteFileAtomically(At(name), broken);
      const GptWeights into(weights_.table());
      try {
        LoadAdapter(At(""), into);
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), ErrorKind::kInput) << error.what();
      }
    }
    WriteFileAtomically(At(name), whole);
  }
}

TEST_F(AdapterFiles, WithMoreOrFewerTensorsAreRefused) {
  GptWeights other(AdaptedTiny("c_attn,c_proj"));
  const std::string config = ReadFile(At(kAdapterConfigFile));
  SaveAdapter(At(""), other, "");
  WriteFileAtomically(At(kAdapterConfigFile), config);
  EXPECT_TRUE(Contains(Refusal(), "attn.c_proj.lora_A.weight' is not part of the adapter"));
  other = GptWeights(AdaptedTiny("c_attn"));
  SaveAdapter(At(""), other, "");
  WriteFileAtomically(At(kAdapterConfigFile), config);
  EXPECT_TRUE(Contains(Refusal(), "mlp.c_proj.lora_A.weight"));
}

// Models of families beside which PEFT trained an adapter (tests/fixtures/peft/families.py).
class PeftFamily : public InTemporaryDirectory, public testing::WithParamInterface<const char*> {
 protected:
  PeftFamily() {
    InitWeightsFrom(*ReadWeights(model_), weights_);
    LoadAdapter(dir_, weights_);
  }

  // Expects numbers to be PEFT's, but for a part of the largest.
  void ExpectClose(std::span<const float> found, const std::string& name, double part) const {
    const auto theirs = expected_.ReadAs<double>(name);
    ASSERT_EQ(found.size(), theirs.size()) << name;
    double largest = 0;
    for (const double x : theirs) largest = std::max(largest, std::abs(x));
    for (size_t i = 0; i < found.size(); ++i) {
      ASSERT_NEAR(static_cast<double>(found[i]), theirs[i], part * largest) << name << " " << i;
    }
  }
  // Logits of the last five tokens.
  void ExpectLogits(const GptWeights& weights, const char* backend_name) const {
    const auto backend = MakeBackend(backend_name);
    GptPass pass(*backend, config_, 1, T_, PassKind::kForward, {.lora = weights.table().lora()});
    pass.Forward(weights.params(), ids_);
    std::vector<float> logits(static_cast<size_t>(5 * config_.vocab_size));
    pass.Logits(weights.params(), T_ - 5, T_, Tensor(logits.data(), {5, config_.vocab_size}));
    ExpectClose(logits, "logits", 2e-5);
  }
  // Returns the numbers that families.py keeps of an adapter's tensors.
  static std::vector<float> Kept(const TensorFile& file) {
    std::set<std::string> names;
    for (const TensorInfo& info : file.tensors()) names.insert(info.name);
    std::vector<float> kept;
    for (const std::string& name : names) {
      double squares = 0, cosines = 0, sines = 0, at = 0;
      for (const double x : file.ReadAs<double>(name)) {
        squares += x * x;
        cosines += x * std::cos(at);
        sines += x * std::sin(1.7 * at++);
      }
      for (const double x : {std::sqrt(squares), cosines, sines}) {
        kept.push_back(static_cast<float>(x));
      }
    }
    return kept;
  }

  const std::filesystem::path dir_ = Fixture("peft") / GetParam(),
                              base_ = Fixture("families") / GetParam();
  const SafetensorsFile expected_{dir_ / "expected.safetensors"};
  const StoredModel model_ = OpenModelDir(base_);
  const GptConfig& config_ = model_.config;
  const GptWeights weights_{ParamTable(config_, LoadAdapterConfig(dir_, config_))};
  const std::vector<int32_t> ids_ =
      SafetensorsFile(base_ / "expected.safetensors").ReadAs<int32_t>("ids");
  const int64_t T_ = std::ssize(ids_);
};

TEST_P(PeftFamily, AnAdapterGivesPeftsLogits) {
  const auto merged = ReadWeights(WithAdapter(model_, dir_));
  for (const char* backend : {"reference", "cpu"}) {
    ExpectLogits(weights_, backend);
    ExpectLogits(*merged, backend);
  }
  const auto together = MergeAdapter(weights_);
  for (size_t i = 0; i < merged->tensors().size(); ++i) {
    EXPECT_TRUE(std::ranges::equal(Elements<float>(together->tensors()[i]),
                                   Elements<float>(merged->tensors()[i])));
  }
}

TEST_P(PeftFamily, AnAdapterIsTrainedAndSavedAsPeftDoes) {
  const auto backend = MakeBackend("cpu");
  const LoraConfig& lora = weights_.table().lora();
  GptPass pass(*backend, config_, 1, T_, PassKind::kTraining, {.lora = lora});
  const GptWeights grads(weights_.table(), Dtype::kF32, ParamPart::kTrained);
  const GptWeights m(weights_.table(), Dtype::kF32, ParamPart::kTrained);
  const GptWeights v(weights_.table(), Dtype::kF32, ParamPart::kTrained);
  std::vector<int32_t> targets(ids_.begin() + 1, ids_.end());
  targets.push_back(CrossEntropy::kIgnore);
  std::vector<float> losses;
  for (int64_t step = 1; step <= 5; ++step) {
    const auto rows = static_cast<double>(T_ - 1);
    pass.Forward(weights_.params(), ids_);
    losses.push_back(static_cast<float>(
        pass.LossAndBackward(weights_.params(), targets, 1 / rows, grads.params(), false) / rows));
    backend->Run(AdamWUpdate{.param = weights_.flat().Slice(0, weights_.table().trained_size()),
                             .grad = grads.flat(),
                             .m = m.flat(),
                             .v = v.flat(),
                             .lr = 1e-2,
                             .eps = 1e-4,
                             .step = step});
  }
  ExpectClose(losses, "losses", 1e-4);
  SaveAdapter(At(""), weights_, "base");
  const SafetensorsFile ours(At(kAdapterWeightsFile)), theirs(dir_ / kAdapterWeightsFile);
  ASSERT_EQ(ours.tensors().size(), theirs.tensors().size());
  for (const TensorInfo& info : theirs.tensors()) ours.Require(info.name, info.shape);
  ExpectClose(Kept(ours), "trained", 1e-4);
  const GptWeights again(ParamTable(config_, LoadAdapterConfig(At(""), config_)));
  EXPECT_EQ(again.table().lora(), lora);
  LoadAdapter(At(""), again);
  const auto trained = static_cast<size_t>(weights_.table().trained_size());
  EXPECT_TRUE(std::ranges::equal(Elements<float>(again.flat()).first(trained),
                                 Elements<float>(weights_.flat()).first(trained)));
}

INSTANTIATE_TEST_SUITE_P(All, PeftFamily, testing::Values("llama", "gpt_neox", "phi3"),
                         [](const auto& name) { return std::string(name.param); });

TEST(AdaptersOfFamilies, AreOfLayersAsTheFamilyHasThem) {
  constexpr std::array<std::array<const char*, 3>, 19> kCases = {{
      {"llama", "c_attn", "q,k,v"},
      {"llama", "q_proj,self_attn.v_proj", "q,v"},
      {"llama", "v,o,q", "q,v,attn.c_proj"},
      {"llama", "c_fc,down", "gate,up,mlp.c_proj"},
      {"llama", "all-linear", "q,k,v,attn.c_proj,gate,up,mlp.c_proj"},
      {"llama", "q,v", "q,v"},
      {"llama", "query_key_value", ""},
      {"llama", "q_proj,", ""},
      {"phi3", "qkv_proj,gate_up_proj", "attn.c_attn,mlp.c_fc"},
      {"phi3", "c_attn", "c_attn"},
      {"phi3", "q", ""},
      {"phi3", "up", ""},
      {"gpt_neox", "query_key_value,dense", "attn.c_attn,attn.c_proj"},
      {"gpt_neox", "up,o", "attn.c_proj,mlp.c_fc"},
      {"gpt_neox", "gate", ""},
      {"starcoder2", "c_proj", "mlp.c_proj"},
      {"starcoder2", "k,c_proj,o", "k,attn.c_proj,mlp.c_proj"},
      {"phi", "fc1,fc2,k_proj", "k,mlp.c_fc,mlp.c_proj"},
      {"phi", "lm_head", ""},
  }};
  for (const auto& [family, said, expected] : kCases) {
    const GptConfig model = OpenModelDir(Fixture("families") / family).config;
    LoraConfig lora{.rank = 1, .targets = said};
    if (*expected == 0) {
      EXPECT_TRUE(Contains(
          ErrorAndHelp([&, &f = family] { ResolveTargets(lora, model, f); }, ErrorKind::kUsage),
          ": lora.targets: there is no layer '", "_"))
          << family << " " << said;
      continue;
    }
    ResolveTargets(lora, model, family);
    ValidateTargets(lora, family);
    EXPECT_EQ(lora.targets, expected) << family << " " << said;
    ResolveTargets(lora, model, family);
    EXPECT_EQ(lora.targets, expected) << "again";
  }
}

}  // namespace
}  // namespace folio
