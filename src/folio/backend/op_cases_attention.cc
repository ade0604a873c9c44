#include <fmt/format.h>

#include <cstdint>
#include <limits>
#include <string>

#include "folio/backend/op_case_list.h"

namespace folio::op_cases {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct AttentionSizes {
  int64_t B, T, S, H, G, D;
  bool causal = false, mask = false, dropout = false;

  int64_t C() const { return H * D; }
  int64_t key_channels() const { return KeyHeads(H, G) * D; }
  std::string ToString() const { return fmt::format("B{} T{} S{} H{} G{} D{}", B, T, S, H, G, D); }
};

// q, k and v are parts of one array where T = S; otherwise k and v are in a cache with spare rows.
AttentionForward MakeAttention(OpMemory& m, AttentionSizes s, bool probs) {
  AttentionForward op;
  const int64_t C = s.C(), K = s.key_channels();
  if (s.T == s.S) {
    const Tensor qkv = m.RandomHalf({s.B * s.T, C + 2 * K});
    op.q = SequenceView(qkv, s.B, s.T, 0, C);
    op.k = SequenceView(qkv, s.B, s.T, C, K);
    op.v = SequenceView(qkv, s.B, s.T, C + K, K);
  } else {
    op.q = SequenceView(m.RandomHalf({s.B * s.T, C}), s.B, s.T, 0, C);
    op.k = m.WideHalf(s.B, s.S, K, 0, 3);
    op.v = m.WideHalf(s.B, s.S, K, 0, 3);
    m.Randomize(op.k), m.Randomize(op.v);
  }
  if (s.mask) op.key_mask = m.Mask({s.B, s.S});
  op.out = m.WideHalf(s.B, s.T, C, 1, 0);
  op.lse = m.Unset({s.B, s.H, s.T});
  if (probs) op.probs = m.Unset({s.B, s.H, s.T, s.S});
  op.H = s.H, op.G = s.G;
  op.causal = s.causal;
  if (s.dropout) op.dropout = {.p = 0.3, .seed = 8, .stream = 9, .first_row = 5};
  return op;
}

AttentionBackward MakeAttentionBackward(OpMemory& m, AttentionSizes s) {
  const AttentionForward forward = MakeAttention(m, s, false);
  RunReference(forward);
  const int64_t C = s.C(), K = s.key_channels();
  AttentionBackward op;
  op.q = forward.q, op.k = forward.k, op.v = forward.v;
  op.key_mask = forward.key_mask, op.out = forward.out, op.lse = forward.lse;
  op.d_out = SequenceView(m.RandomHalf({s.B * s.T, C}), s.B, s.T, 0, C);
  if (s.T == s.S) {
    const Tensor d_qkv = m.UnsetHalf({s.B * s.T, C + 2 * K});
    op.d_q = SequenceView(d_qkv, s.B, s.T, 0, C);
    op.d_k = SequenceView(d_qkv, s.B, s.T, C, K);
    op.d_v = SequenceView(d_qkv, s.B, s.T, C + K, K);
  } else {
    op.d_q = m.WideHalf(s.B, s.T, C, 2, 0);
    op.d_k = m.WideHalf(s.B, s.S, K, 0, 1);
    op.d_v = m.WideHalf(s.B, s.S, K, 3, 0);
  }
  op.H = s.H, op.G = s.G, op.causal = s.causal, op.dropout = forward.dropout;
  return op;
}

// A random (B,T,C) with gaps after its rows.
SequenceView RandomWide(OpMemory& m, int64_t B, int64_t T, int64_t C) {
  const SequenceView x = m.Wide(B, T, C, 1, 2);
  m.Randomize(x);
  return x;
}

void AddScoresAndContext(Cases cases) {
  for (const AttentionSizes s : {AttentionSizes{1, 1, 1, 1, 0, 1},
                                 {1, 0, 5, 2, 0, 3},
                                 {2, 3, 0, 4, 2, 5},
                                 {2, 3, 5, 1, 0, 7},
                                 {1, 5, 1, 3, 1, 3},
                                 {2, 1, 67, 4, 2, 16},
                                 {3, 17, 17, 2, 0, 8},
                                 {1, 65, 130, 2, 1, 33},
                                 {2, 131, 66, 6, 3, 5}}) {
    const Shape scores = {s.B, s.H, s.T, s.S};
    cases.Add(s.ToString(), [=](OpMemory& m) {
      AttentionScoresForward op;
      op.q = RandomWide(m, s.B, s.T, s.C());
      op.k = RandomWide(m, s.B, s.S, s.key_channels());
      op.scores = m.Unset(scores);
      op.H = s.H, op.G = s.G, op.scale = 0.375;
      return op;
    });
    cases.Add(s.ToString(), [=](OpMemory& m) {
      AttentionScoresBackward op;
      op.q = RandomWide(m, s.B, s.T, s.C());
      op.k = RandomWide(m, s.B, s.S, s.key_channels());
      op.d_scores = m.Random(scores);
      op.d_q = m.Wide(s.B, s.T, s.C(), 2, 0);
      op.d_k = m.Wide(s.B, s.S, s.key_channels(), 0, 1);
      op.H = s.H, op.G = s.G, op.scale = 0.375;
      return op;
    });
    cases.Add(s.ToString(), [=](OpMemory& m) {
      AttentionContextForward op;
      op.weights = m.Random(scores);
      op.v = RandomWide(m, s.B, s.S, s.key_channels());
      op.out = m.Wide(s.B, s.T, s.C(), 1, 0);
      op.H = s.H, op.G = s.G;
      return op;
    });
    cases.Add(s.ToString(), [=](OpMemory& m) {
      AttentionContextBackward op;
      op.weights = m.Random(scores);
      op.v = RandomWide(m, s.B, s.S, s.key_channels());
      op.d_out = RandomWide(m, s.B, s.T, s.C());
      op.d_weights = m.Unset(scores);
      op.d_v = m.Wide(s.B, s.S, s.key_channels(), 3, 1);
      op.H = s.H, op.G = s.G;
      return op;
    });
  }
}

void AddMask(Cases cases) {
  struct Sizes {
    int64_t B, H, T, S, mask_B, mask_H;
  };
  for (const Sizes s : {Sizes{1, 1, 1, 1, 1, 1},
                        {2, 3, 5, 7, 1, 1},
                        {2, 3, 5, 7, 2, 1},
                        {3, 2, 4, 17, 1, 2},
                        {2, 3, 7, 33, 2, 3},
                        {1, 2, 97, 131, 1, 1}}) {
    for (const double fill : {0.0, -1.5, -kInfinity}) {
      for (const bool in_place : {false, true}) {
        cases.Add(fmt::format("B{} H{} T{} S{} mask B{} H{} fill {} in place {}", s.B, s.H, s.T,
                              s.S, s.mask_B, s.mask_H, fill, in_place),
                  [=](OpMemory& m) {
                    MaskForward op;
                    op.x = m.Random({s.B, s.H, s.T, s.S});
                    op.mask = m.Mask({s.mask_B, s.mask_H, s.T, s.S});
                    for (int64_t i = 0; i < s.S; ++i) op.mask.data<uint8_t>()[i] = 0;
                    op.mask.data<uint8_t>()[op.mask.count() - 1] = 255;
                    op.out = in_place ? op.x : m.Unset(op.x.shape());
                    op.fill = fill;
                    return op;
                  });
      }
    }
  }
}

constexpr Rows kRowSizes[] = {{1, 1},  {2, 0},  {3, 2},   {5, 7},
                              {4, 16}, {3, 33}, {2, 131}, {300, 65}};

// Scores of which some are -infinity, and the first row and a middle one altogether.
Tensor MaskedScores(OpMemory& m, Rows s, double scale) {
  const Tensor x = m.Random({s.N, s.C}, scale);
  const Tensor mask = m.Mask({s.N, s.C});
  for (int64_t i = 0; i < x.count(); ++i) {
    const int64_t row = i / s.C;
    const bool hidden = (s.N > 1 && row == 0) || row == s.N / 2 + 1;
    if (hidden || mask.data<uint8_t>()[i] == 0) m.Set(x, i, -kInfinity);
  }
  return x;
}

void AddSoftmax(Cases cases) {
  for (const Rows s : kRowSizes) {
    const std::string name = fmt::format("N{} S{}", s.N, s.C);
    for (int options = 0; options < 8; ++options) {
      const bool masked = options & 1, in_place = options & 2, naive = options & 4;
      // Naively, float32 goes to 88 only.
      const double scale = naive ? 3 : 100;
      const auto make = [=](OpMemory& m) {
        SoftmaxForward op;
        op.x = masked ? MaskedScores(m, s, scale) : m.Random({s.N, s.C}, scale);
        op.out = in_place ? op.x : m.Unset({s.N, s.C});
        op.naive = naive;
        return op;
      };
      cases.Add(fmt::format("{} masked {} in place {} naive {}", name, masked, in_place, naive),
                make);
      if (naive) continue;
      cases.Add(fmt::format("{} masked {} in place {}", name, masked, in_place), [=](OpMemory& m) {
        SoftmaxForward forward;
        forward.x = masked ? MaskedScores(m, s, 2) : m.Random({s.N, s.C}, 2);
        forward.out = m.Unset({s.N, s.C});
        RunReference(forward);
        SoftmaxBackward op;
        op.out = forward.out;
        op.d_out = m.Random({s.N, s.C});
        op.d_x = in_place ? op.d_out : m.Unset({s.N, s.C});
        return op;
      });
    }
  }
}

// Weights whose first row is 0.
NormalizeForward MakeNormalize(OpMemory& m, Rows s, bool in_place) {
  NormalizeForward op;
  op.x = m.Unset({s.N, s.C});
  for (int64_t i = 0; i < op.x.count(); ++i) {
    const bool none = i < s.C && s.N > 1;
    m.Set(op.x, i, none ? 0 : 0.125 * static_cast<double>(1 + i * i % 61));
  }
  op.out = in_place ? op.x : m.Unset({s.N, s.C});
  op.sums = m.Unset({s.N});
  return op;
}

void AddNormalize(Cases cases) {
  for (const Rows s : kRowSizes) {
    for (const bool in_place : {false, true}) {
      const std::string name = fmt::format("N{} S{} in place {}", s.N, s.C, in_place);
      cases.Add(name, [=](OpMemory& m) { return MakeNormalize(m, s, in_place); });
      cases.Add(name, [=](OpMemory& m) {
        const NormalizeForward forward = MakeNormalize(m, s, false);
        RunReference(forward);
        NormalizeBackward op;
        op.out = forward.out, op.sums = forward.sums;
        op.d_out = m.Random({s.N, s.C});
        op.d_x = in_place ? op.d_out : m.Unset({s.N, s.C});
        return op;
      });
    }
  }
}

}  // namespace

