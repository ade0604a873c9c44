// Models of other programs, tiny ones whose every number was drawn, against what transformers
// computed of them (tests/fixtures/families/make.py).

#include "folio/model_files/families.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "folio/io/file.h"
#include "folio/io/safetensors.h"
#include "folio/model/test_models.h"
#include "folio/model_files/checkpoint.h"
#include "folio/model_files/test_golden.h"
#include "tests/kit/directory.h"
#include "tests/kit/expect.h"
#include "tests/kit/paths.h"

namespace folio {
namespace {

namespace fs = std::filesystem;

constexpr auto kHf = FileFormat::kHuggingFace;

// The names of the models: directories with a config.json.
std::vector<std::string> Models() {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(Fixture("families"))) {
    if (entry.is_directory()) names.push_back(entry.path().filename().string());
  }
  std::ranges::sort(names);
  return names;
}

class FamilyGolden : public InTemporaryDirectory, public testing::WithParamInterface<std::string> {
 protected:
  const fs::path dir_ = Fixture("families") / GetParam();
  const StoredModel model_ = OpenModelDir(dir_);
  const GptConfig& config_ = model_.config;
  const GoldenDecoder golden_{model_, dir_ / "expected.safetensors", FamilyFor(config_, kHf), kHf};
};

TEST_P(FamilyGolden, IsReadAsAModelOfItsFamily) {
  const std::string text = ReadFile(dir_ / "config.json", 1 << 20);
  const Family& family = FamilyFor(config_, kHf);
  EXPECT_TRUE(Contains(text, "\"" + std::string(family.model_type) + "\""));
}

TEST_P(FamilyGolden, GivesTransformersNumbersForwardAndBackward) {
  golden_.ExpectNumbersForwardAndBackward();
}

TEST_P(FamilyGolden, TrainsAsTransformersDoes) {
  golden_.ExpectTheSameTraining();
}

TEST_P(FamilyGolden, DecodesWhatItComputesAtOnce) {
  golden_.ExpectTheSameDecoding();
}

TEST_P(FamilyGolden, IsWrittenAsItWasRead) {
  const auto weights = ReadWeights(model_);
  fs::create_directory(At("model"));
  SaveModel(At("model"), *weights, {.dtype = Dtype::kBF16});
  const StoredModel again = OpenModelDir(At("model"));
  EXPECT_EQ(again.config, config_);
  const auto read = ReadWeights(again);
  EXPECT_TRUE(std::ranges::equal(Elements<float>(read->flat()), Elements<float>(weights->flat())));
  // The same tensors, by the same names.
  const SafetensorsFile theirs(dir_ / "model.safetensors"), ours(At("model") / "model.safetensors");
  ASSERT_EQ(ours.tensors().size(), theirs.tensors().size());
  for (const TensorInfo& info : theirs.tensors()) {
    const TensorInfo& same = ours.Require(info.name, info.shape);
    EXPECT_EQ(std::memcmp(same.data, info.data, info.bytes), 0) << info.name;
  }
}

INSTANTIATE_TEST_SUITE_P(All, FamilyGolden, testing::ValuesIn(Models()),
                         [](const auto& name) { return name.param; });

using EnclosedModels = InTemporaryDirectory;

// Gemma 3 with pictures, by the names of its first files and of today's.
TEST_F(EnclosedModels, PartsThatAreNoTextAreSetAsideAndTold) {
  const StoredModel plain = OpenModelDir(Fixture("families/gemma3"));
  const auto weights = ReadWeights(plain);
  const std::string config = ReadFile(Fixture("families/gemma3/config.json"), 1 << 16);
  PutFile("config.json", R"({"model_type": "gemma3", "text_config": )" + config + "}");
  const Tensor picture = weights->params().h[0].attn.q_norm;
  const auto write = [&](const std::string& text, const std::string& others) {
    std::vector<NamedTensor> tensors;
    for (TensorToWrite& tensor :
         TensorsToWrite(*weights, plain.config, FamilyFor(plain.config, kHf), kHf, Dtype::kF32)) {
      tensors.push_back({.name = text + tensor.name.substr(std::string("model.").size()),
                         .tensor = Tensor(nullptr, Dtype::kF32, tensor.shape),
                         .read = std::move(tensor.read)});
    }
    for (const char* name : {"a.weight", "b.weight"}) {
      tensors.push_back({.name = others + name, .tensor = picture});
    }
    WriteSafetensorsShards(At(""), tensors, 1 << 30);
  };
  for (const auto& [text, others] :
       {std::pair{"language_model.model.", "vision_tower."},
        std::pair{"model.language_model.", "model.multi_modal_projector."}}) {
    write(text, others);
    const StoredModel model = OpenModelDir(At(""));
    EXPECT_EQ(model.config, plain.config);
    EXPECT_TRUE(std::ranges::equal(Elements<float>(ReadWeights(model)->flat()),
                                   Elements<float>(weights->flat())));
    EXPECT_TRUE(Contains(model.note, "2 tensors",
                         "tensors of other parts are ignored: folio supports the text model of",
                         "gemma3"));
  }
  EXPECT_EQ(plain.note, "");
  write("language_model.model.", "audio_tower.");
  EXPECT_TRUE(Contains(ErrorOf([&] { OpenModelDir(At("")); }, ErrorKind::kInput),
                       "audio_tower.a.weight", "not part of the model"));
}

}  // namespace
}  // namespace folio
