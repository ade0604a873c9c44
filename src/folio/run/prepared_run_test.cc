#include "folio/run/prepared_run.h"

#include <gtest/gtest.h>

#include "folio/base/strings.h"
#include "tests/kit/expect.h"

namespace folio {
namespace {

std::string Told(const RunConfig& before, const RunConfig& now) {
  return Join(ChangedSettings(before, now, 40), "\n");
}

TEST(ResumedSettings, ThatAreTheSameAreNotTold) {
  EXPECT_EQ(Told({}, {}), "");
}

TEST(ResumedSettings, ThatChangeNoNumberAreToldAsSuch) {
  RunConfig now;
  now.train.threads = 3;
  now.train.eval_every = 7;
  now.log.sample_every = 5;
  const std::string told = Told({}, now);
  EXPECT_EQ(Count(told, "the numbers of its steps stay the same"), 3u) << told;
  EXPECT_TRUE(Contains(told, "train.threads was 0, is 3"));
  EXPECT_FALSE(Contains(told, "not what it would have been"));
}

TEST(ResumedSettings, ThatMakeAnotherRunSayFromWhere) {
  RunConfig now;
  now.train.learning_rate = 0.5;
  now.model.attn_pdrop = 0.25;
  EXPECT_TRUE(Contains(Told({}, now), "model.attn_pdrop was 0, is 0.25 from step 40 on (dropout",
                       "train.learning_rate was 0.001, is 0.5: the learning rate of step 40 is "));
}

// More steps are another learning rate where it falls until the last of them.
TEST(ResumedSettings, MoreStepsAreAnotherDecayUnlessThatWasSaid) {
  RunConfig before, now;
  before.train.max_steps = 40;
  before.train.warmup_steps = now.train.warmup_steps = 0;
  now.train.max_steps = 80;
  EXPECT_EQ(Told(before, now),
            "train.max_steps was 40, is 80: the learning rate of step 40 is 0.00055, not 0.0001, "
            "then a cosine down to 0.0001 at step 80");
  before.train.decay_steps = now.train.decay_steps = 30;
  EXPECT_EQ(Told(before, now),
            "train.max_steps was 40, is 80: the numbers of its steps stay the same");
  before.train.decay_steps = now.train.decay_steps = 0;
  before.train.schedule = now.train.schedule = "constant";
  EXPECT_FALSE(Contains(Told(before, now), "the learning rate"));
}

// However many settings have changed it.
TEST(ResumedSettings, AnotherLearningRateIsOneLine) {
  RunConfig now;
  now.train.learning_rate = 0.5;
  now.train.max_steps = 3000;
  now.train.schedule = "wsd";
  const std::string told = Told({}, now);
  EXPECT_EQ(Count(told, "\n"), 0u) << told;
  EXPECT_TRUE(Contains(told, "train.max_steps was 2000, is 3000; ",
                       "train.schedule was cosine, is wsd: the learning rate of step 40 is",
                       "from step 2,400 on a straight line down to"));
}

TEST(ResumedSettings, ThatCannotChangeAreRefused) {
  RunConfig now;
  now.model.n_layer += 1;
  EXPECT_TRUE(Contains(ErrorOf([&] { Told({}, now); }, ErrorKind::kUsage),
                       "model.n_layer cannot change", "was 12, is 13"));
  now = {};
  now.train.rng = "torch";
  EXPECT_TRUE(
      Contains(ErrorOf([&] { Told({}, now); }, ErrorKind::kUsage), "train.rng cannot change"));
}

}  // namespace
}  // namespace folio
