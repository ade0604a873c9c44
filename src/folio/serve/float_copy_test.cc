#include "folio/serve/float_copy.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "folio/base/clock.h"
#include "folio/model_files/checkpoint.h"
#include "folio/serve/test_service.h"

namespace folio {
namespace {

class FloatCopyTest : public testing::Test {
 protected:
  const OpenedModel source_ = SmallModel();  // where the vectors stay
  const std::unique_ptr<GptWeights> stored_ =
      MapWeights(AsStored(*source_.weights), {.dtype = Dtype::kBF16});
};

TEST_F(FloatCopyTest, IsSharedByAllWhoAsk) {
  FloatCopy copy(*stored_, HostMemory(), 600, [] { return 0; });
  EXPECT_EQ(copy.used_bytes(), 0u);
  std::vector<FloatCopy::Weights> got(4);
  std::vector<std::thread> threads;
  for (auto& one : got) threads.emplace_back([&] { one = copy.Get(); });
  for (std::thread& thread : threads) thread.join();
  for (const auto& one : got) EXPECT_EQ(one, got[0]);
  EXPECT_EQ(copy.used_bytes(), copy.bytes());
  for (const Tensor& tensor : got[0]->tensors()) EXPECT_EQ(tensor.dtype(), Dtype::kF32);
}

TEST_F(FloatCopyTest, OfFloat32IsTheModelItself) {
  FloatCopy copy(*source_.weights, HostMemory(), 0, [] { return 1; });
  EXPECT_EQ(copy.bytes(), 0u);
  EXPECT_EQ(copy.Get().get(), source_.weights.get());
}

TEST_F(FloatCopyTest, IsRefusedWhereMemoryDoesNotSuffice) {
  uint64_t free = 1000;
  FloatCopy copy(*stored_, HostMemory(), 600, [&] { return free; });
  try {
    copy.Get();
    ADD_FAILURE() << "it was made";
  } catch (const ApiError& error) {
    EXPECT_EQ(error.status(), 503);
    EXPECT_NE(error.body().find("needs_memory"), std::string::npos);
    EXPECT_NE(std::string(error.what()).find("stored as bf16"), std::string::npos);
  }
  EXPECT_EQ(copy.used_bytes(), 0u);
  free = copy.bytes();
  EXPECT_NE(copy.Get(), nullptr) << "there is room now";
}

void WaitUntilDropped(const FloatCopy& copy) {
  for (const double end = SteadySeconds() + 60; copy.used_bytes() > 0;) {
    ASSERT_LT(SteadySeconds(), end);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

TEST_F(FloatCopyTest, GoesWhenNobodyAsksForIt) {
  FloatCopy copy(*stored_, HostMemory(), 0.05, [] { return 0; });
  for (int i = 0; i < 2; ++i) {
    std::weak_ptr<const GptWeights> weights = copy.Get();
    WaitUntilDropped(copy);
    EXPECT_TRUE(weights.expired());
  }
  FloatCopy::Weights kept = copy.Get();
  WaitUntilDropped(copy);
  EXPECT_EQ(kept->tensors()[0].dtype(), Dtype::kF32) << "who uses it keeps it";
}

}  // namespace
}  // namespace folio
