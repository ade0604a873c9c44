#include <algorithm>
#include <initializer_list>
#include <string_view>
#include <utility>
#include <vector>

#include "folio/model_files/families.h"
#include "folio/model_files/families/tables.h"

namespace folio {

Family LlamaTable() {
  return {
      .formats = Formats(FileFormat::kHuggingFace, FileFormat::kGguf),
      .model_type = "llama",
      .architectures = {"LlamaForCausalLM", "LlamaModel"},
      .keys = {{"n_layer", {"num_hidden_layers"}},
               {"n_head", {"num_attention_heads"}},
               {"n_embd", {"hidden_size"}},
               {"n_positions", {"max_position_embeddings"}},
               {"n_kv_head", {"num_key_value_heads"}},
               {"n_inner", {"intermediate_size"}},
               {"activation_function", {"hidden_act"}},
               {"layer_norm_epsilon", {"rms_norm_eps"}},
               {"attn_pdrop", {"attention_dropout"}}},
      .repeated_keys = {},
      .fixed = Rows(kLlamaFixed),
      .own = Rows(kPlainOwn, {"head_dim", "attention_bias", "mlp_bias"}),
      .absent = R"({
    "vocab_size": 32000, "hidden_size": 4096, "intermediate_size": 11008, "num_hidden_layers": 32,
    "num_attention_heads": 32, "hidden_act": "silu", "max_position_embeddings": 2048,
    "rms_norm_eps": 1e-6, "bos_token_id": 1, "eos_token_id": 2, "tie_word_embeddings": false})",
      .refused =
          Rows(kRefused, {{"use_bidirectional_attention", "false", "bidirectional attention"},
                          {"use_parallel_residual", "true", "GPT-NeoX with serial sublayers"},
                          {"qk_layernorm", "false", "Phi with norms of queries and keys"},
                          {"rope_interleaved", "false", "rotary positions that turn neighbours"},
                          {"use_mrope", "false", "rotary positions of several dimensions"},
                          {"mlp_type", "\"default\"", "StarCoder2 with another feed-forward layer"},
                          {"norm_type", "\"layer_norm\"", "StarCoder2 with other norms"},
                          {"full_attn_mod", "1", "Phi-3 with attention to blocks"},
                          {"interpolate_factor", "1", "Phi-3 with other rotary positions"}}),
      .passed_over = {},
      .derived = {kRopeScaling, kRopeParameters},
      .activation_prefix = "",
      .tensors = LlamaTensors(RowOrder::kAdjacentPairs),
      .optional_prefix = "model.",
      .not_read = {".rotary_emb.inv_freq", ".attention.bias", ".attention.masked_bias"},
      .all_biases = false,
      .enclosing = {},
      .gguf_architecture = "llama",
      .gguf_keys = Rows(kRmsGgufKeys, {kWindowKeyRead}),
      .gguf_unsaid = {{"layer_kinds", "w"}},
      .gguf_by_tensors = {"attention_bias", "mlp_bias"},
      .gguf_by_sizes = nullptr,
      .gguf_rope = RopeTensors::kDivisors,
      .limits = {},
  };
}

Family FamilyLike(Family family, std::string_view type,
                  std::vector<std::string_view> architectures) {
  family.model_type = family.gguf_architecture = type;
  family.architectures = std::move(architectures);
  family.gguf_keys = Rows(kRmsGgufKeys);
  family.gguf_unsaid = {};
  family.gguf_by_tensors = {};
  family.gguf_rope = RopeTensors::kNone;
  return family;
}

void SetKeys(std::initializer_list<ConfigKey> keys, Family& family) {
  for (const ConfigKey& key : keys) {
    std::erase_if(family.keys, [&](const ConfigKey& had) { return had.field == key.field; });
    family.keys.push_back(key);
  }
}

Family MistralTable() {
  Family family = LlamaTable();  // the same table in GGUF
  family.model_type = "mistral";
  family.architectures = {"MistralForCausalLM", "MistralModel"};
  family.own = Rows(kPlainOwn, {"head_dim", "sliding_window"});
  family.absent = R"({
    "vocab_size": 32000, "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
    "num_attention_heads": 32, "num_key_value_heads": 8, "hidden_act": "silu",
    "max_position_embeddings": 131072, "rms_norm_eps": 1e-6, "bos_token_id": 1, "eos_token_id": 2,
    "tie_word_embeddings": false, "sliding_window": 4096, "layer_kinds": "w"})";
  family.derived = {kRopeScaling, kRopeParameters, kWindowOfAll};
  family.limits = {kWindowEverywhere};
  return family;
}

}  // namespace folio
