#include "folio/model/gpt.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <sstream>
#include <string>
#include <type_traits>

#include "folio/backend/backend.h"
#include "folio/model/test_models.h"
#include "tests/kit/expect.h"

namespace folio {
namespace {

class Gpt : public testing::Test {
 protected:
  static constexpr int64_t B = 2, T = 4;

  Gpt() { Scatter(weights_, 1); }

  std::vector<double> Losses(GptPass& pass, const std::vector<int32_t>& ids,
                             DropoutContext dropout = {}) {
    pass.Forward(weights_.params(), ids, dropout);
    pass.Loss(weights_.params(), targets_);
    const auto losses = Elements<double>(pass.losses());
    return {losses.begin(), losses.end()};
  }
  GptPass Pass(PassKind kind, int64_t batch = B) {
    return GptPass(*backend_, config_, batch, T, kind, {.dtype = Dtype::kF64});
  }

  GptConfig config_ = [] {
    GptConfig config = TinyConfig();
    for (double GptConfig::*rate : GptConfig::DropoutRates()) config.*rate = 0.3;
    return config;
  }();
  std::unique_ptr<Backend> backend_ = MakeReferenceBackend();
  GptWeights weights_{config_, Dtype::kF64};
  std::vector<int32_t> ids_ = RandomTokens(B * T, config_.vocab_size, 2);
  std::vector<int32_t> targets_ = RandomTokens(B * T, config_.vocab_size, 3);
};

TEST_F(Gpt, LossIsMinusTheLogarithmOfTheTargetsProbability) {
  GptPass pass = Pass(PassKind::kForward);
  const std::vector<double> losses = Losses(pass, ids_);
  const int64_t V = config_.vocab_size;
  std::vector<double> memory(static_cast<size_t>(B * T * V));
  pass.Logits(weights_.params(), 0, B * T, Tensor(memory.data(), {B * T, V}));
  double total = 0;
  for (size_t n = 0; n < losses.size(); ++n) {
    double sum = 0;
    const double* row = memory.data() + n * static_cast<size_t>(V);
    for (int64_t v = 0; v < V; ++v) sum += std::exp(row[v]);
    EXPECT_NEAR(losses[n], std::log(sum) - row[targets_[n]], 1e-12);
    total += losses[n];
  }
  EXPECT_NEAR(pass.Loss(weights_.params(), targets_), total, 1e-12);
}

TEST_F(Gpt, LogitsAreThereAfterTheBackwardToo) {
  const int64_t N = B * T, V = config_.vocab_size;
  const GptWeights grads(config_, Dtype::kF64);
  GptPass pass = Pass(PassKind::kTraining);
  std::vector<double> before(static_cast<size_t>(N * V)), after(before.size());
  pass.Forward(weights_.params(), ids_);
  pass.Logits(weights_.params(), 0, N, Tensor(before.data(), {N, V}));
  const double loss = pass.LossAndBackward(weights_.params(), targets_, 1, grads.params());
  pass.Logits(weights_.params(), 0, N, Tensor(after.data(), {N, V}));
  EXPECT_EQ(after, before);
  EXPECT_EQ(pass.Loss(weights_.params(), targets_), loss);
}

struct Recorder : TraceSink {
  void Take(TracePoint point, int64_t layer, const Tensor& x) override {
    seen.push_back(std::string(InfoOf(point).name) + " " + std::to_string(layer));
    shapes.push_back(x.shape());
  }
  std::vector<std::string> seen;
  std::vector<Shape> shapes;
};

TEST_F(Gpt, ShowsEachPlaceOnceInTheOrderOfThePass) {
  const auto layer = [](const std::string& points) {
    std::vector<std::string> out = {"embedded 0"};
    for (const char* l : {"0", "1"}) {
      std::istringstream names(points);
      for (std::string name; names >> name;) out.push_back(name + " " + l);
    }
    out.push_back("final 0");
    return out;
  };
  Recorder pre, post;
  GptPass pass = Pass(PassKind::kForward);
  pass.set_trace(&pre);
  pass.Forward(weights_.params(), ids_);
  EXPECT_EQ(pre.seen, layer("ln_1 qkv heads attention middle ln_2 up activated mlp output"));
  const std::vector<Shape> shapes = {{8, 6}, {8, 6},  {8, 18}, {8, 6}, {8, 6}, {8, 6},
                                     {8, 6}, {8, 24}, {8, 24}, {8, 6}, {8, 6}};
  EXPECT_EQ(std::vector<Shape>(pre.shapes.begin(), pre.shapes.begin() + 11), shapes);
  config_.norm_position = NormPosition::kPost;
  GptPass other = Pass(PassKind::kForward);
  other.set_trace(&post);
  other.Forward(weights_.params(), ids_);
  EXPECT_EQ(post.seen, layer("qkv heads attention middle ln_1 up activated mlp ln_2 output"));
}

TEST_F(Gpt, BeingLookedAtChangesNothing) {
  GptPass pass = Pass(PassKind::kTraining);
  const std::vector<double> before = Losses(pass, ids_);
  Recorder recorder;
  pass.set_trace(&recorder);
  EXPECT_EQ(Losses(pass, ids_), before);
  EXPECT_EQ(recorder.seen.size(), 22u);
  pass.set_trace(nullptr);
  EXPECT_EQ(Losses(pass, ids_), before);
  EXPECT_EQ(recorder.seen.size(), 22u);
}

TEST_F(Gpt, IsNotLookedAtInBf16) {
  GptPass pass(*backend_, config_, B, T, PassKind::kForward, {.dtype = Dtype::kBF16});
  Recorder recorder;
  pass.set_trace(nullptr);
  EXPECT_DEATH(pass.set_trace(&recorder), "a trace is not of bfloat16");
}

TEST_F(Gpt, NoTokenSeesWhatFollowsIt) {
  GptPass pass = Pass(PassKind::kForward);
  const std::vector<double> before = Losses(pass, ids_);
  std::vector<int32_t> ids = ids_;
  ids[2] = (ids[2] + 1) % 11;  // sequence 0, position 2
  const std::vector<double> after = Losses(pass, ids);
  for (size_t n = 0; n < before.size(); ++n) {
    EXPECT_EQ(before[n] == after[n], n != 2 && n != 3) << n;
  }
}

TEST_F(Gpt, EveryTokenSeesAllWhereItIsNotCausal) {
  config_.causal = false;
  GptPass pass = Pass(PassKind::kForward);
  const std::vector<double> before = Losses(pass, ids_);
  std::vector<int32_t> ids = ids_;
  ids[3] = (ids[3] + 1) % 11;  // the last token of sequence 0
  const std::vector<double> after = Losses(pass, ids);
  for (size_t n = 0; n < before.size(); ++n) EXPECT_EQ(before[n] == after[n], n > 3) << n;
}

// The causal mask, given as one, of either kind, to a model that has none of its own.
TEST_F(Gpt, AMaskOfPairsIsWhatItSays) {
  GptPass causal = Pass(PassKind::kForward);
  const std::vector<double> expected = Losses(causal, ids_);
  config_.causal = false;
  GptPass pass = Pass(PassKind::kForward);
  std::vector<uint8_t> allowed;
  std::vector<double> added;
  for (int64_t i = 0; i < T * T; ++i) {
    allowed.push_back(i % T <= i / T);
    added.push_back(i % T <= i / T ? 0.0 : -INFINITY);
  }
  EXPECT_NE(Losses(pass, ids_), expected);
  pass.set_mask(Tensor(allowed.data(), {1, 1, T, T}));
  EXPECT_EQ(Losses(pass, ids_), expected);
  pass.set_mask(Tensor(added.data(), {1, 1, T, T}));
  EXPECT_EQ(Losses(pass, ids_), expected);
  std::fill(allowed.begin(), allowed.end(), uint8_t{0});  // nothing is NaN
  pass.set_mask(Tensor(allowed.data(), {1, 1, T, T}));
  for (const double loss : Losses(pass, ids_)) EXPECT_TRUE(std::isfinite(loss));
  pass.set_mask({});
  EXPECT_NE(Losses(pass, ids_), expected);
}

// Two texts of 1 and 3 tokens, and two of 2 and 2, each beside the same texts by themselves.
TEST_F(Gpt, PackedTextsDoNotKnowOfEachOther) {
  for (const char* positions : {"learned", "sinusoidal"}) {
    config_.position_embedding = *FromName<PositionKind>(positions);
    const GptWeights weights(config_, Dtype::kF64);
    Scatter(weights, 1);
    GptPass packed(*backend_, config_, B, T, PassKind::kForward,
                   {.dtype = Dtype::kF64, .packed = true});
    packed.set_begins(std::vector<int32_t>{0, 1, 1, 1, /**/ 0, 0, 2, 2});
    packed.Forward(weights.params(), ids_);
    packed.Loss(weights.params(), targets_);
    for (const auto& [begin, length] : {std::pair<size_t, int64_t>{0, 1}, {1, 3}, {4, 2}, {6, 2}}) {
      GptPass alone(*backend_, config_, 1, length, PassKind::kForward, {.dtype = Dtype::kF64});
      const auto part = [&, at = begin, n = static_cast<size_t>(length)](const auto& all) {
        return std::span(all).subspan(at, n);
      };
      alone.Forward(weights.params(), part(ids_));
      alone.Loss(weights.params(), part(targets_));
      for (int64_t i = 0; i < length; ++i) {
        EXPECT_NEAR(packed.losses().data<double>()[static_cast<int64_t>(begin) + i],
                    alone.losses().data<double>()[i], 1e-13);
      }
    }
  }
}

TEST_F(Gpt, MaskedKeysAreSeenByNobody) {
  GptPass pass = Pass(PassKind::kForward);
  std::vector<uint8_t> mask = {1, 0, 1, 1, 1, 1, 1, 1};
  pass.set_key_mask(Tensor(mask.data(), {B, T}));
  const std::vector<double> before = Losses(pass, ids_);
  std::vector<int32_t> ids = ids_;
  ids[1] = (ids[1] + 1) % 11;
  const std::vector<double> after = Losses(pass, ids);
  for (size_t n = 0; n < before.size(); ++n) {
    EXPECT_EQ(before[n] == after[n], n != 1) << n;  // only its own loss knows the masked token
  }
}

TEST_F(Gpt, DropoutBelongsToTheSequenceAndNotToTheMicroBatch) {
  GptPass both = Pass(PassKind::kTraining), single = Pass(PassKind::kTraining, 1);
  const std::vector<double> expected =
      Losses(both, ids_, {.on = true, .seed = 1, .step = 2, .first_sequence = 0});
  const std::vector<int32_t> second(ids_.begin() + T, ids_.end());
  targets_.erase(targets_.begin(), targets_.begin() + T);
  EXPECT_EQ(Losses(single, second, {.on = true, .seed = 1, .step = 2, .first_sequence = 1}),
            std::vector<double>(expected.begin() + T, expected.end()));
}

TEST_F(Gpt, DropoutChangesWithSeedAndStepAndIsOffUnlessAskedFor) {
  GptPass pass = Pass(PassKind::kTraining), plain = Pass(PassKind::kForward);
  const std::vector<double> dropped = Losses(pass, ids_, {.on = true, .seed = 1, .step = 2});
  EXPECT_EQ(Losses(pass, ids_, {.on = true, .seed = 1, .step = 2}), dropped);
  EXPECT_NE(Losses(pass, ids_, {.on = true, .seed = 2, .step = 2}), dropped);
  EXPECT_NE(Losses(pass, ids_, {.on = true, .seed = 1, .step = 3}), dropped);
  EXPECT_EQ(Losses(pass, ids_), Losses(plain, ids_));
}

TEST_F(Gpt, EachDropoutRateActsOnItsOwn) {
  GptPass plain = Pass(PassKind::kForward);
  const std::vector<double> without = Losses(plain, ids_);
  std::vector<std::vector<double>> seen = {without};
  for (double GptConfig::*rate : GptConfig::DropoutRates()) {
    for (double GptConfig::*other : GptConfig::DropoutRates()) config_.*other = 0;
    config_.*rate = 0.5;
    GptPass pass = Pass(PassKind::kTraining);
    seen.push_back(Losses(pass, ids_, {.on = true, .seed = 1, .step = 2}));
    for (size_t i = 0; i + 1 < seen.size(); ++i) EXPECT_NE(seen[i], seen.back());
  }
}

// Notes, of the forward of a block, the widths of what goes through a linear operation and of what
// is dropped from in between.
class Places final : public GenericBackend<Places> {
 public:
  std::string name() const override { return "places"; }
  std::string description() const override { return "places"; }
  bool Supports(Dtype) const override { return true; }
  Dtype PreferredDtype() const override { return Dtype::kF64; }
  template <class Op>
  void Apply(const Op& op) {
    if constexpr (std::is_same_v<Op, LinearForward>) {
      order += fmt::format(" {}>{}", op.x.dim(1), op.out.dim(1));
    } else if constexpr (std::is_same_v<Op, ResidualForward>) {
      order +=
          op.residual ? op.dropout.active() ? " +drop" : " +" : fmt::format(" drop{}", op.x.dim(1));
    } else if constexpr (std::is_same_v<Op, LayerNormForward>) {
      order += " norm";
    }
  }
  std::string order;
};

TEST_F(Gpt, DropsWhereTheConfigurationSays) {
  config_.n_layer = 1;
  const GptWeights weights(config_, Dtype::kF64);
  const auto order = [&](const char* norm, double GptConfig::*rate) {
    config_.norm_position = *FromName<NormPosition>(norm);
    for (double GptConfig::*other : GptConfig::DropoutRates()) config_.*other = 0;
    config_.*rate = 0.5;
    Places places;
    GptPass pass(places, config_, B, T, PassKind::kTraining, {.dtype = Dtype::kF64});
    pass.Forward(weights.params(), ids_, {.on = true});
    return places.order;
  };
  using C = GptConfig;
  EXPECT_EQ(order("pre", &C::embd_pdrop), " drop6 norm 6>18 6>6 + norm 6>24 24>6 + norm");
  EXPECT_EQ(order("pre", &C::attn_pdrop), " norm 6>18 6>6 + norm 6>24 24>6 + norm");
  EXPECT_EQ(order("pre", &C::resid_pdrop), " norm 6>18 6>6 +drop norm 6>24 24>6 +drop norm");
  EXPECT_EQ(order("pre", &C::mlp_pdrop), " norm 6>18 6>6 + norm 6>24 drop24 24>6 + norm");
  EXPECT_EQ(order("pre", &C::sublayer_pdrop), " norm drop6 6>18 6>6 + norm drop6 6>24 24>6 + norm");
  EXPECT_EQ(order("post", &C::resid_pdrop), " 6>18 6>6 +drop norm 6>24 24>6 +drop norm norm");
  EXPECT_EQ(order("post", &C::mlp_pdrop), " 6>18 6>6 + norm 6>24 drop24 24>6 + norm norm");
}

TEST_F(Gpt, EachPlaceDropsOtherElements) {
  const LoraConfig lora = {.rank = 1, .dropout = 0.5};
  PassContext pass{.backend = *backend_, .config = config_, .lora = lora, .B = B, .T = T};
  pass.dropout = {.on = true, .seed = 1, .step = 2};
  std::vector<uint64_t> streams = {pass.EmbeddingDropout().stream};
  for (int64_t layer : {0, 1}) {
    for (const DropoutPlace& place : {kAttentionDropout, kAttentionResidual, kMlpResidual}) {
      streams.push_back(pass.BlockDropout(layer, place).stream);
      // Runs that were begun long ago go on with their own numbers.
      EXPECT_EQ(streams.back(), RngStream(RngPurpose::kDropout, 2, streams.size() - 1));
    }
  }
  for (int64_t layer : {0, 1}) {
    for (const DropoutPlace& place :
         {kActivationDropout, kAttentionInput, kMlpInput, kCAttn.adapter_dropout,
          kAttnCProj.adapter_dropout, kCFc.adapter_dropout, kMlpCProj.adapter_dropout}) {
      streams.push_back(pass.BlockDropout(layer, place).stream);
    }
  }
  pass.dropout.step = 3;
  streams.push_back(pass.EmbeddingDropout().stream);
  std::sort(streams.begin(), streams.end());
  EXPECT_EQ(std::adjacent_find(streams.begin(), streams.end()), streams.end());
}

TEST_F(Gpt, RefusesWhatItWasNotMadeFor) {
  GptPass pass = Pass(PassKind::kForward);
  EXPECT_DEATH(pass.Forward(weights_.params(), ids_, {.on = true}), "dropout is for training");
  EXPECT_TRUE(Contains(ErrorOf([&] { pass.Forward(weights_.params(), std::span(ids_).first(3)); },
                               ErrorKind::kUsage),
                       "3 tokens for a pass over 8"));
  EXPECT_DEATH(pass.LossAndBackward(weights_.params(), targets_, 1, weights_.params()),
               "no backward");
  std::vector<int32_t> ids = ids_;
  ids[0] = -1;
  EXPECT_TRUE(Contains(ErrorOf([&] { pass.Forward(weights_.params(), ids); }, ErrorKind::kUsage),
                       "no token -1"));
  targets_[0] = 11;
  EXPECT_TRUE(Contains(ErrorOf([&] { pass.Loss(weights_.params(), targets_); }, ErrorKind::kUsage),
                       "no token 11"));
  EXPECT_TRUE(Contains(
      ErrorOf([&] { GptPass(*backend_, config_, 1, 6, PassKind::kForward); }, ErrorKind::kUsage),
      "1 sequences of 6 tokens"));
}

TEST_F(Gpt, MasksAndBeginsOfAnotherSizeAreRefusedAndLeaveThePassAsItWas) {
  GptPass pass = Pass(PassKind::kForward);
  const std::vector<double> before = Losses(pass, ids_);
  std::vector<uint8_t> bytes(static_cast<size_t>(B * T * T), 1);
  std::vector<float> singles(static_cast<size_t>(T * T), 0);
  const auto refused = [](auto&& f) { return ErrorOf(f, ErrorKind::kUsage); };
  EXPECT_TRUE(Contains(refused([&] {
                         pass.set_key_mask(Tensor(bytes.data(), {T, B}));
                       }),
                       "a mask of keys is U8 (4, 2)", "wants U8 (2, 4)"));
  EXPECT_TRUE(Contains(refused([&] {
                         pass.set_mask(Tensor(bytes.data(), {B, 1, T, T - 1}));
                       }),
                       "a mask is U8 (2, 1, 4, 3)"));
  EXPECT_TRUE(Contains(refused([&] {
                         pass.set_mask(Tensor(singles.data(), {1, 1, T, T}));
                       }),
                       "a mask is F32", "U8 or F64"));
  GptPass packed(*backend_, config_, B, T, PassKind::kForward,
                 {.dtype = Dtype::kF64, .packed = true});
  std::vector<int32_t> begins(static_cast<size_t>(B * T), 0);
  const std::vector<double> alone = Losses(packed, ids_);
  begins[1] = 2;
  EXPECT_TRUE(Contains(refused([&] { packed.set_begins(begins); }), "token 1 cannot begin at 2"));
  begins[1] = -1;
  EXPECT_TRUE(Contains(refused([&] { packed.set_begins(begins); }), "cannot begin at -1"));
  EXPECT_TRUE(Contains(refused([&] { packed.set_begins(std::span(begins).first(3)); }),
                       "3 begins for a pass over 8"));
  EXPECT_EQ(Losses(pass, ids_), before);
  EXPECT_EQ(Losses(packed, ids_), alone);
}

}  // namespace
}  // namespace folio
