// Twenty steps of adapters beside a model as its makers published it, against those of PEFT
// (scripts/peft_lockstep.py). The model is not part of the project.

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "folio/backend/backend.h"
#include "folio/formats/model_formats.h"
#include "folio/io/file.h"
#include "folio/io/json.h"
#include "folio/io/safetensors.h"
#include "folio/model/gpt.h"
#include "folio/model/lora.h"
#include "folio/model/weight_init.h"
#include "folio/model_files/adapter_files.h"
#include "folio/model_files/checkpoint.h"
#include "tests/kit/directory.h"
#include "tests/kit/paths.h"

namespace folio {
namespace {

namespace fs = std::filesystem;

// The losses of PEFT 0.21.2 with transformers 5.24.0 and PyTorch 2.13.0 in float32, each before its
// step.
constexpr std::array<double, 20> kLosses = {1.247882, 0.492761, 1.656763, 1.285574, 0.77497,
                                            0.284032, 1.110724, 0.908304, 0.541904, 0.206293,
                                            0.668017, 0.568301, 0.288797, 0.180671, 0.391053,
                                            0.35847,  0.205072, 0.167762, 0.254546, 0.222625};
constexpr int64_t kSequences = 2, kTokens = 40;

class PublishedLora : public InTemporaryDirectory {
 protected:
  void SetUp() override {
    if (!fs::exists(models_ / kFile)) GTEST_SKIP() << kFile << " is not here";
  }

  // Gives the adapters the numbers that they begin with, by the order of their names in files.
  void Begin(const GptWeights& weights) const {
    SaveAdapter(At(""), weights, kFile);
    const SafetensorsFile file(At(kAdapterWeightsFile), Loading::kRead);
    std::set<std::string> names;
    for (const TensorInfo& info : file.tensors()) names.insert(info.name);
    std::deque<std::vector<float>> numbers;
    std::vector<NamedTensor> tensors;
    for (const std::string& name : names) {
      const Shape shape = file.Require(name).shape;
      std::vector<float>& to = numbers.emplace_back(static_cast<size_t>(shape.count()));
      const bool is_a = name.find("lora_A") != name.npos;
      for (size_t i = 0; is_a && i < to.size(); ++i) {
        const double at = 0.7 * static_cast<double>(i) + static_cast<double>(tensors.size());
        to[i] = static_cast<float>(0.02 * std::sin(at));
      }
      tensors.push_back({name, Tensor(to.data(), shape)});
    }
    WriteSafetensors(At(kAdapterWeightsFile), tensors);
    LoadAdapter(At(""), weights);
  }

  // The tokens of step `step`.
  std::vector<int32_t> Tokens(const Json& prompts, int64_t step) const {
    std::vector<int32_t> ids;
    for (int64_t b = 0; b < kSequences; ++b) {
      const Json& prompt = prompts[static_cast<size_t>(kSequences * step + b) % prompts.size()];
      for (const char* part : {"ids", "greedy"}) {
        for (const Json& id : prompt[part]) {
          if (std::ssize(ids) < (b + 1) * kTokens) ids.push_back(id.get<int32_t>());
        }
      }
    }
    return ids;
  }

  static constexpr const char* kFile = "SmolLM2-135M-Instruct.Q4_1.gguf";
  const fs::path models_ = SourceDir() / "../shared/models";
};

TEST_F(PublishedLora, LossesAreThoseOfPeft) {
  const Json expected = ParseJson(ReadFile(models_ / "smollm2-expected.json"), "expected");
  const FoundModel found = FindModel(models_ / kFile);
  const GptConfig& config = found.model.config;
  LoraConfig lora{.rank = 8, .alpha = 16, .targets = "all-linear"};
  ResolveTargets(lora, config, "");
  const ParamTable table(config, lora);
  const GptWeights weights(table);
  InitWeightsFrom(*ReadWeights(found.model), weights);
  Begin(weights);
  const GptWeights grads(table, Dtype::kF32, ParamPart::kTrained);
  const GptWeights m(table, Dtype::kF32, ParamPart::kTrained);
  const GptWeights v(table, Dtype::kF32, ParamPart::kTrained);
  const auto backend = MakeBackend("cpu");
  GptPass pass(*backend, config, kSequences, kTokens, PassKind::kTraining, {.lora = lora});
  const auto rows = static_cast<double>(kSequences * (kTokens - 1));
  for (size_t step = 0; step < kLosses.size(); ++step) {
    const std::vector<int32_t> ids = Tokens(expected["prompts"], static_cast<int64_t>(step));
    std::vector<int32_t> targets(ids.begin() + 1, ids.end());
    targets.push_back(0);
    for (size_t b = 1; b <= kSequences; ++b) {
      targets[b * kTokens - 1] = CrossEntropy::kIgnore;
    }
    pass.Forward(weights.params(), ids);
    const double sum =
        pass.LossAndBackward(weights.params(), targets, 1 / rows, grads.params(), false);
    EXPECT_NEAR(sum / rows, kLosses[step], 1e-4) << step;
    backend->Run(AdamWUpdate{.param = weights.flat().Slice(0, table.trained_size()),
                             .grad = grads.flat(),
                             .m = m.flat(),
                             .v = v.flat(),
                             .lr = 1e-3,
                             .step = static_cast<int64_t>(step) + 1});
  }
}

}  // namespace
}  // namespace folio
