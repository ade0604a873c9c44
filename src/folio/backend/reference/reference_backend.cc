#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <string_view>
#include <type_traits>
#include <vector>

#include "folio/backend/backend.h"
#include "folio/backend/operands.h"
#include "folio/backend/reference/operations.h"
#include "folio/tensor/dtype.h"

namespace folio {
namespace {

// Operations on Number = float or double: each passes its struct to the template of the same name.
template <class Number>
struct Reference {
  static const Number* In(const Tensor& x) { return x.data<Number>(); }
  static Number* Out(const Tensor& x) { return x.data<Number>(); }
  static reference::Rows<const Number> In(const SequenceView& x) {
    return {reinterpret_cast<const Number*>(x.data), x.batch_stride, x.row_stride};
  }
  static reference::Rows<Number> Out(const SequenceView& x) {
    return {reinterpret_cast<Number*>(x.data), x.batch_stride, x.row_stride};
  }
  template <class Op>
  static reference::AttentionShape ShapeOf(const Op& op) {
    reference::AttentionShape shape = {
        {.B = op.q.B, .T = op.q.T, .S = op.k.T, .H = op.H, .G = op.G, .D = op.q.C / op.H},
        op.causal,
        op.key_mask.template data<uint8_t>(),
        op.dropout};
    shape.scale = op.scale;
    shape.cap = op.cap;
    shape.window = op.window;
    if (!op.mask) return shape;
    shape.one_mask = op.mask.dim(0) == 1;
    if (op.mask.dtype() == Dtype::kU8) {
      shape.allowed = op.mask.template data<uint8_t>();
    } else {
      shape.added.assign(In(op.mask), In(op.mask) + op.mask.count());
    }
    return shape;
  }

