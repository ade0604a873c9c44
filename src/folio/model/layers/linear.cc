#include "folio/model/layers/linear.h"

#include <utility>

namespace folio {
namespace {

// Returns x (N,in) as the adapter reads it: in `scratch`, if it is dropped from.
Tensor AdapterInput(const PassContext& pass, const Dropout& dropout, const Tensor& x,
                    const Tensor& scratch) {
  if (!dropout.active()) return x;
  const Tensor dropped = scratch.First(x.shape());
  pass.backend.Run(ResidualForward{.x = x, .out = dropped, .dropout = dropout});
  return dropped;
}

// Calls visit(columns of `spread`, rows of `b`) for each adapter: the second matrices (out,rank) of
// adapters of parts, and their places in one matrix (out,p rank), which is zero elsewhere.
template <class Visit>
void ForEachPart(const AdaptedColumns& adapted, const Tensor& spread, const Tensor& b,
                 const Visit& visit) {
  const int64_t rank = b.dim(1);
  int64_t row = 0;
  for (int64_t i = 0; i < adapted.count; ++i) {
    const ColumnRange& range = adapted.ranges[static_cast<size_t>(i)];
    const Tensor rows = b.Slice(row, row + range.width);
    visit(SequenceView(spread.Slice(range.begin, range.end()), 1, range.width, i * rank, rank),
          SequenceView(rows, 1, range.width, 0, rank));
    row += range.width;
  }
}

// Returns the matrix with which an adapter's results enter those of the layer: `b`, or what
// `spread` becomes.
Tensor SecondMatrix(const PassContext& pass, const AdaptedColumns& adapted, const Tensor& b,
                    const Tensor& spread) {
  if (!adapted.parts) return b;
  pass.backend.Run(Fill{.out = spread, .value = 0});
  ForEachPart(adapted, spread, b, [&](const SequenceView& place, const SequenceView& part) {
    pass.backend.Run(CopyColumns{.x = part, .out = place});
  });
  return spread;
}

}  // namespace

ColumnRange PartColumns(const GptConfig& config, const Linear& linear, size_t part) {
  if (linear.axis == ShardAxis::kQkv) return config.head_layout().columns()[part];
  return {static_cast<int64_t>(part) * config.inner(), config.inner()};
}

AdaptedColumns AdaptedColumnsOf(const GptConfig& config, const LoraConfig& lora,
                                const Linear& linear, int64_t width) {
  AdaptedColumns adapted;
  if (!lora.on()) return adapted;
  if (lora.Adapts(linear.name)) {
    adapted.ranges[0] = {0, width};
    adapted.count = 1;
    return adapted;
  }
  for (size_t part = 0; part < linear.parts.size(); ++part) {
    if (!lora.Adapts(linear.parts[part])) continue;
    adapted.ranges[static_cast<size_t>(adapted.count++)] = PartColumns(config, linear, part);
    adapted.parts = true;
  }
  return adapted;
}

bool IsTrained(const LoraConfig& lora, const Linear& linear) {
  return !lora.on() || lora.Adapts(linear.name) ||
         std::ranges::any_of(linear.parts, [&](auto part) { return lora.Adapts(part); });
}

void LinearLayerForward(const PassContext& pass, int64_t layer, const Linear& linear,
                        const LinearParams& params, const LinearActivations& acts,
                        const Tensor& scratch, LinearForward op) {
  op.weight = params.weight;
  if (!linear.shares_input() || pass.shard.index == 0) op.bias = params.bias;
  op.transposed = IsStored(op.weight.dtype()) && op.x.dtype() != Dtype::kBF16;
  if (!params.lora_a) {
    pass.backend.Run(op);
    if (linear.shares_input()) pass.Sum(op.out);
    return;
  }
  FOLIO_CHECK(pass.shard.whole(), "adapters are whole");
  const Dropout dropout = pass.BlockDropout(layer, linear.adapter_dropout);
  const AdaptedColumns adapted = AdaptedColumnsOf(pass.config, pass.lora, linear, op.out.dim(1));
  const Tensor act = std::exchange(op.act, Tensor());
  pass.backend.Run(op);
  pass.backend.Run(LinearForward{.x = AdapterInput(pass, dropout, op.x, scratch),
                                 .weight = params.lora_a,
                                 .out = acts.adapted,
                                 .transposed = true});
  pass.backend.Run(Scale{.x = acts.adapted, .factor = pass.lora.scale()});
  pass.backend.Run(LinearForward{.x = acts.adapted,
                                 .weight = SecondMatrix(pass, adapted, params.lora_b, acts.spread),
                                 .out = op.out,
                                 .transposed = true,
                                 .accumulate = true});
  if (act) pass.backend.Run(ActivationForward{.kind = op.activation, .x = op.out, .out = act});
}

void LinearLayerBackward(const PassContext& pass, int64_t layer, const Linear& linear,
                         const LinearParams& params, const LinearActivations& acts,
                         const LinearParams& d_params, const GptGradients& grads,
                         LinearBackward op) {
  op.weight = params.weight;
  op.d_weight = d_params.weight;
  op.d_bias = d_params.bias;
  op.accumulate_d_weight = pass.accumulate;
  const Tensor x = op.x;
  if (!op.d_weight) op.x = {};
  if (!params.lora_a) {
    const bool sums = !linear.shares_input() && !pass.shard.whole();
    FOLIO_CHECK(!sums || !op.accumulate_d_x, "a sum would have what is there several times");
    pass.backend.Run(op);
    if (sums) pass.Sum(op.d_x);
    return;
  }
  // The adapter goes first: its gradient of x alone is dropped from.
  const Dropout dropout = pass.BlockDropout(layer, linear.adapter_dropout);
  FOLIO_CHECK(!dropout.active() || !op.accumulate_d_x, "dropout would meet other gradients");
  const int64_t O = op.d_out.dim(1), ranks = params.lora_a.dim(0);
  const AdaptedColumns adapted = AdaptedColumnsOf(pass.config, pass.lora, linear, O);
  const Tensor d_lora = grads.d_lora.First(acts.adapted.shape());
  const Tensor b = SecondMatrix(pass, adapted, params.lora_b, grads.lora_spread.First({O, ranks}));
  const Tensor d_b = adapted.parts ? grads.d_lora_spread.First({O, ranks}) : d_params.lora_b;
  pass.backend.Run(LinearBackward{.x = acts.adapted,
                                  .weight = b,
                                  .d_out = op.d_out,
                                  .d_x = d_lora,
                                  .d_weight = d_b,
                                  .transposed = true,
                                  .accumulate_d_weight = !adapted.parts && pass.accumulate});
  if (adapted.parts) {
    ForEachPart(
        adapted, d_b, d_params.lora_b, [&](const SequenceView& place, const SequenceView& part) {
          pass.backend.Run(CopyColumns{.x = place, .out = part, .accumulate = pass.accumulate});
        });
  }
  pass.backend.Run(Scale{.x = d_lora, .factor = pass.lora.scale()});
  pass.backend.Run(LinearBackward{.x = AdapterInput(pass, dropout, x, grads.lora_input),
                                  .weight = params.lora_a,
                                  .d_out = d_lora,
                                  .d_x = op.d_x,
                                  .d_weight = d_params.lora_a,
                                  .transposed = true,
                                  .accumulate_d_x = op.accumulate_d_x,
                                  .accumulate_d_weight = pass.accumulate});
  pass.Drop(op.d_x, dropout);
  op.accumulate_d_x = true;
  const Tensor pre = std::exchange(op.pre, Tensor());
  pass.backend.Run(op);
  if (!pre) return;
  pass.backend.Run(
      ActivationBackward{.kind = op.activation, .x = pre, .d_out = op.d_x, .d_x = op.d_x});
}

}  // namespace folio
