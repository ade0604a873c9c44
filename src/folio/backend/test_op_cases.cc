#include "folio/backend/test_op_cases.h"

#include <fmt/format.h>

#include <utility>

#include "folio/backend/test_op_case_list.h"

namespace folio {
namespace {

using op_cases::Cases;
using op_cases::Rows;
using op_cases::RunReference;

// Tokens, some of which are of another part of the vocabulary.
Tensor Partly(OpMemory& m, const Shape& shape, int64_t V, bool ignore) {
  const Tensor tokens = m.Integers(shape, V, ignore);
  for (int64_t i = 0; i < tokens.count(); i += 3) m.Set(tokens, i, kElsewhere);
  return tokens;
}

void AddEmbedding(Cases& cases) {
  struct Sizes {
    int64_t B, T, C, V, P;
  };
  for (const Sizes s :
       {Sizes{1, 1, 1, 1, 1}, {2, 3, 5, 7, 6}, {3, 17, 33, 11, 20}, {5, 64, 65, 13, 64}}) {
    for (const std::string_view places : {"none", "in a row", "packed", "elsewhere"}) {
      const bool positions = places != "none", packed = places == "packed";
      const auto ids = [=](OpMemory& m) {
        return places == "elsewhere" ? Partly(m, {s.B, s.T}, s.V, false)
                                     : m.Integers({s.B, s.T}, s.V);
      };
      const std::string name =
          fmt::format("B{} T{} C{} V{} positions {}", s.B, s.T, s.C, s.V, places);
      cases.Add(name, [=](OpMemory& m) {
        return EmbeddingForward{.ids = ids(m),
                                .wte = m.Random({s.V, s.C}),
                                .wpe = positions ? m.Random({s.P, s.C}) : Tensor(),
                                .out = m.Unset({s.B * s.T, s.C}),
                                .positions = packed ? m.Integers({s.B, s.T}, s.P) : Tensor()};
      });
      cases.Add(name, [=](OpMemory& m) {
        return EmbeddingBackward{.ids = ids(m),
                                 .d_out = m.Random({s.B * s.T, s.C}),
                                 .d_wte = m.Random({s.V, s.C}),
                                 .d_wpe = positions ? m.Random({s.P, s.C}) : Tensor(),
                                 .positions = packed ? m.Integers({s.B, s.T}, s.P) : Tensor()};
      });
    }
  }
}

LayerNormForward MakeLayerNorm(OpMemory& m, Rows s, bool bias) {
  return {.x = m.Random({s.N, s.C}),
          .weight = m.Random({s.C}),
          .bias = bias ? m.Random({s.C}) : Tensor(),
          .out = m.UnsetLow({s.N, s.C}),
          .mean = m.Unset({s.N}),
          .rstd = m.Unset({s.N})};
}

enum class Into { kUnset, kRandom, kDOut };

LayerNormBackward MakeLayerNormBackward(OpMemory& m, Rows s, bool bias, Into d_x) {
  const LayerNormForward forward = MakeLayerNorm(m, s, bias);
  RunReference(forward);
  const Tensor d_out = m.RandomLow({s.N, s.C});
  return {.x = forward.x,
          .weight = forward.weight,
          .mean = forward.mean,
          .rstd = forward.rstd,
          .d_out = d_out,
          .d_x = d_x == Into::kUnset    ? m.Unset({s.N, s.C})
                 : d_x == Into::kRandom ? m.Random({s.N, s.C})
                                        : d_out,
          .d_weight = m.Random({s.C}),
          .d_bias = bias ? m.Random({s.C}) : Tensor(),
          .accumulate_d_x = d_x == Into::kRandom};
}

LayerNormBackward WithoutParameters(LayerNormBackward op) {
  op.d_weight = op.d_bias = {};
  return op;
}

void AddLayerNorm(Cases& cases) {
  for (const Rows s :
       {Rows{1, 1}, {1, 2}, {3, 5}, {7, 16}, {5, 33}, {130, 65}, {2, 257}, {300, 64}}) {
    for (const bool bias : {true, false}) {
      const std::string name = fmt::format("N{} C{} bias {}", s.N, s.C, bias);
      cases.Add(name, [=](OpMemory& m) { return MakeLayerNorm(m, s, bias); });
      cases.Add(name + " d_x written",
                [=](OpMemory& m) { return MakeLayerNormBackward(m, s, bias, Into::kUnset); });
      cases.Add(name + " d_x accumulated",
                [=](OpMemory& m) { return MakeLayerNormBackward(m, s, bias, Into::kRandom); });
      cases.Add(name + " frozen", [=](OpMemory& m) {
        return WithoutParameters(MakeLayerNormBackward(m, s, bias, Into::kUnset));
      });
      cases.AddPlain(name + " d_x in place",
                     [=](OpMemory& m) { return MakeLayerNormBackward(m, s, bias, Into::kDOut); });
    }
  }
}

// Numbers of ordinary size with a few where an approximation may break.
Tensor ActivationInput(OpMemory& m, Rows s) {
  const Tensor x = m.RandomLow({s.N, s.C}, 3);
  int64_t i = 0;
  for (const double special : {0.0, 10.0, -10.0, 1e-20, -1e-6, 40.0, -40.0}) {
    if (i < x.count() / 2) m.Set(x, i++, special);
  }
  return x;
}

void AddActivation(Cases& cases) {
  for (const Rows s : {Rows{1, 1}, {3, 7}, {5, 33}, {70, 257}}) {
    for (const auto& [kind, activation] : kActivations) {
      const std::string name = fmt::format("N{} C{} {}", s.N, s.C, activation);
      cases.Add(name, [=, kind = kind](OpMemory& m) {
        return ActivationForward{
            .kind = kind, .x = ActivationInput(m, s), .out = m.UnsetLow({s.N, s.C})};
      });
      for (const bool in_place : {false, true}) {
        cases.Add(fmt::format("{} in place {}", name, in_place), [=, kind = kind](OpMemory& m) {
          const Tensor x = ActivationInput(m, s), d_out = m.RandomLow({s.N, s.C});
          const Tensor d_x = in_place ? d_out : m.UnsetLow({s.N, s.C});
          return ActivationBackward{.kind = kind, .x = x, .d_out = d_out, .d_x = d_x};
        });
      }
    }
  }
}

void AddResidual(Cases& cases) {
  for (const Rows s : {Rows{1, 1}, {3, 7}, {5, 64}, {9, 65}, {70, 257}}) {
    const Dropout drops = {.p = 0.2, .seed = 1, .stream = 2, .first_row = 3};
    Dropout part = drops;  // of a wider array
    part.width = 3 * s.C + 1;
    part.first_column = s.C + 1;
    for (const auto& [kind, dropout] :
         {std::pair("none", Dropout{}), {"whole", drops}, {"in part", part}}) {
      const std::string name = fmt::format("N{} C{} dropout {}", s.N, s.C, kind);
      const auto forward = [=, dropout = dropout](OpMemory& m, bool with_residual, bool in_residual,
                                                  bool in_x) {
        ResidualForward op;
        if (with_residual) op.residual = m.Random({s.N, s.C});
        op.x = m.RandomLow({s.N, s.C});
        op.out = in_residual ? op.residual : in_x ? op.x : m.Unset({s.N, s.C});
        op.dropout = dropout;
        return op;
      };
      cases.Add(name + " apart", [=](OpMemory& m) { return forward(m, true, false, false); });
      cases.Add(name + " in residual", [=](OpMemory& m) { return forward(m, true, true, false); });
      cases.AddPlain(name + " in x", [=](OpMemory& m) { return forward(m, true, false, true); });
      cases.Add(name + " without residual",
                [=](OpMemory& m) { return forward(m, false, false, false); });
      cases.Add(name + " without residual in x",
                [=](OpMemory& m) { return forward(m, false, false, true); });
      const auto backward = [=, dropout = dropout](OpMemory& m, bool in_place) {
        const Tensor d_out = m.Random({s.N, s.C});
        const Tensor d_x = in_place ? d_out : m.UnsetLow({s.N, s.C});
        return ResidualBackward{.d_out = d_out, .d_x = d_x, .dropout = dropout};
      };
      cases.Add(name + " apart", [=](OpMemory& m) { return backward(m, false); });
      cases.AddPlain(name + " in place", [=](OpMemory& m) { return backward(m, true); });
    }
  }
}

CrossEntropyForward MakeCrossEntropy(OpMemory& m, Rows s, double scale, bool part) {
  return {.logits = m.Random({s.N, s.C}, scale),
          .targets = part ? Partly(m, {s.N}, s.C, true) : m.Integers({s.N}, s.C, /*ignore=*/true),
          .losses = m.Unset({s.N}),
          .lse = m.Unset({s.N})};
}

void AddCrossEntropy(Cases& cases) {
  for (const Rows s : {Rows{1, 1}, {3, 2}, {5, 13}, {7, 257}, {33, 1031}}) {
    for (const auto& [scale, part] : {std::pair(1.0, false), {300.0, false}, {2.0, true}}) {
      const std::string name =
          fmt::format("N{} V{} logits of {}{}", s.N, s.C, scale, part ? " in part" : "");
      cases.Add(name, [=, scale = scale, part = part](OpMemory& m) {
        return MakeCrossEntropy(m, s, scale, part);
      });
      const auto backward = [=, scale = scale, part = part](OpMemory& m, bool in_place) {
        const CrossEntropyForward forward = MakeCrossEntropy(m, s, scale, part);
        RunReference(forward);
        return CrossEntropyBackward{.logits = forward.logits,
                                    .targets = forward.targets,
                                    .lse = forward.lse,
                                    .d_logits = in_place ? forward.logits : m.UnsetLow({s.N, s.C}),
                                    .scale = 0.125};
      };
      cases.Add(name + " apart", [=](OpMemory& m) { return backward(m, false); });
      cases.AddPlain(name + " in place", [=](OpMemory& m) { return backward(m, true); });
    }
  }
}

void AddOptimizer(Cases& cases) {
  for (const int64_t n : {1, 7, 33, 1000, 70001}) {
    for (const int64_t step : {1, 7}) {
      cases.Add(fmt::format("n{} step {}", n, step), [=](OpMemory& m) {
        AdamWUpdate op;
        op.param = m.Random({n});
        op.grad = m.Random({n});
        op.m = m.Random({n}, 0.1);
        op.v = m.Random({n});
        for (int64_t i = 0; i < n; ++i) {
          m.Set(op.v, i, 1e-3 * static_cast<double>(i % 11));  // also 0, never negative
        }
        op.lr = 1e-2;
        op.weight_decay = 0.1;
        op.step = step;
        op.grad_scale = 0.5;
        return op;
      });
    }
    cases.Add(fmt::format("n{}", n), [=](OpMemory& m) {
      return SumOfSquares{.x = m.Random({n}), .out = m.Unset(Dtype::kF64, {1})};
    });
    for (const int64_t block : {int64_t{3}, int64_t{4096}}) {
      cases.Add(fmt::format("n{}_block{}", n, block), [=](OpMemory& m) {
        return SumOfSquares{.x = m.Random({n}),
                            .out = m.Unset(Dtype::kF64, {(n + block - 1) / block}),
                            .block = block};
      });
    }
    cases.Add(fmt::format("n{}", n), [=](OpMemory& m) {
      return Scale{.x = m.RandomLow({1, n}), .factor = 1.7};
    });
    cases.Add(fmt::format("n{}", n),
              [=](OpMemory& m) { return Fill{.out = m.Unset({n}), .value = 0.1}; });
  }
}

}  // namespace

std::vector<OpCase> OpCases() {
  std::vector<OpCase> cases;
  Cases all(cases);
  AddEmbedding(all);
  AddLayerNorm(all);
  op_cases::AddLinear(all);
  AddActivation(all);
  op_cases::AddAttention(all);
  AddResidual(all);
  AddCrossEntropy(all);
  AddOptimizer(all);
  return cases;
}

}  // namespace folio
