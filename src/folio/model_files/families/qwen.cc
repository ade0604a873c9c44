#include <string_view>

#include "folio/model_files/families.h"
#include "folio/model_files/families/tables.h"

namespace folio {

Family Qwen2Table() {
  Family family = FamilyLike(LlamaTable(), "qwen2", {"Qwen2ForCausalLM", "Qwen2Model"});
  family.fixed = Rows(kLlamaFixed, {{"qkv_bias", "true"}});
  family.own = Rows(kPlainOwn, {"sliding_window"});
  family.absent = R"({
    "vocab_size": 151936, "hidden_size": 4096, "intermediate_size": 22016, "num_hidden_layers": 32,
    "num_attention_heads": 32, "num_key_value_heads": 32, "hidden_act": "silu",
    "max_position_embeddings": 32768, "rms_norm_eps": 1e-6, "tie_word_embeddings": false,
    "use_sliding_window": false, "sliding_window": 4096, "max_window_layers": 28})";
  family.derived = {kRopeScaling, kRopeParameters, kUseWindow, kLayerTypes};
  family.tensors = LlamaTensors(RowOrder::kAsHere);
  family.limits = {kHeadsOfC};
  return family;
}

Family Qwen3Table() {
  Family family = FamilyLike(Qwen2Table(), "qwen3", {"Qwen3ForCausalLM", "Qwen3Model"});
  family.fixed = Rows(kLlamaFixed, {{"qk_norm", "head"}});
  family.own = Rows(kPlainOwn, {"head_dim", "attention_bias", "sliding_window"});
  family.absent = R"({
    "vocab_size": 151936, "hidden_size": 4096, "intermediate_size": 22016, "num_hidden_layers": 32,
    "num_attention_heads": 32, "num_key_value_heads": 32, "head_dim": 128, "hidden_act": "silu",
    "max_position_embeddings": 32768, "rms_norm_eps": 1e-6, "tie_word_embeddings": false,
    "use_sliding_window": false, "sliding_window": 4096, "max_window_layers": 28})";
  family.limits = {};
  return family;
}

}  // namespace folio
