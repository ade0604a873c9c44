#include "folio/model/attention_steps.h"

#include <cmath>
#include <limits>

#include "folio/model/divisors.h"

namespace folio {

StepwiseAttention::StepwiseAttention(Backend& backend, int64_t B, int64_t T, int64_t S, int64_t D,
                                     int64_t Dv, const AttentionOptions& options, Dtype dtype)
    : backend_(backend), B_(B), T_(T), S_(S), D_(D), Dv_(Dv), options_(options) {
  FOLIO_CHECK(backend.Supports(dtype), "the backend does not compute in this dtype");
  FOLIO_CHECK(B >= 1 && T >= 1 && S >= 1 && D >= 1 && Dv >= 1, "attention without elements");
  const int64_t H = options_.H;
  if (options_.G == 0) options_.G = H;
  CheckDivides("attention", {"the number of heads of keys and values", options_.G},
               {"the number of heads of queries", H});
  const Shape all{B, H, T, S}, rows{B * H * T};
  MemoryPlan plan;
  const MemoryPlan::Id scores = plan.Add("scores", dtype, all);
  // There is one mask, before or after: the two steps never need a place at once.
  const MemoryPlan::Id masked = plan.Add("masked", dtype, all);
  const MemoryPlan::Id softmax = plan.Add("softmax", dtype, all);
  const MemoryPlan::Id kept = plan.Add("kept", dtype, all);
  const MemoryPlan::Id d_weights = plan.Add("d_weights", dtype, all);
  const MemoryPlan::Id context = plan.Add("context", dtype, {B * T, H * Dv});
  const MemoryPlan::Id weighting_sums = plan.Add("weighting_sums", dtype, rows);
  const MemoryPlan::Id masking_sums = plan.Add("masking_sums", dtype, rows);
  plan.Place();
  arena_ = Arena(plan);
  memory_ = {.scores = arena_.Get(plan, scores),
             .masked = arena_.Get(plan, masked),
             .softmax = arena_.Get(plan, softmax),
             .weights = arena_.Get(plan, masked),
             .kept = arena_.Get(plan, kept),
             .context = arena_.Get(plan, context)};
  steps_ = memory_;
  weighting_sums_ = arena_.Get(plan, weighting_sums);
  masking_sums_ = arena_.Get(plan, masking_sums);
  d_weights_ = arena_.Get(plan, d_weights);
}

bool StepwiseAttention::Exponential() const {
  return options_.weighting == Weighting::kSoftmax ||
         options_.weighting == Weighting::kNaiveSoftmax;
}

double StepwiseAttention::scale() const {
  return options_.scale.value_or(1 / std::sqrt(static_cast<double>(D_)));
}

void StepwiseAttention::Forward(const SequenceView& q, const SequenceView& k,
                                const SequenceView& v) {
  const int64_t H = options_.H, G = options_.G;
  backend_.Run(AttentionScoresForward{
      .q = q, .k = k, .scores = memory_.scores, .H = H, .G = G, .scale = scale()});
  steps_.masked = memory_.scores;
  if (Masks(MaskOrder::kBeforeSoftmax)) {
    steps_.masked = memory_.masked;
    backend_.Run(MaskForward{.x = memory_.scores,
                             .mask = options_.mask,
                             .out = memory_.masked,
                             .fill = Exponential() ? -std::numeric_limits<double>::infinity() : 0});
  }
  steps_.softmax = options_.weighting == Weighting::kNone ? steps_.masked : memory_.softmax;
  if (Exponential()) {
    backend_.Run(SoftmaxForward{.x = Rows(steps_.masked),
                                .out = Rows(memory_.softmax),
                                .naive = options_.weighting == Weighting::kNaiveSoftmax});
  } else if (options_.weighting == Weighting::kSum) {
    backend_.Run(NormalizeForward{
        .x = Rows(steps_.masked), .out = Rows(memory_.softmax), .sums = weighting_sums_});
  }
  steps_.weights = steps_.softmax;
  if (Masks(MaskOrder::kAfterSoftmax)) {
    steps_.weights = memory_.weights;
    backend_.Run(MaskForward{.x = steps_.softmax, .mask = options_.mask, .out = memory_.weights});
    const Tensor rows = Rows(memory_.weights);
    backend_.Run(NormalizeForward{.x = rows, .out = rows, .sums = masking_sums_});
  }
  steps_.kept = steps_.weights;
  if (options_.dropout.active()) {
    steps_.kept = memory_.kept;
    backend_.Run(ResidualForward{
        .x = Rows(steps_.weights), .out = Rows(memory_.kept), .dropout = options_.dropout});
  }
  backend_.Run(AttentionContextForward{.weights = steps_.kept,
                                       .v = v,
                                       .out = SequenceView(memory_.context, B_, T_, 0, H * Dv_),
                                       .H = H,
                                       .G = G});
}

void StepwiseAttention::Backward(const SequenceView& q, const SequenceView& k,
                                 const SequenceView& v, const Tensor& d_context,
                                 const SequenceView& d_q, const SequenceView& d_k,
                                 const SequenceView& d_v) {
  const int64_t H = options_.H, G = options_.G;
  const Tensor d = Rows(d_weights_);  // of each step in turn, from the last to the first
  backend_.Run(AttentionContextBackward{.weights = steps_.kept,
                                        .v = v,
                                        .d_out = SequenceView(d_context, B_, T_, 0, H * Dv_),
                                        .d_weights = d_weights_,
                                        .d_v = d_v,
                                        .H = H,
                                        .G = G});
  if (options_.dropout.active()) {
    backend_.Run(ResidualBackward{.d_out = d, .d_x = d, .dropout = options_.dropout});
  }
  if (Masks(MaskOrder::kAfterSoftmax)) {
    backend_.Run(NormalizeBackward{
        .out = Rows(steps_.weights), .sums = masking_sums_, .d_out = d, .d_x = d});
    backend_.Run(MaskForward{.x = d_weights_, .mask = options_.mask, .out = d_weights_});
  }
  if (Exponential()) {
    backend_.Run(SoftmaxBackward{.out = Rows(steps_.softmax), .d_out = d, .d_x = d});
  } else if (options_.weighting == Weighting::kSum) {
    backend_.Run(NormalizeBackward{
        .out = Rows(steps_.softmax), .sums = weighting_sums_, .d_out = d, .d_x = d});
  }
  if (Masks(MaskOrder::kBeforeSoftmax)) {
    backend_.Run(MaskForward{.x = d_weights_, .mask = options_.mask, .out = d_weights_});
  }
  backend_.Run(AttentionScoresBackward{.q = q,
                                       .k = k,
                                       .d_scores = d_weights_,
                                       .d_q = d_q,
                                       .d_k = d_k,
                                       .H = H,
                                       .G = G,
                                       .scale = scale()});
}

}  // namespace folio
