#include "folio/lesson/stepwise_attention.h"

#include <cmath>
#include <limits>

#include "folio/lesson/attention_steps.h"
#include "folio/model/config.h"

namespace folio {

AttentionMask::AttentionMask(const Shape& shape)
    : memory_(static_cast<size_t>(shape.count())), shape_(shape) {}

AttentionMask AttentionMask::Causal(int64_t T, int64_t S) {
  std::vector<uint8_t> all(static_cast<size_t>(S), 1);
  return Combined(Tensor(all.data(), {1, S}), T, /*causal=*/true);
}

AttentionMask AttentionMask::Combined(const Tensor& key_mask, int64_t T, bool causal) {
  FOLIO_CHECK(key_mask.shape().rank() == 2, "a mask of keys has the shape (B,S)");
  const int64_t B = key_mask.dim(0), S = key_mask.dim(1);
  const uint8_t* keys = key_mask.data<uint8_t>();
  AttentionMask mask({B, 1, T, S});
  auto at = mask.memory_.begin();
  for (int64_t b = 0; b < B; ++b) {
    for (int64_t t = 0; t < T; ++t) {
      // The last query stands at the last key.
      const int64_t seen = causal ? t + (S - T) + 1 : S;
      for (int64_t s = 0; s < S; ++s) *at++ = s < seen && keys[b * S + s] != 0;
    }
  }
  return mask;
}

StepwiseAttention::StepwiseAttention(Backend& backend, const AttentionSizes& sizes, int64_t B,
                                     int64_t T, int64_t S, const AttentionOptions& options,
                                     Dtype dtype)
    : backend_(backend), sizes_(sizes), B_(B), T_(T), S_(S), options_(options), dtype_(dtype) {
  sizes.Validate();
  FOLIO_CHECK(backend.Supports(dtype), "the backend does not compute in this dtype");
  FOLIO_CHECK(B >= 1 && T >= 1 && S >= 1, "attention without elements");
}

bool StepwiseAttention::Exponential() const {
  return options_.weighting == Weighting::kSoftmax ||
         options_.weighting == Weighting::kNaiveSoftmax;
}

double StepwiseAttention::scale() const {
  return options_.scale.value_or(1 / std::sqrt(static_cast<double>(sizes_.head_size())));
}

Tensor StepwiseAttention::Make(const Shape& shape) {
  return memory_.emplace_back(shape, dtype_).tensor();
}

Tensor StepwiseAttention::Projected(const Tensor& x, const LinearParams& layer,
                                    const Shape& shape) {
  if (!layer.weight) return x;
  const Tensor out = Make(shape);
  backend_.Run(LinearForward{.x = x, .weight = layer.weight, .bias = layer.bias, .out = out});
  return out;
}

const Tensor& StepwiseAttention::Forward(const AttentionParams& params, const Tensor& query,
                                         const Tensor& key, const Tensor& value) {
  memory_.clear();
  const Shape queries{B_ * T_, sizes_.d_out}, keys{B_ * S_, sizes_.kv_out()};
  q_ = Projected(query, params.q, queries);
  k_ = Projected(key, params.k, keys);
  v_ = Projected(value, params.v, keys);
  RunSteps();
  out_ = Projected(steps_.context, params.out, queries);
  return out_;
}

void StepwiseAttention::RunSteps() {
  const Shape all{B_, sizes_.H, T_, S_}, rows{B_ * sizes_.H * T_};
  steps_.scores = Make(all);
  AttentionScores(q_, k_, scale(), steps_.scores);
  steps_.masked = steps_.scores;
  if (Masks(MaskOrder::kBeforeSoftmax)) {
    steps_.masked = Make(all);
    ApplyMask(steps_.scores, options_.mask->tensor(),
              Exponential() ? -std::numeric_limits<double>::infinity() : 0, steps_.masked);
  }
  steps_.softmax = options_.weighting == Weighting::kNone ? steps_.masked : Make(all);
  if (options_.weighting == Weighting::kSoftmax) {
    Softmax(steps_.masked, steps_.softmax);
  } else if (options_.weighting == Weighting::kNaiveSoftmax) {
    NaiveSoftmax(steps_.masked, steps_.softmax);
  } else if (options_.weighting == Weighting::kSum) {
    weighting_sums_ = Make(rows);
    Normalize(steps_.masked, steps_.softmax, weighting_sums_);
  }
  steps_.weights = steps_.softmax;
  if (Masks(MaskOrder::kAfterSoftmax)) {
    steps_.weights = Make(all);
    masking_sums_ = Make(rows);
    ApplyMask(steps_.softmax, options_.mask->tensor(), 0, steps_.weights);
    Normalize(steps_.weights, steps_.weights, masking_sums_);
  }
  steps_.kept = steps_.weights;
  if (options_.dropout.active()) {
    steps_.kept = Make(all);
    backend_.Run(ResidualForward{
        .x = Rows(steps_.weights), .out = Rows(steps_.kept), .dropout = options_.dropout});
  }
  steps_.context = Make({B_ * T_, sizes_.d_out});
  AttentionContext(steps_.kept, v_, steps_.context);
}

void StepwiseAttention::RunStepsBackward(const Tensor& d_context, const Tensor& d_q,
                                         const Tensor& d_k, const Tensor& d_v) const {
  // `gradient` is the gradient of each step in turn, from the last to the first.
  const StepTensor gradient(steps_.scores.shape(), dtype_);
  const Tensor& d = gradient.tensor();
  AttentionContextBackward(steps_.kept, v_, d_context, d, d_v);
  if (options_.dropout.active()) {
    backend_.Run(ResidualBackward{.d_out = Rows(d), .d_x = Rows(d), .dropout = options_.dropout});
  }
  if (Masks(MaskOrder::kAfterSoftmax)) {
    NormalizeBackward(steps_.weights, masking_sums_, d, d);
    ApplyMask(d, options_.mask->tensor(), 0, d);
  }
  if (Exponential()) {
    SoftmaxBackward(steps_.softmax, d, d);
  } else if (options_.weighting == Weighting::kSum) {
    NormalizeBackward(steps_.softmax, weighting_sums_, d, d);
  }
  if (Masks(MaskOrder::kBeforeSoftmax)) ApplyMask(d, options_.mask->tensor(), 0, d);
  AttentionScoresBackward(q_, k_, scale(), d, d_q, d_k);
}

void StepwiseAttention::Backward(const AttentionParams& params, const Tensor& query,
                                 const Tensor& key, const Tensor& value, const Tensor& d_out,
                                 const AttentionParams& d_params, const Tensor& d_query,
                                 const Tensor& d_key, const Tensor& d_value) {
  const auto alike = [](const Tensor& a, const Tensor& b, const Tensor& d_a, const Tensor& d_b) {
    return (a.raw() == b.raw()) == (d_a.raw() == d_b.raw());
  };
  FOLIO_CHECK(alike(query, key, d_query, d_key) && alike(key, value, d_key, d_value) &&
                  alike(query, value, d_query, d_value),
              "the gradients of one sequence are one tensor, those of two are two");
  const auto project = [&](const Tensor& x, const LinearParams& layer, const Tensor& d,
                           const LinearParams& d_layer, const Tensor& d_x, bool accumulate) {
    if (!layer.weight) {
      const Tensor before = accumulate ? d_x : Tensor();
      return backend_.Run(ResidualForward{.residual = before, .x = d, .out = d_x});
    }
    backend_.Run(LinearBackward{.x = x,
                                .weight = layer.weight,
                                .d_out = d,
                                .d_x = d_x,
                                .d_weight = d_layer.weight,
                                .d_bias = d_layer.bias,
                                .accumulate_d_x = accumulate});
  };
  const StepTensor d_q(q_.shape(), dtype_), d_k(k_.shape(), dtype_), d_v(v_.shape(), dtype_);
  const StepTensor d_context(steps_.context.shape(), dtype_);
  if (params.out.weight) {
    project(steps_.context, params.out, d_out, d_params.out, d_context.tensor(), false);
  }
  RunStepsBackward(params.out.weight ? d_context.tensor() : d_out, d_q.tensor(), d_k.tensor(),
                   d_v.tensor());
  project(query, params.q, d_q.tensor(), d_params.q, d_query, false);
  project(key, params.k, d_k.tensor(), d_params.k, d_key, d_key.raw() == d_query.raw());
  project(value, params.v, d_v.tensor(), d_params.v, d_value,
          d_value.raw() == d_query.raw() || d_value.raw() == d_key.raw());
}

// ---- Forms with names ---------------------------------------------------------------------------

StepwiseAttention DotProductAttention(Backend& backend, int64_t H, int64_t G, int64_t D, int64_t B,
                                      int64_t T, int64_t S, const AttentionOptions& options,
                                      Dtype dtype) {
  const AttentionSizes sizes = {.d_in = H * D, .d_kv_in = G * D, .d_out = H * D, .H = H, .G = G};
  return StepwiseAttention(backend, sizes, B, T, S, options, dtype);
}

StepwiseAttention SimpleAttention(Backend& backend, int64_t B, int64_t T, int64_t C,
                                  Weighting weighting, Dtype dtype) {
  return DotProductAttention(backend, 1, 1, C, B, T, T, {.scale = 1.0, .weighting = weighting},
                             dtype);
}

StepwiseAttention SelfAttention(Backend& backend, const AttentionSizes& sizes, int64_t B, int64_t T,
                                const AttentionOptions& options, Dtype dtype) {
  FOLIO_CHECK(sizes.H == 1 && !sizes.out_proj && sizes.kv_in() == sizes.d_in,
              "one head of self-attention has one input and no output projection");
  return StepwiseAttention(backend, sizes, B, T, T, options, dtype);
}

StepwiseAttention CausalAttention(Backend& backend, const AttentionSizes& sizes, int64_t B,
                                  int64_t T, const AttentionOptions& options, Dtype dtype) {
  FOLIO_CHECK(!options.mask, "causal attention has a mask of its own");
  AttentionOptions causal = options;
  causal.mask = AttentionMask::Causal(T, T);
  return SelfAttention(backend, sizes, B, T, causal, dtype);
}

std::vector<StepwiseAttention> StackedHeads(Backend& backend, const AttentionSizes& sizes,
                                            int64_t heads, int64_t B, int64_t T,
                                            const AttentionOptions& options, Dtype dtype) {
  CheckSize("attention", {"the number of heads", heads});
  std::vector<StepwiseAttention> stack;
  AttentionOptions of_head = options;
  for (int64_t h = 0; h < heads; ++h) {
    stack.push_back(CausalAttention(backend, sizes, B, T, of_head, dtype));
    of_head.dropout.first_row += B * T;  // each head drops weights of its own
  }
  return stack;
}

StepTensor SideBySide(const std::vector<StepwiseAttention>& heads) {
  const Tensor& one = heads.front().out();
  const auto count = static_cast<int64_t>(heads.size());
  StepTensor all({one.dim(0), count * one.dim(1)}, one.dtype());
  for (int64_t h = 0; h < count; ++h) {
    CopyColumns(heads[static_cast<size_t>(h)].out(), 0, all.tensor(), h * one.dim(1), one.dim(1));
  }
  return all;
}

}  // namespace folio
