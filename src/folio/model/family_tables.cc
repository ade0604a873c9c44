#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "folio/base/error.h"
#include "folio/io/json.h"
#include "folio/model/families.h"

// The tables of all families (families.h).

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
    {"vocab_size", "vocab_size", GgufKey::Use::kOnlyWritten},  // the embeddings say it
    {"attention.layer_norm_epsilon", "layer_norm_epsilon", GgufKey::Use::kOptional},
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
    .derived = {},
    .absent_end = 50256,
    .activation_prefix = "",
    .tensors = kGpt2Tensors,
    .optional_prefix = "transformer.",
    .not_read = kGpt2NotRead,
    .all_biases = true,
    .gguf_architecture = "gpt2",
    .gguf_keys = kGpt2GgufKeys,
    .gguf_unsaid = {},
    .gguf_by_tensors = {},
    .gguf_by_sizes = nullptr,
    .gguf_divisors = false,
    .limits = kGpt2Limits,
};

// --- What keys of other families mean

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

// The factor of a part of D that rotary positions turn, as the size of that part.
void ReadRotaryPart(const Json& value, Json& flat, const std::string& where) {
  const auto number = [&](const char* key) {
    const Json* found = flat.find(key);
    return found != nullptr && found->is_number_integer() ? found->get<int64_t>() : 0;
  };
  const int64_t heads = number("num_attention_heads"), given = number("head_dim");
  const int64_t D = given > 0 ? given : heads > 0 ? number("hidden_size") / heads : 0;
  if (!value.is_number() || D < 1) {
    throw InputError(fmt::format("{}: a part of the heads that is none", where),
                     fmt::format("partial_rotary_factor or rotary_pct is {}", value.dump()));
  }
  flat["rotary_dim"] = static_cast<int64_t>(static_cast<double>(D) * value.get<double>());
}

// transformers has the settings of rotary positions in "rope_parameters", for layers of a window
// apart from those of full attention where they differ, and had them in "rope_scaling" with
// "rope_theta" beside it.
void ReadRope(const Json& rope, Json& flat, const std::string& where) {
  if (rope.is_null()) {
    flat["rope_scaling"] = "default";
    return;
  }
  if (!rope.is_object()) {
    throw InputError(fmt::format("{}: rope_scaling is no object", where),
                     fmt::format("found {}", rope.dump()));
  }
  flat["rope_scaling"] = "default";
  for (const auto& [key, value] : rope.items()) {
    if (value.is_null()) continue;
    const auto* const row = std::ranges::find_if(kRopeKeys, [&name = key](const ConfigKey& one) {
      return std::ranges::count(one.keys, name) > 0;
    });
    if (row != kRopeKeys.end()) {
      flat[row->field] = value;
    } else if (key == "partial_rotary_factor") {
      ReadRotaryPart(value, flat, where);
    } else if (key == "full_attention") {
      ReadRope(value, flat, where);
    } else if (key == "sliding_attention" && value.is_object() && value.contains("rope_theta")) {
      flat["rope_local_base_freq"] = value["rope_theta"];  // as it was called before
    } else {
      throw InputError(fmt::format("{}: {} of rotary positions is not supported", where, key),
                       fmt::format("it is {}", value.dump()),
                       "folio has the types default, linear, llama3 and yarn");
    }
  }
}

Json WriteRope(const GptConfig& config) {
  GptConfig copy = config, plain;
  const std::vector<Field> fields = copy.Fields(), defaults = plain.Fields();
  Json rope = Json::object();
  for (const auto& [name, keys] : kRopeKeys) {
    const Field& field = FieldOf(fields, name);
    if (name == "rope_theta" || FieldText(field) == FieldText(FieldOf(defaults, name))) continue;
    rope[keys.front()] = std::visit([](const auto* value) { return Json(*value); }, field.value);
  }
  return rope.empty() ? Json() : rope;
}

constexpr std::string_view kFull = "full_attention", kWindow = "sliding_attention";

void ReadLayerTypes(const Json& types, Json& flat, const std::string& where) {
  if (types.is_null()) return;
  std::string kinds;
  for (size_t i = 0; types.is_array() && i < types.size(); ++i) {
    if (types[i] != Json(kFull) && types[i] != Json(kWindow)) {
      throw InputError(fmt::format("{}: a layer of a kind that is not supported", where),
                       fmt::format("layer_types has {}", types[i].dump()),
                       fmt::format("folio has {} and {}", kFull, kWindow));
    }
    kinds += types[i] == Json(kFull) ? 'f' : 'w';
  }
  if (!kinds.empty()) flat["layer_kinds"] = ShortestPattern(kinds);
}

Json WriteLayerTypes(const GptConfig& config) {
  Json types = Json::array();
  for (int64_t layer = 0; layer < config.n_layer; ++layer) {
    types.push_back(config.layer_kind(layer).window > 0 ? kWindow : kFull);
  }
  return types;
}

// Gemma 3's older form: every n-th layer has full attention.
void ReadWindowPattern(const Json& every, Json& flat, const std::string&) {
  const bool fits =
      every.is_number_integer() && every.get<int64_t>() > 0 && every.get<int64_t>() <= 1 << 16;
  if (!fits || flat.contains("layer_types")) return;
  flat["layer_kinds"] = std::string(static_cast<size_t>(every.get<int64_t>()) - 1, 'w') + 'f';
}

