#include <array>
#include <optional>
#include <span>
#include <string_view>

#include "folio/model/checkpoint.h"
#include "folio/model/families.h"
#include "folio/model/families/tables.h"

namespace folio {
namespace {

constexpr auto kLlamaNames = std::to_array<std::string_view>({"LlamaForCausalLM", "LlamaModel"});
constexpr auto kMistralNames =
    std::to_array<std::string_view>({"MistralForCausalLM", "MistralModel"});

constexpr auto kLlamaOwn =
    Joined(kPlainOwn, std::to_array<std::string_view>({"head_dim", "attention_bias", "mlp_bias"}));
constexpr auto kMistralOwn =
    Joined(kPlainOwn, std::to_array<std::string_view>({"head_dim", "sliding_window"}));

constexpr auto kLlamaRequired = std::to_array<std::string_view>(
    {"vocab_size", "n_layer", "n_head", "n_embd", "n_positions", "n_inner", "layer_norm_epsilon"});

constexpr auto kLlamaRefused = std::to_array<RefusedKey>({
    {"is_encoder_decoder", "false", "an encoder"},
    {"add_cross_attention", "false", "cross-attention"},
    {"quantization_config", "null", "a quantised model"},
    {"compression_config", "null", "a quantised model"},
    {"quantization", "null", "a quantised model of MLX"},
    {"pruned_heads", "{}", "a model with pruned heads"},
    {"use_bidirectional_attention", "false", "attention to what follows"},
    {"use_parallel_residual", "true", "GPT-NeoX with one sublayer after the other"},
    {"qk_layernorm", "false", "Phi with norms of queries and keys"},
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
      .required = kLlamaRequired,
      .absent = kLlamaAbsent,
      .refused = kLlamaRefused,
      .derived = kRopeDerived,
      .absent_end = std::nullopt,
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
  Family family = LlamaTable();  // in GGUF it is one
  family.model_type = "mistral";
  family.architectures = kMistralNames;
  family.own = kMistralOwn;
  family.absent = kWindowAbsent;
  family.derived = kWindowDerived;
  family.limits = kMistralLimits;
  return family;
}

}  // namespace folio
