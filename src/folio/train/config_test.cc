#include "folio/train/config.h"

#include <gtest/gtest.h>

#include <map>

#include "folio/backend/backend.h"
#include "folio/backend/ops.h"
#include "folio/base/error.h"
#include "folio/base/fields.h"
#include "folio/model/config.h"
#include "folio/model/params.h"
#include "folio/model_files/config_json.h"
#include "folio/model_files/families.h"
#include "folio/tensor/dtype.h"
#include "tests/kit/expect.h"
#include "tests/kit/fields.h"

namespace folio {

// Which dtype a run computes in.
namespace {

// Says what it supports and prefers, and runs nothing.
class Idle final : public GenericBackend<Idle> {
 public:
  explicit Idle(Dtype preferred, bool bf16 = true) : preferred_(preferred), bf16_(bf16) {}
  std::string name() const override { return "idle"; }
  std::string description() const override { return "idle"; }
  bool Supports(Dtype dtype) const override { return dtype == Dtype::kF32 || bf16_; }
  Dtype PreferredDtype() const override { return preferred_; }

  template <class Op>
  void Apply(const Op&) {}

 private:
  Dtype preferred_;
  bool bf16_;
};

TEST(TrainDtype, AutoIsWhatTheBackendPrefersForALargeModel) {
  const GptConfig gpt2;
  EXPECT_EQ(TrainConfig().dtype, "auto");
  EXPECT_EQ(TrainDtype({}, gpt2, Idle(Dtype::kBF16)), Dtype::kBF16);
  EXPECT_EQ(TrainDtype({}, gpt2, Idle(Dtype::kF32)), Dtype::kF32);
  EXPECT_EQ(TrainDtype({}, gpt2, *MakeReferenceBackend()), Dtype::kF32);
}

TEST(TrainDtype, AutoIsFp32WhereBf16GainsNothingOrIsNotWhatIsComparedWith) {
  GptConfig model;
  model.n_embd = 63;
  EXPECT_EQ(TrainDtype({}, model, Idle(Dtype::kBF16)), Dtype::kF32);
  model.n_embd = 64;
  EXPECT_EQ(TrainDtype({}, model, Idle(Dtype::kBF16)), Dtype::kBF16);
  TrainConfig lockstep;
  lockstep.rng = "torch";
  EXPECT_EQ(TrainDtype(lockstep, GptConfig(), Idle(Dtype::kBF16)), Dtype::kF32);
}

TEST(TrainDtype, WhatIsAskedForIsDone) {
  TrainConfig train;
  GptConfig small;
  small.n_embd = 8;
  train.rng = "torch";
  train.dtype = "bf16";
  EXPECT_EQ(TrainDtype(train, small, Idle(Dtype::kF32)), Dtype::kBF16);
  train.dtype = "fp32";
  EXPECT_EQ(TrainDtype(train, GptConfig(), Idle(Dtype::kBF16)), Dtype::kF32);
}

TEST(TrainDtype, RefusesBf16WhereTheBackendHasNone) {
  TrainConfig train;
  train.dtype = "bf16";
  const Idle backend(Dtype::kF32, false);
  const std::string error =
      ErrorOf([&] { TrainDtype(train, GptConfig(), backend); }, ErrorKind::kUsage);
  EXPECT_TRUE(Contains(error, "idle", "bf16")) << error;
}

TEST(TrainDtype, ItsNameReadsBackAsItself) {
  for (const Dtype dtype : {Dtype::kF32, Dtype::kBF16}) {
    TrainConfig train;
    train.dtype = DtypeSetting(dtype);
    for (const Dtype preferred : {Dtype::kF32, Dtype::kBF16}) {
      EXPECT_EQ(TrainDtype(train, GptConfig(), Idle(preferred)), dtype);
    }
  }
}

TEST(PassOptions, AreTheRunsDtypeAndRecomputation) {
  TrainConfig train;
  Idle backend(Dtype::kBF16);
  EXPECT_EQ(PassOptionsOf(train, GptConfig(), backend), (PassOptions{.dtype = Dtype::kBF16}));
  train.recompute = true;
  train.dtype = "fp32";
  EXPECT_EQ(PassOptionsOf(train, GptConfig(), backend), (PassOptions{.recompute = true}));
}

}  // namespace

namespace {

struct Configured {
  GptConfig model;
  TrainConfig train;
};

// Applies the model.* and train.* settings of a preset; a wrong key or value throws.
Configured Apply(const Preset& preset) {
  Configured c;
  auto fields = WithPrefix("model.", c.model.Fields());
  for (Field& field : WithPrefix("train.", c.train.Fields())) fields.push_back(field);
  for (const auto& [key, value] : preset.settings) {
    if (key.starts_with("data.")) continue;
    SetField(FindField(fields, key), value, preset.name);
  }
  c.model.Validate(preset.name);
  c.train.Validate(preset.name);
  return c;
}

TEST(Presets, EachIsValid) {
  for (const Preset& preset : Presets()) EXPECT_NO_THROW(Apply(preset)) << preset.name;
}

TEST(Presets, Gpt2SizesHaveThePublishedParameterCounts) {
  const std::map<std::string, int64_t> counts = {{"gpt2", 124'439'808},
                                                 {"gpt2-medium", 354'823'168},
                                                 {"gpt2-large", 774'030'080},
                                                 {"gpt2-xl", 1'557'611'200}};
  for (const auto& [name, count] : counts) {
    const GptConfig model = Apply(FindPreset(name)).model;
    EXPECT_EQ(ParamTable(model).parameters(), count) << name;
    EXPECT_EQ(model.head_size(), 64) << name;
    EXPECT_EQ(model.eos_token_id, 50256) << name;
  }
}

TEST(Presets, CharCpuIsTheRunThatLockstepFollows) {
  const auto [model, train] = Apply(FindPreset("char-cpu"));
  EXPECT_EQ(model.n_layer, 4);
  EXPECT_EQ(model.n_head, 4);
  EXPECT_EQ(model.n_embd, 128);
  EXPECT_EQ(model.n_positions, 64);
  EXPECT_FALSE(model.bias);
  EXPECT_EQ(model.resid_pdrop, 0);
  EXPECT_EQ(train.batch_size, 12);
  EXPECT_EQ(train.max_steps, 2000);
  EXPECT_EQ(train.decay_steps, 2000);
  EXPECT_EQ(train.learning_rate, 1e-3);
  EXPECT_EQ(train.min_lr, 1e-4);
  EXPECT_EQ(train.warmup_steps, 100);
  EXPECT_EQ(train.beta2, 0.99);
  EXPECT_EQ(train.eval_every, 250);
  EXPECT_EQ(train.eval_batches, 20);
}

TEST(Presets, CharGpuDropsOutEverywhere) {
  const auto [model, train] = Apply(FindPreset("char-gpu"));
  EXPECT_EQ(model.n_layer, 6);
  EXPECT_EQ(model.n_embd, 384);
  EXPECT_EQ(model.n_positions, 256);
  EXPECT_EQ(model.embd_pdrop, 0.2);
  EXPECT_EQ(model.attn_pdrop, 0.2);
  EXPECT_EQ(model.resid_pdrop, 0.2);
  EXPECT_EQ(train.batch_size, 64);
  EXPECT_EQ(train.decay_steps, 5000);
  EXPECT_EQ(train.eval_batches, 200);
}

TEST(Presets, DebugIsDoneInAMoment) {
  const auto [model, train] = Apply(FindPreset("debug"));
  EXPECT_EQ(model.n_layer, 2);
  EXPECT_EQ(train.batch_size, 2);   // B
  EXPECT_EQ(model.n_positions, 8);  // T
  EXPECT_EQ(model.n_embd, 4);       // C
  EXPECT_EQ(model.n_head, 2);       // H
  EXPECT_EQ(model.inner(), 4);      // F
  EXPECT_EQ(train.max_steps, 100);
  EXPECT_EQ(train.eval_every, 50);
  EXPECT_LT(train.warmup_steps, train.max_steps);
}

// The models of the presets; those that are compared have as many parameters.
TEST(Presets, OfOtherKindsOfModelsAreThese) {
  const auto [llama, as_stories] = Apply(FindPreset("llama-tiny"));
  EXPECT_EQ(FamilyFor(llama, FileFormat::kHuggingFace).model_type, "llama");
  EXPECT_EQ(llama.head_layout().kv_heads, 2);
  EXPECT_EQ(as_stories.max_steps, Apply(FindPreset("stories")).train.max_steps);
  const GptConfig stories = Apply(FindPreset("stories")).model;
  EXPECT_EQ(ParamTable(llama).matrix_parameters(), ParamTable(stories).matrix_parameters());
  const GptConfig qwen = Apply(FindPreset("qwen3-tiny")).model;
  EXPECT_EQ(FamilyFor(qwen, FileFormat::kHuggingFace).model_type, "qwen3");
  EXPECT_EQ(qwen.head_size(), 64);
  // Biases that are left to `bias` are written for other programs, and read back as they were.
  for (const GptConfig& model : {llama, qwen}) {
    const std::string json = GptConfigToJson(model);
    EXPECT_TRUE(Contains(json, R"("attention_bias": false)")) << json;
    EXPECT_EQ(GptConfigFromJson(json, "config.json"), model);
  }
  const GptConfig nanochat = Apply(FindPreset("nanochat-tiny")).model;
  // Matrices, a table and gates in every second layer, smear's two, and three of factors.
  EXPECT_EQ(ParamTable(nanochat).params().size(), 2u + 4 * 4 + 2 * 2 + 2 + 3);
  EXPECT_EQ(FamilyFor(nanochat, FileFormat::kHuggingFace).model_type, "folio");
  EXPECT_EQ(nanochat.activation_function, Activation::kRelu2);
  EXPECT_EQ(nanochat.logit_cap, 15);
}

TEST(Presets, AMisspeltNameIsAnsweredWithTheNearest) {
  const Error error = Refused([] { FindPreset("char-cup"); }, ErrorKind::kUsage);
  EXPECT_STREQ(error.what(), "there is no preset 'char-cup'");
  EXPECT_EQ(error.help(), "did you mean 'char-cpu'?");
}

}  // namespace

}  // namespace folio
