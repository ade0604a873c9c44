#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "folio/base/strings.h"
#include "folio/io/file.h"
#include "folio/io/safetensors.h"
#include "folio/model/test_models.h"
#include "folio/model_files/checkpoint.h"
#include "folio/plot/svg.h"
#include "folio/text/byte_tokenizer.h"
#include "tests/figures/figure_checks.h"
#include "tests/kit/directory.h"
#include "tests/kit/expect.h"
#include "tests/kit/json.h"
#include "tests/kit/paths.h"

namespace folio {

// For the tests of `folio inspect`: a model of bytes created on the fly, and models whose numbers
// an independent implementation computed in float64.

// A fixture, and the first sequence of its first batch.
struct GoldenModel {
  explicit GoldenModel(const std::string& name)
      : dir(Fixture(name)), expected(dir / "expected.safetensors"), config(LoadModelConfig(dir)) {
    const TensorInfo& info = expected.Require("batches");
    T = info.shape.back() - 1;
    const std::vector<int32_t> batches = expected.ReadAs<int32_t>("batches");
    tokens.assign(batches.begin(), batches.begin() + T + 1);
  }

  // " --model DIR --ids 3,1,4", for the first T tokens: those with known logits.
  std::string Flags() const {
    std::string ids;
    for (int64_t t = 0; t < T; ++t) {
      ids += (t > 0 ? "," : "") + std::to_string(tokens[static_cast<size_t>(t)]);
    }
    return " --model " + dir.string() + " --ids " + ids;
  }
  // ln of the probabilities after position t.
  std::vector<double> LogProbabilities(int64_t t) const {
    const std::vector<double> all = expected.ReadAs<double>("logits");
    const auto begin = all.begin() + t * config.vocab_size;
    std::vector<double> row(begin, begin + config.vocab_size);
    double sum = 0;
    for (const double logit : row) sum += std::exp(logit);
    for (double& logit : row) logit -= std::log(sum);
    return row;
  }

  std::filesystem::path dir;
  SafetensorsFile expected;
  GptConfig config;
  int64_t T = 0;
  std::vector<int32_t> tokens;  // T+1
};

class InspectTest : public InTemporaryDirectory {
 protected:
  void SetUp() override {
    GptConfig config;
    config.vocab_size = 257 + 3;  // more than the tokenizer has
    config.n_positions = 13;
    config.n_embd = 12;
    config.n_layer = 2;
    config.n_head = 3;
    const GptWeights weights(config);
    Scatter(weights, 7);
    std::filesystem::create_directories(At("model"));
    SaveModel(At("model"), weights);
    ByteTokenizer().Save(At("model").string());
  }

  // `folio inspect WHAT --model` for the model of bytes.
  std::string Inspect(const std::string& what, const std::string& flags) const {
    return "inspect " + what + " --model " + At("model").string() + " " + flags;
  }
  // Its output with --json.
  nlohmann::json Seen(const std::string& what, const std::string& flags) const {
    return Answer(Inspect(what, flags));
  }
  std::string Svg(const std::string& name) const { return " --svg " + At(name).string(); }
  // The same with a figure, which must be sound.
  void ExpectDrawn(const std::string& what, const std::string& flags, const std::string& name,
                   const std::vector<std::string>& labels) const {
    const ProgramRun run = Well(RunFolio(Inspect(what, flags + Svg(name))));
    ExpectFigure(name, labels);
  }
  // The figure was written, is sound and has the labels.
  void ExpectFigure(const std::string& name, const std::vector<std::string>& labels) const {
    const std::string svg = ReadFile(At(name));
    for (const std::string& label : labels) EXPECT_TRUE(Contains(svg, XmlEscape(label))) << name;
    if (WhyNoRenderer().empty()) {
      EXPECT_EQ(CheckFigure(svg, labels), "") << name;
    }
  }
};

}  // namespace folio