  static void Run(const EmbeddingForward& op) {
    reference::EmbeddingForward(op.ids.data<int32_t>(), In(op.wte), In(op.wpe), Out(op.out),
                                op.ids.dim(0), op.ids.dim(1), op.wte.dim(1), op.wte.dim(0),
                                op.positions.data<int32_t>());
  }
  static void Run(const EmbeddingBackward& op) {
    reference::EmbeddingBackward(op.ids.data<int32_t>(), In(op.d_out), Out(op.d_wte), Out(op.d_wpe),
                                 op.ids.dim(0), op.ids.dim(1), op.d_wte.dim(1), op.d_wte.dim(0),
                                 op.positions.data<int32_t>());
  }
  static void Run(const LayerNormForward& op) {
    reference::LayerNormForward(In(op.x), In(op.weight), In(op.bias), Out(op.out), Out(op.mean),
                                Out(op.rstd), op.x.dim(0), op.x.dim(1), op.eps);
  }
  static void Run(const LayerNormBackward& op) {
    reference::LayerNormBackward(In(op.x), In(op.weight), In(op.mean), In(op.rstd), In(op.d_out),
                                 Out(op.d_x), Out(op.d_weight), Out(op.d_bias), op.x.dim(0),
                                 op.x.dim(1), op.accumulate_d_x);
    if (op.d_x_low) std::copy_n(In(op.d_x), op.d_x.count(), Out(op.d_x_low));
  }
  template <class Op>
  static reference::NormFactor<Number> FactorOf(const Op& op, double scale = 1) {
    return {In(op.weight), op.weight_offset, scale};
  }
  static void Run(const RmsNormForward& op) {
    reference::RmsNormForward(In(op.x), FactorOf(op), Out(op.out), Out(op.rstd), op.x.dim(0),
                              op.x.dim(1), op.eps);
  }
  static void Run(const RmsNormBackward& op) {
    reference::RmsNormBackward(In(op.x), FactorOf(op), In(op.rstd), In(op.d_out), Out(op.d_x),
                               Out(op.d_weight), op.x.dim(0), op.x.dim(1), op.accumulate_d_x);
    if (op.d_x_low) std::copy_n(In(op.d_x), op.d_x.count(), Out(op.d_x_low));
  }
  static void Run(const HeadNormForward& op) {
    reference::HeadNormForward({op.x.B, op.x.T, op.x.C, op.group, op.whole}, Out(op.x),
                               FactorOf(op, op.scale), Out(op.raw), Out(op.rstd), op.eps,
                               In(op.sums));
  }
  static void Run(const HeadNormBackward& op) {
    reference::HeadNormBackward({op.d_x.B, op.d_x.T, op.d_x.C, op.group, op.whole}, In(op.raw),
                                FactorOf(op, op.scale), In(op.rstd), Out(op.d_x), Out(op.d_weight),
                                In(op.sums));
  }
  static void Run(const HeadNormSums& op) {
    reference::HeadNormSums({.B = op.x.B, .T = op.x.T, .C = op.x.C}, Out(op.x), In(op.raw),
                            FactorOf(op, op.scale), Out(op.sums));
  }
  static void Run(const RotaryAngles& op) {
    reference::RotaryAngles(op.inv_freq.data(), static_cast<int64_t>(op.inv_freq.size()),
                            op.positions.data<int32_t>(), Out(op.out), op.out.dim(0),
                            op.attention_factor);
  }
  static void Run(const Rotary& op) {
    reference::Rotary({.B = op.x.B, .T = op.x.T, .H = op.x.C / op.D, .D = op.D}, Out(op.x),
                      In(op.table), op.table.dim(0) == op.x.T, op.table.dim(1), op.inverse);
  }
  static void Run(const LinearForward& op) {
    reference::LinearForward(In(op.x), In(op.weight), In(op.bias), Out(op.out), op.x.dim(0),
                             op.x.dim(1), op.out.dim(1), op.transposed, op.accumulate);
    if (!op.act) return;
    reference::ActivationForward(op.activation, In(op.out), Out(op.act), op.out.count());
  }
  static void Run(const LinearBackward& op) {
    reference::LinearBackward(In(op.x), In(op.weight), In(op.d_out), Out(op.d_x), Out(op.d_weight),
                              Out(op.d_bias), op.d_out.dim(0), op.weight.dim(op.transposed ? 1 : 0),
                              op.d_out.dim(1), op.transposed, op.accumulate_d_x,
                              op.accumulate_d_weight);
    if (!op.pre) return;
    reference::ActivationBackward(op.activation, In(op.pre), In(op.d_x), Out(op.d_x),
                                  op.d_x.count());
  }
  static void Run(const ActivationForward& op) {
    reference::ActivationForward(op.kind, In(op.x), Out(op.out), op.x.count());
  }
  static void Run(const ActivationBackward& op) {
    reference::ActivationBackward(op.kind, In(op.x), In(op.d_out), Out(op.d_x), op.x.count());
  }
  static void Run(const GatedForward& op) {
    reference::GatedForward(op.kind, In(op.x), Out(op.out), op.out.dim(0), op.out.dim(1));
  }
  static void Run(const GatedBackward& op) {
    reference::GatedBackward(op.kind, In(op.x), In(op.d_out), Out(op.d_x), op.d_out.dim(0),
                             op.d_out.dim(1));
  }
  static void Run(const AttentionForward& op) {
    reference::AttentionForward(ShapeOf(op), In(op.q), In(op.k), In(op.v), Out(op.out), Out(op.lse),
                                Out(op.probs));
  }
  static void Run(const AttentionBackward& op) {
    reference::AttentionBackward(ShapeOf(op), In(op.q), In(op.k), In(op.v), In(op.lse),
                                 In(op.d_out), Out(op.d_q), Out(op.d_k), Out(op.d_v));
  }
  template <class Op>
  static reference::PageShape PagesOf(const Op& op) {
    return {.G = op.pages.dim(1), .R = op.pages.dim(3), .D = op.pages.dim(4)};
  }
  static void Run(const CacheWrite& op) {
    reference::CacheWrite(PagesOf(op), In(op.k), In(op.v), op.k.T, op.tables.data<int32_t>(),
                          op.tables.dim(1), op.positions.data<int32_t>(), Out(op.pages));
  }
  static void Run(const CacheRead& op) {
    reference::CacheRead(PagesOf(op), In(op.pages), op.table.data<int32_t>(), op.first, op.k.T,
                         Out(op.k), Out(op.v));
  }
  static void Run(const CacheAttention& op) {
    reference::AttentionShape shape;
    shape.H = op.H;
    shape.scale = op.scale;
    shape.cap = op.cap;
    shape.window = op.window;
    reference::CacheAttention(PagesOf(op), shape, In(op.q), In(op.pages), op.q.T,
                              op.tables.data<int32_t>(), op.tables.dim(1),
                              op.positions.data<int32_t>(), Out(op.out));
  }
  static void Run(const ResidualForward& op) {
    reference::ResidualForward(In(op.residual), In(op.x), Out(op.out), op.x.dim(0), op.x.dim(1),
                               op.dropout, op.factor);
  }
  static void Run(const ResidualBackward& op) {
    reference::ResidualBackward(In(op.d_out), Out(op.d_x), op.d_out.dim(0), op.d_out.dim(1),
                                op.dropout, op.factor);
  }
  template <class NormOp>
  static void Run(const ResidualNorm<NormOp>& op) {
    Run(op.residual);
    Run(op.Norm());
  }
  static void Run(const LogitCap& op) { reference::LogitCap(Out(op.x), op.x.count(), op.cap); }
  static void Run(const CrossEntropy& op) {
    const int64_t N = op.logits.dim(0), width = op.logits.dim(1), V = op.V > 0 ? op.V : width;
    reference::CrossEntropy(In(op.logits), op.targets.data<int32_t>(), Out(op.losses), Out(op.lse),
                            N, V, width);
    if (!op.d_logits) return;
    Run(CrossEntropyBackward{.logits = op.logits,
                             .targets = op.targets,
                             .lse = op.lse,
                             .d_logits = op.d_logits,
                             .V = op.V,
                             .scale = op.scale,
                             .cap = op.cap});
  }
  static void Run(const CrossEntropyBackward& op) {
    const int64_t N = op.logits.dim(0), width = op.logits.dim(1), V = op.V > 0 ? op.V : width;
    reference::CrossEntropyBackward(In(op.logits), op.targets.data<int32_t>(), In(op.lse),
                                    Out(op.d_logits), N, V, op.scale, op.cap, width);
  }
  static void Run(const AdamWUpdate& op) {
    reference::AdamW(op, Out(op.param), In(op.grad), Out(op.m), Out(op.v), op.param.count());
    if (op.low) std::copy_n(In(op.param), op.param.count(), Out(op.low));
  }
  static void Run(const SumOfElements& op) {
    double total = 0;
    for (int64_t i = 0; i < op.x.count(); ++i) {
      total += op.x.dtype() == Dtype::kF64 ? op.x.data<double>()[i] : op.x.data<float>()[i];
    }
    *op.out.data<double>() = total;
  }
  static void Run(const SumOfSquares& op) {
    const int64_t n = op.x.count(), block = op.block > 0 ? op.block : n;
    for (int64_t i = 0; i < op.out.count(); ++i) {
      const int64_t begin = i * block;
      op.out.data<double>()[i] =
          reference::Dot(In(op.x) + begin, In(op.x) + begin, std::min(n, begin + block) - begin);
    }
  }
  static void Run(const MixForward& op) {
    reference::MixForward(In(op.x), In(op.y), In(op.x_factor), In(op.y_factor), op.sign,
                          Out(op.out), op.x.count());
  }
  static void Run(const MixBackward& op) {
    reference::MixBackward(
        In(op.x), In(op.y), In(op.x_factor), In(op.y_factor), op.sign, In(op.d_out),
        reference::MixGradients<Number>{Out(op.d_x), Out(op.d_y), Out(op.d_x_factor),
                                        Out(op.d_y_factor), op.accumulate_d_y},
        op.x.count());
  }
  template <class Op>
  static reference::GatedAddShape GatesOf(const Op& op, const SequenceView& out) {
    return {.B = out.B,
            .T = out.T,
            .C = out.C,
            .X = op.x.dim(1),
            .G = op.weight.dim(0),
            .J = op.weight.dim(1),
            .scale = op.scale};
  }
  static void Run(const GatedAddForward& op) {
    reference::GatedAddForward(GatesOf(op, op.out), In(op.x), In(op.weight), In(op.y),
                               In(op.factor), Out(op.out));
  }
  static void Run(const GatedAddBackward& op) {
    reference::GatedAddBackward<Number>(
        GatesOf(op, op.d_out), In(op.x), In(op.weight), In(op.y), In(op.factor), In(op.d_out),
        reference::GatedAddGradients<Number>{Out(op.d_y), Out(op.d_x), Out(op.d_weight),
                                             Out(op.d_factor)});
  }
  static void Run(const Scale& op) { reference::Scale(Out(op.x), op.x.count(), op.factor); }
  static void Run(const CopyColumns& op) {
    reference::CopyColumns<Number>(op.x.B, op.x.T, op.x.C, In(op.x), Out(op.out), op.accumulate);
  }
  static void Run(const Fill& op) { reference::Fill(Out(op.out), op.out.count(), op.value); }
};

// Returns true if `holds` is true for the dtype of some operand.
template <class Op>
bool Has(const Op& op, bool (*holds)(Dtype)) {
  return std::ranges::any_of(Operands(op), [&](const Operand& x) { return holds(x.dtype()); });
}

// Runs an operation with operands of bfloat16 or in blocks on float32: on dense copies of those
// operands, and of others that are rounded on input. Operands that are one array stay one array.
template <class Op>
class Widened {
 public:
  explicit Widened(const Op& original) : op_(original) {
    VisitMutable(op_, [&](std::string_view name, auto& x, Access access) {
      if (!x) return;
      if constexpr (std::is_same_v<std::decay_t<decltype(x)>, Tensor>) {
        if (const Rounding as = EntersAs(original, name); as != Rounding::kNone) {
          x = RoundedCopy(x, as);
        }
        if (x.dtype() != Dtype::kBF16) {
          if (IsStored(x.dtype())) x = DecodedCopy(x);
          return;
        }
        const Tensor row = x.Reshape({1, x.count()});
        x = Tensor(Widen(SequenceView(row, 1, 1, 0, x.count()), access), x.shape());
      } else if (x.dtype == Dtype::kBF16) {
        const Tensor rows(Widen(x, access), {x.B * x.T, x.C});
        x = SequenceView(rows, x.B, x.T, 0, x.C);
      }
    });
  }
  Widened(const Widened&) = delete;
  Widened& operator=(const Widened&) = delete;

