// These tests check what `folio plan` says, through the real program.
#include <gtest/gtest.h>

#include <string>

#include "tests/kit/expect.h"
#include "tests/kit/json.h"
#include "tests/kit/paths.h"

namespace folio {
namespace {

const std::string kModel = Fixture("gpt2-tiny").string();

// With rates of its own, so that nothing is measured.
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
  ExpectError(2, plan + " --grad-accumulation 8 --micro-batches 2", "do not go together");
  ExpectError(2, plan + " --ranks 0", "--ranks: '0'", "from 1 to 8192");
  ExpectError(2, plan + " --ranks 2,", "--ranks: ''");
  ExpectError(2, plan + " --network fast", "--network: 'fast' is no speed", "10Gbit");
  ExpectError(2, plan + " --network 10", "--network: '10' is no speed", "Gbit");
  ExpectError(2, plan + " --latency 20", "--latency: '20' is no time", "20us");
  ExpectError(2, plan + " --context 25", "n_positions is 24");
}

}  // namespace
}  // namespace folio
