#include "folio/backend/cpu/attention_kernels.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "folio/backend/cpu/attention_kernels.cc"
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "folio/backend/cpu/math-inl.h"
#include "folio/backend/cpu/philox-inl.h"
#include "folio/backend/cpu/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace folio::cpu::HWY_NAMESPACE {

// Dropout of weights with queries side by side: the numbers of philox-inl.h in another order.
// factors[s * lanes + t] is the factor of column `column` + s, s in [0, 64), and row `row` + t, t
// being a lane of a vector of up to 16 floats. REQUIRES: column is a multiple of 64.
#if HWY_TARGET == HWY_SCALAR

HWY_INLINE void DropoutFactorsDown(const Dropout& dropout, int64_t row, int64_t width,
                                   int64_t column, float* factors) {
  DropoutFactors(dropout, row, width, column, factors);
}

#else

HWY_INLINE void DropoutFactorsDown(const Dropout& dropout, int64_t row, int64_t width,
                                   int64_t column, float* factors) {
  const hn::CappedTag<float, 16> df;
  const hn::RebindToUnsigned<decltype(df)> du;
  const hn::Repartition<uint64_t, decltype(du)> d64;
  const size_t lanes = hn::Lanes(df);
  // 64 numbers are 16 blocks, word by word; a row begins with a new block.
  const uint64_t step = static_cast<uint64_t>(Dropout::RowStride(width)) / 4;
  const uint64_t first =
      static_cast<uint64_t>(dropout.first_row + row) * step + static_cast<uint64_t>(column) / 4;
  HWY_ALIGN uint64_t even_rows[16] = {};
  for (size_t i = 0; i < hn::Lanes(d64); ++i) even_rows[i] = first + 2 * i * step;
  auto even = hn::Load(d64, even_rows);
  auto odd = hn::Add(even, hn::Set(d64, step));
  const auto s0 = hn::Set(d64, dropout.stream & 0xFFFFFFFFu);
  const auto s1 = hn::Set(d64, dropout.stream >> 32);
  const auto threshold = hn::Set(du, dropout.threshold());
  const auto scale = hn::Set(df, static_cast<float>(dropout.scale()));
  const auto store = [&](auto o, auto e, float* to) HWY_ATTR {
    const auto upper = hn::BitCast(du, hn::ShiftLeft<32>(o));
    const auto bits = hn::OddEven(upper, hn::BitCast(du, e));
    const auto drop = hn::RebindMask(df, hn::Lt(bits, threshold));
    hn::StoreU(hn::IfThenZeroElse(drop, scale), df, to);
  };
  for (size_t i = 0; i < 16; ++i) {
    auto e0 = even, e1 = hn::ShiftRight<32>(even), e2 = s0, e3 = s1;
    auto o0 = odd, o1 = hn::ShiftRight<32>(odd), o2 = s0, o3 = s1;
    PhiloxRounds(d64, dropout.seed, e0, e1, e2, e3);
    PhiloxRounds(d64, dropout.seed, o0, o1, o2, o3);
    store(o0, e0, factors + i * lanes);
    store(o1, e1, factors + (16 + i) * lanes);
    store(o2, e2, factors + (32 + i) * lanes);
    store(o3, e3, factors + (48 + i) * lanes);
    even = hn::Add(even, hn::Set(d64, uint64_t{1}));
    odd = hn::Add(odd, hn::Set(d64, uint64_t{1}));
  }
}

#endif  // HWY_SCALAR

using Lane = hn::CappedTag<float, 16>;
using Vector = hn::Vec<Lane>;
using Bits = hn::Vec<hn::RebindToUnsigned<Lane>>;

constexpr int64_t kStride = kScoreQueries;
constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Columns [column, column + lanes) of a tile.
class Strip {
 public:
  Strip(const ScoreTile& tile, int64_t column) : tile_(tile), column_(column) {
    const int64_t lanes = static_cast<int64_t>(hn::Lanes(Lane()));
    if (column >= tile.queries) return;
    const auto row = [&](int64_t key) { return std::clamp<int64_t>(key, 0, tile.keys); };
    first_ = row(tile.past + column), from_ = row(tile.past + column + lanes - 1);
    if (tile.key_mask == nullptr) all_ = row(tile.seen + column);
    some_ = row(tile.seen + column + lanes - 1);
  }

  int64_t column() const { return column_; }
  // All lanes attend to rows [from, all), none to rows outside of [first, some).
  int64_t first() const { return first_; }
  int64_t from() const { return from_; }
  int64_t all() const { return all_; }
  int64_t some() const { return some_; }
  bool any(int64_t row) const { return row >= first_ && row < some_; }
  // The lanes that attend to `row`, for rows with at least one.
  HWY_INLINE hn::Mask<Lane> Seen(int64_t row) const {
    const Lane d;
    const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
    int64_t hidden = std::clamp<int64_t>(row + 1 - tile_.seen - column_, 0, lanes);
    if (tile_.key_mask != nullptr && tile_.key_mask[row] == 0) hidden = lanes;
    const auto seen = hn::Not(hn::FirstN(d, static_cast<size_t>(hidden)));
    if (row >= from_) return seen;
    return hn::And(seen, hn::FirstN(d, static_cast<size_t>(row + 1 - tile_.past - column_)));
  }