  // The operation to run.
  const Op& op() const { return op_; }

  // Rounds what was written, and stores it in the original's operands.
  void Store() const {
    for (const Copy& copy : copies_) {
      if (!copy.written) continue;
      const SequenceView& x = copy.source;
      for (int64_t i = 0; i < x.B * x.T * x.C; ++i) {
        Element(x, i) = ToBF16(copy.memory[static_cast<size_t>(i)]);
      }
    }
  }

 private:
  struct Copy {
    SequenceView source;
    bool written;
    std::vector<float> memory;
  };

  static BF16& Element(const SequenceView& x, int64_t i) {
    const int64_t row = i / x.C;
    return x.row<BF16>(row / x.T, row % x.T)[i % x.C];
  }

  float* Widen(const SequenceView& x, Access access) {
    const bool written = access != Access::kRead;
    const int64_t count = x.B * x.T * x.C;
    for (Copy& copy : copies_) {
      const SequenceView& other = copy.source;
      if (other.data != x.data || other.B * other.T * other.C != count) continue;
      copy.written = copy.written || written;
      return copy.memory.data();
    }
    // One element more than needed, so that an empty array still has an address.
    Copy& copy =
        copies_.emplace_back(Copy{x, written, std::vector<float>(static_cast<size_t>(count) + 1)});
    for (int64_t i = 0; i < count; ++i) {
      copy.memory[static_cast<size_t>(i)] = ToFloat(Element(x, i));
    }
    return copy.memory.data();
  }

