#include "folio/train/train_state.h"

#include <gtest/gtest.h>

#include <cstring>

#include "folio/io/file.h"
#include "folio/io/safetensors.h"
#include "folio/model/test_models.h"
#include "tests/kit/directory.h"
#include "tests/kit/expect.h"

namespace folio {
namespace {

class TrainStates : public InTemporaryDirectory {
 protected:
  TrainStates()
      : optimizer_(*backend_, {}, Dtype::kF32, Shards(BucketsOf(table_), 1)),
        loaded_(*backend_, {}, Dtype::kF32, Shards(BucketsOf(table_), 1)) {
    float next = 0.5f;
    for (const ParamInfo& info : table_.params()) {
      for (const StateArray& array : optimizer_.State()) {
        for (float& x : Elements<float>(table_.View(info, array.tensor))) x = next += 0.25f;
      }
    }
  }

  static TrainState State() {
    TorchRng rng(3), earlier(4);
    rng.Random32();
    return {.step = 12345678901,
            .tokens = 98765432109876,
            .evaluation = Evaluation{1.0 / 3, 2.0 / 7},
            .best_val_loss = 0.1,
            .best_step = 77,
            .seed = 1337,
            .health = {.first_loss = 10.5},
            .rollbacks = 2,
            .data_skipped = 31,
            .budget = TrainState::Budget{.steps = 99, .seconds = 0.3},
            .torch = rng.state(),
            .torch_before_batch = earlier.state()};
  }
  std::string StatePath() const { return At("train_state/state.json").string(); }
  void Edit(const std::string& from, const std::string& to) {
    SaveTrainState(At(""), State(), table_, optimizer_.State());
    std::string text = ReadFile(StatePath());
    const size_t at = text.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    WriteFileAtomically(StatePath(), text.replace(at, from.size(), to));
  }
  std::string Refusal() {
    return ErrorOf([&] { LoadTrainState(At(""), table_, loaded_); }, ErrorKind::kInput);
  }
  static bool Same(const Tensor& a, const Tensor& b) {
    return a.bytes() == b.bytes() && std::memcmp(a.raw(), b.raw(), a.bytes()) == 0;
  }

