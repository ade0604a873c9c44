#include "folio/formats/model_formats.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "folio/formats/test_expected.h"
#include "folio/io/file.h"
#include "folio/io/model_dir.h"
#include "folio/model/checkpoint.h"
#include "folio/model/test_models.h"
#include "folio/model/transformer.h"
#include "tests/kit/directory.h"
#include "tests/kit/expect.h"

namespace folio {
namespace {

class Formats : public InTemporaryDirectory {
 protected:
  Formats() : weights_(TinyConfig()) { Scatter(weights_, 1); }

  GptWeights weights_;
};

TEST_F(Formats, AModelOfOursIsFoundInItsDirectoryAndInItsRun) {
  std::filesystem::create_directories(At("run/best"));
  SaveModel(At("run/best"), weights_);
  for (const char* name : {"run", "run/best"}) {
    const FoundModel found = FindModel(At(name));
    EXPECT_EQ(found.format, "hf");
    EXPECT_EQ(found.path, At("run/best"));
    EXPECT_EQ(found.tokenizer, nullptr);
    EXPECT_TRUE(SameNumbers(*ReadWeights(found.model), weights_));
  }
}

TEST_F(Formats, WhatLiesThereAsItIsNeededIsNotCopied) {
  SaveModel(At(""), weights_);
  for (const Loading loading : {Loading::kMap, Loading::kRead}) {
    const FoundModel found = FindModel(At(""), loading);
    const auto mapped = MapWeights(found.model);
    EXPECT_TRUE(SameNumbers(*mapped, weights_));
    for (size_t i = 0; i < mapped->tensors().size(); ++i) {
      EXPECT_EQ(mapped->tensors()[i].raw(), found.model.params[i].from.data);
    }
  }
}

TEST_F(Formats, MappedWeightsOutliveWhatTheyWereFoundWith) {
  SaveModel(At(""), weights_);
  std::unique_ptr<GptWeights> mapped;
  {
    const FoundModel found = FindModel(At(""));
    mapped = MapWeights(found.model);
  }
  std::filesystem::remove(At(kWeightsFile));
  EXPECT_TRUE(SameNumbers(*mapped, weights_));
}

TEST_F(Formats, AMatrixThatLiesTheOtherWayRoundIsTurned) {
  SaveModel(At(""), weights_);
  FoundModel found = FindModel(At(""));
  // wte, read as (C,V) turned round.
  StoredParam& wte = found.model.params[0];
  const int64_t V = wte.from.shape[0], C = wte.from.shape[1];
  wte.from.shape = {C, V};
  wte.transposed = true;
  const auto mapped = MapWeights(found.model), read = ReadWeights(found.model);
  EXPECT_TRUE(SameNumbers(*mapped, *read));
  const float* from = weights_.params().wte.data<float>();
  const float* to = read->params().wte.data<float>();
  for (int64_t v = 0; v < V; ++v) {
    for (int64_t c = 0; c < C; ++c) EXPECT_EQ(to[v * C + c], from[c * V + v]);
  }
  // Errors name the place in the file.
  weights_.params().wte.data<float>()[2 * V + 1] = NAN;
  SaveModel(At(""), weights_);
  StoredModel damaged = FindModel(At("")).model;
  damaged.params[0].from.shape = {C, V};
  damaged.params[0].transposed = true;
  for (const auto load : {+[](const StoredModel& m) { return ReadWeights(m); },
                          +[](const StoredModel& m) { return MapWeights(m); }}) {
    EXPECT_TRUE(Contains(ErrorOf([&] { load(damaged); }, ErrorKind::kInput), "[2,1] is nan"));
  }
}

TEST_F(Formats, NoModelIsAnErrorThatSaysWhatToGive) {
  EXPECT_TRUE(Contains(ErrorAndHelp([&] { FindModel(At("")); }), "config.json", "RUN/best"));
  EXPECT_TRUE(Contains(ErrorAndHelp([&] { FindModel(At("nowhere")); }), "nowhere", "spelling"));
  WriteFileAtomically(At("text"), "no model");
  EXPECT_TRUE(Contains(ErrorAndHelp([&] { FindModel(At("text")); }), "text: no model here"));
}

}  // namespace
}  // namespace folio