// Qwen's: a window is used where the first is true, in layers from the second on.
void ReadUseWindow(const Json& use, Json& flat, const std::string&) {
  if (use != Json(true)) {
    flat["sliding_window"] = nullptr;
    return;
  }
  const Json* full = flat.find("max_window_layers");
  const Json* layers = flat.find("num_hidden_layers");
  if (full == nullptr || layers == nullptr || !full->is_number_integer() ||
      !layers->is_number_integer()) {
    return;
  }
  const int64_t L = std::clamp<int64_t>(layers->get<int64_t>(), 1, 1 << 16);
  const int64_t first = std::clamp<int64_t>(full->get<int64_t>(), 0, L);
  flat["layer_kinds"] = ShortestPattern(std::string(static_cast<size_t>(first), 'f') +
                                        std::string(static_cast<size_t>(L - first), 'w'));
}

Json WriteUseWindow(const GptConfig& config) {
  return config.sliding_window.has_value();
}

// 1 for each layer that has rotary positions.
void ReadNoRope(const Json& layers, Json& flat, const std::string& where) {
  if (!layers.is_array()) return;
  int64_t every = 0;
  for (size_t i = 0; i < layers.size(); ++i) {
    const auto number = static_cast<int64_t>(i + 1);
    if (layers[i] == Json(0) && every == 0) every = number;
    const bool expected = every == 0 || number % every != 0;
    if (layers[i] == Json(expected ? 1 : 0)) continue;
    throw InputError(fmt::format("{}: no_rope_layers is not supported", where),
                     fmt::format("layer {} is {}", number, layers[i].dump()),
                     "folio has models in which every n-th layer is without rotary positions");
  }
  flat["no_rope_every"] = every;
}

Json WriteNoRope(const GptConfig& config) {
  Json layers = Json::array();
  for (int64_t layer = 0; layer < config.n_layer; ++layer) {
    layers.push_back(config.layer_kind(layer).rotary ? 1 : 0);
  }
  return layers;
}

// A field that is a function of a number.
void SetNumber(const Json& value, Json& flat, const char* field, double (*of)(double)) {
  if (value.is_number()) flat[field] = of(value.get<double>());
}

// The number that was meant by its square root or inverse: most are whole.
double Rounded(double x) {
  return std::abs(x - std::round(x)) < 1e-9 * std::abs(x) ? std::round(x) : x;
}

constexpr DerivedKey kRopeScaling = {"rope_scaling", "rope_scaling", &ReadRope, &WriteRope};
constexpr DerivedKey kRopeParameters = {"rope_parameters", "rope_scaling", &ReadRope, nullptr};
constexpr DerivedKey kLayerTypes = {"layer_types", "layer_kinds", &ReadLayerTypes,
                                    &WriteLayerTypes};
constexpr DerivedKey kWindowPattern = {"sliding_window_pattern", "layer_kinds", &ReadWindowPattern,
                                       nullptr};
constexpr DerivedKey kUseWindow = {"use_sliding_window", "sliding_window", &ReadUseWindow,
                                   &WriteUseWindow};
constexpr DerivedKey kNoRopeLayers = {"no_rope_layers", "no_rope_every", &ReadNoRope, &WriteNoRope};
constexpr DerivedKey kPartialRotary = {
    "partial_rotary_factor", "rotary_dim", &ReadRotaryPart, [](const GptConfig& c) {
      return Json(static_cast<double>(c.rotary_width()) / static_cast<double>(c.head_size()));
    }};
constexpr DerivedKey kRotaryPct = {"rotary_pct", "rotary_dim", kPartialRotary.read,
                                   kPartialRotary.write};
constexpr DerivedKey kQueryScalar = {
    "query_pre_attn_scalar", "attention_scale",
    [](const Json& value, Json& flat, const std::string&) {
      SetNumber(value, flat, "attention_scale", [](double x) { return 1 / std::sqrt(x); });
    },
    [](const GptConfig& c) {
      const double scale = c.score_scale(0);
      return Json(static_cast<int64_t>(Rounded(1 / (scale * scale))));
    }};
constexpr DerivedKey kLogitsScaling = {
    "logits_scaling", "logit_scale",
    [](const Json& value, Json& flat, const std::string&) {
      SetNumber(value, flat, "logit_scale", [](double x) { return 1 / x; });
    },
    [](const GptConfig& c) { return Json(Rounded(1 / c.logit_scale)); }};
// Gemma multiplies embeddings with the root of C, which no key says.
constexpr DerivedKey kRootOfWidth = {"hidden_size", "embedding_scale",
                                     [](const Json& value, Json& flat, const std::string&) {
                                       SetNumber(value, flat, "embedding_scale",
                                                 [](double x) { return std::sqrt(x); });
                                     },
                                     nullptr};

// All layers have the window, if there is one.
constexpr DerivedKey kWindowOfAll = {"sliding_window", "layer_kinds", nullptr, nullptr};

constexpr auto kRopeDerived = std::to_array<DerivedKey>({kRopeScaling, kRopeParameters});
constexpr auto kQwenDerived =
    std::to_array<DerivedKey>({kRopeScaling, kRopeParameters, kUseWindow, kLayerTypes});
constexpr auto kSmolLm3Derived = std::to_array<DerivedKey>(
    {kRopeScaling, kRopeParameters, kUseWindow, kLayerTypes, kNoRopeLayers});
constexpr auto kGemmaDerived = std::to_array<DerivedKey>(
    {kRopeScaling, kRopeParameters, kRootOfWidth, kQueryScalar, kWindowPattern, kLayerTypes});
constexpr auto kGraniteDerived =
    std::to_array<DerivedKey>({kRopeScaling, kRopeParameters, kLogitsScaling});
constexpr auto kWindowDerived =
    std::to_array<DerivedKey>({kRopeScaling, kRopeParameters, kWindowOfAll});
