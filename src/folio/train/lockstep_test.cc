// Steps beside those of other programs: the first of nanoGPT's character-level run, number for
// number, and twenty of fine-tuning of transformers and PEFT, which tests/fixtures/fine-tuning
// holds.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <nlohmann/json.hpp>
#include <vector>

#include "folio/base/fields.h"
#include "folio/io/file.h"
#include "folio/model/lora.h"
#include "folio/model/weight_init.h"
#include "folio/model_files/adapter_files.h"
#include "folio/model_files/checkpoint.h"
#include "folio/train/config.h"
#include "folio/train/test_training.h"
#include "folio/train/train_step.h"
#include "folio/train/trainer.h"
#include "tests/kit/directory.h"
#include "tests/kit/fields.h"
#include "tests/kit/paths.h"

namespace folio {
namespace {

// The losses of nanoGPT (PyTorch 1.13, float32) on tinyshakespeare with seed 1337.
constexpr double kTrainAtStart = 4.1676469, kHeldOutAtStart = 4.1648989;
constexpr std::array<double, 20> kLosses = {4.1828408, 4.1373277, 4.1347442, 4.0994596, 4.0387425,
                                            3.9757564, 3.9125578, 3.846267,  3.8168833, 3.7310724,
                                            3.7365768, 3.723438,  3.7058773, 3.6790724, 3.6452589,
                                            3.6265688, 3.6050463, 3.6007614, 3.6244299, 3.6422691};

class Lockstep : public InTemporaryDirectory {
 protected:
  void SetUp() override {
    const std::string file = TestData("tinyshakespeare/input.txt");
    if (file.empty()) GTEST_SKIP() << "tinyshakespeare is not here; set FOLIO_TEST_DATA";
    const std::string text = ReadFile(file);  // ASCII
    std::string characters = text;
    std::sort(characters.begin(), characters.end());
    characters.erase(std::unique(characters.begin(), characters.end()), characters.end());
    ASSERT_EQ(characters.size(), 65u);
    std::vector<int32_t> tokens;
    for (char c : text) tokens.push_back(static_cast<int32_t>(characters.find(c)));
    const size_t train = text.size() * 9 / 10;
    data_ = MakeDataset(At("data"), std::span(tokens).first(train),
                        std::span(tokens).subspan(train), 65);
    std::vector<Field> fields = WithPrefix("model.", model_.Fields());
    for (Field& field : WithPrefix("train.", config_.Fields())) fields.push_back(field);
    for (const auto& [key, value] : FindPreset("char-cpu").settings) {
      if (!key.starts_with("data.")) SetField(FindField(fields, key), value, "preset");
    }
    model_.vocab_size = 65;
    config_.rng = "torch";
    config_.dtype = "fp32";
  }

  GptConfig model_;
  TrainConfig config_;
  std::unique_ptr<Dataset> data_;
};

TEST_F(Lockstep, TheFirstTwentyLossesAreNanoGpts) {
  ASSERT_EQ(data_->train().size(), 1003854);
  const auto backend = MakeBackend("cpu");
  std::vector<double> losses;
  std::optional<Evaluation> start;
  TrainerHooks hooks;
  hooks.on_step = [&](const StepMetrics& m) { losses.push_back(*m.loss); };
  hooks.on_evaluation = [&](int64_t step, const Evaluation& e) {
    if (step == 0) start = e;
  };
  hooks.stop_requested = [&] { return losses.size() == kLosses.size(); };
  std::filesystem::create_directories(At("run"));
  Trainer(*backend, model_, config_, *data_, At("run"), hooks).Run();
  ASSERT_TRUE(start);
  EXPECT_NEAR(start->train_loss, kTrainAtStart, 1e-4);
  EXPECT_NEAR(start->val_loss, kHeldOutAtStart, 1e-4);
  ASSERT_EQ(losses.size(), kLosses.size());
  for (size_t i = 0; i < losses.size(); ++i) EXPECT_NEAR(losses[i], kLosses[i], 1e-3) << i;
}

class FineTuning : public testing::Test {
 protected:
  // The losses of the steps that the README of the fixture describes.
  static std::vector<double> Steps(GptWeights& weights) {
    constexpr int64_t B = 3, T = 12;
    const auto backend = MakeBackend("cpu");
    TrainStep train_step(*backend, weights, B, T);
    std::vector<double> losses;
    for (int64_t step = 1; step <= 20; ++step) {
      std::vector<int32_t> inputs, targets;
      for (const auto& row : Expected().at("batches").at(static_cast<size_t>(step - 1) % 4)) {
        const auto ids = row.get<std::vector<int32_t>>();
        inputs.insert(inputs.end(), ids.begin(), ids.end() - 1);
        targets.insert(targets.end(), ids.begin() + 1, ids.end());
      }
      train_step.Begin();
      train_step.Accumulate(inputs, targets, 1.0 / (B * T), {.on = true});
      train_step.Finish(5e-3, 1.0, step);
      losses.push_back(train_step.Losses()[0] / (B * T));
    }
    return losses;
  }
  static void ExpectLosses(const std::vector<double>& found, const char* name) {
    const auto expected = Expected().at(name).get<std::vector<double>>();
    ASSERT_EQ(found.size(), expected.size());
    EXPECT_LT(found.back(), found.front() - 0.2);
    for (size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-4) << i;
  }
  static const nlohmann::json& Expected() {
    static const auto& json = *new nlohmann::json(
        nlohmann::json::parse(ReadFile(Fixture("fine-tuning") / "losses.json")));
    return json;
  }
};

TEST_F(FineTuning, LossesAreThoseOfTransformers) {
  const auto weights = LoadModel(Fixture("fine-tuning") / "model");
  ExpectLosses(Steps(*weights), "full");
}

TEST_F(FineTuning, LossesOfAdaptersAreThoseOfPeft) {
  const auto model = LoadModel(Fixture("fine-tuning") / "model");
  const LoraConfig lora = LoadAdapterConfig(Fixture("fine-tuning") / "adapter", model->config());
  GptWeights weights(ParamTable(model->config(), lora));
  InitWeightsFrom(*model, weights);
  LoadAdapter(Fixture("fine-tuning") / "adapter", weights);
  ExpectLosses(Steps(weights), "lora");
  // Nothing else has changed.
  const GptWeights after(model->config());
  InitWeightsFrom(weights, after);
  EXPECT_EQ(std::memcmp(after.flat().raw(), model->flat().raw(), after.flat().bytes()), 0);
}

}  // namespace
}  // namespace folio
