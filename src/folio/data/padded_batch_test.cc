#include "folio/data/padded_batch.h"

#include <gtest/gtest.h>

#include "tests/kit/expect.h"

namespace folio {
namespace {

using Ids = std::vector<int32_t>;

TEST(PadSequences, EachBeginsItsRowAndTheRestPredictsNothing) {
  const std::vector<Ids> sequences = {{3, 4}, {5, 6, 7, 8}};
  const PaddedBatch padded = PadSequences(sequences);
  EXPECT_EQ(padded.B, 2);
  EXPECT_EQ(padded.T, 3);
  EXPECT_EQ(padded.inputs, (Ids{3, 0, 0, 5, 6, 7}));
  EXPECT_EQ(padded.targets, (Ids{4, -1, -1, 6, 7, 8}));
  EXPECT_EQ(padded.CountTargets(), 4);
  EXPECT_EQ(padded.keys, (std::vector<uint8_t>{1, 0, 0, 1, 1, 1}));
  EXPECT_EQ(padded.key_mask().shape(), (Shape{2, 3}));
  EXPECT_EQ(PadSequences(sequences, 5).targets, (Ids{4, -1, -1, -1, -1, 6, 7, 8, -1, -1}));
}

TEST(PadSequences, WhatIsNoSequenceIsRefused) {
  const auto refusal = [](const std::vector<Ids>& sequences, int64_t T = 0) {
    return ErrorAndHelp([&] { PadSequences(sequences, T); }, ErrorKind::kUsage);
  };
  EXPECT_TRUE(Contains(refusal({}), "no sequences"));
  EXPECT_TRUE(
      Contains(refusal({{1, 2}, {3}}), "sequence 1 has nothing to predict", "it has 1 tokens"));
  EXPECT_TRUE(Contains(refusal({{1, 2, 3}}, 1), "a sequence needs 2 positions, rows have 1"));
}

}  // namespace
}  // namespace folio
