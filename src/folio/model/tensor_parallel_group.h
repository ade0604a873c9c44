#pragma once

#include <cstddef>
#include <vector>

#include "folio/dist/communicator.h"
#include "folio/tensor/tensor.h"

namespace folio {

// The ranks that have the shards of a model, by the shards' index.
class TensorParallelGroup {
 public:
  // The team's group must outlive it.
  explicit TensorParallelGroup(const Communicator& team) : communicator_(team) {}

  // x, of which each has as much, becomes the sum of everybody's, added up in their order and then
  // rounded, once, to its dtype: the same bits for all. F32, F64 or BF16.
  void Sum(const Tensor& x);

  const Communicator& communicator() const { return communicator_; }

 private:
  Communicator communicator_;
  std::vector<std::byte> received_;  // pieces of a sum, by rank
};

}  // namespace folio