void AddAttention(Cases cases) {
  for (AttentionSizes s : {AttentionSizes{1, 1, 1, 1, 0, 1},
                           {2, 3, 3, 1, 0, 5},
                           {2, 5, 9, 2, 0, 7},
                           {1, 4, 2, 1, 0, 3},
                           {2, 1, 40, 3, 1, 16},
                           {2, 17, 17, 2, 2, 8},
                           {1, 70, 70, 1, 0, 33},
                           {1, 3, 131, 1, 0, 64},
                           {1, 67, 67, 4, 2, 5},
                           {1, 130, 130, 2, 0, 16}}) {
    for (int options = 0; options < 8; ++options) {
      s.causal = options & 1, s.mask = options & 2, s.dropout = options & 4;
      const std::string name =
          fmt::format("{} causal {} mask {} dropout {}", s.ToString(), s.causal, s.mask, s.dropout);
      for (const bool probs : {false, true}) {
        cases.Add(fmt::format("{} probs {}", name, probs),
                  [=](OpMemory& m) { return MakeAttention(m, s, probs); });
      }
      cases.Add(name, [=](OpMemory& m) { return MakeAttentionBackward(m, s); });
    }
  }
}

void AddAttentionSteps(Cases cases) {
  AddScoresAndContext(cases);
  AddMask(cases);
  AddSoftmax(cases);
  AddNormalize(cases);
}

}  // namespace folio::op_cases
