// These tests check what `folio train` tells before and while it trains, through the real program.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "folio/base/simd_targets.h"
#include "folio/base/strings.h"
#include "folio/cli/command_line.h"
#include "folio/commands/commands.h"
#include "folio/commands/train/test_train.h"

namespace folio {
namespace {

class TrainOutput : public TrainTest {
 protected:
  // On prepared data: a dry run prepares none.
  TrainOutput() {
    const std::string out = At("data").string();
    EXPECT_EQ(RunFolio("data prepare " + data_ + " --tokenizer char --out " + out).status, 0);
    data_ = out;
  }

  static std::vector<nlohmann::json> Lines(const std::string& text) {
    std::vector<nlohmann::json> lines;
    for (const std::string& line : Split(text, '\n')) {
      if (line.starts_with("{")) lines.push_back(nlohmann::json::parse(line));
    }
    return lines;
  }
};

TEST_F(TrainOutput, AModelThatReadsBothWaysIsLookedIntoButCannotWrite) {
  ASSERT_EQ(Train("model.causal=false model.mlp_pdrop=0.1 model.sublayer_pdrop=0.1").status, 0);
  const std::string model = " --model " + At("run").string();
  ExpectError(2, "generate --prompt a" + model, "cannot write", "causal = false");
  ExpectError(2, Words("--overwrite --set model.causal=false log.sample_every=2"),
              "log.sample_every is 2");
  const ProgramRun heads = RunFolio("inspect attention --layer 0 --json --text tex" + model);
  ASSERT_EQ(heads.status, 0) << heads.err;
  const nlohmann::json weights =
      nlohmann::json::parse(heads.out).at("texts").at(0).at("heads").at(0).at("weights");
  EXPECT_GT(weights.at(0).at(2).get<double>(), 0);  // ahead
  const ProgramRun walk = RunFolio("explain attention --text tex" + model);
  ASSERT_EQ(walk.status, 0) << walk.err;
  EXPECT_EQ(walk.out.find("scores of later tokens"), std::string::npos);
  EXPECT_TRUE(Contains(walk.out, "ahead too."));
}

TEST_F(TrainOutput, DryRunTellsMemoryAndTime) {
  const ProgramRun text = Train("--dry-run");
  ASSERT_EQ(text.status, 0);
  EXPECT_TRUE(Contains(text.out, "weights", "gradients", "moments", "logits", "peak", "about ",
                       "4 steps", "fp32 on ", "32 tokens a step"));
  const std::vector<nlohmann::json> lines = Lines(Train("--dry-run --json").out);
  ASSERT_EQ(lines.size(), 1);
  const nlohmann::json& plan = lines[0];
  EXPECT_EQ(plan.at("event"), "plan");
  EXPECT_EQ(plan.at("dtype"), "fp32");
  EXPECT_EQ(plan.at("tokens_per_step"), 32);
  EXPECT_EQ(plan.at("peak_bytes"), plan.at("weights_bytes").get<int64_t>() +
                                       plan.at("gradients_bytes").get<int64_t>() +
                                       plan.at("optimizer_bytes").get<int64_t>() +
                                       plan.at("activations_bytes").get<int64_t>());
  EXPECT_GT(plan.at("estimated_seconds").get<double>(), 0);
  EXPECT_FALSE(std::filesystem::exists(At("run")));
}

TEST_F(TrainOutput, EventsCarrySpeed) {
  const std::vector<nlohmann::json> events = Lines(Train("--json").out);
  ASSERT_GE(events.size(), 3);
  const nlohmann::json& plan = events.front();
  const nlohmann::json& done = events.back();
  ASSERT_EQ(plan.at("event"), "plan");
  ASSERT_EQ(done.at("event"), "done");
  const double speed = done.at("tokens_per_second");
  const double flops = done.at("model_flops_per_second");
  EXPECT_GT(speed, 0);
  EXPECT_GT(done.at("peak_memory_bytes").get<int64_t>(), plan.at("peak_bytes"));
  EXPECT_GT(plan.at("model_flops_per_second").get<double>(), 0);
  EXPECT_GT(plan.at("val_tokens").get<int64_t>(), 0);
  // 6 for each parameter of a matrix product, 12 L T C of attention.
  const double vocabulary =
      (plan.at("parameters").get<double>() - 16 * 8 - (12 * 8 * 8 + 13 * 8) - 2 * 8) / 8;
  EXPECT_NEAR(flops, speed * (6 * (vocabulary * 8 + 12 * 8 * 8) + 12 * 16 * 8), flops * 1e-9);
}

TEST_F(TrainOutput, ProgressShowsTheSpeedAndTheLogStaysAsItWas) {
  const ProgramRun run = Train("--log-every 2 --progress plain");
  ASSERT_EQ(run.status, 0);
  EXPECT_TRUE(Contains(run.out + run.err, "step=2/4", "tokens_per_second=",
                       "model_flops_per_second=", "tokens/s in training", "about "));
  for (const nlohmann::json& line : Lines(ReadFile(At("run/metrics.jsonl")))) {
    EXPECT_FALSE(line.contains("model_flops_per_second")) << line;
  }
}

TEST_F(TrainOutput, PipedLinesComeWithTimeAndEvaluationsWithTheirStep) {
  const ProgramRun run = Train("--eval-every 2 --progress plain");
  ASSERT_EQ(run.status, 0);
  EXPECT_EQ(Count(run.err, "\nstep="), 1u) << run.err;  // the last; the run takes no five seconds
  EXPECT_TRUE(Contains(run.err, "step=4/4 loss=", " eta_seconds=", " val_loss=", " val_step=2 "))
      << run.err;
  for (const char* evaluated :
       {"\nstep 0: training loss", "\nstep 2: training loss", "\nstep 4: training loss"}) {
    EXPECT_EQ(Count(run.err, evaluated), 1u) << run.err;
  }
}

TEST_F(TrainOutput, ARunRemembersTheDtypeItBeganWith) {
  ASSERT_EQ(Train("--dtype auto --max-steps 1").status, 0);
  EXPECT_TRUE(Contains(ReadFile(At("run/config.toml")), "dtype = \"fp32\""));
  std::filesystem::remove_all(At("run"));
  ASSERT_EQ(Train("--dtype bf16 --max-steps 1").status, 0);
  EXPECT_TRUE(Contains(ReadFile(At("run/config.toml")), "dtype = \"bf16\""));
  const ProgramRun resumed = RunFolio(Resumed("--json --max-steps 2"));
  ASSERT_EQ(resumed.status, 0);
  EXPECT_EQ(Lines(resumed.out).front().at("dtype"), "bf16");
  EXPECT_EQ(Lines(resumed.out).front().at("steps"), 1);
}

TEST_F(TrainOutput, ARefusedResumeLeavesTheRunAsItWas) {
  ASSERT_EQ(Train("--max-steps 1").status, 0);
  const std::string settings = ReadFile(At("run/config.toml"));
  const std::string resume = Resumed("--json --max-steps 3");
  const ProgramRun refused = RunFolio(resume + " --set model.n_embd=16");
  EXPECT_TRUE(refused.status != 0 && Contains(refused.err, "model.n_embd cannot change"))
      << refused.err;
  EXPECT_EQ(ReadFile(At("run/config.toml")), settings);
  // The checkpoint says where it goes on, not the log, which may be ahead of it.
  std::ofstream(At("run/metrics.jsonl"), std::ios::app)
      << "{\"step\":2,\"loss\":3.0,\"lr\":0.001,\"tokens\":64}\n";
  EXPECT_EQ(Lines(RunFolio(resume + " --dry-run").out).front().at("steps"), 2);
  EXPECT_EQ(RunFolio(resume).status, 0);
}

TEST_F(TrainOutput, NoWayOutIsNamedThatIsRefused) {
  const ProgramRun run =
      Train("--batch 16777216 --grad-accumulation 16777216 --context 16 --dry-run");
  EXPECT_EQ(run.status, 4);
  EXPECT_TRUE(Contains(run.err, "is the largest that fits"));
  EXPECT_FALSE(Contains(run.err, "makes the same steps")) << run.err;
}

TEST_F(TrainOutput, TheReferenceHasNoUnitOfTheMachines) {
  EXPECT_EQ(Lines(Train("--dry-run --json --backend reference").out).at(0).at("product_unit"),
            "reference");
}

TEST_F(TrainOutput, WhatDoesNotFitIsRefusedWithABatchThatDoes) {
  ExpectError(4, Words("--batch 16777216 --dry-run"), "this run does not fit into memory",
              "is the largest that fits", "--grad-accumulation");
}

TEST_F(TrainOutput, SimdIsForcedAndAWrongNameRefused) {
  const std::string least = SimdTargets().back();
  const std::vector<nlohmann::json> forced = Lines(Train("--dry-run --json --simd " + least).out);
  ASSERT_EQ(forced.size(), 1);
  EXPECT_EQ(forced[0].at("simd"), least);
  EXPECT_EQ(forced[0].at("product_unit"), least);
  ExpectError(2, Words("--dry-run --simd MMX"), "no instruction set \"MMX\"", "it has ");
}

TEST(SimdFlag, IsWhereThreadsAre) {
  const CommandLine line(AllCommands());
  int with_threads = 0;
  for (const CommandEntry& entry : line.commands()) {
    const auto has = [&](const std::string& name) {
      return std::ranges::any_of(entry.flags->list(),
                                 [&](const Flag& flag) { return flag.name == name; });
    };
    if (entry.info.name == "config show") continue;  // it computes nothing
    with_threads += has("--threads") ? 1 : 0;
    EXPECT_EQ(has("--threads"), has("--simd")) << entry.info.name;
  }
  EXPECT_GE(with_threads, 15);
}

}  // namespace
}  // namespace folio
