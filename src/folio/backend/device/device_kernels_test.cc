// These tests run the kernels of every operation that has some on the executor: results are those
// of the reference, and the same bits in every order of threads and blocks and with blocks of every
// size.

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <ostream>
#include <set>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "folio/backend/backend.h"
#include "folio/backend/decorated_backends.h"
#include "folio/backend/device/device_operations.h"
#include "folio/backend/device/executor.h"
#include "folio/backend/device/numbers.h"
#include "folio/backend/test_op_cases.h"
#include "tests/kit/sanitized.h"

namespace folio::device {
namespace {

template <class Op>
concept HasKernels = requires(Queue& queue, const Op& op) {
  LaunchOperation(queue, op, kWarp);
};

struct KernelVariant {
  std::string_view op;
  bool bf16 = false;
};

void PrintTo(const KernelVariant& variant, std::ostream* stream) {
  *stream << variant.op << (variant.bf16 ? "_bf16" : "");
}

std::vector<OpCase> CasesOf(const KernelVariant& variant) {
  std::vector<OpCase> cases = OpCases();
  std::erase_if(cases, [&](const OpCase& c) {
    return c.op != variant.op || !(variant.bf16 ? c.bf16 : c.plain);
  });
  return cases;
}

// Every operation that has kernels or, if not `with`, has none.
template <class... Ops>
std::set<std::string_view> OperationsOf(OperationList<Ops...>, bool with) {
  std::set<std::string_view> names;
  ((HasKernels<Ops> == with ? void(names.insert(Ops::kName)) : void()), ...);
  return names;
}

std::vector<KernelVariant> AllVariants() {
  std::vector<KernelVariant> variants;
  for (const std::string_view op : OperationsOf(Operations(), true)) {
    for (const bool bf16 : {false, true}) {
      if (!CasesOf({op, bf16}).empty()) variants.push_back({op, bf16});
    }
  }
  return variants;
}

TEST(DeviceOperations, AreThereForAllButTheseOperations) {
  EXPECT_EQ(OperationsOf(Operations(), false),
            (std::set<std::string_view>{"linear_forward", "linear_backward", "attention_forward",
                                        "attention_backward", "cache_write", "cache_read",
                                        "cache_attention"}));
}

template <class Op>
void ExpectWritten(const Op& op) {
  for (const Operand& operand : Operands(op)) {
    if (operand.access == Access::kRead) continue;
    const std::vector<double> elements = operand.Elements();
    const auto unset = std::ranges::find_if(elements, [](double x) { return std::isnan(x); });
    EXPECT_EQ(unset, elements.end())
        << operand.name << "[" << unset - elements.begin() << "] was not written, or came out NaN";
  }
}

// Runs kernels in several orders and with blocks of two sizes.
class DeviceKernels : public testing::TestWithParam<KernelVariant> {
 protected:
  DeviceKernels() {
    for (uint64_t seed = 1; seed <= (kSanitized ? 1 : 3); ++seed) {
      executors_.push_back(std::make_unique<Executor>(seed));
    }
  }

  template <class Op>
  void ExpectAgreement(const OpCase& c, const Op& first) {
    const Comparison<Op> comparison(first, *MakeReferenceBackend());
    std::vector<std::byte> bytes;
    for (const auto& executor : executors_) {
      for (const int threads : {96, 512}) {
        OpMemory memory(Dtype::kF32, half(), /*misaligned=*/true);
        const Op op = std::get<Op>(c.make(memory));
        op.Check();
        ASSERT_TRUE(LaunchOperation(*executor, op, threads));
        EXPECT_TRUE(memory.GuardsIntact()) << "something was written outside the operands";
        if (bytes.empty()) {
          if (const auto mismatch = comparison.Check(op)) ADD_FAILURE() << mismatch->ToString();
          ExpectWritten(op);
          bytes = memory.Bytes();
        } else {
          EXPECT_TRUE(bytes == memory.Bytes()) << "other bits with blocks of " << threads;
        }
      }
    }
  }

  static Dtype half() { return GetParam().bf16 ? Dtype::kBF16 : Dtype::kF32; }

  std::vector<std::unique_ptr<Executor>> executors_;
};

TEST_P(DeviceKernels, AgreeWithTheReferenceInEveryOrder) {
  for (const OpCase& c : CasesOf(GetParam())) {
    SCOPED_TRACE(c.name);
    OpMemory memory(Dtype::kF32, half(), /*misaligned=*/false);
    const AnyOp any = c.make(memory);
    std::visit(
        [&]<class Op>(const Op& op) {
          if constexpr (HasKernels<Op>) ExpectAgreement(c, op);
        },
        any);
  }
}

INSTANTIATE_TEST_SUITE_P(, DeviceKernels, testing::ValuesIn(AllVariants()),
                         [](const auto& instance) {
                           return testing::PrintToString(instance.param);
                         });

// The comparison with the reference accepts either neighbour of a number between two.
TEST(Store, RoundsToBF16AsTheHostDoes) {
  for (uint32_t upper = 0; upper < 0x10000; ++upper) {
    ASSERT_EQ(std::bit_cast<uint32_t>(Load(BF16{static_cast<uint16_t>(upper)})), upper << 16);
    for (const uint32_t lower : {0u, 1u, 0x7FFFu, 0x8000u, 0x8001u, 0xFFFFu}) {
      const auto value = std::bit_cast<float>(upper << 16 | lower);
      BF16 stored;
      Store(stored, value);
      ASSERT_EQ(stored.bits, ToBF16(value).bits) << upper << " " << lower;
    }
  }
}

// Frequencies are arguments of a launch, of which there is more than one for so many.
TEST(RotaryAngles, HasKernelsForAnyNumberOfPairs) {
  OpMemory memory(Dtype::kF32, /*misaligned=*/false);
  const Tensor frequencies = memory.Random({1100});
  const folio::RotaryAngles op = {.inv_freq = {frequencies.data<float>(), 1100},
                                  .out = memory.Unset({2, 2200})};
  const Comparison<folio::RotaryAngles> comparison(op, *MakeReferenceBackend());
  Executor executor(1);
  ASSERT_TRUE(LaunchOperation(executor, op, 64));
  if (const auto mismatch = comparison.Check(op)) ADD_FAILURE() << mismatch->ToString();
}

// An index that is none would be an error on the host, which checks it; a kernel must not follow
// it.
TEST(DeviceOperations, GiveNanForTokensThatAreNone) {
  OpMemory memory(Dtype::kF32, /*misaligned=*/false);
  Executor executor(1);
  const Tensor tokens = memory.Integers({1, 2}, 1);
  memory.Set(tokens, 0, 7);
  const EmbeddingForward embedding = {
      .ids = tokens, .wte = memory.Random({7, 2}), .out = memory.Unset({2, 2})};
  const CrossEntropy loss = {.logits = memory.Random({2, 7}),
                             .targets = tokens.Reshape({2}),
                             .losses = memory.Unset({2}),
                             .lse = memory.Unset({2})};
  ASSERT_TRUE(LaunchOperation(executor, embedding, 32));
  ASSERT_TRUE(LaunchOperation(executor, loss, 32));
  const std::vector<double> out = Values(embedding.out), losses = Values(loss.losses);
  EXPECT_TRUE(std::isnan(out[0]) && std::isnan(out[1]) && std::isnan(losses[0]));
  EXPECT_FALSE(std::isnan(out[2]) || std::isnan(out[3]) || std::isnan(losses[1]));
}

}  // namespace
}  // namespace folio::device
