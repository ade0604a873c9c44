#pragma once

#include <cstdint>

#include "folio/tensor/tensor.h"

namespace folio {

class GptWeights;
struct GptConfig;
struct LoraConfig;
struct ParamInfo;

// A rank's share of each layer under tensor parallelism (M. Shoeybi et al., Megatron-LM,
// arXiv:1909.08053): the shard has some of the heads, of the columns of c_fc and of the tokens of
// the vocabulary, and all of the rest.
struct Shard {
  int64_t index = 0, count = 1;

  bool whole() const { return count == 1; }
  // Of n things the shard has those from Begin(n) on, Size(n) of them.
  int64_t Begin(int64_t n) const { return n * index / count; }
  int64_t Size(int64_t n) const { return n * (index + 1) / count - Begin(n); }
  bool operator==(const Shard&) const = default;
};

// Throws a kUsage Error that names the nearest numbers unless a model can be cut into so many
// shards: they divide heads and n_inner, and the vocabulary has a token for each. Of a vocabulary
// that they do not divide, some have a token more than others.
void RequireShards(const GptConfig& config, const LoraConfig& lora, int64_t count);

// Maps the elements of a shard's parameter to their places in the whole model's.
class PlaceInWhole {
 public:
  // `info` is the shard's parameter, and `whole` the shape of the whole model's.
  PlaceInWhole(const Shard& shard, const ParamInfo& info, const Shape& whole);

  // The place of the shard's i-th element.
  int64_t operator()(int64_t i) const {
    const int64_t row = i / width_, column = i % width_;
    return (first_row_ + row) * whole_width_ + column / group_ * whole_group_ + first_column_ +
           column % group_;
  }

 private:
  int64_t width_, group_;  // of a row, and of columns that lie side by side in the whole: q, k or v
  int64_t whole_width_, whole_group_;
  int64_t first_row_ = 0, first_column_ = 0;  // of the latter in each group
};

// Copy a shard's share of the whole model's parameters, or of gradients and moments laid out like
// them, to the shard or back. Both are float32 or float64.
void TakeShard(const GptWeights& whole, const GptWeights& shard);
void PutShard(const GptWeights& whole, const GptWeights& shard);

}  // namespace folio
