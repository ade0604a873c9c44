#include <cmath>
#include <numeric>

#include "folio/inspect/embeddings.h"
#include "folio/inspect/trace.h"
#include "folio/model/transformer.h"
#include "folio/serve/test_page.h"

namespace folio {
namespace {

class PageEmbeddingsTest : public PageTest {
 protected:
  PageEmbeddingsTest() { Serve(); }

  // The value of a byte of a frame.
  static double ValueOf(const ReadFrame& frame, uint8_t byte) {
    return frame.header["offset"].get<double>() + frame.header["scale"].get<double>() * byte;
  }

  OpenedModel model_ = SmallModel();
  const Tensor& wte_ = model_.weights->params().wte;
};

TEST_F(PageEmbeddingsTest, TokensAreProjectedAsInspectDoes) {
  const ReadFrame frame = Frame("/api/embed/pca");
  EXPECT_EQ(frame.header["dtype"], "i16");
  EXPECT_EQ(frame.header["shape"], Json::array({257, 3}));
  const auto numbers = frame.Numbers<int16_t>();
  std::vector<int64_t> every(257);
  std::iota(every.begin(), every.end(), 0);
  const Projection wanted = ProjectRows(*model_.backend, wte_, every);
  const double scale = frame.header["scale"].get<double>();
  EXPECT_NEAR(frame.header["explained"][size_t{0}].get<double>(), wanted.explained_x, 1e-6);
  EXPECT_NEAR(frame.header["explained"][1].get<double>(), wanted.explained_y, 1e-6);
  for (size_t id = 0; id < 257; ++id) {
    EXPECT_NEAR(scale * numbers[3 * id], wanted.x[id], 0.02) << id;
    EXPECT_NEAR(scale * numbers[3 * id + 1], wanted.y[id], 0.02) << id;
  }
}

TEST_F(PageEmbeddingsTest, TheirTagSavesTheSecondTime) {
  const auto first = client_->Get("/api/embed/pca");
  const std::string tag = first.header("ETag");
  EXPECT_EQ(client_->Get("/api/embed/pca", {{"If-None-Match", tag}}).status, 304);
  EXPECT_EQ(client_->Get("/api/embed/pca").body, first.body);
}

TEST_F(PageEmbeddingsTest, NeighboursAreInspects) {
  const Json json = Get("/api/embed/nn?id=97&k=5");
  const std::vector<Neighbour> wanted = NearestRows(wte_, Row(wte_, 97), 5, 97);
  ASSERT_EQ(json["nearest"].size(), 5u);
  for (size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(json["nearest"][i][size_t{0}], wanted[i].row);
    EXPECT_NEAR(json["nearest"][i][1].get<double>(), wanted[i].cosine, 1e-6);
  }
  EXPECT_EQ(Get("/api/embed/nn?id=0")["nearest"].size(), 20u);
}

TEST_F(PageEmbeddingsTest, PositionsAreEvenlyChosen) {
  std::vector<float> table = PositionTable(*model_.weights);
  const Tensor positions(table.data(), {300, 16});
  const std::vector<float> cosines = CosineSimilarity(positions, 300);
  const ReadFrame sim = Frame("/api/wpe?view=sim&size=30");
  EXPECT_EQ(sim.header["shape"], Json::array({30, 30}));
  EXPECT_EQ(sim.header["positions"][3], 30);
  const auto bytes = sim.Numbers<uint8_t>();
  for (size_t i = 0; i < 30; ++i) {
    for (size_t j = 0; j < 30; ++j) {
      EXPECT_NEAR(ValueOf(sim, bytes[30 * i + j]), cosines[3000 * i + 10 * j], 1 / 254.0);
    }
  }
  const ReadFrame values = Frame("/api/wpe?view=values&size=100");
  EXPECT_EQ(values.header["shape"], Json::array({100, 16}));
  const double half = values.header["scale"].get<double>() / 2;
  const auto steps = values.Numbers<uint8_t>();
  for (int64_t i = 0; i < 100; ++i) {
    for (size_t c = 0; c < 16; ++c) {
      const size_t at = static_cast<size_t>(i) * 16 + c;
      EXPECT_NEAR(ValueOf(values, steps[at]), Row(positions, 3 * i)[c], 1.01 * half);
    }
  }
  const auto curves = Frame("/api/wpe?view=curves&dims=15,2").Numbers<float>();
  ASSERT_EQ(curves.size(), 600u);
  EXPECT_EQ(curves[7], Row(positions, 7)[15]);
  EXPECT_EQ(curves[300 + 299], Row(positions, 299)[2]);
}

TEST_F(PageEmbeddingsTest, WhatIsNotThereIsRefused) {
  for (const char* path :
       {"/api/embed/nn", "/api/embed/nn?id=257", "/api/embed/nn?id=-1", "/api/embed/nn?id=1&k=0",
        "/api/embed/nn?id=1&k=201", "/api/wpe?view=what", "/api/wpe?size=7", "/api/wpe?size=513",
        "/api/wpe?view=curves&dims=16"}) {
    ErrorOf(Ask("GET", path), 400);
  }
  ErrorOf(Ask("GET", "/api/embed/what"), 404);
}

}  // namespace
}  // namespace folio
