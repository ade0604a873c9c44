#include "folio/dist/workers.h"

#include <gtest/gtest.h>

#include "folio/base/error.h"
#include "tests/kit/directory.h"
#include "tests/kit/expect.h"
#include "tests/kit/thread_ranks.h"

namespace folio {
namespace {

TEST(Workers, AnswerTheirSharesUntilTheyAreSentHome) {
  for (const int ranks : {1, 2, 4}) {
    RunOnThreads(ranks, [&](Group& group) {
      Workers workers(&group);
      EXPECT_EQ(workers.ranks(), ranks);
      if (!workers.first()) {
        return workers.Serve([&](const std::string& share) {
          return share + " by " + std::to_string(group.rank());
        });
      }
      for (const std::string& word : {std::string("x"), std::string(), std::string(100000, 'y')}) {
        Strings shares, expected;
        for (int r = 0; r < ranks; ++r) {
          shares.push_back(word + std::to_string(r));
          expected.push_back(r == 0 ? "" : shares.back() + " by " + std::to_string(r));
        }
        workers.Scatter(shares);
        EXPECT_EQ(workers.Gather(), expected);
      }
    });
  }
}

TEST(Workers, OneAloneHasNone) {
  Workers workers(nullptr);
  workers.Scatter({"all"});
  EXPECT_EQ(workers.Gather(), Strings{""});
}

// And the others are sent home whatever was under way.
TEST(Workers, TheErrorOfTheFirstOfThemIsThrown) {
  RunOnThreads(4, [&](Group& group) {
    Workers workers(&group);
    if (!workers.first()) {
      return workers.Serve([&](const std::string&) -> std::string {
        if (group.rank() == 1) return "done";
        throw InputError("a.txt: " + std::to_string(group.rank()), "", "look");
      });
    }
    workers.Scatter(Strings(4));
    try {
      workers.Gather();
      ADD_FAILURE() << "nothing was thrown";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kInput);
      EXPECT_STREQ(error.what(), "a.txt: 2");
      EXPECT_EQ(error.cause(), "");
      EXPECT_EQ(error.help(), "look");
    }
    workers.Scatter(Strings(4));
  });
}

}  // namespace
}  // namespace folio
