#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "folio/model/config.h"
#include "folio/tensor/plan.h"
#include "folio/tensor/tensor.h"

namespace folio {

// The parameters of a layer, or their gradients; a part that the configuration leaves out is empty.
struct NormParams {
  Tensor weight, bias;  // (C), (C)
};
struct LinearParams {
  Tensor weight, bias;  // (in,out), (out)
};
struct BlockParams {
  NormParams ln_1;
  LinearParams c_attn;       // (C,3C): columns are q | k | v, heads contiguous
  LinearParams attn_c_proj;  // (C,C)
  NormParams ln_2;
  LinearParams c_fc;        // (C,F)
  LinearParams mlp_c_proj;  // (F,C)
};

struct GptParams {
  Tensor wte;  // (V,C)
  Tensor wpe;  // (P,C), empty for sinusoidal positions
  std::vector<BlockParams> h;
  NormParams ln_f;
  Tensor lm_head_weight, lm_head_bias;  // (V,C) unless tied to wte; (V)
};

enum class InitKind {
  kWeight,          // normal(0, initializer_range) or Xavier-uniform
  kResidualWeight,  // the same, with the deviation divided by sqrt(2L): what adds to the residual
  kZero,
  kOne,
};

// One row of the parameter table.
struct ParamInfo {
  std::string name;  // Hugging Face's, "transformer.h.0.attn.c_attn.weight"
  Shape shape;
  InitKind init = InitKind::kZero;
  bool decay = false;  // AdamW decays it: two or more dimensions
  int64_t offset = 0;  // of its first element in the flat array
};

// Every parameter of a model, in Hugging Face's order, and its place in one flat array: those that
// decay first, so that AdamW takes the array in two strokes. Each starts on a 64-byte boundary; the
// gaps hold zeros and stay zero. The only place that names parameters.
class ParamTable {
 public:
  explicit ParamTable(const GptConfig& config);

  std::span<const ParamInfo> params() const { return params_; }
  int64_t parameters() const { return parameters_; }  // without the gaps
  int64_t flat_size() const { return flat_size_; }    // elements, with the gaps
  int64_t decay_size() const { return decay_size_; }  // the first part of the flat array
  int64_t matrix_parameters()
      const;  // those in matrix products: all but wpe, biases and LayerNorms

  // The view of one parameter in a flat array of flat_size() elements.
  Tensor View(const ParamInfo& info, const Tensor& flat) const;
  // All of them.
  GptParams Views(const GptConfig& config, const Tensor& flat) const;

 private:
  std::vector<ParamInfo> params_;
  int64_t parameters_ = 0, flat_size_ = 0, decay_size_ = 0;
};

// A model's parameters in memory of their own.
class GptWeights {
 public:
  explicit GptWeights(const GptConfig& config, Dtype dtype = Dtype::kF32);

  const GptConfig& config() const { return config_; }
  const ParamTable& table() const { return table_; }
  const Tensor& flat() const { return flat_; }
  const GptParams& params() const { return params_; }

 private:
  GptConfig config_;
  ParamTable table_;
  MemoryPlan plan_;
  Arena arena_;
  Tensor flat_;
  GptParams params_;
};

}  // namespace folio
