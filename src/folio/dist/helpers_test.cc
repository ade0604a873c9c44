#include "folio/dist/helpers.h"

#include <gtest/gtest.h>

#include "folio/base/error.h"
#include "folio/dist/thread_ranks.h"
#include "tests/kit/directory.h"
#include "tests/kit/expect.h"

namespace folio {
namespace {

TEST(Helpers, AnswerTheirSharesUntilTheyAreSentHome) {
  for (const int ranks : {1, 2, 4}) {
    RunOnThreads(ranks, [&](Group& group) {
      Helpers helpers(&group);
      EXPECT_EQ(helpers.ranks(), ranks);
      if (!helpers.first()) {
        return helpers.Help([&](const std::string& share) {
          return share + " by " + std::to_string(group.rank());
        });
      }
      for (const std::string& word : {std::string("x"), std::string(), std::string(100000, 'y')}) {
        Strings shares, expected;
        for (int r = 0; r < ranks; ++r) {
          shares.push_back(word + std::to_string(r));
          expected.push_back(r == 0 ? "" : shares.back() + " by " + std::to_string(r));
        }
        helpers.HandOut(shares);
        EXPECT_EQ(helpers.Answers(), expected);
      }
    });
  }
}

TEST(Helpers, OneAloneHasNone) {
  Helpers helpers(nullptr);
  helpers.HandOut({"all"});
  EXPECT_EQ(helpers.Answers(), Strings{""});
}

// And the others are sent home whatever was under way.
TEST(Helpers, TheErrorOfTheFirstOfThemIsThrown) {
  RunOnThreads(4, [&](Group& group) {
    Helpers helpers(&group);
    if (!helpers.first()) {
      return helpers.Help([&](const std::string&) -> std::string {
        if (group.rank() == 1) return "done";
        throw InputError("a.txt: " + std::to_string(group.rank()), "", "look");
      });
    }
    helpers.HandOut(Strings(4));
    try {
      helpers.Answers();
      ADD_FAILURE() << "nothing was thrown";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kInput);
      EXPECT_STREQ(error.what(), "a.txt: 2");
      EXPECT_EQ(error.cause(), "");
      EXPECT_EQ(error.help(), "look");
    }
    helpers.HandOut(Strings(4));
  });
}

}  // namespace
}  // namespace folio
