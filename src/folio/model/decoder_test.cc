#include "folio/model/decoder.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "folio/backend/test_op_cases.h"
#include "folio/model/gpt.h"
#include "folio/model/test_models.h"
#include "tests/kit/expect.h"
#include "tests/kit/near.h"

namespace folio {
namespace {

struct DecoderCase {
  std::string backend, norm, positions;
  Dtype dtype;
  int64_t kv_heads = 3;
};

std::string DecoderName(const testing::TestParamInfo<DecoderCase>& info) {
  const DecoderCase& c = info.param;
  return c.backend + "_" + c.norm + "_" + c.positions + (c.dtype == Dtype::kF64 ? "_f64" : "_f32") +
         (c.kv_heads == 1 ? "_grouped" : "");
}

class Decoding : public testing::TestWithParam<DecoderCase> {
 protected:
  Decoding() {
    config_.norm_position = *FromName<NormPosition>(GetParam().norm);
    if (GetParam().positions == "nanochat") {
      AddNanochatExtras(config_);
    } else {
      config_.position_embedding = *FromName<PositionKind>(GetParam().positions);
    }
    config_.n_positions = 19;
    config_.n_embd = 36;
    config_.n_layer = 3;
    config_.n_head = 3;
    if (GetParam().kv_heads != 3) {
      config_.n_kv_head = GetParam().kv_heads;
      config_.head_dim = 16;
    }
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

TEST_P(Decoding, PiecesOfAnyLengthEqualOneForwardPass) {
  Decoder decoder(*backend_, *weights_, {.dtype = GetParam().dtype});
  CachedSequence text(decoder.cache());
  // Again after Clear: nothing is left of the first text.
  for (const std::vector<size_t>& pieces : {{5, 1, 7, 2, 4}, std::vector<size_t>(19, 1)}) {
    size_t done = 0;
    for (const size_t piece : pieces) {
      const Tensor logits = decoder.Append(text, std::span(ids_).subspan(done, piece));
      done += piece;
      ExpectRow(logits, static_cast<int64_t>(done) - 1);
      EXPECT_EQ(text.size(), static_cast<int64_t>(done));
    }
    text.Clear();
  }
}

TEST(DecoderOfAModelThatReadsBothWays, IsRefused) {
  GptConfig config = TinyConfig();
  config.causal = false;
  const GptWeights weights(config);
  const auto backend = MakeReferenceBackend();
  EXPECT_TRUE(Contains(ErrorOf([&] { Decoder(*backend, weights); }, ErrorKind::kUsage),
                       "cannot generate text", "causal is false"));
}

INSTANTIATE_TEST_SUITE_P(Models, Decoding,
                         testing::Values(DecoderCase{"reference", "pre", "learned", Dtype::kF64},
                                         DecoderCase{"reference", "post", "sinusoidal",
                                                     Dtype::kF64},
                                         DecoderCase{"reference", "pre", "learned", Dtype::kF32},
                                         DecoderCase{"cpu", "pre", "learned", Dtype::kF32},
                                         DecoderCase{"reference", "pre", "learned", Dtype::kF64, 1},
                                         DecoderCase{"cpu", "pre", "learned", Dtype::kF32, 1},
                                         DecoderCase{"cpu", "pre", "sinusoidal", Dtype::kF32},
                                         DecoderCase{"reference", "pre", "nanochat", Dtype::kF64},
                                         DecoderCase{"cpu", "pre", "nanochat", Dtype::kF32, 1},
                                         DecoderCase{"cpu", "post", "learned", Dtype::kF32}),
                         DecoderName);

// With contexts of several pages; some with a cache in bfloat16, of a model that looks at the token
// before.
class DecodingTogether : public testing::TestWithParam<bool> {
 protected:
  DecodingTogether() {
    config_.n_positions = 300;
    config_.n_embd = 64;
    config_.n_head = 2;
    if (GetParam()) AddNanochatExtras(config_);
    weights_ = std::make_unique<GptWeights>(config_);
    Scatter(*weights_, 1);
    ids_ = RandomTokens(300, config_.vocab_size, 2);
  }
  DecoderOptions Options(int64_t pages) const {
    DecoderOptions options{.pages = pages};
    if (GetParam()) options.cache = Dtype::kBF16;
    return options;
  }
  std::unique_ptr<Decoder> MakeDecoder(int64_t pages = 30) const {
    return std::make_unique<Decoder>(*backend_, *weights_, Options(pages));
  }
  std::span<const int32_t> Ids(size_t begin, size_t end) const {
    return std::span(ids_).subspan(begin, end - begin);
  }
  // Logits behind so many tokens of a prompt, and behind each of the next three.
  std::vector<std::vector<double>> Alone(size_t prompt) const {
    const auto decoder = MakeDecoder();
    CachedSequence text(decoder->cache());
    std::vector<std::vector<double>> logits = {Values(decoder->Append(text, Ids(0, prompt)))};
    for (size_t t = prompt; t < prompt + 3; ++t) {
      logits.push_back(Values(decoder->Append(text, Ids(t, t + 1))));
    }
    return logits;
  }

  GptConfig config_ = TinyConfig();
  std::unique_ptr<Backend> backend_ = MakeBackend("cpu");
  std::unique_ptr<GptWeights> weights_;
  std::vector<int32_t> ids_;
};

std::vector<double> Row(const Tensor& logits, int64_t row) {
  return Values(logits.Slice(row, row + 1));
}

TEST_P(DecodingTogether, EachRowComesOutAsAlone) {
  const std::vector<size_t> prompts = {1, 5, 127, 128, 129, 200, 256, 290};
  const auto decoder = MakeDecoder();
  std::vector<CachedSequence> texts;
  for (const size_t prompt : prompts) {
    texts.emplace_back(decoder->cache());
    EXPECT_EQ(Values(decoder->Append(texts.back(), Ids(0, prompt))), Alone(prompt)[0]) << prompt;
  }
  // All of them, one with three tokens at once.
  std::vector<SequencePiece> pieces;
  for (size_t i = 0; i < texts.size(); ++i) {
    const size_t at = prompts[i];
    pieces.push_back({&texts[i], Ids(at, at + (i == 2 ? 3 : 1)), i == 2});
  }
  const Tensor logits = decoder->Append(pieces);
  ASSERT_EQ(logits.dim(0), 10);
  for (size_t i = 0, row = 0; i < texts.size(); ++i) {
    const auto expected = Alone(prompts[i]);
    for (size_t t = 1; t < (i == 2 ? 4 : 2); ++t, ++row) {
      EXPECT_EQ(Row(logits, static_cast<int64_t>(row)), expected[t]) << i << " " << t;
    }
  }
}

TEST_P(DecodingTogether, PagesOfAnotherGiveTheSame) {
  const auto decoder = MakeDecoder(5);
  CachedSequence first(decoder->cache());
  decoder->Append(first, Ids(0, 280));
  CachedSequence text(decoder->cache());
  text.Recall(Ids(0, 270));
  EXPECT_EQ(text.size(), 256);
  EXPECT_EQ(decoder->cache().free_pages(), 2);
  EXPECT_EQ(Values(decoder->Append(text, Ids(256, 270))), Alone(270)[0]);
  first.Clear();
  EXPECT_EQ(Values(decoder->Append(text, Ids(270, 271))), Alone(270)[1]) << "nor when it is gone";
  text.Clear();
  EXPECT_EQ(decoder->cache().free_pages(), 5);
  text.Recall(Ids(0, 256));
  EXPECT_EQ(text.size(), 256) << "pages outlive their texts";
  text.Clear();
  // Until their memory is needed, which here is all of it.
  std::vector<int32_t> other = ids_;
  other[0] = (other[0] + 1) % 11;
  decoder->Append(first, std::span(other).first(300));
  decoder->Append(text, std::span(other).subspan(1, 200));
  CachedSequence again(decoder->cache());
  again.Recall(Ids(0, 256));
  EXPECT_EQ(again.size(), 0);
}

TEST_P(DecodingTogether, AForkGoesItsOwnWay) {
  for (const size_t prompt : {3u, 128u, 150u, 256u}) {
    const auto decoder = MakeDecoder();
    CachedSequence text(decoder->cache());
    decoder->Append(text, Ids(0, prompt));
    CachedSequence fork = decoder->Fork(text);
    std::vector<int32_t> other = {(ids_[prompt] + 1) % 11, 4, 5};
    decoder->Append(fork, other);
    const auto expected = Alone(prompt);
    for (size_t t = prompt; t < prompt + 3; ++t) {
      EXPECT_EQ(Values(decoder->Append(text, Ids(t, t + 1))), expected[t - prompt + 1]) << prompt;
    }
    fork.Truncate(static_cast<int64_t>(prompt));
    EXPECT_EQ(Values(decoder->Append(fork, Ids(prompt, prompt + 1))), expected[1]) << prompt;
  }
}

TEST_P(DecodingTogether, WhatIsCutOffIsForgotten) {
  const auto decoder = MakeDecoder();
  CachedSequence text(decoder->cache()), other(decoder->cache());
  decoder->Append(text, Ids(0, 290));
  other.Recall(Ids(0, 290));
  // Into a page that the other has, too, and that the cache knows: it may not change.
  text.Truncate(100);
  const std::vector<int32_t> wrong = {1, 2, 3};
  decoder->Append(text, wrong);
  EXPECT_EQ(Values(decoder->Append(other, Ids(256, 290))), Alone(290)[0]);
  text.Truncate(100);
  decoder->Append(text, Ids(100, 110));
  const auto as_rows = Values(decoder->Append(text, Ids(110, 111)));
  const auto fresh = MakeDecoder();
  CachedSequence expected(fresh->cache());
  fresh->Append(expected, Ids(0, 128));
  expected.Truncate(100);
  fresh->Append(expected, Ids(100, 110));
  EXPECT_EQ(as_rows, Values(fresh->Append(expected, Ids(110, 111))));
}

INSTANTIATE_TEST_SUITE_P(Caches, DecodingTogether, testing::Bool());

// Two layers with a window, one without, and a context of many pages.
class DecodingInWindows : public testing::Test {
 protected:
  static constexpr int64_t kP = 1300;

  DecodingInWindows() {
    config_.n_positions = kP;
    config_.n_embd = 32;
    config_.n_layer = 3;
    config_.n_head = 2;
    config_.n_kv_head = 1;
    config_.layer_kinds = LayerKindsOf("wfw");
    config_.sliding_window = 100;
    weights_ = std::make_unique<GptWeights>(config_);
    Scatter(*weights_, 1);
    ids_ = RandomTokens(kP, config_.vocab_size, 2);
    GptPass pass(*backend_, config_, 1, kP, PassKind::kForward, {});
    pass.Forward(weights_->params(), ids_);
    std::vector<float> memory(static_cast<size_t>(kP * config_.vocab_size));
    const Tensor logits(memory.data(), {kP, config_.vocab_size});
    pass.Logits(weights_->params(), 0, kP, logits);
    expected_ = Values(logits);
  }
  std::unique_ptr<Decoder> MakeDecoder(int64_t sequences, int64_t pages = 30) const {
    return std::make_unique<Decoder>(*backend_, *weights_,
                                     DecoderOptions{.pages = pages, .sequences = sequences});
  }
  // Appends the tokens from its size on to `end`.
  void Append(Decoder& decoder, CachedSequence& text, int64_t end) const {
    const auto begin = static_cast<size_t>(text.size());
    const Tensor logits =
        decoder.Append(text, std::span(ids_).subspan(begin, static_cast<size_t>(end) - begin));
    const auto row = expected_.begin() + (end - 1) * config_.vocab_size;
    SCOPED_TRACE(testing::Message() << begin << " to " << end);
    ExpectNear(Values(logits), {row, row + config_.vocab_size}, 2e-4 * Largest(expected_));
  }

  GptConfig config_ = TinyConfig();
  std::unique_ptr<Backend> backend_ = MakeBackend("cpu");
  std::unique_ptr<GptWeights> weights_;
  std::vector<int32_t> ids_;
  std::vector<double> expected_;
};

TEST_F(DecodingInWindows, KeepsWhatTheWindowsSee) {
  const auto decoder = MakeDecoder(1);
  const auto layers = decoder->cache().layers();
  EXPECT_EQ(layers[1].dim(0), 30);
  EXPECT_EQ(layers[0].dim(0), 7) << "twice those of 100 + 64 positions, and one";
  CachedSequence text(decoder->cache());
  for (const int64_t end : {1, 33, 127, 128, 129, 500, 501, 512, 640, 1000, 1020, 1299, 1300}) {
    Append(*decoder, text, end);
  }
  text.Clear();
  for (int64_t end = 1; end < 300; ++end) Append(*decoder, text, end);
}

TEST_F(DecodingInWindows, GoesBackAFewTokensWhereverItStands) {
  const auto decoder = MakeDecoder(1);
  CachedSequence text(decoder->cache());
  for (const int64_t end : {20, 128, 150, 260, 385, 700, 900, 1290}) {
    Append(*decoder, text, end);
    const int64_t kept = std::max<int64_t>(0, end - CachedSequence::kRollback);
    text.Truncate(kept);
    EXPECT_EQ(text.size(), kept);
    Append(*decoder, text, kept + 5);
  }
}

TEST_F(DecodingInWindows, GoesBackFurtherThanAskedWhereWindowsHaveGoneOn) {
  const auto decoder = MakeDecoder(1);
  CachedSequence text(decoder->cache());
  Append(*decoder, text, 130);
  while (text.size() < 1000) Append(*decoder, text, text.size() + 30);  // pages that nobody shares
  text.Truncate(600);
  EXPECT_EQ(text.size(), 128) << "the page that was filled at once";
  Append(*decoder, text, 700);
}

TEST_F(DecodingInWindows, ShareTheBeginningsThatWindowsStillKnow) {
  const auto decoder = MakeDecoder(2);
  CachedSequence first(decoder->cache()), text(decoder->cache());
  Append(*decoder, first, 520);
  text.Recall(std::span(ids_).first(600));
  EXPECT_EQ(text.size(), 512);
  Append(*decoder, text, 530);
  text.Clear();
  text.Recall(std::span(ids_).first(400));
  EXPECT_EQ(text.size(), 384) << "nothing else has needed the memory";
  Append(*decoder, text, 390);
  // Other texts take all of it, but for what the first one sees; it is known again when it is read.
  std::vector<int32_t> other = ids_;
  for (int i = 0; i < 2; ++i) {
    text.Clear();
    other[0] = (other[0] + 1) % 11;
    decoder->Append(text, std::span(other).first(1280));
  }
  for (const int64_t known : {0, 384}) {
    text.Clear();
    text.Recall(std::span(ids_).first(400));
    EXPECT_EQ(text.size(), known);
    Append(*decoder, text, 400);
  }
  Append(*decoder, first, 1300);
}

TEST_F(DecodingInWindows, AForkGoesItsOwnWay) {
  const auto decoder = MakeDecoder(2);
  for (const int64_t size : {3, 128, 150, 300, 640, 700}) {
    CachedSequence text(decoder->cache());
    Append(*decoder, text, size);
    CachedSequence fork = decoder->Fork(text);
    const std::vector<int32_t> other = {4, 5, 6};
    decoder->Append(fork, other);
    Append(*decoder, text, size + 300);
    fork.Truncate(size);
    EXPECT_EQ(fork.size(), size);
    Append(*decoder, fork, size + 40);
    Append(*decoder, text, size + 301);
  }
  EXPECT_EQ(decoder->cache().free_pages(), 30);
}

TEST(Decoder, RefusesMoreThanItsContextHolds) {
  const GptWeights weights(TinyConfig());
  const auto backend = MakeReferenceBackend();
  Decoder decoder(*backend, weights);
  EXPECT_EQ(decoder.capacity(), 5);
  const std::vector<int32_t> ids(6, 1);
  CachedSequence text(decoder.cache());
  decoder.Append(text, std::span(ids).first(5));
  EXPECT_DEATH(decoder.Append(text, std::span(ids).first(1)), "longer than the context");
  EXPECT_DEATH(decoder.Append(text, {}), "nothing is appended");
  text.Clear();
  EXPECT_DEATH(decoder.Append(text, ids), "longer than the context");
  const std::vector<int32_t> outside = {11};
  EXPECT_TRUE(
      Contains(ErrorOf([&] { decoder.Append(text, outside); }, ErrorKind::kUsage), "no token 11"));
  CachedSequence other(decoder.cache());
  decoder.Append(text, std::span(ids).first(1));
  EXPECT_DEATH(decoder.Append(other, std::span(ids).first(1)), "the KV cache is full");
}

}  // namespace
}  // namespace folio