constexpr auto kPhi3Derived =
    std::to_array<DerivedKey>({kRopeScaling, kRopeParameters, kPartialRotary, kWindowOfAll});
constexpr auto kPhiDerived =
    std::to_array<DerivedKey>({kRopeScaling, kRopeParameters, kPartialRotary});
constexpr auto kNeoxDerived =
    std::to_array<DerivedKey>({kRopeScaling, kRopeParameters, kRotaryPct});

// --- Llama and its relatives

constexpr auto kLlamaKeys = std::to_array<ConfigKey>({
    {"n_layer", {"num_hidden_layers"}},
    {"n_head", {"num_attention_heads"}},
    {"n_embd", {"hidden_size"}},
    {"n_positions", {"max_position_embeddings"}},
    {"n_kv_head", {"num_key_value_heads"}},
    {"n_inner", {"intermediate_size"}},
    {"activation_function", {"hidden_act", "hidden_activation"}},
    {"layer_norm_epsilon", {"rms_norm_eps"}},
    {"attn_pdrop", {"attention_dropout"}},
});

// The same with more keys, or other ones for some fields.
template <size_t N>
constexpr auto LlamaKeysAnd(const std::array<ConfigKey, N>& more) {
  std::array<ConfigKey, kLlamaKeys.size() + N> keys = {};
  size_t next = 0;
  for (const ConfigKey& key : kLlamaKeys) {
    const bool other = std::ranges::count(more, key.field, &ConfigKey::field) > 0;
    if (!other) keys[next++] = key;
  }
  std::ranges::copy(more, keys.begin() + next);
  return keys;  // with empty rows at the end for each that is another
}

constexpr auto kGemmaKeys = LlamaKeysAnd(std::to_array<ConfigKey>({
    {"activation_function", {"hidden_activation", "hidden_act"}},
    {"attention_cap", {"attn_logit_softcapping"}},
    {"logit_cap", {"final_logit_softcapping"}},
    {"rope_window_theta", {"rope_local_base_freq"}},
}));
constexpr auto kGraniteKeys = LlamaKeysAnd(std::to_array<ConfigKey>({
    {"embedding_scale", {"embedding_multiplier"}},
    {"residual_scale", {"residual_multiplier"}},
    {"attention_scale", {"attention_multiplier"}},
}));
constexpr auto kStarcoder2Keys = LlamaKeysAnd(std::to_array<ConfigKey>({
    {"layer_norm_epsilon", {"norm_epsilon"}},
    {"bias", {"use_bias"}},
    {"resid_pdrop", {"residual_dropout"}},
    {"embd_pdrop", {"embedding_dropout"}},
}));
constexpr auto kNeoxKeys = LlamaKeysAnd(std::to_array<ConfigKey>({
    {"layer_norm_epsilon", {"layer_norm_eps"}},
    {"resid_pdrop", {"hidden_dropout"}},
    {"rope_theta", {"rotary_emb_base", "rope_theta"}},
}));
constexpr auto kPhiKeys =
    LlamaKeysAnd(std::to_array<ConfigKey>({{"layer_norm_epsilon", {"layer_norm_eps"}}}));

// Fields that every file has by their own names. No key of Qwen 2 and some others says whether
// there are biases.
constexpr auto kPlainOwn = std::to_array<std::string_view>(
    {"vocab_size", "tie_word_embeddings", "rope_theta", "rope_scaling", "initializer_range",
     "bos_token_id", "eos_token_id"});
template <size_t N>
constexpr auto OwnAnd(const std::array<std::string_view, N>& more) {
  std::array<std::string_view, kPlainOwn.size() + N> own = {};
  std::ranges::copy(kPlainOwn, own.begin());
  std::ranges::copy(more, own.begin() + kPlainOwn.size());
  return own;
}
constexpr auto kLlamaOwn =
    OwnAnd(std::to_array<std::string_view>({"head_dim", "attention_bias", "mlp_bias"}));
constexpr auto kNoHeadDimOwn =
    OwnAnd(std::to_array<std::string_view>({"attention_bias", "mlp_bias"}));
constexpr auto kWindowOwn = OwnAnd(std::to_array<std::string_view>({"head_dim", "sliding_window"}));
constexpr auto kGemmaOwn =
    OwnAnd(std::to_array<std::string_view>({"head_dim", "sliding_window", "attention_bias"}));
constexpr auto kQwen2Own = OwnAnd(std::to_array<std::string_view>({"sliding_window"}));
constexpr auto kQwen3Own =
    OwnAnd(std::to_array<std::string_view>({"head_dim", "attention_bias", "sliding_window"}));
constexpr auto kSmolLm3Own =
    OwnAnd(std::to_array<std::string_view>({"attention_bias", "mlp_bias", "sliding_window"}));
constexpr auto kOlmo2Own = OwnAnd(std::to_array<std::string_view>({"attention_bias"}));
constexpr auto kStarcoder2Own = OwnAnd(std::to_array<std::string_view>({"sliding_window"}));

constexpr auto kLlamaRequired = std::to_array<std::string_view>(
    {"vocab_size", "n_layer", "n_head", "n_embd", "n_positions", "n_inner", "layer_norm_epsilon"});

template <size_t N, size_t M>
constexpr auto Joined(const std::array<FieldValue, N>& a, const std::array<FieldValue, M>& b) {
  std::array<FieldValue, N + M> both = {};
  std::ranges::copy(a, both.begin());
  std::ranges::copy(b, both.begin() + N);
  return both;
}

