// Programs get the same numbers where a model lies in memory that the host cannot touch.

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "folio/api/test_fenced_models.h"
#include "folio/infer/test_small_model.h"
#include "tests/kit/directory.h"

namespace folio {
namespace {

class FencedModels : public InTemporaryDirectory, public testing::WithParamInterface<FencedOrder> {
 protected:
  std::unique_ptr<Model> On(std::unique_ptr<Backend> backend) const {
    return ModelOn(std::move(backend), *source_.weights, source_.tokenizer);
  }

  const OpenedModel source_ = SmallModel();
  const std::unique_ptr<Model> cpu_ = On(MakeCpuBackend());
  const std::unique_ptr<Model> fenced_ = On(MakeFencedBackend(GetParam()));
  const std::vector<int32_t> ids_ = RandomTokens(140, 257, 3);
};

TEST_P(FencedModels, WriteAndShowWhatOthersDo) {
  const GenerateOptions options{.sampling = {.temperature = 1, .seed = 5}, .max_tokens = 20};
  EXPECT_EQ(fenced_->Write(ids_, options).text, cpu_->Write(ids_, options).text);
  EXPECT_EQ(fenced_->Logits(ids_, 100), cpu_->Logits(ids_, 100));
  EXPECT_EQ(fenced_->Score(ids_), cpu_->Score(ids_));
  for (const Pooling pooling : {Pooling::kMean, Pooling::kLast, Pooling::kAll}) {
    EXPECT_EQ(fenced_->Embed(ids_, pooling), cpu_->Embed(ids_, pooling));
  }
  EXPECT_EQ(fenced_->Attention(ids_, 1, 1), cpu_->Attention(ids_, 1, 1));
  EXPECT_EQ(fenced_->Inside(ids_, TracePoint::kUp, 1), cpu_->Inside(ids_, TracePoint::kUp, 1));
}

TEST_P(FencedModels, AreSavedAsOthersAre) {
  std::filesystem::create_directories(At("cpu"));
  std::filesystem::create_directories(At("fenced"));
  for (const auto& [name, format] : {std::pair{"model", "hf"}, std::pair{"model.gguf", "gguf"}}) {
    cpu_->Save(At("cpu") / name, format, "bf16");
    fenced_->Save(At("fenced") / name, format, "bf16");
  }
  EXPECT_TRUE(FilesBelow(At("fenced")) == FilesBelow(At("cpu")));
}

INSTANTIATE_TEST_SUITE_P(Orders, FencedModels, FencedOrders(), FencedOrderName);

}  // namespace
}  // namespace folio
