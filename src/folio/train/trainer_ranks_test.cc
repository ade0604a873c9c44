// Runs of several ranks, which leave what one process leaves: to the byte where they share the
// data, but for rounding where they share the layers of the model.
#include <gtest/gtest.h>

#include <algorithm>
#include <span>
#include <string>
#include <utility>

#include "folio/io/file.h"
#include "folio/io/model_dir.h"
#include "folio/model/test_models.h"
#include "folio/model_files/checkpoint.h"
#include "folio/train/ranks.h"
#include "folio/train/test_rank_training.h"
#include "tests/kit/expect.h"
#include "tests/kit/near.h"
#include "tests/kit/paths.h"

namespace folio {
namespace {

TEST_F(TrainingOnRanks, LeaveTheSameBytesHoweverManyTheyAre) {
  RunOn(1, "one");
  for (const int ranks : {2, 3, 4}) {
    const std::string run = "ranks" + std::to_string(ranks);
    RunOn(ranks, run);
    ExpectSameRun("one", run);
  }
}

TEST_F(TrainingOnRanks, LeaveTheSameAdaptersAlone) {
  const GptWeights from(model_);
  Scatter(from, 5);
  const StoredModel stored = AsStored(from);
  from_ = &stored;
  config_.lora = {.rank = 2, .targets = "c_attn,c_proj,c_fc", .dropout = 0.1};
  config_.save = "adapter";
  config_.init = "/the/model";
  RunOn(1, "one");
  EXPECT_TRUE(Contains(ReadFile(At("one/best") / kBaseModelFile), "/the/model"));
  EXPECT_FALSE(std::filesystem::exists(At("one/base")));
  EXPECT_FALSE(std::filesystem::exists(At("one/last") / kWeightsFile));
  RunOn(3, "three");
  ExpectSameRun("one", "three");
  RunOn(2, "parts", 4);
  RunOn(3, "parts", 100, /*resume=*/true);
  ExpectSameRun("one", "parts");
}

// Models of other kinds (tests/fixtures/families), with a vocabulary that the data has.
TEST_F(TrainingOnRanks, LeaveTheSameBytesWhateverTheModelIs) {
  config_.grad_accumulation = 2;
  config_.max_steps = 2;
  config_.eval_every = 0;
  const int64_t V = model_.vocab_size;
  for (const std::string kind : {"gemma3", "gpt_neox", "olmo2", "phi", "qwen3", "nanochat"}) {
    SCOPED_TRACE(kind);
    model_ = OpenModelDir(Fixture("families") / kind).config;
    if (kind == "nanochat") AddNanochatExtras(model_);
    model_.vocab_size = V;
    model_.n_positions = 9;
    RunOn(1, kind + "-one");
    RunOn(2, kind + "-two");
    ExpectSameRun(kind + "-one", kind + "-two");
  }
}

TEST_F(TrainingOnRanks, GoOnWithFewerAndMore) {
  RunOn(1, "one");
  RunOn(4, "parts", 3);
  RunOn(2, "parts", 4, true);
  RunOn(1, "parts", 6, true);
  RunOn(3, "parts", 100, true);
  ExpectSameRun("one", "parts");
}

TEST_F(TrainingOnRanks, RoundedSumsDoSoToo) {
  config_.reduce_dtype = "bf16";
  RunOn(1, "one");
  RunOn(3, "ranks");
  ExpectSameRun("one", "ranks");
}

// As many micro-batches in a row are added up whoever has them.
TEST_F(TrainingOnRanks, SumsThatAreSentAreThoseOfOneProcess) {
  config_.reduce_every = 4;
  RunOn(1, "one");
  RunOn(3, "three", 4);
  RunOn(1, "three", 100, true);
  ExpectSameRun("one", "three");
  config_.reduce_every = 5;
  EXPECT_TRUE(Contains(ErrorAndHelp([&] { config_.Validate("settings"); }, ErrorKind::kUsage),
                       "12 micro-batches do not divide into groups of 5", "4 or 6"));
}

TEST_F(TrainingOnRanks, ANumberThatDoesNotDivideIsRefusedWithTheNearest) {
  const auto refusal = [&](int64_t micro_batches, int tensor, int ranks) {
    config_.grad_accumulation = micro_batches;
    config_.tensor_parallel = tensor;
    return ErrorAndHelp([&] { RequireShares(config_, ranks); }, ErrorKind::kUsage);
  };
  EXPECT_TRUE(Contains(refusal(12, 1, 5), "5 ranks cannot share 12", "4 or 6 ranks",
                       "--grad-accumulation 10 or 15"));
  EXPECT_TRUE(Contains(refusal(1, 1, 4), "possible are 1 ranks, or", "--grad-accumulation 4"));
  EXPECT_TRUE(Contains(refusal(12, 2, 5), "5 ranks do not divide into groups of 2", "4 or 6 ranks",
                       "--tensor-parallel 1 or 5"));
  EXPECT_TRUE(Contains(refusal(12, 2, 1), "one rank cannot form a group of 2",
                       "is the number of ranks that share each layer; possible are 2", "mpirun"));
  EXPECT_TRUE(Contains(refusal(12, 2, 10), "5 groups of 2 ranks cannot share 12 micro-batches",
                       "4 or 6 groups of 2 ranks", "--grad-accumulation 10 or 15"));
  config_.reduce_every = 3;
  EXPECT_TRUE(Contains(refusal(12, 1, 3), "12 micro-batches evenly, in groups of 3",
                       "possible are 2 or 4 ranks", "--grad-accumulation 9 or 18"));
}

class TrainingInParts : public TrainingOnRanks {
 protected:
  TrainingInParts() {
    model_.n_embd = 48;  // blocks of which each rank owns some
    model_.n_head = 4;
    config_.grad_accumulation = 4;
    config_.max_steps = 10;
    config_.eval_every = 5;
    config_.eval_batches = 3;
    config_.keep_last = 1;
    config_.eps = 1e-2;  // rounding is not blown up where a gradient is nothing else
  }

