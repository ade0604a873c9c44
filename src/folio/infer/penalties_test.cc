#include "folio/infer/penalties.h"

#include <gtest/gtest.h>

#include <limits>

namespace folio {
namespace {

constexpr float kNone = -std::numeric_limits<float>::infinity();

// Changed logits after these tokens, of which the first `prompt_tokens` are the prompt.
std::vector<float> Changed(const PenaltyOptions& options, const std::vector<float>& logits,
                           const std::vector<int32_t>& tokens, size_t prompt_tokens,
                           const std::vector<int32_t>& ends = {}) {
  Penalties penalties(options, ends);
  const TokenHistory text{.tokens = tokens, .prompt_tokens = prompt_tokens};
  const auto first = penalties.Apply(logits, text);
  const std::vector<float> changed(first.begin(), first.end());
  const auto again = penalties.Apply(logits, text);
  EXPECT_EQ(std::vector<float>(again.begin(), again.end()), changed) << "calls leave nothing";
  return changed;
}

using Floats = std::vector<float>;

TEST(Penalties, WithoutAnyTheLogitsAreLeftAlone) {
  const Floats logits = {1, -2, 3};
  Penalties none({});
  EXPECT_EQ(none.Apply(logits, {}).data(), logits.data());
}

TEST(Penalties, BiasIsAdded) {
  EXPECT_EQ(Changed({.bias = {{0, 2.5}, {2, -1}, {0, 1}}}, {1, -2, 3, 4}, {}, 0),
            (Floats{4.5, -2, 2, 4}));
}

TEST(Penalties, RepetitionMakesWhatWasThereLessLikelyWhateverItsSign) {
  // 0 and 1 are in the prompt, 3 and 1 were written; how often does not count.
  EXPECT_EQ(Changed({.repetition = 2}, {3, -2, 5, 0.5, 0}, {0, 1, 0, 3, 1}, 3),
            (Floats{1.5, -4, 5, 0.25, 0}));
  EXPECT_EQ(Changed({.repetition = 0.5}, {3, -2, 5}, {0, 1}, 0), (Floats{6, -1, 5}));
}

TEST(Penalties, PresenceAndFrequencyCountWhatWasWrittenAlone) {
  const std::vector<int32_t> tokens = {0, 2, 1, 2, 2};  // the prompt has 0 and 2
  EXPECT_EQ(Changed({.presence = 0.5}, {1, 1, 1, 1}, tokens, 2), (Floats{1, 0.5, 0.5, 1}));
  EXPECT_EQ(Changed({.frequency = 0.25}, {1, 1, 1, 1}, tokens, 2), (Floats{1, 0.75, 0.5, 1}));
  EXPECT_EQ(Changed({.presence = -1, .frequency = 2}, {1, 1, 1, 1}, tokens, 2),
            (Floats{1, 0, -2, 1}));
}

// A bias counts before repetition decides by the sign, and that before presence and frequency.
TEST(Penalties, ComeInTheirOrder) {
  EXPECT_EQ(Changed({.bias = {{0, -3}}, .repetition = 2, .presence = 1, .frequency = 1}, {2, 2},
                    {1, 0}, 1),
            (Floats{-4, 1}));
}

TEST(Penalties, NoSequenceComesTwice) {
  const Floats logits = {1, 1, 1, 1};
  // 1 2 was followed by 3 and by 0, in prompt and text.
  EXPECT_EQ(Changed({.no_repeat_ngram = 3}, logits, {1, 2, 3, 1, 2, 0, 1, 2}, 4),
            (Floats{kNone, 1, 1, kNone}));
  EXPECT_EQ(Changed({.no_repeat_ngram = 2}, logits, {1, 2, 3, 1}, 0), (Floats{1, 1, kNone, 1}));
  EXPECT_EQ(Changed({.no_repeat_ngram = 2}, logits, {1, 1}, 0), (Floats{1, kNone, 1, 1}));
  EXPECT_EQ(Changed({.no_repeat_ngram = 1}, logits, {3, 0}, 1), (Floats{kNone, 1, 1, kNone}));
  EXPECT_EQ(Changed({.no_repeat_ngram = 3}, logits, {1, 2}, 2), logits) << "too short for one";
  EXPECT_EQ(Changed({.no_repeat_ngram = 9}, logits, {}, 0), logits);
}

TEST(Penalties, TheEndsMayNotComeTooEarly) {
  const Floats logits = {1, 1, 1};
  const PenaltyOptions two{.min_tokens = 2};
  EXPECT_EQ(Changed(two, logits, {0, 0, 0}, 3, {1, 7}), (Floats{1, kNone, 1}));
  EXPECT_EQ(Changed(two, logits, {0, 0, 0}, 2, {1, 2}), (Floats{1, kNone, kNone}));
  EXPECT_EQ(Changed(two, logits, {0, 0, 0}, 1, {1, 2}), logits);
}

}  // namespace
}  // namespace folio
