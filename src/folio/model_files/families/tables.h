#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "folio/io/json.h"
#include "folio/model/config.h"
#include "folio/model_files/family.h"

// The tables of the families (families.h), one file for each name, and their common parts: only for
// these files.

namespace folio {

Family Gpt2Table();
Family LlamaTable();
Family MistralTable();
Family SmolLm3Table();
Family Qwen2Table();
Family Qwen3Table();
Family Gemma2Table();
Family Gemma3Table();
Family Olmo2Table();
Family Phi3Table();
Family GraniteTable();
Family Starcoder2Table();
Family NeoxTable();
Family PhiTable();
Family NanochatTable();
Family FolioTable();

// A copy of another Llama-like family as a start: named `type` by Hugging Face and in GGUF, with no
// further keys in its files.
Family FamilyLike(Family family, std::string_view type,
                  std::span<const std::string_view> architectures);

template <class T, size_t N, size_t M>
constexpr auto Joined(const std::array<T, N>& a, const std::array<T, M>& b) {
  std::array<T, N + M> both = {};
  std::ranges::copy(a, both.begin());
  std::ranges::copy(b, both.begin() + N);
  return both;
}

// --- Keys of config.json

inline constexpr auto kLlamaKeys = std::to_array<ConfigKey>({
    {"n_layer", {"num_hidden_layers"}},
    {"n_head", {"num_attention_heads"}},
    {"n_embd", {"hidden_size"}},
    {"n_positions", {"max_position_embeddings"}},
    {"n_kv_head", {"num_key_value_heads"}},
    {"n_inner", {"intermediate_size"}},
    {"activation_function", {"hidden_act"}},
    {"layer_norm_epsilon", {"rms_norm_eps"}},
    {"attn_pdrop", {"attention_dropout"}},
});

// The same with more keys, or with other keys for some fields.
template <size_t N>
constexpr auto LlamaKeysAnd(const std::array<ConfigKey, N>& more) {
  std::array<ConfigKey, kLlamaKeys.size() + N> keys = {};
  size_t next = 0;
  for (const ConfigKey& key : kLlamaKeys) {
    const bool other = std::ranges::count(more, key.field, &ConfigKey::field) > 0;
    if (!other) keys[next++] = key;
  }
  std::ranges::copy(more, keys.begin() + next);
  return keys;  // empty rows at the end replace overridden ones
}

// Kinds of layers in transformers.
inline constexpr std::string_view kFullAttention = "full_attention",
                                  kSlidingAttention = "sliding_attention";

// Keys that express fields in another way (DerivedKey).
//
// Reads an object that describes the scaling of rotary positions: transformers has it in
// "rope_parameters", and formerly in "rope_scaling", which takes precedence. The base is in it, or
// beside it.
void ReadRopeScaling(const Json& rope, const Json& json, Json& said, const std::string& where);
void ReadRopeParameters(const Json& rope, const Json& json, Json& said, const std::string& where);
std::optional<Json> WriteRopeScaling(const GptConfig& config);
// Reads the rotary fraction of a head from it. Families without one ignore it.
void ReadPartInRope(const Json& rope, const Json& json, Json& said, const std::string& where);
void ReadRotaryPart(const Json& value, const Json& json, Json& said, const std::string& where);
std::optional<Json> WriteRotaryPart(const GptConfig& config);
void ReadLayerTypes(const Json& types, const Json& json, Json& said, const std::string& where);
std::optional<Json> WriteLayerTypes(const GptConfig& config);
void ReadUseWindow(const Json& use, const Json& json, Json& said, const std::string& where);
std::optional<Json> WriteUseWindow(const GptConfig& config);

// Reads the members of such an object, with transformers' requirements.
void ReadRope(const Json& rope, Json& said, const std::string& where);
Json RopeObject(const GptConfig& config);
// Returns true if the file has a value other than null for the key.
bool Says(const Json& json, std::string_view key);

// Sets a field to `convert` of a number.
void SetNumber(const Json& value, Json& said, const char* field, double (*convert)(double));

// The number of which a file has the square root or inverse: most are whole.
double Rounded(double x);

inline constexpr DerivedKey kRopeScaling = {"rope_scaling", "rope_scaling", &ReadRopeScaling,
                                            &WriteRopeScaling};
inline constexpr DerivedKey kRopeParameters = {"rope_parameters", "rope_scaling",
                                               &ReadRopeParameters, nullptr};
inline constexpr DerivedKey kLayerTypes = {"layer_types", "layer_kinds", &ReadLayerTypes,
                                           &WriteLayerTypes};
inline constexpr DerivedKey kUseWindow = {"use_sliding_window", "sliding_window", &ReadUseWindow,
                                          &WriteUseWindow};
inline constexpr DerivedKey kPartialRotary = {"partial_rotary_factor", "rotary_dim",
                                              &ReadRotaryPart, &WriteRotaryPart};
inline constexpr auto kPartsInRope =
    std::to_array<DerivedKey>({{"rope_parameters", "rotary_dim", &ReadPartInRope, nullptr},
                               {"rope_scaling", "rotary_dim", &ReadPartInRope, nullptr}});
// All layers have the window, if there is one.
inline constexpr DerivedKey kWindowOfAll = {"sliding_window", "layer_kinds", nullptr, nullptr};
inline constexpr auto kRopeDerived = std::to_array<DerivedKey>({kRopeScaling, kRopeParameters});
inline constexpr auto kWindowDerived =
    std::to_array<DerivedKey>({kRopeScaling, kRopeParameters, kWindowOfAll});

// Fields that every file has under their own names. Qwen 2 and some others have no key for biases.
inline constexpr auto kPlainOwn = std::to_array<std::string_view>(
    {"vocab_size", "tie_word_embeddings", "rope_theta", "rope_scaling", "initializer_range",
     "bos_token_id", "eos_token_id"});
inline constexpr auto kWindowOwn =
    Joined(kPlainOwn, std::to_array<std::string_view>({"sliding_window"}));
inline constexpr auto kBiasOwn =
    Joined(kPlainOwn, std::to_array<std::string_view>({"attention_bias"}));

// A Llama-like model: rotary positions, RMSNorm before each sublayer, a gated feed-forward part.
inline constexpr auto kLlamaFixed = std::to_array<FieldValue>(
    {{"norm", "rms"}, {"position_embedding", "rotary"}, {"mlp", "gated"}, {"bias", "false"}});

// --- Tensors

// The names of Hugging Face and of GGUF. `offset` is added to the numbers in GGUF.
constexpr TensorRow NamedRow(std::string_view module, std::string_view hf, std::string_view gguf,
                             float offset = 0) {
  FileTensor in_gguf = {.names = {gguf}};
  in_gguf.offset = offset;
  return {module, {{{{hf}}, in_gguf, {}, {}, {}}}};
}

// The same for a matrix. `hf` and `gguf` have several names if such files store q | k | v or gate |
// up as separate tensors.
using TensorNames = std::array<std::string_view, 3>;
constexpr TensorRow TurnedRow(std::string_view module, const TensorNames& hf,
                              const TensorNames& gguf, RowOrder order = RowOrder::kAsHere,
                              RowOrder hf_order = RowOrder::kAsHere) {
  using enum Transform;
  return {module, {{{hf, kTranspose, hf_order}, {gguf, kTranspose, order}, {}, {}, {}}}};
}

inline constexpr TensorNames kQkvProj = {"model.layers.{}.self_attn.q_proj.weight",
                                         "model.layers.{}.self_attn.k_proj.weight",
                                         "model.layers.{}.self_attn.v_proj.weight"};
inline constexpr TensorNames kGgufQkv = {"blk.{}.attn_q.weight", "blk.{}.attn_k.weight",
                                         "blk.{}.attn_v.weight"};
inline constexpr TensorRow kEmbedRow =
    NamedRow("wte", "model.embed_tokens.weight", "token_embd.weight");
inline constexpr TensorRow kNorm1Row =
    NamedRow("ln_1", "model.layers.{}.input_layernorm.weight", "blk.{}.attn_norm.weight");
inline constexpr TensorRow kNorm2Row =
    NamedRow("ln_2", "model.layers.{}.post_attention_layernorm.weight", "blk.{}.ffn_norm.weight");
inline constexpr TensorRow kQNormRow =
    NamedRow("attn.q_norm", "model.layers.{}.self_attn.q_norm.weight", "blk.{}.attn_q_norm.weight");
inline constexpr TensorRow kKNormRow =
    NamedRow("attn.k_norm", "model.layers.{}.self_attn.k_norm.weight", "blk.{}.attn_k_norm.weight");
inline constexpr TensorRow kOutRow = TurnedRow(
    "attn.c_proj", {"model.layers.{}.self_attn.o_proj.weight"}, {"blk.{}.attn_output.weight"});
inline constexpr TensorRow kGateUpRow = TurnedRow(
    "mlp.c_fc", {"model.layers.{}.mlp.gate_proj.weight", "model.layers.{}.mlp.up_proj.weight"},
    {"blk.{}.ffn_gate.weight", "blk.{}.ffn_up.weight"});
inline constexpr TensorRow kDownRow =
    TurnedRow("mlp.c_proj", {"model.layers.{}.mlp.down_proj.weight"}, {"blk.{}.ffn_down.weight"});
inline constexpr TensorRow kNormFRow = NamedRow("ln_f", "model.norm.weight", "output_norm.weight");
inline constexpr TensorRow kHeadRow = NamedRow("lm_head", "lm_head.weight", "output.weight");

constexpr auto LlamaTensors(RowOrder order) {
  return std::to_array<TensorRow>(
      {kEmbedRow, kNorm1Row, TurnedRow("attn.c_attn", kQkvProj, kGgufQkv, order), kQNormRow,
       kKNormRow, kOutRow, kNorm2Row, kGateUpRow, kDownRow, kNormFRow, kHeadRow});
}

// --- GGUF

// Keys of GGUF; `epsilon` is the key of the norms' epsilon.
constexpr auto GgufKeys(std::string_view epsilon) {
  using enum GgufKey::Use;
  return std::to_array<GgufKey>({
      {"context_length", "n_positions"},
      {"embedding_length", "n_embd"},
      {"block_count", "n_layer"},
      {"feed_forward_length", "n_inner"},
      {"attention.head_count", "n_head"},
      {"attention.head_count_kv", "n_kv_head", kOptional},
      {"attention.key_length", "head_dim", kOptional},
      {"attention.value_length", "head_dim", kOptional},
      {"rope.dimension_count", "rotary_dim", kOptional},
      {"rope.freq_base", "rope_theta", kOptional},
      {"vocab_size", "vocab_size", kOnlyWritten},  // given by the embeddings
      {epsilon, "layer_norm_epsilon"},
  });
}
inline constexpr auto kRmsGgufKeys = GgufKeys("attention.layer_norm_rms_epsilon");
inline constexpr auto kLayerNormGgufKeys = GgufKeys("attention.layer_norm_epsilon");

// llama.cpp ignores the window in files of these families.
inline constexpr auto kWindowKeyRead = std::to_array<GgufKey>(
    {{"attention.sliding_window", "sliding_window", GgufKey::Use::kOnlyRead}});
inline constexpr auto kWindowKey = std::to_array<GgufKey>(
    {{"attention.sliding_window", "sliding_window", GgufKey::Use::kOptional}});

// Fields with these values if files do not say them, some only if certain tensors exist.
inline constexpr auto kAllWindows = std::to_array<FieldValue>({{"layer_kinds", "w"}});
inline constexpr auto kBiasesByTensors =
    std::to_array<std::string_view>({"attention_bias", "mlp_bias"});

// --- What files can hold

inline constexpr unsigned kEverywhere = ~0u;
inline constexpr Limit kHeadsOfC = {"head_dim", kEverywhere, [](const GptConfig& c) {
                                      return c.n_head * c.head_size() == c.n_embd;
                                    }};
inline constexpr Limit kHasHead = {"tie_word_embeddings", Formats(FileFormat::kGguf),
                                   [](const GptConfig& c) { return !c.tie_word_embeddings; }};
// If there is a window, all layers must have it.
inline constexpr Limit kWindowEverywhere = {
    "layer_kinds", kEverywhere,
    [](const GptConfig& c) { return !c.sliding_window || c.layer_kinds == LayerKindsOf("w"); }};
inline constexpr auto kHeadsLimits = std::to_array<Limit>({kHeadsOfC});
inline constexpr auto kHeadsUntiedLimits = std::to_array<Limit>({kHeadsOfC, kHasHead});

}  // namespace folio
