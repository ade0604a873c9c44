#include "folio/backend/test_op_cases.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <type_traits>

#include "folio/backend/backend.h"

namespace folio {

namespace {

struct Rows {
  int64_t N, C;
};

// Appends cases of one operation.
class Cases {
 public:
  explicit Cases(std::vector<OpCase>& cases) : cases_(cases) {}

  // Adds a case, with bfloat16 too if the operation has operands of low precision.
  template <class Make>
  void Add(std::string name, Make make) {
    Append(std::move(name), make, true, HasHalves(make));
  }
  // Adds a case that is not allowed with bfloat16.
  template <class Make>
  void AddPlain(std::string name, Make make) {
    Append(std::move(name), make, true, false);
  }
  // Adds a case in which only some operands of low precision are bfloat16.
  template <class Make>
  void AddMixed(std::string name, Make make) {
    Append(std::move(name), make, false, true);
  }

 private:
  template <class Make>
  using MadeBy = std::invoke_result_t<Make, OpMemory&>;

  // Returns true if an operation has operands of low precision: their dtype is the memory's.
  template <class Make>
  bool HasHalves(const Make& make) {
    const auto found = halves_.find(MadeBy<Make>::kName);
    if (found != halves_.end()) return found->second;
    const auto dtypes = [&](Dtype half) {
      OpMemory memory(Dtype::kF32, half, /*misaligned=*/false);
      std::vector<Dtype> of_operands;
      for (const Operand& x : Operands(make(memory))) of_operands.push_back(x.dtype());
      return of_operands;
    };
    return halves_[MadeBy<Make>::kName] = dtypes(Dtype::kF32) != dtypes(Dtype::kBF16);
  }

  template <class Make>
  void Append(std::string name, Make make, bool plain, bool bf16) {
    cases_.push_back({std::string(MadeBy<Make>::kName), std::move(name),
                      [make](OpMemory& memory) -> AnyOp { return make(memory); }, plain, bf16});
  }

  std::vector<OpCase>& cases_;
  std::map<std::string_view, bool> halves_ = {};  // by operation
};

// Runs the forward to make the inputs of the backward.
template <class Op>
void RunReference(const Op& op) {
  MakeReferenceBackend()->Run(op);
}

// Tokens, some of them in another part of the vocabulary.
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

// The backward of a norm that also writes d_x rounded.
template <class Op>
Op Rounding(OpMemory& m, Op op, Into low) {
  op.d_x_low = low == Into::kDOut ? op.d_out : m.UnsetLow(op.d_out.shape());
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
      for (const Into low : {Into::kUnset, Into::kDOut}) {
        cases.AddMixed(name + " and rounded", [=](OpMemory& m) {
          return Rounding(m, MakeLayerNormBackward(m, s, bias, Into::kRandom), low);
        });
      }
    }
  }
}

// Without a weight, with one, and with one stored minus 1.
struct NormKind {
  std::string_view name;
  bool weight = false;
  double offset = 0;
};
constexpr NormKind kNormKinds[] = {{"bare"}, {"weighted", true}, {"offset", true, 1}};

RmsNormForward MakeRmsNorm(OpMemory& m, Rows s, const NormKind& kind) {
  return {.x = m.Random({s.N, s.C}),
          .weight = kind.weight ? m.Random({s.C}) : Tensor(),
          .out = m.UnsetLow({s.N, s.C}),
          .rstd = m.Unset({s.N}),
          .weight_offset = kind.offset};
}

RmsNormBackward MakeRmsNormBackward(OpMemory& m, Rows s, const NormKind& kind, Into d_x,
                                    bool frozen = false) {
  const RmsNormForward forward = MakeRmsNorm(m, s, kind);
  RunReference(forward);
  const Tensor d_out = m.RandomLow({s.N, s.C});
  return {.x = forward.x,
          .weight = forward.weight,
          .rstd = forward.rstd,
          .d_out = d_out,
          .d_x = d_x == Into::kUnset    ? m.Unset({s.N, s.C})
                 : d_x == Into::kRandom ? m.Random({s.N, s.C})
                                        : d_out,
          .d_weight = kind.weight && !frozen ? m.Random({s.C}) : Tensor(),
          .weight_offset = kind.offset,
          .accumulate_d_x = d_x == Into::kRandom};
}