 private:
  const ScoreTile& tile_;
  int64_t column_, first_ = 0, from_ = 0, all_ = 0, some_ = 0;
};

HWY_INLINE Vector Largest(const Strip& strip, const float* x) {
  const Lane d;
  const auto none = hn::Set(d, -kInfinity);
  auto a = none, b = none, c = none, e = none;
  int64_t row = strip.first();
  const auto part = [&](int64_t end) HWY_ATTR {
    for (; row < end; ++row) {
      a = hn::Max(a, hn::IfThenElse(strip.Seen(row), hn::LoadU(d, x + row * kStride), none));
    }
  };
  part(std::min(strip.from(), strip.some()));
  for (; row + 4 <= strip.all(); row += 4) {
    a = hn::Max(a, hn::LoadU(d, x + row * kStride));
    b = hn::Max(b, hn::LoadU(d, x + (row + 1) * kStride));
    c = hn::Max(c, hn::LoadU(d, x + (row + 2) * kStride));
    e = hn::Max(e, hn::LoadU(d, x + (row + 3) * kStride));
  }
  part(strip.some());
  return hn::Max(hn::Max(a, b), hn::Max(c, e));
}

// Calls whole(row) for the pairs of rows, `row` and the next, in [from, all), in order, and
// part(row) for the other pairs of a tile. Calls refill() first if any lane attends to any row.
template <class Refill, class Whole, class Part>
HWY_INLINE void ForPairs(int64_t from, int64_t all, bool any, int64_t rows, const Refill& refill,
                         const Whole& whole, const Part& part) {
  if (any) refill();
  int64_t row = 0;
  for (; row < std::min(from, rows); row += 2) part(row);
  for (; row + 2 <= all; row += 2) whole(row);
  for (; row < rows; row += 2) part(row);
}

HWY_INLINE void FactorsOf(const ScoreTile& tile, const Strip& strip, float* factors) {
  DropoutFactorsDown(tile.dropout, tile.dropout_row + strip.column(), tile.dropout_width,
                     tile.dropout_column, factors);
}

// `sink(row, column, a, b)` receives the weights of two rows.
template <bool kDropout, class Sink>
HWY_INLINE void SoftmaxStrip(const ScoreTile& tile, const Strip& strip, int64_t rows,
                             const float* scores, SoftmaxState& state, const Sink& sink) {
  const Lane d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d)), column = strip.column();
  const float* x = scores + column;
  const auto scale = hn::Set(d, tile.scale);
  const auto before = hn::LoadU(d, state.max + column);
  const auto largest = hn::Max(before, hn::Mul(Largest(strip, x), scale));
  // If no score counted so far, a NaN may have been lost: exp must get it instead of infinity.
  const auto shift = hn::IfThenZeroElse(hn::Eq(largest, hn::Set(d, -kInfinity)), largest);
  const auto rescale = Exp(d, hn::Sub(before, shift));
  auto sum_a = hn::Mul(hn::LoadU(d, state.sum + column), rescale), sum_b = hn::Zero(d);
  HWY_ALIGN float factors[kDropout ? 64 * 16 : 16];
  const auto weight = [&](int64_t row) HWY_ATTR {
    return Exp(d, hn::MulSub(hn::LoadU(d, x + row * kStride), scale, shift));
  };
  const auto seen_weight = [&](int64_t row) HWY_ATTR {
    return strip.any(row) ? hn::IfThenElseZero(strip.Seen(row), weight(row)) : hn::Zero(d);
  };
  const auto give = [&](int64_t row, Vector a, Vector b) HWY_ATTR {
    sum_a = hn::Add(sum_a, a), sum_b = hn::Add(sum_b, b);
    if constexpr (kDropout) {
      const float* f = factors + row * lanes;
      if (row < strip.some())
        a = hn::Mul(a, hn::Load(d, f)), b = hn::Mul(b, hn::Load(d, f + lanes));
    }
    sink(row, column, a, b);
  };
  ForPairs(
      strip.from(), strip.all(), strip.some() > 0, rows,
      [&]() HWY_ATTR {
        if constexpr (kDropout) FactorsOf(tile, strip, factors);
      },
      [&](int64_t row) HWY_ATTR { give(row, weight(row), weight(row + 1)); },
      [&](int64_t row) HWY_ATTR { give(row, seen_weight(row), seen_weight(row + 1)); });
  hn::StoreU(largest, d, state.max + column);
  hn::StoreU(hn::Add(sum_a, sum_b), d, state.sum + column);
  hn::StoreU(rescale, d, state.rescale + column);
  state.rescaled |= !hn::AllTrue(d, hn::Eq(rescale, hn::Set(d, 1.0f)));
}

