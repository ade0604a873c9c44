#include "folio/model/params.h"

#include <fmt/format.h>

namespace folio {
namespace {

// Calls visit(name, slot, shape, init) for each parameter that the configuration has, in Hugging
// Face's order; slot is its place in `params`.
template <class Visit>
void ForEachParam(const GptConfig& config, GptParams& params, Visit&& visit) {
  const int64_t V = config.vocab_size, P = config.n_positions, C = config.n_embd;
  const int64_t F = config.inner();
  const bool ln_bias = config.has_layer_norm_bias();
  const auto linear = [&](const std::string& name, LinearParams& layer, Shape shape, InitKind init,
                          bool has_bias) {
    visit(name + ".weight", layer.weight, shape, init);
    if (has_bias) visit(name + ".bias", layer.bias, Shape{shape[1]}, InitKind::kZero);
  };
  const auto norm = [&](const std::string& name, NormParams& layer) {
    visit(name + ".weight", layer.weight, Shape{C}, InitKind::kOne);
    if (ln_bias) visit(name + ".bias", layer.bias, Shape{C}, InitKind::kZero);
  };

  visit("transformer.wte.weight", params.wte, Shape{V, C}, InitKind::kWeight);
  if (config.learned_positions()) {
    visit("transformer.wpe.weight", params.wpe, Shape{P, C}, InitKind::kWeight);
  }
  params.h.resize(static_cast<size_t>(config.n_layer));
  for (int64_t l = 0; l < config.n_layer; ++l) {
    BlockParams& h = params.h[static_cast<size_t>(l)];
    const std::string at = fmt::format("transformer.h.{}.", l);
    const bool attention_bias = config.has_attention_bias(), mlp_bias = config.has_mlp_bias();
    norm(at + "ln_1", h.ln_1);
    linear(at + "attn.c_attn", h.c_attn, {C, 3 * C}, InitKind::kWeight, attention_bias);
    linear(at + "attn.c_proj", h.attn_c_proj, {C, C}, InitKind::kResidualWeight, attention_bias);
    norm(at + "ln_2", h.ln_2);
    linear(at + "mlp.c_fc", h.c_fc, {C, F}, InitKind::kWeight, mlp_bias);
    linear(at + "mlp.c_proj", h.mlp_c_proj, {F, C}, InitKind::kResidualWeight, mlp_bias);
  }
  norm("transformer.ln_f", params.ln_f);
  if (!config.tie_word_embeddings) {
    visit("lm_head.weight", params.lm_head_weight, Shape{V, C}, InitKind::kWeight);
  }
  if (config.lm_head_bias) visit("lm_head.bias", params.lm_head_bias, Shape{V}, InitKind::kZero);
}

}  // namespace

ParamTable::ParamTable(const GptConfig& config) {
  constexpr int64_t kAlign = 16;  // elements: 64 bytes of float32
  GptParams none;
  ForEachParam(config, none,
               [&](const std::string& name, Tensor&, const Shape& shape, InitKind init) {
                 params_.push_back({name, shape, init, shape.rank() >= 2, 0});
                 parameters_ += shape.count();
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
  bool head = false;
  for (const ParamInfo& info : params_) {
    if (info.shape.rank() < 2 || info.name == "transformer.wpe.weight" ||
        info.name == "transformer.wte.weight") {
      continue;
    }
    head = head || info.name == "lm_head.weight";
    sum += info.shape.count();
  }
  return head ? sum : sum + params_.front().shape.count();  // the tied head multiplies by wte
}

Tensor ParamTable::View(const ParamInfo& info, const Tensor& flat) const {
  FOLIO_CHECK(flat.count() == flat_size_, "flat array of another model");
  return flat.Slice(info.offset, info.offset + info.shape.count()).Reshape(info.shape);
}

GptParams ParamTable::Views(const GptConfig& config, const Tensor& flat) const {
  GptParams views;
  size_t next = 0;
  ForEachParam(config, views, [&](const std::string&, Tensor& slot, const Shape&, InitKind) {
    slot = View(params_[next++], flat);
  });
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
