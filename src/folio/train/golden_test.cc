// Whole models against numbers that an independent implementation computed in float64: logits,
// loss, attention, hidden states, gradients, and eight steps of AdamW.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include "folio/io/safetensors.h"
#include "folio/model/attention.h"
#include "folio/model/checkpoint.h"
#include "folio/train/learner.h"
#include "tests/kit/paths.h"

namespace folio {
namespace {

namespace fs = std::filesystem;

// Bounds that float32 must keep, as parts of the largest magnitude of each tensor.
constexpr double kForwardBound = 2e-5;
constexpr double kGradientBound = 1e-4;
constexpr double kLossBound = 1e-4;  // absolute, of each of the eight losses

void ExpectClose(const std::string& what, std::span<const float> found,
                 const std::vector<double>& expected, double bound) {
  ASSERT_EQ(found.size(), expected.size()) << what;
  double largest = 0, worst = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    largest = std::max(largest, std::abs(expected[i]));
    const double difference = std::abs(found[i] - expected[i]);
    worst = std::isnan(difference) ? difference : std::max(worst, difference);
  }
  EXPECT_LE(worst, bound * largest) << what;
}

std::span<const float> Floats(const Tensor& x) {
  return {x.data<float>(), static_cast<size_t>(x.count())};
}

// Keeps each layer's attention weights (B,H,T,T) and the stream after it (B,T,C).
class Insides : public TraceSink {
 public:
  Insides(Backend& backend, int64_t B, int64_t H) : backend_(backend), B_(B), H_(H) {}

  void Take(TracePoint point, int64_t, const Tensor& x) override {
    if (point == TracePoint::kOutput) hidden.push_back({Floats(x).begin(), Floats(x).end()});
    if (point != TracePoint::kQkv) return;
    const int64_t T = x.dim(0) / B_, C = x.dim(1) / 3;
    attn.emplace_back(B_ * H_ * T * T);
    AttentionProbabilities(backend_, SequenceView(x, B_, T, 0, C), SequenceView(x, B_, T, C, C),
                           Tensor(attn.back().data(), {B_, H_, T, T}));
  }

  std::vector<std::vector<float>> attn, hidden;

 private:
  Backend& backend_;
  int64_t B_, H_;
};

class GoldenModel : public testing::TestWithParam<std::tuple<std::string, std::string>> {
 protected:
  void SetUp() override {
    dir_ = Fixture(std::get<0>(GetParam()));
    if (!fs::exists(dir_)) GTEST_SKIP() << dir_ << " is not here";
    expected_ = std::make_unique<SafetensorsFile>(dir_ / "expected.safetensors");
    backend_ = MakeBackend(std::get<1>(GetParam()));
    weights_ = LoadModel(dir_);
    const Shape shape = expected_->Require("batches").shape;
    K_ = shape[0], B_ = shape[1], T_ = shape[2] - 1;
    const std::vector<int32_t> batches = expected_->ReadAs<int32_t>("batches");
    for (int64_t row = 0; row < K_ * B_; ++row) {
      const auto begin = batches.begin() + row * (T_ + 1);
      inputs_.insert(inputs_.end(), begin, begin + T_);
      targets_.insert(targets_.end(), begin + 1, begin + T_ + 1);
    }
    learner_ = std::make_unique<Learner>(*backend_, *weights_, B_, T_);
  }

  std::span<const int32_t> Batch(const std::vector<int32_t>& tokens, int64_t k) const {
    return std::span(tokens).subspan(static_cast<size_t>(k * B_ * T_),
                                     static_cast<size_t>(B_ * T_));
  }
  double Accumulate(int64_t k) {
    learner_->Begin();
    const double rows = static_cast<double>(B_ * T_);
    return learner_->Accumulate(Batch(inputs_, k), Batch(targets_, k), 1 / rows, {}) / rows;
  }

  fs::path dir_;
  std::unique_ptr<SafetensorsFile> expected_;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<GptWeights> weights_;
  std::unique_ptr<Learner> learner_;
  int64_t K_ = 0, B_ = 0, T_ = 0;
  std::vector<int32_t> inputs_, targets_;  // (K,B,T)
};

TEST_P(GoldenModel, ForwardAndGradients) {
  const GptConfig& config = weights_->config();
  Insides insides(*backend_, B_, config.n_head);
  learner_->pass().set_trace(&insides);
  const double loss = Accumulate(0);
  EXPECT_NEAR(loss, expected_->ReadAs<double>("loss")[0], kForwardBound * loss);
  std::vector<float> logits(static_cast<size_t>(B_ * T_ * config.vocab_size));
  learner_->pass().Logits(weights_->params(), 0, B_ * T_,
                          Tensor(logits.data(), {B_ * T_, config.vocab_size}));
  ExpectClose("logits", logits, expected_->ReadAs<double>("logits"), kForwardBound);
  ASSERT_EQ(insides.attn.size(), static_cast<size_t>(config.n_layer));
  ASSERT_EQ(insides.hidden.size(), static_cast<size_t>(config.n_layer));
  for (size_t l = 0; l < insides.attn.size(); ++l) {
    const std::string n = std::to_string(l);
    ExpectClose("attn " + n, insides.attn[l], expected_->ReadAs<double>("trace.attn." + n),
                kForwardBound);
    ExpectClose("hidden " + n, insides.hidden[l], expected_->ReadAs<double>("trace.hidden." + n),
                kForwardBound);
  }
  for (const ParamInfo& info : weights_->table().params()) {
    ExpectClose(info.name, Floats(weights_->table().View(info, learner_->grads())),
                expected_->ReadAs<double>("grad." + info.name), kGradientBound);
  }
}

TEST_P(GoldenModel, EightStepsOfAdamW) {
  const std::vector<double> losses = expected_->ReadAs<double>("losses");
  const std::vector<double> norms = expected_->ReadAs<double>("grad_norms");
  const AdamWSettings settings{.beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .weight_decay = 0.1};
  ASSERT_EQ(losses.size(), static_cast<size_t>(K_));
  for (int64_t k = 0; k < K_; ++k) {
    const size_t i = static_cast<size_t>(k);
    EXPECT_NEAR(Accumulate(k), losses[i], kLossBound) << k;
    EXPECT_NEAR(learner_->Finish(settings, 1e-3, 1.0, k + 1), norms[i], kGradientBound * norms[i]);
  }
  // AdamW divides a gradient by its own size, so float32 shows more here than in the gradients
  // themselves; most in the bias of the keys, whose true gradient is zero and whose computed one is
  // nothing but rounding.
  for (const ParamInfo& info : weights_->table().params()) {
    const double bound = info.name.ends_with("c_attn.bias") ? 5e-3 : 5e-4;
    const std::vector<double> after = expected_->ReadAs<double>("after." + info.name);
    ExpectClose(info.name, Floats(weights_->table().View(info, weights_->flat())), after, bound);
  }
}

INSTANTIATE_TEST_SUITE_P(Models, GoldenModel,
                         testing::Combine(testing::Values("gpt2-tiny", "gpt2-nobias",
                                                          "gpt2-untied-postnorm",
                                                          "gpt2-sinusoid-relu"),
                                          testing::Values("reference", "cpu")),
                         [](const auto& model) {
                           std::string name =
                               std::get<0>(model.param) + "_" + std::get<1>(model.param);
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace folio
