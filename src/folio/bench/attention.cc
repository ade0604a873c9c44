#include "folio/bench/attention.h"

#include "folio/base/clock.h"
#include "folio/base/math.h"
#include "folio/base/rng.h"
#include "folio/model/head_layout.h"
#include "folio/tensor/plan.h"

namespace folio {
namespace {

// The arrays, and the operations on them.
class AttentionBench {
 public:
  explicit AttentionBench(const AttentionShape& shape)
      : shape_(shape), heads_{shape.H, shape.H, shape.D} {
    const int64_t N = shape.B * shape.T;
    qkv_ = plan_.Add("qkv", shape.dtype, {N, heads_.qkv_width()});
    out_ = plan_.Add("out", shape.dtype, {N, heads_.q_width()});
    lse_ = plan_.Add("lse", Dtype::kF32, {shape.B, shape.H, shape.T});
    d_out_ = plan_.Add("d_out", shape.dtype, {N, heads_.q_width()});
    d_qkv_ = plan_.Add("d_qkv", shape.dtype, {N, heads_.qkv_width()});
    plan_.Place();
  }

  uint64_t bytes() const { return plan_.arena_bytes(); }

  void Allocate() {
    arena_ = Arena(plan_);
    FillRandom(arena_.Get(plan_, qkv_), 1);
    FillRandom(arena_.Get(plan_, d_out_), 2);
  }

  AttentionForward Forward() const {
    return {.q = Columns(qkv_, heads_.q()),
            .k = Columns(qkv_, heads_.k()),
            .v = Columns(qkv_, heads_.v()),
            .out = Columns(out_, heads_.q()),
            .lse = arena_.Get(plan_, lse_),
            .H = shape_.H,
            .dropout = DropoutHere()};
  }

  AttentionBackward Backward() const {
    return {.q = Columns(qkv_, heads_.q()),
            .k = Columns(qkv_, heads_.k()),
            .v = Columns(qkv_, heads_.v()),
            .out = Columns(out_, heads_.q()),
            .lse = arena_.Get(plan_, lse_),
            .d_out = Columns(d_out_, heads_.q()),
            .d_q = Columns(d_qkv_, heads_.q()),
            .d_k = Columns(d_qkv_, heads_.k()),
            .d_v = Columns(d_qkv_, heads_.v()),
            .H = shape_.H,
            .dropout = DropoutHere()};
  }

 private:
  Dropout DropoutHere() const { return {.p = shape_.dropout, .seed = 1}; }

  SequenceView Columns(MemoryPlan::Id id, const ColumnRange& columns) const {
    return View(arena_.Get(plan_, id), shape_.B, shape_.T, columns);
  }

  // Uniform in [-1, 1).
  static void FillRandom(const Tensor& tensor, uint64_t stream) {
    const CounterRng rng(1, stream);
    const size_t count = static_cast<size_t>(tensor.count());
    for (size_t i = 0; i < count; ++i) {
      const float x = static_cast<float>(rng.Bits(i)) * 0x1p-31f - 1;
      if (tensor.dtype() == Dtype::kBF16) {
        tensor.data<BF16>()[i] = ToBF16(x);
      } else {
        tensor.data<float>()[i] = x;
      }
    }
  }

  AttentionShape shape_;
  HeadLayout heads_;
  MemoryPlan plan_;
  MemoryPlan::Id qkv_, out_, lse_, d_out_, d_qkv_;
  Arena arena_;
};

}  // namespace

double AttentionTiming::flops_per_second() const {
  return flops / Median(seconds);
}

double AttentionRate::tokens_per_second() const {
  return static_cast<double>(shape.B * shape.T) /
         (Median(forward.seconds) + Median(backward.seconds));
}

uint64_t AttentionBytes(const AttentionShape& shape) {
  return AttentionBench(shape).bytes();
}

AttentionRate MeasureAttention(Backend& backend, const AttentionShape& shape, double seconds) {
  constexpr size_t kFewestRuns = 3;
  AttentionBench bench(shape);
  bench.Allocate();
  const AttentionForward forward = bench.Forward();
  const AttentionBackward backward = bench.Backward();
  AttentionRate rate{.shape = shape,
                     .forward = {.flops = forward.Flops()},
                     .backward = {.flops = backward.Flops()},
                     .planned_bytes = bench.bytes()};
  backend.Run(forward);
  backend.Run(backward);
  for (double sum = 0; sum < seconds || rate.forward.seconds.size() < kFewestRuns;) {
    rate.forward.seconds.push_back(SecondsOf([&] { backend.Run(forward); }));
    rate.backward.seconds.push_back(SecondsOf([&] { backend.Run(backward); }));
    sum += rate.forward.seconds.back() + rate.backward.seconds.back();
  }
  return rate;
}

}  // namespace folio
