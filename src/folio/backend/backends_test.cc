// What every backend must do with every operation.

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "folio/backend/backend.h"
#include "folio/backend/comparison.h"
#include "folio/backend/op_cases.h"
#include "folio/base/error.h"
#include "folio/base/parallel.h"
#include "folio/base/simd_targets.h"

namespace folio {
namespace {

template <size_t... I>
std::vector<std::string> Names(std::index_sequence<I...>) {
  return {std::string(std::variant_alternative_t<I, AnyOp>::kName)...};
}

std::vector<std::string> OpNames() {
  return Names(std::make_index_sequence<std::variant_size_v<AnyOp>>());
}

std::vector<OpCase> CasesOf(const std::string& op) {
  std::vector<OpCase> cases = OpCases();
  std::erase_if(cases, [&](const OpCase& c) { return c.op != op; });
  return cases;
}

template <class Op>
void ExpectWritten(const Op& op, const OpMemory& memory) {
  for (const Operand& operand : Operands(op)) {
    if (operand.access == Access::kRead) continue;
    for (int64_t i = 0; i < operand.count(); ++i) {
      if (std::isnan(operand.Element(i))) {
        ADD_FAILURE() << operand.name << "[" << i << "] was not written, or came out NaN";
        break;
      }
    }
  }
  EXPECT_TRUE(memory.GuardsIntact()) << "something was written outside the operands";
}

// Runs a case on each SIMD target, aligned and misaligned; the reference runs once.
template <class Op>
void ExpectAgreement(const OpCase& c, Dtype number, const std::vector<std::string>& targets,
                     Backend& backend) {
  OpMemory first(number, false);
  const auto reference = MakeReferenceBackend();
  const Comparison<Op> comparison(std::get<Op>(c.make(first)), *reference);
  for (const std::string& target : targets) {
    ForceSimdTarget(target);
    for (const bool misaligned : {false, true}) {
      SCOPED_TRACE(target + (misaligned ? " misaligned" : ""));
      OpMemory memory(number, misaligned);
      const Op op = std::get<Op>(c.make(memory));
      backend.Run(op);
      if (const auto mismatch = comparison.Check(op)) ADD_FAILURE() << mismatch->ToString();
      ExpectWritten(op, memory);
    }
  }
}

void ExpectAgreementOnAllCases(Backend& backend, const std::string& op_name,
                               const std::vector<std::string>& targets) {
  for (const OpCase& c : CasesOf(op_name)) {
    for (const Dtype number : {Dtype::kF32, Dtype::kF64}) {
      if (!backend.Supports(number)) continue;
      SCOPED_TRACE(c.name + " " + std::string(DtypeName(number)));
      OpMemory memory(number, false);
      std::visit(
          [&](const auto& op) {
            ExpectAgreement<std::decay_t<decltype(op)>>(c, number, targets, backend);
          },
          c.make(memory));
    }
  }
}

std::string NameOf(const testing::TestParamInfo<std::string>& info) {
  return info.param;
}

class EveryBackend : public testing::TestWithParam<std::tuple<std::string, std::string>> {};

TEST_P(EveryBackend, AgreesWithTheReferenceInFloat64) {
  const auto& [backend, op] = GetParam();
  ExpectAgreementOnAllCases(*MakeBackend(backend), op, {""});
}

std::string NameOfPair(const testing::TestParamInfo<EveryBackend::ParamType>& info) {
  return std::get<0>(info.param) + "_" + std::get<1>(info.param);
}

INSTANTIATE_TEST_SUITE_P(, EveryBackend,
                         testing::Combine(testing::ValuesIn(BackendNames()),
                                          testing::ValuesIn(OpNames())),
                         NameOfPair);

class CpuBackend : public testing::TestWithParam<std::string> {
 protected:
  ~CpuBackend() override {
    ForceSimdTarget("");
    SetThreads(threads_);
  }

 private:
  int threads_ = Threads();
};

TEST_P(CpuBackend, AgreesWithTheReferenceOnEverySimdTarget) {
  ASSERT_FALSE(SimdTargets().empty());
  ExpectAgreementOnAllCases(*MakeCpuBackend(), GetParam(), SimdTargets());
}

TEST_P(CpuBackend, ResultsDoNotDependOnTheNumberOfThreads) {
  const auto backend = MakeCpuBackend();
  for (const OpCase& c : CasesOf(GetParam())) {
    SCOPED_TRACE(c.name);
    std::vector<std::byte> of_one_thread;
    for (const int threads : {1, 2, 3}) {
      SetThreads(threads);
      OpMemory memory(Dtype::kF32, true);
      const AnyOp op = c.make(memory);
      std::visit([&](const auto& o) { backend->Run(o); }, op);
      if (threads == 1) of_one_thread = memory.Bytes();
      EXPECT_TRUE(memory.Bytes() == of_one_thread) << threads << " threads";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(, CpuBackend, testing::ValuesIn(OpNames()), NameOf);

TEST(MakeBackend, NamesTheNearestForAnUnknownName) {
  try {
    MakeBackend("cpi");
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    EXPECT_NE(error.cause().find("reference, cpu, checked, timed"), std::string::npos);
    EXPECT_NE(error.help().find("cpu"), std::string::npos);
  }
}

TEST(MakeBackend, GivesEachItsName) {
  for (const std::string& name : BackendNames()) {
    const auto backend = MakeBackend(name);
    EXPECT_EQ(backend->name(), name);
    EXPECT_FALSE(backend->description().empty());
    EXPECT_TRUE(backend->Supports(Dtype::kF32));
  }
}

}  // namespace
}  // namespace folio