// A model of Llama's kind: rotary positions, RMSNorm before each sublayer, a gated feed-forward
// one.
constexpr auto kLlamaFixed = std::to_array<FieldValue>(
    {{"norm", "rms"}, {"position_embedding", "rotary"}, {"mlp", "gated"}, {"bias", "false"}});
constexpr auto kQwen2Fixed = Joined(kLlamaFixed, std::to_array<FieldValue>({{"qkv_bias", "true"}}));
constexpr auto kQwen3Fixed = Joined(kLlamaFixed, std::to_array<FieldValue>({{"qk_norm", "head"}}));
constexpr auto kOlmo2Fixed = Joined(
    kLlamaFixed, std::to_array<FieldValue>({{"norm_position", "branch"}, {"qk_norm", "full"}}));
constexpr auto kGemma2Fixed = std::to_array<FieldValue>({{"norm", "rms_one_plus"},
                                                         {"norm_position", "both"},
                                                         {"position_embedding", "rotary"},
                                                         {"mlp", "gated"},
                                                         {"bias", "false"}});
constexpr auto kGemma3Fixed =
    Joined(kGemma2Fixed, std::to_array<FieldValue>({{"qk_norm", "head"}}));
constexpr auto kStarcoder2Fixed = std::to_array<FieldValue>({{"position_embedding", "rotary"}});
constexpr auto kNeoxFixed = std::to_array<FieldValue>(
    {{"position_embedding", "rotary"}, {"block", "parallel"}, {"bias", "true"}});
constexpr auto kPhiFixed = std::to_array<FieldValue>({{"position_embedding", "rotary"},
                                                      {"block", "parallel_one_norm"},
                                                      {"bias", "true"},
                                                      {"lm_head_bias", "true"}});

constexpr auto kUntied = std::to_array<FieldValue>({{"tie_word_embeddings", "false"}});
constexpr auto kSilu = std::to_array<FieldValue>({{"activation_function", "silu"}});
constexpr auto kLlamaAbsent = Joined(kSilu, kUntied);
constexpr auto kMistralAbsent =
    Joined(kLlamaAbsent, std::to_array<FieldValue>({{"layer_kinds", "w"}}));
constexpr auto kQwen3Absent =
    Joined(kLlamaAbsent, std::to_array<FieldValue>({{"head_dim", "128"}}));
constexpr auto kSmolLm3Absent =
    Joined(kSilu, std::to_array<FieldValue>({{"rope_theta", "2000000"}, {"no_rope_every", "4"}}));
constexpr auto kGemma2Absent = std::to_array<FieldValue>(
    {{"activation_function", "gelu_new"}, {"head_dim", "256"}, {"layer_kinds", "wf"}});
constexpr auto kGemma3Absent = std::to_array<FieldValue>({{"activation_function", "gelu_new"},
                                                          {"head_dim", "256"},
                                                          {"layer_kinds", "wwwwwf"},
                                                          {"rope_theta", "1000000"},
                                                          {"rope_window_theta", "10000"}});
constexpr auto kStarcoder2Absent =
    std::to_array<FieldValue>({{"activation_function", "gelu_new"}, {"layer_kinds", "w"}});
constexpr auto kNeoxAbsent =
    Joined(std::to_array<FieldValue>({{"activation_function", "gelu"}}), kUntied);
constexpr auto kPhiAbsent =
    Joined(std::to_array<FieldValue>({{"activation_function", "gelu_new"}}), kUntied);

constexpr auto kLlamaRefused = std::to_array<RefusedKey>({
    {"is_encoder_decoder", "false", "an encoder"},
    {"add_cross_attention", "false", "cross-attention"},
    {"quantization_config", "null", "a quantised model"},
    {"pruned_heads", "{}", "a model with pruned heads"},
    {"use_bidirectional_attention", "false", "attention to what follows"},
    {"use_parallel_residual", "true", "GPT-NeoX with one sublayer after the other"},
    {"qk_layernorm", "false", "Phi with norms of queries and keys"},
});

constexpr auto kNotRead = std::to_array<std::string_view>(
    {".rotary_emb.inv_freq", ".attention.bias", ".attention.masked_bias"});

// The names of Hugging Face and of GGUF. `offset` is what numbers in GGUF have more.
constexpr TensorRow NamedRow(std::string_view module, std::string_view hf, std::string_view gguf,
                             float offset = 0) {
  FileTensor in_gguf = {.names = {gguf}};
  in_gguf.offset = offset;
  return {module, {{{{hf}}, in_gguf, {}, {}, {}}}};
}
using Names = std::array<std::string_view, 3>;
constexpr TensorRow TurnedRow(std::string_view module, const Names& hf, const Names& gguf,
                              RowOrder order = RowOrder::kAsHere,
                              RowOrder hf_order = RowOrder::kAsHere) {
  using enum Transform;
  return {module, {{{hf, kTranspose, hf_order}, {gguf, kTranspose, order}, {}, {}, {}}}};
}

constexpr Names kQkvProj = {"model.layers.{}.self_attn.q_proj.weight",
                            "model.layers.{}.self_attn.k_proj.weight",
                            "model.layers.{}.self_attn.v_proj.weight"};
constexpr Names kGgufQkv = {"blk.{}.attn_q.weight", "blk.{}.attn_k.weight", "blk.{}.attn_v.weight"};
constexpr TensorRow kEmbedRow = NamedRow("wte", "model.embed_tokens.weight", "token_embd.weight");
constexpr TensorRow kNorm1Row =
    NamedRow("ln_1", "model.layers.{}.input_layernorm.weight", "blk.{}.attn_norm.weight");
