#include "folio/lesson/select_steps.h"

#include <gtest/gtest.h>

#include <vector>

#include "folio/base/error.h"
#include "tests/kit/expect.h"

namespace folio {
namespace {

Walkthrough ThreeSteps() {
  return {
      .topic = "t",
      .title = "title",
      .intro = "intro",
      .steps = {
          {.name = "inputs", .section = "part"}, {.name = "scores of “one”"}, {.name = "inputs"}}};
}

TEST(StepSlug, KeepsLettersAndDigits) {
  EXPECT_EQ(StepSlug({.name = "the query (1, 0) meets a database"}),
            "the-query-1-0-meets-a-database");
  EXPECT_EQ(StepSlug({.name = "weights of “journey”"}), "weights-of-journey");
  EXPECT_EQ(StepSlug({.name = "“”"}), "");
}

TEST(SelectSteps, KeepsTheWalksOrderAndAllOfAName) {
  const std::vector<std::string> slugs = {"scores-of-one", "inputs"};
  const Walkthrough walk = SelectSteps(ThreeSteps(), slugs);
  ASSERT_EQ(walk.steps.size(), 3u);
  EXPECT_EQ(walk.steps[0].name, "inputs");
  EXPECT_EQ(walk.steps[0].section, "");
  EXPECT_EQ(walk.steps[1].name, "scores of “one”");
  EXPECT_EQ(walk.intro, "");
  EXPECT_EQ(walk.topic, "t");
}

TEST(SelectSteps, LeavesTheWalkWholeWithoutNames) {
  const Walkthrough walk = SelectSteps(ThreeSteps(), {});
  EXPECT_EQ(walk.steps.size(), 3u);
  EXPECT_EQ(walk.intro, "intro");
  EXPECT_EQ(walk.steps[0].section, "part");
}

TEST(SelectSteps, NamesTheStepsForOneThatIsNotThere) {
  const std::vector<std::string> slugs = {"outputs"};
  EXPECT_EQ(Refused([&] { SelectSteps(ThreeSteps(), slugs); }, ErrorKind::kUsage).cause(),
            "the steps are inputs, scores-of-one");
}

}  // namespace
}  // namespace folio
