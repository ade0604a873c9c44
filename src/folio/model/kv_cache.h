#pragma once

#include <cstdint>
#include <vector>

#include "folio/model/config.h"
#include "folio/tensor/plan.h"

namespace folio {

// The KV cache: keys and values of one sequence that grows, by layer. They stay where c_attn wrote
// them, in rows q | k | v of (P,3C): the queries' part is wasted, every copy is saved. After
// construction it allocates nothing.
class KvCache {
 public:
  KvCache(const GptConfig& config, Dtype dtype);

  int64_t size() const { return size_; }          // tokens whose keys and values are kept
  int64_t capacity() const { return capacity_; }  // P
  void Clear() { size_ = 0; }

  // Where the next `rows` rows of a layer go, (rows,3C). REQUIRES: size() + rows <= capacity().
  Tensor Next(size_t layer, int64_t rows) const {
    return layers_[layer].Slice(size_, size_ + rows);
  }
  // Those and all before them, (size() + rows,3C).
  Tensor UpToNext(size_t layer, int64_t rows) const {
    return layers_[layer].Slice(0, size_ + rows);
  }
  // Keeps the next `rows` rows, which every layer has written.
  void Advance(int64_t rows) { size_ += rows; }

 private:
  int64_t capacity_;
  int64_t size_ = 0;
  MemoryPlan plan_;
  Arena arena_;
  std::vector<Tensor> layers_;  // (P,3C) each
};

}  // namespace folio