  std::vector<float> Weights(const std::string& checkpoint) const {
    return Copied<float>(LoadModel(At(checkpoint))->flat());
  }
  // Moments by name, first ones and second ones.
  std::vector<float> Moments(const std::string& checkpoint) const {
    const ParamTable table(model_);
    Optimizer optimizer(*backend_, {}, Dtype::kF32, Shards(BucketsOf(table), 1));
    LoadTrainState(At(checkpoint), table, optimizer);
    std::vector<float> all;
    for (const StateArray& array : optimizer.State()) {
      const std::span<const float> flat = Elements<float>(array.tensor);
      const float largest = static_cast<float>(Largest(flat));
      for (const float x : flat) all.push_back(x / largest);
    }
    return all;
  }
  void ExpectCloseRun(const std::string& a, const std::string& b) const {
    const double tolerance = static_cast<double>(config_.max_steps) * kFloat32Model;
    ExpectClose(Numbers(b), Numbers(a), tolerance);
    ExpectClose(Moments(b + "/last"), Moments(a + "/last"), tolerance);
    for (const char* checkpoint : {"/last", "/best"}) {
      ExpectClose(Weights(b + checkpoint), Weights(a + checkpoint), tolerance);
      const auto one = Files(a + checkpoint), two = Files(b + checkpoint);
      for (const auto& [name, bytes] : one) EXPECT_TRUE(two.contains(name)) << name;
      EXPECT_EQ(one.at("config.json"), two.at("config.json"));
    }
  }
};

TEST_F(TrainingInParts, AreThoseOfOneProcess) {
  RunOn(1, 1, "one");
  for (const auto& [data, tensor] : {std::pair(1, 2), {2, 2}, {2, 1}}) {
    const std::string run = std::to_string(data) + "x" + std::to_string(tensor);
    RunOn(data, tensor, run);
    ExpectCloseRun("one", run);
    ExpectClose(samples_[run], samples_["one"], 10 * kFloat32Model);
    EXPECT_FALSE(samples_[run].empty());
  }
  // How many share the data changes no bit here either.
  ExpectSameFiles("1x2/last", "2x2/last");
}

TEST_F(TrainingInParts, WithNormsOfHeadsAndGatesAreThoseOfOneProcess) {
  model_.norm = NormKind::kRms;
  model_.mlp = MlpKind::kGated;
  model_.n_inner = 60;
  model_.n_kv_head = 2;
  model_.qk_norm = QkNorm::kHead;
  model_.position_embedding = PositionKind::kRotary;
  RunOn(1, 1, "one");
  RunOn(2, 2, "parts");
  ExpectCloseRun("one", "parts");
}

TEST_F(TrainingInParts, PostNormUntiedInBf16LeaveItsCheckpointsToo) {
  model_.norm_position = NormPosition::kPost;
  model_.tie_word_embeddings = false;
  model_.lm_head_bias = true;
  config_.dtype = "bf16";
  RunOn(1, 1, "one");
  RunOn(2, 2, "parts");
  // Now and then rounding goes to the other neighbour: the runs stay as close as one does.
  constexpr double kBf16Once = 0x1p-8;
  ExpectClose(Numbers("parts"), Numbers("one"), kBf16Once);
  ExpectClose(Weights("parts/last"), Weights("one/last"), kBf16Once);
}

TEST_F(TrainingInParts, GoOnInOtherParts) {
  RunOn(1, 1, "one");
  RunOn(2, 2, "parts", 3);
  RunOn(1, 2, "parts", 4, true);
  RunOn(1, 1, "parts", 6, true);
  RunOn(2, 2, "parts", 100, true);
  ExpectCloseRun("one", "parts");
}

TEST_F(TrainingInParts, GoOnToTheSameBytesInTheSameParts) {
  RunOn(2, 2, "straight");
  RunOn(2, 2, "halted", 3);
  RunOn(2, 2, "halted", 7, true);
  RunOn(2, 2, "halted", 100, true);
  ExpectSameRun("straight", "halted");
}

TEST_F(TrainingInParts, HeadsThatCannotBeSharedAreRefused) {
  model_.n_head = 3;
  EXPECT_TRUE(Contains(ErrorOf([&] { RunOn(1, 2, "none"); }, ErrorKind::kUsage), "n_head"));
}

}  // namespace
}  // namespace folio