void AddRmsNorm(Cases& cases) {
  for (const Rows s :
       {Rows{1, 1}, {1, 2}, {3, 5}, {7, 16}, {5, 33}, {130, 65}, {2, 257}, {300, 64}}) {
    for (const NormKind& kind : kNormKinds) {
      const std::string name = fmt::format("N{} C{} {}", s.N, s.C, kind.name);
      cases.Add(name, [=](OpMemory& m) { return MakeRmsNorm(m, s, kind); });
      cases.Add(name + " d_x written",
                [=](OpMemory& m) { return MakeRmsNormBackward(m, s, kind, Into::kUnset); });
      cases.Add(name + " d_x accumulated",
                [=](OpMemory& m) { return MakeRmsNormBackward(m, s, kind, Into::kRandom); });
      cases.Add(name + " frozen",
                [=](OpMemory& m) { return MakeRmsNormBackward(m, s, kind, Into::kUnset, true); });
      cases.AddPlain(name + " d_x in place",
                     [=](OpMemory& m) { return MakeRmsNormBackward(m, s, kind, Into::kDOut); });
      for (const Into low : {Into::kUnset, Into::kDOut}) {
        cases.AddMixed(name + " and rounded", [=](OpMemory& m) {
          return Rounding(m, MakeRmsNormBackward(m, s, kind, Into::kUnset), low);
        });
      }
    }
  }
}

struct HeadSizes {
  int64_t B, T, H, D;

  int64_t C() const { return H * D; }
  std::string ToString() const { return fmt::format("B{} T{} H{} D{}", B, T, H, D); }
};

// Heads inside of an array that has other columns and rows too.
SequenceView RandomHeads(OpMemory& m, const HeadSizes& s) {
  SequenceView x = m.WideLow(s.B, s.T, s.C(), 3, 1);
  m.Randomize(x);
  return x;
}

HeadNormForward MakeHeadNorm(OpMemory& m, HeadSizes s, int64_t group, const NormKind& kind,
                             bool kept) {
  const int64_t N = s.B * s.T;
  return {.x = RandomHeads(m, s),
          .weight = kind.weight ? m.Random({group}) : Tensor(),
          .raw = kept ? m.UnsetLow({N, s.C()}) : Tensor(),
          .rstd = kept ? m.Unset({N, s.C() / group}) : Tensor(),
          .group = group,
          .weight_offset = kind.offset,
          .scale = kind.weight ? 1 : 1.2};
}

HeadNormBackward MakeHeadNormBackward(OpMemory& m, HeadSizes s, int64_t group, const NormKind& kind,
                                      bool frozen) {
  const HeadNormForward forward = MakeHeadNorm(m, s, group, kind, true);
  RunReference(forward);
  return {.raw = forward.raw,
          .weight = forward.weight,
          .rstd = forward.rstd,
          .d_x = RandomHeads(m, s),
          .d_weight = kind.weight && !frozen ? m.Random({group}) : Tensor(),
          .group = group,
          .weight_offset = kind.offset,
          .scale = 1.2};
}

// The norm of a shard's part of rows with three times as many channels.
HeadNormForward MakeSharedHeadNorm(OpMemory& m, HeadSizes s, const NormKind& kind, bool kept) {
  HeadNormForward norm = MakeHeadNorm(m, s, s.C(), kind, kept);
  norm.sums = m.Unset({s.B * s.T});
  norm.whole = 3 * s.C();
  RunReference(HeadNormSums{.x = norm.x, .sums = norm.sums});
  return norm;
}

HeadNormBackward MakeSharedHeadNormBackward(OpMemory& m, HeadSizes s, const NormKind& kind,
                                            bool frozen) {
  HeadNormBackward norm = MakeHeadNormBackward(m, s, s.C(), kind, frozen);
  norm.sums = m.Random({s.B * s.T});
  norm.whole = 3 * s.C();
  return norm;
}

HeadNormSums MakeHeadNormSums(OpMemory& m, HeadSizes s, const NormKind& kind, bool backward) {
  return {.x = RandomHeads(m, s),
          .raw = backward ? m.RandomLow({s.B * s.T, s.C()}) : Tensor(),
          .weight = backward && kind.weight ? m.Random({s.C()}) : Tensor(),
          .sums = m.Unset({s.B * s.T}),
          .weight_offset = kind.offset,
          .scale = 1.2};
}

