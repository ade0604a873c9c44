// The output of `folio train` before and during training, through the real program.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>

#include "folio/base/simd_targets.h"
#include "folio/base/strings.h"
#include "folio/cli/command_line.h"
#include "folio/commands/commands.h"
#include "folio/commands/train/test_train.h"
#include "folio/train/run_log.h"
#include "folio/train/test_event_reader.h"
#include "tests/kit/json.h"

namespace folio {
namespace {

class TrainOutput : public TrainTest {
 protected:
  // On prepared data: a dry run prepares none.
  TrainOutput() {
    const std::string out = At("data").string();
    Well(RunFolio("data prepare " + data_ + " --tokenizer char --out " + out));
    data_ = out;
  }
};

TEST_F(TrainOutput, AModelThatReadsBothWaysIsLookedIntoButCannotWrite) {
  Well(Train("model.causal=false model.mlp_pdrop=0.1 model.sublayer_pdrop=0.1"));
  const std::string model = " --model " + At("run").string();
  ExpectError(2, "generate --prompt a" + model, "cannot generate text", "causal is false");
  ExpectError(2, Words("--overwrite --set model.causal=false log.sample_every=2"),
              "log.sample_every is 2");
  const nlohmann::json weights = Answer("inspect attention --layer 0 --text tex" + model)
                                     .at("texts")
                                     .at(0)
                                     .at("heads")
                                     .at(0)
                                     .at("weights");
  EXPECT_GT(weights.at(0).at(2).get<double>(), 0);  // ahead
  const ProgramRun walk = Well(RunFolio("explain attention --text tex" + model));
  EXPECT_EQ(walk.out.find("scores of later tokens"), std::string::npos);
  EXPECT_TRUE(Contains(walk.out, "ahead too."));
}

TEST_F(TrainOutput, DryRunTellsMemoryAndTime) {
  EXPECT_TRUE(Contains(Well(Train("--dry-run")).out, "weights", "gradients", "moments", "logits",
                       "peak", "estimated time ", "4 steps", "fp32 on ", ", 32 tokens per step"));
  const std::vector<nlohmann::json> lines = JsonLines(Train("--dry-run --json").out);
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
  const std::vector<nlohmann::json> events = JsonLines(Train("--json").out);
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
  const ProgramRun run = Well(Train("--log-every 2 --progress plain"));
  EXPECT_TRUE(Contains(run.out + run.err, "step=2/4", "tokens_per_second=",
                       "model_flops_per_second=", "tokens/s in training", "estimated time "));
  for (const nlohmann::json& line : JsonLines(ReadFile(At("run/metrics.jsonl")))) {
    EXPECT_FALSE(line.contains("model_flops_per_second")) << line;
  }
}

TEST_F(TrainOutput, PipedLinesComeWithTimeAndEvaluationsWithTheirStep) {
  const ProgramRun run = Well(Train("--eval-every 2 --progress plain"));
  EXPECT_EQ(Count(run.err, "\nstep="), 1u) << run.err;  // the last one; the run takes less than
                                                        // five seconds
  EXPECT_TRUE(Contains(run.err, "step=4/4 loss=", " eta_seconds=", " val_loss=", " val_step=2 "));
  for (const char* evaluated :
       {"\nstep 0: training loss", "\nstep 2: training loss", "\nstep 4: training loss"}) {
    EXPECT_EQ(Count(run.err, evaluated), 1u) << run.err;
  }
}

TEST_F(TrainOutput, ARunRemembersTheDtypeItBeganWith) {
  Well(Train("--dtype auto --max-steps 1"));
  EXPECT_TRUE(Contains(ReadFile(At("run/config.toml")), "dtype = \"fp32\""));
  std::filesystem::remove_all(At("run"));
  Well(Train("--dtype bf16 --max-steps 1"));
  EXPECT_TRUE(Contains(ReadFile(At("run/config.toml")), "dtype = \"bf16\""));
  const ProgramRun resumed = Well(RunFolio(Resumed("--json --max-steps 2")));
  EXPECT_EQ(JsonLines(resumed.out).front().at("dtype"), "bf16");
  EXPECT_EQ(JsonLines(resumed.out).front().at("steps"), 1);
}

TEST_F(TrainOutput, ARefusedResumeLeavesTheRunAsItWas) {
  Well(Train("--max-steps 1"));
  const std::string settings = ReadFile(At("run/config.toml"));
  const std::string resume = Resumed("--json --max-steps 3");
  const ProgramRun refused = RunFolio(resume + " --set model.n_embd=16");
  EXPECT_TRUE(refused.status != 0 && Contains(refused.err, "model.n_embd cannot change"))
      << refused.err;
  EXPECT_EQ(ReadFile(At("run/config.toml")), settings);
  // The checkpoint determines where it continues, not the log, which may be ahead.
  std::ofstream(At("run/metrics.jsonl"), std::ios::app)
      << "{\"step\":2,\"loss\":3.0,\"lr\":0.001,\"tokens\":64}\n";
  EXPECT_EQ(JsonLines(RunFolio(resume + " --dry-run").out).front().at("steps"), 2);
  Well(RunFolio(resume));
}

TEST_F(TrainOutput, NoWayOutIsNamedThatIsRefused) {
  ExpectError(4, Words("--batch 16777216 --dry-run"), "this run does not fit in memory",
              "is the largest that fits", "--grad-accumulation");
  const ProgramRun run =
      Ended(4, Train("--batch 16777216 --grad-accumulation 16777216 --context 16 --dry-run"));
  EXPECT_TRUE(Contains(run.err, "this run does not fit in memory", "is the largest that fits"));
  EXPECT_FALSE(Contains(run.err, "gives the same steps of")) << run.err;
}

TEST_F(TrainOutput, SimdIsForcedAndTheReferenceHasNone) {
  EXPECT_EQ(JsonLines(Train("--dry-run --json --backend reference").out).at(0).at("product_unit"),
            "reference");
  const std::string least = SimdTargets().back();
  const std::vector<nlohmann::json> forced =
      JsonLines(Train("--dry-run --json --simd " + least).out);
  ASSERT_EQ(forced.size(), 1);
  EXPECT_EQ(forced[0].at("simd"), least);
  EXPECT_EQ(forced[0].at("product_unit"), least);
  ExpectError(2, Words("--dry-run --simd MMX"),
              "instruction set \"MMX\" is not available on this machine", "available: ");
}

TEST(SimdFlag, IsWhereThreadsAre) {
  const CommandLine line(AllCommands());
  int with_threads = 0;
  for (const CommandEntry& entry : line.commands()) {
    const auto has = [&](const std::string& name) {
      return std::ranges::any_of(entry.flags().list(),
                                 [&](const Flag& flag) { return flag.name == name; });
    };
    if (entry.info.name == "config show") continue;  // it computes nothing
    with_threads += has("--threads") ? 1 : 0;
    EXPECT_EQ(has("--threads"), has("--simd")) << entry.info.name;
  }
  EXPECT_GE(with_threads, 15);
}

namespace fs = std::filesystem;

using Place = std::pair<std::string, int64_t>;  // tag and step

class TensorBoardFlag : public TrainTest {
 protected:
  ProgramRun Begin(const std::string& more = "--tensorboard") const {
    return Train("train.eval_every=2 log.sample_every=2 log.sample_tokens=20 --max-steps 5 " +
                 more);
  }

