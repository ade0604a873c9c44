// Attention in tiles against the reference in float64, at sizes around the edges of tiles, within
// the rounding errors of each step.

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "folio/backend/backend.h"
#include "folio/backend/cpu/attention_kernels.h"
#include "folio/backend/test_op_cases.h"
#include "folio/base/rng.h"
#include "folio/base/test_simd_targets.h"
#include "tests/kit/threads.h"

namespace folio {

namespace {

constexpr Dtype kF32 = Dtype::kF32, kBF16 = Dtype::kBF16, kF64 = Dtype::kF64;

struct AttentionSizes {
  int64_t B, T, S, H, G, D;
  int64_t window = 0;  // if causal
  double cap = 0;
  bool causal = true, masked = false, dropout = false;
  enum { kNone, kAllowed, kAdded } pairs = kNone;  // the mask of queries and keys

  int64_t heads() const { return KeyHeads(H, G); }
  int64_t share() const { return H / heads(); }
  Dropout Drop() const {
    return dropout ? Dropout{.p = 0.3, .seed = 8, .stream = 9, .first_row = 5} : Dropout{};
  }
};

size_t Size(int64_t n) {
  return static_cast<size_t>(n);
}

// Forward and backward of one attention with operands of dtype `low` and statistics of dtype
// `number`.
struct AttentionCall {
  AttentionCall(const AttentionSizes& sizes, Dtype low, Dtype number = kF32, bool probs = false)
      : s(sizes), memory(number, low, /*misaligned=*/true) {
    const int64_t C = s.H * s.D, K = s.heads() * s.D;
    forward.q = Random(s.T, C, 3);
    forward.k = Random(s.S, K, 1);
    forward.v = Random(s.S, K, 5);
    forward.out = memory.WideLow(s.B, s.T, C, 1, 0);
    forward.lse = memory.Unset({s.B, s.H, s.T});
    if (probs) forward.probs = memory.Unset({s.B, s.H, s.T, s.S});
    // The first of two sequences has all keys masked, the last some.
    for (int64_t i = 0; i < s.B * s.S; ++i) mask.push_back(i / s.S + 1 == s.B && i % 3 != 0);
    if (s.masked) forward.key_mask = Tensor(mask.data(), Shape{s.B, s.S});
    if (s.pairs != AttentionSizes::kNone) forward.mask = PairMask();
    forward.H = s.H;
    forward.G = s.G;
    forward.cap = s.cap;
    forward.causal = s.causal;
    if (s.causal) forward.window = s.window;
    forward.dropout = s.Drop();
    backward = BackwardOf(forward);
    backward.d_out = Random(s.T, C, 7);
    backward.d_q = memory.WideLow(s.B, s.T, C, 3, 0);
    backward.d_k = memory.WideLow(s.B, s.S, K, 3, 0);
    backward.d_v = memory.WideLow(s.B, s.S, K, 1, 0);
  }

  // (B,rows,C) of numbers that are exact in bfloat16, so that every dtype gets the same.
  SequenceView Random(int64_t rows, int64_t C, int64_t gap) {
    const SequenceView x = memory.WideLow(s.B, rows, C, gap, 0);
    const CounterRng rng(++draws, 7);
    Fill(x, [&](int64_t i) {
      return ToFloat(ToBF16(static_cast<float>(rng.Normal(static_cast<uint64_t>(i)))));
    });
    return x;
  }
  // A third of the pairs are masked, including all keys of some query.
  Tensor PairMask() {
    const Dtype dtype = s.pairs == AttentionSizes::kAllowed ? Dtype::kU8 : memory.number();
    const Tensor pairs = memory.Unset(dtype, {s.B, 1, s.T, s.S});
    const CounterRng rng(5, 7);
    for (int64_t i = 0; i < pairs.count(); ++i) {
      const bool hidden = i % 3 == 1 || i / s.S == s.T / 2;
      const double number = ToFloat(ToBF16(static_cast<float>(rng.Normal(uint64_t(i)))));
      memory.Set(pairs, i, dtype == Dtype::kU8 ? !hidden : hidden ? -INFINITY : number);
    }
    return pairs;
  }
  template <class F>
  void Fill(const SequenceView& x, F&& number_at) {
    for (int64_t i = 0; i < x.B * x.T * x.C; ++i) memory.Set(x, i, number_at(i));
  }
  void Run(Backend& backend) {
    backend.Run(forward);
    backend.Run(backward);
  }

