#include "folio/model/divisors.h"

#include <gtest/gtest.h>

#include "folio/base/error.h"
#include "tests/kit/expect.h"

namespace folio {
namespace {

TEST(NearestDivisors, StandOnEitherSide) {
  EXPECT_EQ(NearestDivisors(10, 4), "2 or 5");
  EXPECT_EQ(NearestDivisors(10, 5), "5");
  EXPECT_EQ(NearestDivisors(7, 3), "1 or 7");
  EXPECT_EQ(NearestDivisors(7, 9), "7");
  EXPECT_EQ(NearestDivisors(1, 1), "1");
}

TEST(CheckDivides, NamesBothNumbersAndWhatWouldDo) {
  CheckDivides("attention", {"heads", 4}, {"d_out", 12});
  const auto refusal = [](int64_t d_out) {
    return ErrorAndHelp(
        [&] {
          CheckDivides("attention", {"heads", 4}, {"d_out", d_out});
        },
        ErrorKind::kUsage);
  };
  EXPECT_EQ(
      refusal(10),
      "attention: heads must divide d_out | d_out is 10, heads is 4 | set heads to 2 or 5, or "
      "d_out to 8 or 12");
  EXPECT_TRUE(refusal(3).ends_with(" | set heads to 3, or d_out to 4"));
}

TEST(CheckSize, RefusesWhatIsNoSize) {
  CheckSize("x", {"C", 1});
  for (const int64_t value : {int64_t{0}, int64_t{-3}, int64_t{1} << 30}) {
    EXPECT_THROW(CheckSize("x", {"C", value}), Error) << value;
    EXPECT_THROW(CheckDivides("x", {"H", value}, {"C", 12}), Error) << value;
    EXPECT_THROW(CheckDivides("x", {"H", 1}, {"C", value}), Error) << value;
  }
}

}  // namespace
}  // namespace folio
