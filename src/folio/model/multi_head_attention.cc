#include "folio/model/multi_head_attention.h"

namespace folio {
namespace {

AttentionSizes Validated(const AttentionSizes& sizes) {
  sizes.Validate();
  return sizes;
}

AttentionOptions WithSizes(AttentionOptions options, const AttentionSizes& sizes) {
  options.H = sizes.H;
  options.G = sizes.kv_heads();
  options.scale = {};
  return options;
}

}  // namespace

MultiHeadAttention::MultiHeadAttention(Backend& backend, const AttentionSizes& sizes, int64_t B,
                                       int64_t T, int64_t S, const AttentionOptions& options,
                                       Dtype dtype)
    : backend_(backend),
      sizes_(Validated(sizes)),
      B_(B),
      T_(T),
      S_(S),
      attention_(backend, B, T, S, sizes.head_size(), sizes.head_size(), WithSizes(options, sizes),
                 dtype) {
  const Shape queries{B * T, sizes.d_out}, keys{B * S, sizes.kv_heads() * sizes.head_size()};
  MemoryPlan plan;
  const MemoryPlan::Id q = plan.Add("q", dtype, queries), d_q = plan.Add("d_q", dtype, queries);
  const MemoryPlan::Id k = plan.Add("k", dtype, keys), d_k = plan.Add("d_k", dtype, keys);
  const MemoryPlan::Id v = plan.Add("v", dtype, keys), d_v = plan.Add("d_v", dtype, keys);
  MemoryPlan::Id out = 0, d_context = 0;
  if (sizes.out_proj) {
    out = plan.Add("out", dtype, queries);
    d_context = plan.Add("d_context", dtype, queries);
  }
  plan.Place();
  arena_ = Arena(plan);
  q_ = arena_.Get(plan, q), d_q_ = arena_.Get(plan, d_q);
  k_ = arena_.Get(plan, k), d_k_ = arena_.Get(plan, d_k);
  v_ = arena_.Get(plan, v), d_v_ = arena_.Get(plan, d_v);
  out_ = sizes.out_proj ? arena_.Get(plan, out) : attention_.steps().context;
  if (sizes.out_proj) d_context_ = arena_.Get(plan, d_context);
}

const Tensor& MultiHeadAttention::Forward(const AttentionParams& params, const Tensor& query,
                                          const Tensor& key_value) {
  const auto project = [&](const Tensor& x, const LinearParams& layer, const Tensor& out) {
    backend_.Run(LinearForward{.x = x, .weight = layer.weight, .bias = layer.bias, .out = out});
  };
  project(query, params.q, q_);
  project(key_value, params.k, k_);
  project(key_value, params.v, v_);
  attention_.Forward(Queries(q_), Keys(k_), Keys(v_));
  if (sizes_.out_proj) project(attention_.steps().context, params.out, out_);
  return out_;
}

void MultiHeadAttention::Backward(const AttentionParams& params, const Tensor& query,
                                  const Tensor& key_value, const Tensor& d_out,
                                  const AttentionParams& d_params, const Tensor& d_query,
                                  const Tensor& d_key_value) {
  const bool self = key_value.raw() == query.raw();
  FOLIO_CHECK(self == (d_key_value.raw() == d_query.raw()),
              "the gradients of one sequence are one tensor, those of two are two");
  const auto project = [&](const Tensor& x, const LinearParams& layer, const Tensor& d,
                           const LinearParams& d_layer, const Tensor& d_x, bool accumulate) {
    backend_.Run(LinearBackward{.x = x,
                                .weight = layer.weight,
                                .d_out = d,
                                .d_x = d_x,
                                .d_weight = d_layer.weight,
                                .d_bias = d_layer.bias,
                                .accumulate_d_x = accumulate});
  };
  if (sizes_.out_proj) {
    project(attention_.steps().context, params.out, d_out, d_params.out, d_context_, false);
  }
  attention_.Backward(Queries(q_), Keys(k_), Keys(v_), sizes_.out_proj ? d_context_ : d_out,
                      Queries(d_q_), Keys(d_k_), Keys(d_v_));
  project(query, params.q, d_q_, d_params.q, d_query, false);
  project(key_value, params.k, d_k_, d_params.k, d_key_value, self);
  project(key_value, params.v, d_v_, d_params.v, d_key_value, true);
}

}  // namespace folio
