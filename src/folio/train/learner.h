#pragma once

#include <cstdint>
#include <span>

#include "folio/model/gpt.h"
#include "folio/train/adamw.h"

namespace folio {

// The arithmetic of a training step, without data, schedule or files:
//   Begin(); Accumulate(...) once for each micro-batch; Finish(...).
// The gradient is that of the one big batch that the micro-batches make up.
class Learner {
 public:
  // `backend` and `weights` must outlive it. Every micro-batch has B sequences of T tokens. What is
  // trained (ParamRow::trained) has gradients and moments, and changes. Gradients and moments are
  // of the weights' dtype. REQUIRES: that is options.number().
  Learner(Backend& backend, GptWeights& weights, int64_t B, int64_t T,
          const PassOptions& options = {});

  // Everything that training in this shape keeps in memory, with nothing allocated.
  static MemoryPlan Plan(const GptConfig& config, int64_t B, int64_t T,
                         const PassOptions& options = {});

  // The gradient is zero from here on; grads() shows what it is after Accumulate.
  void Begin();

  // Adds the gradient of scale * (sum of the losses of these targets); returns that sum, in nats.
  // inputs and targets are (B*T); dropout.on applies the configuration's rates; `begins` is of
  // GptPass::set_begins.
  double Accumulate(std::span<const int32_t> inputs, std::span<const int32_t> targets, double scale,
                    DropoutContext dropout, std::span<const int32_t> begins = {});

  // The norm of the gradient that was accumulated.
  double Norm();
  // Makes one AdamW step with the gradient, of this norm, clipped. `step` counts from 1.
  void Update(const AdamWSettings& settings, double lr, double clip, int64_t step, double norm);
  // Both; returns the norm.
  double Finish(const AdamWSettings& settings, double lr, double clip, int64_t step);

  GptPass& pass() { return pass_; }
  AdamW& optimizer() { return optimizer_; }
  const Tensor& grads() const { return grads_.flat(); }

 private:
  Backend& backend_;
  GptWeights& weights_;
  GptPass pass_;
  GptWeights grads_;
  AdamW optimizer_;
  bool empty_ = true;  // nothing was accumulated: the next micro-batch writes over what is there
};

// Bytes of Learner::Plan without recomputation and with it.
struct RecomputeBytes {
  size_t without = 0, with = 0;

  int64_t saved() const { return static_cast<int64_t>(without) - static_cast<int64_t>(with); }
};
RecomputeBytes CompareRecompute(const GptConfig& config, int64_t B, int64_t T, Dtype dtype);

}  // namespace folio