constexpr TensorRow kNorm2Row =
    NamedRow("ln_2", "model.layers.{}.post_attention_layernorm.weight", "blk.{}.ffn_norm.weight");
constexpr TensorRow kQNormRow =
    NamedRow("attn.q_norm", "model.layers.{}.self_attn.q_norm.weight", "blk.{}.attn_q_norm.weight");
constexpr TensorRow kKNormRow =
    NamedRow("attn.k_norm", "model.layers.{}.self_attn.k_norm.weight", "blk.{}.attn_k_norm.weight");
constexpr TensorRow kOutRow = TurnedRow("attn.c_proj", {"model.layers.{}.self_attn.o_proj.weight"},
                                        {"blk.{}.attn_output.weight"});
constexpr TensorRow kGateUpRow = TurnedRow(
    "mlp.c_fc", {"model.layers.{}.mlp.gate_proj.weight", "model.layers.{}.mlp.up_proj.weight"},
    {"blk.{}.ffn_gate.weight", "blk.{}.ffn_up.weight"});
constexpr TensorRow kDownRow =
    TurnedRow("mlp.c_proj", {"model.layers.{}.mlp.down_proj.weight"}, {"blk.{}.ffn_down.weight"});
constexpr TensorRow kNormFRow = NamedRow("ln_f", "model.norm.weight", "output_norm.weight");
constexpr TensorRow kHeadRow = NamedRow("lm_head", "lm_head.weight", "output.weight");

constexpr auto LlamaTensors(RowOrder order) {
  return std::to_array<TensorRow>(
      {kEmbedRow, kNorm1Row, TurnedRow("attn.c_attn", kQkvProj, kGgufQkv, order), kQNormRow,
       kKNormRow, kOutRow, kNorm2Row, kGateUpRow, kDownRow, kNormFRow, kHeadRow});
}
constexpr auto kLlamaTensors = LlamaTensors(RowOrder::kAdjacentPairs);
constexpr auto kQwenTensors = LlamaTensors(RowOrder::kAsHere);

constexpr auto kOlmo2Tensors = std::to_array<TensorRow>(
    {kEmbedRow, TurnedRow("attn.c_attn", kQkvProj, kGgufQkv), kQNormRow, kKNormRow, kOutRow,
     NamedRow("ln_attn", "model.layers.{}.post_attention_layernorm.weight",
              "blk.{}.post_attention_norm.weight"),
     kGateUpRow, kDownRow,
     NamedRow("ln_mlp", "model.layers.{}.post_feedforward_layernorm.weight",
              "blk.{}.post_ffw_norm.weight"),
     kNormFRow, kHeadRow});

// GGUF has 1 + w where Hugging Face has w.
constexpr auto kGemmaTensors = std::to_array<TensorRow>(
    {kEmbedRow,
     NamedRow("ln_1", "model.layers.{}.input_layernorm.weight", "blk.{}.attn_norm.weight", 1),
     TurnedRow("attn.c_attn", kQkvProj, kGgufQkv),
     NamedRow("attn.q_norm", "model.layers.{}.self_attn.q_norm.weight", "blk.{}.attn_q_norm.weight",
              1),
     NamedRow("attn.k_norm", "model.layers.{}.self_attn.k_norm.weight", "blk.{}.attn_k_norm.weight",
              1),
     kOutRow,
     NamedRow("ln_attn", "model.layers.{}.post_attention_layernorm.weight",
              "blk.{}.post_attention_norm.weight", 1),
     NamedRow("ln_2", "model.layers.{}.pre_feedforward_layernorm.weight", "blk.{}.ffn_norm.weight",
              1),
     kGateUpRow, kDownRow,
     NamedRow("ln_mlp", "model.layers.{}.post_feedforward_layernorm.weight",
              "blk.{}.post_ffw_norm.weight", 1),
     NamedRow("ln_f", "model.norm.weight", "output_norm.weight", 1), kHeadRow});

// Both have q | k | v and gate | up as one.
constexpr auto kPhi3Tensors = std::to_array<TensorRow>(
    {kEmbedRow, kNorm1Row,
     TurnedRow("attn.c_attn", {"model.layers.{}.self_attn.qkv_proj.weight"},
               {"blk.{}.attn_qkv.weight"}),
     kOutRow, kNorm2Row,
     TurnedRow("mlp.c_fc", {"model.layers.{}.mlp.gate_up_proj.weight"}, {"blk.{}.ffn_up.weight"}),
     kDownRow, kNormFRow, kHeadRow});

constexpr auto kStarcoder2Tensors = std::to_array<TensorRow>(
    {kEmbedRow, kNorm1Row, TurnedRow("attn.c_attn", kQkvProj, kGgufQkv), kOutRow, kNorm2Row,
     TurnedRow("mlp.c_fc", {"model.layers.{}.mlp.c_fc.weight"}, {"blk.{}.ffn_up.weight"}),
     TurnedRow("mlp.c_proj", {"model.layers.{}.mlp.c_proj.weight"}, {"blk.{}.ffn_down.weight"}),
     kNormFRow, kHeadRow});

constexpr auto kPhiTensors = std::to_array<TensorRow>(
    {kEmbedRow, kNorm1Row, TurnedRow("attn.c_attn", kQkvProj, kGgufQkv),
     TurnedRow("attn.c_proj", {"model.layers.{}.self_attn.dense.weight"},
               {"blk.{}.attn_output.weight"}),
     TurnedRow("mlp.c_fc", {"model.layers.{}.mlp.fc1.weight"}, {"blk.{}.ffn_up.weight"}),
     TurnedRow("mlp.c_proj", {"model.layers.{}.mlp.fc2.weight"}, {"blk.{}.ffn_down.weight"}),
     NamedRow("ln_f", "model.final_layernorm.weight", "output_norm.weight"), kHeadRow});

