#include "folio/inspect/trace.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <string>

#include "folio/infer/test_plain_model.h"
#include "folio/io/safetensors.h"
#include "folio/model/test_models.h"
#include "folio/model_files/checkpoint.h"
#include "tests/kit/expect.h"
#include "tests/kit/near.h"
#include "tests/kit/paths.h"
#include "tests/kit/threads.h"

namespace folio {
namespace {

std::vector<float> Copy(const Tensor& x) {
  return {Elements<float>(x).begin(), Elements<float>(x).end()};
}

class Tracing : public testing::TestWithParam<std::tuple<std::string, std::string>> {
 protected:
  void SetUp() override {
    backend_ = MakeBackend(std::get<1>(GetParam()));
    weights_ = LoadModel(dir_);
  }

  const GptConfig& config() const { return weights_->config(); }
  Trace All(std::span<const int32_t> ids) const {
    return Trace(*backend_, *weights_, ids, Trace::AllPoints());
  }
  std::vector<int32_t> Tokens(int64_t T) const { return RandomTokens(T, config().vocab_size, 5); }
  std::vector<float> Logits(GptPass& pass, int64_t begin, int64_t end) const {
    std::vector<float> out(static_cast<size_t>((end - begin) * config().vocab_size));
    pass.Logits(weights_->params(), begin, end,
                Tensor(out.data(), {end - begin, config().vocab_size}));
    return out;
  }

