#include <algorithm>
#include <cmath>

#include "folio/inspect/activation_stats.h"
#include "folio/inspect/lens.h"
#include "folio/inspect/trace.h"
#include "folio/serve/test_service.h"
#include "tests/kit/near.h"

namespace folio {
namespace {

// A trace of the service, and beside it the one that inspect's functions read.
class PageTraceTest : public PageTest {
 protected:
  explicit PageTraceTest(int64_t T = 37) : T_(T) {
    for (int64_t t = 0; t < T; ++t) ids_.push_back(static_cast<int32_t>(t * t % 11 + 97));
  }
  void Begin(ServiceOptions options = {}) {
    Serve(std::move(options));
    made_ = Post("/api/trace", {{"ids", ids_}}).json();
    at_ = "/api/trace/" + made_["trace"].text() + "/";
    trace_ = std::make_unique<Trace>(*model_.backend, *model_.weights, ids_, Trace::AllPoints());
  }
  std::vector<float> Weights(int64_t layer, int64_t head) const {
    return trace_->Head(layer, head).weights;
  }

  int64_t T_;
  std::vector<int32_t> ids_;
  OpenedModel model_ = SmallModel();
  Json made_;
  std::string at_;
  std::unique_ptr<Trace> trace_;
};

TEST_F(PageTraceTest, SaysWhatItIs) {
  Begin();
  EXPECT_EQ(made_["T"], 37);
  EXPECT_EQ(made_["L"], 2);
  EXPECT_EQ(made_["H"], 2);
  EXPECT_EQ(made_["d_head"], 8);
  EXPECT_EQ(made_["expires_s"], 600);
  EXPECT_EQ(made_["ids"], Json(ids_));
  const Json of_text = Post("/api/trace", {{"text", "abc"}}).json();
  EXPECT_EQ(of_text["ids"], Json::array({97, 98, 99}));
}

TEST_F(PageTraceTest, HeadsAreHalfSquaresOfInspectsWeights) {
  Begin();
  const ReadNumbers frame = Numbers(at_ + "attn/1/0");
  EXPECT_EQ(frame.about["layout"], "tril");
  EXPECT_EQ(frame.about["code"], "sqrt");
  EXPECT_EQ(frame.about["T"], T_);
  EXPECT_EQ(frame.shape(), Json::array({T_ * (T_ + 1) / 2}));
  EXPECT_TRUE(frame.about["pool"].is_null());
  const auto bytes = frame.Of<uint8_t>();
  ASSERT_EQ(std::ssize(bytes), T_ * (T_ + 1) / 2);
  const std::vector<float> weights = Weights(1, 0);
  for (int64_t q = 0, at = 0; q < T_; ++q) {
    for (int64_t k = 0; k <= q; ++k, ++at) {
      const double p = weights[static_cast<size_t>(q * T_ + k)];
      EXPECT_EQ(bytes[static_cast<size_t>(at)], std::lround(255 * std::sqrt(p))) << q << ' ' << k;
    }
  }
}

TEST_F(PageTraceTest, TilesAreTheLargestOrTheMeanOfTheirCells) {
  Begin();
  const std::vector<float> weights = Weights(0, 1);
  for (const bool mean : {false, true}) {
    const ReadNumbers frame =
        Numbers(at_ + "attn/0/1?q0=5&q1=30&k0=2&k1=25&h=7&w=4&pool=" + (mean ? "mean" : "max"));
    EXPECT_EQ(frame.shape(), Json::array({7, 4}));
    EXPECT_EQ(frame.about["pool"], mean ? "mean" : "max");
    const auto bytes = frame.Of<uint8_t>();
    ASSERT_EQ(bytes.size(), 28u);
    for (int64_t i = 0; i < 7; ++i) {
      for (int64_t j = 0; j < 4; ++j) {
        double largest = 0, sum = 0, count = 0;
        for (int64_t q = 5 + i * 25 / 7; q < 5 + (i + 1) * 25 / 7; ++q) {
          for (int64_t k = 2 + j * 23 / 4; k < 2 + (j + 1) * 23 / 4; ++k) {
            const double p = weights[static_cast<size_t>(q * T_ + k)];
            largest = std::max(largest, p);
            sum += p;
            ++count;
          }
        }
        const double p = mean ? sum / count : largest;
        EXPECT_NEAR(bytes[static_cast<size_t>(i * 4 + j)], 255 * std::sqrt(p), 0.51);
      }
    }
  }
  EXPECT_EQ(Numbers(at_ + "attn/0/1?w=512&h=512").shape(), Json::array({T_, T_}));
}

TEST_F(PageTraceTest, ThumbsAreTilesOfEveryHead) {
  Begin();
  for (const int64_t size : {48, 9, 48}) {
    const ReadNumbers thumbs = Numbers(at_ + "thumbs?size=" + std::to_string(size));
    const int64_t s = std::min(size, T_);
    EXPECT_EQ(thumbs.shape(), Json::array({2, 2, s, s}));
    for (int64_t head = 0; head < 4; ++head) {
      const ReadNumbers tile =
          Numbers(at_ + "attn/" + std::to_string(head / 2) + "/" + std::to_string(head % 2) +
                  "?pool=max&w=" + std::to_string(s) + "&h=" + std::to_string(s));
      EXPECT_EQ(
          thumbs.payload.substr(static_cast<size_t>(head * s * s), static_cast<size_t>(s * s)),
          tile.payload);
    }
  }
}

TEST_F(PageTraceTest, RowsAreExactBothWays) {
  Begin();
  for (int64_t layer = 0; layer < 2; ++layer) {
    const std::string l = "&l=" + std::to_string(layer);
    const auto row = Numbers(at_ + "row?q=7" + l).Of(),
               column = Numbers(at_ + "row?key=7" + l).Of();
    ASSERT_EQ(std::ssize(row), 2 * T_);
    for (int64_t head = 0; head < 2; ++head) {
      const std::vector<float> weights = Weights(layer, head);
      for (int64_t t = 0; t < T_; ++t) {
        const auto at = static_cast<size_t>(head * T_ + t);
        EXPECT_EQ(row[at], weights[static_cast<size_t>(7 * T_ + t)]);
        EXPECT_EQ(column[at], weights[static_cast<size_t>(t * T_ + 7)]);
      }
    }
  }
  const ReadNumbers all = Numbers(at_ + "row?q=7");
  EXPECT_EQ(all.shape(), Json::array({2, 2, T_}));
  EXPECT_EQ(all.payload,
            Numbers(at_ + "row?q=7&l=0").payload + Numbers(at_ + "row?q=7&l=1").payload);
}

TEST_F(PageTraceTest, ScoresAreInspects) {
  Begin();
  const ReadNumbers frame = Numbers(at_ + "scores");
  EXPECT_EQ(frame.about["columns"], Json::array({"entropy", "distance", "first", "previous", "self",
                                                 "duplicate", "induction"}));
  EXPECT_EQ(frame.shape(), Json::array({2, 2, 7}));
  const auto numbers = frame.Of();
  const HeadScores scores = ScoreHead(Weights(1, 1), ids_);
  const std::vector<double> wanted = {scores.entropy,  scores.distance, scores.first,
                                      scores.previous, scores.self,     scores.duplicate,
                                      scores.induction};
  for (size_t i = 0; i < 7; ++i) EXPECT_EQ(numbers[21 + i], static_cast<float>(wanted[i])) << i;
  EXPECT_GT(scores.duplicate, 0);
}

TEST_F(PageTraceTest, StepsLeadFromQueriesToTheContext) {
  Begin();
  const ReadNumbers frame = Numbers(at_ + "steps?l=1&h=1&q=20");
  const HeadTrace head = trace_->Head(1, 1);
  const auto part = [&](const char* name) { return frame.Of(name); };
  const auto row = [](const std::vector<float>& x, int64_t width) {
    return std::vector<float>(x.begin() + 20 * width, x.begin() + 21 * width);
  };
  EXPECT_EQ(part("q"), row(head.q, 8));
  EXPECT_EQ(part("k"), head.k);
  EXPECT_EQ(part("v"), head.v);
  EXPECT_EQ(part("scaled"), row(head.scores, T_));
  EXPECT_EQ(part("softmax"), row(head.weights, T_));
  EXPECT_EQ(part("out"), row(head.context, 8));
  const double scale = frame.about["scale"].get<double>();
  EXPECT_NEAR(scale, 1 / std::sqrt(8.0), 1e-12);
  const std::vector<float> scores = part("scores"), scaled = part("scaled"),
                           masked = part("masked");
  for (size_t k = 0; k < scores.size(); ++k) {
    EXPECT_NEAR(scores[k] * scale, scaled[k], 1e-5 * (1 + std::abs(scaled[k])));
    EXPECT_EQ(masked[k], k > 20 ? -HUGE_VALF : scaled[k]);
  }
}

// For a model whose scores are capped and whose layers see windows, softmax is still that of what
// stands before it.
TEST(PageStepsOfWindows, SoftmaxIsOfTheMaskedScores) {
  OpenedModel model = SmallModel();
  GptConfig config = model.weights->config();
  config.sliding_window = 5;
  config.layer_kinds = LayerKindsOf("w");
  config.attention_cap = 0.5;
  config.position_embedding = PositionKind::kRotary;
  model.weights = std::make_unique<GptWeights>(config);
  Scatter(*model.weights, 1);
  Service service({}, {});
  service.Add("windows", std::move(model));
  const HttpReply made =
      service.Answer(LocalRequest("POST", "/api/trace", R"({"text":"a text of some bytes"})"));
  const std::string path = "/api/trace/" + ParseJson(made.body, "trace")["trace"].text() + "/steps";
  const ReadNumbers frame = NumbersIn(
      service.Answer(LocalRequest("GET", path, "", {{"l", "0"}, {"h", "1"}, {"q", "12"}})).body);
  EXPECT_EQ(frame.about["window"], 5);
  EXPECT_EQ(frame.about["turned"], true);
  const std::vector<float> masked = frame.Of("masked"), softmax = frame.Of("softmax");
  double sum = 0;
  for (const float score : masked) sum += std::exp(static_cast<double>(score));
  for (size_t k = 0; k < masked.size(); ++k) {
    EXPECT_EQ(std::isinf(masked[k]), k > 12 || k < 8) << k;
    EXPECT_NEAR(softmax[k], std::exp(static_cast<double>(masked[k])) / sum, 1e-5) << k;
  }
}

TEST_F(PageTraceTest, TheLensIsInspects) {
  Begin();
  const Json json = Get(at_ + "lens?pos=3,30&top=4");
  const std::vector<int64_t> positions = {3, 30};
  const std::vector<LensCell> cells = LogitLens(*trace_, positions, 4);
  ASSERT_EQ(json["rows"].size(), cells.size());
  for (size_t i = 0; i < cells.size(); ++i) {
    const Json& row = json["rows"][i];
    const LensCell& cell = cells[i];
    EXPECT_EQ(row["layer"], cell.layer == 0 ? Json("embed") : Json(cell.layer - 1));
    EXPECT_EQ(row["pos"], cell.position);
    EXPECT_EQ(row["rank_final"], cell.final_rank + 1);
    EXPECT_NEAR(row["kl"].get<double>(), cell.kl, 1e-5 * (1 + cell.kl));
    ASSERT_EQ(row["top"].size(), 4u);
    for (size_t j = 0; j < 4; ++j) {
      EXPECT_EQ(row["top"][j][size_t{0}], cell.top[j].id);
      EXPECT_NEAR(row["top"][j][1].get<double>(), cell.top[j].probability, 1e-6);
    }
  }
  EXPECT_EQ(json["final"]["30"], json["rows"][5]["top"][size_t{0}]);
  EXPECT_EQ(Get(at_ + "lens")["rows"][2]["pos"], T_ - 1);
}

TEST_F(PageTraceTest, LogitsAreAWholeRow) {
  Begin();
  const ReadNumbers frame = Numbers(at_ + "logits?pos=7");
  std::vector<float> wanted(257);
  trace_->Logits(trace_->Stream(2), 7, 8, Tensor(wanted.data(), {1, 257}));
  EXPECT_EQ(frame.Of(), wanted);
}

TEST_F(PageTraceTest, TensorsAreThoseOfThePass) {
  Begin();
  for (const TracePoint point : Trace::AllPoints()) {
    const bool outside = point == TracePoint::kEmbedded || point == TracePoint::kFinal;
    for (int64_t layer = 0; layer < (outside ? 1 : 2); ++layer) {
      const std::string name =
          (outside ? "" : std::to_string(layer) + ".") + std::string(InfoOf(point).name);
      const ReadNumbers frame = Numbers(at_ + "tensor/" + name);
      const Tensor x = trace_->At(point, layer);
      const std::span<const float> wanted = Elements<float>(x);
      EXPECT_EQ(frame.shape(), Json::array({x.dim(0), x.dim(1)})) << name;
      EXPECT_EQ(frame.Of(), std::vector<float>(wanted.begin(), wanted.end())) << name;
      const ActivationStats stats = StatisticsOf(x);
      const Json& told = frame.about["stats"];
      EXPECT_NEAR(told["std"].get<double>(), stats.std, 1e-5 * stats.std);
      EXPECT_NEAR(told["max"].get<double>(), stats.max, 1e-5 * std::abs(stats.max));
      int64_t count = 0;
      for (const Json& bin : told["histogram"]["counts"]) count += bin.get<int64_t>();
      EXPECT_EQ(count, x.count());
    }
  }
  const auto slice = Numbers(at_ + "tensor/1.up?slice=3:5,10:20").Of();
  ASSERT_EQ(slice.size(), 20u);
  EXPECT_EQ(slice[11], Row(trace_->At(TracePoint::kUp, 1), 4)[11]);
}

class LongPageTrace : public PageTraceTest {
 protected:
  LongPageTrace() : PageTraceTest(300) {}
};

TEST_F(LongPageTrace, LargeTensorsShowWhatIsFarthestFromZero) {
  Begin();
  const ReadNumbers frame = Numbers(at_ + "tensor/0.up?slice=0:300,0:64");
  EXPECT_TRUE(frame.about["pool"].is_null()) << "19,200 numbers are not many";
  const Tensor x = trace_->At(TracePoint::kQkv, 1);
  EXPECT_EQ(Numbers(at_ + "tensor/1.qkv").Of().size(), size_t(x.count()));
}

TEST_F(PageTraceTest, WhatIsNotThereIsRefused) {
  Begin();
  for (const char* what : {"",
                           "nothing",
                           "attn/2/0",
                           "attn/0/2",
                           "attn/0/x",
                           "attn/0",
                           "tensor/qkv",
                           "tensor/0.what",
                           "tensor/2.qkv",
                           "tensor/-1.qkv",
                           "tensor/0.embedded",
                           "row",
                           "row?q=1&key=1",
                           "row?q=37",
                           "row?q=-1",
                           "row?q=1&l=2",
                           "row?q=1x",
                           "steps?l=0&h=0",
                           "steps?l=0&h=0&q=37",
                           "lens?pos=37",
                           "lens?pos=1,,2",
                           "lens?top=0",
                           "logits?pos=99999999999999999999",
                           "thumbs?size=7",
                           "thumbs?size=129",
                           "attn/0/0?q0=5&q1=5",
                           "attn/0/0?w=0",
                           "attn/0/0?pool=min",
                           "tensor/0.qkv?slice=1",
                           "tensor/0.qkv?slice=0:38,0:1",
                           "tensor/0.qkv?slice=0:1,5:5",
                           "tensor/0.qkv?slice=0:1,0:1,0:1",
                           "attn/0/0/0"}) {
    const Answer answer = Ask("GET", at_ + what);
    EXPECT_TRUE(answer.status == 400 || answer.status == 404) << what << answer.status;
    ErrorOf(answer, answer.status);
  }
  EXPECT_EQ(Ask("GET", "/api/trace/t0/scores").json()["error"]["code"], "no_trace");
  ErrorOf(Ask("GET", "/api/trace"), 405);
  ErrorOf(Post("/api/trace", {{"text", std::string(301, 'a')}}), 400);
  ErrorOf(Post("/api/trace", {{"ids", Json::array({1, -1})}}), 400);
}

TEST_F(PageTraceTest, OnlyTheLastFewAreKept) {
  ServiceOptions options;
  options.page.traces.traces = 2;
  Begin(options);
  const Json second = Post("/api/trace", {{"text", "ab"}}).json();
  EXPECT_EQ(Ask("GET", at_ + "scores").status, 200) << "asked for: the second is older now";
  const Json third = Post("/api/trace", {{"text", "abc"}}).json();
  EXPECT_EQ(Ask("GET", at_ + "scores").status, 200);
  EXPECT_EQ(Ask("GET", "/api/trace/" + third["trace"].text() + "/scores").status, 200);
  EXPECT_EQ(Ask("GET", "/api/trace/" + second["trace"].text() + "/scores").status, 404);
}

TEST_F(PageTraceTest, TheyHaveALimitOfBytes) {
  ServiceOptions options;
  options.page.traces.bytes = 130'000;
  Begin(options);
  ASSERT_GT(made_["bytes"].get<int64_t>(), 65'000) << "two are too many";
  ASSERT_LT(made_["bytes"].get<int64_t>(), 130'000);
  EXPECT_EQ(Post("/api/trace", {{"ids", ids_}}).status, 200);
  EXPECT_EQ(Ask("GET", at_ + "scores").status, 404);
  ErrorOf(Post("/api/trace", {{"text", std::string(300, 'a')}}), 400);
}

TEST_F(PageTraceTest, TheyGoWhenNobodyLooks) {
  ServiceOptions options;
  options.page.traces.seconds = 0.3;
  Begin(options);
  EXPECT_EQ(Ask("GET", at_ + "scores").status, 200);
  std::this_thread::sleep_for(std::chrono::milliseconds(400));
  EXPECT_EQ(Ask("GET", at_ + "scores").status, 404);
}

TEST_F(PageTraceTest, ManyMayLookWhileTheModelWrites) {
  ServiceOptions options;
  options.page.traces.traces = 10;
  Begin(options);
  const std::string wanted = Ask("GET", at_ + "row?q=30").body,
                    tensor = Ask("GET", at_ + "tensor/0.up").body;
  std::vector<std::thread> threads;
  for (int i = 0; i < 6; ++i) {
    threads.emplace_back([&, i] {
      for (int j = 0; j < 5; ++j) {
        switch (i) {
          case 0:
            Generate({{"prompt", "abc"}, {"max_tokens", 20}});
            break;
          case 1:
            EXPECT_EQ(Post("/api/trace", {{"text", "abc"}}).status, 200);
            break;
          case 2:
            EXPECT_EQ(Ask("GET", at_ + "tensor/0.up").body, tensor);
            break;
          case 3:
            EXPECT_EQ(Post("/api/score", {{"text", "some text"}}).status, 200);
            break;
          default:
            EXPECT_EQ(Ask("GET", at_ + "row?q=30").body, wanted);
            Ask("GET", at_ + "row?q=3&l=" + std::to_string(j % 2));
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace folio
