// Attention in tiles against the reference in float64, where sizes meet the edges of tiles, within
// what the roundings of each step may do to each element.

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "folio/backend/backend.h"
#include "folio/base/rng.h"
#include "folio/base/simd_targets.h"
#include "folio/base/thread_pool.h"

namespace folio {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Sizes {
  int64_t B, T, S, H, G, D;
  bool causal = true, masked = false, dropout = false;

  int64_t heads() const { return KeyHeads(H, G); }
  int64_t share() const { return H / heads(); }
  Dropout Drop() const {
    return dropout ? Dropout{.p = 0.3, .seed = 8, .stream = 9, .first_row = 5} : Dropout{};
  }
};

size_t Size(int64_t n) {
  return static_cast<size_t>(n);
}

template <class T>
T Rounded(double x) {
  if constexpr (std::is_same_v<T, BF16>) {
    return ToBF16(static_cast<float>(x));
  } else {
    return static_cast<T>(x);
  }
}
double Wide(BF16 x) {
  return ToFloat(x);
}
double Wide(double x) {
  return x;
}

// (B,T,C) whose rows have `gap` elements before and after them. Gaps, and results before they are
// written, are NaN in every bit.
template <class T>
class Sequences {
 public:
  Sequences(int64_t B, int64_t rows, int64_t C, int64_t gap)
      : rows_(rows), C_(C), stride_(C + gap), memory_(Size(B * rows * stride_ + gap)) {
    std::memset(static_cast<void*>(memory_.data()), 0xFF, memory_.size() * sizeof(T));
    view_.data = reinterpret_cast<std::byte*>(memory_.data() + gap);
    view_.dtype = DtypeOf<T>();
    view_.B = B;
    view_.T = rows;
    view_.C = C;
    view_.row_stride = stride_;
    view_.batch_stride = rows * stride_;
  }
  void Randomize(uint64_t seed) {
    const CounterRng rng(seed, 7);
    for (int64_t i = 0; i < count(); ++i) {
      // Numbers that bfloat16 has too, so that every dtype sees the same.
      at(i) = Rounded<T>(ToFloat(ToBF16(static_cast<float>(rng.Normal(static_cast<uint64_t>(i))))));
    }
  }
  const SequenceView& view() const { return view_; }
  int64_t count() const { return view_.B * rows_ * C_; }
  T& at(int64_t i) { return memory_[Size(stride_ - C_ + i / C_ * stride_ + i % C_)]; }
  const std::vector<T>& memory() const { return memory_; }
  bool GapsIntact() const {
    std::vector<T> copy = memory_;
    const int64_t gap = stride_ - C_;
    for (int64_t i = 0; i < view_.B * rows_; ++i) {
      std::memset(static_cast<void*>(copy.data() + gap + i * stride_), 0xFF, Size(C_) * sizeof(T));
    }
    const auto* bytes = reinterpret_cast<const unsigned char*>(copy.data());
    for (size_t i = 0; i < copy.size() * sizeof(T); ++i) {
      if (bytes[i] != 0xFF) return false;
    }
    return true;
  }

 private:
  int64_t rows_, C_, stride_;
  std::vector<T> memory_;
  SequenceView view_;
};

// Forward and backward of one attention with Half q, k, v and Number lse.
template <class Half, class Number>
struct Attention {
  explicit Attention(const Sizes& sizes)
      : s(sizes),
        q(s.B, s.T, s.H * s.D, 3),
        k(s.B, s.S, s.heads() * s.D, 1),
        v(s.B, s.S, s.heads() * s.D, 5),
        out(s.B, s.T, s.H * s.D, 1),
        d_out(s.B, s.T, s.H * s.D, 7),
        d_q(s.B, s.T, s.H * s.D, 3),
        d_k(s.B, s.S, s.heads() * s.D, 3),
        d_v(s.B, s.S, s.heads() * s.D, 1) {
    lse.reserve(1);
    probs.reserve(1);  // there even if empty
    lse.assign(Size(s.B * s.H * s.T), std::numeric_limits<Number>::quiet_NaN());
    probs.assign(Size(s.B * s.H * s.T * s.S), std::numeric_limits<Number>::quiet_NaN());
    q.Randomize(1);
    k.Randomize(2);
    v.Randomize(3);
    d_out.Randomize(4);
    // The first of two sequences sees nothing, the last not all.
    for (int64_t i = 0; i < s.B * s.S; ++i) mask.push_back(i / s.S + 1 == s.B && i % 3 != 0);
  }