constexpr auto kNeoxTensors = std::to_array<TensorRow>(
    {NamedRow("wte", "gpt_neox.embed_in.weight", "token_embd.weight"),
     NamedRow("ln_1", "gpt_neox.layers.{}.input_layernorm.weight", "blk.{}.attn_norm.weight"),
     TurnedRow("attn.c_attn", {"gpt_neox.layers.{}.attention.query_key_value.weight"},
               {"blk.{}.attn_qkv.weight"}, RowOrder::kAsHere, RowOrder::kHeadByHead),
     TurnedRow("attn.c_proj", {"gpt_neox.layers.{}.attention.dense.weight"},
               {"blk.{}.attn_output.weight"}),
     NamedRow("ln_2", "gpt_neox.layers.{}.post_attention_layernorm.weight",
              "blk.{}.ffn_norm.weight"),
     TurnedRow("mlp.c_fc", {"gpt_neox.layers.{}.mlp.dense_h_to_4h.weight"},
               {"blk.{}.ffn_up.weight"}),
     TurnedRow("mlp.c_proj", {"gpt_neox.layers.{}.mlp.dense_4h_to_h.weight"},
               {"blk.{}.ffn_down.weight"}),
     NamedRow("ln_f", "gpt_neox.final_layer_norm.weight", "output_norm.weight"),
     NamedRow("lm_head", "embed_out.weight", "output.weight")});

// Keys of GGUF. The last is that of the epsilon.
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
      {"vocab_size", "vocab_size", kOnlyWritten},  // the embeddings say it
      {epsilon, "layer_norm_epsilon"},
  });
}
constexpr auto kRmsGgufKeys = GgufKeys("attention.layer_norm_rms_epsilon");
constexpr auto kLayerNormGgufKeys = GgufKeys("attention.layer_norm_epsilon");

template <size_t N, size_t M>
constexpr auto GgufKeysAnd(const std::array<GgufKey, N>& keys, const std::array<GgufKey, M>& more) {
  std::array<GgufKey, N + M> all = {};
  std::ranges::copy(keys, all.begin());
  std::ranges::copy(more, all.begin() + N);
  return all;
}
// llama.cpp runs these without the window that a file may name.
constexpr auto kWindowKeyRead = std::to_array<GgufKey>(
    {{"attention.sliding_window", "sliding_window", GgufKey::Use::kOnlyRead}});
constexpr auto kWindowKey = std::to_array<GgufKey>(
    {{"attention.sliding_window", "sliding_window", GgufKey::Use::kOptional}});
constexpr auto kLlamaGgufKeys = GgufKeysAnd(kRmsGgufKeys, kWindowKeyRead);
constexpr auto kStarcoder2GgufKeys = GgufKeysAnd(kLayerNormGgufKeys, kWindowKeyRead);
constexpr auto kPhi3GgufKeys = GgufKeysAnd(kRmsGgufKeys, kWindowKey);
constexpr auto kGemma2GgufKeys =
    GgufKeysAnd(GgufKeysAnd(kRmsGgufKeys, kWindowKey),
                std::to_array<GgufKey>({
                    {"attention.sliding_window_pattern", "layer_kinds", GgufKey::Use::kOptional},
                    {"attn_logit_softcapping", "attention_cap", GgufKey::Use::kOptional},
                    {"final_logit_softcapping", "logit_cap", GgufKey::Use::kOptional},
                }));
constexpr auto kGemma3GgufKeys =
    GgufKeysAnd(GgufKeysAnd(kRmsGgufKeys, kWindowKey),
                std::to_array<GgufKey>({
                    {"attention.sliding_window_pattern", "layer_kinds", GgufKey::Use::kOptional},
                    {"final_logit_softcapping", "logit_cap", GgufKey::Use::kOptional},
                    {"rope.freq_base_swa", "rope_window_theta", GgufKey::Use::kOptional},
                }));
constexpr auto kGraniteGgufKeys =
    GgufKeysAnd(kRmsGgufKeys, std::to_array<GgufKey>({
                                  {"attention.scale", "attention_scale", GgufKey::Use::kOptional},
                                  {"embedding_scale", "embedding_scale", GgufKey::Use::kOptional},
                                  {"residual_scale", "residual_scale", GgufKey::Use::kOptional},
                                  {"logit_scale", "logit_scale", GgufKey::Use::kInverse},
                              }));

constexpr auto kNeoxGgufKeys =
    GgufKeysAnd(kLayerNormGgufKeys, std::to_array<GgufKey>({
                                        {"use_parallel_residual", "", GgufKey::Use::kTrue},
                                    }));

// What files mean that do not say it.
constexpr auto kAllWindows = std::to_array<FieldValue>({{"layer_kinds", "w"}});
constexpr auto kEveryFourth = std::to_array<FieldValue>({{"no_rope_every", "4"}});
constexpr auto kGemma2Unsaid = std::to_array<FieldValue>({{"sliding_window", "4096"},
                                                          {"layer_kinds", "wf"},
                                                          {"attention_cap", "50"},
                                                          {"logit_cap", "30"}});
constexpr auto kGemma3Unsaid =
    std::to_array<FieldValue>({{"layer_kinds", "wwwwwf"}, {"rope_window_theta", "10000"}});
constexpr auto kBiasesByTensors = std::to_array<std::string_view>({"attention_bias", "mlp_bias"});