void AddHeadNorm(Cases& cases) {
  for (const HeadSizes s : {HeadSizes{1, 1, 1, 1},
                            {2, 3, 2, 5},
                            {1, 17, 3, 16},
                            {2, 5, 4, 33},
                            {1, 1, 9, 64},
                            {3, 40, 2, 24}}) {
    for (const NormKind& kind : kNormKinds) {
      const std::string name = fmt::format("{} {}", s.ToString(), kind.name);
      for (const bool flag : {false, true}) {
        cases.Add(fmt::format("{} shared kept {}", name, flag),
                  [=](OpMemory& m) { return MakeSharedHeadNorm(m, s, kind, flag); });
        cases.Add(fmt::format("{} shared frozen {}", name, flag),
                  [=](OpMemory& m) { return MakeSharedHeadNormBackward(m, s, kind, flag); });
        cases.Add(fmt::format("{} backward {}", name, flag),
                  [=](OpMemory& m) { return MakeHeadNormSums(m, s, kind, flag); });
      }
    }
    for (const int64_t group : {s.D, s.C()}) {
      for (const NormKind& kind : kNormKinds) {
        const std::string name = fmt::format("{} group {} {}", s.ToString(), group, kind.name);
        for (const bool flag : {false, true}) {
          cases.Add(fmt::format("{} kept {}", name, flag),
                    [=](OpMemory& m) { return MakeHeadNorm(m, s, group, kind, flag); });
          cases.Add(fmt::format("{} frozen {}", name, flag),
                    [=](OpMemory& m) { return MakeHeadNormBackward(m, s, group, kind, flag); });
        }
      }
    }
  }
}