  void Run(Backend& backend) {
    AttentionForward f;
    f.q = q.view();
    f.k = k.view();
    f.v = v.view();
    f.out = out.view();
    if (s.masked) f.key_mask = Tensor(mask.data(), Shape{s.B, s.S});
    f.lse = Tensor(lse.data(), Shape{s.B, s.H, s.T});
    if (with_probs) f.probs = Tensor(probs.data(), Shape{s.B, s.H, s.T, s.S});
    f.H = s.H;
    f.G = s.G;
    f.causal = s.causal;
    f.dropout = s.Drop();
    backend.Run(f);
    AttentionBackward b;
    b.q = f.q;
    b.k = f.k;
    b.v = f.v;
    b.key_mask = f.key_mask;
    b.out = f.out;
    b.lse = f.lse;
    b.d_out = d_out.view();
    b.d_q = d_q.view();
    b.d_k = d_k.view();
    b.d_v = d_v.view();
    b.H = s.H;
    b.G = s.G;
    b.causal = s.causal;
    b.dropout = f.dropout;
    backend.Run(b);
  }

  Sizes s;
  Sequences<Half> q, k, v, out, d_out, d_q, d_k, d_v;
  std::vector<uint8_t> mask;
  std::vector<Number> lse, probs;
  bool with_probs = true;
};

using Expected = Attention<double, double>;

// How far each result may be off, from the exact weights: `unit` is what rounding may do to a
// number that enters a product or is stored, relatively, and `sums` what it does to anything else.
struct Bounds {
  Bounds(Expected& e, double unit, double sums)
      : out(Size(e.out.count())),
        d_q(Size(e.q.count())),
        d_k(Size(e.k.count())),
        d_v(Size(e.v.count())) {
    const Sizes& s = e.s;
    for (int64_t row = 0; row < s.B * s.H * s.T; ++row) Add(e, row, unit, sums);
    const auto stored = [&](auto& bounds, auto& x) {
      for (size_t i = 0; i < bounds.size(); ++i) {
        bounds[i] += (unit + sums) * std::abs(x.at(static_cast<int64_t>(i)));
      }
    };
    stored(out, e.out);
    stored(d_q, e.d_q);
    stored(d_k, e.d_k);
    stored(d_v, e.d_v);
  }

  void Add(Expected& e, int64_t row, double unit, double sums) {
    const Sizes& s = e.s;
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
        const double o = std::abs(e.d_out.at(query + d));
        g[Size(i)] += e.d_out.at(query + d) * e.v.at(key + d) * factor;
        out[Size(query + d)] += (unit + sums) * weights[Size(i)] * std::abs(e.v.at(key + d));
        d_v[Size(key + d)] += (unit + sums) * weights[Size(i)] * o;
      }
    }
    for (int64_t d = 0; d < s.D; ++d) {
      delta += e.d_out.at(query + d) * e.out.at(query + d);
      d_delta += std::abs(e.d_out.at(query + d)) *
                 (out[Size(query + d)] + unit * std::abs(e.out.at(query + d)));
    }
    for (int64_t i = 0; i < s.S; ++i) {
      const double p = e.probs[Size(row * s.S + i)];
      const double d_score = p * (unit * std::abs(g[Size(i)] - delta) + d_delta +
                                  sums * (std::abs(g[Size(i)]) + std::abs(delta) + 1));
      const int64_t key = (b * s.S + i) * K + h / s.share() * s.D;
      for (int64_t d = 0; d < s.D; ++d) {
        d_q[Size(query + d)] += d_score * scale * std::abs(e.k.at(key + d));
        d_k[Size(key + d)] += d_score * scale * std::abs(e.q.at(query + d));
      }
    }
  }

  std::vector<double> out, d_q, d_k, d_v;
};

template <class Half>
void ExpectNear(Sequences<Half>& found, Sequences<double>& expected,
                const std::vector<double>& bounds, const std::string& what) {
  EXPECT_TRUE(found.GapsIntact()) << what;
  for (int64_t i = 0; i < found.count(); ++i) {
    const double error = std::abs(Wide(found.at(i)) - expected.at(i));
    ASSERT_LE(error, bounds[Size(i)]) << what << "[" << i << "] of " << expected.at(i);
  }
}

// What a sum in float32 may be off by: a few roundings for each of its terms, which are not above
// 4 * 4 in a score.
double SumError(const Sizes& s) {
  const double terms = static_cast<double>(s.D + s.S + s.T);
  return std::ldexp(8 + 4 * std::sqrt(terms), -24) * 8;
}

