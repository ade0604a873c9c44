#include "folio/model/params.h"

#include <fmt/format.h>

#include "folio/base/check.h"
#include "folio/model/transformer.h"

namespace folio {

Shape ShapeInShard(const GptConfig& config, const Shard& shard, const Shape& whole,
                   ShardAxis axis) {
  const auto last = [&](int64_t width) {
    return whole.rank() == 1 ? Shape{width} : Shape{whole[0], width};
  };
  switch (axis) {
    case ShardAxis::kNone:
      return whole;
    case ShardAxis::kRows:
      return whole.rank() == 1 ? Shape{shard.Size(whole[0])}
                               : Shape{shard.Size(whole[0]), whole[1]};
    case ShardAxis::kUp:
      return last(shard.Size(config.inner()) * (config.up_width() / config.inner()));
    case ShardAxis::kQkv:
      return last(config.head_layout().ShardOf(shard).qkv_width());
  }
  FOLIO_CHECK(false, "no such axis");
}

std::string ParamRow::Name() const {
  if (layer >= 0) return fmt::format("{}h.{}.{}.{}", kNamePrefix, layer, module, part);
  return fmt::format("{}{}.{}", module == kHeadName ? "" : kNamePrefix, module, part);
}

namespace {

Tensor WithoutPadding(const ParamRow& row, const Tensor& padded) {
  return padded && IsOfHead(row) ? padded.First(row.shape) : padded;
}

}  // namespace

ParamTable::ParamTable(const GptConfig& config, const LoraConfig& lora, const Shard& shard,
                       int64_t row_multiple)
    : config_(config), lora_(lora), shard_(shard), row_multiple_(row_multiple) {
  constexpr int64_t kAlign = 16;  // elements: 64 bytes of float32
  GptParams none;
  none.h.resize(static_cast<size_t>(config.n_layer));
  VisitParams(config, lora, shard, none, [&](const ParamRow& row, const Tensor&) {
    const bool shared = !shard.whole() && row.axis == ShardAxis::kNone;
    ParamInfo& info = params_.emplace_back(ParamInfo{row, row.Name(), GroupOf(row.kind), shared});
    info.padded = PaddedShape(row, row_multiple);
    parameters_ += row.shape.count();
  });
  const auto place = [&](bool trained, ParamGroup group, bool shared) {
    for (ParamInfo& info : params_) {
      if (info.trained != trained || info.group != group || info.shared != shared) continue;
      info.offset = flat_size_;
      flat_size_ += RoundUp(info.padded.count(), kAlign);
    }
  };
  for (const bool trained : {true, false}) {
    for (const ParamGroup group : kParamGroups) {
      for (const bool shared : {false, true}) place(trained, group, shared);
    }
    if (trained) trained_size_ = flat_size_;
  }
}

int64_t ParamTable::matrix_parameters(bool trained_only) const {
  int64_t sum = 0;
  for (const ParamInfo& info : params_) {
    if (IsLinearWeight(info.kind) && (info.trained || !trained_only)) sum += info.shape.count();
  }
  return sum;
}

Tensor ParamTable::ViewPadded(const ParamInfo& info, const Tensor& flat) const {
  FOLIO_CHECK(flat.count() == flat_size_ || (info.trained && flat.count() == trained_size_),
              "flat array of another model");
  return flat.Slice(info.offset, info.offset + info.padded.count()).Reshape(info.padded);
}

GptParams BindParams(const ParamTable& table, std::span<const Tensor> tensors) {
  GptParams params;
  params.h.resize(static_cast<size_t>(table.config().n_layer));
  size_t next = 0;
  VisitParams(table.config(), table.lora(), table.shard(), params,
              [&](const ParamRow& row, Tensor& slot) {
                const Tensor& padded = tensors[next++];
                slot = WithoutPadding(row, padded);
                params.BindHead(row, padded);
              });
  return params;
}

GptWeights::GptWeights(ParamTable table, Dtype dtype, ParamPart part, Memory& memory)
    : table_(std::move(table)), dtype_(dtype) {
  const int64_t size = part == ParamPart::kAll ? table_.flat_size() : table_.trained_size();
  const MemoryPlan::Id id = plan_.Add("weights", dtype, {size});
  plan_.Place();
  arena_ = Arena(plan_, memory);
  flat_ = arena_.Get(plan_, id);
  std::vector<Tensor> padded;
  for (const ParamInfo& info : table_.params()) {
    const bool there = part == ParamPart::kAll || info.trained;
    padded.push_back(there ? table_.ViewPadded(info, flat_) : Tensor());
    tensors_.push_back(WithoutPadding(info, padded.back()));
  }
  params_ = std::make_shared<const GptParams>(BindParams(table_, padded));
}

GptWeights::GptWeights(ParamTable table, std::vector<Tensor> tensors,
                       std::shared_ptr<const void> owner)
    : table_(std::move(table)), tensors_(std::move(tensors)), owner_(std::move(owner)) {
  FOLIO_CHECK(tensors_.size() == table_.params().size(), "parameters of another model");
  params_ = std::make_shared<const GptParams>(BindParams(table_, tensors_));
  for (size_t i = 0; i < tensors_.size(); ++i) {
    const ParamInfo& info = table_.params()[i];
    const Shape& shape = info.shape;
    tensors_[i] = WithoutPadding(info, tensors_[i]);
    const bool turned = info.kind == ParamKind::kLinear && IsStored(tensors_[i].dtype());
    FOLIO_CHECK(tensors_[i].shape() == (turned ? Shape{shape[1], shape[0]} : shape),
                "parameter of another model");
  }
}

const Tensor& GptWeights::flat() const {
  FOLIO_CHECK(flat_, "the parameters are not in one array");
  return flat_;
}

std::map<std::string_view, const Tensor*> TensorsByName(const GptWeights& weights) {
  std::map<std::string_view, const Tensor*> tensors;
  for (size_t i = 0; i < weights.tensors().size(); ++i) {
    tensors[weights.table().params()[i].name] = &weights.tensors()[i];
  }
  return tensors;
}

ModelSummary::ModelSummary(const ParamTable& table)
    : layers(table.config().n_layer),
      heads(table.config().n_head),
      kv_heads(table.config().head_layout().kv_heads),
      head_size(table.config().head_size()),
      channels(table.config().n_embd),
      feed_forward(table.config().inner()),
      context(table.config().n_positions),
      vocabulary(table.config().vocab_size),
      positions(NameOf(table.config().position_embedding)),
      norm(NameOf(table.config().norm_position)),
      activation(NameOf(table.config().activation_function)),
      tied(table.config().tie_word_embeddings),
      causal(table.config().causal) {
  for (const ParamInfo& info : table.params()) {
    Total& total = IsDecayed(info.group) ? decayed : not_decayed;
    ++total.tensors;
    total.parameters += info.shape.count();
  }
}

}  // namespace folio