// Computes weights and gradients of a strip, row by row.
template <bool kDropout>
class GradientStrip {
 public:
  HWY_INLINE GradientStrip(const ScoreTile& tile, int64_t column, const float* lse,
                           const float* delta, const float* scores, const float* grads)
      : tile_(tile),
        strip_(tile, column),
        scores_(scores + column),
        grads_(grads + column),
        slopes_(tile.slopes == nullptr ? nullptr : tile.slopes + column),
        scale_(hn::Set(Lane(), tile.scale)),
        lse_(hn::LoadU(Lane(), lse + column)),
        delta_(hn::LoadU(Lane(), delta + column)) {}

  int64_t from() const { return strip_.from(); }
  int64_t all() const { return strip_.all(); }
  bool any() const { return strip_.some() > 0; }

  // Called before all rows.
  HWY_INLINE void Refill() {
    if constexpr (kDropout) FactorsOf(tile_, strip_, factors_);
  }

  HWY_INLINE void Make(int64_t row, Vector& weight, Vector& grad) const {
    const Lane d;
    weight = Exp(d, hn::MulSub(hn::LoadU(d, scores_ + row * kStride), scale_, lse_));
    const auto slope = slopes_ == nullptr ? scale_ : hn::LoadU(d, slopes_ + row * kStride);
    const auto scaled = hn::Mul(weight, slope);
    grad = hn::LoadU(d, grads_ + row * kStride);
    if constexpr (kDropout) {
      const auto factor = hn::Load(d, factors_ + row * static_cast<int64_t>(hn::Lanes(d)));
      grad = hn::Mul(grad, factor), weight = hn::Mul(weight, factor);
    }
    grad = hn::Mul(scaled, hn::Sub(grad, delta_));
  }

  // The same, for rows that not all lanes attend to.
  HWY_INLINE void MakeSeen(int64_t row, Vector& weight, Vector& grad) const {
    weight = hn::Zero(Lane()), grad = hn::Zero(Lane());
    if (!strip_.any(row)) return;
    Make(row, weight, grad);
    const auto seen = strip_.Seen(row);
    weight = hn::IfThenElseZero(seen, weight), grad = hn::IfThenElseZero(seen, grad);
  }

 private:
  const ScoreTile& tile_;
  const Strip strip_;
  const float *scores_, *grads_, *slopes_;
  const Vector scale_, lse_, delta_;
  HWY_ALIGN float factors_[kDropout ? 64 * 16 : 1];
};

// Calls f(Strip) for all columns below `columns`.
template <class F>
HWY_INLINE void ForStrips(const ScoreTile& tile, int64_t columns, const F& f) {
  for (int64_t c = 0; c < columns; c += static_cast<int64_t>(hn::Lanes(Lane()))) f(Strip(tile, c));
}

// Stores rows row and row + 1 of a tile in place. The second may be the one after the last; a tile
// with an odd number of keys has room for it.
HWY_INLINE void PutFloats(float* x, int64_t row, int64_t column, Vector a, Vector b) {
  hn::StoreU(a, Lane(), x + row * kStride + column);
  hn::StoreU(b, Lane(), x + (row + 1) * kStride + column);
}

// Bits whose upper half is the nearest bfloat16 number, ties to the larger: ties are too rare among
// results of arithmetic to spend instructions on the even one. NaNs of bfloat16 numbers, and those
// of the processor, stay NaNs.
HWY_INLINE Bits RoundedBits(Vector v) {
  const hn::RebindToUnsigned<Lane> du;
  return hn::Add(hn::BitCast(du, v), hn::Set(du, 0x8000u));
}

// (upper half of a, upper half of b) in each lane.
HWY_INLINE Bits Pairs(Bits a, Bits b) {
  const hn::RebindToUnsigned<Lane> du;
#if HWY_TARGET == HWY_SCALAR
  return hn::Or(hn::ShiftRight<16>(a), hn::And(b, hn::Set(du, 0xFFFF0000u)));
#else
  const hn::Repartition<uint16_t, decltype(du)> dh;
  return hn::BitCast(du, hn::OddEven(hn::BitCast(dh, b), hn::BitCast(dh, hn::ShiftRight<16>(a))));
#endif
}

// Stores rows row and row + 1 as a row of pairs of a right tile.
HWY_INLINE void PutRight(BF16* packed, int64_t row, int64_t column, Bits a, Bits b) {
  uint32_t* to = reinterpret_cast<uint32_t*>(packed + column / 16 * kPackedKeys + row / 32 * 512);
  hn::StoreU(Pairs(a, b), hn::RebindToUnsigned<Lane>(), to + row % 32 / 2 * 16 + column % 16);
}

