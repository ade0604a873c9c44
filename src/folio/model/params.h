#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "folio/model/config.h"
#include "folio/model/lora.h"
#include "folio/model/shard.h"
#include "folio/tensor/plan.h"
#include "folio/tensor/tensor.h"

namespace folio {

struct GptParams;  // transformer.h

enum class InitKind {
  kWeight,          // normal(0, initializer_range) or Xavier-uniform
  kQkvWeight,       // the same; q | k | v, which may count as three matrices
  kResidualWeight,  // the same; the deviation may be divided by sqrt(2L): what adds to the residual
  kFanIn,           // uniform up to 1 / sqrt(in), as PyTorch's linear layers
  kZero,
  kOne,
  kResidualFactor,   // for each layer, 1.15 to 1.05
  kEmbeddingFactor,  // for each layer, 0.2 to 0.05
  kBackoutFactor,    // 0.2
  kGate,             // uniform up to 0.02
};

enum class ParamKind {
  kEmbedding,      // (rows,C), looked up
  kTiedEmbedding,  // (V,C), looked up, and the weight of the head
  kLinear,         // (in,out), the weight of a linear operation
  kHead,           // (out,in), the same
  kAdapter,        // (out,in), the same
  kBias,           // of the linear operation whose weight comes before it
  kElementwise,    // what a LayerNorm multiplies with and adds; factors, and what opens gates
};

// The dimension of a parameter that shards divide.
enum class ShardAxis {
  kNone,  // every shard has all of it
  kRows,  // the first
  kQkv,   // the last, in each of q | k | v by heads (config.h)
  kUp,    // the last, in a gated model in each of gate | up
};

// Returns whether LinearBackward writes over the gradient at first. Other gradients are added to,
// and zeroed before: of tables in a block by its backward.
constexpr bool IsLinearWeight(ParamKind kind) {
  return kind == ParamKind::kTiedEmbedding || kind == ParamKind::kLinear ||
         kind == ParamKind::kHead || kind == ParamKind::kAdapter;
}

// Returns whether AdamW decays such a parameter.
constexpr bool IsDecayed(ParamKind kind) {
  return kind != ParamKind::kBias && kind != ParamKind::kElementwise;
}

// Hugging Face's names begin with the first, but for the head, which has the second.
inline constexpr std::string_view kNamePrefix = "transformer.", kHeadName = "lm_head";

// One row of the list of parameters.
struct ParamRow {
  int64_t layer;                  // -1 outside of the blocks
  std::string_view module, part;  // "attn.c_attn", "weight"
  Shape shape;
  ParamKind kind;
  InitKind init;
  ShardAxis axis;
  bool trained;              // beside adapters nothing else is
  std::string Name() const;  // Hugging Face's, "transformer.h.0.attn.c_attn.weight"
};

struct ParamInfo : ParamRow {
  std::string name;
  bool decay = false;   // IsDecayed(kind)
  bool shared = false;  // in a shard: every shard has all of it
  int64_t offset = 0;   // of its first element
};

// Every parameter of a model, of its adapters if it has some, or of one shard of it, in Hugging
// Face's order, and its place in one flat array: what is trained first, of that what decays first,
// of either what is shared last; each on a 64-byte boundary, with zeros in the gaps.
class ParamTable {
 public:
  explicit ParamTable(const GptConfig& config, const LoraConfig& lora = {},
                      const Shard& shard = {});

  const GptConfig& config() const { return config_; }
  const LoraConfig& lora() const { return lora_; }
  const Shard& shard() const { return shard_; }
  // The table of the model that this is a shard of.
  ParamTable Whole() const { return ParamTable(config_, lora_); }

  std::span<const ParamInfo> params() const { return params_; }
  int64_t parameters() const { return parameters_; }  // without the gaps
  int64_t flat_size() const { return flat_size_; }    // elements, with the gaps
  // The beginning of the flat array, with what is trained; gradients and moments end there.
  int64_t trained_size() const { return trained_size_; }
  // Elements of the weights of linear operations: all but wpe, biases and LayerNorms.
  int64_t matrix_parameters(bool trained_only = false) const;

  // One parameter in a flat array of flat_size() elements, or if it is trained of trained_size().
  Tensor View(const ParamInfo& info, const Tensor& flat) const;

 private:
  GptConfig config_;
  LoraConfig lora_;
  Shard shard_;
  std::vector<ParamInfo> params_;
  int64_t parameters_ = 0, flat_size_ = 0, trained_size_ = 0;
};

// The tensors, in the order of the table, as the parameters that they are.
GptParams BindParams(const ParamTable& table, std::span<const Tensor> tensors);

enum class ParamPart { kAll, kTrained };
// A model's parameters: in one flat array of their own, or only as much of it as is trained (for
// gradients), or views of memory elsewhere.
class GptWeights {
 public:
  explicit GptWeights(const GptConfig& config, Dtype dtype = Dtype::kF32,
                      ParamPart part = ParamPart::kAll)
      : GptWeights(ParamTable(config), dtype, part) {}
  explicit GptWeights(ParamTable table, Dtype dtype = Dtype::kF32,
                      ParamPart part = ParamPart::kAll);
  // `tensors` are those of the table, only ever read, and live as long as `owner`.
  // Matrices may be stored otherwise (ops.h), linear layers' then as (out,in).
  GptWeights(const GptConfig& config, std::vector<Tensor> tensors,
             std::shared_ptr<const void> owner)
      : GptWeights(ParamTable(config), std::move(tensors), std::move(owner)) {}
  GptWeights(ParamTable table, std::vector<Tensor> tensors, std::shared_ptr<const void> owner);

  const GptConfig& config() const { return table_.config(); }
  const ParamTable& table() const { return table_; }
  Dtype dtype() const { return dtype_; }
  // The parameters of table().params(), in its order; a parameter that is not here is empty.
  std::span<const Tensor> tensors() const { return tensors_; }
  const GptParams& params() const { return *params_; }
  // REQUIRES: the parameters are not views of memory elsewhere.
  const Tensor& flat() const;

 private:
  ParamTable table_;
  Dtype dtype_ = Dtype::kF32;
  MemoryPlan plan_;
  Arena arena_;
  Tensor flat_;
  std::vector<Tensor> tensors_;
  std::shared_ptr<const void> owner_;
  std::shared_ptr<const GptParams> params_;
};

// A model at a glance: the sizes and counts that whoever describes it shows.
struct ModelSummary {
  explicit ModelSummary(const ParamTable& table);
  explicit ModelSummary(const GptConfig& config) : ModelSummary(ParamTable(config)) {}

  struct Total {
    int64_t tensors = 0, parameters = 0;
  };

  int64_t layers, heads, kv_heads, head_size, channels;  // of the whole model, as all sizes
  int64_t feed_forward;                                  // F
  int64_t context;                                       // P
  int64_t vocabulary;
  std::string positions, norm, activation;  // as the configuration names them
  bool tied, causal;
  Total decayed, not_decayed;  // by AdamW; of the table

  int64_t tensors() const { return decayed.tensors + not_decayed.tensors; }
  int64_t parameters() const { return decayed.parameters + not_decayed.parameters; }
  int64_t float32_bytes() const { return 4 * parameters(); }
};

}  // namespace folio
