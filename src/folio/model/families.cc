#include "folio/model/families.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <utility>
#include <vector>

#include "folio/base/check.h"
#include "folio/base/error.h"
#include "folio/base/strings.h"
#include "folio/model/layers/attention.h"

namespace folio {

namespace {

using enum FileFormat;

// --- GPT-2

constexpr auto kGpt2Architectures =
    std::to_array<std::string_view>({"GPT2LMHeadModel", "GPT2Model", "FolioLMHeadModel"});

// Configurations of other kinds of models have the second name, which transformers' GPT2Config
// takes too.
constexpr auto kGpt2Keys = std::to_array<ConfigKey>({
    {"n_layer", {"n_layer", "num_hidden_layers"}},
    {"n_head", {"n_head", "num_attention_heads"}},
    {"n_embd", {"n_embd", "hidden_size"}},
    {"n_positions", {"n_positions", "max_position_embeddings"}},
});
constexpr auto kGpt2RepeatedKeys = std::to_array<ConfigKey>({{"n_positions", {"n_ctx"}}});

// Settings of an architecture that a family has as GptConfig begins them, unless it says otherwise.
constexpr auto kSwitches = std::to_array<std::string_view>(
    {"mlp",
     "norm",
     "scale_attn_weights",
     "scale_attn_by_inverse_layer_idx",
     "attention_scale",
     "attention_cap",
     "qk_norm",
     "qk_scale",
     "position_embedding",
     "rope_theta",
     "rotary_dim",
     "rope_scaling",
     "no_rope_every",
     "sliding_window",
     "layer_kinds",
     "rope_window_theta",
     "norm_position",
     "embedding_scale",
     "residual_scale",
     "logit_scale",
     "logit_cap",
     "causal",
     "bias",
     "attention_bias",
     "qkv_bias",
     "mlp_bias",
     "layer_norm_bias",
     "lm_head_bias"});

constexpr auto kGpt2Own = std::to_array<std::string_view>({"vocab_size",
                                                           "n_inner",
                                                           "activation_function",
                                                           "layer_norm_epsilon",
                                                           "scale_attn_weights",
                                                           "scale_attn_by_inverse_layer_idx",
                                                           "reorder_and_upcast_attn",
                                                           "position_embedding",
                                                           "norm_position",
                                                           "causal",
                                                           "bias",
                                                           "attention_bias",
                                                           "mlp_bias",
                                                           "layer_norm_bias",
                                                           "lm_head_bias",
                                                           "tie_word_embeddings",
                                                           "embd_pdrop",
                                                           "attn_pdrop",
                                                           "resid_pdrop",
                                                           "mlp_pdrop",
                                                           "sublayer_pdrop",
                                                           "init",
                                                           "initializer_range",
                                                           "init_zero_positions",
                                                           "init_scaled_residuals",
                                                           "bos_token_id",
                                                           "eos_token_id"});

constexpr auto kGpt2Fixed = std::to_array<FieldValue>({
    {"position_embedding", "learned"},
    {"norm_position", "pre"},
    {"causal", "true"},
    {"lm_head_bias", "false"},
});

constexpr auto kGpt2Absent = std::to_array<FieldValue>({
    {"embd_pdrop", "0.1"},
    {"attn_pdrop", "0.1"},
    {"resid_pdrop", "0.1"},
});

constexpr auto kGpt2Refused = std::to_array<RefusedKey>({
    {"add_cross_attention", "false", "cross-attention"},
    {"is_encoder_decoder", "false", "an encoder"},
    {"quantization_config", "null", "a quantised model"},
    {"pruned_heads", "{}", "a model with pruned heads"},
});

// The names are those of Hugging Face, which nanoGPT and llm.c have too, of GGUF, and of OpenAI's
// release behind "model/".
constexpr TensorRow PlainRow(std::string_view module, std::string_view hf, std::string_view gguf,
                             std::string_view openai) {
  return {module, {{{{hf}}, {{gguf}}, {{hf}}, {{hf}}, {{openai}}}}};
}

// Linear layers are (in,out) in transformers' GPT-2 too, convolutions of width one in OpenAI's.
constexpr TensorRow LinearRow(std::string_view module, std::string_view hf, std::string_view gguf,
                              std::string_view openai) {
  using enum Transform;
  return {module,
          {{{{hf}},
            {{gguf}, kTranspose},
            {{hf}, kTranspose},
            {{hf}, kTranspose},
            {{openai}, kUnitAxis}}}};
}

constexpr std::array kGpt2Tensors = {
    PlainRow("wte", "transformer.wte.weight", "token_embd.weight", "wte"),
    PlainRow("wpe", "transformer.wpe.weight", "position_embd.weight", "wpe"),
    PlainRow("ln_1", "transformer.h.{}.ln_1.weight", "blk.{}.attn_norm.weight", "h{}/ln_1/g"),
    LinearRow("attn.c_attn", "transformer.h.{}.attn.c_attn.weight", "blk.{}.attn_qkv.weight",
              "h{}/attn/c_attn/w"),
    LinearRow("attn.c_proj", "transformer.h.{}.attn.c_proj.weight", "blk.{}.attn_output.weight",
              "h{}/attn/c_proj/w"),
    PlainRow("ln_2", "transformer.h.{}.ln_2.weight", "blk.{}.ffn_norm.weight", "h{}/ln_2/g"),
    LinearRow("mlp.c_fc", "transformer.h.{}.mlp.c_fc.weight", "blk.{}.ffn_up.weight",
              "h{}/mlp/c_fc/w"),
    LinearRow("mlp.c_proj", "transformer.h.{}.mlp.c_proj.weight", "blk.{}.ffn_down.weight",
              "h{}/mlp/c_proj/w"),
    PlainRow("ln_f", "transformer.ln_f.weight", "output_norm.weight", "ln_f/g"),
    PlainRow("lm_head", "lm_head.weight", "output.weight", ""),
};

// Buffers of the causal mask, which old files hold.
constexpr auto kGpt2NotRead = std::to_array<std::string_view>({".attn.bias", ".attn.masked_bias"});

constexpr auto kGpt2GgufKeys = std::to_array<GgufKey>({
    {"context_length", "n_positions"},
    {"embedding_length", "n_embd"},
    {"block_count", "n_layer"},
    {"feed_forward_length", "n_inner"},
    {"attention.head_count", "n_head"},
    {"vocab_size", "vocab_size", GgufKey::Reading::kNever},  // the embeddings say it
    {"attention.layer_norm_epsilon", "layer_norm_epsilon", GgufKey::Reading::kOptional},
});

// transformers has several settings of GPT-2 that the other programs have not, and nanoGPT and
// llm.c know it in several sizes alone.
constexpr unsigned kEverywhere = ~0u, kOthers = Formats(kGguf, kNanoGpt, kLlmc),
                   kSizesAlone = Formats(kNanoGpt, kLlmc);

constexpr auto kGpt2Limits = std::to_array<Limit>({
    {"n_kv_head", kEverywhere,
     [](const GptConfig& c) { return c.n_kv_head.value_or(c.n_head) == c.n_head; }},
    {"head_dim", kEverywhere,
     [](const GptConfig& c) { return c.n_head * c.head_size() == c.n_embd; }},
    {"scale_attn_weights", kOthers, [](const GptConfig& c) { return c.scale_attn_weights; }},
    {"scale_attn_by_inverse_layer_idx", kOthers,
     [](const GptConfig& c) { return !c.scale_attn_by_inverse_layer_idx; }},
    {"tie_word_embeddings", kSizesAlone, [](const GptConfig& c) { return c.tie_word_embeddings; }},
    {"n_inner", kSizesAlone, [](const GptConfig& c) { return c.inner() == 4 * c.n_embd; }},
    {"layer_norm_epsilon", kSizesAlone,
     [](const GptConfig& c) { return c.layer_norm_epsilon == 1e-5; }},
    {"activation_function", Formats(kGguf, kLlmc),
     [](const GptConfig& c) { return c.activation_function == "gelu_new"; }},
    // nanoGPT has GELU in its exact form, and loads GPT-2's weights all the same.
    {"activation_function", Formats(kNanoGpt),
     [](const GptConfig& c) {
       return c.activation_function == "gelu" || c.activation_function == "gelu_new";
     }},
});

constexpr Family kGpt2 = {
    .formats = Formats(kHuggingFace, kGguf, kNanoGpt, kLlmc, kOpenAi),
    .model_type = "gpt2",
    .architectures = kGpt2Architectures,
    .keys = kGpt2Keys,
    .repeated_keys = kGpt2RepeatedKeys,
    .fixed = kGpt2Fixed,
    .own = kGpt2Own,
    .required = {},
    .absent = kGpt2Absent,
    .refused = kGpt2Refused,
    .shape = nullptr,
    .absent_end = 50256,
    .activation_prefix = "",
    .tensors = kGpt2Tensors,
    .optional_prefix = "transformer.",
    .not_read = kGpt2NotRead,
    .all_biases = true,
    .gguf_architecture = "gpt2",
    .gguf_keys = kGpt2GgufKeys,
    .limits = kGpt2Limits,
};

// --- Llama and its relatives

// The fields that say how rotary positions are scaled, and their keys in the object that
// config.json has for them.
constexpr auto kRopeKeys = std::to_array<ConfigKey>({
    {"rope_theta", {"rope_theta"}},
    {"rope_scaling", {"rope_type", "type"}},
    {"rope_factor", {"factor"}},
    {"rope_low_freq_factor", {"low_freq_factor"}},
    {"rope_high_freq_factor", {"high_freq_factor"}},
    {"rope_beta_fast", {"beta_fast"}},
    {"rope_beta_slow", {"beta_slow"}},
    {"rope_attention_factor", {"attention_factor"}},
    {"rope_original_positions", {"original_max_position_embeddings"}},
});

// transformers has the settings of rotary positions in "rope_parameters", and had them in
// "rope_scaling" with "rope_theta" beside it.
Json ReadRope(const Json& json, const std::string& where) {
  Json flat = json;
  flat["rope_scaling"] = "default";
  const Json* found = json.find("rope_parameters");
  const std::string_view name = found != nullptr ? "rope_parameters" : "rope_scaling";
  if (found == nullptr) found = json.find("rope_scaling");
  if (found == nullptr || found->is_null()) return flat;
  if (!found->is_object()) {
    throw InputError(fmt::format("{}: {} is no object", where, name),
                     fmt::format("found {}", found->dump()));
  }
  for (const auto& [key, value] : found->items()) {
    const auto row = std::ranges::find_if(
        kRopeKeys, [&](const ConfigKey& one) { return std::ranges::count(one.keys, key) > 0; });
    if (row == kRopeKeys.end() && !value.is_null()) {
      throw InputError(fmt::format("{}: {} of {} is not supported", where, key, name),
                       fmt::format("it is {}", value.dump()),
                       "folio has the types default, linear, llama3 and yarn");
    }
    if (!value.is_null()) flat[row->field] = value;
  }
  return flat;
}

void WriteRope(const GptConfig& config, Json& json) {
  GptConfig copy = config, plain;
  const std::vector<Field> fields = copy.Fields(), defaults = plain.Fields();
  json["rope_theta"] = config.rope_theta;
  Json scaling = Json::object();
  for (const auto& [name, keys] : kRopeKeys) {
    const Field& field = FieldOf(fields, name);
    if (name == "rope_theta" || FieldText(field) == FieldText(FieldOf(defaults, name))) continue;
    scaling[keys.front()] = std::visit([](const auto* value) { return Json(*value); }, field.value);
  }
  json["rope_scaling"] = scaling.empty() ? Json() : std::move(scaling);
}

constexpr ConfigShape kRotaryShape = {.read = &ReadRope, .write = &WriteRope};

constexpr auto kLlamaKeys = std::to_array<ConfigKey>({
    {"n_layer", {"num_hidden_layers"}},
    {"n_head", {"num_attention_heads"}},
    {"n_embd", {"hidden_size"}},
    {"n_positions", {"max_position_embeddings"}},
    {"n_kv_head", {"num_key_value_heads"}},
    {"head_dim", {"head_dim"}},
    {"n_inner", {"intermediate_size"}},
    {"activation_function", {"hidden_act", "hidden_activation"}},
    {"layer_norm_epsilon", {"rms_norm_eps"}},
    {"attn_pdrop", {"attention_dropout"}},
});

constexpr auto kLlamaOwn = std::to_array<std::string_view>({"vocab_size",
                                                            "tie_word_embeddings",
                                                            "attention_bias",
                                                            "mlp_bias",
                                                            "rope_theta",
                                                            "rope_scaling",
                                                            "initializer_range",
                                                            "bos_token_id",
                                                            "eos_token_id"});
// No key says whether these have biases.
constexpr auto kPlainOwn =
    std::to_array<std::string_view>({"vocab_size", "tie_word_embeddings", "rope_theta",
                                     "rope_scaling", "initializer_range", "bos_token_id",
                                     "eos_token_id"});

constexpr auto kLlamaRequired = std::to_array<std::string_view>(
    {"vocab_size", "n_layer", "n_head", "n_embd", "n_positions", "n_inner", "layer_norm_epsilon"});

// A model of Llama's kind: rotary positions, RMSNorm before each sublayer, a gated feed-forward one.
template <size_t N>
constexpr auto LikeLlama(const std::array<FieldValue, N>& more) {
  std::array<FieldValue, N + 4> fixed = {{{"norm", "rms"},
                                          {"position_embedding", "rotary"},
                                          {"mlp", "gated"},
                                          {"bias", "false"}}};
  std::ranges::copy(more, fixed.begin() + 4);
  return fixed;
}

constexpr auto kLlamaFixed = LikeLlama(std::array<FieldValue, 0>{});
constexpr auto kQwen2Fixed = LikeLlama(std::to_array<FieldValue>({{"qkv_bias", "true"}}));
constexpr auto kQwen3Fixed = LikeLlama(std::to_array<FieldValue>({{"qk_norm", "head"}}));

constexpr auto kLlamaAbsent = std::to_array<FieldValue>({
    {"activation_function", "silu"},
    {"tie_word_embeddings", "false"},
});
constexpr auto kQwen3Absent = std::to_array<FieldValue>({
    {"activation_function", "silu"},
    {"tie_word_embeddings", "false"},
    {"head_dim", "128"},
});

constexpr auto kLlamaRefused = std::to_array<RefusedKey>({
    {"is_encoder_decoder", "false", "an encoder"},
    {"add_cross_attention", "false", "cross-attention"},
    {"quantization_config", "null", "a quantised model"},
    {"pruned_heads", "{}", "a model with pruned heads"},
    {"use_sliding_window", "false", "a sliding window"},
});

constexpr auto kInvFreq = std::to_array<std::string_view>({".rotary_emb.inv_freq"});

// The names of Hugging Face and of GGUF. `order` is that of queries and keys in GGUF.
constexpr TensorRow NamedRow(std::string_view module, std::string_view hf, std::string_view gguf) {
  return {module, {{{{hf}}, {{gguf}}, {}, {}, {}}}};
}
constexpr TensorRow TurnedRow(std::string_view module, const std::array<std::string_view, 3>& hf,
                              const std::array<std::string_view, 3>& gguf,
                              RowOrder order = RowOrder::kAsHere) {
  using enum Transform;
  return {module, {{{hf, kTranspose}, {gguf, kTranspose, order}, {}, {}, {}}}};
}

constexpr auto LlamaTensors(RowOrder order) {
  return std::to_array<TensorRow>({
      NamedRow("wte", "model.embed_tokens.weight", "token_embd.weight"),
      NamedRow("ln_1", "model.layers.{}.input_layernorm.weight", "blk.{}.attn_norm.weight"),
      TurnedRow("attn.c_attn",
                {"model.layers.{}.self_attn.q_proj.weight",
                 "model.layers.{}.self_attn.k_proj.weight",
                 "model.layers.{}.self_attn.v_proj.weight"},
                {"blk.{}.attn_q.weight", "blk.{}.attn_k.weight", "blk.{}.attn_v.weight"}, order),
      NamedRow("attn.q_norm", "model.layers.{}.self_attn.q_norm.weight",
               "blk.{}.attn_q_norm.weight"),
      NamedRow("attn.k_norm", "model.layers.{}.self_attn.k_norm.weight",
               "blk.{}.attn_k_norm.weight"),
      TurnedRow("attn.c_proj", {"model.layers.{}.self_attn.o_proj.weight"},
                {"blk.{}.attn_output.weight"}),
      NamedRow("ln_2", "model.layers.{}.post_attention_layernorm.weight", "blk.{}.ffn_norm.weight"),
      TurnedRow("mlp.c_fc",
                {"model.layers.{}.mlp.gate_proj.weight", "model.layers.{}.mlp.up_proj.weight"},
                {"blk.{}.ffn_gate.weight", "blk.{}.ffn_up.weight"}),
      TurnedRow("mlp.c_proj", {"model.layers.{}.mlp.down_proj.weight"}, {"blk.{}.ffn_down.weight"}),
      NamedRow("ln_f", "model.norm.weight", "output_norm.weight"),
      NamedRow("lm_head", "lm_head.weight", "output.weight"),
  });
}
constexpr auto kLlamaTensors = LlamaTensors(RowOrder::kAdjacentPairs);
constexpr auto kQwenTensors = LlamaTensors(RowOrder::kAsHere);

constexpr auto kLlamaGgufKeys = std::to_array<GgufKey>({
    {"context_length", "n_positions"},
    {"embedding_length", "n_embd"},
    {"block_count", "n_layer"},
    {"feed_forward_length", "n_inner"},
    {"attention.head_count", "n_head"},
    {"attention.head_count_kv", "n_kv_head", GgufKey::Reading::kOptional},
    {"attention.key_length", "head_dim", GgufKey::Reading::kOptional},
    {"attention.value_length", "head_dim", GgufKey::Reading::kOptional},
    {"rope.dimension_count", "rotary_dim", GgufKey::Reading::kOptional},
    {"rope.freq_base", "rope_theta", GgufKey::Reading::kOptional},
    {"attention.layer_norm_rms_epsilon", "layer_norm_epsilon"},
    {"vocab_size", "vocab_size", GgufKey::Reading::kNever},  // the embeddings say it
});

constexpr Family LikeLlamaFamily(std::string_view model_type,
                                 std::span<const std::string_view> architectures) {
  return {.formats = Formats(kHuggingFace, kGguf),
          .model_type = model_type,
          .architectures = architectures,
          .keys = kLlamaKeys,
          .repeated_keys = {},
          .fixed = kLlamaFixed,
          .own = kLlamaOwn,
          .required = kLlamaRequired,
          .absent = kLlamaAbsent,
          .refused = kLlamaRefused,
          .shape = &kRotaryShape,
          .absent_end = std::nullopt,
          .activation_prefix = "",
          .tensors = kLlamaTensors,
          .optional_prefix = "model.",
          .not_read = kInvFreq,
          .all_biases = false,
          .gguf_architecture = model_type,
          .gguf_keys = kLlamaGgufKeys,
          .limits = {}};
}

constexpr auto kLlamaArchitectures =
    std::to_array<std::string_view>({"LlamaForCausalLM", "LlamaModel"});
constexpr auto kQwen2Architectures =
    std::to_array<std::string_view>({"Qwen2ForCausalLM", "Qwen2Model"});
constexpr auto kQwen3Architectures =
    std::to_array<std::string_view>({"Qwen3ForCausalLM", "Qwen3Model"});

constexpr Family kLlama = LikeLlamaFamily("llama", kLlamaArchitectures);

constexpr Family Qwen2Family() {
  Family family = LikeLlamaFamily("qwen2", kQwen2Architectures);
  family.fixed = kQwen2Fixed;
  family.own = kPlainOwn;
  family.tensors = kQwenTensors;
  return family;
}

constexpr Family Qwen3Family() {
  Family family = LikeLlamaFamily("qwen3", kQwen3Architectures);
  family.fixed = kQwen3Fixed;
  family.absent = kQwen3Absent;
  family.tensors = kQwenTensors;
  return family;
}

// --- folio: GPT-2's files, of models that are none

constexpr auto kFolioArchitectures =
    std::to_array<std::string_view>({"FolioLMHeadModel", "GPT2LMHeadModel", "GPT2Model"});

// What GPT-2 has not is called as it is here.
constexpr auto kFolioTensors = [] {
  std::array<TensorRow, kGpt2Tensors.size() + 4> rows = {};
  std::ranges::copy(kGpt2Tensors, rows.begin());
  const auto add = [&](size_t i, std::string_view module, std::string_view name) {
    rows[kGpt2Tensors.size() + i] = {module, {{{{name}}, {}, {}, {}, {}}}};
  };
  add(0, "attn.q_norm", "transformer.h.{}.attn.q_norm.weight");
  add(1, "attn.k_norm", "transformer.h.{}.attn.k_norm.weight");
  add(2, "ln_attn", "transformer.h.{}.ln_attn.weight");
  add(3, "ln_mlp", "transformer.h.{}.ln_mlp.weight");
  return rows;
}();

constexpr Family FolioFamily() {
  Family family = kGpt2;
  family.formats = Formats(kHuggingFace);
  family.model_type = "folio";
  family.architectures = kFolioArchitectures;
  family.fixed = {};
  family.activation_prefix = "folio:";
  family.tensors = kFolioTensors;
  family.all_biases = false;
  family.gguf_architecture = {};
  family.gguf_keys = {};
  family.limits = {};
  return family;
}

constexpr std::array kFamilies = {kGpt2, kLlama, Qwen2Family(), Qwen3Family(), FolioFamily()};

// Why a model is not of the family, whatever the format: switches that stand otherwise.
void AddSwitches(const Family& family, const GptConfig& config, std::vector<std::string>& reasons) {
  GptConfig copy = config, plain;
  const std::vector<Field> fields = copy.Fields(), defaults = plain.Fields();
  for (const std::string_view key : kSwitches) {
    const auto fixed = std::ranges::find(family.fixed, key, &FieldValue::field);
    const bool says = std::ranges::count(family.own, key) > 0 ||
                      std::ranges::count(family.keys, key, &ConfigKey::field) > 0;
    if (fixed == family.fixed.end() && says) continue;
    const std::string expected = fixed == family.fixed.end() ? FieldText(FieldOf(defaults, key))
                                                             : std::string(fixed->value);
    const std::string found = FieldText(FieldOf(fields, key));
    if (found != expected) reasons.push_back(fmt::format("{} = {}", key, found));
  }
}

}  // namespace

std::span<const Family> Families() {
  return kFamilies;
}

const Family& Gpt2Family() {
  return kFamilies.front();
}

std::string WhyNot(const Family& family, FileFormat format, const GptConfig& config) {
  std::vector<std::string> reasons;
  if (&family != &Families().back()) AddSwitches(family, config, reasons);
  GptConfig copy = config;
  const std::vector<Field> fields = copy.Fields();
  for (const Limit& limit : family.limits) {
    if ((limit.formats & Formats(format)) == 0 || limit.holds(config)) continue;
    reasons.push_back(fmt::format("{} = {}", limit.field, FieldText(FieldOf(fields, limit.field))));
  }
  return Join(reasons, ", ");
}

const Family& FamilyFor(const GptConfig& config, FileFormat format) {
  const auto found = std::ranges::find_if(kFamilies, [&](const Family& family) {
    return (family.formats & Formats(format)) != 0 && WhyNot(family, format, config).empty();
  });
  return found == kFamilies.end() ? Gpt2Family() : *found;
}

void RequireExpressed(const GptConfig& config, FileFormat format, const std::string& what) {
  const std::string why = WhyNot(FamilyFor(config, format), format, config);
  if (why.empty()) return;
  throw InputError(what, "it has " + why + "; GPT-2, as that program runs it, has no such thing",
                   "convert to hf, which keeps it, or train without");
}

GptConfig WithBiases(GptConfig config) {
  config.bias = true;
  config.attention_bias = config.mlp_bias = config.layer_norm_bias = std::nullopt;
  return config;
}

GptConfig WithAllSizes(GptConfig config) {
  const HeadLayout heads = config.head_layout();
  config.n_kv_head = heads.kv_heads;
  config.head_dim = heads.head_dim;
  config.n_inner = config.inner();
  config.rotary_dim = config.rotary_width();
  return config;
}

GptConfig WithoutRedundantSizes(GptConfig config) {
  const bool divides = config.n_embd % config.n_head == 0;
  if (config.n_kv_head == config.n_head) config.n_kv_head.reset();
  if (config.rotary_dim == config.head_size()) config.rotary_dim.reset();
  if (divides && config.head_dim == config.n_embd / config.n_head) config.head_dim.reset();
  if (config.n_inner == 4 * config.n_embd) config.n_inner.reset();
  return config;
}

void SetFields(std::span<const FieldValue> values, GptConfig& config, const std::string& where) {
  const std::vector<Field> fields = config.Fields();
  for (const auto& [field, value] : values) {
    SetField(FieldOf(fields, field), std::string(value), where);
  }
}

const Field& FieldOf(std::span<const Field> fields, std::string_view key) {
  const auto found = std::ranges::find(fields, key, &Field::key);
  FOLIO_CHECK(found != fields.end(), "a family names a field that the configuration lacks");
  return *found;
}

namespace {

constexpr std::string_view kBlockNumber = "{}";

const FileTensor& RowInFiles(const Family& family, FileFormat format, std::string_view module) {
  const auto row = std::ranges::find(family.tensors, module, &TensorRow::module);
  FOLIO_CHECK(row != family.tensors.end(), "a module without a row in the family");
  return row->files[static_cast<size_t>(format)];
}

Transform TransformOf(const Family& family, FileFormat format, const ParamRow& param) {
  return param.part == "weight" ? RowInFiles(family, format, param.module).transform
                                : Transform::kNone;
}

// A name of the table, of a block's weight or bias.
std::string FullName(std::string_view pattern, int64_t layer, std::string_view part) {
  std::string name(pattern);
  if (const size_t at = name.find(kBlockNumber); at != name.npos) {
    name.replace(at, kBlockNumber.size(), fmt::format("{}", layer));
  }
  if (part == "weight" || name.empty()) return name;
  const size_t end = name.find_last_of("./");
  return name.substr(0, end + 1) + (name[end] == '/' ? "b" : "bias");
}

bool SameNumbers(const TensorInfo& a, const TensorInfo& b) {
  return a.dtype == b.dtype && a.shape == b.shape &&
         (a.data == b.data || std::memcmp(a.data, b.data, a.bytes) == 0);
}

}  // namespace

std::string NameInFiles(const Family& family, FileFormat format, int64_t layer,
                        std::string_view module, std::string_view part) {
  return FullName(RowInFiles(family, format, module).name(), layer, part);
}

std::vector<RowsInFiles> TensorsInFiles(const Family& family, FileFormat format,
                                        const GptConfig& config, const ParamRow& param) {
  const FileTensor& row = RowInFiles(family, format, param.module);
  const Transform transform = TransformOf(family, format, param);
  if (transform == Transform::kUnitAxis) {
    return {{.name = FullName(row.name(), param.layer, param.part),
             .shape = {1, param.shape[0], param.shape[1]}}};
  }
  const Shape stored = StoredShape(param.shape, transform == Transform::kTranspose);
  const HeadLayout heads = config.head_layout();
  const bool qkv = param.module == kCAttn.name;
  const std::array<int64_t, 3> rows = {qkv ? heads.q_width() : config.inner(),
                                       qkv ? heads.kv_width() : config.inner(), heads.kv_width()};
  std::vector<RowsInFiles> tensors;
  int64_t first = 0;
  const bool several = !row.names[1].empty();
  for (size_t i = 0; i < row.names.size() && !row.names[i].empty(); ++i) {
    Shape shape = stored;
    if (several) shape = stored.rank() == 1 ? Shape{rows[i]} : Shape{rows[i], stored[1]};
    tensors.push_back({.name = FullName(row.names[i], param.layer, param.part),
                       .shape = shape,
                       .first_row = first,
                       .order = several && i == 2 ? RowOrder::kAsHere : row.order});
    first += shape[0];
  }
  return tensors;
}

const TensorInfo* FindTensor(const TensorFile& file, const Family& family, std::string_view name) {
  const TensorInfo* found = file.Find(name);
  if (found != nullptr || !name.starts_with(family.optional_prefix)) return found;
  return file.Find(name.substr(family.optional_prefix.size()));
}

void RequireBlocks(const GptConfig& config, const Family& family, int64_t tensors,
                   const std::string& where) {
  const int64_t least = std::ranges::count_if(family.tensors, [](const TensorRow& row) {
    return row.files.front().name().find(kBlockNumber) != std::string_view::npos;
  });
  if (config.n_layer <= tensors / least) return;
  throw InputError(fmt::format("{}: fewer tensors than the model has", where),
                   fmt::format("it holds {}, and n_layer is {}", tensors, config.n_layer),
                   "check n_layer, or copy the model again: it may be damaged");
}

bool HeadIsTied(const TensorFile& file, const Family& family, FileFormat format,
                const std::string& prefix) {
  const auto name = [&](std::string_view module) {
    return prefix + NameInFiles(family, format, -1, module, "weight");
  };
  const TensorInfo* head = file.Find(name(kHeadName));
  return head == nullptr || SameNumbers(*head, file.Require(name("wte")));
}

namespace {

// A parameter whose tensors in a file are found: where it lies, if it lies there as it is needed.
StoredParam Assembled(const GptConfig& config, std::span<const StoredRows> rows,
                      const Shape& shape, bool transposed, float add) {
  StoredParam param{.from = rows.front().from, .transposed = transposed};
  param.from.shape = StoredShape(shape, transposed);
  if (rows.size() == 1 && rows.front().order == RowOrder::kAsHere && add == 0) return param;
  param.rows.assign(rows.begin(), rows.end());
  param.heads = config.head_layout();
  param.add = add;
  param.from.data = nullptr;
  for (const StoredRows& other : rows) {
    if (other.from.dtype != param.from.dtype) param.from.dtype = Dtype::kF32;
  }
  param.from.bytes = DtypeBytes(param.from.dtype, shape.count());
  return param;
}

}  // namespace

StoredModel FindParams(const GptConfig& config, std::shared_ptr<const TensorFile> file,
                       const Family& family, FileFormat format,
                       const std::function<void(const TensorInfo&)>& other,
                       const std::string& prefix) {
  StoredModel model{.config = config, .file = std::move(file)};
  std::set<std::string_view> used;
  const ParamTable table(config);
  for (const ParamInfo& info : table.params()) {
    std::vector<StoredRows> rows;
    for (const RowsInFiles& part : TensorsInFiles(family, format, config, info)) {
      const std::string name = prefix + part.name;
      const TensorInfo* there = FindTensor(*model.file, family, name);
      const TensorInfo& found =
          model.file->Require(there == nullptr ? name : there->name, part.shape);
      rows.push_back({found, part.order});
      used.insert(found.name);
    }
    const FileTensor& row = RowInFiles(family, format, info.module);
    model.params.push_back(Assembled(config, rows, info.shape,
                                     TransformOf(family, format, info) == Transform::kTranspose,
                                     -row.offset));
  }
  const TensorInfo& wte = model.params.front().from;
  const std::string head = prefix + NameInFiles(family, format, -1, kHeadName, "weight");
  for (const TensorInfo& info : model.file->tensors()) {
    const auto ends = [&](std::string_view end) { return info.name.ends_with(end); };
    const bool repeated = config.tie_word_embeddings && info.name == head && SameNumbers(info, wte);
    if (repeated || used.contains(info.name) || !info.name.starts_with(prefix) ||
        std::ranges::any_of(family.not_read, ends)) {
      continue;
    }
    other(info);
  }
  return model;
}

std::vector<TensorToWrite> TensorsToWrite(const GptWeights& weights, const GptConfig& described,
                                          const Family& family, FileFormat format, Dtype matrices) {
  const auto ours = TensorsByName(weights);
  std::vector<TensorToWrite> tensors;
  const ParamTable table(described);
  for (const ParamInfo& info : table.params()) {
    const bool transposed = TransformOf(family, format, info) == Transform::kTranspose;
    const auto found = ours.find(info.name);
    const Tensor* source = found == ours.end() ? nullptr : found->second;
    for (const RowsInFiles& part : TensorsInFiles(family, format, described, info)) {
      const float offset = RowInFiles(family, format, info.module).offset;
      const auto read = [source, transposed, offset, first = part.first_row, order = part.order,
                         heads = described.head_layout()](int64_t row, std::span<float> out) {
        if (source == nullptr) {
          std::ranges::fill(out, 0.0f);
          return;
        }
        // A vector is one row in a file, and has a number of each row of the matrix beside it.
        const bool vector = source->shape().rank() == 1;
        const Tensor rows = vector ? source->Reshape({source->count(), 1}) : *source;
        const bool as_here = order == RowOrder::kAsHere;
        const size_t step =
            as_here ? out.size() : static_cast<size_t>(rows.dim(transposed ? 0 : 1));
        for (size_t at = 0; at < out.size(); at += step, ++row) {
          const int64_t from = as_here ? row : RowAt(order, heads, row);
          GatherRows(rows, transposed, first + from, out.subspan(at, step));
        }
        for (float& number : out) number += offset;
      };
      tensors.push_back(
          {part.name, IsMatrix(info) ? matrices : Dtype::kF32, part.shape, read});
    }
  }
  return tensors;
}

}  // namespace folio
