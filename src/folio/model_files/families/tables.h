#pragma once

#include <array>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

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
                  std::vector<std::string_view> architectures);

// Adds keys to those of a family; they replace its keys for the same fields.
void SetKeys(std::initializer_list<ConfigKey> keys, Family& family);

// The rows of a list, and more behind them.
template <class List, class Row = typename List::value_type>
std::vector<Row> Rows(const List& list,
                      std::type_identity_t<std::initializer_list<Row>> more = {}) {
  std::vector<Row> rows(list.begin(), list.end());
  rows.insert(rows.end(), more);
  return rows;
}

// --- Keys of config.json

// Kinds of layers in transformers.
inline constexpr std::string_view kFullAttention = "full_attention",
                                  kSlidingAttention = "sliding_attention";

// Keys that express fields in another way (DerivedKey). The result must be complete where the
// functions are named: else Clang gives them another type, which WebAssembly refuses.
static_assert(std::is_default_constructible_v<std::optional<Json>>);

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
inline constexpr DerivedKey kPartInParameters = {"rope_parameters", "rotary_dim", &ReadPartInRope,
                                                 nullptr};
inline constexpr DerivedKey kPartInScaling = {"rope_scaling", "rotary_dim", &ReadPartInRope,
                                              nullptr};
// All layers have the window, if there is one.
inline constexpr DerivedKey kWindowOfAll = {"sliding_window", "layer_kinds", nullptr, nullptr};

// Fields that every file has under their own names. Qwen 2 and some others have no key for biases.
inline constexpr auto kPlainOwn = std::to_array<std::string_view>(
    {"vocab_size", "tie_word_embeddings", "rope_theta", "rope_scaling", "initializer_range",
     "bos_token_id", "eos_token_id"});

// Keys of every class that ask for what folio does not have.
inline constexpr auto kRefused = std::to_array<RefusedKey>({
    {"is_encoder_decoder", "false", "an encoder"},
    {"add_cross_attention", "false", "cross-attention"},
    {"quantization_config", "null", "a quantized model"},
    {"compression_config", "null", "a quantized model"},
    {"quantization", "null", "an MLX-quantized model"},
    {"pruned_heads", "{}", "a model with pruned heads"},
});

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

inline std::vector<TensorRow> LlamaTensors(RowOrder order) {
  return {kEmbedRow, kNorm1Row,  TurnedRow("attn.c_attn", kQkvProj, kGgufQkv, order),
          kQNormRow, kKNormRow,  kOutRow,
          kNorm2Row, kGateUpRow, kDownRow,
          kNormFRow, kHeadRow};
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
inline constexpr GgufKey kWindowKeyRead = {"attention.sliding_window", "sliding_window",
                                           GgufKey::Use::kOnlyRead};

// --- What files can hold

inline constexpr unsigned kEverywhere = ~0u;
inline constexpr Limit kHeadsOfC = {"head_dim", kEverywhere, [](const GptConfig& c) {
                                      return c.n_head * c.head_size() == c.n_embd;
                                    }};
inline constexpr Limit kOwnKvHeads = {"n_kv_head", kEverywhere, [](const GptConfig& c) {
                                        return c.n_kv_head.value_or(c.n_head) == c.n_head;
                                      }};
inline constexpr Limit kHasHead = {"tie_word_embeddings", Formats(FileFormat::kGguf),
                                   [](const GptConfig& c) { return !c.tie_word_embeddings; }};
// If there is a window, all layers must have it.
inline constexpr Limit kWindowEverywhere = {
    "layer_kinds", kEverywhere,
    [](const GptConfig& c) { return !c.sliding_window || c.layer_kinds == LayerKindsOf("w"); }};

}  // namespace folio