  std::filesystem::path dir_ = Fixture(std::get<0>(GetParam()));
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<GptWeights> weights_;
};

TEST_P(Tracing, EveryPointIsWhatItsNameSays) {
  const std::vector<int32_t> ids = Tokens(7);
  const Trace trace = All(ids);
  const PlainModel plain(*weights_, ids);
  for (const TracePoint point : Trace::AllPoints()) {
    const bool once = point == TracePoint::kEmbedded || point == TracePoint::kFinal;
    for (int64_t layer = 0; layer < (once ? 1 : config().n_layer); ++layer) {
      SCOPED_TRACE(std::string(InfoOf(point).name) + " " + std::to_string(layer));
      ExpectClose(Elements<float>(trace.At(point, layer)), plain.At(point, layer), kFloat32Model);
    }
  }
  EXPECT_EQ(trace.Stream(0).raw(), trace.At(TracePoint::kEmbedded).raw());
  EXPECT_EQ(trace.Stream(config().n_layer).raw(),
            trace.At(TracePoint::kOutput, config().n_layer - 1).raw());
}

TEST_P(Tracing, StreamsAndWeightsAreThoseOfAnIndependentImplementation) {
  const SafetensorsFile expected(dir_ / "expected.safetensors");
  const Shape shape = expected.Require("batches").shape;
  const int64_t B = shape[1], T = shape[2] - 1, H = config().n_head, C = config().n_embd;
  const std::vector<int32_t> batches = expected.ReadAs<int32_t>("batches");
  for (int64_t b = 0; b < B; ++b) {
    const Trace trace = All(std::span(batches).subspan(size_t(b * (T + 1)), size_t(T)));
    for (int64_t layer = 0; layer < config().n_layer; ++layer) {
      const std::string name = std::to_string(layer);
      const std::vector<double> hidden = expected.ReadAs<double>("trace.hidden." + name);
      ExpectClose(Elements<float>(trace.Stream(layer + 1)),
                  std::span(hidden).subspan(size_t(b * T * C), size_t(T * C)), kFloat32Model);
      const std::vector<double> attn = expected.ReadAs<double>("trace.attn." + name);
      std::vector<float> weights(size_t(H * T * T));
      for (int64_t h = 0; h < H; ++h) {
        trace.HeadWeights(layer, h, std::span(weights).subspan(size_t(h * T * T), size_t(T * T)));
      }
      ExpectClose(weights, std::span(attn).subspan(size_t(b * H * T * T), weights.size()),
                  kFloat32Model);
    }
  }
}

TEST_P(Tracing, HeadsAreMadeAgainFromQueriesAndKeys) {
  for (const int64_t length : {int64_t{1}, int64_t{7}, config().n_positions}) {
    const std::vector<int32_t> ids = Tokens(length);
    const Trace trace = All(ids);
    const PlainModel plain(*weights_, ids);
    const size_t T = ids.size(), D = static_cast<size_t>(config().head_size());
    const size_t C = static_cast<size_t>(config().n_embd);
    for (int64_t layer = 0; layer < config().n_layer; ++layer) {
      for (size_t h = 0; h < static_cast<size_t>(config().n_head); ++h) {
        const HeadTrace head = trace.Head(layer, static_cast<int64_t>(h));
        EXPECT_EQ(head.T, length);
        EXPECT_EQ(head.D, config().head_size());
        ExpectClose(head.scores, std::span(plain.Scores(layer)).subspan(h * T * T, T * T),
                    kFloat32Model);
        ExpectClose(head.weights, std::span(plain.Weights(layer)).subspan(h * T * T, T * T),
                    kFloat32Model);
        std::vector<double> heads, q, k, v;
        for (size_t i = 0; i < T * D; ++i) {
          const size_t t = i / D, column = h * D + i % D;
          heads.push_back(Elements<float>(trace.At(TracePoint::kHeads, layer))[t * C + column]);
          const float* qkv = trace.At(TracePoint::kQkv, layer).data<float>() + t * 3 * C + column;
          q.push_back(qkv[0]);
          k.push_back(qkv[C]);
          v.push_back(qkv[2 * C]);
        }
        ExpectClose(head.context, heads, kFloat32Model);
        EXPECT_EQ(Difference(head.q, q), 0);
        EXPECT_EQ(Difference(head.k, k), 0);
        EXPECT_EQ(Difference(head.v, v), 0);
        for (size_t t = 0; t < T; ++t) {
          double sum = 0;
          for (size_t s = 0; s < T; ++s) {
            sum += head.weights[t * T + s];
            EXPECT_EQ(head.weights[t * T + s] == 0, s > t);
          }
          EXPECT_NEAR(sum, 1, kFloat32Row);
        }
        std::vector<float> weights(T * T, 7);
        trace.HeadWeights(layer, static_cast<int64_t>(h), weights);
        EXPECT_EQ(weights, head.weights);
      }
    }
  }
}

TEST_P(Tracing, LogitsOfTheLastStreamAreThoseOfThePass) {
  const std::vector<int32_t> ids = Tokens(11);
  const Trace trace = All(ids);
  GptPass pass(*backend_, config(), 1, 11, PassKind::kForward);
  pass.Forward(weights_->params(), ids);
  for (const auto& [begin, end] :
       std::vector<std::pair<int64_t, int64_t>>{{0, 11}, {0, 1}, {3, 10}, {10, 11}}) {
    const std::vector<float> expected = Logits(pass, begin, end);
    std::vector<float> found(expected.size());
    trace.Logits(trace.Stream(config().n_layer), begin, end,
                 Tensor(found.data(), {end - begin, config().vocab_size}));
    EXPECT_EQ(found, expected) << begin;
  }
  ExpectClose(Logits(pass, 0, 11), PlainModel(*weights_, ids).logits(), kFloat32Model);
}

TEST_P(Tracing, KeepsWhatWasAskedForAndNothingElse) {
  const std::vector<int32_t> ids = Tokens(5);
  const int64_t last = config().n_layer - 1;
  const Trace all = All(ids);
  const std::vector<TracePoint> points = {TracePoint::kMlp, TracePoint::kEmbedded,
                                          TracePoint::kMlp};
  const Trace some(*backend_, *weights_, ids, points);
  for (const TracePoint point : Trace::AllPoints()) {
    EXPECT_EQ(some.Has(point), point == TracePoint::kMlp || point == TracePoint::kEmbedded);
  }
  EXPECT_EQ(Copy(some.At(TracePoint::kMlp, last)), Copy(all.At(TracePoint::kMlp, last)));
  EXPECT_EQ(Copy(some.Stream(0)), Copy(all.Stream(0)));
  EXPECT_DEATH(some.Stream(1), "not asked");
  EXPECT_DEATH(some.Head(0, 0), "not asked");
  EXPECT_TRUE(
      Contains(ErrorOf([&] { some.At(TracePoint::kMlp, config().n_layer); }, ErrorKind::kUsage),
               "no layer"));
  EXPECT_TRUE(Contains(ErrorOf([&] { some.At(TracePoint::kEmbedded, 1); }, ErrorKind::kUsage),
                       "no layer 1"));
  EXPECT_TRUE(
      Contains(ErrorOf([&] { all.Head(0, config().n_head); }, ErrorKind::kUsage), "no head"));
}

TEST(TracingBothWays, HeadsAreWhatTheModelComputes) {
  GptConfig tiny = TinyConfig();
  tiny.causal = false;
  const GptWeights weights(tiny);
  Scatter(weights, 1);
  const auto backend = MakeCpuBackend();
  const std::vector<int32_t> ids = RandomTokens(5, tiny.vocab_size, 5);
  const Trace trace(*backend, weights, ids, Trace::AllPoints());
  const int64_t D = tiny.head_size();
  for (int64_t h = 0; h < tiny.n_head; ++h) {
    const HeadTrace head = trace.Head(1, h);
    EXPECT_GT(head.weights[4], 0);  // of the last key, for the first query
    for (int64_t i = 0; i < trace.T() * D; ++i) {
      EXPECT_NEAR(head.context[static_cast<size_t>(i)],
                  Row(trace.At(TracePoint::kHeads, 1), i / D)[static_cast<size_t>(h * D + i % D)],
                  1e-5);
    }
  }
}

TEST(TracingWithAMask, HeadsAreWhatTheModelComputes) {
  const GptConfig tiny = TinyConfig();
  const GptWeights weights(tiny);
  Scatter(weights, 1);
  const auto backend = MakeCpuBackend();
  const std::vector<int32_t> ids = RandomTokens(5, tiny.vocab_size, 5);
  std::vector<float> mask(25, 0);
  mask[3 * 5 + 1] = -1e9F;  // query 3 does not attend to key 1, and attends more to key 2
  mask[3 * 5 + 2] = 2;
  const Trace plain(*backend, weights, ids, Trace::AllPoints());
  const Trace trace(*backend, weights, ids, Trace::AllPoints(), mask);
  const int64_t D = tiny.head_size();
  for (int64_t h = 0; h < tiny.n_head; ++h) {
    const HeadTrace head = trace.Head(0, h), other = plain.Head(0, h);
    EXPECT_EQ(head.weights[3 * 5 + 1], 0);
    EXPECT_GT(head.weights[3 * 5 + 2], other.weights[3 * 5 + 2]);
    EXPECT_EQ(head.weights[2 * 5 + 1], other.weights[2 * 5 + 1]);
    for (int64_t i = 0; i < trace.T() * D; ++i) {
      EXPECT_NEAR(head.context[static_cast<size_t>(i)],
                  Row(trace.At(TracePoint::kHeads, 0), i / D)[static_cast<size_t>(h * D + i % D)],
                  1e-5);
    }
  }
  EXPECT_TRUE(
      Contains(ErrorOf([&] { Trace(*backend, weights, ids, {}, std::span(mask).first(24)); },
                       ErrorKind::kUsage),
               "a mask of 24 numbers"));
}

TEST_P(Tracing, DoesNotDependOnThreads) {
  const std::vector<int32_t> ids = Tokens(config().n_positions);
  ExpectSameOnThreads([&] {
    const Trace trace = All(ids);
    const HeadTrace head = trace.Head(config().n_layer - 1, 0);
    std::vector<std::vector<float>> seen = {head.scores, head.weights, head.context};
    for (const TracePoint point : Trace::AllPoints()) seen.push_back(Copy(trace.At(point)));
    return seen;
  });
}

TEST_P(Tracing, RefusesWhatIsNoTextOfTheModel) {
  EXPECT_TRUE(Contains(ErrorOf([&] { All({}); }, ErrorKind::kUsage), "0 tokens cannot"));
  EXPECT_TRUE(Contains(ErrorOf([&] { All(Tokens(config().n_positions + 1)); }, ErrorKind::kUsage),
                       "cannot be traced"));
  EXPECT_TRUE(
      Contains(ErrorOf([&] { All(std::vector<int32_t>{-1}); }, ErrorKind::kUsage), "no token -1"));
  EXPECT_TRUE(Contains(ErrorOf(
                           [&] {
                             Trace(*backend_, GptWeights(TinyConfig(), Dtype::kF64), Tokens(1),
                                   Trace::AllPoints());
                           },
                           ErrorKind::kUsage),
                       "float32"));
}

INSTANTIATE_TEST_SUITE_P(Models, Tracing,
                         testing::Combine(testing::Values("gpt2-tiny", "gpt2-untied-postnorm",
                                                          "gpt2-sinusoid-relu"),
                                          testing::Values("reference", "cpu")),
                         [](const auto& test) {
                           std::string name =
                               std::get<0>(test.param) + "_" + std::get<1>(test.param);
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace folio
