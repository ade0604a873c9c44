#include "folio/train/buckets.h"

#include <algorithm>

#include "folio/train/optimizer.h"

namespace folio {

std::vector<ShardBucket> BucketsOf(const ParamTable& table, int64_t n_layer) {
  // Large enough for any network, small enough that two are little memory; and not too many.
  constexpr int64_t kElements = 1024 * Shards::kBlock, kMostOfLayer = 64;
  std::vector<const ParamInfo*> trained;  // as they lie
  for (const ParamInfo& info : table.params()) {
    if (info.trained) trained.push_back(&info);
  }
  std::ranges::sort(trained, {}, &ParamInfo::offset);
  const auto layer_of = [&](const ParamInfo& info) {
    if (GroupOf(info) == ParamGroup::kPlain) return int64_t{-1};
    return info.module == kHeadName ? n_layer : info.layer;
  };
  std::vector<ShardBucket> layers;
  const ParamInfo* before = nullptr;
  for (const ParamInfo* info : trained) {
    const bool goes_on = before != nullptr && layer_of(*info) == layers.back().layer &&
                         GroupOf(*info) == GroupOf(*before) && info->shared == before->shared;
    before = info;
    if (goes_on) continue;
    if (!layers.empty()) layers.back().end = info->offset;
    layers.push_back({.begin = info->offset, .end = 0, .layer = layer_of(*info)});
  }
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
