#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "folio/model/config.h"
#include "folio/model/lora.h"
#include "folio/model/param_row.h"
#include "folio/tensor/memory_plan.h"
#include "folio/tensor/tensor.h"

namespace folio {

struct GptParams;  // gpt_params.h

struct ParamInfo : ParamRow {
  std::string name;
  ParamGroup group = ParamGroup::kDecayed;  // GroupOf(kind)
  bool shared = false;                      // in a shard: every shard has all of it
  int64_t offset = 0;                       // of its first element
  Shape padded = {};                        // its shape with rows of padding
};

// Every parameter of a model, of its adapters if it has some, or of one shard of it, in Hugging
// Face's order, and its place in one flat array: trained parameters first, in each part one group
// after the other, in each group shared ones last; each on a 64-byte boundary, zeros in the gaps.
// The head's rows, and so a tied embedding's, are padded to a multiple of row_multiple: rows of
// zeros that only the head's products see.
class ParamTable {
 public:
  explicit ParamTable(const GptConfig& config, const LoraConfig& lora = {}, const Shard& shard = {},
                      int64_t row_multiple = 1);

  const GptConfig& config() const { return config_; }
  const LoraConfig& lora() const { return lora_; }
  const Shard& shard() const { return shard_; }
  int64_t row_multiple() const { return row_multiple_; }
  // The table of the model that this is a shard of, and of another shard of it.
  ParamTable Whole() const { return OfShard({}); }
  ParamTable OfShard(const Shard& shard) const {
    return ParamTable(config_, lora_, shard, row_multiple_);
  }

  std::span<const ParamInfo> params() const { return params_; }
  int64_t parameters() const { return parameters_; }  // without the gaps
  int64_t flat_size() const { return flat_size_; }    // elements, with the gaps
  // The beginning of the flat array, with what is trained; gradients and moments end there.
  int64_t trained_size() const { return trained_size_; }
  // Elements of the weights of linear operations: all but wpe, biases and LayerNorms.
  int64_t matrix_parameters(bool trained_only = false) const;

  // One parameter in a flat array of flat_size() elements, or if it is trained of trained_size().
  Tensor View(const ParamInfo& info, const Tensor& flat) const {
    return ViewPadded(info, flat).First(info.shape);
  }
  Tensor ViewPadded(const ParamInfo& info, const Tensor& flat) const;

 private:
  GptConfig config_;
  LoraConfig lora_;
  Shard shard_;
  int64_t row_multiple_ = 1;
  std::vector<ParamInfo> params_;
  int64_t parameters_ = 0, flat_size_ = 0, trained_size_ = 0;
};

// The tensors, in the order of the table, as the parameters that they are. Those of padded shape
// are so for the head alone.
GptParams BindParams(const ParamTable& table, std::span<const Tensor> tensors);

enum class ParamPart { kAll, kTrained };
// A model's parameters: in one flat array of their own, or only as much of it as is trained (for
// gradients), or views of memory elsewhere.
class GptWeights {
 public:
  explicit GptWeights(const GptConfig& config, Dtype dtype = Dtype::kF32,
                      ParamPart part = ParamPart::kAll, Memory& memory = HostMemory())
      : GptWeights(ParamTable(config, {}, {}, memory.row_multiple()), dtype, part, memory) {}
  explicit GptWeights(ParamTable table, Dtype dtype = Dtype::kF32, ParamPart part = ParamPart::kAll,
                      Memory& memory = HostMemory());
  // `tensors` are those of the table, padded or not, only ever read, and live as long as `owner`.
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

// The tensors of a model by the names of their parameters; valid as long as it.
std::map<std::string_view, const Tensor*> TensorsByName(const GptWeights& weights);

// A summary of a model: the sizes and counts that descriptions of it show.
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
  std::string_view positions, norm, activation;  // as the configuration names them
  bool tied, causal;
  Total decayed, not_decayed;  // by AdamW; of the table

  int64_t tensors() const { return decayed.tensors + not_decayed.tensors; }
  int64_t parameters() const { return decayed.parameters + not_decayed.parameters; }
  int64_t float32_bytes() const { return 4 * parameters(); }
};

}  // namespace folio
