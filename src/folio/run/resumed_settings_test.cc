#include "folio/run/resumed_settings.h"

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
  const std::string told = Told({}, now);
  EXPECT_TRUE(Contains(told, "train.learning_rate was 0.001, is 0.5 from step 40 on (highest",
                       "model.attn_pdrop was", "is 0.25 from step 40 on",
                       "the learning rate was: to 0.001", "is: to 0.5",
                       "after step 40 the run is not what"))
      << told;
}

// More steps are another learning rate where it falls until the last of them.
TEST(ResumedSettings, MoreStepsAreAnotherDecayUnlessThatWasSaid) {
  RunConfig before, now;
  now.train.max_steps = 4000;
  EXPECT_TRUE(Contains(Told(before, now), "train.max_steps was 2000, is 4000", "the learning rate",
                       "step 40"));
  before.train.decay_steps = now.train.decay_steps = 3000;
  EXPECT_FALSE(Contains(Told(before, now), "the learning rate"));
  before.train.decay_steps = now.train.decay_steps = 0;
  before.train.schedule = now.train.schedule = "constant";
  EXPECT_FALSE(Contains(Told(before, now), "the learning rate"));
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
