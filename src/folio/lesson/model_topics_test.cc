#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>

#include "folio/base/error.h"
#include "folio/formats/model_formats.h"
#include "folio/infer/decode_batch.h"
#include "folio/inspect/attention.h"
#include "folio/inspect/embeddings.h"
#include "folio/inspect/trace.h"
#include "folio/lesson/lessons.h"
#include "folio/lesson/test_walks.h"
#include "folio/model/gpt.h"
#include "folio/model/transformer.h"
#include "folio/model_files/checkpoint.h"
#include "folio/text/byte_tokenizer.h"
#include "folio/text/char_tokenizer.h"
#include "tests/kit/near.h"
#include "tests/kit/paths.h"

namespace folio {
namespace {

using Numbers = std::vector<double>;

using ModelWalk = Report (*)(Backend&, const LessonModel&, std::string_view, int64_t);

constexpr char kText[] = "bade cafe";

// The tokenizer has 34 characters, fewer than the models have tokens, so that some have no name.
CharTokenizer Letters() {
  std::vector<char32_t> characters = {' '};
  for (char32_t c = '@'; c <= '`'; ++c) characters.push_back(c);
  for (char32_t c = 'a'; c <= 'h'; ++c) characters.push_back(c);
  return CharTokenizer(characters);
}

class ModelTopics : public testing::TestWithParam<std::string> {
 protected:
  const GptConfig& config() const { return weights_->config(); }
  LessonModel model() const { return {.weights = weights_.get(), .tokenizer = &tokenizer_}; }
  std::vector<int32_t> ids() const { return tokenizer_.Encode(kText); }
  int64_t L() const { return config().n_layer; }
  bool post() const { return config().sublayer_layout().post_norm; }

  // Logits of the last token by the model itself.
  std::vector<float> Logits() {
    const auto T = std::ssize(ids());
    GptPass pass(*backend_, config(), 1, T, PassKind::kForward);
    pass.Forward(weights_->params(), ids());
    std::vector<float> logits(static_cast<size_t>(config().vocab_size));
    pass.Logits(weights_->params(), T - 1, T, Tensor(logits.data(), {1, config().vocab_size}));
    return logits;
  }

