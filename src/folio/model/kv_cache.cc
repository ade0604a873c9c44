#include "folio/model/kv_cache.h"

#include <fmt/format.h>

namespace folio {

KvCache::KvCache(const GptConfig& config, Dtype dtype) : capacity_(config.n_positions) {
  const Shape rows = {capacity_, 3 * config.n_embd};
  for (int64_t l = 0; l < config.n_layer; ++l) plan_.Add(fmt::format("h.{}.qkv", l), dtype, rows);
  plan_.Place();
  arena_ = Arena(plan_);
  for (MemoryPlan::Id l = 0; l < config.n_layer; ++l) layers_.push_back(arena_.Get(plan_, l));
}

}  // namespace folio
