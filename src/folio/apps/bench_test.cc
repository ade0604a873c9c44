// That the benchmarks run and count right; how fast anything is, is not tested.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "folio/apps/bench_train.h"
#include "folio/apps/percentile.h"
#include "folio/apps/program_run.h"
#include "folio/io/test_files.h"

namespace folio {
namespace {

using Json = nlohmann::json;

constexpr char kTiny[] = FOLIO_SOURCE_DIR "/tests/fixtures/gpt2-tiny";

TEST(BenchTrain, JsonHasAllFigures) {
  const ProgramRun run =
      RunFolio(std::string("bench train --batch 3 --context 7 --steps 5 --seconds 0 --threads 1 "
                           "--json --model ") +
               kTiny);
  ASSERT_EQ(run.status, 0);
  const Json json = Json::parse(run.text);
  for (const char* key :
       {"tokens_per_second", "seconds_per_step", "seconds_per_step_min", "seconds_per_step_p90",
        "flops_per_second", "matmul_flops_per_second", "peak_share", "peak_memory_bytes"}) {
    EXPECT_GT(json.at(key).get<double>(), 0) << key;
  }
  EXPECT_EQ(json.at("steps"), 5);
  EXPECT_EQ(json.at("batch"), 3);
  EXPECT_EQ(json.at("context"), 7);
  EXPECT_EQ(json.at("threads"), 1);
  EXPECT_EQ(json.at("backend"), "cpu");
  EXPECT_EQ(json.at("parameters"), 97 * 32 + 24 * 32 + 2 * (12 * 32 * 32 + 13 * 32) + 64);
  const double seconds = json.at("seconds_per_step");
  EXPECT_LE(json.at("seconds_per_step_min").get<double>(), seconds);
  EXPECT_GE(json.at("seconds_per_step_p90").get<double>(), seconds);
  EXPECT_NEAR(json.at("tokens_per_second").get<double>() * seconds, 21, 1e-9);
  EXPECT_NEAR(json.at("flops_per_second").get<double>() * seconds, json.at("flops_per_step"), 1);
  EXPECT_LT(json.at("last_loss").get<double>(), 7);
}

TEST(BenchTrain, OpsCountOnlyTheTimedSteps) {
  const std::string command =
      std::string("bench train --batch 1 --context 2 --steps 4 --seconds 0 --ops --model ") + kTiny;
  const Json json = Json::parse(RunFolio(command + " --json").text);
  bool found = false;
  for (const Json& op : json.at("ops")) {
    if (op.at("name") != "adamw_update") continue;
    found = true;
    EXPECT_EQ(op.at("calls"), 8);  // two for each step: what decays, and the rest
  }
  EXPECT_TRUE(found) << json.at("ops");
  EXPECT_TRUE(Contains(RunFolio(command).text, "tokens/s", "adamw_update", "linear_backward"));
}

TEST(BenchTrain, FlopsAreThoseOfTheFormula) {
  const GptConfig gpt2;
  const double matrices = 50257 * 768 + 12 * 12 * 768.0 * 768;
  EXPECT_DOUBLE_EQ(TrainFlopsPerStep(gpt2, 4, 64), 4 * 64 * (6 * matrices + 12.0 * 12 * 64 * 768));
}

TEST(BenchTrain, WhatIsTooLargeIsRefusedBeforeItIsAllocated) {
  const ProgramRun run = RunFolio(
      "bench train --preset gpt2-xl --batch 65536 --context 1024 --json", /*with_stderr=*/true);
  EXPECT_EQ(run.status, 4) << run.text;
  EXPECT_TRUE(Contains(run.text, "does not fit into memory"));
  EXPECT_EQ(RunFolio(std::string("bench train --context 25 --model ") + kTiny).status, 2);
}

TEST(BenchMatmul, PeakIsTheBestOfTheProducts) {
  const Json json = Json::parse(RunFolio("bench matmul --json").text);
  double best = 0;
  for (const Json& product : json.at("products")) {
    const double flops = 2.0 * product.at("N").get<double>() * product.at("I").get<double>() *
                         product.at("O").get<double>();
    EXPECT_NEAR(product.at("flops_per_second").get<double>() * product.at("seconds").get<double>(),
                flops, flops * 1e-9);
    best = std::max(best, product.at("flops_per_second").get<double>());
  }
  EXPECT_GT(best, 0);
  EXPECT_EQ(json.at("flops_per_second"), best);
}

TEST(Percentile, LiesBetweenNeighbours) {
  EXPECT_EQ(Percentile({3, 1, 2}, 0.5), 2);
  EXPECT_EQ(Percentile({4, 1}, 0.5), 2.5);
  EXPECT_EQ(Percentile({5}, 0.9), 5);
  EXPECT_EQ(Percentile({5, 1, 3}, 0), 1);
  EXPECT_EQ(Percentile({5, 1, 3}, 1), 5);
}

}  // namespace
}  // namespace folio
