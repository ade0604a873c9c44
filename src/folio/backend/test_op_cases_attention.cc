#include <fmt/format.h>

#include <cstdint>
#include <limits>
#include <string>

#include "folio/backend/test_op_case_list.h"
#include "folio/backend/test_values.h"

namespace folio::op_cases {
namespace {

struct AttentionSizes {
  int64_t B, T, S, H, G, D;
  double scale = 0;
  bool causal = false, mask = false, dropout = false;
  enum { kNone, kAllowed, kAdded, kAddedToAll } pairs = kNone;  // the mask of queries and keys

  int64_t C() const { return H * D; }
  int64_t key_channels() const { return KeyHeads(H, G) * D; }
  std::string ToString() const {
    return fmt::format("B{} T{} S{} H{} G{} D{} scale {}", B, T, S, H, G, D, scale);
  }
};

// (B,1,T,S), or one for all sequences: the first query may see nothing.
Tensor PairMask(OpMemory& m, AttentionSizes s) {
  const Shape shape = {s.pairs == AttentionSizes::kAddedToAll ? 1 : s.B, 1, s.T, s.S};
  const bool bytes = s.pairs == AttentionSizes::kAllowed;
  const Tensor mask = bytes ? m.Mask(shape) : m.Random(shape);
  constexpr double kHidden = -std::numeric_limits<double>::infinity();
  for (int64_t i = 0; i < mask.count(); ++i) {
    if (i < s.S || (!bytes && i % 11 == 7)) m.Set(mask, i, bytes ? 0 : kHidden);
  }
  return mask;
}

// q, k and v are parts of one array where T = S; otherwise k and v are in a cache with spare rows.
AttentionForward MakeAttention(OpMemory& m, AttentionSizes s, bool probs) {
  AttentionForward op;
  const int64_t C = s.C(), K = s.key_channels();
  if (s.T == s.S) {
    const Tensor qkv = m.RandomLow({s.B * s.T, C + 2 * K});
    op.q = SequenceView(qkv, s.B, s.T, 0, C);
    op.k = SequenceView(qkv, s.B, s.T, C, K);
    op.v = SequenceView(qkv, s.B, s.T, C + K, K);
  } else {
    op.q = SequenceView(m.RandomLow({s.B * s.T, C}), s.B, s.T, 0, C);
    op.k = m.WideLow(s.B, s.S, K, 0, 3);
    op.v = m.WideLow(s.B, s.S, K, 0, 3);
    m.Randomize(op.k);
    m.Randomize(op.v);
  }
  if (s.mask) op.key_mask = m.Mask({s.B, s.S});
  if (s.pairs != AttentionSizes::kNone) op.mask = PairMask(m, s);
  op.out = m.WideLow(s.B, s.T, C, 1, 0);
  op.lse = m.Unset({s.B, s.H, s.T});
  if (probs) op.probs = m.Unset({s.B, s.H, s.T, s.S});
  op.H = s.H;
  op.G = s.G;
  op.scale = s.scale;
  op.causal = s.causal;
  if (s.dropout) op.dropout = {.p = 0.3, .seed = 8, .stream = 9, .first_row = 5};
  if (s.dropout && s.causal) op.dropout.heads = s.H + 2;
  return op;
}

AttentionBackward MakeAttentionBackward(OpMemory& m, AttentionSizes s) {
  const AttentionForward forward = MakeAttention(m, s, false);
  RunReference(forward);
  const int64_t C = s.C(), K = s.key_channels();
  AttentionBackward op = BackwardOf(forward);
  op.d_out = SequenceView(m.RandomLow({s.B * s.T, C}), s.B, s.T, 0, C);
  if (s.T == s.S) {
    const Tensor d_qkv = m.UnsetLow({s.B * s.T, C + 2 * K});
    op.d_q = SequenceView(d_qkv, s.B, s.T, 0, C);
    op.d_k = SequenceView(d_qkv, s.B, s.T, C, K);
    op.d_v = SequenceView(d_qkv, s.B, s.T, C + K, K);
  } else {
    op.d_q = m.WideLow(s.B, s.T, C, 2, 0);
    op.d_k = m.WideLow(s.B, s.S, K, 0, 1);
    op.d_v = m.WideLow(s.B, s.S, K, 3, 0);
  }
  return op;
}

struct CacheSizes {
  int64_t N, W, R, H, G, D;

