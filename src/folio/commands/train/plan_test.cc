// These tests check the output of `folio plan`, through the real program.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/kit/expect.h"
#include "tests/kit/json.h"
#include "tests/kit/paths.h"

namespace folio {
namespace {

const std::string kModel = Fixture("gpt2-tiny").string();

// With given rates, so that nothing is measured.
ProgramRun Plan(const std::string& flags) {
  return RunFolio("plan --flops-per-second 1e12 --memory-rate 1e11 --sum-rate 1e10 " + flags);
}

TEST(Plan, ARowForEachNumberOfRanksAndNetwork) {
  const ProgramRun run =
      Well(Plan("--model " + kModel + " --batch 2 --ranks 1,2,8 --network 1Gbit,10Gbit --json"));
  EXPECT_EQ(run.err, "");
  const nlohmann::json json = nlohmann::json::parse(run.out);
  EXPECT_EQ(json.at("schema"), 1);
  EXPECT_EQ(json.at("rank").at("flops_per_second"), 1e12);
  EXPECT_EQ(json.at("rank").at("from"), "given");
  EXPECT_EQ(json.at("context"), 24);
  const nlohmann::json& rows = json.at("rows");
  ASSERT_EQ(rows.size(), 1u + 2 + 2);  // one rank has no network
  EXPECT_EQ(rows[0].at("efficiency"), 1);
  EXPECT_FALSE(rows[0].contains("communication"));
  EXPECT_EQ(rows[2].at("network_bits_per_second"), 1e10);
  EXPECT_EQ(rows[4].at("ranks"), 8);
  EXPECT_EQ(rows[4].at("grad_accumulation"), 8);  // one micro-batch for each
  EXPECT_EQ(rows[4].at("tokens_per_step"), 8 * 2 * 24);
  const nlohmann::json& communication = rows[4].at("communication");
  EXPECT_GT(communication.at("bytes_sent_per_step").get<double>(),
            communication.at("reduce_bytes_per_micro_batch").get<double>() +
                communication.at("gather_bytes_per_step").get<double>());
  EXPECT_LE(rows[4].at("seconds_per_step").get<double>(),
            rows[3].at("seconds_per_step").get<double>());
}

TEST(Plan, MemoryIsThatOfInspectPlan) {
  const std::string shape = "--batch 3 --dtype fp32 --model " + kModel;
  const nlohmann::json row =
      nlohmann::json::parse(Plan(shape + " --ranks 4 --network 1Gbit --json").out)["rows"][0];
  EXPECT_EQ(row.at("peak_bytes"), Answer("inspect plan --ranks 4 " + shape).at("peak_bytes"));
}

TEST(Plan, TheTableSaysWhatItsColumnsMean) {
  EXPECT_TRUE(Contains(Well(Plan("--preset gpt2 --batch 4 --ranks 8 --network 1Gbit,400Gbit")).out,
                       "gpt2, 124.4M parameters", "1 Gbit/s", "400 Gbit/s", "871.29 MB", "network",
                       "Efficiency is"));
}

TEST(Plan, WhatIsNotGivenIsMeasured) {
  const nlohmann::json rank =
      Answer("plan --threads 1 --ranks 2 --network 1Gbit --model " + kModel).at("rank");
  EXPECT_GT(rank.at("flops_per_second").get<double>(), 0);
  EXPECT_EQ(rank.at("threads"), 1);
}

TEST(Plan, MistakesAreSaid) {
  const std::string plan =
      "plan --flops-per-second 1e12 --memory-rate 1e11 --sum-rate 1e10 --model " + kModel;
  ExpectError(2, plan + " --ranks 8 --grad-accumulation 12", "8 ranks cannot share 12",
              "--grad-accumulation");
  ExpectError(2, plan + " --grad-accumulation 8 --micro-batches 2", "cannot be used together");
  ExpectError(2, plan + " --ranks 0", "--ranks: '0'", "from 1 to 8192");
  ExpectError(2, plan + " --ranks 2,", "--ranks: ''");
  ExpectError(2, plan + " --network fast", "--network: 'fast' is not a bandwidth", "10Gbit");
  ExpectError(2, plan + " --network 10", "--network: '10' is not a bandwidth", "Gbit");
  ExpectError(2, plan + " --latency 20", "--latency: '20' is not a time", "20us");
  ExpectError(2, plan + " --context 25", "n_positions is 24");
}

TEST(PlanFits, SaysWhatAMemoryIsEnoughFor) {
  const nlohmann::json small = Answer("plan fits --memory 1GB --context 128");
  EXPECT_EQ(small.at("memory_bytes"), 1'000'000'000);
  const nlohmann::json& models = small.at("models");
  ASSERT_GE(models.size(), 9u);
  for (const nlohmann::json& model : models) {
    const int64_t write = model.at("write_bytes"), lora = model.at("lora_bytes"),
                  train = model.at("train_bytes"), parameters = model.at("parameters");
    EXPECT_GT(write, 2 * parameters);
    EXPECT_GT(lora, 4 * parameters);
    EXPECT_GT(train, 4 * 4 * parameters);  // with gradients and moments
    EXPECT_LT(train, 4 * 6 * parameters + 400'000'000);
    const std::vector<std::string> fits = model.at("fits");
    EXPECT_EQ(std::ranges::count(fits, "write"), write <= 1'000'000'000) << model;
    EXPECT_EQ(std::ranges::count(fits, "LoRA"), lora <= 1'000'000'000) << model;
    EXPECT_EQ(std::ranges::count(fits, "train"), train <= 1'000'000'000) << model;
  }
  EXPECT_TRUE(Contains(Well(RunFolio("plan fits --memory 100MB")).out, "smollm2-135m", "nothing",
                       "to train"));
  // If there is room, a copy of weights and moments is saved during training.
  const nlohmann::json large = Answer("plan fits --memory 1TB --context 128");
  EXPECT_GT(large["models"][0]["train_bytes"].get<int64_t>(),
            models[0]["train_bytes"].get<int64_t>() + 11 * models[0]["parameters"].get<int64_t>());
  EXPECT_EQ(Answer("plan fits --memory 2GiB")["memory_bytes"], int64_t{2} << 30);
  for (const char* wrong : {"8", "GB", "-1GB", "8XB", "nanGB", "1e30GB", "8GBs"}) {
    ExpectError(2, std::string("plan fits --memory ") + wrong, "--memory");
  }
}

}  // namespace
}  // namespace folio
