// Which dtype a run computes in.

#include "folio/train/precision.h"

#include <gtest/gtest.h>

#include "folio/backend/backend.h"
#include "folio/tensor/dtype.h"
#include "tests/kit/expect.h"

namespace folio {
namespace {

// Says what it supports and prefers, and runs nothing.
class Idle final : public GenericBackend<Idle> {
 public:
  explicit Idle(Dtype preferred, bool bf16 = true) : preferred_(preferred), bf16_(bf16) {}
  std::string name() const override { return "idle"; }
  std::string description() const override { return "idle"; }
  bool Supports(Dtype dtype) const override { return dtype == Dtype::kF32 || bf16_; }
  Dtype PreferredDtype() const override { return preferred_; }

  template <class Op>
  void Apply(const Op&) {}

 private:
  Dtype preferred_;
  bool bf16_;
};

TEST(TrainDtype, AutoIsWhatTheBackendPrefersForALargeModel) {
  const GptConfig gpt2;
  EXPECT_EQ(TrainConfig().dtype, "auto");
  EXPECT_EQ(TrainDtype({}, gpt2, Idle(Dtype::kBF16)), Dtype::kBF16);
  EXPECT_EQ(TrainDtype({}, gpt2, Idle(Dtype::kF32)), Dtype::kF32);
  EXPECT_EQ(TrainDtype({}, gpt2, *MakeReferenceBackend()), Dtype::kF32);
}

TEST(TrainDtype, AutoIsFp32WhereBf16GainsNothingOrIsNotWhatIsComparedWith) {
  GptConfig model;
  model.n_embd = 63;
  EXPECT_EQ(TrainDtype({}, model, Idle(Dtype::kBF16)), Dtype::kF32);
  model.n_embd = 64;
  EXPECT_EQ(TrainDtype({}, model, Idle(Dtype::kBF16)), Dtype::kBF16);
  TrainConfig lockstep;
  lockstep.rng = "torch";
  EXPECT_EQ(TrainDtype(lockstep, GptConfig(), Idle(Dtype::kBF16)), Dtype::kF32);
}

TEST(TrainDtype, WhatIsAskedForIsDone) {
  TrainConfig train;
  GptConfig small;
  small.n_embd = 8;
  train.rng = "torch";
  train.dtype = "bf16";
  EXPECT_EQ(TrainDtype(train, small, Idle(Dtype::kF32)), Dtype::kBF16);
  train.dtype = "fp32";
  EXPECT_EQ(TrainDtype(train, GptConfig(), Idle(Dtype::kBF16)), Dtype::kF32);
}

TEST(TrainDtype, RefusesBf16WhereTheBackendHasNone) {
  TrainConfig train;
  train.dtype = "bf16";
  const Idle backend(Dtype::kF32, false);
  const std::string error =
      ErrorOf([&] { TrainDtype(train, GptConfig(), backend); }, ErrorKind::kUsage);
  EXPECT_TRUE(Contains(error, "idle", "bf16")) << error;
}

TEST(TrainDtype, ItsNameReadsBackAsItself) {
  for (const Dtype dtype : {Dtype::kF32, Dtype::kBF16}) {
    TrainConfig train;
    train.dtype = DtypeSetting(dtype);
    for (const Dtype preferred : {Dtype::kF32, Dtype::kBF16}) {
      EXPECT_EQ(TrainDtype(train, GptConfig(), Idle(preferred)), dtype);
    }
  }
}

TEST(PassOptions, AreTheRunsDtypeAndRecomputation) {
  TrainConfig train;
  const Idle backend(Dtype::kBF16);
  EXPECT_EQ(PassOptionsOf(train, GptConfig(), backend), (PassOptions{.dtype = Dtype::kBF16}));
  train.recompute = true;
  train.dtype = "fp32";
  EXPECT_EQ(PassOptionsOf(train, GptConfig(), backend), (PassOptions{.recompute = true}));
}

}  // namespace
}  // namespace folio
