// These tests check every operation on every backend.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <memory>
#include <ostream>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "folio/backend/backend.h"
#include "folio/backend/decorated_backends.h"
#include "folio/backend/test_op_cases.h"
#include "folio/base/error.h"
#include "folio/base/test_simd_targets.h"
#include "tests/kit/expect.h"
#include "tests/kit/sanitized.h"
#include "tests/kit/threads.h"

namespace folio {
namespace {

// An operation, and whether its operands marked Low are bfloat16.
struct OpVariant {
  std::string op;
  bool bf16 = false;

  std::string ToString() const { return op + (bf16 ? "_bf16" : ""); }
};

void PrintTo(const OpVariant& variant, std::ostream* stream) {
  *stream << variant.ToString();
}

bool IsOf(const OpCase& c, const OpVariant& variant) {
  return c.op == variant.op && (variant.bf16 ? c.bf16 : c.plain);
}

std::vector<OpCase> CasesOf(const OpVariant& variant) {
  std::vector<OpCase> cases = OpCases();
  std::erase_if(cases, [&](const OpCase& c) { return !IsOf(c, variant); });
  return cases;
}

// Every operation, and again with bfloat16 if it has such cases.
template <class... Ops>
std::vector<OpVariant> VariantsOf(OperationList<Ops...>) {
  const std::vector<OpCase> cases = OpCases();
  std::vector<OpVariant> variants;
  for (const std::string_view op : {Ops::kName...}) {
    const OpVariant plain{std::string(op)};
    const OpVariant bf16{std::string(op), true};
    variants.push_back(plain);
    const bool halves =
        std::any_of(cases.begin(), cases.end(), [&](const OpCase& c) { return IsOf(c, bf16); });
    if (halves) variants.push_back(bf16);
  }
  return variants;
}

struct Dtypes {
  Dtype number, half;
};

std::vector<Dtypes> DtypesOf(const OpVariant& variant) {
  if (variant.bf16) return {{Dtype::kF32, Dtype::kBF16}};
  return {{Dtype::kF32, Dtype::kF32}, {Dtype::kF64, Dtype::kF64}};
}

template <class Op>
void ExpectWritten(const Op& op, const OpMemory& memory) {
  for (const Operand& operand : Operands(op)) {
    if (operand.access == Access::kRead) continue;
    const std::vector<double> elements = operand.Elements();
    const auto unset = std::find_if(elements.begin(), elements.end(),
                                    [](double element) { return std::isnan(element); });
    EXPECT_EQ(unset, elements.end())
        << operand.name << "[" << unset - elements.begin() << "] was not written, or came out NaN";
  }
  EXPECT_TRUE(memory.GuardsIntact()) << "something was written outside the operands";
}

using Backends = std::vector<std::unique_ptr<Backend>>;

// Runs a case on each backend and SIMD target, aligned and misaligned; the expected result is
// computed once, from `first`.
template <class Op>
void ExpectAgreement(const OpCase& c, const Op& first, Dtypes dtypes, const Backends& backends,
                     const std::vector<std::string>& targets) {
  const Comparison<Op> comparison(first, *MakeReferenceBackend());
  for (const auto& backend : backends) {
    if (!backend->Supports(dtypes.number) || !backend->Supports(dtypes.half)) continue;
    for (const std::string& target : targets) {
      ForceSimdTarget(target);
      for (const bool misaligned : {false, true}) {
        SCOPED_TRACE(backend->name() + " " + target + (misaligned ? " misaligned" : ""));
        OpMemory memory(dtypes.number, dtypes.half, misaligned);
        const Op op = std::get<Op>(c.make(memory));
        backend->Run(op);
        if (const auto mismatch = comparison.Check(op)) ADD_FAILURE() << mismatch->ToString();
        ExpectWritten(op, memory);
      }
    }
  }
}

void ExpectAgreementOnAllCases(const Backends& backends, const OpVariant& variant,
                               const std::vector<std::string>& targets) {
  for (const Dtypes dtypes : DtypesOf(variant)) {
    const bool supported = std::any_of(backends.begin(), backends.end(), [&](const auto& backend) {
      return backend->Supports(dtypes.number) && backend->Supports(dtypes.half);
    });
    if (!supported) continue;
    for (const OpCase& c : CasesOf(variant)) {
      SCOPED_TRACE(c.name + " " + std::string(DtypeName(dtypes.half)));
      OpMemory memory(dtypes.number, dtypes.half, false);
      std::visit([&](const auto& op) { ExpectAgreement(c, op, dtypes, backends, targets); },
                 c.make(memory));
    }
  }
}

class EveryBackend : public testing::TestWithParam<OpVariant> {};

TEST_P(EveryBackend, AgreesWithTheReferenceInFloat64) {
  Backends backends;
  for (const std::string& name : BackendNames()) {
    // The CPU is tested below, on every target, and the others pass operations on to these two.
    if (kSanitized && name != "reference") continue;
    backends.push_back(MakeBackend(name));
  }
  ExpectAgreementOnAllCases(backends, GetParam(), {""});
}

std::string NameOf(const testing::TestParamInfo<OpVariant>& info) {
  return info.param.ToString();
}

INSTANTIATE_TEST_SUITE_P(, EveryBackend, testing::ValuesIn(VariantsOf(Operations())), NameOf);

class CpuBackend : public testing::TestWithParam<OpVariant> {
  KeptSimdTarget kept_;
};

TEST_P(CpuBackend, AgreesWithTheReferenceOnEverySimdTarget) {
  ASSERT_FALSE(SimdTargets().empty());
  Backends backends;
  backends.push_back(MakeCpuBackend());
  ExpectAgreementOnAllCases(backends, GetParam(), SimdTargets());
}

TEST_P(CpuBackend, ResultsDoNotDependOnTheNumberOfThreads) {
  const auto backend = MakeCpuBackend();
  const Dtype half = GetParam().bf16 ? Dtype::kBF16 : Dtype::kF32;
  for (const OpCase& c : CasesOf(GetParam())) {
    SCOPED_TRACE(c.name);
    ExpectSameOnThreads([&] {
      OpMemory memory(Dtype::kF32, half, true);
      const AnyOp op = c.make(memory);
      std::visit([&](const auto& o) { backend->Run(o); }, op);
      return memory.Bytes();
    });
  }
}

INSTANTIATE_TEST_SUITE_P(, CpuBackend, testing::ValuesIn(VariantsOf(Operations())), NameOf);

TEST(OpMemory, SeesWhatIsWrittenOrAddedOutsideOfItsArrays) {
  OpMemory aligned(Dtype::kF32, false), misaligned(Dtype::kF32, true);
  const Tensor x = aligned.Random({4}), y = misaligned.Random({4});
  EXPECT_TRUE(aligned.GuardsIntact() && misaligned.GuardsIntact());
  x.data<float>()[4] = 1;
  y.data<float>()[4] += 1;
  EXPECT_FALSE(aligned.GuardsIntact() || misaligned.GuardsIntact());
}

TEST(MakeBackend, NamesTheNearestForAnUnknownName) {
  const Error error = Refused([] { MakeBackend("cpi"); }, ErrorKind::kUsage);
  EXPECT_TRUE(Contains(error.cause(), "cpu, reference, checked, timed"));
  EXPECT_TRUE(Contains(error.help(), "cpu"));
}

TEST(MakeBackend, GivesEachItsName) {
  for (const std::string& name : BackendNames()) {
    const auto backend = MakeBackend(name);
    EXPECT_EQ(backend->name(), name);
    EXPECT_FALSE(backend->description().empty());
    EXPECT_TRUE(backend->Supports(Dtype::kF32) && backend->Supports(Dtype::kBF16));
  }
}

}  // namespace
}  // namespace folio