  std::unique_ptr<Backend> backend_ = MakeReferenceBackend();
  ParamTable table_{TinyConfig()};
  Optimizer optimizer_, loaded_;
};

TEST_F(TrainStates, EverythingReadsBack) {
  SaveTrainState(At(""), State(), table_, optimizer_.State());
  const TrainState state = LoadTrainState(At(""), table_, loaded_), expected = State();
  EXPECT_EQ(state.step, expected.step);
  EXPECT_EQ(state.tokens, expected.tokens);
  EXPECT_EQ(state.evaluation->train_loss, 1.0 / 3);
  EXPECT_EQ(state.evaluation->val_loss, 2.0 / 7);
  EXPECT_EQ(state.best_val_loss, 0.1);
  EXPECT_EQ(state.best_step, 77);
  EXPECT_EQ(state.seed, 1337);
  ASSERT_TRUE(state.budget);
  EXPECT_EQ(state.budget->steps, 99);
  EXPECT_EQ(state.budget->seconds, 0.3);
  for (const auto& [found, wanted] :
       {std::pair{state.torch, expected.torch},
        std::pair{state.torch_before_batch, expected.torch_before_batch}}) {
    ASSERT_TRUE(found);
    EXPECT_EQ(found->words, wanted->words);
    EXPECT_EQ(found->position, wanted->position);
    EXPECT_EQ(found->has_normal, wanted->has_normal);
    EXPECT_EQ(found->normal, wanted->normal);
  }
  const std::vector<std::string> names = {"m", "v"};
  for (size_t i = 0; i < names.size(); ++i) {
    EXPECT_EQ(loaded_.State()[i].name, names[i]);
    EXPECT_TRUE(Same(loaded_.State()[i].tensor, optimizer_.State()[i].tensor));
  }
  EXPECT_FALSE(Same(loaded_.State()[0].tensor, loaded_.State()[1].tensor));
}

// An optimizer of one group alone is what a method is beside that of another group.
TEST_F(TrainStates, ArraysOfSomeGroupsAreOfTheirParametersAlone) {
  for (const ParamGroup group : kParamGroups) {
    std::vector<ShardBucket> buckets = BucketsOf(table_);
    std::erase_if(buckets, [&](const ShardBucket& bucket) { return bucket.group != group; });
    const Optimizer saved(*backend_, {}, Dtype::kF32, Shards(buckets, 1));
    size_t tensors = 0;
    float next = 0;
    for (const StateArray& array : saved.State()) {
      for (const ParamInfo& info : table_.params()) {
        EXPECT_EQ(array.Covers(info), info.group == group) << info.name;
        if (info.group != group) continue;
        for (float& x : Elements<float>(array.View(info))) x = ++next;
        ++tensors;
      }
    }
    SaveTrainState(At(""), State(), table_, saved.State());
    EXPECT_EQ(SafetensorsFile(At("train_state/optimizer.safetensors")).tensors().size(), tensors);
    const Shards shared(buckets, 3);
    for (int rank = 0; rank < shared.ranks(); ++rank) {
      const Optimizer loaded(*backend_, {}, Dtype::kF32, shared, rank);
      LoadTrainState(At(""), table_, loaded);
      for (size_t b = 0; b < buckets.size(); ++b) {
        const Shards::Piece piece = shared.PieceOf(b, rank);
        const int64_t begin = piece.begin - shared.begin();
        for (size_t i = 0; i < loaded.State().size(); ++i) {
          EXPECT_TRUE(
              Same(loaded.State()[i].tensor.Slice(piece.offset, piece.offset + piece.size()),
                   saved.State()[i].tensor.Slice(begin, begin + piece.size())));
        }
      }
    }
  }
}

TEST_F(TrainStates, WhatIsAbsentStaysAbsent) {
  SaveTrainState(At(""), {.step = 1}, table_, optimizer_.State());
  const TrainState state = LoadTrainState(At(""), table_, loaded_);
  EXPECT_FALSE(state.evaluation);
  EXPECT_FALSE(state.best_val_loss);
  EXPECT_FALSE(state.torch);
  EXPECT_FALSE(state.budget);
}

TEST_F(TrainStates, RefusesMalformedState) {
  struct Change {
    const char *from, *to;
  };
  for (const auto& [from, to] :
       {Change{"\"format\": 1", "\"format\": 2"}, Change{"\"format\"", "\"farmat\""},
        Change{"\"step\": 12345678901", "\"step\": \"1\""}, Change{"\"step\"", "\"stop\""},
        Change{"\"step\": 12345678901", "\"step\": -1"}, Change{"\"tokens\": ", "\"tokens\": -"},
        Change{"\"train_loss\"", "\"loss\""},
        Change{"\"best_val_loss\": 0.1", "\"best_val_loss\": []"}, Change{"\"seed\"", "\"need\""},
        Change{"\"words\": [", "\"words\": [ 1, \"a\", "},
        Change{"\"words\": [", "\"words\": 3, \"w\": ["},
        Change{"\"position\": ", "\"position\": 99"}, Change{"\"seconds\": 0.3", "\"seconds\": -1"},
        Change{"\"steps\": 99", "\"steps\": []"},
        Change{"\"torch_before_batch\"", "\"torch_after\""}, Change{"{", "[{"}}) {
    Edit(from, to);
    EXPECT_TRUE(Contains(Refusal(), "state.json")) << from << " -> " << to;
  }
}

TEST_F(TrainStates, RefusesMissingAndTruncatedFiles) {
  EXPECT_TRUE(Contains(Refusal(), "state.json"));
  for (const char* name : {"state.json", "optimizer.safetensors"}) {
    const std::filesystem::path path = At("train_state") / name;
    SaveTrainState(At(""), State(), table_, optimizer_.State());
    const std::string bytes = ReadFile(path);
    WriteFileAtomically(path, bytes.substr(0, bytes.size() - 9));
    EXPECT_TRUE(Contains(Refusal(), name));
    std::filesystem::remove(path);
    EXPECT_TRUE(Contains(Refusal(), name));
  }
}

TEST_F(TrainStates, RefusesTheOptimizerStateOfAnotherModel) {
  GptConfig other = TinyConfig();
  other.n_inner = 23;
  const ParamTable table(other);
  const Optimizer optimizer(*backend_, {}, Dtype::kF32, Shards(BucketsOf(table), 1));
  SaveTrainState(At(""), State(), table, optimizer.State());
  EXPECT_TRUE(Contains(Refusal(), "optimizer.safetensors", "mlp.c_fc.weight"));
}

}  // namespace
}  // namespace folio