void AddRotary(Cases& cases) {
  struct Sizes {
    HeadSizes heads;
    int64_t r;
  };
  for (const auto& [s, r] : {Sizes{{1, 1, 1, 2}, 2},
                             {{2, 3, 2, 6}, 4},
                             {{1, 17, 3, 16}, 16},
                             {{2, 5, 1, 33}, 10},
                             {{1, 1, 9, 64}, 64},
                             {{3, 9, 2, 80}, 32},
                             {{1, 70, 4, 47}, 46}}) {
    for (const bool shared : {false, true}) {
      for (const bool inverse : {false, true}) {
        const std::string name =
            fmt::format("{} r{} shared {} inverse {}", s.ToString(), r, shared, inverse);
        cases.Add(name, [=, s = s, r = r](OpMemory& m) {
          return Rotary{.x = RandomHeads(m, s),
                        .table = m.Random({shared ? s.T : s.B * s.T, r}),
                        .D = s.D,
                        .inverse = inverse};
        });
      }
    }
  }
  for (const Rows s : {Rows{1, 1}, {5, 3}, {1, 64}, {40, 32}, {129, 5}}) {
    for (const Shape& places : {Shape{}, Shape{s.N}, Shape{1, s.N}}) {
      const std::string name =
          fmt::format("N{} pairs {} positions {}", s.N, s.C, places.ToString());
      cases.Add(name, [=](OpMemory& m) {
        return RotaryAngles{
            .inv_freq = {m.Random(Dtype::kF32, {s.C}).data<float>(), static_cast<size_t>(s.C)},
            .positions = places.rank() > 0 ? m.Integers(places, 100000) : Tensor(),
            .out = m.Unset({s.N, 2 * s.C}),
            .attention_factor = 1.3};
      });
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
    for (const auto& [kind, activation, flops] : kActivations) {
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

void AddGated(Cases& cases) {
  for (const Rows s : {Rows{1, 1}, {3, 7}, {5, 33}, {70, 130}}) {
    for (const auto& [kind, activation, flops] : kActivations) {
      const std::string name = fmt::format("N{} F{} {}", s.N, s.C, activation);
      cases.Add(name, [=, kind = kind](OpMemory& m) {
        return GatedForward{
            .kind = kind, .x = ActivationInput(m, {s.N, 2 * s.C}), .out = m.UnsetLow({s.N, s.C})};
      });
      for (const bool in_place : {false, true}) {
        cases.Add(fmt::format("{} in place {}", name, in_place), [=, kind = kind](OpMemory& m) {
          const Tensor x = ActivationInput(m, {s.N, 2 * s.C});
          return GatedBackward{.kind = kind,
                               .x = x,
                               .d_out = m.RandomLow({s.N, s.C}),
                               .d_x = in_place ? x : m.UnsetLow({s.N, 2 * s.C})};
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
        op.factor = s.C % 2 == 0 ? 1 : 0.22;
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
        return ResidualBackward{
            .d_out = d_out, .d_x = d_x, .dropout = dropout, .factor = s.C % 2 == 0 ? 1 : 0.22};
      };
      cases.Add(name + " apart", [=](OpMemory& m) { return backward(m, false); });
      cases.AddPlain(name + " in place", [=](OpMemory& m) { return backward(m, true); });
      for (const bool in_residual : {false, true}) {
        const auto behind = [=](OpMemory& m, auto norm) {
          norm.x = {};
          return ResidualNorm<decltype(norm)>{.residual = forward(m, true, in_residual, false),
                                              .norm = norm};
        };
        cases.Add(name, [=](OpMemory& m) { return behind(m, MakeLayerNorm(m, s, true)); });
        cases.Add(name, [=](OpMemory& m) { return behind(m, MakeRmsNorm(m, s, kNormKinds[1])); });
      }
    }
  }
}

CrossEntropy MakeCrossEntropy(OpMemory& m, Rows s, double scale, bool part) {
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
        const CrossEntropy forward = MakeCrossEntropy(m, s, scale, part);
        RunReference(forward);
        return CrossEntropyBackward{.logits = forward.logits,
                                    .targets = forward.targets,
                                    .lse = forward.lse,
                                    .d_logits = in_place ? forward.logits : m.UnsetLow({s.N, s.C}),
                                    .scale = 0.125,
                                    .cap = scale == 2.0 ? 8.0 : 0};
      };
      cases.Add(name + " apart", [=](OpMemory& m) { return backward(m, false); });
      cases.AddPlain(name + " in place", [=](OpMemory& m) { return backward(m, true); });
      // Loss and gradient at once, in rows beyond the vocabulary; the rounding of a large lse
      // shows.
      const auto both = [=, scale = scale, part = part](OpMemory& m, Dtype logits, bool in_place) {
        const int64_t W = s.C + 3;
        CrossEntropy op = MakeCrossEntropy(m, s, scale, part);
        op.logits = m.Random(logits, {s.N, W}, std::min(scale, 20.0));
        op.d_logits = in_place ? op.logits : m.UnsetLow({s.N, W});
        op.V = s.C;
        op.scale = 0.125;
        op.cap = scale == 2.0 ? 8.0 : 0;
        return op;
      };
      cases.AddMixed(name + " both", [=](OpMemory& m) { return both(m, m.number(), false); });
      for (const bool in : {false, true}) {
        const std::string both_name = fmt::format("{} both in place {}", name, in);
        cases.AddPlain(both_name, [=](OpMemory& m) { return both(m, m.number(), in); });
        cases.AddMixed(both_name, [=](OpMemory& m) { return both(m, m.half(), in); });
      }
    }
  }
}

void AddOptimizer(Cases& cases) {
  for (const int64_t n : {1, 7, 33, 1000, 70001}) {
    for (const int64_t step : {1, 7}) {
      const auto adamw = [=](OpMemory& m) {
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
      };
      cases.Add(fmt::format("n{} step {}", n, step), adamw);
      cases.AddMixed(fmt::format("n{} step {} and rounded", n, step), [=](OpMemory& m) {
        AdamWUpdate op = adamw(m);
        op.low = m.UnsetLow({n});
        return op;
      });
    }
    for (const bool wide : {false, true}) {
      cases.Add(fmt::format("n{} wide {}", n, wide), [=](OpMemory& m) {
        return SumOfElements{.x = m.Random(wide ? Dtype::kF64 : m.number(), {n}),
                             .out = m.Unset(Dtype::kF64, {1})};
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
    cases.Add(fmt::format("n{}", n), [=](OpMemory& m) {
      return LogitCap{.x = m.RandomLow({1, n}, 20), .cap = 15};
    });
    for (const bool accumulate : {false, true}) {
      cases.Add(fmt::format("n{} accumulate {}", n, accumulate), [=](OpMemory& m) {
        const HeadSizes s = {2, 3, 1, n};
        const SequenceView x = m.Wide(s.B, s.T, s.C(), 5, 1), out = m.Wide(s.B, s.T, s.C(), 2, 0);
        m.Randomize(x);
        if (accumulate) m.Randomize(out);
        return CopyColumns{.x = x, .out = out, .accumulate = accumulate};
      });
    }
    cases.Add(fmt::format("n{}", n),
              [=](OpMemory& m) { return Fill{.out = m.Unset({n}), .value = 0.1}; });
  }
}

void AddMixes(Cases& cases) {
  for (const auto& [N, C] : std::vector<std::pair<int64_t, int64_t>>{{1, 1}, {7, 33}, {257, 97}}) {
    for (const bool flag : {false, true}) {
      const std::string name = fmt::format("N{} C{} {}", N, C, flag);
      const auto factor = [flag](OpMemory& m) { return flag ? m.Random({1}) : Tensor(); };
      cases.Add(name, [=, N = N, C = C](OpMemory& m) {
        return MixForward{.x = m.Random({N, C}),
                          .y = m.Random({N, C}),
                          .x_factor = factor(m),
                          .y_factor = m.Random({1}),
                          .sign = flag ? 1.0 : -1.0,
                          .out = m.Unset({N, C})};
      });
      cases.Add(name, [=, N = N, C = C](OpMemory& m) {
        const Tensor d_out = m.Random({N, C});
        return MixBackward{.x = m.Random({N, C}),
                           .y = m.Random({N, C}),
                           .x_factor = factor(m),
                           .y_factor = m.Random({1}),
                           .sign = flag ? 1.0 : -1.0,
                           .d_out = d_out,
                           .d_x = flag ? d_out : m.Unset({N, C}),
                           .d_y = flag ? m.Random({N, C}) : m.Unset({N, C}),
                           .d_x_factor = factor(m),
                           .d_y_factor = m.Random({1}),
                           .accumulate_d_y = flag};
      });
    }
  }
}

void AddGatedSums(Cases& cases) {
  for (const HeadSizes s : {HeadSizes{1, 1, 1, 1}, {2, 3, 2, 5}, {3, 40, 1, 33}, {2, 150, 5, 7}}) {
    for (const int64_t J : {int64_t{1}, int64_t{12}}) {
      for (const bool flag : {false, true}) {
        const std::string name = fmt::format("{} J{} {}", s.ToString(), J, flag);
        const int64_t N = s.B * s.T, X = J + 3;
        const auto factor = [flag](OpMemory& m) { return flag ? m.Random({1}) : Tensor(); };
        cases.Add(name, [=](OpMemory& m) {
          return GatedAddForward{.x = m.RandomLow({N, X}),
                                 .weight = m.Random({s.H, J}, 0.5),
                                 .y = m.Random({N, s.C()}),
                                 .factor = factor(m),
                                 .out = RandomHeads(m, s),
                                 .scale = flag ? 1.0 : 3.0};
        });
        cases.Add(name, [=](OpMemory& m) {
          const Tensor y = m.Random({N, s.C()});
          return GatedAddBackward{.x = m.RandomLow({N, X}),
                                  .weight = m.Random({s.H, J}, 0.5),
                                  .y = y,
                                  .factor = factor(m),
                                  .d_out = RandomHeads(m, s),
                                  .d_y = flag ? y : m.Unset({N, s.C()}),
                                  .d_x = flag ? m.RandomLow({N, X}) : m.Random({N, X}),
                                  .d_weight = flag ? m.Random({s.H, J}) : Tensor(),
                                  .d_factor = factor(m),
                                  .scale = flag ? 1.0 : 3.0};
        });
      }
    }
  }
  // The gradient of the gates' input is added to that of the sum.
  cases.AddPlain("in place", [](OpMemory& m) {
    constexpr int64_t kN = 9, kC = 30;
    const Tensor d_out = m.Random({kN, kC});
    return GatedAddBackward{.x = m.Random({kN, kC}),
                            .weight = m.Random({1, 24}, 0.5),
                            .y = m.Random({kN, kC}),
                            .factor = m.Random({1}),
                            .d_out = SequenceView(d_out, 1, kN, 0, kC),
                            .d_y = m.Unset({kN, kC}),
                            .d_x = d_out,
                            .d_weight = m.Random({1, 24}),
                            .d_factor = m.Random({1})};
  });
}

struct LinearSizes {
  int64_t N, I, O;
  bool transposed = false;

  Shape weight() const { return transposed ? Shape{O, I} : Shape{I, O}; }
  std::string ToString() const {
    return fmt::format("N{} I{} O{} transposed {}", N, I, O, transposed);
  }
};

struct Gradients {
  bool d_x = true, accumulate = false, d_weight = true, bias = true;
  bool x = true;  // only needed by d_weight
  bool overwrite = false, pre = false;

  std::string ToString() const {
    return fmt::format("d_x {} accumulate {} d_weight {} bias {} x {} overwrite {} pre {}", d_x,
                       accumulate, d_weight, bias, x, overwrite, pre);
  }
};

// Each of them with some sizes.
Activation ActivationFor(const LinearSizes& s) {
  return kActivations[static_cast<size_t>(s.N) % kActivations.size()].kind;
}

LinearForward MakeLinear(OpMemory& m, const LinearSizes& s, bool bias, bool act, Dtype out) {
  return {.x = m.RandomLow({s.N, s.I}),
          .weight = m.Random(s.weight()),
          .bias = bias ? m.Random({s.O}) : Tensor(),
          .out = m.Unset(out, {s.N, s.O}),
          .act = act ? m.Unset(out, {s.N, s.O}) : Tensor(),
          .transposed = s.transposed,
          .activation = ActivationFor(s)};
}

LinearForward MakeLinearSum(OpMemory& m, const LinearSizes& s, Dtype out) {
  return {.x = m.RandomLow({s.N, s.I}),
          .weight = m.Random(s.weight()),
          .out = m.Random(out, {s.N, s.O}),
          .transposed = s.transposed,
          .accumulate = true};
}

LinearBackward MakeLinearBackward(OpMemory& m, const LinearSizes& s, const Gradients& g,
                                  Dtype d_x) {
  LinearBackward op;
  if (g.x) op.x = m.RandomLow({s.N, s.I});
  op.weight = m.Random(s.weight());
  op.d_out = m.RandomLow({s.N, s.O});
  if (g.pre) op.pre = m.Random(d_x, {s.N, s.I}, 3);
  if (g.d_x) op.d_x = g.accumulate ? m.Random(d_x, {s.N, s.I}) : m.Unset(d_x, {s.N, s.I});
  if (g.d_weight) op.d_weight = g.overwrite ? m.Unset(s.weight()) : m.Random(s.weight());
  if (g.bias) op.d_bias = m.Random({s.O});
  op.transposed = s.transposed;
  op.accumulate_d_x = g.accumulate;
  op.accumulate_d_weight = !g.overwrite;
  op.activation = ActivationFor(s);
  return op;
}

void AddForward(Cases& cases, const LinearSizes& s, bool bias, bool act = false) {
  const std::string name = fmt::format("{} bias {} act {}", s.ToString(), bias, act);
  cases.Add(name, [=](OpMemory& m) { return MakeLinear(m, s, bias, act, m.half()); });
  cases.AddMixed(name + " out plain",
                 [=](OpMemory& m) { return MakeLinear(m, s, bias, act, m.number()); });
  cases.AddMixed(name + " low weight", [=](OpMemory& m) {
    LinearForward op = MakeLinear(m, s, bias, act, m.half());
    op.weight = m.RandomLow(s.weight());
    return op;
  });
}

void AddSum(Cases& cases, const LinearSizes& s) {
  const std::string name = s.ToString() + " added";
  cases.Add(name, [=](OpMemory& m) { return MakeLinearSum(m, s, m.half()); });
  cases.AddMixed(name + " out plain", [=](OpMemory& m) { return MakeLinearSum(m, s, m.number()); });
}

void AddBackward(Cases& cases, const LinearSizes& s, const Gradients& g) {
  const std::string name = fmt::format("{} {}", s.ToString(), g.ToString());
  cases.Add(name, [=](OpMemory& m) { return MakeLinearBackward(m, s, g, m.half()); });
  if (!g.d_x) return;
  cases.AddMixed(name + " d_x plain",
                 [=](OpMemory& m) { return MakeLinearBackward(m, s, g, m.number()); });
  cases.AddMixed(name + " low weight", [=](OpMemory& m) {
    LinearBackward op = MakeLinearBackward(m, s, g, m.half());
    op.weight = m.RandomLow(s.weight());
    return op;
  });
}

void AddLinear(Cases& cases) {
  const LinearSizes sizes[] = {{1, 1, 1},    {1, 7, 5},      {3, 16, 33},   {17, 31, 13},
                               {65, 64, 96}, {70, 100, 130}, {300, 33, 70}, {2, 257, 67}};
  for (LinearSizes s : sizes) {
    for (const bool transposed : {false, true}) {
      s.transposed = transposed;
      for (const bool bias : {false, true}) {
        AddForward(cases, s, bias);
        AddForward(cases, s, bias, true);
        AddBackward(cases, s, {.accumulate = bias, .bias = bias});
      }
      AddSum(cases, s);
      AddBackward(cases, s, {});
      AddBackward(cases, s, {.d_x = false, .bias = false});
      AddBackward(cases, s, {.d_weight = false, .x = false});
      AddBackward(cases, s, {.accumulate = true, .d_weight = false, .bias = false});
      AddBackward(cases, s, {.d_x = false, .d_weight = false, .x = false});
      AddBackward(cases, s, {.overwrite = true, .pre = true});
      AddBackward(cases, s, {.d_weight = false, .x = false, .pre = true});
      AddBackward(cases, s, {.d_x = false, .overwrite = true});
    }
  }
  // Many tiles in every direction, whatever their size.
  AddForward(cases, {300, 200, 150, false}, true);
  AddForward(cases, {150, 300, 200, true}, false);
  AddSum(cases, {200, 5, 300, true});
  AddBackward(cases, {200, 150, 300, false}, {.accumulate = true});
  AddBackward(cases, {300, 200, 150, true}, {});
  AddForward(cases, {300, 200, 150, false}, true, true);
  AddBackward(cases, {150, 300, 200, false}, {.overwrite = true, .pre = true});
}

struct AttentionSizes {
  int64_t B, T, S, H, G, D;
  double scale = 0, cap = 0;
  int64_t window = 0;  // if causal
  bool causal = false, mask = false, dropout = false;
  enum { kNone, kAllowed, kAdded, kAddedToAll } pairs = kNone;  // the mask of queries and keys

  int64_t C() const { return H * D; }
  int64_t key_channels() const { return KeyHeads(H, G) * D; }
  std::string ToString() const {
    return fmt::format("B{} T{} S{} H{} G{} D{} scale {} cap {} window {}", B, T, S, H, G, D, scale,
                       cap, window);
  }
};

// (B,1,T,S), or one for all sequences: the first query may attend to nothing.
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

// q, k and v are parts of one array if T = S; otherwise k and v are in a cache with spare rows.
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
  op.cap = s.cap;
  op.causal = s.causal;
  if (s.causal) op.window = s.window;
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
  double scale = 0, cap = 0;
  int64_t window = 0;

  int64_t C() const { return G * D; }
  std::string ToString() const {
    return fmt::format("N{} W{} R{} H{} G{} D{} scale {} cap {} window {}", N, W, R, H, G, D, scale,
                       cap, window);
  }
};

// Tables and positions of N sequences with pages of their own, in any order; the last row uses all
// its places. Pages before a window are -1.
struct CachePlaces {
  Tensor tables, positions;
};
CachePlaces MakePlaces(OpMemory& m, CacheSizes s) {
  CachePlaces places{m.Integers({s.N, s.W}, 1), m.Integers({s.N}, s.W * s.R)};
  for (int64_t i = 0; i < s.N * s.W; ++i) {
    m.Set(places.tables, i, static_cast<double>((i * 7 + 3) % (s.N * s.W)));
  }
  m.Set(places.positions, s.N - 1, static_cast<double>(s.W * s.R - 1));
  for (int64_t n = 0; s.window > 0 && n < s.N; ++n) {
    const int64_t first = places.positions.data<int32_t>()[n] + 1 - s.window;
    for (int64_t w = 0; w < first / s.R; ++w) m.Set(places.tables, n * s.W + w, -1);
  }
  return places;
}

void AddCache(Cases& cases) {
  // Multiples of 7 are no numbers of pages: each is used once.
  const CacheSizes sizes[] = {{1, 1, 1, 1, 1, 1, 0, 0, 0},     {1, 3, 4, 2, 2, 5, 0, 0, 0},
                              {3, 2, 5, 4, 2, 8, 0.7, 0, 0},   {2, 1, 37, 3, 1, 7, 0.7, 0, 0},
                              {1, 4, 16, 2, 2, 64, 0, 0, 0},   {5, 2, 9, 6, 3, 33, 0, 1.5, 0},
                              {3, 4, 5, 7, 1, 80, 0, 0, 1},    {4, 9, 4, 4, 1, 16, 0, 2, 9},
                              {2, 3, 9, 16, 2, 96, 0, 0, 12},  {2, 5, 60, 5, 1, 256, 0, 0, 0},
                              {1, 5, 60, 2, 1, 250, 0, 3, 150}};
  for (const CacheSizes& s : sizes) {
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
      const CachePlaces places = MakePlaces(m, s);
      const int64_t end = places.positions.data<int32_t>()[0] + 1;
      const int64_t first = s.window == 0 ? end / 3 : std::max<int64_t>(0, end - s.window);
      return CacheRead{.pages = m.RandomLow(pages),
                       .table = places.tables.Slice(0, 1).Reshape({s.W}),
                       .k = m.Wide(1, end - first, s.C(), 0, 0),
                       .v = m.Wide(1, end - first, s.C(), 2, 0),
                       .first = first};
    });
    cases.Add(s.ToString(), [=](OpMemory& m) {
      const CachePlaces places = MakePlaces(m, s);
      return CacheAttention{.q = SequenceView(m.Random({s.N, s.H * s.D}), 1, s.N, 0, s.H * s.D),
                            .pages = m.RandomLow(pages),
                            .tables = places.tables,
                            .positions = places.positions,
                            .out = m.Wide(1, s.N, s.H * s.D, 1, 0),
                            .H = s.H,
                            .scale = s.scale,
                            .cap = s.cap,
                            .window = s.window};
    });
  }
}

void AddAttention(Cases& cases) {
  AddCache(cases);
  const AttentionSizes sizes[] = {{1, 1, 1, 1, 0, 1},
                                  {2, 3, 3, 1, 0, 5},
                                  {2, 5, 9, 2, 0, 7},
                                  {1, 4, 2, 1, 0, 3},
                                  {2, 1, 40, 3, 1, 16},
                                  {2, 17, 17, 2, 2, 8},
                                  {1, 70, 70, 1, 0, 33},
                                  {1, 3, 131, 1, 0, 64},
                                  {1, 67, 67, 4, 2, 5},
                                  {1, 130, 130, 2, 0, 16},
                                  {1, 19, 19, 2, 0, 7, 1.0},
                                  {1, 2, 35, 1, 0, 8, 0.1},
                                  {2, 5, 9, 2, 1, 6, 0, 1.5, 2},
                                  {1, 131, 190, 2, 1, 20, 0.4, 2, 67},
                                  {1, 4, 130, 4, 2, 9, 0, 3, 65}};
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
        // If queries are left with one key, gradients cancel except for the rounding of `out`,
        // which the comparison cannot know: the tests of tiles cover that.
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

}  // namespace

std::vector<OpCase> OpCases() {
  std::vector<OpCase> cases;
  Cases all(cases);
  AddEmbedding(all);
  AddLayerNorm(all);
  AddRmsNorm(all);
  AddHeadNorm(all);
  AddRotary(all);
  AddLinear(all);
  AddActivation(all);
  AddGated(all);
  AddAttention(all);
  AddResidual(all);
  AddMixes(all);
  AddGatedSums(all);
  AddCrossEntropy(all);
  AddOptimizer(all);
  return cases;
}

}  // namespace folio
