#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "folio/model/context.h"
#include "folio/model/params.h"

namespace folio {

struct PassBuffers;

// GPT-2 (A. Radford et al., 2019) over batches of B sequences of T tokens: forward, loss and
// backward, composed of a backend's operations on buffers planned beforehand. Owns the activations,
// not the weights; after construction it allocates nothing.
class GptPass {
 public:
  // Plans and allocates. Throws a kUsage Error unless B and T are at least 1, T <= n_positions and
  // the backend supports the options' dtype, and a kResource Error if memory does not suffice.
  // `backend` must outlive the pass. REQUIRES: weights and their gradients are in the options'
  // number().
  GptPass(Backend& backend, const GptConfig& config, int64_t B, int64_t T, PassKind kind,
          const PassOptions& options = {});
  GptPass(const GptPass&) = delete;
  ~GptPass();

  // The buffers of such a pass, without allocating them.
  static MemoryPlan Plan(const GptConfig& config, int64_t B, int64_t T, PassKind kind,
                         const PassOptions& options = {});

  int64_t B() const { return pass_.B; }
  int64_t T() const { return pass_.T; }
  bool packed() const { return shape_.options.packed; }
  const MemoryPlan& plan() const { return plan_; }

  // Masks and begins of a wrong shape or dtype, and ids and targets that are too many, too few or
  // no tokens, are kUsage Errors here and below, and leave the pass as it was.

  // Keys that may be attended to, (B,T) u8 in the host's memory, for the passes to come; empty for
  // all.
  void set_key_mask(Tensor key_mask);
  // Which key each query may attend to beside what the configuration says, for the passes to come:
  // u8, 0 to hide it, or a number() that is added to its score, for each of B sequences or one for
  // all, (B or 1,1,T,T), in the host's memory; empty for none. Must outlive those passes. ops.h
  // says more.
  void set_mask(Tensor mask);
  // For the passes to come, texts that lie side by side in a sequence, none of which knows of the
  // others: a token attends only to those of its text and has its position in it. (B*T): where, in
  // its sequence, the text of each token begins; empty where each sequence is one text. REQUIRES:
  // options.packed, and no set_mask.
  void set_begins(std::span<const int32_t> begins);
  // The trace receives the insides of later passes; null: none does. REQUIRES: not BF16.
  void set_trace(TraceSink* trace);
  // The gate is called before parameters are read, and when gradients are ready; null: none is.
  void set_gate(LayerGate* gate) { pass_.gate = gate; }
  // The ranks that have all shards of the model, and run the same passes at the same time.
  void set_group(TensorParallelGroup* group) { pass_.group = group; }

  // Runs the model on ids (B*T, each in [0,V)) up to the final LayerNorm.
  void Forward(const GptParams& params, std::span<const int32_t> ids, DropoutContext dropout = {});

  // After Forward, and after what follows it: the logits of rows [begin, end) of the N = B*T, into
  // out (end - begin, V) in the backend's memory.
  void Logits(const GptParams& params, int64_t begin, int64_t end, const Tensor& out);

  // After Forward: the sum of the losses of all rows, in nats; targets (B*T), -1 for rows that do
  // not count.
  double Loss(const GptParams& params, std::span<const int32_t> targets);

  // The same, and the gradient of scale * (that sum): added to d_params, or written over them.
  // REQUIRES: kTraining.
  double LossAndBackward(const GptParams& params, std::span<const int32_t> targets, double scale,
                         const GptParams& d_params, bool accumulate = true);

  // The same, without waiting for it: the sum goes to loss_sum, (1) f64 in the backend's memory.
  void Backward(const GptParams& params, std::span<const int32_t> targets, double scale,
                const GptParams& d_params, bool accumulate, const Tensor& loss_sum);

  // Losses of the rows, after Loss or LossAndBackward, (N), for the host.
  const Tensor& losses() const;

 private:
  // All gradients but those that LinearBackward writes over.
  void ZeroWhatIsAddedTo(const GptParams& d_params);
  double LossSum() const;

  GptConfig config_;
  PassShape shape_;
  DeviceCopy key_mask_, mask_;
  PassContext pass_;
  MemoryPlan plan_;
  Arena arena_;
  double loss_ = 0;
  DeviceCopy loss_sum_;  // of loss_
  std::unique_ptr<PassBuffers> buffers_;
};

}  // namespace folio
