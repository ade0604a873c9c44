#include "folio/model/stored_model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "folio/backend/backend.h"
#include "folio/backend/operands.h"
#include "folio/model/checkpoint.h"
#include "folio/model/decoder.h"
#include "folio/model/param_list.h"
#include "folio/model/test_models.h"
#include "folio/tensor/convert.h"
#include "tests/kit/directory.h"
#include "tests/kit/expect.h"
#include "tests/kit/near.h"

namespace folio {
namespace {

GptConfig BlockConfig() {
  GptConfig config = TinyConfig();
  config.n_embd = 64;
  config.n_positions = 48;
  config.vocab_size = 37;
  return config;
}

GptWeights Scattered(const GptConfig& config) {
  GptWeights weights(config);
  Scatter(weights, 7);
  return weights;
}

// The numbers of a parameter, in its own shape.
std::vector<float> StoredNumbers(const Tensor& stored, const ParamInfo& info) {
  std::vector<float> numbers(static_cast<size_t>(stored.count()));
  DecodeFloats(stored.raw(), stored.dtype(), std::span(numbers));
  if (info.kind != ParamKind::kLinear) return numbers;
  std::vector<float> turned(numbers.size());
  GatherRows(Tensor(numbers.data(), stored.shape()), true, 0, turned);
  return turned;
}

// The same model with matrices that hold what `dtype` can.
GptWeights Rounded(const GptWeights& from, Dtype dtype) {
  GptWeights to(from.config());
  for (size_t i = 0; i < from.tensors().size(); ++i) {
    const ParamInfo& info = from.table().params()[i];
    const Tensor &x = from.tensors()[i], &y = to.tensors()[i];
    std::vector<float> rows(static_cast<size_t>(x.count()));
    const bool turned = info.kind == ParamKind::kLinear;
    GatherRows(x, turned, 0, rows);
    if (IsMatrix(info)) RoundTo(dtype, rows);
    GatherRows(Tensor(rows.data(), StoredShape(info.shape, turned)), turned, 0, Elements<float>(y));
  }
  return to;
}

// Logits of the last three positions, when the first `prompt` tokens come together.
std::vector<float> Decoded(const GptWeights& weights, size_t prompt,
                           const std::string& backend_name = "cpu") {
  const auto backend = MakeBackend(backend_name);
  Decoder decoder(*backend, weights);
  CachedSequence text(decoder.cache());
  const auto P = static_cast<size_t>(weights.config().n_positions);
  const std::vector<int32_t> ids =
      RandomTokens(weights.config().n_positions, weights.config().vocab_size, 5);
  std::vector<float> all;
  for (size_t at = 0; at < P;) {
    const size_t count = at == 0 ? prompt : 1;
    const auto logits = Elements<float>(decoder.Append(text, std::span(ids).subspan(at, count)));
    at += count;
    if (at + 3 > P) all.insert(all.end(), logits.begin(), logits.end());
  }
  return all;
}

TEST(MatrixDtype, MatricesHoldTheRoundedNumbers) {
  const GptWeights weights = Scattered(BlockConfig());
  for (const Dtype dtype : {Dtype::kBF16, Dtype::kQ8_0, Dtype::kQ4_0}) {
    const auto mapped = MapWeights(AsStored(weights), {.dtype = dtype});
    const GptWeights rounded = Rounded(weights, dtype);
    for (size_t i = 0; i < weights.tensors().size(); ++i) {
      const ParamInfo& info = weights.table().params()[i];
      const Tensor& x = mapped->tensors()[i];
      EXPECT_EQ(x.dtype(), IsMatrix(info) ? dtype : Dtype::kF32) << info.name;
      const auto expected = Elements<float>(rounded.tensors()[i]);
      const auto found = IsMatrix(info) ? StoredNumbers(x, info)
                                        : std::vector<float>(expected.begin(), expected.end());
      EXPECT_TRUE(std::ranges::equal(found, expected)) << info.name;
    }
  }
}

// The rows that meet the rounded numbers are rounded too, as the specification says; where one lies
// between two steps, either may be taken.
TEST(MatrixDtype, ModelsWriteAsThoseOfTheRoundedNumbers) {
  for (const bool tied : {true, false}) {
    GptConfig config = BlockConfig();
    config.tie_word_embeddings = tied;
    const GptWeights weights = Scattered(config);
    for (const Dtype dtype : {Dtype::kBF16, Dtype::kQ8_0, Dtype::kQ4_0}) {
      const auto mapped = MapWeights(AsStored(weights), {.dtype = dtype});
      const std::vector<float> expected = Decoded(*mapped, 8, "reference");
      const double most = IsBlocked(dtype) ? 2e-2 : 5e-3;
      EXPECT_LT(Difference(Decoded(*mapped, 8), expected), most * Largest(expected));
      EXPECT_GT(Difference(Decoded(weights, 8), expected), 1e-4 * Largest(expected));
    }
  }
}

// A prompt of many rows takes other kernels than single tokens do.
TEST(MatrixDtype, TheCacheChangesNothing) {
  const GptWeights weights = Scattered(BlockConfig());
  for (const Dtype dtype : {Dtype::kF32, Dtype::kBF16, Dtype::kQ8_0, Dtype::kQ4_0}) {
    const auto mapped = MapWeights(AsStored(weights), {.dtype = dtype});
    const std::vector<float> one = Decoded(*mapped, 1);
    // Up to fifteen tokens at a time nothing differs at all.
    EXPECT_EQ(Decoded(*mapped, 13), one) << DtypeName(dtype);
    // Where a number lies between two steps, another rounding takes the other one.
    const double most = dtype == Dtype::kF32 ? 1e-5 : IsBlocked(dtype) ? 2e-2 : 5e-3;
    EXPECT_LT(Difference(Decoded(*mapped, 45), one), most * Largest(one)) << DtypeName(dtype);
  }
}

TEST(MatrixDtype, RowsAreWholeBlocks) {
  const GptWeights weights = Scattered(TinyConfig());
  const Error error =
      Refused([&] { MapWeights(AsStored(weights), {.dtype = Dtype::kQ8_0}); }, ErrorKind::kUsage);
  EXPECT_TRUE(Contains(error.cause(), "blocks of 32"));
  EXPECT_TRUE(Contains(error.help(), "bf16"));
  EXPECT_NE(MapWeights(AsStored(weights), {.dtype = Dtype::kBF16}), nullptr);
}

class MatrixDtypeOfFiles : public InTemporaryDirectory {};

TEST_F(MatrixDtypeOfFiles, IsThatOfTheFileIfItIsOneToRunIn) {
  const GptWeights weights = Scattered(BlockConfig());
  for (const Dtype dtype : {Dtype::kF32, Dtype::kF16, Dtype::kBF16}) {
    const std::filesystem::path dir = At(DtypeName(dtype));
    std::filesystem::create_directories(dir);
    SaveModel(dir, weights, {.dtype = dtype});
    const StoredModel model = OpenModelDir(dir);
    const auto mapped = MapWeights(model, {.as_stored = true});
    const Dtype expected = dtype == Dtype::kBF16 ? dtype : Dtype::kF32;
    EXPECT_EQ(mapped->params().wte.dtype(), expected);
    EXPECT_EQ(mapped->params().h[0].mlp.c_fc.weight.dtype(), expected);
    EXPECT_EQ(mapped->params().wpe.dtype(), Dtype::kF32);
    // Not copied where nothing has to be turned or widened.
    EXPECT_EQ(mapped->params().wte.raw() == model.params[0].from.data, dtype != Dtype::kF16);
  }
}

// A file whose tensors were copied is let go, and can be read once more.
TEST_F(MatrixDtypeOfFiles, AFileCanBeMappedTwice) {
  const GptWeights weights = Scattered(BlockConfig());
  SaveModel(At(""), weights);
  const StoredModel model = OpenModelDir(At(""));
  const auto first = MapWeights(model, {.dtype = Dtype::kQ8_0});
  const auto again = MapWeights(model, {.dtype = Dtype::kQ8_0});
  EXPECT_EQ(Decoded(*first, 8), Decoded(*again, 8));
  EXPECT_EQ(Decoded(*MapWeights(model), 8), Decoded(weights, 8));
}

}  // namespace
}  // namespace folio
