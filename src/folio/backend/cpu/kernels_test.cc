// Operations with BF16 operands compute like float32 ones, and round what they write once.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "folio/backend/backend.h"
#include "folio/backend/cpu/linear_epilogue.h"
#include "folio/backend/test_op_cases.h"
#include "folio/base/test_simd_targets.h"
#include "tests/kit/threads.h"

namespace folio {
namespace {

// Random numbers that BF16 holds exactly.
Tensor RandomLow(OpMemory& memory, Shape shape, double scale = 1) {
  return Converted(memory, memory.Random(Dtype::kBF16, shape, scale), Dtype::kF32);
}

// Puts special numbers in every third place.
void AddSpecials(const Tensor& x) {
  const float specials[] = {INFINITY, -INFINITY, NAN,   -0.0f,   0.0f,   0x1p-133f,
                            10.0f,    -11.f,     88.0f, -10.25f, 1e-30f, 0x1.fep127f};
  for (int64_t i = 0; i < x.count(); i += 3) {
    x.data<float>()[i] = ToFloat(ToBF16(specials[static_cast<size_t>(i / 3) % 12]));
  }
}

// Runs an operation on float32, and again with the operands of these names as BF16.
template <class Op>
void ExpectRounded(const Op& op, std::vector<std::string_view> low, OpMemory& memory) {
  Op twin = op;
  std::map<std::byte*, Tensor> made;
  std::vector<std::pair<Operand, Tensor>> written;
  VisitMutable(twin, [&](std::string_view name, Tensor& x, Access access) {
    const bool rounded = std::count(low.begin(), low.end(), name) > 0;
    if (!x || (access == Access::kRead && !rounded)) return;
    Tensor& copy = made[x.raw()];
    if (!copy) {
      copy = Converted(memory, x, rounded ? Dtype::kBF16 : x.dtype());
      // Another value than the original's NaN, so that unwritten elements are noticed.
      if (access == Access::kWrite) std::fill_n(copy.raw(), copy.bytes(), std::byte{0x42});
    }
    if (access != Access::kRead) written.push_back({{name, access, x}, copy});
    x = copy;
  });
  const auto backend = MakeCpuBackend();
  backend->Run(op);
  backend->Run(twin);
  for (const auto& [operand, copy] : written) {
    ExpectTwin(operand.name, std::get<Tensor>(operand.view), copy);
  }
  EXPECT_TRUE(memory.GuardsIntact());
}

class Bf16Kernels : public OnSimdTarget {
 protected:
  // Calls f(N, C, memory) for awkward sizes, aligned and not.
  template <class F>
  void ForSizes(F f) {
    const std::pair<int64_t, int64_t> sizes[] = {{1, 1},  {1, 7},   {3, 17},  {2, 64},
                                                 {5, 67}, {37, 31}, {2, 1031}};
    for (const auto& [N, C] : sizes) {
      for (const bool misaligned : {false, true}) {
        SCOPED_TRACE(testing::Message() << N << " x " << C << (misaligned ? " misaligned" : ""));
        OpMemory memory(Dtype::kF32, misaligned);
        f(N, C, memory);
      }
    }
  }
};

TEST_P(Bf16Kernels, StoresRoundEveryKindOfNumberAsToBF16Does) {
  OpMemory memory(Dtype::kF32, true);
  const uint32_t low[] = {0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF};
  const Tensor d_out = memory.Unset({6, 65536}), d_x = memory.Unset(Dtype::kBF16, {6, 65536});
  for (uint32_t i = 0; i < 6 * 65536; ++i) {
    d_out.data<float>()[i] = std::bit_cast<float>((i % 65536) << 16 | low[i / 65536]);
  }
  MakeCpuBackend()->Run(ResidualBackward{.d_out = d_out, .d_x = d_x});
  for (uint32_t i = 0; i < 6 * 65536; ++i) {
    ASSERT_EQ(d_x.data<BF16>()[i].bits, ToBF16(d_out.data<float>()[i]).bits)
        << std::hex << std::bit_cast<uint32_t>(d_out.data<float>()[i]);
  }
}

TEST_P(Bf16Kernels, LoadsWidenEveryNumber) {
  OpMemory memory(Dtype::kF32, true);
  const Tensor x = memory.Unset(Dtype::kBF16, {1, 65536}), out = memory.Unset({1, 65536});
  for (uint32_t i = 0; i < 65536; ++i) x.data<BF16>()[i].bits = static_cast<uint16_t>(i);
  MakeCpuBackend()->Run(ResidualForward{.x = x, .out = out});
  for (uint32_t i = 0; i < 65536; ++i) {
    ASSERT_EQ(std::bit_cast<uint32_t>(out.data<float>()[i]), i << 16);
  }
}

TEST_P(Bf16Kernels, TailsOfEveryLengthStayWithinTheArray) {
  const uint32_t specials[] = {0x7F800001, 0xFFFFFFFF, 0x3F808000, 0x3F818000,
                               0x7F7FFFFF, 0x00008001, 0x80000000};
  for (int64_t n = 1; n <= 40; ++n) {
    OpMemory memory(Dtype::kF32, n % 2 == 1);
    const Tensor d_out = memory.Unset({1, n}), d_x = memory.Unset(Dtype::kBF16, {1, n});
    for (int64_t i = 0; i < n; ++i) d_out.data<float>()[i] = std::bit_cast<float>(specials[i % 7]);
    const auto backend = MakeCpuBackend();
    backend->Run(ResidualBackward{.d_out = d_out, .d_x = d_x});
    for (int64_t i = 0; i < n; ++i) {
      ASSERT_EQ(d_x.data<BF16>()[i].bits, ToBF16(std::bit_cast<float>(specials[i % 7])).bits) << i;
    }
    const Tensor out = memory.Unset({1, n});
    backend->Run(ResidualForward{.x = d_x, .out = out});
    for (int64_t i = 0; i < n; ++i) {
      ASSERT_EQ(std::bit_cast<uint32_t>(out.data<float>()[i]),
                uint32_t{d_x.data<BF16>()[i].bits} << 16)
          << i;
    }
    EXPECT_TRUE(memory.GuardsIntact()) << n;
  }
}

TEST_P(Bf16Kernels, LayerNormForward) {
  ForSizes([](int64_t N, int64_t C, OpMemory& memory) {
    for (const bool bias : {false, true}) {
      ExpectRounded(LayerNormForward{.x = memory.Random({N, C}, 3),
                                     .weight = memory.Random({C}),
                                     .bias = bias ? memory.Random({C}) : Tensor(),
                                     .out = memory.Unset({N, C}),
                                     .mean = memory.Unset({N}),
                                     .rstd = memory.Unset({N})},
                    {"out"}, memory);
    }
  });
}

TEST_P(Bf16Kernels, LayerNormForwardOfARowWithNan) {
  OpMemory memory(Dtype::kF32, false);
  const Tensor x = memory.Random({3, 19}), out = memory.Unset(Dtype::kBF16, {3, 19});
  x.data<float>()[19 + 18] = NAN;
  MakeCpuBackend()->Run(LayerNormForward{.x = x,
                                         .weight = memory.Random({19}),
                                         .out = out,
                                         .mean = memory.Unset({3}),
                                         .rstd = memory.Unset({3})});
  for (int64_t i = 0; i < out.count(); ++i) {
    EXPECT_EQ(std::isnan(ToFloat(out.data<BF16>()[i])), i / 19 == 1) << i;
  }
}

TEST_P(Bf16Kernels, LayerNormBackward) {
  ForSizes([](int64_t N, int64_t C, OpMemory& memory) {
    for (const bool accumulate : {false, true}) {
      const Tensor d_out = RandomLow(memory, {N, C});
      if (accumulate && C == 67) AddSpecials(d_out);
      ExpectRounded(LayerNormBackward{.x = memory.Random({N, C}, 3),
                                      .weight = memory.Random({C}),
                                      .mean = memory.Random({N}),
                                      .rstd = memory.Random({N}),
                                      .d_out = d_out,
                                      .d_x = memory.Random({N, C}),
                                      .d_weight = memory.Random({C}),
                                      .d_bias = accumulate ? Tensor() : memory.Random({C}),
                                      .accumulate_d_x = accumulate},
                    {"d_out"}, memory);
    }
  });
}

TEST_P(Bf16Kernels, RmsNorm) {
  ForSizes([](int64_t N, int64_t C, OpMemory& memory) {
    for (const bool weight : {false, true}) {
      const Tensor factors = weight ? memory.Random({C}) : Tensor();
      ExpectRounded(RmsNormForward{.x = memory.Random({N, C}, 3),
                                   .weight = factors,
                                   .out = memory.Unset({N, C}),
                                   .rstd = memory.Unset({N})},
                    {"out"}, memory);
      ExpectRounded(RmsNormBackward{.x = memory.Random({N, C}, 3),
                                    .weight = factors,
                                    .rstd = memory.Random({N}),
                                    .d_out = RandomLow(memory, {N, C}),
                                    .d_x = memory.Random({N, C}),
                                    .d_weight = memory.Random({C}),
                                    .accumulate_d_x = weight},
                    {"d_out"}, memory);
    }
  });
}

TEST_P(Bf16Kernels, Gated) {
  ForSizes([](int64_t N, int64_t F, OpMemory& memory) {
    const Tensor x = RandomLow(memory, {N, 2 * F}, 4), d_out = RandomLow(memory, {N, F});
    if (F > 60) {
      AddSpecials(x);
      AddSpecials(d_out);
    }
    for (const Activation kind : {Activation::kSilu, Activation::kRelu2}) {
      ExpectRounded(GatedForward{.kind = kind, .x = x, .out = memory.Unset({N, F})}, {"x", "out"},
                    memory);
      GatedBackward op{.kind = kind, .x = x, .d_out = d_out, .d_x = memory.Unset({N, 2 * F})};
      ExpectRounded(op, {"x", "d_out", "d_x"}, memory);
      op.x = op.d_x = Converted(memory, x, Dtype::kF32);
      ExpectRounded(op, {"x", "d_out", "d_x"}, memory);
    }
  });
}

TEST_P(Bf16Kernels, Activation) {
  ForSizes([](int64_t N, int64_t C, OpMemory& memory) {
    for (const auto& [kind, name, flops] : kActivations) {
      SCOPED_TRACE(name);
      const Tensor x = RandomLow(memory, {N, C}, 4), d_out = RandomLow(memory, {N, C});
      if (C > 60) {
        AddSpecials(x);
        AddSpecials(d_out);
      }
      ExpectRounded(ActivationForward{.kind = kind, .x = x, .out = memory.Unset({N, C})},
                    {"x", "out"}, memory);
      ActivationBackward op{.kind = kind, .x = x, .d_out = d_out, .d_x = memory.Unset({N, C})};
      ExpectRounded(op, {"x", "d_out", "d_x"}, memory);
      op.d_out = op.d_x = Converted(memory, d_out, Dtype::kF32);
      ExpectRounded(op, {"x", "d_out", "d_x"}, memory);
    }
  });
}

// The activation inside of a linear operation equals the separate activation, bit by bit.
TEST_P(Bf16Kernels, ActivationInsideLinear) {
  const auto backend = MakeCpuBackend();
  OpMemory memory(Dtype::kF32, false);
  const int64_t N = 35, I = 41, O = 77;
  const Tensor weight = memory.Random({I, O}), bias = memory.Random({O});
  const Tensor x = RandomLow(memory, {N, I}), pre = RandomLow(memory, {N, I}, 4);
  const Tensor d_out = RandomLow(memory, {N, O});
  for (const auto& [kind, name, flops] : kActivations) {
    for (const Dtype low : {Dtype::kF32, Dtype::kBF16}) {
      SCOPED_TRACE(fmt::format("{} {}", DtypeName(low), name));
      for (const Dtype own : {Dtype::kF32, low}) {
        const Tensor out = memory.Unset(own, {N, O}), act = memory.Unset(own, {N, O});
        LinearForward forward{
            .x = Converted(memory, x, low), .weight = weight, .bias = bias, .out = out};
        backend->Run(forward);
        backend->Run(ActivationForward{.kind = kind, .x = out, .out = act});
        forward.out = memory.Unset(own, {N, O});
        forward.act = memory.Unset(own, {N, O});
        forward.activation = kind;
        backend->Run(forward);
        EXPECT_EQ(std::memcmp(out.raw(), forward.out.raw(), out.bytes()), 0);
        EXPECT_EQ(std::memcmp(act.raw(), forward.act.raw(), act.bytes()), 0);
      }
      // d_x is rounded once: as the gradient of pre, not before.
      const Tensor wide = memory.Unset({N, I});
      LinearBackward backward{
          .weight = weight, .d_out = Converted(memory, d_out, low), .d_x = wide};
      backend->Run(backward);
      backend->Run(ActivationBackward{.kind = kind, .x = pre, .d_out = wide, .d_x = wide});
      backward.pre = Converted(memory, pre, low);
      backward.d_x = memory.Unset(low, {N, I});
      backward.activation = kind;
      backend->Run(backward);
      ExpectTwin("d_x", wide, backward.d_x);
    }
  }
}

TEST_P(Bf16Kernels, ActivationKeepsNanToItsOwnPlace) {
  OpMemory memory(Dtype::kF32, false);
  const int64_t n = 37;
  const Tensor x = Converted(memory, RandomLow(memory, {1, n}), Dtype::kBF16);
  const Tensor d_out = Converted(memory, RandomLow(memory, {1, n}), Dtype::kBF16);
  x.data<BF16>()[3] = x.data<BF16>()[36] = ToBF16(NAN);
  for (const auto& [kind, name, flops] : kActivations) {
    if (kind == Activation::kRelu) continue;  // by definition not the gradient of NaN
    SCOPED_TRACE(name);
    const Tensor d_x = memory.Unset(Dtype::kBF16, {1, n}), out = memory.Unset(Dtype::kBF16, {1, n});
    MakeCpuBackend()->Run(ActivationBackward{.kind = kind, .x = x, .d_out = d_out, .d_x = d_x});
    MakeCpuBackend()->Run(ActivationForward{.kind = kind, .x = x, .out = out});
    for (int64_t i = 0; i < n; ++i) {
      EXPECT_EQ(std::isnan(ToFloat(d_x.data<BF16>()[i])), i == 3 || i == 36) << i;
      EXPECT_EQ(std::isnan(ToFloat(out.data<BF16>()[i])), i == 3 || i == 36) << i;
    }
  }
}

TEST_P(Bf16Kernels, Residual) {
  ForSizes([](int64_t N, int64_t C, OpMemory& memory) {
    for (const double p : {0.0, 0.3}) {
      SCOPED_TRACE(p);
      const Dropout dropout{.p = p, .seed = 1, .stream = 2, .first_row = 3};
      const Tensor x = RandomLow(memory, {N, C}), d_out = memory.Random({N, C});
      if (C > 60) {
        AddSpecials(x);
        AddSpecials(d_out);
      }
      for (const Tensor& residual : {Tensor(), memory.Random({N, C})}) {
        ExpectRounded(
            ResidualForward{
                .residual = residual, .x = x, .out = memory.Unset({N, C}), .dropout = dropout},
            {"x"}, memory);
      }
      ExpectRounded(
          ResidualBackward{.d_out = d_out, .d_x = memory.Unset({N, C}), .dropout = dropout},
          {"d_x"}, memory);
    }
  });
}

TEST_P(Bf16Kernels, CrossEntropyBackward) {
  ForSizes([](int64_t N, int64_t V, OpMemory& memory) {
    const Tensor targets = memory.Integers({N}, V, true);
    targets.data<int32_t>()[0] = static_cast<int32_t>(V - 1);
    CrossEntropyBackward op{.logits = memory.Random({N, V}, 2),
                            .targets = targets,
                            .lse = memory.Random({N}),
                            .d_logits = memory.Unset({N, V}),
                            .scale = 0.3};
    ExpectRounded(op, {"d_logits"}, memory);
    AddSpecials(op.logits);
    op.d_logits = memory.Unset({N, V});
    ExpectRounded(op, {"d_logits"}, memory);
  });
}

TEST_P(Bf16Kernels, ColumnSums) {
  for (const int64_t rows : {1, 7, 8, 9, 100}) {
    for (const int64_t columns : {1, 5, 17, 127, 128, 129, 300}) {
      SCOPED_TRACE(testing::Message() << rows << " x " << columns);
      OpMemory memory(Dtype::kF32, true);
      const Tensor x = RandomLow(memory, {rows, columns});
      const Tensor sums = memory.Random({columns});
      const Tensor twin = Converted(memory, sums, Dtype::kF32);
      const Tensor expected = memory.Unset({columns});
      for (int64_t c = 0; c < columns; ++c) {
        float sum = 0;
        for (int64_t r = 0; r < rows; ++r) sum += x.data<float>()[r * columns + c];
        expected.data<float>()[c] = sums.data<float>()[c] + sum;
      }
      const Tensor low = Converted(memory, x, Dtype::kBF16);
      cpu::AddColumnSums(x, sums.data<float>());
      cpu::AddColumnSums(low, twin.data<float>());
      ExpectTwin("of float32", expected, sums);
      ExpectTwin("of BF16", expected, twin);
      EXPECT_TRUE(memory.GuardsIntact());
    }
  }
}

TEST(Bf16KernelThreads, ColumnSumsDoNotDependOnThreads) {
  OpMemory memory(Dtype::kF32, false);
  const int64_t rows = 61, columns = 1000;
  const Tensor x = Converted(memory, memory.Random({rows, columns}), Dtype::kBF16);
  const Tensor sums = Converted(memory, memory.Random({columns}), Dtype::kF32);
  ExpectSameOnThreads([&] {
    std::vector<float> results(sums.data<float>(), sums.data<float>() + columns);
    cpu::AddColumnSums(x, results.data());
    return results;
  });
}

INSTANTIATE_TEST_SUITE_P(, Bf16Kernels, EverySimdTarget(), SimdTargetName);

class LargeFill : public OnSimdTarget {};

// The array is so large that Fill bypasses the caches, with vectors aligned to their own size.
TEST_P(LargeFill, WritesEveryElementAndNothingElse) {
  const int64_t n = (4 << 20) + 21;
  std::vector<float> memory(static_cast<size_t>(n) + 64);
  for (const int64_t begin : {1, 16}) {
    std::fill(memory.begin(), memory.end(), 1.0f);
    MakeCpuBackend()->Run(Fill{.out = Tensor(memory.data() + begin, {n}), .value = 2});
    const auto first = memory.begin() + begin, last = first + n;
    EXPECT_EQ(std::count(first, last, 2.0f), n);
    EXPECT_EQ(std::count(memory.begin(), first, 1.0f), begin);
    EXPECT_EQ(std::count(last, memory.end(), 1.0f), memory.end() - last);
  }
}

INSTANTIATE_TEST_SUITE_P(, LargeFill, EverySimdTarget(), SimdTargetName);

}  // namespace
}  // namespace folio
