// Fine-tuning with default settings: its quality, length and output, through the real program.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "folio/base/strings.h"
#include "folio/commands/train/test_train.h"
#include "folio/train/run_log.h"
#include "tests/kit/json.h"

namespace folio {
namespace {

// A model of characters that has learned one kind of lines, and a text of another kind.
class TaughtModel : public TrainTest {
 protected:
  TaughtModel() {
    std::string known;
    for (int i = 0; i < 300; ++i) {
      known += fmt::format("{} and {} are {} and {}.\n", i % 9, i % 7, "abc"[i % 3], "defg"[i % 4]);
    }
    Save("known.txt", known);
    Well(RunFolio("train --data " + At("known.txt").string() + " --out " + At("model").string() +
                  " --tokenizer bytes --batch 8 --max-steps 150 --lr 0.01 --set model.n_layer=2 "
                  "model.n_head=2 "
                  "model.n_embd=32 model.n_positions=32 train.eval_every=0 train.eval_batches=2"));
    std::string regular;
    for (int i = 0; i < 200; ++i)
      regular += fmt::format("{}: dead bad feed are {} be.\n", i % 5, i % 5);
    Save("regular.txt", regular);
  }
  void Save(const std::string& name, const std::string& text) {
    WriteFileAtomically(At(name), text);
  }
  std::string Tune(const std::string& more, const std::string& out = "tuned") const {
    return "train --init " + At("model").string() +
           (more.find("--data ") == more.npos ? " --data " + At("regular.txt").string() : "") +
           " --out " + At(out).string() + " " + more;
  }
  static nlohmann::json Event(const ProgramRun& run, const std::string& name) {
    nlohmann::json last;
    for (const nlohmann::json& event : JsonLines(run.out)) {
      if (event.at("event") == name) last = event;
    }
    EXPECT_FALSE(last.is_null()) << name;
    return last;
  }
  std::vector<int64_t> EvaluatedSteps(const std::string& run = "tuned") const {
    std::vector<int64_t> steps;
    for (const StepMetrics& m : ReadRunLog(At(run))) {
      if (m.val_loss) steps.push_back(m.step);
    }
    return steps;
  }
};

using FineTuningDefaults = TaughtModel;

TEST_F(FineTuningDefaults, TeachARegularTextWithAdaptersAndWithAllParameters) {
  for (const char* how : {"--lora 8", ""}) {
    const nlohmann::json done =
        Event(Well(RunFolio(Tune(fmt::format("--json --overwrite {}", how)))), "done");
    EXPECT_GT(done.at("first_val_loss"), 2.0) << how;
    EXPECT_LT(done.at("val_loss"), 0.4 * done.at("first_val_loss").get<double>()) << how;
    EXPECT_FALSE(done.contains("advice")) << done;
  }
}

TEST_F(FineTuningDefaults, AreSettingsThatEachCanBeAnother) {
  Well(RunFolio(Tune("--lora 4")));
  EXPECT_EQ(Setting("alpha", "tuned"), "32");
  EXPECT_EQ(Setting("targets", "tuned"), "\"attn.c_attn,attn.c_proj,mlp.c_fc,mlp.c_proj\"");
  EXPECT_EQ(Setting("weight_decay", "tuned"), "0");
  EXPECT_EQ(Setting("order", "tuned"), "\"epochs\"");
  Well(RunFolio(
      Tune("--overwrite --lora 4 --lr 0.002 --batch 3 --context 16 --epochs 2 --set lora.alpha=5 "
           "lora.targets=c_fc train.weight_decay=0.3 train.warmup_steps=7 train.order=random")));
  for (const auto& [key, value] : {std::pair{"alpha", "5"},
                                   {"targets", "\"c_fc\""},
                                   {"weight_decay", "0.3"},
                                   {"learning_rate", "0.002"},
                                   {"batch_size", "3"},
                                   {"context", "16"},
                                   {"warmup_steps", "7"},
                                   {"order", "\"random\""},
                                   {"epochs", "2"}}) {
    EXPECT_EQ(Setting(key, "tuned"), value) << key;
  }
}

using Epochs = TaughtModel;

TEST_F(Epochs, SayHowManyStepsThereAre) {
  for (const std::string& from :
       {"--init " + At("model").string(), std::string("--preset debug")}) {
    const ProgramRun run =
        Well(RunFolio("train --json --overwrite --data " + At("regular.txt").string() + " --out " +
                      At("tuned").string() + " " + from + " --epochs 1.5 --batch 4 --context 8"));
    const nlohmann::json plan = Event(run, "plan");
    const double tokens = plan.at("train_tokens");
    EXPECT_EQ(plan.at("steps"), std::llround(1.5 * tokens / 32)) << from;
    EXPECT_NEAR(plan.at("epochs"), 1.5, 0.01);
    EXPECT_TRUE(Contains(run.err, "read about 1.5 times")) << from;
    EXPECT_EQ(Setting("epochs", "tuned"), "1.5");
    EXPECT_EQ(Setting("order", "tuned"), "\"epochs\"");
  }
}

TEST_F(Epochs, AreThoseOfConversationsToo) {
  std::string lines;
  for (int i = 0; i < 40; ++i) {
    lines +=
        fmt::format(R"({{"prompt": "are {} bad?", "completion": "{} be good."}})", i, i) + "\n";
  }
  Save("talk.jsonl", lines);
  const ProgramRun run = Well(RunFolio(
      "train --json --data " + At("talk.jsonl").string() + " --init " + At("model").string() +
      " --out " + At("tuned").string() + " --epochs 3 --batch 2 --context 32"));
  // One conversation takes more than half of a window.
  EXPECT_EQ(Event(run, "plan").at("steps"), 3 * 36 / 2);
}

TEST_F(Epochs, GoOnForMoreOrAsManyStepsAsAreAskedFor) {
  const auto steps = [&](const std::string& more) {
    return Event(Well(RunFolio("train --json --resume --out " + At("tuned").string() + " " + more)),
                 "done")
        .at("step")
        .get<int64_t>();
  };
  const nlohmann::json done = Event(Well(RunFolio(Tune("--json --epochs 1 --batch 4"))), "done");
  const int64_t one = done.at("step");
  EXPECT_EQ(steps(""), one);
  EXPECT_NEAR(static_cast<double>(steps("--epochs 2")), 2.0 * static_cast<double>(one), 1);
  const int64_t more = 2 * one + 5;
  EXPECT_EQ(steps("--max-steps " + std::to_string(more)), more);
  EXPECT_EQ(Setting("epochs", "tuned"), "0");
}

TEST_F(Epochs, DoNotGoWithStepsThatAreAskedFor) {
  ExpectError(2, Tune("--epochs 2 --max-steps 5"),
              "--epochs and --max-steps cannot be used together");
  ExpectError(2, Tune("--set train.epochs=2 --max-steps 5"), "remove one of them");
}

using EvaluationsOfFineTuning = TaughtModel;

TEST_F(EvaluationsOfFineTuning, MakeACurve) {
  const auto evaluations = [&](const std::string& how) {
    Well(RunFolio(Tune("--overwrite " + how)));
    const std::vector<int64_t> steps = EvaluatedSteps();
    EXPECT_EQ(steps.front(), 0) << how;
    return steps.size();
  };
  // As many as take a tenth of the run: each takes two batches, and a step takes three.
  EXPECT_GE(evaluations("--max-steps 59"), 9u);
  EXPECT_GE(evaluations("--max-steps 59 --lora 4"), 9u);
  EXPECT_GE(evaluations("--max-steps 120"), 12u);
  EXPECT_LE(evaluations("--max-steps 400"), 20u);
  EXPECT_EQ(evaluations("--max-steps 3"), 2u);  // before and after
}

using Learned = TaughtModel;

TEST_F(Learned, IsToldWithTheLossBeforeAndAfter) {
  const ProgramRun run = Well(RunFolio(Tune("--max-steps 40")));
  const std::vector<StepMetrics> log = ReadRunLog(At("tuned"));
  EXPECT_TRUE(Contains(run.out, fmt::format("held-out loss {:.4f} before training, now {:.4f}",
                                            *log.front().val_loss, *log.back().val_loss)));
  EXPECT_EQ(Count(run.err, "warning"), 0u) << run.err;
  // The resumed part knows how the run began.
  const ProgramRun more =
      Well(RunFolio("train --resume --json --max-steps 42 --out " + At("tuned").string()));
  EXPECT_EQ(Event(more, "done").at("first_val_loss"), *log.front().val_loss);
}

TEST_F(Learned, WhereItIsLittleTheNextThingToTryIsSaid) {
  const ProgramRun little =
      Well(RunFolio(Tune("--max-steps 10 --lr 1e-6 --lora 2 --set lora.targets=c_fc")));
  EXPECT_TRUE(Contains(little.err, "warning: held-out loss hardly changed, from ",
                       "next time, try --lr 3e-06", "--set lora.targets=all-linear",
                       "more epochs"));
}

using LengthOfTraining = TaughtModel;

TEST_F(LengthOfTraining, ABudgetHasAUnit) {
  for (const char* budget : {"1", "30", "0.5"}) {
    ExpectError(2, Tune(fmt::format("--budget {}", budget)),
                fmt::format("--budget: '{}' has no unit", budget),
                fmt::format("--budget {}m", budget), fmt::format("--budget {}h", budget));
  }
}

TEST_F(LengthOfTraining, ATextShorterThanAWindowIsToldBeforeThePlan) {
  Save("tiny.txt", "are bad and be dead\n");
  for (const std::string& from :
       {"--init " + At("model").string() + " --context 24", std::string("--preset char-cpu")}) {
    const ProgramRun run = Ended(3, RunFolio("train --data " + At("tiny.txt").string() + " --out " +
                                             At("tuned").string() + " " + from));
    EXPECT_TRUE(
        Contains(run.err, "tiny.txt: shorter than one window", "a context of ", "held-out tokens"));
    for (const char* internal : {"train.bin", "val.bin", ".new", "learning rate"}) {
      EXPECT_EQ(Count(run.err, internal), 0u) << run.err;
    }
  }
}

}  // namespace
}  // namespace folio
