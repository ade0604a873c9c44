#include <fmt/format.h>

#include <cstdint>
#include <string>

#include "folio/backend/test_op_case_list.h"

namespace folio::op_cases {
namespace {

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
  bool x = true;  // needed by d_weight only
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
}

}  // namespace

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
  // Many tiles in every direction, of whatever size.
  AddForward(cases, {300, 200, 150, false}, true);
  AddForward(cases, {150, 300, 200, true}, false);
  AddSum(cases, {200, 5, 300, true});
  AddBackward(cases, {200, 150, 300, false}, {.accumulate = true});
  AddBackward(cases, {300, 200, 150, true}, {});
  AddForward(cases, {300, 200, 150, false}, true, true);
  AddBackward(cases, {150, 300, 200, false}, {.overwrite = true, .pre = true});
}

}  // namespace folio::op_cases
