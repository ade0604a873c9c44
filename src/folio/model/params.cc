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
  const auto place = [&](bool trained, bool decay) {
    for (ParamInfo& info : params_) {
      if (info.trained != trained || info.decay != decay) continue;
      info.offset = flat_size_;
      flat_size_ += (info.shape.count() + kAlign - 1) / kAlign * kAlign;
    }
    return flat_size_;
  };
  decay_size_ = place(true, true);
  trained_size_ = place(true, false);
  place(false, true);
  place(false, false);
}

int64_t ParamTable::matrix_parameters() const {
  int64_t sum = 0;
  for (const ParamInfo& info : params_) sum += IsLinearWeight(info.kind) ? info.shape.count() : 0;
  return sum;
}

int64_t ParamTable::trained_matrix_parameters() const {
  int64_t sum = 0;
  for (const ParamInfo& info : params_) {
    if (info.trained && IsLinearWeight(info.kind)) sum += info.shape.count();
  }
  return sum;
}

Tensor ParamTable::View(const ParamInfo& info, const Tensor& flat) const {
  FOLIO_CHECK(flat.count() == flat_size_ || (info.trained && flat.count() == trained_size_),
              "flat array of another model");
  return flat.Slice(info.offset, info.offset + info.shape.count()).Reshape(info.shape);
}

GptParams ParamTable::Views(const GptConfig& config, const Tensor& flat) const {
  GptParams views;
  views.h.resize(static_cast<size_t>(config.n_layer));
  size_t next = 0;
  VisitParams(config, views, [&](const ParamRow& row, Tensor& slot) {
    const ParamInfo& info = params_[next++];
    if (row.trained || flat.count() == flat_size_) slot = View(info, flat);
  });
  return views;
}

GptWeights::GptWeights(const GptConfig& config, Dtype dtype, ParamPart part)
    : config_(config), table_(config) {
  const int64_t size = part == ParamPart::kAll ? table_.flat_size() : table_.trained_size();
  const MemoryPlan::Id id = plan_.Add("weights", dtype, {size});
  plan_.Place();
  arena_ = Arena(plan_);
  flat_ = arena_.Get(plan_, id);
  params_ = table_.Views(config_, flat_);
}

}  // namespace folio