  std::unique_ptr<Backend> backend_ = MakeBackend("cpu");
  std::unique_ptr<GptWeights> weights_ = ReadWeights(FindModel(Fixture(GetParam())).model);
  const CharTokenizer tokenizer_ = Letters();
};
INSTANTIATE_TEST_SUITE_P(Models, ModelTopics,
                         testing::Values("gpt2-tiny", "gpt2-sinusoid-relu", "gpt2-untied-postnorm",
                                         "families/llama", "families/qwen3", "families/gemma2",
                                         "families/olmo2", "families/granite", "families/phi",
                                         "families/gpt_neox", "nanochat"),
                         [](const auto& model) {
                           std::string name = model.param.substr(model.param.find('/') + 1);
                           std::erase(name, '-');
                           return name;
                         });

Numbers Added(const Numbers& a, const Numbers& b) {
  Numbers sum = a;
  for (size_t i = 0; i < sum.size(); ++i) sum[i] += b[i];
  return sum;
}

double Length(const Numbers& x) {
  return std::sqrt(std::inner_product(x.begin(), x.end(), x.begin(), 0.0));
}

// ---- block ---------------------------------------------------------------------------------

TEST_P(ModelTopics, OneHotTimesTheEmbeddingIsTheLookUpExactly) {
  const Report walk = ExplainBlock(*backend_, model(), kText, {});
  const ReportPart& look_up = StepOf(walk, "look-up");
  EXPECT_EQ(RowOf(look_up.values, 0), RowOf(look_up.values, 1));
  EXPECT_EQ(RowOf(look_up.values, 2), Numbers(static_cast<size_t>(config().n_embd), 0.0));
  const float* row = weights_->params().wte.host<float>() + ids().back() * config().n_embd;
  EXPECT_EQ(RowOf(look_up.values, 1), Numbers(row, row + config().n_embd));
  const ReportPart& position = StepOf(walk, "position");
  if (!AddsPositions(config())) return;
  ExpectNear(RowOf(position.values, 2), Added(RowOf(position.values, 0), RowOf(position.values, 1)),
             kFloat32Row);
  EXPECT_NE(RowOf(position.values, 0), RowOf(position.values, 2));
}

TEST_P(ModelTopics, TheStreamAddsUpFromLayerToLayer) {
  const Report walk = ExplainBlock(*backend_, model(), kText, {});
  Numbers stream = RowOf(walk, "position", AddsPositions(config()) ? 2 : 0);
  const ReportPart& all = StepOf(walk, "stream");
  EXPECT_EQ(RowOf(all.values, 0), stream);
  for (int64_t l = 0; l < L(); ++l) {
    const std::string layer = "layer " + std::to_string(l) + ": ";
    const ReportPart& attention = StepOf(walk, layer + "attention joins the stream");
    if (config().residual_lambdas) {
      EXPECT_EQ(RowOf(walk, layer + "mix", 0), stream);
      EXPECT_NE(RowOf(walk, layer + "mix", 2), stream);
      stream = RowOf(walk, layer + "mix", 2);
    }
    EXPECT_EQ(RowOf(attention.values, 0), stream);
    const Numbers middle = RowOf(attention.values, 2);
    ExpectNear(middle, Added(stream, RowOf(attention.values, 1)), kFloat32Chain);
    EXPECT_EQ(RowOf(all.values, 2 * l + 1), middle);
    const ReportPart& mlp = StepOf(walk, layer + "feed-forward joins the stream");
    EXPECT_EQ(RowOf(mlp.values, 0), post() ? RowOf(walk, layer + "ln_1", 1) : middle);
    ExpectNear(RowOf(mlp.values, 2), Added(RowOf(mlp.values, 0), RowOf(mlp.values, 1)),
               kFloat32Chain);
    if (config().backout && l + 1 == L()) {
      EXPECT_EQ(RowOf(all.values, 2 * l + 2), RowOf(walk, "backout", 1));
      EXPECT_NE(RowOf(all.values, 2 * l + 2), RowOf(mlp.values, 2));
      stream = RowOf(all.values, 2 * l + 2);
      continue;
    }
    ExpectNear(RowOf(all.values, 2 * l + 2),
               post() ? RowOf(walk, layer + "ln_2", 1) : RowOf(mlp.values, 2), kFloat32Chain);
    stream = RowOf(all.values, 2 * l + 2);
    if (post()) {
      EXPECT_EQ(RowOf(walk, layer + "ln_1", 0), middle);
      EXPECT_EQ(RowOf(walk, layer + "ln_2", 0), RowOf(mlp.values, 2));
    }
  }
  EXPECT_EQ(RowOf(walk, "ln_f", 0), stream);
}

TEST_P(ModelTopics, LengthsAreOfTheSameStream) {
  const Report walk = ExplainBlock(*backend_, model(), kText, {});
  for (int64_t l = 0; l < L(); ++l) {
    const std::string layer = "layer " + std::to_string(l) + ": ";
    for (int64_t half = 0; half < 2; ++half) {
      const ReportPart& step =
          StepOf(walk, layer + (half == 0 ? "attention" : "feed-forward") + " joins the stream");
      const Numbers lengths = RowOf(walk, "lengths", 2 * l + half);
      for (int64_t i = 0; i < 3; ++i) {
        EXPECT_NEAR(lengths[static_cast<size_t>(i)], Length(RowOf(step.values, i)), kFloat32Chain);
      }
    }
  }
}

TEST_P(ModelTopics, HeadsAreThoseOfTheModelAndEachAddsUpToOne) {
  const Report walk = ExplainBlock(*backend_, model(), kText, {});
  const Trace trace(*backend_, *weights_, ids(), Trace::AllPoints());
  const auto T = static_cast<size_t>(trace.T()), H = static_cast<size_t>(config().n_head);
  for (int64_t l = 0; l < L(); ++l) {
    const Matrix& heads = StepOf(walk, "layer " + std::to_string(l) + ": heads").values;
    ASSERT_EQ(heads.shape, (std::vector<int64_t>{trace.T(), config().n_head}));
    for (size_t h = 0; h < H; ++h) {
      const HeadTrace head = trace.Head(l, static_cast<int64_t>(h));
      double sum = 0;
      for (size_t s = 0; s < T; ++s) {
        EXPECT_EQ(heads.values[s * H + h], head.weights[(T - 1) * T + s]);
        sum += heads.values[s * H + h];
      }
      EXPECT_NEAR(sum, 1, kFloat32Chain);
    }
    const Matrix& units = StepOf(walk, "layer " + std::to_string(l) + ": units").values;
    const auto [low, high] = std::ranges::minmax(Numbers(
        trace.At(TracePoint::kActivated, l).host<float>() + (trace.T() - 1) * config().inner(),
        trace.At(TracePoint::kActivated, l).host<float>() + trace.T() * config().inner()));
    EXPECT_EQ(std::abs(units.At(0, units.columns() - 1)), std::max(std::abs(low), std::abs(high)));
  }
}

TEST_P(ModelTopics, TheWalkEndsInTheModelsOwnPrediction) {
  const SamplingOptions sampling{.temperature = 0.8, .top_k = 7, .top_p = 0.85, .seed = 5};
  const Report walk = ExplainBlock(*backend_, model(), kText, sampling);
  const std::vector<float> logits = Logits();
  Sampler likeliest({}), sampler(sampling);
  const auto top = likeliest.Candidates(logits);
  const Matrix& shown = StepOf(walk, "logits").values;
  ASSERT_EQ(shown.columns(), 16);
  const Matrix& say = StepOf(walk, "what it would say").values;
  for (size_t i = 0; i < 16; ++i) EXPECT_NEAR(shown.values[i], top[i].logit, kFloat32Chain);
  for (size_t i = 0; i < 6; ++i) {
    EXPECT_NEAR(say.values[static_cast<size_t>(L()) * 6 + i], top[i].probability, kFloat32Row);
  }
  const auto kept = sampler.Candidates(logits);
  const Matrix& candidates = StepOf(walk, "candidates").values;
  for (size_t i = 0; i < 16; ++i) {
    if (i < kept.size()) {
      EXPECT_NEAR(candidates.values[i], kept[i].probability, kFloat32Row);
    } else {
      EXPECT_TRUE(std::isnan(candidates.values[i]));
    }
  }
  // The draw is the token with which the generator continues.
  Generator generator(*backend_, *weights_);
  generator.Generate(ids(), {.sampling = sampling, .max_tokens = 1}, 0, [&](const NewToken& token) {
    EXPECT_EQ(NumbersOf(walk, "ten draws")[0], token.id);
    return true;
  });
}

TEST_P(ModelTopics, SectionsLeadThroughTheBlock) {
  const Report walk = ExplainBlock(*backend_, model(), "a", {.temperature = 0});
  std::vector<std::string> sections;
  for (const ReportPart& step : walk.parts) {
    EXPECT_FALSE(step.name.empty() || step.text.empty() || step.formula.empty());
    if (!step.heading.empty()) sections.push_back(step.heading);
  }
  EXPECT_EQ(std::ssize(sections), L() + 3);
  EXPECT_EQ(sections[1], "Layer 0");
  EXPECT_EQ(sections.back(), "The prediction");
  EXPECT_EQ(NumbersOf(walk, "layer 0: heads"), Numbers(static_cast<size_t>(config().n_head), 1.0));
}

// ---- one head, one LayerNorm, positions, sampling ------------------------------------------

TEST_P(ModelTopics, AHeadIsTheTracedOne) {
  const int64_t layer = L() - 1, head = config().n_head - 1;
  const Report walk = ExplainAttention(*backend_, model(), kText, layer, head);
  const Trace trace(*backend_, *weights_, ids(), Trace::AllPoints());
  const HeadTrace expected = trace.Head(layer, head);
  const auto T = static_cast<size_t>(expected.T);
  const auto window = static_cast<size_t>(config().layer(layer).window);
  const Matrix& scores = StepOf(walk, "scores").values;
  const Matrix& masked = StepOf(walk, "masked").values;
  const Matrix& weights = StepOf(walk, "weights").values;
  for (size_t t = 0; t < T; ++t) {
    double sum = 0;
    for (size_t s = 0; s < T; ++s) {
      const size_t i = t * T + s;
      EXPECT_NEAR(scores.values[i] * config().layer(layer).score_scale, expected.scores[i],
                  kFloat32Chain);
      const bool hidden = s > t || (window > 0 && s + window <= t);
      EXPECT_EQ(std::isnan(masked.values[i]), hidden);
      EXPECT_EQ(std::isnan(weights.values[i]), hidden);
      // The weights are the softmax of the masked scores.
      const size_t self = t * T + t;
      if (hidden) {
        EXPECT_EQ(expected.weights[i], 0);
      } else {
        EXPECT_NEAR(std::log(weights.values[i] / weights.values[self]),
                    masked.values[i] - masked.values[self], kFloat32Chain);
        sum += weights.values[i];
      }
    }
    EXPECT_NEAR(sum, 1, kFloat32Chain);
  }
  const Numbers context(expected.context.begin(), expected.context.end());
  EXPECT_EQ(NumbersOf(walk, "context"), context);
  const HeadScores habits = ScoreHead(expected.weights, ids());
  EXPECT_EQ(NumbersOf(walk, "where it looks")[1], habits.previous);
}

TEST_P(ModelTopics, TheFirstNormIsTheModels) {
  const bool layer_norm = config().layer_norm();
  const auto explain = layer_norm ? static_cast<ModelWalk>(ExplainLayerNorm)
                                  : static_cast<ModelWalk>(ExplainRmsNorm);
  const auto other = layer_norm ? static_cast<ModelWalk>(ExplainRmsNorm)
                                : static_cast<ModelWalk>(ExplainLayerNorm);
  const bool branch =
      !config().sublayer_layout().pre_norm && config().sublayer_layout().branch_norm;
  for (int64_t layer = 0; layer < L(); ++layer) {
    const Report walk = explain(*backend_, model(), kText, layer);
    const Trace trace(*backend_, *weights_, ids(), Trace::AllPoints());
    const Tensor normed = trace.At(branch ? TracePoint::kAttention : TracePoint::kNorm1, layer);
    const auto row = Row(normed, trace.T() - 1);
    ExpectNear(NumbersOf(walk, "result"), Numbers(row.begin(), row.end()), kFloat32Chain);
  }
  EXPECT_THROW(other(*backend_, model(), kText, 0), Error);
}

TEST_P(ModelTopics, RotaryTurnsTheTracedQueries) {
  const int64_t layer = L() - 1, head = config().n_head - 1, P = 20;
  const auto explain = [&] {
    return ExplainRotary(*backend_, model(),
                         {.text = kText, .layer = layer, .head = head, .positions = P});
  };
  if (!config().rotary()) {
    EXPECT_THROW(explain(), Error);
    return;
  }
  const Report walk = explain();
  const HeadTrace traced = Trace(*backend_, *weights_, ids(), {TracePoint::kQkv}).Head(layer, head);
  EXPECT_EQ(NumbersOf(walk, "turned queries"), Numbers(traced.q.begin(), traced.q.end()));
  // Each pair is rotated by its angle from the table of frequencies; the others are unchanged.
  const Matrix &before = StepOf(walk, "queries").values,
               &after = StepOf(walk, "turned queries").values;
  const Numbers steps = RowOf(walk, "frequencies", 0);
  const auto pairs = std::ssize(steps);
  for (int64_t t = 0; t < traced.T; ++t) {
    for (int64_t i = 0; i < traced.D; ++i) {
      double expected = before.At(t, i);
      if (i < pairs) {
        const double angle = static_cast<double>(t) * steps[static_cast<size_t>(i)];
        expected = before.At(t, i) * std::cos(angle) - before.At(t, i + pairs) * std::sin(angle);
      } else if (i < 2 * pairs) {
        const double angle = static_cast<double>(t) * steps[static_cast<size_t>(i - pairs)];
        expected = before.At(t, i) * std::cos(angle) + before.At(t, i - pairs) * std::sin(angle);
      }
      EXPECT_NEAR(after.At(t, i), expected, kFloat32Chain);
    }
  }
  // The scores are those of the head, and a key at its own distance has the same score.
  const Numbers scores = RowOf(walk, "scores of the last token", 1);
  const auto T = static_cast<size_t>(traced.T);
  for (size_t s = 0; s < T; ++s) {
    EXPECT_NEAR(scores[s] * config().layer(layer).score_scale, traced.scores[(T - 1) * T + s],
                kFloat32Chain);
  }
  const auto strongest = std::ranges::max_element(scores);
  const Matrix& far = StepOf(walk, "by distance").values;
  ASSERT_EQ(far.rows(), P);
  EXPECT_NEAR(far.At(scores.end() - 1 - strongest, 0), *strongest, 10 * kFloat32Chain);
}

TEST_P(ModelTopics, GatesAreTheModels) {
  const auto explain = [&] { return ExplainGatedMlp(*backend_, model(), kText, 0); };
  if (!config().gated()) {
    EXPECT_THROW(explain(), Error);
    return;
  }
  const Report walk = explain();
  const Trace trace(*backend_, *weights_, ids(), Trace::AllPoints());
  const Matrix& units = StepOf(walk, "strongest units").values;
  const auto active = Row(trace.At(TracePoint::kActivated), trace.T() - 1);
  double largest = 0;
  for (const float unit : active) largest = std::max(largest, std::abs(double{unit}));
  EXPECT_EQ(std::abs(units.At(0, 3)), largest);
  for (int64_t row = 0; row < units.rows(); ++row) {
    EXPECT_NEAR(units.At(row, 1) * units.At(row, 2), units.At(row, 3), kFloat32Row);
  }
  EXPECT_EQ(NumbersOf(walk, "the strongest along the text").back(), units.At(0, 3));
  const auto result = Row(trace.At(TracePoint::kMlp), trace.T() - 1);
  EXPECT_EQ(NumbersOf(walk, "result"), Numbers(result.begin(), result.end()));
}

TEST_P(ModelTopics, PositionsAreTheModels) {
  // It needs no text and no tokenizer.
  if (!AddsPositions(config())) {
    EXPECT_THROW(ExplainPositions(*backend_, model(), 3), Error);
    return;
  }
  const Report walk = ExplainPositions(*backend_, {.weights = weights_.get()}, 1000);
  const bool learned = config().learned_positions();
  const Matrix& table = StepOf(walk, learned ? "wpe" : "sinusoids").values;
  ASSERT_EQ(table.shape, (std::vector<int64_t>{config().n_positions, config().n_embd}));
  for (size_t i = 0; i < table.values.size(); ++i) {
    const auto p = static_cast<double>(i / static_cast<size_t>(config().n_embd));
    if (learned) {
      EXPECT_EQ(table.values[i], weights_->params().wpe.host<float>()[i]);
    } else if (i % static_cast<size_t>(config().n_embd) == 0) {
      EXPECT_NEAR(table.values[i], std::sin(p), kFloat32Row);
    }
  }
  const Numbers first = RowOf(walk, learned ? "wpe" : "sinusoids", 0);
  EXPECT_NEAR(NumbersOf(walk, "lengths")[0], Length(first), kFloat32Chain);
  EXPECT_EQ(ExplainPositions(*backend_, model(), 3).parts[0].values.rows(), 3);
}

TEST_P(ModelTopics, SamplingOfATextIsTheBlocksLastPart) {
  const SamplingOptions sampling{.temperature = 1.2, .top_k = 5};
  const Report walk = ExplainSampling(*backend_, model(), kText, sampling);
  const Report block = ExplainBlock(*backend_, model(), kText, sampling);
  for (const ReportPart& step : walk.parts) {
    const Numbers other = NumbersOf(block, step.name);
    ASSERT_EQ(other.size(), step.values.values.size());
    for (size_t i = 0; i < other.size(); ++i) {
      EXPECT_TRUE(other[i] == step.values.values[i] ||
                  (std::isnan(other[i]) && std::isnan(step.values.values[i])));
    }
  }
}

TEST_P(ModelTopics, WhatTheModelCannotDoIsAnError) {
  EXPECT_THROW(ExplainBlock(*backend_, model(), "", {}), Error);
  EXPECT_THROW(ExplainBlock(*backend_, model(), std::string(200, 'a'), {}), Error);
  EXPECT_THROW(ExplainBlock(*backend_, model(), "z", {}), Error);
  EXPECT_THROW(ExplainAttention(*backend_, model(), "a", L(), 0), Error);
  EXPECT_THROW(ExplainAttention(*backend_, model(), "a", 0, config().n_head), Error);
  EXPECT_THROW(ExplainLayerNorm(*backend_, model(), "a", -1), Error);
  EXPECT_THROW(ExplainRmsNorm(*backend_, model(), "a", -1), Error);
  EXPECT_THROW(ExplainGatedMlp(*backend_, model(), "a", L()), Error);
  // A tokenizer with more tokens than the model.
  const ByteTokenizer bytes;
  const LessonModel wrong{.weights = weights_.get(), .tokenizer = &bytes};
  EXPECT_THROW(ExplainSampling(*backend_, wrong, "\xF0", {}), Error);
}

}  // namespace
}  // namespace folio
