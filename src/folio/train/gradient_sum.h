#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "folio/backend/backend.h"
#include "folio/model/params.h"
#include "folio/model/transformer.h"
#include "folio/ranks/group.h"
#include "folio/tensor/memory_plan.h"
#include "folio/train/buckets.h"

namespace folio {

// The division of the micro-batches of a step among ranks, and the way in which their gradients
// come together.
struct Parallelism {
  Group* group = nullptr;     // null: one rank alone
  int tensor = 1;             // ranks that share the layers of a model (Shard), and its data
  int64_t micro_batches = 1;  // of this rank
  // The number of micro-batches in a row that a rank adds up before it sends their gradients;
  // divides micro_batches.
  int64_t reduce_every = 1;
  Dtype reduce = Dtype::kF32;  // each such sum is rounded to this before it is added: F32 or BF16

  // The ranks that have the same shard of the model and share the data.
  Communicator data() const { return DataCommunicator(group, tensor); }
  // The number in the step of this rank's turn-th micro-batch: those that it adds up are
  // consecutive, and its n-th sum is number n * D + d of the step, where it is the d-th of D ranks
  // in data().
  int64_t MicroBatch(int64_t turn) const {
    const Communicator communicator = data();
    return (turn / reduce_every * communicator.size() + communicator.rank()) * reduce_every +
           turn % reduce_every;
  }
};

// The parallelism of a plan for the first of so many ranks that share the data; the other members
// are as in Parallelism.
struct PlannedParallelism {
  int ranks = 1;
  int64_t micro_batches = 1, reduce_every = 1;
  Dtype reduce = Dtype::kF32;
};

// The gradient of a step: the sum of those of its micro-batches, of reduce_every in a row first and
// then of these sums, in their order whoever computed them, so that its bits do not depend on the
// number of ranks. Each element is added up by the rank that owns it (buckets.h), which gets it
// from the others while their backward still runs: a reduce-scatter by an all-to-all, which moves
// as many bytes as a ring. That is ZeRO's stage 2 (S. Rajbhandari et al., arXiv:1910.02054): a rank
// keeps its part of the sum, and of the gradient of a micro-batch no more than what was not sent
// yet.
class GradientSum {
 public:
  // REQUIRES: `dtype` is F32 unless one rank adds up in F32 or F64. All must outlive it.
  GradientSum(Backend& backend, const ParamTable& table, const Shards& shards, Dtype dtype,
              const Parallelism& parallelism);
  ~GradientSum();
  GradientSum(const GradientSum&) = delete;

  // The number of places that the gradients of blocks take in turns: two where each leaves before
  // the micro-batch is over.
  static int64_t PlacesOf(int64_t n_layer, int64_t reduce_every) {
    return reduce_every > 1 ? n_layer : 2;
  }
  // Adds the buffers of such a sum, of the first of the shards' ranks, to a plan.
  static void AddTo(MemoryPlan& plan, const GptConfig& config, const Shards& shards, Dtype dtype,
                    const PlannedParallelism& parallelism);

  // The sum is zero from here on.
  void Begin() { micro_batches_ = 0; }
  bool empty() const { return micro_batches_ == 0; }
  // Waits until the place is free in which the backward writes the gradient of the next
  // micro-batch, and returns it.
  const GptParams& BeginMicroBatch();
  // Returns true if the gradient is added there to those of the micro-batches before it.
  bool adds() const { return (micro_batches_ - 1) % parallelism_.reduce_every > 0; }
  // The backward is about to write the gradients of a block; those of a layer (LayerGate) are
  // complete.
  void BeforeBlock(int64_t layer);
  void AfterLayer(int64_t layer);
  // Waits until all is added up. Only the thread that calls it and AfterLayer uses the backend's
  // memory: several ranks add up in the host's.
  void Finish();

  // This rank's pieces of the sum, or all of it for one alone. REQUIRES: Finish.
  const Tensor& sum() const { return sum_.device; }
  const Parallelism& parallelism() const { return parallelism_; }
  // Fills what this rank keeps with zeros.
  void Clear();
  // The parameter whose gradient lies at `at`, in the layer that the backward is in or in the sum
  // of one rank alone; "" if none does.
  std::string NameAt(const std::byte* at, const ParamTable& table) const;

 private:
  class Reduction;

  void BindParts(const ParamTable& table);
  Mirror PartOf(size_t bucket, int64_t begin, int64_t end) const;
  void AddPart(const ShardBucket& bucket, size_t index);
  // Returns true if the backward writes the first gradient that the step adds up.
  bool first() const { return micro_batches_ <= parallelism_.reduce_every; }

  Backend& backend_;
  const Shards& shards_;
  Parallelism parallelism_;
  Communicator communicator_;
  MemoryPlan plan_, exchange_plan_;
  Arena arena_, exchange_arena_;          // of the backend's memory, and of the host's
  Mirror sum_, part_;                     // of one rank alone: no mirrors, both are the backend's
  std::vector<int64_t> part_places_;      // by bucket: its place in part_
  std::vector<Tensor> scratch_, packed_;  // by slot: what others send; what goes out as BF16
  std::vector<Tensor> in_sum_, in_part_;  // of the parameters, in the order of the table
  GptParams into_sum_, into_part_;
  int64_t n_layer_ = 0;
  int64_t micro_batches_ = 0;                           // begun
  int64_t block_ = -1;                                  // that the backward is in, or was in last
  std::vector<std::unique_ptr<Reduction>> reductions_;  // by bucket, with several ranks
  std::vector<uint64_t> tickets_;
};

}  // namespace folio