template <class Half>
void ExpectAgreement(const Sizes& s, Backend& cpu, Expected& expected, const Bounds& bounds) {
  const double sums = SumError(s);
  Attention<Half, float> found(s);
  found.Run(cpu);
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

// Leaves nothing but NaN in the scratch memory.
template <class Half>
void Spoil(Backend& cpu) {
  Attention<Half, float> attention({.B = 1, .T = 130, .S = 300, .H = 1, .G = 0, .D = 80});
  for (auto* x : {&attention.q, &attention.k, &attention.v, &attention.d_out}) {
    for (int64_t i = 0; i < x->count(); ++i) x->at(i) = Rounded<Half>(NAN);
  }
  attention.with_probs = false;
  attention.Run(cpu);
}

class AttentionTiles : public testing::TestWithParam<Sizes> {
 protected:
  ~AttentionTiles() override {
    ForceSimdTarget("");
    SetThreads(threads_);
  }

 private:
  int threads_ = Threads();
};

TEST_P(AttentionTiles, AgreeWithTheReferenceOnEverySimdTarget) {
  const auto reference = MakeReferenceBackend(), cpu = MakeCpuBackend();
  Spoil<BF16>(*cpu);
  for (int options = 0; options < 8; ++options) {
    Sizes s = GetParam();
    s.causal = options & 1;
    s.masked = options & 2;
    s.dropout = options & 4;
    Expected expected(s);
    expected.Run(*reference);
    const Bounds float_bounds(expected, 0, SumError(s));
    const Bounds half_bounds(expected, std::ldexp(1.0, -8), SumError(s));
    for (const std::string& target : SimdTargets()) {
      SCOPED_TRACE(target + " options " + std::to_string(options));
      ForceSimdTarget(target);
      ExpectAgreement<float>(s, *cpu, expected, float_bounds);
      ExpectAgreement<BF16>(s, *cpu, expected, half_bounds);
    }
  }
}

template <class Half>
void ExpectNoDifferenceByThreads(const Sizes& s) {
  const auto cpu = MakeCpuBackend();
  SetThreads(1);
  Attention<Half, float> one(s);
  one.with_probs = false;
  one.Run(*cpu);
  for (const int threads : {2, 3}) {
    SetThreads(threads);
    Attention<Half, float> more(s);
    more.with_probs = false;
    more.Run(*cpu);
    const auto same = [](const auto& x, const auto& y) {
      return std::memcmp(x.data(), y.data(), x.size() * sizeof(x[0])) == 0;
    };
    EXPECT_TRUE(same(one.lse, more.lse));
    for (const auto& [x, y] : {std::pair{&one.out, &more.out}, std::pair{&one.d_q, &more.d_q},
                               std::pair{&one.d_k, &more.d_k}, std::pair{&one.d_v, &more.d_v}}) {
      EXPECT_TRUE(same(x->memory(), y->memory())) << threads << " threads";
    }
  }
}

TEST_P(AttentionTiles, DoNotDependOnTheNumberOfThreads) {
  Sizes s = GetParam();
  s.dropout = true;
  ExpectNoDifferenceByThreads<float>(s);
  ExpectNoDifferenceByThreads<BF16>(s);
}

INSTANTIATE_TEST_SUITE_P(, AttentionTiles,
                         testing::Values(Sizes{1, 1, 1, 1, 0, 1}, Sizes{2, 2, 2, 2, 0, 8},
                                         Sizes{2, 15, 15, 1, 0, 16}, Sizes{1, 16, 16, 2, 1, 33},
                                         Sizes{2, 17, 17, 1, 0, 64}, Sizes{1, 63, 65, 2, 0, 8},
                                         Sizes{1, 64, 64, 1, 0, 80}, Sizes{1, 65, 64, 1, 0, 16},
                                         Sizes{1, 130, 130, 2, 1, 9}, Sizes{1, 1, 130, 2, 0, 64},
                                         Sizes{1, 130, 1, 1, 0, 8}, Sizes{1, 64, 130, 4, 2, 1},
                                         Sizes{1, 290, 130, 1, 0, 3}, Sizes{1, 16, 300, 1, 0, 16},
                                         Sizes{1, 300, 300, 1, 0, 1}, Sizes{2, 0, 3, 1, 0, 8},
                                         Sizes{1, 20, 0, 1, 0, 8}),
                         [](const auto& param) {
                           const Sizes& s = param.param;
                           const auto part = [](const char* name, int64_t n) {
                             return name + std::to_string(n);
                           };
                           return part("B", s.B) + part("T", s.T) + part("S", s.S) +
                                  part("H", s.H) + part("G", s.G) + part("D", s.D);
                         });

// One query that is NaN, whatever its bits, spoils its own row, and the gradients of what it saw.
TEST(AttentionInTiles, KeepNaNsOfBfloat16) {
  const auto cpu = MakeCpuBackend();
  for (const std::string& target : SimdTargets()) {
    ForceSimdTarget(target);
    for (const uint16_t bits : {0x7FC0, 0x7FFF, 0xFFFF, 0x7F81}) {
      SCOPED_TRACE(target + " bits " + std::to_string(bits));
      Attention<BF16, float> a({.B = 1, .T = 20, .S = 20, .H = 1, .G = 0, .D = 4});
      a.with_probs = false;
      a.q.at(4) = BF16{bits};
      a.Run(*cpu);
      for (int64_t i = 0; i < 4; ++i) {
        for (auto* x : {&a.out, &a.d_q}) {
          EXPECT_FALSE(std::isnan(Wide(x->at(i))));
          EXPECT_TRUE(std::isnan(Wide(x->at(4 + i))));
          EXPECT_FALSE(std::isnan(Wide(x->at(8 + i))));
        }
        EXPECT_TRUE(std::isnan(Wide(a.d_k.at(i)))) << "key 0, which the NaN saw";
        EXPECT_TRUE(std::isnan(Wide(a.d_v.at(i))));
      }
      EXPECT_TRUE(std::isnan(a.lse[1]));
    }
  }
  ForceSimdTarget("");
}

// Scores so large that exp of them is not a number of float32, growing from tile to tile.
TEST(AttentionInTiles, RescaleWhereLaterKeysMatterMore) {
  const auto reference = MakeReferenceBackend(), cpu = MakeCpuBackend();
  const Sizes s = {.B = 1, .T = 20, .S = 400, .H = 1, .G = 0, .D = 2, .causal = false};
  const auto grow = [](auto& a) {
    for (int64_t i = 0; i < a.q.count(); ++i)
      a.q.at(i) = Rounded<std::decay_t<decltype(a.q.at(0))>>(2);
    for (int64_t i = 0; i < a.k.count(); ++i) {
      const double step = static_cast<double>(i / 2 / 100);
      a.k.at(i) = Rounded<std::decay_t<decltype(a.k.at(0))>>(step * 64);
    }
  };
  Expected expected(s);
  grow(expected);
  expected.Run(*reference);
  const auto expect = [&](auto found, double unit) {
    grow(found);
    found.Run(*cpu);
    for (int64_t i = 0; i < found.out.count(); ++i) {
      EXPECT_NEAR(Wide(found.out.at(i)), expected.out.at(i), unit * 4);
    }
    for (size_t i = 0; i < found.lse.size(); ++i) {
      EXPECT_NEAR(found.lse[i], expected.lse[i], 1e-6 * expected.lse[i]);
    }
  };
  expect(Attention<float, float>(s), std::ldexp(1.0, -20));
  expect(Attention<BF16, float>(s), std::ldexp(1.0, -8));
}

// Scores that float32 has no number for: nothing is attended to, and nothing is learned from it.
TEST(AttentionInTiles, GiveZerosWhereAllScoresAreMinusInfinity) {
  const auto cpu = MakeCpuBackend();
  const auto expect = [&](auto a) {
    a.with_probs = false;
    using Half = std::decay_t<decltype(a.q.at(0))>;
    for (int64_t i = 0; i < a.q.count(); ++i) a.q.at(i) = Rounded<Half>(1e30);
    for (int64_t i = 0; i < a.k.count(); ++i) a.k.at(i) = Rounded<Half>(-1e30);
    a.Run(*cpu);
    for (const float lse : a.lse) EXPECT_EQ(lse, -kInfinity);
    for (auto* x : {&a.out, &a.d_q, &a.d_k, &a.d_v}) {
      for (int64_t i = 0; i < x->count(); ++i) EXPECT_EQ(Wide(x->at(i)), 0);
    }
  };
  const Sizes s = {.B = 1, .T = 20, .S = 20, .H = 1, .G = 0, .D = 4};
  expect(Attention<float, float>(s));
  expect(Attention<BF16, float>(s));
}

}  // namespace
}  // namespace folio