  Tensor RoundedCopy(const Tensor& x, Rounding rounding) {
    rounded_.assign(x.data<float>(), x.data<float>() + x.count());
    RoundNumbers(rounding, rounded_);
    return {rounded_.data(), x.shape()};
  }

  Tensor DecodedCopy(const Tensor& x) {
    decoded_.resize(static_cast<size_t>(x.count()));
    DecodeFloats(x.raw(), x.dtype(), std::span(decoded_));
    return {decoded_.data(), x.shape()};
  }

  Op op_;
  std::deque<Copy> copies_;  // a deque: op_ points into them
  std::vector<float> rounded_, decoded_;
};

class ReferenceBackend final : public GenericBackend<ReferenceBackend> {
 public:
  std::string name() const override { return "reference"; }
  std::string description() const override {
    return "plain C++ on one thread, sums in double precision";
  }
  bool Supports(Dtype dtype) const override {
    return dtype == Dtype::kF32 || dtype == Dtype::kF64 || dtype == Dtype::kBF16;
  }
  Dtype PreferredDtype() const override { return Dtype::kF32; }

  template <class Op>
  void Apply(const Op& op) {
    op.Check();
    if (Has(op, [](Dtype dtype) { return IsStored(dtype); })) {
      RunWidened(op);
    } else if (Has(op, [](Dtype dtype) { return dtype == Dtype::kF32; })) {
      Reference<float>::Run(op);
    } else {
      Reference<double>::Run(op);
    }
  }

 private:
  template <class Op>
  static void RunWidened(const Op& op) {
    const Widened<Op> widened(op);
    Reference<float>::Run(widened.op());
    widened.Store();
  }
  // act is computed from the rounded out.
  void RunWidened(LinearForward op) {
    const ActivationForward activation{.kind = op.activation, .x = op.out, .out = op.act};
    op.act = {};
    RunWidened<LinearForward>(op);
    if (activation.out) Apply(activation);
  }
};

}  // namespace

std::unique_ptr<Backend> MakeReferenceBackend() {
  return std::make_unique<ReferenceBackend>();
}

}  // namespace folio
