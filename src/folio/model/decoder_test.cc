#include "folio/model/decoder.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "folio/backend/test_values.h"
#include "folio/model/gpt.h"
#include "folio/model/test_models.h"
#include "tests/kit/expect.h"
#include "tests/kit/near.h"

namespace folio {
namespace {

struct Case {
  std::string backend, norm, positions;
  Dtype dtype;
};

std::string Name(const testing::TestParamInfo<Case>& info) {
  const Case& c = info.param;
  return c.backend + "_" + c.norm + "_" + c.positions + (c.dtype == Dtype::kF64 ? "_f64" : "_f32");
}

class Decoding : public testing::TestWithParam<Case> {
 protected:
  Decoding() {
    config_.norm_position = GetParam().norm;
    config_.position_embedding = GetParam().positions;
    config_.n_positions = 19;
    config_.n_embd = 36;
    config_.n_layer = 3;
    config_.n_head = 3;
    config_.scale_attn_by_inverse_layer_idx = true;
    weights_ = std::make_unique<GptWeights>(config_, GetParam().dtype);
    Scatter(*weights_, 1);
    ids_ = RandomTokens(config_.n_positions, config_.vocab_size, 2);
    const int64_t T = config_.n_positions, V = config_.vocab_size;
    GptPass pass(*backend_, config_, 1, T, PassKind::kForward, {.dtype = GetParam().dtype});
    pass.Forward(weights_->params(), ids_);
    std::vector<double> memory(static_cast<size_t>(T * V));
    const Tensor logits(memory.data(), GetParam().dtype, {T, V});
    pass.Logits(weights_->params(), 0, T, logits);
    expected_ = Values(logits);
  }

  // Rounding of sums of up to F = 4C terms, through two sums a sublayer and 2L sublayers.
  double Tolerance() const {
    const double unit = GetParam().dtype == Dtype::kF64 ? std::numeric_limits<double>::epsilon()
                                                        : std::numeric_limits<float>::epsilon();
    return unit * Largest(expected_) * std::sqrt(static_cast<double>(config_.inner())) * 4 *
           static_cast<double>(config_.n_layer);
  }

  void ExpectRow(const Tensor& logits, int64_t row) const {
    const auto expected = expected_.begin() + row * config_.vocab_size;
    SCOPED_TRACE(row);
    ExpectNear(Values(logits), {expected, expected + config_.vocab_size}, Tolerance());
  }

  GptConfig config_ = TinyConfig();
  std::unique_ptr<Backend> backend_ = MakeBackend(GetParam().backend);
  std::unique_ptr<GptWeights> weights_;
  std::vector<int32_t> ids_;
  std::vector<double> expected_;  // (T,V)
};

TEST_P(Decoding, TokenByTokenEqualsOneForwardPass) {
  Decoder decoder(*backend_, config_, weights_->params(), {.dtype = GetParam().dtype});
  CachedSequence text(decoder.cache());
  for (size_t t = 0; t < ids_.size(); ++t) {
    ExpectRow(decoder.Append(text, std::span(ids_).subspan(t, 1)), static_cast<int64_t>(t));
    EXPECT_EQ(text.size(), static_cast<int64_t>(t) + 1);
  }
}

TEST_P(Decoding, PiecesOfAnyLengthEqualOneForwardPass) {
  Decoder decoder(*backend_, config_, weights_->params(), {.dtype = GetParam().dtype});
  CachedSequence text(decoder.cache());
  for (const int repeat : {0, 1}) {  // again after Clear: nothing is left of the first text
    SCOPED_TRACE(repeat);
    size_t done = 0;
    for (size_t piece : {5, 1, 7, 2, 4}) {
      const Tensor logits = decoder.Append(text, std::span(ids_).subspan(done, piece));
      done += piece;
      ExpectRow(logits, static_cast<int64_t>(done) - 1);
    }
    text.Clear();
  }
}

TEST(DecoderOfAModelThatReadsBothWays, IsRefused) {
  GptConfig config = TinyConfig();
  config.causal = false;
  const GptWeights weights(config);
  const auto backend = MakeReferenceBackend();
  EXPECT_TRUE(
      Contains(ErrorOf([&] { Decoder(*backend, config, weights.params()); }, ErrorKind::kUsage),
               "cannot write", "causal = false"));
}

INSTANTIATE_TEST_SUITE_P(Models, Decoding,
                         testing::Values(Case{"reference", "pre", "learned", Dtype::kF64},
                                         Case{"reference", "post", "sinusoidal", Dtype::kF64},
                                         Case{"reference", "pre", "learned", Dtype::kF32},
                                         Case{"cpu", "pre", "learned", Dtype::kF32},
                                         Case{"cpu", "pre", "sinusoidal", Dtype::kF32},
                                         Case{"cpu", "post", "learned", Dtype::kF32}),
                         Name);

TEST(Decoder, RefusesMoreThanItsContextHolds) {
  const GptWeights weights(TinyConfig());
  const auto backend = MakeReferenceBackend();
  Decoder decoder(*backend, weights.config(), weights.params());
  EXPECT_EQ(decoder.capacity(), 5);
  const std::vector<int32_t> ids(6, 1);
  CachedSequence text(decoder.cache());
  decoder.Append(text, std::span(ids).first(5));
  EXPECT_DEATH(decoder.Append(text, std::span(ids).first(1)), "longer than the context");
  EXPECT_DEATH(decoder.Append(text, {}), "nothing is appended");
  text.Clear();
  EXPECT_DEATH(decoder.Append(text, ids), "longer than the context");
  const std::vector<int32_t> outside = {11};
  EXPECT_DEATH(decoder.Append(text, outside), "outside the vocabulary");
  CachedSequence other(decoder.cache());
  decoder.Append(text, std::span(ids).first(1));
  EXPECT_DEATH(decoder.Append(other, std::span(ids).first(1)), "the KV cache is full");
}

}  // namespace
}  // namespace folio
