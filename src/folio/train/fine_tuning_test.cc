// Twenty steps of fine-tuning beside those of transformers and PEFT, which
// tests/fixtures/fine-tuning holds.

#include <gtest/gtest.h>

#include <cstring>
#include <nlohmann/json.hpp>
#include <vector>

#include "folio/io/file.h"
#include "folio/model/checkpoint.h"
#include "folio/model/lora.h"
#include "folio/model/weight_init.h"
#include "folio/train/train_step.h"
#include "tests/kit/paths.h"

namespace folio {
namespace {

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
      const double loss = train_step.Accumulate(inputs, targets, 1.0 / (B * T), {.on = true});
      train_step.Finish({}, 5e-3, 1.0, step);
      losses.push_back(loss / (B * T));
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
  GptWeights weights(
      ParamTable(model->config(), LoadAdapterConfig(Fixture("fine-tuning") / "adapter")));
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