// Gemma multiplies embeddings with the root of C. The scale of its scores no key of GGUF says: it
// is that of heads of D numbers, and in the one model of each kind that has another, whose layers
// are `largest`, that of C / H numbers.
template <int64_t largest>
void SetGemmaScales(GptConfig& config) {
  config.embedding_scale = std::sqrt(static_cast<double>(config.n_embd));
  const int64_t size =
      config.n_layer == largest ? config.n_embd / config.n_head : config.head_size();
  config.attention_scale = 1 / std::sqrt(static_cast<double>(size));
}

constexpr auto kLlamaNames = std::to_array<std::string_view>({"LlamaForCausalLM", "LlamaModel"});
constexpr auto kMistralNames =
    std::to_array<std::string_view>({"MistralForCausalLM", "MistralModel"});
constexpr auto kSmolLm3Names =
    std::to_array<std::string_view>({"SmolLM3ForCausalLM", "SmolLM3Model"});
constexpr auto kQwen2Names = std::to_array<std::string_view>({"Qwen2ForCausalLM", "Qwen2Model"});
constexpr auto kQwen3Names = std::to_array<std::string_view>({"Qwen3ForCausalLM", "Qwen3Model"});
constexpr auto kGemma2Names = std::to_array<std::string_view>({"Gemma2ForCausalLM", "Gemma2Model"});
constexpr auto kGemma3Names =
    std::to_array<std::string_view>({"Gemma3ForCausalLM", "Gemma3TextModel"});
constexpr auto kOlmo2Names = std::to_array<std::string_view>({"Olmo2ForCausalLM", "Olmo2Model"});
constexpr auto kPhi3Names = std::to_array<std::string_view>({"Phi3ForCausalLM", "Phi3Model"});
constexpr auto kGraniteNames =
    std::to_array<std::string_view>({"GraniteForCausalLM", "GraniteModel"});
constexpr auto kStarcoder2Names =
    std::to_array<std::string_view>({"Starcoder2ForCausalLM", "Starcoder2Model"});
constexpr auto kNeoxNames = std::to_array<std::string_view>({"GPTNeoXForCausalLM", "GPTNeoXModel"});
constexpr auto kPhiNames = std::to_array<std::string_view>({"PhiForCausalLM", "PhiModel"});

constexpr Limit kHeadsOfC = {"head_dim", kEverywhere, [](const GptConfig& c) {
                               return c.n_head * c.head_size() == c.n_embd;
                             }};
constexpr Limit kTied = {"tie_word_embeddings", Formats(kGguf),
                         [](const GptConfig& c) { return c.tie_word_embeddings; }};
constexpr Limit kHasHead = {"tie_word_embeddings", Formats(kGguf),
                            [](const GptConfig& c) { return !c.tie_word_embeddings; }};
// Embeddings are multiplied with the root of their width.
constexpr Limit kRootOfC = {"embedding_scale", kEverywhere, [](const GptConfig& c) {
                              return c.embedding_scale == std::sqrt(static_cast<double>(c.n_embd));
                            }};
// Where there is a window, all layers have it.
constexpr Limit kWindowEverywhere = {"layer_kinds", kEverywhere, [](const GptConfig& c) {
                                       return !c.sliding_window || c.layer_kinds == "w";
                                     }};
// llama.cpp divides by the caps of Gemma 2, and scales no positions of layers with a window in
// Gemma 3.
constexpr auto kGemma2Limits = std::to_array<Limit>({
    kRootOfC,
    kTied,
    {"attention_cap", Formats(kGguf), [](const GptConfig& c) { return c.attention_cap > 0; }},
    {"logit_cap", Formats(kGguf), [](const GptConfig& c) { return c.logit_cap > 0; }},
});
constexpr auto kGemma3Limits = std::to_array<Limit>({
    kRootOfC,
    {"rope_window_theta", Formats(kGguf),
     [](const GptConfig& c) { return !HasWindow(c) || c.rope_window_theta > 0; }},
});
constexpr auto kHeadsLimits = std::to_array<Limit>({kHeadsOfC});
constexpr auto kHeadsUntiedLimits = std::to_array<Limit>({kHeadsOfC, kHasHead});
constexpr auto kNeoxLimits = std::to_array<Limit>({
    kHeadsOfC,
    kHasHead,
    {"n_kv_head", kEverywhere,
     [](const GptConfig& c) { return c.n_kv_head.value_or(c.n_head) == c.n_head; }},
});
constexpr auto kWindowLimits = std::to_array<Limit>({kWindowEverywhere});
constexpr auto kHeadsWindowLimits = std::to_array<Limit>({kHeadsOfC, kWindowEverywhere});

constexpr Family kLlama = {
    .formats = Formats(kHuggingFace, kGguf),
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
    .gguf_architecture = "llama",
    .gguf_keys = kLlamaGgufKeys,
    .gguf_unsaid = kAllWindows,
    .gguf_by_tensors = kBiasesByTensors,
    .gguf_by_sizes = nullptr,
    .gguf_divisors = true,
    .limits = {},
};

constexpr Family Like(Family family, std::string_view type,
                      std::span<const std::string_view> architectures) {
  family.model_type = family.gguf_architecture = type;
  family.architectures = architectures;
  family.gguf_keys = kRmsGgufKeys;
  family.gguf_unsaid = {};
  family.gguf_by_tensors = {};
  family.gguf_divisors = false;
  return family;
}

constexpr Family kMistral = [] {
  Family family = kLlama;  // in GGUF it is one
  family.model_type = "mistral";
  family.architectures = kMistralNames;
  family.own = kWindowOwn;
  family.absent = kMistralAbsent;
  family.derived = kWindowDerived;
  family.limits = kWindowLimits;
  return family;
}();