// Stores columns column and column + 16 as pairs of a left tile.
HWY_INLINE void PutLeft(BF16* packed, int64_t row, int64_t column, Bits a, Bits b) {
  uint32_t* to =
      reinterpret_cast<uint32_t*>(packed + row / 16 * kPackedQueries + column / 32 * 512);
  hn::StoreU(Pairs(a, b), hn::RebindToUnsigned<Lane>(), to + row % 16 * 16 + column % 16);
}

template <class Sink>
HWY_INLINE void Softmax(const ScoreTile& tile, int64_t rows, const float* scores,
                        SoftmaxState& state, const Sink& sink) {
  state.rescaled = false;
  ForStrips(tile, tile.queries, [&](const Strip& strip) HWY_ATTR {
    if (tile.dropout.active()) {
      SoftmaxStrip<true>(tile, strip, rows, scores, state, sink);
    } else {
      SoftmaxStrip<false>(tile, strip, rows, scores, state, sink);
    }
  });
}

void SoftmaxFloats(const ScoreTile& tile, float* scores, SoftmaxState& state) {
  Softmax(tile, tile.keys, scores, state,
          [&](int64_t row, int64_t column, Vector a, Vector b)
              HWY_ATTR { PutFloats(scores, row, column, a, b); });
}

void SoftmaxPacked(const ScoreTile& tile, const float* scores, SoftmaxState& state, BF16* packed) {
  Softmax(tile, RoundUp(tile.keys, 32), scores, state,
          [&](int64_t row, int64_t column, Vector a, Vector b)
              HWY_ATTR { PutRight(packed, row, column, RoundedBits(a), RoundedBits(b)); });
}

template <bool kDropout>
HWY_INLINE void GradientFloatsT(const ScoreTile& tile, const float* lse, const float* delta,
                                float* scores, float* grads) {
  for (int64_t c = 0; c < tile.queries; c += static_cast<int64_t>(hn::Lanes(Lane()))) {
    GradientStrip<kDropout> strip(tile, c, lse, delta, scores, grads);
    Vector a, b, d_a, d_b;
    const auto put = [&](int64_t row) HWY_ATTR {
      PutFloats(scores, row, c, a, b);
      PutFloats(grads, row, c, d_a, d_b);
    };
    ForPairs(
        strip.from(), strip.all(), strip.any(), tile.keys, [&]() HWY_ATTR { strip.Refill(); },
        [&](int64_t row) HWY_ATTR {
          strip.Make(row, a, d_a), strip.Make(row + 1, b, d_b);
          put(row);
        },
        [&](int64_t row) HWY_ATTR {
          strip.MakeSeen(row, a, d_a), strip.MakeSeen(row + 1, b, d_b);
          put(row);
        });
  }
}

// Two strips at a time, 16 columns apart, and two rows, so that there are pairs in both directions.
template <bool kDropout>
HWY_INLINE void GradientPackedT(const ScoreTile& tile, const float* lse, const float* delta,
                                const float* scores, const float* grads,
                                const PackedGradients& packed) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(Lane()));
  for (int64_t c = 0; c < RoundUp(tile.queries, 32);
       c += c % 16 + lanes == 16 ? lanes + 16 : lanes) {
    GradientStrip<kDropout> x(tile, c, lse, delta, scores, grads);
    GradientStrip<kDropout> y(tile, c + 16, lse, delta, scores, grads);
    Vector wx0, wx1, wy0, wy1, gx0, gx1, gy0, gy1;
    const auto put = [&](int64_t row) HWY_ATTR {
      PutLeft(packed.weights_left, row, c, RoundedBits(wx0), RoundedBits(wy0));
      PutLeft(packed.weights_left, row + 1, c, RoundedBits(wx1), RoundedBits(wy1));
      const auto x0 = RoundedBits(gx0), x1 = RoundedBits(gx1);
      const auto y0 = RoundedBits(gy0), y1 = RoundedBits(gy1);
      PutLeft(packed.grads_left, row, c, x0, y0);
      PutLeft(packed.grads_left, row + 1, c, x1, y1);
      PutRight(packed.grads_right, row, c, x0, x1);
      PutRight(packed.grads_right, row, c + 16, y0, y1);
    };
    ForPairs(
        std::max(x.from(), y.from()), std::min(x.all(), y.all()), x.any() || y.any(),
        RoundUp(tile.keys, 32), [&]() HWY_ATTR { x.Refill(), y.Refill(); },
        [&](int64_t row) HWY_ATTR {
          x.Make(row, wx0, gx0), x.Make(row + 1, wx1, gx1);
          y.Make(row, wy0, gy0), y.Make(row + 1, wy1, gy1);
          put(row);
        },
        [&](int64_t row) HWY_ATTR {
          x.MakeSeen(row, wx0, gx0), x.MakeSeen(row + 1, wx1, gx1);
          y.MakeSeen(row, wy0, gy0), y.MakeSeen(row + 1, wy1, gy1);
          put(row);
        });
  }
}

