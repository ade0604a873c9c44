// The steady state of training allocates nothing. Counted is every call of operator new, of any
// thread, whose caller lies in this program, into which folio is linked; calls from inside shared
// libraries are not folio's. Sanitizers have an operator new of their own.

#include <gtest/gtest.h>
#include <link.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "folio/model/decoder.h"
#include "folio/model/test_models.h"
#include "folio/train/train_step.h"

#if !defined(FOLIO_SANITIZE)

namespace {

std::atomic<bool> counting = false;
std::atomic<int64_t> allocations = 0;
uintptr_t program_begin = 0, program_end = 0;

// The first object is the program itself.
int FindProgram(dl_phdr_info* info, size_t, void*) {
  program_begin = UINTPTR_MAX;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const auto& segment = info->dlpi_phdr[i];
    if (segment.p_type != PT_LOAD) continue;
    program_begin = std::min<uintptr_t>(program_begin, info->dlpi_addr + segment.p_vaddr);
    program_end =
        std::max<uintptr_t>(program_end, info->dlpi_addr + segment.p_vaddr + segment.p_memsz);
  }
  return 1;
}

void* Allocate(size_t bytes, size_t alignment, void* caller) {
  const uintptr_t at = reinterpret_cast<uintptr_t>(caller);
  if (counting && program_begin <= at && at < program_end) ++allocations;
  const size_t rounded = (std::max<size_t>(bytes, 1) + alignment - 1) / alignment * alignment;
  void* memory = std::aligned_alloc(alignment, rounded);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

void* operator new(size_t bytes) {
  return Allocate(bytes, alignof(std::max_align_t), __builtin_return_address(0));
}
void* operator new(size_t bytes, std::align_val_t alignment) {
  return Allocate(bytes, static_cast<size_t>(alignment), __builtin_return_address(0));
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, size_t) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::align_val_t) noexcept {
  std::free(memory);
}
void operator delete(void* memory, size_t, std::align_val_t) noexcept {
  std::free(memory);
}

namespace folio {
namespace {

template <class F>
int64_t AllocationsOf(F&& f) {
  dl_iterate_phdr(FindProgram, nullptr);
  allocations = 0;
  counting = true;
  f();
  counting = false;
  return allocations;
}

TEST(Allocations, AreSeenByThisTest) {
  EXPECT_EQ(AllocationsOf([] {
              std::vector<int> vector(100);
              static_cast<volatile int*>(vector.data())[0] = 1;
            }),
            1);
}

class Steady : public testing::TestWithParam<std::string> {};

// Allocations of training steps after the first.
int64_t AllocationsOfTraining(Backend& backend, const PassOptions& options,
                              const LoraConfig& lora = {}) {
  GptConfig config = TinyConfig();
  config.n_positions = 40;
  config.n_embd = 48;
  for (double GptConfig::*rate : GptConfig::DropoutRates()) config.*rate = 0.1;
  GptWeights weights(ParamTable(config, lora));
  Scatter(weights, 1);
  TrainStep train_step(backend, weights, 2, 40, options, {.micro_batches = 2});
  const std::vector<int32_t> ids = RandomTokens(80, config.vocab_size, 2);
  int64_t step = 0;
  const auto take_step = [&] {
    train_step.Begin();
    for (int64_t micro : {0, 1}) {
      train_step.Accumulate(ids, ids, 0.1,
                            {.on = true, .seed = 1, .step = 2, .first_sequence = 2 * micro});
    }
    train_step.Finish(1e-3, 1, ++step);
  };
  take_step();
  take_step();
  return AllocationsOf([&] {
    for (int i = 0; i < 3; ++i) take_step();
  });
}

TEST_P(Steady, TrainingStepsAllocateNothing) {
  const auto backend = MakeBackend(GetParam());
  EXPECT_EQ(AllocationsOfTraining(*backend, {}), 0);
  EXPECT_EQ(AllocationsOfTraining(*backend, {.recompute = true}), 0);
  EXPECT_EQ(AllocationsOfTraining(*backend, {.dtype = Dtype::kBF16}), 0);
  EXPECT_EQ(AllocationsOfTraining(*backend, {.dtype = Dtype::kBF16, .recompute = true}), 0);
  EXPECT_EQ(AllocationsOfTraining(*backend, {},
                                  {.rank = 3, .targets = "c_attn,c_proj,c_fc", .dropout = 0.1}),
            0);
}

TEST_P(Steady, DecodingATokenAllocatesNothing) {
  const auto backend = MakeBackend(GetParam());
  GptConfig config = TinyConfig();
  config.n_positions = 12;
  GptWeights weights(config);
  Scatter(weights, 1);
  Decoder decoder(*backend, weights);
  const std::vector<int32_t> ids = RandomTokens(12, config.vocab_size, 2);
  CachedSequence text(decoder.cache());
  decoder.Append(text, ids);
  text.Clear();
  EXPECT_EQ(AllocationsOf([&] {
              for (size_t t = 0; t < ids.size(); ++t) {
                decoder.Append(text, std::span(ids).subspan(t, 1));
              }
            }),
            0);
}

INSTANTIATE_TEST_SUITE_P(Backends, Steady, testing::Values("cpu"));

}  // namespace
}  // namespace folio

#endif  // sanitizers
