// Conversions of numbers that get lost easily: zeros with a sign, numbers that are denormal in one
// dtype or another, and those of which a sum leaves nothing.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "folio/base/error.h"
#include "folio/formats/model_formats.h"
#include "folio/formats/test_expected.h"
#include "folio/model/test_models.h"
#include "folio/model_files/checkpoint.h"
#include "folio/model_files/families.h"
#include "folio/tensor/dtype.h"
#include "tests/kit/directory.h"
#include "tests/kit/expect.h"

namespace folio {
namespace {

namespace fs = std::filesystem;

// The smallest numbers of F32, F16 and BF16 among them.
constexpr float kAwkward[] = {-0.0f,  0.0f,   0x1p-149f, -0x1p-149f, 0x1p-133f, -0x1p-24f,
                              1e-9f,  -1e-9f, 0.1f,      -0.3f,      1.0f,      -1.0f,
                              6e-39f, -6e-8f, 0x1p-14f,  -0x1p-126f};

// Scattered numbers, of which many are such, the first of each parameter too.
void Strew(const GptWeights& weights) {
  Scatter(weights, 5);
  size_t next = 0;
  for (const Tensor& x : weights.tensors()) {
    const std::span<float> numbers = Elements<float>(x);
    for (size_t i = 0; i < numbers.size(); i += i < 8 ? 1 : 1 + next % 5) {
      numbers[i] = kAwkward[next++ % std::size(kAwkward)];
    }
  }
}

bool AllSameBits(const GptWeights& a, const GptWeights& b) {
  const auto others = TensorsByName(b);
  for (const auto& [name, x] : TensorsByName(a)) {
    const auto other = others.find(name);
    if (other == others.end()) continue;
    if (std::memcmp(x->raw(), other->second->raw(), x->bytes()) != 0) return false;
  }
  return true;
}

class Conversions : public InTemporaryDirectory {
 protected:
  // Returns whether the format can hold the model; each that it can must come through.
  bool Comes(const Conversion& conversion) {
    fs::remove_all(conversion.to);
    try {
      ConvertModel(conversion, [](int, std::string_view) {});
      ++made_;
      return true;
    } catch (const Error& error) {
      const bool cannot = error.kind() == ErrorKind::kInput &&
                          (std::string_view(error.what()).find("cannot") != std::string::npos);
      EXPECT_TRUE(cannot) << conversion.format << " " << DtypeName(conversion.dtype) << ": "
                          << error.what() << ", " << error.cause();
      return false;
    }
  }

  // To every format and dtype, and from each of these to a directory and to GGUF once more.
  void ExpectAllFrom(const fs::path& from) {
    for (const ModelFormat& format : ModelFormats()) {
      if (format.save == nullptr) continue;
      for (const Dtype dtype : format.dtypes) {
        for (const bool mixed : {false, true}) {
          if (mixed && dtype != Dtype::kQ4_K) continue;
          const fs::path to = At(fmt::format("to{}", format.ending));
          if (!Comes({.from = from,
                      .to = to,
                      .format = format.name,
                      .dtype = dtype,
                      .mixed = mixed})) {
            continue;
          }
          seen_.insert(fmt::format("{} {}", format.name, NameOfSaved(dtype, mixed)));
          Comes({.from = to, .to = At("hf"), .format = "hf"});
          const Dtype again = format.name == "gguf" ? dtype : Dtype::kF32;
          Comes({.from = to,
                 .to = At("again.gguf"),
                 .format = "gguf",
                 .dtype = again,
                 .mixed = mixed});
        }
      }
    }
  }

  int64_t made_ = 0;
  std::set<std::string> seen_;
};

TEST_F(Conversions, OfNumbersThatGetLostEasilyComeThrough) {
  for (const int64_t width : {64, 256}) {
    std::vector<GptConfig> configs = SmallFamilies(width);
    // One of the wide models, which the large blocks need, has rows in another order.
    if (width == 256) configs = {configs[1]};
    for (const GptConfig& config : configs) {
      const GptWeights weights(config);
      Strew(weights);
      fs::remove_all(At("from"));
      fs::create_directories(At("from"));
      SaveModel(At("from"), weights);
      ExpectAllFrom(At("from"));
    }
  }
  // All that folio writes but the files of one family was written, and read again.
  size_t all = 1;  // the mixture
  for (const ModelFormat& format : ModelFormats()) all += format.save ? format.dtypes.size() : 0;
  EXPECT_EQ(seen_.size(), all);
  EXPECT_GT(made_, 150);
}

TEST_F(Conversions, KeepEachBitOfFloat32) {
  for (const GptConfig& config : SmallFamilies(64)) {
    const GptWeights weights(config);
    Strew(weights);
    fs::remove_all(At("from"));
    fs::create_directories(At("from"));
    SaveModel(At("from"), weights);
    EXPECT_TRUE(AllSameBits(*LoadModel(At("from")), weights)) << config.model_type;
    for (const char* format : {"hf", "gguf", "nanogpt", "llmc"}) {
      if (!Comes({.from = At("from"), .to = At("to"), .format = format})) continue;
      // Gemma's norms have 1 more in GGUF.
      const bool sum = config.norm == NormKind::kRmsOnePlus && std::string_view(format) == "gguf";
      const auto back = ReadWeights(FindModel(At("to")).model);
      EXPECT_EQ(AllSameBits(*back, weights), !sum) << config.model_type << " " << format;
    }
  }
}

// Two matrices that rounding makes the same are one where the file has no other word for it.
TEST_F(Conversions, AHeadThatRoundingMakesTheEmbeddingsIsTied) {
  GptConfig config = TinyConfig();
  config.tie_word_embeddings = false;
  const GptWeights weights(config);
  Scatter(weights, 1);
  const std::span<float> wte = Elements<float>(weights.params().wte);
  const std::span<float> head = Elements<float>(weights.params().lm_head_weight);
  for (size_t i = 0; i < head.size(); ++i) head[i] = wte[i] * (1 + 0x1p-20f);
  fs::create_directories(At("from"));
  SaveModel(At("from"), weights);
  ASSERT_FALSE(FindModel(At("from")).model.config.tie_word_embeddings);
  EXPECT_TRUE(Comes({.from = At("from"), .to = At("wide.gguf"), .format = "gguf"}));
  EXPECT_FALSE(FindModel(At("wide.gguf")).model.config.tie_word_embeddings);
  EXPECT_TRUE(
      Comes({.from = At("from"), .to = At("m.gguf"), .format = "gguf", .dtype = Dtype::kBF16}));
  EXPECT_TRUE(FindModel(At("m.gguf")).model.config.tie_word_embeddings);
}

}  // namespace
}  // namespace folio
