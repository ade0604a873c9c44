#include "folio/train/learner.h"

#include <utility>

#include "folio/train/clip.h"

namespace folio {

Learner::Learner(Backend& backend, GptWeights& weights, int64_t B, int64_t T,
                 const PassOptions& options)
    : backend_(backend),
      weights_(weights),
      pass_(backend, weights.config(), B, T, PassKind::kTraining, options),
      grads_(weights.config(), weights.flat().dtype(), ParamPart::kTrained),
      optimizer_(backend, weights.table(), weights.flat().dtype()) {
  FOLIO_CHECK(weights.flat().dtype() == options.number(), "weights are of another dtype");
}

MemoryPlan Learner::Plan(const GptConfig& config, int64_t B, int64_t T,
                         const PassOptions& options) {
  MemoryPlan plan;
  const ParamTable table(config);
  plan.Add("weights", options.number(), {table.flat_size()});
  for (const char* name : {"gradients", "adamw.m", "adamw.v"}) {
    plan.Add(name, options.number(), {table.trained_size()});
  }
  const MemoryPlan pass = GptPass::Plan(config, B, T, PassKind::kTraining, options);
  for (const MemoryPlan::Buffer& buffer : pass.buffers()) {
    plan.Add(buffer.name, buffer.dtype, buffer.shape, buffer.first_tick, buffer.last_tick);
  }
  plan.Place();
  return plan;
}

RecomputeBytes CompareRecompute(const GptConfig& config, int64_t B, int64_t T, Dtype dtype) {
  const auto bytes = [&](bool recompute) {
    return Learner::Plan(config, B, T, {.dtype = dtype, .recompute = recompute}).arena_bytes();
  };
  return {.without = bytes(false), .with = bytes(true)};
}

void Learner::Begin() {
  empty_ = true;
}

double Learner::Accumulate(std::span<const int32_t> inputs, std::span<const int32_t> targets,
                           double scale, DropoutContext dropout, std::span<const int32_t> begins) {
  if (pass_.packed()) pass_.set_begins(begins);
  pass_.Forward(weights_.params(), inputs, dropout);
  const bool accumulate = !std::exchange(empty_, false);
  return pass_.LossAndBackward(weights_.params(), targets, scale, grads_.params(), accumulate);
}

double Learner::Norm() {
  if (empty_) backend_.Run(Fill{.out = grads_.flat(), .value = 0});
  return GradientNorm(backend_, grads_.flat());
}

void Learner::Update(const AdamWSettings& settings, double lr, double clip, int64_t step,
                     double norm) {
  optimizer_.Step(settings, lr, step, ClipScale(norm, clip), weights_.flat(), grads_.flat());
}

double Learner::Finish(const AdamWSettings& settings, double lr, double clip, int64_t step) {
  const double norm = Norm();
  Update(settings, lr, clip, step, norm);
  return norm;
}

}  // namespace folio
