#include "folio/model/gpt.h"

#include "folio/model/block.h"
#include "folio/model/head.h"
#include "folio/model/norm.h"
#include "folio/model/pass_plan.h"

namespace folio {

MemoryPlan GptPass::Plan(const GptConfig& config, int64_t B, int64_t T, PassKind kind,
                         const PassOptions& options) {
  return PassPlan(config, B, T, kind, options).memory;
}

GptPass::GptPass(Backend& backend, const GptConfig& config, int64_t B, int64_t T, PassKind kind,
                 const PassOptions& options)
    : config_(config),
      pass_{.backend = backend, .config = config_, .B = B, .T = T},
      kind_(kind),
      options_(options) {
  FOLIO_CHECK(backend.Supports(options.dtype), "the backend does not compute in this dtype");
  FOLIO_CHECK(B >= 1 && 1 <= T && T <= config.n_positions, "batch or context out of range");
  PassPlan plan(config, B, T, kind, options);
  arena_ = Arena(plan.memory);
  ids_ = arena_.Get(plan.memory, plan.ids);
  targets_ = arena_.Get(plan.memory, plan.targets);
  sinusoids_ = plan.Sinusoids(arena_);
  acts_ = plan.activations.Activations(plan.memory, arena_);
  if (kind == PassKind::kTraining) grads_ = plan.activations.Gradients(plan.memory, arena_);
  plan_ = std::move(plan.memory);
}

void GptPass::set_trace(TraceSink* trace) {
  FOLIO_CHECK(trace == nullptr || options_.dtype != Dtype::kBF16, "a trace is not of bfloat16");
  pass_.trace = trace;
}

Tensor GptPass::BlockInput(size_t layer) const {
  return layer == 0 ? acts_.embedded : BlockOutput(config_, acts_.h[layer - 1]);
}

void GptPass::Forward(const GptParams& params, std::span<const int32_t> ids,
                      DropoutContext dropout) {
  FOLIO_CHECK(!dropout.on || kind_ == PassKind::kTraining, "dropout is for training");
  CopyTokens(ids, ids_, 0, config_.vocab_size);
  pass_.dropout = dropout;
  pass_.backend.Run(EmbeddingForward{.ids = ids_,
                                     .wte = params.wte,
                                     .wpe = sinusoids_ ? sinusoids_ : params.wpe,
                                     .out = acts_.embedded});
  if (const Dropout drop = pass_.EmbeddingDropout(); drop.active()) {
    pass_.backend.Run(ResidualForward{.x = acts_.embedded, .out = acts_.embedded, .dropout = drop});
  }
  pass_.Show(TracePoint::kEmbedded, 0, acts_.embedded);
  for (size_t l = 0; l < acts_.h.size(); ++l) {
    BlockForward(pass_, static_cast<int64_t>(l), params.h[l], acts_.h[l], BlockInput(l),
                 acts_.branch);
  }
  NormForward(pass_, params.ln_f, BlockInput(acts_.h.size()), acts_.norm_f);
  pass_.Show(TracePoint::kFinal, 0, acts_.norm_f.out);
}

void GptPass::Logits(const GptParams& params, int64_t begin, int64_t end, const Tensor& out) {
  HeadLogits(pass_, params, acts_, begin, end, out);
}

double GptPass::Loss(const GptParams& params, std::span<const int32_t> targets) {
  CopyTokens(targets, targets_, CrossEntropyForward::kIgnore, config_.vocab_size);
  HeadForward(pass_, params, acts_, targets_);
  return SumOfLosses();
}

double GptPass::LossAndBackward(const GptParams& params, std::span<const int32_t> targets,
                                double scale, const GptParams& d_params, bool accumulate) {
  FOLIO_CHECK(kind_ == PassKind::kTraining, "a forward pass has no backward");
  CopyTokens(targets, targets_, CrossEntropyForward::kIgnore, config_.vocab_size);
  pass_.accumulate = accumulate;
  if (!accumulate) ZeroWhatIsAddedTo(d_params);
  // d_branch holds the gradient of the final LayerNorm's result until that is gone through.
  HeadForwardBackward(pass_, params, acts_, targets_, scale, d_params, grads_);
  NormBackward(pass_, params.ln_f, BlockInput(acts_.h.size()), acts_.norm_f, grads_.d_branch,
               d_params.ln_f, grads_.d_stream, false);
  for (size_t l = acts_.h.size(); l-- > 0;) {
    BlockBackward(pass_, static_cast<int64_t>(l), params.h[l], acts_.h[l], BlockInput(l),
                  d_params.h[l], grads_);
  }
  if (const Dropout drop = pass_.EmbeddingDropout(); drop.active()) {
    pass_.backend.Run(
        ResidualBackward{.d_out = grads_.d_stream, .d_x = grads_.d_stream, .dropout = drop});
  }
  pass_.backend.Run(EmbeddingBackward{
      .ids = ids_, .d_out = grads_.d_stream, .d_wte = d_params.wte, .d_wpe = d_params.wpe});
  return SumOfLosses();
}

void GptPass::ZeroWhatIsAddedTo(const GptParams& d_params) {
  VisitParams(config_, d_params, [&](const ParamRow& row, const Tensor& d) {
    if (!IsLinearWeight(row.kind)) pass_.backend.Run(Fill{.out = d, .value = 0});
  });
}

double GptPass::SumOfLosses() const {
  double sum = 0;
  for (int64_t n = 0; n < acts_.losses.count(); ++n) {
    sum += acts_.losses.dtype() == Dtype::kF64 ? acts_.losses.data<double>()[n]
                                               : acts_.losses.data<float>()[n];
  }
  return sum;
}

}  // namespace folio
