#include "folio/model/params.h"

#include <fmt/format.h>

namespace folio {

std::string ParamRow::Name() const {
  if (layer >= 0) return fmt::format("{}h.{}.{}.{}", kNamePrefix, layer, module, part);
  return fmt::format("{}{}.{}", module == kHeadName ? "" : kNamePrefix, module, part);
}

ParamTable::ParamTable(const GptConfig& config) {
  constexpr int64_t kAlign = 16;  // elements: 64 bytes of float32
  GptParams none;
  none.h.resize(static_cast<size_t>(config.n_layer));
  VisitParams(config, none, [&](const ParamRow& row, const Tensor&) {
    params_.push_back({row, row.Name(), row.shape.rank() >= 2, 0});
    parameters_ += row.shape.count();
  });
  for (const bool decay : {true, false}) {
    for (ParamInfo& info : params_) {
      if (info.decay != decay) continue;
      info.offset = flat_size_;
      flat_size_ += (info.shape.count() + kAlign - 1) / kAlign * kAlign;
    }
    if (decay) decay_size_ = flat_size_;
  }
}

int64_t ParamTable::matrix_parameters() const {
  int64_t sum = 0;
  for (const ParamInfo& info : params_) sum += IsLinearWeight(info.kind) ? info.shape.count() : 0;
  return sum;
}

Tensor ParamTable::View(const ParamInfo& info, const Tensor& flat) const {
  FOLIO_CHECK(flat.count() == flat_size_, "flat array of another model");
  return flat.Slice(info.offset, info.offset + info.shape.count()).Reshape(info.shape);
}

GptParams ParamTable::Views(const GptConfig& config, const Tensor& flat) const {
  GptParams views;
  views.h.resize(static_cast<size_t>(config.n_layer));
  size_t next = 0;
  VisitParams(config, views,
              [&](const ParamRow&, Tensor& slot) { slot = View(params_[next++], flat); });
  return views;
}

GptWeights::GptWeights(const GptConfig& config, Dtype dtype) : config_(config), table_(config) {
  const MemoryPlan::Id id = plan_.Add("weights", dtype, {table_.flat_size()});
  plan_.Place();
  arena_ = Arena(plan_);
  flat_ = arena_.Get(plan_, id);
  params_ = table_.Views(config_, flat_);
}

}  // namespace folio