constexpr Family kSmolLm3 = [] {
  Family family = Like(kLlama, "smollm3", kSmolLm3Names);
  family.own = kSmolLm3Own;
  family.absent = kSmolLm3Absent;
  family.derived = kSmolLm3Derived;
  family.gguf_unsaid = kEveryFourth;
  family.limits = kHeadsLimits;
  return family;
}();

constexpr Family kQwen2 = [] {
  Family family = Like(kLlama, "qwen2", kQwen2Names);
  family.fixed = kQwen2Fixed;
  family.own = kQwen2Own;
  family.derived = kQwenDerived;
  family.tensors = kQwenTensors;
  family.limits = kHeadsLimits;
  return family;
}();

constexpr Family kQwen3 = [] {
  Family family = Like(kQwen2, "qwen3", kQwen3Names);
  family.fixed = kQwen3Fixed;
  family.own = kQwen3Own;
  family.absent = kQwen3Absent;
  family.limits = {};
  return family;
}();

constexpr Family kGemma2 = [] {
  Family family = Like(kLlama, "gemma2", kGemma2Names);
  family.keys = kGemmaKeys;
  family.fixed = kGemma2Fixed;
  family.own = kGemmaOwn;
  family.absent = kGemma2Absent;
  family.derived = kGemmaDerived;
  family.tensors = kGemmaTensors;
  family.gguf_keys = kGemma2GgufKeys;
  family.gguf_unsaid = kGemma2Unsaid;
  family.gguf_by_sizes = &SetGemmaScales<46>;
  family.limits = kGemma2Limits;
  return family;
}();

constexpr Family kGemma3 = [] {
  Family family = Like(kGemma2, "gemma3_text", kGemma3Names);
  family.fixed = kGemma3Fixed;
  family.absent = kGemma3Absent;
  family.gguf_architecture = "gemma3";
  family.gguf_keys = kGemma3GgufKeys;
  family.gguf_unsaid = kGemma3Unsaid;
  family.gguf_by_sizes = &SetGemmaScales<62>;
  family.limits = kGemma3Limits;
  return family;
}();

constexpr Family kOlmo2 = [] {
  Family family = Like(kLlama, "olmo2", kOlmo2Names);
  family.fixed = kOlmo2Fixed;
  family.own = kOlmo2Own;
  family.tensors = kOlmo2Tensors;
  family.limits = kHeadsUntiedLimits;
  return family;
}();

constexpr Family kPhi3 = [] {
  Family family = Like(kLlama, "phi3", kPhi3Names);
  family.own = kQwen2Own;
  family.absent = kMistralAbsent;
  family.derived = kPhi3Derived;
  family.tensors = kPhi3Tensors;
  family.gguf_keys = kPhi3GgufKeys;
  family.gguf_unsaid = kAllWindows;
  family.limits = kHeadsWindowLimits;
  return family;
}();

constexpr Family kGranite = [] {
  Family family = Like(kLlama, "granite", kGraniteNames);
  family.keys = kGraniteKeys;
  family.own = kNoHeadDimOwn;
  family.derived = kGraniteDerived;
  family.gguf_keys = kGraniteGgufKeys;
  family.gguf_by_tensors = kBiasesByTensors;
  family.gguf_divisors = true;
  family.limits = kHeadsLimits;
  return family;
}();

constexpr Family kStarcoder2 = [] {
  Family family = Like(kLlama, "starcoder2", kStarcoder2Names);
  family.keys = kStarcoder2Keys;
  family.fixed = kStarcoder2Fixed;
  family.own = kStarcoder2Own;
  family.absent = kStarcoder2Absent;
  family.derived = kWindowDerived;
  family.tensors = kStarcoder2Tensors;
  family.gguf_keys = kStarcoder2GgufKeys;
  family.gguf_unsaid = kAllWindows;
  family.limits = kHeadsWindowLimits;
  return family;
}();

constexpr Family kNeox = [] {
  Family family = Like(kLlama, "gpt_neox", kNeoxNames);
  family.keys = kNeoxKeys;
  family.fixed = kNeoxFixed;
  family.own = kOlmo2Own;
  family.absent = kNeoxAbsent;
  family.derived = kNeoxDerived;
  family.tensors = kNeoxTensors;
  family.optional_prefix = "gpt_neox.";
  family.gguf_architecture = "gptneox";
  family.gguf_keys = kNeoxGgufKeys;
  family.limits = kNeoxLimits;
  return family;
}();

constexpr Family kPhi = [] {
  Family family = Like(kLlama, "phi", kPhiNames);
  family.keys = kPhiKeys;
  family.fixed = kPhiFixed;
  family.own = kPlainOwn;
  family.absent = kPhiAbsent;
  family.derived = kPhiDerived;
  family.tensors = kPhiTensors;
  family.gguf_architecture = "phi2";
  family.gguf_keys = kLayerNormGgufKeys;
  family.limits = kHeadsUntiedLimits;
  return family;
}();

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

constexpr std::array kFamilies = {kGpt2,    kLlama,      kMistral, kSmolLm3, kQwen2,
                                  kQwen3,   kGemma2,     kGemma3,  kOlmo2,   kPhi3,
                                  kGranite, kStarcoder2, kNeox,    kPhi,     FolioFamily()};

}  // namespace

std::span<const Family> Families() {
  return kFamilies;
}

const Family& Gpt2Family() {
  return kFamilies.front();
}

}  // namespace folio