void GradientFloats(const ScoreTile& tile, const float* lse, const float* delta, float* scores,
                    float* grads) {
  if (tile.dropout.active()) return GradientFloatsT<true>(tile, lse, delta, scores, grads);
  GradientFloatsT<false>(tile, lse, delta, scores, grads);
}

void GradientPacked(const ScoreTile& tile, const float* lse, const float* delta,
                    const float* scores, const float* grads, const PackedGradients& packed) {
  if (tile.dropout.active()) {
    return GradientPackedT<true>(tile, lse, delta, scores, grads, packed);
  }
  GradientPackedT<false>(tile, lse, delta, scores, grads, packed);
}

template <class D>
HWY_INLINE hn::Vec<D> TanhOf(D d, hn::Vec<D> x, float scale, float cap) {
  return Tanh(d, hn::Mul(x, hn::Set(d, scale / cap)));
}

void CapTileKernel(const ScoreTile& tile, float cap, float scale, float* scores, float* slopes) {
  ForStrips(tile, tile.queries, [&](const Strip& strip) HWY_ATTR {
    const Lane d;
    for (int64_t row = strip.first(); row < strip.some(); ++row) {
      const int64_t at = row * kStride + strip.column();
      const auto t = TanhOf(d, hn::LoadU(d, scores + at), scale, cap);
      hn::StoreU(hn::Mul(t, hn::Set(d, cap)), d, scores + at);
      if (slopes == nullptr) continue;
      const auto factor = hn::Set(d, scale);
      hn::StoreU(hn::NegMulAdd(hn::Mul(t, t), factor, factor), d, slopes + at);
    }
  });
}

void CapRowKernel(float cap, int64_t n, float* x) {
  const hn::ScalableTag<float> d;
  Map(
      d, n, x, [=](auto v) HWY_ATTR { return hn::Mul(TanhOf(d, v, 1, cap), hn::Set(d, cap)); },
      static_cast<const float*>(x));
}

void WeightsKernel(const ScoreTile& tile, const float* lse, float* scores) {
  ForStrips(tile, tile.queries, [&](const Strip& strip) HWY_ATTR {
    const Lane d;
    float* x = scores + strip.column();
    const auto scale = hn::Set(d, tile.scale), shift = hn::LoadU(d, lse + strip.column());
    for (int64_t row = 0; row < tile.keys; ++row, x += kStride) {
      const auto weight = Exp(d, hn::MulSub(hn::LoadU(d, x), scale, shift));
      hn::StoreU(strip.any(row) ? hn::IfThenElseZero(strip.Seen(row), weight) : hn::Zero(d), d, x);
    }
  });
}

float SoftmaxKernel(float* scores, int64_t n) {
  const hn::ScalableTag<float> d;
  const auto max = [](auto a, auto b) HWY_ATTR { return hn::Max(a, b); };
  const float largest =
      MaxLane(d, Fold(d, n, hn::Set(d, -kInfinity), max, max, static_cast<const float*>(scores)));
  if (largest == -kInfinity) {
    // Max may lose a NaN, with the value beside it; the row must keep it.
    const bool none = std::all_of(scores, scores + n, [](float x) { return x == -kInfinity; });
    std::fill_n(scores, n, none ? 0.0f : std::numeric_limits<float>::quiet_NaN());
    return none ? largest : std::numeric_limits<float>::quiet_NaN();
  }
  const auto shift = hn::Set(d, largest);
  Map(
      d, n, scores, [d, shift](auto v) HWY_ATTR { return Exp(d, hn::Sub(v, shift)); },
      static_cast<const float*>(scores));
  const float sum = Sum(d, scores, n);
  const auto inverse = hn::Set(d, 1.0f / sum);
  Map(
      d, n, scores, [inverse](auto v) HWY_ATTR { return hn::Mul(v, inverse); },
      static_cast<const float*>(scores));
  return largest + std::log(sum);
}

// Calls f(heads, first) for all heads, up to four at a time: their common keys are loaded once.
template <class F>
HWY_INLINE void ForHeads(int64_t heads, const F& f) {
  int64_t first = 0;
  for (; first + 4 <= heads; first += 4) f(std::integral_constant<int, 4>(), first);
  if (heads - first == 3) f(std::integral_constant<int, 3>(), first);
  if (heads - first == 2) f(std::integral_constant<int, 2>(), first);
  if (heads - first == 1) f(std::integral_constant<int, 1>(), first);
}

constexpr int kLanes = hn::MaxLanes(Lane());

// Lane i gets the sum of row i, for `kRows` rows that begin at x. Otherwise each row has kLanes /
// kRows lanes of sums.
template <int kRows>
HWY_INLINE Vector SumsOfRows(const float* x) {
  const Lane d;
#if HWY_TARGET != HWY_SCALAR
  if constexpr (kRows > 1) {
    const auto low = SumsOfRows<kRows / 2>(x);
    const auto high = SumsOfRows<kRows / 2>(x + kRows / 2 * kLanes);
    return hn::Add(hn::ConcatEven(d, high, low), hn::ConcatOdd(d, high, low));
  }
#endif
  return hn::Load(d, x);
}

