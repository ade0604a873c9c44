#include "folio/api/looking.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "folio/base/error.h"
#include "folio/run/training_run.h"
#include "tests/kit/directory.h"
#include "tests/kit/expect.h"
#include "tests/kit/near.h"

namespace folio {
namespace {

// A model of a run of a second, opened with float32 and with bfloat16 matrices.
class Looking : public InTemporaryDirectory {
 protected:
  void SetUp() override {
    std::string text;
    for (int i = 0; i < 400; ++i) text += "line " + std::to_string(i * 7 % 100) + " of a text.\n";
    PutFile("text.txt", text);
    RunSettings settings;
    settings.UsePreset("debug");
    settings.Set("train.max_steps", "20");
    TrainingRun(settings, {.data = {At("text.txt").string()}, .out = At("run")}).Train();
    model_.emplace(At("run"));
    small_.emplace(At("run"), OpenOptions{.matrices = MatrixDtypeNamed("bf16")});
  }

  std::optional<Model> model_, small_;
};

TEST_F(Looking, ScoresAreThoseOfATraceAlsoBeyondTheContext) {
  std::vector<int32_t> ids = model_->Prompt("line 7 of a text.\n");
  while (std::ssize(ids) < 2 * model_->context() + 3) ids.insert(ids.end(), ids.begin(), ids.end());
  for (const size_t count : {size_t{2}, size_t{9}, ids.size()}) {
    const std::vector<int32_t> some(ids.begin(), ids.begin() + static_cast<int64_t>(count));
    const TokenScores found = ScoreText(*model_, some, 3);
    const TokenScores expected =
        ScoreTokens(model_->opened(), {.name = "text", .ids = some}, /*top=*/3);
    ASSERT_EQ(found.tokens.size(), count - 1);
    EXPECT_NEAR(found.surprise, expected.surprise, kFloat32Chain);
    EXPECT_EQ(found.bits_per_byte > 0, true);
    for (size_t i = 0; i < found.tokens.size(); ++i) {
      EXPECT_EQ(found.tokens[i].id, some[i + 1]);
      EXPECT_NEAR(found.tokens[i].surprise, expected.tokens[i].surprise, kFloat32Chain) << i;
      EXPECT_NEAR(found.tokens[i].entropy, expected.tokens[i].entropy, kFloat32Chain) << i;
      ASSERT_EQ(found.tokens[i].top.size(), 3u);
    }
  }
  EXPECT_TRUE(Contains(ErrorOf([&] { ScoreText(*model_, {ids.data(), 1}, 3); }), "single token"));
  EXPECT_EQ(ScoreText(*small_, {ids.data(), 9}, 0).tokens.size(), 8u);
}

TEST_F(Looking, TheLensEndsInThePrediction) {
  const std::vector<int32_t> ids = model_->Prompt("line 7");
  const auto last = std::ssize(ids) - 1;
  const LensView view = LookThroughLens(*model_, ids, {last, 0}, 2);
  const int64_t L = model_->config().n_layer;
  ASSERT_EQ(std::ssize(view.cells), 2 * (L + 1));
  EXPECT_EQ(view.cells[0].position, last);
  const LensCell& end = view.Cell(0, L);
  const std::vector<float> logits = model_->Logits(ids, static_cast<size_t>(last));
  EXPECT_EQ(end.top.at(0).id, std::ranges::max_element(logits) - logits.begin());
  EXPECT_NEAR(end.kl, 0, kFloat32Chain);
  const auto look = [&](const Model& model, std::vector<int64_t> positions) {
    return [&, positions] { LookThroughLens(model, ids, positions, 2); };
  };
  EXPECT_TRUE(Contains(ErrorOf(look(*model_, {}), ErrorKind::kUsage), "positions: none"));
  EXPECT_TRUE(Contains(ErrorOf(look(*model_, {last + 1}), ErrorKind::kUsage), "expected 0 to"));
  EXPECT_TRUE(Contains(ErrorOf(look(*small_, {0}), ErrorKind::kUsage),
                       "this operation needs float32 weights"));
  EXPECT_THROW(LookThroughLens(*model_, ids, {0}, 2, [] { return true; }), CallStopped);
}

TEST_F(Looking, PerplexityIsThatOfEval) {
  const std::vector<MeasuredText> texts = FindMeasuredTexts({At("text.txt").string()}, {}).texts;
  const ReadingOptions reading{.shape = ChooseWindows(0, 0, model_->context()), .max_tokens = 200};
  const std::vector<TextPerplexity> found = MeasureTexts(*model_, texts, reading);
  const std::vector<TextPerplexity> expected =
      MeasurePerplexity(model_->opened(), texts, {.reading = reading});
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].nats, expected[0].nats);
  EXPECT_EQ(found[0].tokens, 199);
  const MeasureHooks hooks{.on_progress = [](const MeasureProgress&) { throw CallStopped{}; }};
  EXPECT_THROW(MeasureTexts(*model_, texts, reading, hooks), CallStopped);
}

}  // namespace
}  // namespace folio
