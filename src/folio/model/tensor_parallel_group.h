#pragma once

#include <cstddef>
#include <vector>

#include "folio/dist/team.h"
#include "folio/tensor/tensor.h"

namespace folio {

// The ranks that have the shards of a model, by the shards' index.
class TensorParallelGroup {
 public:
  // The team's group must outlive it.
  explicit TensorParallelGroup(const Team& team) : team_(team) {}

  // x, of which each has as much, becomes the sum of everybody's, added up in their order and then
  // rounded, once, to its dtype: the same bits for all. F32, F64 or BF16.
  void Sum(const Tensor& x);

  const Team& team() const { return team_; }

 private:
  Team team_;
  std::vector<std::byte> received_;  // pieces of a sum, by rank
};

}  // namespace folio
