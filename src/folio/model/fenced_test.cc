// Passes and decoders compute the same, bit for bit, where the host cannot touch their memory.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "folio/backend/test_fenced_orders.h"
#include "folio/model/adapters.h"
#include "folio/model/decoder.h"
#include "folio/model/gpt.h"
#include "folio/model/shard_weights.h"
#include "folio/model/test_models.h"
#include "folio/model/weight_init.h"
#include "tests/kit/near.h"

namespace folio {
namespace {

// A model and a pass over it.
struct FencedCase {
  std::string name;
  GptConfig config = TinyConfig();
  PassOptions options = {};
  bool key_mask = false, mask = false;
};

std::vector<FencedCase> FencedCases() {
  std::vector<FencedCase> cases;
  const auto add = [&](const std::string& name, const auto& change) {
    FencedCase c{.name = name};
    change(c);
    cases.push_back(c);
  };
  add("gpt2", [](FencedCase&) {});
  add("bf16", [](FencedCase& c) { c.options.dtype = Dtype::kBF16; });
  add("post", [](FencedCase& c) { c.config.norm_position = NormPosition::kPost; });
  add("branch", [](FencedCase& c) { c.config.norm_position = NormPosition::kBranch; });
  add("parallel", [](FencedCase& c) { c.config.block = BlockKind::kParallelOneNorm; });
  add("sinusoidal", [](FencedCase& c) {
    c.config.position_embedding = PositionKind::kSinusoidal;
    c.options.recompute = true;
  });
  add("gated", [](FencedCase& c) {
    c.config.mlp = MlpKind::kGated;
    c.config.norm = NormKind::kRms;
    c.config.position_embedding = PositionKind::kRotary;
    c.config.n_embd = 12;
    c.config.n_kv_head = 1;
    c.config.qk_norm = QkNorm::kHead;
    c.config.sliding_window = 2;
    c.config.layer_kinds = LayerKindsOf("wf");
    c.config.logit_cap = 15;
  });
  add("nanochat", [](FencedCase& c) {
    AddNanochatExtras(c.config);
    c.config.n_embd = 24;
    c.options.recompute = true;
    c.key_mask = true;
  });
  add("adapters", [](FencedCase& c) {
    c.options.lora = {.rank = 2, .alpha = 3, .targets = "c_attn,c_fc,mlp.c_proj", .dropout = 0.2};
  });
  add("packed", [](FencedCase& c) { c.options.packed = true; });
  add("mask", [](FencedCase& c) { c.mask = true; });
  return cases;
}

// The numbers of a training step.
struct Numbers {
  double loss = 0, sum = 0;
  std::vector<double> losses, gradients, logits;
  bool operator==(const Numbers&) const = default;
};

std::vector<double> Doubles(const Tensor& x) {
  if (x.dtype() == Dtype::kF64) return Copied<double>(x);
  const std::vector<float> floats = Copied<float>(x);
  return {floats.begin(), floats.end()};
}

int64_t NonZeros(const std::vector<double>& numbers) {
  return std::ranges::count_if(numbers, [](double x) { return x != 0; });
}

Numbers Train(Backend& backend, const FencedCase& c) {
  constexpr int64_t B = 2, T = 5;
  GptConfig config = c.config;
  config.embd_pdrop = config.attn_pdrop = config.resid_pdrop = 0.1;
  const ParamTable table(config, c.options.lora, {}, backend.memory().row_multiple());
  const Dtype number = c.options.number();
  const GptWeights weights(table, number, ParamPart::kAll, backend.memory());
  const GptWeights grads(table, number, ParamPart::kTrained, backend.memory());
  Scatter(weights, 1);
  GptPass pass(backend, config, B, T, PassKind::kTraining, c.options);
  std::vector<uint8_t> seen(B * T, 1), allowed(T * T, 1);
  seen[0] = seen[T] = allowed[T] = 0;
  if (c.key_mask) pass.set_key_mask(Tensor(seen.data(), {B, T}));
  if (c.mask) pass.set_mask(Tensor(allowed.data(), {1, 1, T, T}));
  if (c.options.packed) pass.set_begins(std::vector<int32_t>{0, 0, 2, 2, 2, 0, 1, 1, 1, 4});
  const std::vector<int32_t> ids = RandomTokens(B * T, config.vocab_size, 2);
  std::vector<int32_t> targets = RandomTokens(B * T, config.vocab_size, 3);
  targets[3] = -1;
  Numbers numbers;
  for (const bool accumulate : {false, true}) {
    pass.Forward(weights.params(), ids, {.on = true, .seed = 4, .step = accumulate});
    numbers.loss = pass.LossAndBackward(weights.params(), targets, 0.3, grads.params(), accumulate);
  }
  numbers.losses = Doubles(pass.losses());
  for (const Tensor& d : grads.tensors()) {
    if (!d) continue;
    const std::vector<double> of_parameter = Doubles(d);
    numbers.gradients.insert(numbers.gradients.end(), of_parameter.begin(), of_parameter.end());
  }
  EXPECT_EQ(NonZeros(Doubles(grads.flat())), NonZeros(numbers.gradients)) << "in the padding";
  pass.Forward(weights.params(), ids);
  numbers.sum = pass.Loss(weights.params(), targets);
  MemoryPlan plan;
  const MemoryPlan::Id logits = plan.Add("logits", number, {B * T, config.vocab_size});
  plan.Place();
  const Arena arena(plan, backend.memory());
  pass.Logits(weights.params(), 0, B * T, arena.Get(plan, logits));
  numbers.logits = Doubles(arena.Get(plan, logits));
  return numbers;
}

// Logits of sequences that grow, are forked and share pages.
std::vector<double> Decode(Backend& backend, const FencedCase& c) {
  GptConfig config = c.config;
  config.n_positions = 300;  // more than two pages
  const ParamTable table(config, c.options.lora, {}, backend.memory().row_multiple());
  const GptWeights weights(table, Dtype::kF32, ParamPart::kAll, backend.memory());
  Scatter(weights, 1);
  Decoder decoder(backend, weights, {.pages = 12, .sequences = 4});
  std::vector<double> all;
  const auto keep = [&](const Tensor& logits) {
    const std::vector<double> numbers = Doubles(logits);
    all.insert(all.end(), numbers.begin(), numbers.end());
  };
  const std::vector<int32_t> ids = RandomTokens(160, config.vocab_size, 5);
  CachedSequence one(decoder.cache());
  keep(decoder.Append(one, std::span(ids).first(150)));
  keep(decoder.LogitsOf(0, 3));
  CachedSequence other = decoder.Fork(one);
  const std::vector<SequencePiece> pieces = {{&one, std::span(ids).subspan(150, 3), true},
                                             {&other, std::span(ids).subspan(155, 2)}};
  keep(decoder.Append(pieces));
  const HostCopy norm(decoder.norm());
  keep(norm.tensor());
  return all;
}

class OnFencedMemory : public testing::TestWithParam<std::tuple<FencedCase, FencedOrder>> {
 protected:
  const FencedCase& c() const { return std::get<0>(GetParam()); }
  std::unique_ptr<Backend> cpu_ = MakeCpuBackend();
  std::unique_ptr<Backend> fenced_ = MakeFencedBackend(std::get<1>(GetParam()));
};

TEST_P(OnFencedMemory, TrainingHasTheBitsOfTheCpu) {
  if (!cpu_->Supports(c().options.dtype)) GTEST_SKIP() << "the cpu backend lacks this dtype here";
  const Numbers expected = Train(*cpu_, c());
  EXPECT_NE(expected.loss, 0);
  EXPECT_TRUE(Train(*fenced_, c()) == expected);
}

TEST_P(OnFencedMemory, DecodingHasTheBitsOfTheCpu) {
  EXPECT_EQ(Decode(*fenced_, c()), Decode(*cpu_, c()));
}

// A vocabulary of 11 in rows of 16.
TEST_P(OnFencedMemory, RowsOfPaddingAreNeverSeen) {
  const auto padded = MakeFencedBackend(std::get<1>(GetParam()), {.row_multiple = 16});
  const GptConfig config = c().config;
  EXPECT_EQ(ParamTable(config, {}, {}, 16).parameters(), ParamTable(config).parameters());
  EXPECT_GT(ParamTable(config, {}, {}, 16).flat_size(), ParamTable(config).flat_size());
  EXPECT_TRUE(Train(*padded, c()) == Train(*cpu_, c()));
  // Products of few rows sum in another order at the last of the columns.
  ExpectNear(Decode(*padded, c()), Decode(*cpu_, c()), 1e-5);
}

// Logits of bfloat16, in chunks of two rows, of a padded vocabulary.
TEST_P(OnFencedMemory, LossesAndGradientsOfRoundedLogitsAreNear) {
  FencedForm form{.row_multiple = 16};
  form.preferences = {.loss_logits = 1, .loss_rows = 2, .loss_rows_bf16 = 2, .low_logits = true};
  const auto rounded = MakeFencedBackend(std::get<1>(GetParam()), form);
  const Numbers found = Train(*rounded, c()), expected = Train(*cpu_, c());
  const bool low = c().options.dtype == Dtype::kBF16;
  EXPECT_EQ(found.losses != expected.losses, low);
  EXPECT_EQ(found.logits, expected.logits);
  EXPECT_NEAR(found.loss, expected.loss, low ? 0.02 * expected.loss : 0);
  double largest = 0, apart = 0;
  for (size_t i = 0; i < expected.gradients.size(); ++i) {
    largest = std::max(largest, std::abs(expected.gradients[i]));
    apart = std::max(apart, std::abs(found.gradients[i] - expected.gradients[i]));
  }
  EXPECT_LT(apart, (low ? 0.02 : 1e-6) * largest);
}

TEST_P(OnFencedMemory, WeightsAreInitialisedSharedAndMergedAsInTheHosts) {
  const auto make = [&](Backend& backend) {
    const ParamTable table(c().config, c().options.lora);
    GptWeights weights(table, Dtype::kF32, ParamPart::kAll, backend.memory());
    InitWeights(weights, 7);
    std::vector<std::vector<double>> all = {Doubles(weights.flat())};
    if (table.lora().on()) {
      Scatter(weights, 8);
      const std::unique_ptr<GptWeights> merged = MergeAdapter(weights);
      for (const Tensor& x : merged->tensors()) all.push_back(Doubles(x));
    } else {
      GptWeights copy(table, Dtype::kF32, ParamPart::kAll, backend.memory());
      InitWeightsFrom(weights, copy);
      all.push_back(Doubles(copy.flat()));
    }
    return all;
  };
  EXPECT_EQ(make(*fenced_), make(*cpu_));
}

std::string FencedName(const testing::TestParamInfo<OnFencedMemory::ParamType>& test) {
  const auto& [fenced, order] = test.param;
  return fenced.name + "_" + OrderName(order);
}

INSTANTIATE_TEST_SUITE_P(Models, OnFencedMemory,
                         testing::Combine(testing::ValuesIn(FencedCases()), FencedOrders()),
                         FencedName);

}  // namespace
}  // namespace folio