  AttentionSizes s;
  OpMemory memory;
  uint64_t draws = 0;
  std::vector<uint8_t> mask;
  AttentionForward forward;
  AttentionBackward backward;
};

// The results of an attention that was run.
struct AttentionNumbers {
  explicit AttentionNumbers(const AttentionCall& a)
      : q(Values(a.forward.q)),
        k(Values(a.forward.k)),
        v(Values(a.forward.v)),
        lse(Values(a.forward.lse)),
        probs(a.forward.probs ? Values(a.forward.probs) : std::vector<double>()),
        out(Values(a.forward.out)),
        d_out(Values(a.backward.d_out)),
        d_q(Values(a.backward.d_q)),
        d_k(Values(a.backward.d_k)),
        d_v(Values(a.backward.d_v)) {}

  std::vector<double> q, k, v, lse, probs, out, d_out, d_q, d_k, d_v;
};

// The tolerance of each result, from the exact weights: `unit` is the relative rounding error of a
// number that enters a product or is stored, and `sums` that of anything else.
struct Bounds {
  Bounds(const AttentionSizes& s, const AttentionNumbers& e, double unit, double sums)
      : out(e.out.size()), d_q(e.q.size()), d_k(e.k.size()), d_v(e.v.size()) {
    for (int64_t row = 0; row < s.B * s.H * s.T; ++row) Add(s, e, row, unit, sums);
    const auto stored = [&](std::vector<double>& bounds, const std::vector<double>& x) {
      for (size_t i = 0; i < x.size(); ++i) bounds[i] += (unit + sums) * std::abs(x[i]);
    };
    stored(out, e.out);
    stored(d_q, e.d_q);
    stored(d_k, e.d_k);
    stored(d_v, e.d_v);
  }

  void Add(const AttentionSizes& s, const AttentionNumbers& e, int64_t row, double unit,
           double sums) {
    const int64_t b = row / (s.H * s.T), h = row / s.T % s.H, t = row % s.T, C = s.H * s.D;
    const int64_t K = s.heads() * s.D, query = (b * s.T + t) * C + h * s.D;
    const Dropout drop = s.Drop();
    const CounterRng rng(drop.seed, drop.stream);
    const double scale = 1 / std::sqrt(static_cast<double>(s.D));
    double delta = 0, d_delta = 0;
    std::vector<double> weights(Size(s.S)), g(Size(s.S));
    for (int64_t i = 0; i < s.S; ++i) {
      const auto place =
          static_cast<uint64_t>((drop.first_row + row) * Dropout::RowStride(s.S) + i);
      const double factor = rng.Bits(place) < drop.threshold() ? 0 : drop.scale();
      const int64_t key = (b * s.S + i) * K + h / s.share() * s.D;
      weights[Size(i)] = e.probs[Size(row * s.S + i)] * factor;
      for (int64_t d = 0; d < s.D; ++d) {
        const double o = std::abs(e.d_out[Size(query + d)]);
        g[Size(i)] += e.d_out[Size(query + d)] * e.v[Size(key + d)] * factor;
        out[Size(query + d)] += (unit + sums) * weights[Size(i)] * std::abs(e.v[Size(key + d)]);
        d_v[Size(key + d)] += (unit + sums) * weights[Size(i)] * o;
      }
    }
    for (int64_t d = 0; d < s.D; ++d) {
      delta += e.d_out[Size(query + d)] * e.out[Size(query + d)];
      d_delta += std::abs(e.d_out[Size(query + d)]) *
                 (out[Size(query + d)] + unit * std::abs(e.out[Size(query + d)]));
    }
    for (int64_t i = 0; i < s.S; ++i) {
      const double p = e.probs[Size(row * s.S + i)];
      const double d_score = p * (unit * std::abs(g[Size(i)] - delta) + d_delta +
                                  sums * (std::abs(g[Size(i)]) + std::abs(delta) + 1));
      const int64_t key = (b * s.S + i) * K + h / s.share() * s.D;
      for (int64_t d = 0; d < s.D; ++d) {
        d_q[Size(query + d)] += d_score * scale * std::abs(e.k[Size(key + d)]);
        d_k[Size(key + d)] += d_score * scale * std::abs(e.q[Size(query + d)]);
      }
    }
  }