  int64_t C() const { return G * D; }
  std::string ToString() const { return fmt::format("N{} W{} R{} H{} G{} D{}", N, W, R, H, G, D); }
};

// CachePlaces are tables and positions of N sequences with pages of their own, in any order; the
// last row has all its places.
struct CachePlaces {
  Tensor tables, positions;
};
CachePlaces MakePlaces(OpMemory& m, CacheSizes s) {
  CachePlaces places{m.Integers({s.N, s.W}, 1), m.Integers({s.N}, s.W * s.R)};
  for (int64_t i = 0; i < s.N * s.W; ++i) {
    m.Set(places.tables, i, static_cast<double>((i * 7 + 3) % (s.N * s.W)));
  }
  m.Set(places.positions, s.N - 1, static_cast<double>(s.W * s.R - 1));
  return places;
}

void AddCache(Cases& cases) {
  // Multiples of 7 are no numbers of pages: each is taken once.
  const CacheSizes sizes[] = {{1, 1, 1, 1, 1, 1},  {1, 3, 4, 2, 2, 5},   {3, 2, 5, 4, 2, 8},
                              {2, 1, 37, 3, 1, 7}, {1, 4, 16, 2, 2, 64}, {5, 2, 9, 6, 3, 33}};
  for (const CacheSizes s : sizes) {
    const Shape pages = {s.N * s.W, s.G, 2, s.R, s.D};
    cases.Add(s.ToString(), [=](OpMemory& m) {
      const CachePlaces places = MakePlaces(m, s);
      const Tensor kv = m.Random({s.N, 2 * s.C()});
      return CacheWrite{.k = SequenceView(kv, 1, s.N, 0, s.C()),
                        .v = SequenceView(kv, 1, s.N, s.C(), s.C()),
                        .tables = places.tables,
                        .positions = places.positions,
                        .pages = m.RandomLow(pages)};
    });
    cases.Add(s.ToString(), [=](OpMemory& m) {
      return CacheRead{.pages = m.RandomLow(pages),
                       .table = MakePlaces(m, s).tables.Slice(0, 1).Reshape({s.W}),
                       .k = m.Wide(1, s.W * s.R - s.R / 2, s.C(), 0, 0),
                       .v = m.Wide(1, s.W * s.R - s.R / 2, s.C(), 2, 0)};
    });
    for (const double scale : {0.0, 0.7}) {
      cases.Add(fmt::format("{} scale {}", s.ToString(), scale), [=](OpMemory& m) {
        const CachePlaces places = MakePlaces(m, s);
        return CacheAttention{.q = SequenceView(m.Random({s.N, s.H * s.D}), 1, s.N, 0, s.H * s.D),
                              .pages = m.RandomLow(pages),
                              .tables = places.tables,
                              .positions = places.positions,
                              .out = m.Wide(1, s.N, s.H * s.D, 1, 0),
                              .H = s.H,
                              .scale = scale};
      });
    }
  }
}

}  // namespace

void AddAttention(Cases& cases) {
  AddCache(cases);
  const AttentionSizes sizes[] = {
      {1, 1, 1, 1, 0, 1},      {2, 3, 3, 1, 0, 5},        {2, 5, 9, 2, 0, 7},
      {1, 4, 2, 1, 0, 3},      {2, 1, 40, 3, 1, 16},      {2, 17, 17, 2, 2, 8},
      {1, 70, 70, 1, 0, 33},   {1, 3, 131, 1, 0, 64},     {1, 67, 67, 4, 2, 5},
      {1, 130, 130, 2, 0, 16}, {1, 19, 19, 2, 0, 7, 1.0}, {1, 2, 35, 1, 0, 8, 0.1}};
  for (AttentionSizes s : sizes) {
    for (int options = 0; options < 8; ++options) {
      s.causal = options & 1;
      s.mask = options & 2;
      s.dropout = options & 4;
      const std::string name =
          fmt::format("{} causal {} mask {} dropout {}", s.ToString(), s.causal, s.mask, s.dropout);
      for (const bool probs : {false, true}) {
        cases.Add(fmt::format("{} probs {}", name, probs),
                  [=](OpMemory& m) { return MakeAttention(m, s, probs); });
      }
      cases.Add(name, [=](OpMemory& m) { return MakeAttentionBackward(m, s); });
    }
    for (const auto pairs :
         {AttentionSizes::kAllowed, AttentionSizes::kAdded, AttentionSizes::kAddedToAll}) {
      s.pairs = pairs;
      for (const bool all : {false, true}) {
        // Where queries are left with one key, gradients cancel but for the rounding of `out`,
        // which the comparison cannot know of: the tests of tiles do.
        if (all && s.S < 16) continue;
        s.causal = s.mask = s.dropout = all;
        const std::string name = fmt::format("{} pairs {} and {}", s.ToString(), int{s.pairs},
                                             all ? "all else" : "nothing else");
        cases.Add(name, [=](OpMemory& m) { return MakeAttention(m, s, true); });
        cases.Add(name, [=](OpMemory& m) { return MakeAttentionBackward(m, s); });
      }
    }
    s.pairs = AttentionSizes::kNone;
  }
}

}  // namespace folio::op_cases