  // The event files, by name.
  std::vector<fs::path> Files() const {
    std::vector<fs::path> files;
    if (!fs::exists(At("run/tensorboard"))) return files;
    for (const auto& entry : fs::directory_iterator(At("run/tensorboard"))) {
      files.push_back(entry.path());
    }
    std::ranges::sort(files);
    return files;
  }
  std::vector<DecodedEvent> Events(const fs::path& file) const {
    return ParseEvents(DecodeEvents(ReadRecords(file), At("")));
  }

  // Returns the values that a reader keeps from all files: a restart drops that step and later
  // ones.
  std::map<Place, double> Scalars() const {
    std::map<Place, double> scalars;
    for (const fs::path& file : Files()) {
      for (const DecodedEvent& event : Events(file)) {
        if (event.session == "START") {
          std::erase_if(scalars, [&](const auto& s) { return s.first.second >= event.step; });
        }
        if (event.tag.empty() || event.tag == "sample") continue;
        EXPECT_TRUE(scalars.emplace(Place{event.tag, event.step}, event.value).second)
            << event.tag << " of step " << event.step << " is there twice";
      }
    }
    return scalars;
  }
  // The same from metrics.jsonl.
  std::map<Place, double> Metrics() const {
    std::map<Place, double> scalars;
    for (const StepMetrics& m : ReadRunLog(At("run"))) {
      const std::pair<const char*, std::optional<double>> values[] = {
          {"loss", m.loss},
          {"lr", m.lr},
          {"grad_norm", m.grad_norm},
          {"tokens_per_second", m.tokens_per_second},
          {"train_eval_loss", m.train_eval_loss},
          {"val_loss", m.val_loss}};
      for (const auto& [tag, value] : values) {
        if (value) scalars[{tag, m.step}] = *value;
      }
    }
    return scalars;
  }
  void ExpectSameAsMetrics() const {
    const std::map<Place, double> scalars = Scalars(), metrics = Metrics();
    ASSERT_EQ(scalars.size(), metrics.size());
    for (const auto& [place, value] : metrics) {
      ASSERT_TRUE(scalars.contains(place)) << place.first << " of step " << place.second;
      EXPECT_EQ(static_cast<float>(scalars.at(place)), static_cast<float>(value)) << place.first;
    }
  }
};

TEST_F(TensorBoardFlag, NothingIsWrittenWithoutIt) {
  Well(Begin(""));
  EXPECT_TRUE(Files().empty());
}

TEST_F(TensorBoardFlag, ScalarsAreThoseOfTheRunLog) {
  if (!HasProtoc()) GTEST_SKIP() << "protoc is not installed";
  Well(Begin());
  ASSERT_EQ(Files().size(), 1u);
  EXPECT_EQ(Metrics().size(), 5u * 4 + 4u * 2);  // evaluations before steps 0, 2, 4 and at the end
  ExpectSameAsMetrics();
  double last = 0;
  for (const DecodedEvent& event : Events(Files()[0])) {
    EXPECT_GE(event.wall_time, last);
    EXPECT_GT(event.wall_time, 1.6e9);
    last = event.wall_time;
  }
}

TEST_F(TensorBoardFlag, SamplesKeepTheirLines) {
  if (!HasProtoc()) GTEST_SKIP() << "protoc is not installed";
  Well(Begin());
  std::vector<std::string> found, expected;
  for (const DecodedEvent& event : Events(Files().at(0))) {
    if (event.tag == "sample") found.push_back(std::to_string(event.step) + event.text);
  }
  for (const nlohmann::json& json : JsonLines(ReadFile(At("run/samples.jsonl")))) {
    std::string text = "    " + json["text"].get<std::string>();
    for (size_t at = text.find('\n'); at != std::string::npos; at = text.find('\n', at + 1)) {
      text.replace(at, 1, "\\n    ");
    }
    expected.push_back(std::to_string(json["step"].get<int64_t>()) + text);
  }
  EXPECT_EQ(expected.size(), 2u);
  EXPECT_EQ(found, expected);
}

TEST_F(TensorBoardFlag, AResumedRunAppendsAFileAndRepeatsNothing) {
  if (!HasProtoc()) GTEST_SKIP() << "protoc is not installed";
  Well(Begin());
  const std::string before = ReadFile(Files().at(0));
  Well(RunFolio(Resumed("--max-steps 9")));  // the setting is stored in the run
  ASSERT_EQ(Files().size(), 2u);
  EXPECT_EQ(ReadFile(Files()[0]), before);
  for (const DecodedEvent& event : Events(Files()[1])) {
    EXPECT_TRUE(event.tag.empty() || event.step >= 5) << event.tag << " " << event.step;
  }
  ExpectSameAsMetrics();
}

TEST_F(TensorBoardFlag, OverwritingARunRemovesItsEvents) {
  Well(Begin());
  const fs::path old = Files().at(0);
  Well(Begin("--tensorboard --overwrite"));
  EXPECT_EQ(Files().size(), 1u);
  EXPECT_FALSE(fs::exists(old));
}

}  // namespace
}  // namespace folio
