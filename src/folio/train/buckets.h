#pragma once

#include <vector>

#include "folio/dist/shards.h"
#include "folio/model/params.h"

namespace folio {

// The trained part of a model's flat array by layers, as the backward comes to know its gradient:
// what decays of the embeddings, of each block and of a head of its own, in pieces of a few million
// elements, and at the end everything that does not decay, which counts to the embeddings. A bucket
// is of one ParamGroup. In a shard of a model, the parameters that all shards have are in buckets
// of their own.
std::vector<ShardBucket> BucketsOf(const ParamTable& table, int64_t n_layer);

}  // namespace folio