constexpr int64_t kRowsAhead = 16;  // keys and values that are prefetched while others are used

// Writes lanes whose sum is q[h] . k[i] to parts[h * kLanes + i], each a vector. `ahead` is the
// prefetch distance, if there is something to prefetch.
template <int kHeads, int kKeys, class T>
HWY_INLINE void PartsOfScores(const float* q, int64_t D, const T* const (&k)[kKeys], int64_t ahead,
                              float* parts) {
  const Lane d;
  Vector sums[kHeads][kKeys];
  for (auto& row : sums) {
    for (auto& sum : row) sum = hn::Zero(d);
  }
  const auto add = [&](int64_t c, const auto& load) HWY_ATTR {
    Vector keys[kKeys];
    for (int i = 0; i < kKeys; ++i) {
      keys[i] = load(k[i] + c);
      hwy::Prefetch(k[i] + ahead + c);
    }
    for (int h = 0; h < kHeads; ++h) {
      const auto query = load(q + h * D + c);
      for (int i = 0; i < kKeys; ++i) sums[h][i] = hn::MulAdd(query, keys[i], sums[h][i]);
    }
  };
  int64_t c = 0;
  for (; c + kLanes <= D; c += kLanes) add(c, [d](const auto* x) HWY_ATTR { return LoadU(d, x); });
  if (c < D) add(c, [d, n = D - c](const auto* x) HWY_ATTR { return LoadPart(d, x, n); });
  for (int h = 0; h < kHeads; ++h) {
    for (int i = 0; i < kKeys; ++i) hn::Store(sums[h][i], d, parts + (h * kLanes + i) * kLanes);
  }
}

template <int kHeads, class T>
HWY_INLINE void ScoreHeads(const float* q, int64_t D, const T* k, int64_t k_stride, int64_t keys,
                           float scale, float* scores, int64_t stride) {
  const Lane d;
  constexpr int kKeys = kLanes == 1 ? 1 : kHeads == 1 && kLanes >= 4 ? 4 : 2;
  HWY_ALIGN float parts[kHeads * kLanes * kLanes];
  for (int64_t s = 0; s < keys; s += kLanes) {
    for (int i = 0; i < kLanes; i += kKeys) {
      const T* rows[kKeys];
      for (int j = 0; j < kKeys; ++j) rows[j] = k + std::min(s + i + j, keys - 1) * k_stride;
      PartsOfScores<kHeads, kKeys>(q, D, rows, kRowsAhead * k_stride, parts + i * kLanes);
    }
    for (int h = 0; h < kHeads; ++h) {
      const auto sums = hn::Mul(SumsOfRows<kLanes>(parts + h * kLanes * kLanes), hn::Set(d, scale));
      float* to = scores + h * stride + s;
      s + kLanes <= keys ? hn::StoreU(sums, d, to) : StorePart(sums, d, to, keys - s);
    }
  }
}

void ScoresKernel(const float* q, int64_t heads, int64_t D, const KeyRows& k, int64_t keys,
                  float scale, float* scores, int64_t stride) {
  const auto score = [&](const auto* rows) HWY_ATTR {
    ForHeads(heads, [&](auto count, int64_t h) HWY_ATTR {
      ScoreHeads<count()>(q + h * D, D, rows, k.stride, keys, scale, scores + h * stride, stride);
    });
  };
  k.dtype == Dtype::kBF16 ? score(static_cast<const BF16*>(k.data))
                          : score(static_cast<const float*>(k.data));
}

// Columns [begin, begin + kVectors * Lanes) of some heads, or, if `rest` is not 0, that many
// columns, at most one vector; the sums stay in registers.
template <int kHeads, int kVectors, class T>
HWY_INLINE void CombineColumns(const float* weights, int64_t stride, const T* v, int64_t v_stride,
                               int64_t keys, int64_t D, int64_t begin, int64_t rest, float* out) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto load = [=](const auto* at)
                        HWY_ATTR { return rest == 0 ? LoadU(d, at) : LoadPart(d, at, rest); };
  hn::Vec<decltype(d)> sums[kHeads][kVectors];
  for (int h = 0; h < kHeads; ++h) {
    for (int i = 0; i < kVectors; ++i) sums[h][i] = load(out + h * D + begin + i * lanes);
  }
  for (int64_t s = 0; s < keys; ++s) {
    hn::Vec<decltype(d)> row[kVectors];
    for (int i = 0; i < kVectors; ++i) {
      const T* at = v + s * v_stride + begin + i * lanes;
      row[i] = load(at);
      hwy::Prefetch(at + kRowsAhead * v_stride);
    }
    for (int h = 0; h < kHeads; ++h) {
      const auto weight = hn::Set(d, weights[h * stride + s]);
      for (int i = 0; i < kVectors; ++i) sums[h][i] = hn::MulAdd(weight, row[i], sums[h][i]);
    }
  }
  for (int h = 0; h < kHeads; ++h) {
    for (int i = 0; i < kVectors; ++i) {
      float* to = out + h * D + begin + i * lanes;
      rest == 0 ? hn::StoreU(sums[h][i], d, to) : StorePart(sums[h][i], d, to, rest);
    }
  }
}

