#include <array>
#include <span>
#include <string_view>

#include "folio/model_files/checkpoint.h"
#include "folio/model_files/families.h"
#include "folio/model_files/families/tables.h"

namespace folio {
namespace {

constexpr auto kLlamaNames = std::to_array<std::string_view>({"LlamaForCausalLM", "LlamaModel"});
constexpr auto kMistralNames =
    std::to_array<std::string_view>({"MistralForCausalLM", "MistralModel"});

constexpr auto kLlamaOwn =
    Joined(kPlainOwn, std::to_array<std::string_view>({"head_dim", "attention_bias", "mlp_bias"}));
constexpr auto kMistralOwn =
    Joined(kPlainOwn, std::to_array<std::string_view>({"head_dim", "sliding_window"}));

constexpr std::string_view kLlamaAbsent = R"({
    "vocab_size": 32000, "hidden_size": 4096, "intermediate_size": 11008, "num_hidden_layers": 32,
    "num_attention_heads": 32, "hidden_act": "silu", "max_position_embeddings": 2048,
    "rms_norm_eps": 1e-6, "bos_token_id": 1, "eos_token_id": 2, "tie_word_embeddings": false})";
constexpr std::string_view kMistralAbsent = R"({
    "vocab_size": 32000, "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
    "num_attention_heads": 32, "num_key_value_heads": 8, "hidden_act": "silu",
    "max_position_embeddings": 131072, "rms_norm_eps": 1e-6, "bos_token_id": 1, "eos_token_id": 2,
    "tie_word_embeddings": false, "sliding_window": 4096, "layer_kinds": "w"})";

constexpr auto kLlamaRefused = std::to_array<RefusedKey>({
    {"is_encoder_decoder", "false", "an encoder"},
    {"add_cross_attention", "false", "cross-attention"},
    {"quantization_config", "null", "a quantized model"},
    {"compression_config", "null", "a quantized model"},
    {"quantization", "null", "an MLX-quantized model"},
    {"pruned_heads", "{}", "a model with pruned heads"},
    {"use_bidirectional_attention", "false", "bidirectional attention"},
    {"use_parallel_residual", "true", "GPT-NeoX with serial sublayers"},
    {"qk_layernorm", "false", "Phi with norms of queries and keys"},
    {"rope_interleaved", "false", "rotary positions that turn neighbours"},
    {"use_mrope", "false", "rotary positions of several dimensions"},
    {"mlp_type", "\"default\"", "StarCoder2 with another feed-forward layer"},
    {"norm_type", "\"layer_norm\"", "StarCoder2 with other norms"},
    {"full_attn_mod", "1", "Phi-3 with attention to blocks"},
    {"interpolate_factor", "1", "Phi-3 with other rotary positions"},
});

constexpr auto kNotRead = std::to_array<std::string_view>(
    {".rotary_emb.inv_freq", ".attention.bias", ".attention.masked_bias"});

constexpr auto kLlamaTensors = LlamaTensors(RowOrder::kAdjacentPairs);

constexpr auto kLlamaGgufKeys = Joined(kRmsGgufKeys, kWindowKeyRead);

constexpr auto kMistralLimits = std::to_array<Limit>({kWindowEverywhere});

}  // namespace

Family LlamaTable() {
  return {
      .formats = Formats(FileFormat::kHuggingFace, FileFormat::kGguf),
      .model_type = "llama",
      .architectures = kLlamaNames,
      .keys = kLlamaKeys,
      .repeated_keys = {},
      .fixed = kLlamaFixed,
      .own = kLlamaOwn,
      .absent = kLlamaAbsent,
      .refused = kLlamaRefused,
      .passed_over = {},
      .derived = kRopeDerived,
      .activation_prefix = "",
      .tensors = kLlamaTensors,
      .optional_prefix = "model.",
      .not_read = kNotRead,
      .all_biases = false,
      .enclosing = {},
      .gguf_architecture = "llama",
      .gguf_keys = kLlamaGgufKeys,
      .gguf_unsaid = kAllWindows,
      .gguf_by_tensors = kBiasesByTensors,
      .gguf_by_sizes = nullptr,
      .gguf_rope = RopeTensors::kDivisors,
      .limits = {},
  };
}

Family FamilyLike(Family family, std::string_view type,
                  std::span<const std::string_view> architectures) {
  family.model_type = family.gguf_architecture = type;
  family.architectures = architectures;
  family.gguf_keys = kRmsGgufKeys;
  family.gguf_unsaid = {};
  family.gguf_by_tensors = {};
  family.gguf_rope = RopeTensors::kNone;
  return family;
}

Family MistralTable() {
  Family family = LlamaTable();  // the same table in GGUF
  family.model_type = "mistral";
  family.architectures = kMistralNames;
  family.own = kMistralOwn;
  family.absent = kMistralAbsent;
  family.derived = kWindowDerived;
  family.limits = kMistralLimits;
  return family;
}

}  // namespace folio
