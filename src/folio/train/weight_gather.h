#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "folio/dist/communicator.h"
#include "folio/dist/shards.h"
#include "folio/tensor/tensor.h"

namespace folio {

// Brings what each rank owns of a flat array to all others, bucket by bucket, in the order in which
// the next forward needs them.
class WeightGather {
 public:
  // All must outlive it. `flat` is F32.
  WeightGather(const Communicator& communicator, const Shards& shards, const Tensor& flat);
  ~WeightGather();
  WeightGather(const WeightGather&) = delete;

  // Buckets in the order in which Begin is to be called.
  const std::vector<size_t>& order() const { return order_; }
  // This rank's piece of the bucket is what the others shall have.
  void Begin(size_t bucket);
  // Waits until those of a layer, or all of them, are here.
  void Wait(int64_t layer);
  void WaitForAll();

 private:
  class Piece;

  Communicator communicator_;
  const Shards& shards_;
  std::vector<std::unique_ptr<Piece>> pieces_;  // by bucket
  std::vector<uint64_t> tickets_;
  std::vector<size_t> order_;
};

}  // namespace folio