// With four heads so many vectors of sums that registers are left for a row of values.
#if HWY_TARGET <= HWY_AVX3 || HWY_TARGET == HWY_NEON
constexpr int kCombined = 4;
#else
constexpr int kCombined = 2;
#endif

void CombineKernel(const float* weights, int64_t stride, int64_t heads, int64_t D, const KeyRows& v,
                   int64_t keys, float* out) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto combine = [&](const auto* rows) HWY_ATTR {
    ForHeads(heads, [&](auto count, int64_t h) HWY_ATTR {
      constexpr int kHeads = count(), kVectors = kHeads == 1 ? 4 : kCombined;
      const auto columns = [&](auto vectors, int64_t c, int64_t rest) HWY_ATTR {
        CombineColumns<kHeads, vectors()>(weights + h * stride, stride, rows, v.stride, keys, D, c,
                                          rest, out + h * D);
      };
      int64_t c = 0;
      for (; c + kVectors * lanes <= D; c += kVectors * lanes) {
        columns(std::integral_constant<int, kVectors>(), c, 0);
      }
      constexpr std::integral_constant<int, 1> kOne;
      for (; c + lanes <= D; c += lanes) columns(kOne, c, 0);
      if (c < D) columns(kOne, c, D - c);
    });
  };
  v.dtype == Dtype::kBF16 ? combine(static_cast<const BF16*>(v.data))
                          : combine(static_cast<const float*>(v.data));
}

void DropoutKernel(const Dropout& dropout, int64_t row, int64_t width, int64_t column, int64_t n,
                   float* x) {
  const hn::ScalableTag<float> d;
  HWY_ALIGN float factors[64];
  for (int64_t i = 0; i < n; i += 64) {
    DropoutFactors(dropout, row, width, column + i, factors);
    Map(
        d, std::min<int64_t>(64, n - i), x + i,
        [](auto v, auto f) HWY_ATTR { return hn::Mul(v, f); }, static_cast<const float*>(x + i),
        static_cast<const float*>(factors));
  }
}

void ScaleKernel(const float* factors, int64_t rows, int64_t columns, float* x) {
  const hn::CappedTag<float, 16> d;
  for (int64_t r = 0; r < rows; ++r, x += columns) {
    for (int64_t c = 0; c < columns; c += static_cast<int64_t>(hn::Lanes(d))) {
      hn::StoreU(hn::Mul(hn::LoadU(d, x + c), hn::LoadU(d, factors + c)), d, x + c);
    }
  }
}

void TransposeKernel(const float* x, int64_t stride, int64_t rows, int64_t columns, float* to,
                     int64_t to_stride) {
  CopyTransposed(x, stride, rows, columns, to, to_stride);
}

template <class T>
HWY_INLINE void CopyAll(const float* x, int64_t stride, int64_t rows, int64_t columns, T* to,
                        int64_t to_stride) {
  const hn::ScalableTag<float> d;
  for (int64_t r = 0; r < rows; ++r) {
    Map(
        d, columns, to + r * to_stride, [](auto v) HWY_ATTR { return v; }, x + r * stride);
  }
}
void CopyFloats(const float* x, int64_t stride, int64_t rows, int64_t columns, float* to,
                int64_t to_stride) {
  CopyAll(x, stride, rows, columns, to, to_stride);
}
void CopyRounded(const float* x, int64_t stride, int64_t rows, int64_t columns, BF16* to,
                 int64_t to_stride) {
  CopyAll(x, stride, rows, columns, to, to_stride);
}

void DotKernel(const SequenceView& x, const SequenceView& y, int64_t b, int64_t column, int64_t D,
               float* dots) {
  const hn::ScalableTag<float> d;
  const auto dot = [&]<class T>(T) HWY_ATTR {
    for (int64_t t = 0; t < x.T; ++t) {
      const T *left = x.row<T>(b, t) + column, *right = y.row<T>(b, t) + column;
      dots[t] = Dot(d, left, right, D);
    }
  };
  x.dtype == Dtype::kBF16 ? dot(BF16()) : dot(float());
}

}  // namespace folio::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace folio::cpu {

HWY_EXPORT(SoftmaxFloats);
HWY_EXPORT(SoftmaxPacked);
HWY_EXPORT(GradientFloats);
HWY_EXPORT(GradientPacked);
HWY_EXPORT(CapTileKernel);
HWY_EXPORT(WeightsKernel);

