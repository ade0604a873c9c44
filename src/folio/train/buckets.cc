#include "folio/train/buckets.h"

#include <algorithm>

namespace folio {

std::vector<ShardBucket> BucketsOf(const ParamTable& table, int64_t n_layer) {
  // Large enough for any network, small enough that two are little memory; and not too many.
  constexpr int64_t kElements = 1024 * Shards::kBlock, kMostOfLayer = 64;
  std::vector<ShardBucket> layers;
  const auto begin_layer = [&](int64_t begin, int64_t layer) {
    if (!layers.empty() && layers.back().layer == layer && begin < table.decay_size()) return;
    if (!layers.empty()) layers.back().end = begin;
    layers.push_back({.begin = begin, .end = 0, .layer = layer});
  };
  for (const ParamInfo& info : table.params()) {
    if (!info.trained || !info.decay) continue;
    begin_layer(info.offset, info.module == kHeadName ? n_layer : info.layer);
  }
  if (table.decay_size() < table.trained_size()) begin_layer(table.decay_size(), -1);
  if (!layers.empty()) layers.back().end = table.trained_size();
  std::vector<ShardBucket> buckets;
  for (const ShardBucket& layer : layers) {
    const int64_t least = (layer.size() / kMostOfLayer / Shards::kBlock + 1) * Shards::kBlock;
    const int64_t size = std::max(kElements, least);
    for (int64_t begin = layer.begin; begin < layer.end; begin += size) {
      buckets.push_back({begin, std::min(layer.end, begin + size), layer.layer});
    }
  }
  return buckets;
}

}  // namespace folio
