// The plan of a training run before it begins.
#include "folio/run/preview.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstring>

#include "folio/base/error.h"
#include "folio/base/strings.h"
#include "folio/run/automatic_settings.h"
#include "folio/run/run_config.h"
#include "folio/train/train_step.h"
#include "tests/kit/expect.h"

namespace folio {
namespace {

const GptConfig kModel = {
    .vocab_size = 97, .n_positions = 24, .n_embd = 32, .n_layer = 2, .n_head = 2};

TrainShape BatchOf(int64_t B) {
  return {.model = kModel, .B = B, .T = 24};
}

std::string Refusal(const TrainShape& shape, const MachineMemory& memory) {
  return ErrorAndHelp([&] { RequireTrainingFits(shape, memory); }, ErrorKind::kResource);
}

TEST(LargestThatFits, FindsTheLimitExactly) {
  for (int64_t most : {1, 2, 3, 7, 64, 1000}) {
    for (int64_t limit = 0; limit <= 12; ++limit) {
      const auto bytes = [](int64_t n) { return static_cast<uint64_t>(3 * n); };
      EXPECT_EQ(LargestThatFits(bytes, most, static_cast<uint64_t>(limit)),
                std::min(most, limit / 3));
    }
  }
}

TEST(TrainPlan, WhatFitsExactlyIsNotRefused) {
  const uint64_t bytes = PlannedBytes(BatchOf(8));
  RequireTrainingFits(BatchOf(8), {.total = bytes});
  EXPECT_NE(Refusal(BatchOf(8), {.total = bytes - 1}), "");
  RequireTrainingFits(BatchOf(8), {.total = 0});  // not known
}

TEST(TrainPlan, RefusalNamesTheLargestBatchThatFits) {
  TrainShape shape = BatchOf(8);
  shape.grad_accumulation = 3;
  const auto bytes = [&](int64_t B) {
    TrainShape other = shape;
    other.B = B;
    return PlannedBytes(other);
  };
  const uint64_t limit = bytes(5);
  EXPECT_TRUE(Contains(Refusal(shape, {.total = limit}), "batches of 8 x 24 tokens need",
                       HumanBytes(limit), "--batch 5 is the largest that fits",
                       "--batch 4 --grad-accumulation 6 gives the same steps of 24 sequences"));
  EXPECT_GT(bytes(6), limit);
}

TEST(TrainPlan, RefusalKeepsAPrimeBatchByAccumulating) {
  EXPECT_TRUE(Contains(Refusal(BatchOf(7), {.total = PlannedBytes(BatchOf(6))}), "--batch 6 is",
                       "--batch 1 --grad-accumulation 7 gives the same steps of "));
}

TEST(TrainPlan, RefusalSaysWhatRecomputationWouldDo) {
  TrainShape recomputed = BatchOf(8);
  recomputed.options.recompute = true;
  const uint64_t less = PlannedBytes(recomputed);
  ASSERT_LT(less, PlannedBytes(BatchOf(8)));
  const std::string one = Refusal(BatchOf(8), {.total = less});
  EXPECT_TRUE(Contains(one, "with --recompute this batch fits in"));
  EXPECT_TRUE(Contains(Refusal(BatchOf(100), {.total = less}),
                       "with --recompute the largest is --batch 8"));
  recomputed.B = 9;
  EXPECT_FALSE(Contains(Refusal(recomputed, {.total = less}), "--recompute"));
}

TEST(TrainPlan, WhereNothingFitsTheModelIsTooLarge) {
  const std::string refusal = Refusal(BatchOf(3), {.total = 1000});
  EXPECT_TRUE(Contains(refusal,
                       "a single sequence does not fit: use a shorter --context or a smaller "
                       "model; folio inspect plan shows all buffers"));
  EXPECT_FALSE(Contains(refusal, "--batch"));
}

TEST(TrainPlan, WhatCannotBeCountedDoesNotFit) {
  const GptConfig vast{.n_positions = 1 << 24, .n_embd = 1 << 20};
  const TrainShape shape{.model = vast, .B = 1 << 24, .T = 1 << 24};
  EXPECT_EQ(PlannedBytes(shape), UINT64_MAX);
  EXPECT_TRUE(Contains(Refusal(shape, {.total = 1 << 30}), "a size that overflows"));
}

TEST(TrainPlan, WarnsOfWhatIsNotFreeNow) {
  EXPECT_EQ(MemoryWarning(100, {.total = 200, .available = 100}), "");
  EXPECT_EQ(MemoryWarning(100, {.total = 200, .available = 0}), "");  // not known
  EXPECT_TRUE(Contains(MemoryWarning(2'000'000, {.total = 1 << 30, .available = 1'000'000}),
                       "2.00 MB", "1.00 MB"));
  const MachineMemory here = ThisMachinesMemory();
  EXPECT_GT(here.available, 0);
  EXPECT_LE(here.available, here.total);
}

TEST(TrainPlan, PartsMakeUpThePeak) {
  const PlanTotals totals(TrainStep::Plan(kModel, 3, 7, {}));
  EXPECT_EQ(totals.weights + totals.gradients + totals.optimizer + totals.activations, totals.peak);
  EXPECT_GE(totals.logits, 21 * 97 * sizeof(float));
  EXPECT_LT(totals.logits, totals.activations);
  EXPECT_TRUE(Contains(DescribePlan(BatchOf(3), {}), "weights", "gradients", "moments", "logits",
                       "peak", "--recompute would save"));
  TrainShape recomputed = BatchOf(3);
  recomputed.options.recompute = true;
  EXPECT_TRUE(Contains(DescribePlan(recomputed, {}), "--recompute saves"));
}

TEST(PeakMemory, ResetForgetsWhatWasGivenBack) {
  constexpr size_t kBytes = size_t{64} << 20;
  if (!ResetPeakMemory()) GTEST_SKIP() << "the system does not reset it";
  const uint64_t before = PeakMemoryBytes();
  // Mapped, since an allocator may keep what it is given back.
  void* block = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(block, MAP_FAILED);
  std::memset(block, 1, kBytes);
  ASSERT_EQ(munmap(block, kBytes), 0);
  ASSERT_GE(PeakMemoryBytes(), before + kBytes / 2);
  ASSERT_TRUE(ResetPeakMemory());
  EXPECT_LT(PeakMemoryBytes(), before + kBytes / 2);
}

TEST(TrainEstimate, CountsTheEvaluationsThatAreDue) {
  const auto evaluations = [](int64_t every, int64_t steps, int64_t done) {
    TrainConfig train{.batch_size = 2, .context = 5, .max_steps = steps};
    train.eval_every = every;
    return WorkAhead(kModel, train, 1000, done).evaluations;
  };
  EXPECT_EQ(evaluations(0, 60, 0), 1);
  EXPECT_EQ(evaluations(250, 2000, 0), 9);
  EXPECT_EQ(evaluations(250, 2001, 0), 10);
  EXPECT_EQ(evaluations(30, 60, 30), 2);
  EXPECT_EQ(evaluations(30, 60, 31), 1);
  EXPECT_EQ(evaluations(30, 60, 60), 1);
  EXPECT_EQ(evaluations(30, 60, 70), 1);
}

TEST(TrainEstimate, WorkIsStepsAndEvaluations) {
  TrainConfig train{.batch_size = 2, .context = 5, .grad_accumulation = 3, .max_steps = 7};
  train.eval_every = 0;
  train.eval_batches = 4;
  const double token = TrainFlops(kModel, 5).per_token();
  const TrainWork work = WorkAhead(kModel, train, 1000, 2);
  EXPECT_EQ(work.steps, 5);
  EXPECT_EQ(work.flops_per_token, token);
  EXPECT_DOUBLE_EQ(work.evaluation_flops, token * 2 * 4 * 10 / 3.0);
  EXPECT_DOUBLE_EQ(work.flops, token * (5 * 30 + 2 * 4 * 10 / 3.0));
  train.eval_batches = 0;  // all that is held out, and as much or 20 batches of the rest
  EXPECT_DOUBLE_EQ(WorkAhead(kModel, train, 1000, 7).flops, token * (1000 + 200) / 3);
  EXPECT_DOUBLE_EQ(WorkAhead(kModel, train, 60, 7).flops, token * (60 + 60) / 3);
  train.eval_stride = 1;  // every window of 5
  EXPECT_DOUBLE_EQ(WorkAhead(kModel, train, 1000, 7).flops, token * (4980 + 200) / 3);
}

TEST(TrainEstimate, TheFirstEvaluationIsShort) {
  TrainConfig train{.batch_size = 2, .context = 5, .max_steps = 7};
  train.eval_every = 5;
  train.eval_batches = 40;
  const double token = TrainFlops(kModel, 5).per_token();
  const auto batches = [&](int64_t done) {
    const TrainWork work = WorkAhead(kModel, train, 1000, done);
    return (work.flops / token - static_cast<double>(work.steps) * 10) * 3 / 10;
  };
  EXPECT_NEAR(batches(0), 2 * (4 + 40 + 40), 1e-6);  // before steps 0 and 5, at the end
  EXPECT_NEAR(batches(1), 2 * (40 + 40), 1e-6);
  train.first_eval_batches = 0;
  EXPECT_NEAR(batches(0), 2 * (40 + 40 + 40), 1e-6);
}

std::string WarningOf(const std::string& preset,
                      std::vector<std::array<std::string, 2>> more = {}) {
  RunSettings settings;
  settings.UsePreset(preset);
  for (const auto& [key, value] : more) settings.Set(key, value);
  settings.layers.Resolve();
  return LengthWarning(settings, [] { return 1e11; });
}

TEST(LengthWarning, ARunOfYearsIsToldWithWhatWouldMendIt) {
  EXPECT_TRUE(Contains(WarningOf("gpt2"), "600,000 steps of 491,520 tokens take more than ",
                       " years on this machine: instead of --preset gpt2, --init gpt2 starts from",
                       "--budget 1h", "--max-steps N"));
  EXPECT_TRUE(Contains(WarningOf("gpt2-xl"), "--init gpt2-xl"));
  const std::string own = WarningOf("", {{"train.max_steps", "1000000000"}});
  EXPECT_TRUE(Contains(own, "--budget 1h chooses a model size for one hour;"));
  EXPECT_EQ(Count(own, "--init") + Count(own, "--preset"), 0u) << own;
}

TEST(LengthWarning, OthersAreNotWarnedOf) {
  EXPECT_EQ(WarningOf("char-cpu"), "");
  EXPECT_EQ(WarningOf("debug"), "");
  EXPECT_EQ(WarningOf("gpt2", {{"train.max_steps", "2"}, {"train.eval_batches", "1"}}), "");
  EXPECT_EQ(WarningOf("gpt2", {{"train.max_time", "8h"}}), "");
  EXPECT_EQ(WarningOf("gpt2", {{"train.max_tokens", "1000000"}}), "");
  EXPECT_EQ(WarningOf("gpt2", {{"train.budget", "1h"}}), "");
}

TEST(TrainEstimate, HowOftenATextIsReadIsANumberForPeople) {
  EXPECT_EQ(HowOften(0.001), "less than 0.01 times");
  EXPECT_EQ(HowOften(2.96), "about 3 times");
  EXPECT_EQ(HowOften(0.96), "about once");
  EXPECT_EQ(HowOften(1090065.6), "about 1,090,066 times");
}

TEST(TrainEstimate, AnEvaluationHasNoMoreThanIsHeldOut) {
  TrainConfig train{.batch_size = 32, .context = 128, .max_steps = 8};
  train.eval_every = 0;
  train.eval_batches = 20;
  const double token = TrainFlops(kModel, 24).per_token();
  train.context = 24;
  train.batch_size = 2;
  // 9 of both: those of 400 tokens fill them.
  EXPECT_DOUBLE_EQ(WorkAhead(kModel, train, 400, 0).evaluation_flops, token * 2 * 9 * 48 / 3);
}

// The work of a whole run by these settings.
TrainWork Limited(RunSettings& settings, int64_t held_out, std::string* note = nullptr) {
  settings.Set("train.context", "24");
  settings.Resolve();
  const std::string said = LimitEvaluations(settings, held_out);
  if (note != nullptr) *note = said;
  return WorkAhead(settings.config.model, settings.config.train, held_out, 0);
}

TEST(EvaluationShare, IsATenthAtMostUnlessAskedFor) {
  for (const int64_t steps : {7, 13, 52, 200, 1000, 20000}) {
    for (const int64_t every : {1, 10, 250}) {
      for (const int64_t held_out : {50, 2000, 1'000'000}) {
        RunSettings settings;
        settings.config.model = kModel;
        const std::pair<std::string, std::string> preset[] = {
            {"train.max_steps", std::to_string(steps)},
            {"train.eval_every", std::to_string(every)}};
        settings.layers.UsePreset("a preset", preset);
        std::string note;
        const TrainWork work = Limited(settings, held_out, &note);
        EXPECT_LE(work.evaluation_flops, 0.1 * work.flops) << steps << " " << every;
        const TrainConfig& train = settings.config.train;
        EXPECT_EQ(note.empty(), train.eval_batches == 20 && train.eval_every == every);
        // Not much less than that, where they were shortened.
        if (!note.empty() && train.eval_every > 0 && held_out == 1'000'000) {
          EXPECT_GE(work.evaluation_flops, 0.02 * work.flops) << steps << " " << every;
        }
      }
    }
  }
}

TEST(EvaluationShare, WhatIsSetStays) {
  RunSettings settings;
  settings.Set("train.max_steps", "20");
  settings.Set("train.eval_every", "5");
  settings.Set("train.eval_batches", "10");
  std::string note;
  const TrainWork work = Limited(settings, 100'000, &note);
  EXPECT_EQ(note, "");
  EXPECT_EQ(settings.config.train.eval_batches, 10);
  EXPECT_EQ(settings.config.train.eval_every, 5);
  EXPECT_GT(work.evaluation_flops, 0.1 * work.flops);
  RunSettings torch;
  torch.Set("train.max_steps", "20");
  torch.Set("train.rng", "torch");
  Limited(torch, 100'000);
  EXPECT_EQ(torch.config.train.eval_batches, 20);
}

// Returns the advice after 50 steps that took held-out loss from 2 to `after`, the best at a step.
std::string Advice(double after, double best, int64_t best_step, const char* targets = "c_fc") {
  RunConfig config;
  config.model = kModel;
  config.train.init = "a model";
  config.train.lora = {.rank = 2, .targets = targets};
  config.train.learning_rate = 0.003;
  return AdviceAfter(config, {.step = 50,
                              .evaluation = Evaluation{.train_loss = 1, .val_loss = after},
                              .first_val_loss = 2.0,
                              .best_val_loss = best,
                              .best_step = best_step});
}

TEST(AdviceAfterFineTuning, NamesTheNextThingToTry) {
  EXPECT_EQ(Advice(1.0, 1.0, 50), "");
  EXPECT_EQ(Advice(1.01, 1.0, 40), "");  // noise
  EXPECT_TRUE(Contains(Advice(1.5, 1.0, 30),
                       "held-out loss rose from 1.0000 at step 30 to 1.5000; best/ contains the "
                       "model of that step; next time, try fewer epochs (--max-steps",
                       "best/", "--max-steps 30", "--lr 0.001"));
  EXPECT_TRUE(Contains(
      Advice(2.1, 2.1, 50),
      "held-out loss rose from 2.0000 to 2.1000: the model did not improve; next time, try",
      "--lr 0.001"));
  EXPECT_TRUE(Contains(Advice(1.95, 1.95, 50),
                       "held-out loss hardly changed, from 2.0000 to 1.9500; next time, try",
                       "--lr 0.009 or --set lora.targets=all-linear", "more epochs"));
  const std::string all = Advice(1.95, 1.95, 50, "attn.c_attn,attn.c_proj,mlp.c_fc,mlp.c_proj");
  EXPECT_EQ(Count(all, "lora.targets"), 0u) << all;
  EXPECT_EQ(AdviceAfter({}, {.step = 50,
                             .evaluation = Evaluation{.train_loss = 1, .val_loss = 3},
                             .first_val_loss = 2.0}),
            "");  // new parameters
}

}  // namespace
}  // namespace folio