void SoftmaxState::Reset() {
  std::fill_n(max, kScoreQueries, -std::numeric_limits<float>::infinity());
  std::fill_n(sum, kScoreQueries, 0.0f);
}

void SoftmaxTile(const ScoreTile& tile, float* scores, SoftmaxState& state) {
  HWY_DYNAMIC_DISPATCH(SoftmaxFloats)(tile, scores, state);
}
void SoftmaxTile(const ScoreTile& tile, const float* scores, SoftmaxState& state, BF16* packed) {
  HWY_DYNAMIC_DISPATCH(SoftmaxPacked)(tile, scores, state, packed);
}

void CapTile(const ScoreTile& tile, float cap, float scale, float* scores, float* slopes) {
  HWY_DYNAMIC_DISPATCH(CapTileKernel)(tile, cap, scale, scores, slopes);
}

void WeightsTile(const ScoreTile& tile, const float* lse, float* scores) {
  HWY_DYNAMIC_DISPATCH(WeightsKernel)(tile, lse, scores);
}

void GradientTile(const ScoreTile& tile, const float* lse, const float* delta, float* scores,
                  float* grads) {
  HWY_DYNAMIC_DISPATCH(GradientFloats)(tile, lse, delta, scores, grads);
}
void GradientTile(const ScoreTile& tile, const float* lse, const float* delta, const float* scores,
                  const float* grads, const PackedGradients& packed) {
  HWY_DYNAMIC_DISPATCH(GradientPacked)(tile, lse, delta, scores, grads, packed);
}

HWY_EXPORT(SoftmaxKernel);
HWY_EXPORT(DropoutKernel);
HWY_EXPORT(CapRowKernel);
HWY_EXPORT(ScoresKernel);
HWY_EXPORT(CombineKernel);
HWY_EXPORT(ScaleKernel);
HWY_EXPORT(TransposeKernel);
HWY_EXPORT(CopyFloats);
HWY_EXPORT(CopyRounded);
HWY_EXPORT(DotKernel);

float SoftmaxRow(float* scores, int64_t keys, const uint8_t* key_mask) {
  for (int64_t s = 0; key_mask != nullptr && s < keys; ++s) {
    if (key_mask[s] == 0) scores[s] = -std::numeric_limits<float>::infinity();
  }
  return HWY_DYNAMIC_DISPATCH(SoftmaxKernel)(scores, keys);
}

void DropoutRow(const Dropout& dropout, int64_t dropout_row, int64_t width, int64_t column,
                int64_t keys, float* row) {
  HWY_DYNAMIC_DISPATCH(DropoutKernel)(dropout, dropout_row, width, column, keys, row);
}

void CapRow(float cap, int64_t n, float* x) {
  HWY_DYNAMIC_DISPATCH(CapRowKernel)(cap, n, x);
}

void ScoreRows(const float* q, int64_t heads, int64_t D, const KeyRows& k, int64_t keys,
               float scale, float* scores, int64_t stride) {
  HWY_DYNAMIC_DISPATCH(ScoresKernel)(q, heads, D, k, keys, scale, scores, stride);
}

void CombineRows(const float* weights, int64_t stride, int64_t heads, int64_t D, const KeyRows& v,
                 int64_t keys, float* out) {
  HWY_DYNAMIC_DISPATCH(CombineKernel)(weights, stride, heads, D, v, keys, out);
}

void ScaleColumns(const float* factors, int64_t rows, int64_t columns, float* x) {
  HWY_DYNAMIC_DISPATCH(ScaleKernel)(factors, rows, columns, x);
}

void Transpose(const float* x, int64_t stride, int64_t rows, int64_t columns, float* to,
               int64_t to_stride) {
  HWY_DYNAMIC_DISPATCH(TransposeKernel)(x, stride, rows, columns, to, to_stride);
}
void Transpose(const float* x, int64_t stride, int64_t rows, int64_t columns, BF16* to,
               int64_t to_stride, float* scratch) {
  Transpose(x, stride, rows, columns, scratch, rows);
  CopyRows(scratch, rows, columns, rows, to, to_stride);
}

void CopyRows(const float* x, int64_t stride, int64_t rows, int64_t columns, float* to,
              int64_t to_stride) {
  HWY_DYNAMIC_DISPATCH(CopyFloats)(x, stride, rows, columns, to, to_stride);
}
void CopyRows(const float* x, int64_t stride, int64_t rows, int64_t columns, BF16* to,
              int64_t to_stride) {
  HWY_DYNAMIC_DISPATCH(CopyRounded)(x, stride, rows, columns, to, to_stride);
}

void DotRows(const SequenceView& x, const SequenceView& y, int64_t b, int64_t column, int64_t D,
             float* dots) {
  HWY_DYNAMIC_DISPATCH(DotKernel)(x, y, b, column, D, dots);
}

}  // namespace folio::cpu
#endif  // HWY_ONCE
