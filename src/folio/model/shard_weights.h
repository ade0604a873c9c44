#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "folio/model/config.h"
#include "folio/model/lora.h"
#include "folio/model/params.h"
#include "folio/tensor/tensor.h"

namespace folio {

// Throws a kUsage Error that names the nearest numbers unless a model can be cut into so many
// shards: they divide heads and n_inner, and the vocabulary has a token for each. Of a vocabulary
// that they do not divide, some have a token more than others.
void RequireShards(const GptConfig& config, const LoraConfig& lora, int64_t count);

// Maps the elements of a shard's parameter to their places in the whole model's.
class PlaceInWhole {
 public:
  // `info` is a parameter of the shard's table, and `whole` the shape of the whole model's.
  PlaceInWhole(const ParamTable& table, const ParamInfo& info, const Shape& whole);

  // The place of the shard's i-th element.
  int64_t operator()(int64_t i) const {
    const int64_t row = i / width_, column = i % width_;
    size_t run = runs_.size() - 1;
    while (column < runs_[run].begin) --run;
    return (first_row_ + row) * whole_width_ + column + runs_[run].shift;
  }

 private:
  // Columns from `begin` on lie side by side in the whole too, `shift` columns further: q, k or v.
  struct Run {
    int64_t begin = 0, shift = 0;
  };
  int64_t width_, whole_width_;
  int64_t first_row_ = 0;
  std::array<Run, 3> runs_ = {};
};

// Copy a shard's share of the whole model's parameters, or of gradients and moments laid out like
// them, to the shard or back. Both are float32 or float64.
void TakeShard(const GptWeights& whole, const GptWeights& shard);
void PutShard(const GptWeights& whole, const GptWeights& shard);

}  // namespace folio