  std::vector<double> out, d_q, d_k, d_v;
};

void ExpectNear(const std::vector<double>& found, const std::vector<double>& expected,
                const std::vector<double>& bounds, const std::string& what) {
  for (size_t i = 0; i < expected.size(); ++i) {
    const double error = std::abs(found[i] - expected[i]);
    ASSERT_LE(error, bounds[i]) << what << "[" << i << "] of " << expected[i];
  }
}

// A sum in float32 may be off by SumError: a few roundings for each of its terms, which are at most
// 4 * 4 in a score.
double SumError(const AttentionSizes& s) {
  const double terms = static_cast<double>(s.D + s.S + s.T);
  return std::ldexp(8 + 4 * std::sqrt(terms), -24) * 8;
}

void ExpectAttention(const AttentionSizes& s, Backend& cpu, Dtype low,
                     const AttentionNumbers& expected, const Bounds& bounds) {
  const double sums = SumError(s);
  AttentionCall attention(s, low, kF32, /*probs=*/true);
  attention.Run(cpu);
  EXPECT_TRUE(attention.memory.GuardsIntact());
  const AttentionNumbers found(attention);
  for (size_t i = 0; i < found.lse.size(); ++i) {
    const double want = expected.lse[i], have = found.lse[i];
    ASSERT_TRUE(have == want || std::abs(have - want) <= sums * 2) << have << " for " << want;
  }
  for (size_t i = 0; i < found.probs.size(); ++i) {
    ASSERT_NEAR(found.probs[i], expected.probs[i], sums * 2 * expected.probs[i]) << i;
  }
  ExpectNear(found.out, expected.out, bounds.out, "out");
  ExpectNear(found.d_q, expected.d_q, bounds.d_q, "d_q");
  ExpectNear(found.d_k, expected.d_k, bounds.d_k, "d_k");
  ExpectNear(found.d_v, expected.d_v, bounds.d_v, "d_v");
}

// Fills the scratch memory with NaN.
void Spoil(Backend& cpu) {
  AttentionCall a({.B = 1, .T = 130, .S = 300, .H = 1, .G = 0, .D = 80}, kBF16);
  for (const SequenceView& x : {a.forward.q, a.forward.k, a.forward.v, a.backward.d_out}) {
    a.Fill(x, [](int64_t) { return NAN; });
  }
  a.Run(cpu);
}

class AttentionTiles : public testing::TestWithParam<AttentionSizes> {
  KeptSimdTarget kept_;
};

TEST_P(AttentionTiles, AgreeWithTheReferenceOnEverySimdTarget) {
  const auto reference = MakeReferenceBackend(), cpu = MakeCpuBackend();
  Spoil(*cpu);
  for (int options = 0; options < 24; ++options) {
    AttentionSizes s = GetParam();
    s.causal = options & 1;
    s.masked = options & 2;
    s.dropout = options & 4;
    if (options >= 8) s.pairs = options >= 16 ? AttentionSizes::kAdded : AttentionSizes::kAllowed;
    // Masks of pairs are combined with all other options, or with none.
    if (s.pairs != AttentionSizes::kNone && options % 8 != 0 && options % 8 != 7) continue;
    AttentionCall exact(s, kF64, kF64, /*probs=*/true);
    exact.Run(*reference);
    const AttentionNumbers expected(exact);
    const Bounds float_bounds(s, expected, 0, SumError(s));
    const Bounds bf16_bounds(s, expected, std::ldexp(1.0, -8), SumError(s));
    for (const std::string& target : SimdTargets()) {
      SCOPED_TRACE(target + " options " + std::to_string(options));
      ForceSimdTarget(target);
      ExpectAttention(s, *cpu, kF32, expected, float_bounds);
      ExpectAttention(s, *cpu, kBF16, expected, bf16_bounds);
    }
  }
}

TEST_P(AttentionTiles, DoNotDependOnTheNumberOfThreads) {
  const auto cpu = MakeCpuBackend();
  AttentionSizes s = GetParam();
  s.dropout = true;
  for (const Dtype low : {kF32, kBF16}) {
    ExpectSameOnThreads([&] {
      AttentionCall attention(s, low);
      attention.Run(*cpu);
      return attention.memory.Bytes();
    });
  }
}

constexpr AttentionSizes kSizes[] = {
    {1, 1, 1, 1, 0, 1},     {2, 2, 2, 2, 0, 8},     {2, 15, 15, 1, 0, 16},  {1, 16, 16, 2, 1, 33},
    {2, 17, 17, 1, 0, 64},  {1, 63, 65, 2, 0, 8},   {1, 64, 64, 1, 0, 80},  {1, 65, 64, 1, 0, 16},
    {1, 130, 130, 2, 1, 9}, {1, 1, 130, 2, 0, 64},  {1, 130, 1, 1, 0, 8},   {1, 64, 130, 4, 2, 1},
    {1, 290, 130, 1, 0, 3}, {1, 16, 300, 1, 0, 16}, {1, 300, 300, 1, 0, 1}, {2, 0, 3, 1, 0, 8},
    {1, 20, 0, 1, 0, 8}};
// With windows at the borders of tiles and of sequences, and caps.
constexpr AttentionSizes kWindows[] = {
    {2, 17, 17, 2, 1, 8, 1, 0},     {1, 40, 40, 1, 0, 5, 2, 1.5},   {1, 3, 70, 4, 2, 16, 5, 2},
    {1, 130, 130, 2, 1, 9, 129, 0}, {1, 130, 130, 1, 0, 4, 130, 0}, {1, 70, 70, 2, 0, 7, 1000, 3},
    {1, 200, 200, 1, 0, 33, 64, 0}, {1, 200, 260, 2, 1, 16, 65, 2}, {1, 260, 130, 1, 0, 3, 63, 0},
    {1, 150, 150, 1, 0, 96, 16, 1}};

std::string SizesName(const testing::TestParamInfo<AttentionSizes>& info) {
  const AttentionSizes& s = info.param;
  const auto part = [](const char* name, int64_t n) { return name + std::to_string(n); };
  return part("B", s.B) + part("T", s.T) + part("S", s.S) + part("H", s.H) + part("G", s.G) +
         part("D", s.D) + (s.window > 0 ? part("W", s.window) : "");
}
INSTANTIATE_TEST_SUITE_P(, AttentionTiles, testing::ValuesIn(kSizes), SizesName);
INSTANTIATE_TEST_SUITE_P(Windows, AttentionTiles, testing::ValuesIn(kWindows), SizesName);

// Scores so large that their exp overflows float32, growing from tile to tile.
TEST(AttentionInTiles, RescaleWhereLaterKeysMatterMore) {
  const auto reference = MakeReferenceBackend(), cpu = MakeCpuBackend();
  const auto run = [](Dtype low, Dtype number, Backend& backend) {
    const AttentionSizes s = {.B = 1, .T = 20, .S = 400, .H = 1, .G = 0, .D = 2, .causal = false};
    AttentionCall a(s, low, number, /*probs=*/true);
    a.Fill(a.forward.q, [](int64_t) { return 2; });
    a.Fill(a.forward.k, [](int64_t i) { return static_cast<double>(i / 2 / 100) * 64; });
    a.Run(backend);
    return AttentionNumbers(a);
  };
  const AttentionNumbers expected = run(kF64, kF64, *reference);
  for (const auto& [low, unit] : {std::pair{kF32, 0x1p-20}, std::pair{kBF16, 0x1p-8}}) {
    const AttentionNumbers found = run(low, kF32, *cpu);
    for (size_t i = 0; i < found.out.size(); ++i) {
      EXPECT_NEAR(found.out[i], expected.out[i], unit * 4);
    }
    for (size_t i = 0; i < found.lse.size(); ++i) {
      EXPECT_NEAR(found.lse[i], expected.lse[i], 1e-6 * expected.lse[i]);
    }
  }
}

// Numbers that are usually used instead of -infinity mask keys like that, even all keys of a query.
TEST(AttentionInTiles, TakeLargeNegativeNumbersForMasks) {
  constexpr int64_t kT = 20;
  for (const char* backend : {"cpu", "reference"}) {
    for (const Dtype low : {kF32, kBF16}) {
      for (const float number : {std::numeric_limits<float>::lowest(), -1e9F}) {
        SCOPED_TRACE(testing::Message() << backend << DtypeName(low) << number);
        AttentionCall a({.B = 1, .T = kT, .S = kT, .H = 1, .G = 0, .D = 64, .causal = false}, low,
                        kF32, /*probs=*/true);
        std::vector<float> added(kT * kT, number);
        for (int64_t t = 1; t < kT; ++t) added[Size(t * kT + t)] = 0;
        a.forward.mask = a.backward.mask = Tensor(added.data(), {1, 1, kT, kT});
        a.Run(*MakeBackend(backend));
        const AttentionNumbers found(a);
        for (int64_t i = 0; i < kT * kT; ++i) {
          EXPECT_EQ(found.probs[Size(i)], i > 0 && i / kT == i % kT) << i;
        }
        for (int64_t i = 0; i < 64; ++i) EXPECT_EQ(found.out[Size(i)], 0);
        for (const auto* x : {&found.d_q, &found.d_k, &found.d_v}) {
          for (const double gradient : *x) EXPECT_TRUE(std::isfinite(gradient));
        }
      }
    }
  }
}

// Scores that overflow float32: nothing is attended to, and gradients are zero.
TEST(AttentionInTiles, GiveZerosWhereAllScoresAreMinusInfinity) {
  const auto cpu = MakeCpuBackend();
  for (const Dtype low : {kF32, kBF16}) {
    AttentionCall a({.B = 1, .T = 20, .S = 20, .H = 1, .G = 0, .D = 4}, low);
    a.Fill(a.forward.q, [](int64_t) { return 1e30; });
    a.Fill(a.forward.k, [](int64_t) { return -1e30; });
    a.Run(*cpu);
    const AttentionNumbers found(a);
    for (const double lse : found.lse) EXPECT_EQ(lse, -INFINITY);
    for (const auto* x : {&found.out, &found.d_q, &found.d_k, &found.d_v}) {
      for (const double number : *x) EXPECT_EQ(number, 0);
    }
  }
}

class AttentionMoves : public OnSimdTarget {};

// Both orders of blocks, since either stride may be the larger one, and the rest at each edge.
TEST_P(AttentionMoves, TransposeMovesEveryNumberAndNoOther) {
  for (const int64_t rows : {1, 3, 4, 7, 16, 23, 36, 64}) {
    for (const int64_t columns : {1, 2, 4, 5, 16, 21, 64}) {
      for (const int64_t gap : {0, 3, 70}) {
        const int64_t stride = columns + gap, to_stride = rows + 5;
        std::vector<float> x(static_cast<size_t>(rows * stride));
        for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i + 1);
        std::vector<float> to(static_cast<size_t>(columns * to_stride));
        cpu::Transpose(x.data(), stride, rows, columns, to.data(), to_stride);
        for (int64_t c = 0; c < columns; ++c) {
          for (int64_t r = 0; r < to_stride; ++r) {
            const float want = r < rows ? x[static_cast<size_t>(r * stride + c)] : 0.0f;
            ASSERT_EQ(to[static_cast<size_t>(c * to_stride + r)], want)
                << rows << " x " << columns << " at " << r << ", " << c;
          }
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(, AttentionMoves, EverySimdTarget(), SimdTargetName);

}  // namespace

// Numbers in attention that a comparison with the reference cannot check.
namespace {

std::vector<std::string> TargetsOf(const std::string& backend) {
  return backend == "cpu" ? SimdTargets() : std::vector<std::string>{""};
}

// The weights of a query that is 1 on keys of one number, which are its scores: in float32, on a
// backend and each of its SIMD targets.
class SoftmaxRows : public testing::TestWithParam<std::string> {
 protected:
  std::vector<float> Softmax(const std::vector<float>& scores) {
    const auto S = static_cast<int64_t>(scores.size());
    std::vector<float> keys = scores, values(scores.size()), weights(scores.size());
    float query = 1, out = 0, lse = 0;
    backend_->Run(AttentionForward{.q = SequenceView(Tensor(&query, {1, 1}), 1, 1, 0, 1),
                                   .k = SequenceView(Tensor(keys.data(), {S, 1}), 1, S, 0, 1),
                                   .v = SequenceView(Tensor(values.data(), {S, 1}), 1, S, 0, 1),
                                   .out = SequenceView(Tensor(&out, {1, 1}), 1, 1, 0, 1),
                                   .lse = Tensor(&lse, {1, 1, 1}),
                                   .probs = Tensor(weights.data(), {1, 1, 1, S})});
    return weights;
  }

 private:
  KeptSimdTarget kept_;
  std::unique_ptr<Backend> backend_ = MakeBackend(GetParam());
};

TEST_P(SoftmaxRows, DoNotOverflow) {
  for (const std::string& target : TargetsOf(GetParam())) {
    SCOPED_TRACE(target);
    ForceSimdTarget(target);
    EXPECT_EQ(Softmax({89, 89, -INFINITY}), std::vector<float>({0.5, 0.5, 0}));
    EXPECT_EQ(Softmax({1e30F, -1e30F}), std::vector<float>({1, 0}));
  }
}

// A broken model must look broken.
TEST_P(SoftmaxRows, KeepNaN) {
  constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
  for (const std::string& target : TargetsOf(GetParam())) {
    SCOPED_TRACE(target);
    ForceSimdTarget(target);
    for (const size_t S : {1, 2, 5, 64, 67}) {
      for (size_t place = 0; place < S; ++place) {
        for (const float rest : {kNaN, -INFINITY, 3.0F}) {
          std::vector<float> x(S, rest);
          x[place] = kNaN;
          for (float y : Softmax(x)) ASSERT_TRUE(std::isnan(y)) << S << " " << place;
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(, SoftmaxRows, testing::Values("reference", "cpu"),
                         [](const auto& name) { return name.param; });

// One query that is NaN, whatever its bits, spoils its own row, and the gradients of the keys that
// it attends to.
void ExpectNaNKept(Backend& backend, Dtype low, uint32_t bits) {
  constexpr int64_t kT = 20, kC = 4;
  OpMemory m(Dtype::kF32, low, false);
  const auto random = [&] { return SequenceView(m.RandomLow({kT, kC}), 1, kT, 0, kC); };
  const auto unset = [&] { return SequenceView(m.UnsetLow({kT, kC}), 1, kT, 0, kC); };
  AttentionForward forward;
  forward.q = random();
  forward.k = random();
  forward.v = random();
  forward.out = unset();
  forward.lse = m.Unset({1, 1, kT});
  if (low == Dtype::kBF16) {
    *forward.q.row<BF16>(0, 1) = BF16{static_cast<uint16_t>(bits >> 16)};
  } else {
    *forward.q.row<float>(0, 1) = std::bit_cast<float>(bits);
  }
  backend.Run(forward);
  AttentionBackward backward = BackwardOf(forward);
  backward.d_out = random();
  backward.d_q = unset();
  backward.d_k = unset();
  backward.d_v = unset();
  backend.Run(backward);
  for (size_t i = 0; i < kC; ++i) {
    for (const std::vector<double>& x : {Values(forward.out), Values(backward.d_q)}) {
      EXPECT_FALSE(std::isnan(x[i]));
      EXPECT_TRUE(std::isnan(x[kC + i]));
      EXPECT_FALSE(std::isnan(x[2 * kC + i]));
    }
    EXPECT_TRUE(std::isnan(Values(backward.d_k)[i])) << "key 0, which the NaN saw";
    EXPECT_TRUE(std::isnan(Values(backward.d_v)[i]));
  }
  EXPECT_TRUE(std::isnan(Values(forward.lse)[1]));
}

class AttentionOfNaN : public testing::TestWithParam<std::tuple<std::string, Dtype>> {
  KeptSimdTarget kept_;
};

TEST_P(AttentionOfNaN, KeepsIt) {
  const auto& [name, low] = GetParam();
  const auto backend = MakeBackend(name);
  for (const std::string& target : TargetsOf(name)) {
    ForceSimdTarget(target);
    for (const uint32_t bits : {0x7FC00000U, 0x7FFF0000U, 0xFFFF0000U, 0x7F810000U}) {
      SCOPED_TRACE(target + " bits " + std::to_string(bits));
      ExpectNaNKept(*backend, low, bits);
    }
  }
}

std::string NanCaseName(const testing::TestParamInfo<AttentionOfNaN::ParamType>& info) {
  return std::get<0>(info.param) + "_" + std::string(DtypeName(std::get<1>(info.param)));
}

INSTANTIATE_TEST_SUITE_P(, AttentionOfNaN,
                         testing::Combine(testing::Values("reference", "cpu"),
                                          testing::Values(Dtype::kF32, Dtype::kBF16)),
                         NanCaseName);

}  // namespace

}  // namespace folio
