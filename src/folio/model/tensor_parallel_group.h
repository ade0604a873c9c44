#pragma once

#include <cstddef>
#include <vector>

#include "folio/model/config.h"
#include "folio/ranks/group.h"
#include "folio/tensor/tensor.h"

namespace folio {

// The ranks that have the shards of a model, by the shards' index.
class TensorParallelGroup {
 public:
  // The team's group must outlive it.
  explicit TensorParallelGroup(const Communicator& team) : communicator_(team) {}

  virtual ~TensorParallelGroup() = default;

  // x, of which each has as much, becomes the sum of everybody's, added up in their order and then
  // rounded, once, to its dtype: the same bits for all. F32, F64 or BF16.
  virtual void Sum(const Tensor& x);
  // Makes of the losses (R) of this shard of the vocabulary, and of their log-sum-exps, those of
  // all of it. A row whose target is in another shard has no loss here. lse_parts is scratch of at
  // least a number for each row and shard.
  virtual void JoinLosses(const Shard& shard, const Tensor& targets, const Tensor& lse_parts,
                          const Tensor& lse, const Tensor& losses);

  const Communicator& communicator() const { return communicator_; }

 private:
  Communicator communicator_;
  std::vector<std::byte> received_;  // pieces of a sum, by rank
};

}  // namespace folio
