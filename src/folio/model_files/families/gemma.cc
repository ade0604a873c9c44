#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "folio/base/error.h"
#include "folio/io/json.h"
#include "folio/model/config.h"
#include "folio/model_files/families.h"
#include "folio/model_files/families/tables.h"

namespace folio {
namespace {

constexpr DerivedKey kQueryScalar = {
    "query_pre_attn_scalar", "attention_scale",
    [](const Json& value, const Json&, Json& said, const std::string&) {
      SetNumber(value, said, "attention_scale", [](double x) { return 1 / std::sqrt(x); });
    },
    [](const GptConfig& c) {
      constexpr double kMost = 1 << 30;
      const double scale = c.layer(0).score_scale;
      return std::optional<Json>(
          static_cast<int64_t>(std::clamp(Rounded(1 / (scale * scale)), 1.0, kMost)));
    }};

// Gemma multiplies embeddings by the root of C, without a key for it.
constexpr DerivedKey kRootOfWidth = {
    "hidden_size", "embedding_scale",
    [](const Json& value, const Json&, Json& said, const std::string&) {
      SetNumber(value, said, "embedding_scale", [](double x) { return std::sqrt(x); });
    },
    nullptr};

// Other programs require the size of a window even if no layer has one.
constexpr DerivedKey kWindowSize = {
    "sliding_window", "sliding_window", nullptr, [](const GptConfig& c) {
      return std::optional<Json>(c.sliding_window.value_or(c.n_positions));
    }};

// Gemma 3's older form: every n-th layer has full attention.
void ReadWindowPattern(const Json& every, const Json&, Json& said, const std::string&) {
  const bool fits =
      every.is_number_integer() && every.get<int64_t>() > 0 && every.get<int64_t>() <= 1 << 16;
  if (!fits) return;
  said["layer_kinds"] = std::string(static_cast<size_t>(every.get<int64_t>()) - 1, 'w') + 'f';
}

constexpr std::string_view kParameters = "rope_parameters";

// Layers with full attention and those with a window have one object each. Older files had one for
// full attention, in "rope_scaling", and a base for each kind.
void ReadGemma3Rope(const Json& theta, const Json& json, Json& said, const std::string& where) {
  const Json* parameters = json.find(kParameters);
  if (parameters != nullptr && parameters->is_object()) {
    for (const auto& [key, value] : parameters->items()) {
      if (key == kFullAttention || key == kSlidingAttention || value.is_null()) continue;
      throw InputError(fmt::format("{}: {} of rotary positions is not supported", where, key),
                       fmt::format("it is {}", value.dump()),
                       fmt::format("rope_parameters has {} and {}, an object for each",
                                   kFullAttention, kSlidingAttention));
    }
  }
  const auto object = [&](std::string_view kind) {
    const Json* found = Says(json, kParameters) ? json.find(kParameters)->find(kind) : nullptr;
    return found == nullptr || found->is_null() ? Json::object() : *found;
  };
  Json full = object(kFullAttention), window = object(kSlidingAttention), of_full = Json::object(),
       of_window = Json::object();
  if (Says(json, "rope_scaling")) full.update(*json.find("rope_scaling"));
  if (!Says(full, "rope_theta")) full["rope_theta"] = theta;
  if (!Says(window, "rope_theta")) window["rope_theta"] = *json.find("rope_local_base_freq");
  ReadRope(full, of_full, where);
  ReadRope(window, of_window, where);
  said.update(of_full);
  if (of_window == of_full) {
    said["rope_window_theta"] = 0;
  } else if (of_window["rope_scaling"] == Json("default")) {
    said["rope_window_theta"] = of_window["rope_theta"];
  } else {
    throw InputError(
        fmt::format("{}: {} of rotary positions is not supported", where, kSlidingAttention),
        fmt::format("it is {}, and {} is {}", window.dump(), kFullAttention, full.dump()),
        "in layers with a sliding window folio supports the scaling of all other layers, or none");
  }
}

// Returns true if layers with a window scale positions too, which "rope_scaling" cannot express.
bool ScalesInWindows(const GptConfig& config) {
  return config.rope_scaling != RopeScaling::kDefault && config.rope_window_theta == 0;
}

std::optional<Json> WriteGemma3Scaling(const GptConfig& config) {
  if (ScalesInWindows(config)) return Json();
  return WriteRopeScaling(config);
}

std::optional<Json> WriteGemma3Parameters(const GptConfig& config) {
  if (!ScalesInWindows(config)) return std::nullopt;
  Json rope = RopeObject(config);
  rope["rope_theta"] = config.rope_theta;
  return Json{{kFullAttention, rope}, {kSlidingAttention, rope}};
}

// Gemma multiplies embeddings by the root of C. GGUF has no key for the scale of scores: it is that
// of heads with D numbers, except in the one model of each kind with `largest` layers, where it is
// that of C / H numbers.
template <int64_t largest>
void SetGemmaScales(GptConfig& config) {
  config.embedding_scale = std::sqrt(static_cast<double>(config.n_embd));
  const int64_t size =
      config.n_layer == largest ? config.n_embd / config.n_head : config.head_size();
  config.attention_scale = 1 / std::sqrt(static_cast<double>(size));
}

// Embeddings must be multiplied by the root of their width.
constexpr Limit kRootOfC = {"embedding_scale", kEverywhere, [](const GptConfig& c) {
                              return c.embedding_scale == std::sqrt(static_cast<double>(c.n_embd));
                            }};

}  // namespace

Family Gemma2Table() {
  Family family = FamilyLike(LlamaTable(), "gemma2", {"Gemma2ForCausalLM", "Gemma2Model"});
  SetKeys({{"activation_function", {"hidden_activation"}},
           {"logit_cap", {"final_logit_softcapping"}, /*null_for_zero=*/true},
           {"attention_cap", {"attn_logit_softcapping"}, /*null_for_zero=*/true}},
          family);
  family.fixed = {{"norm", "rms_one_plus"},
                  {"norm_position", "both"},
                  {"position_embedding", "rotary"},
                  {"mlp", "gated"},
                  {"bias", "false"}};
  family.own = Rows(kPlainOwn, {"head_dim", "attention_bias"});
  family.absent = R"({
    "vocab_size": 256000, "hidden_size": 2304, "intermediate_size": 9216, "num_hidden_layers": 26,
    "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256,
    "hidden_activation": "gelu_pytorch_tanh", "max_position_embeddings": 8192,
    "rms_norm_eps": 1e-6, "bos_token_id": 2, "eos_token_id": 1,
    "query_pre_attn_scalar": 256, "sliding_window": 4096, "layer_kinds": "wf",
    "final_logit_softcapping": 30, "attn_logit_softcapping": 50})";
  // transformers reads hidden_activation alone.
  family.passed_over = {"hidden_act", "sliding_window_size"};
  family.derived = {kRopeScaling, kRopeParameters, kRootOfWidth,
                    kQueryScalar, kWindowSize,     kLayerTypes};
  // GGUF stores 1 + w where Hugging Face stores w.
  family.tensors = {
      kEmbedRow,
      NamedRow("ln_1", "model.layers.{}.input_layernorm.weight", "blk.{}.attn_norm.weight", 1),
      TurnedRow("attn.c_attn", kQkvProj, kGgufQkv),
      NamedRow("attn.q_norm", "model.layers.{}.self_attn.q_norm.weight",
               "blk.{}.attn_q_norm.weight", 1),
      NamedRow("attn.k_norm", "model.layers.{}.self_attn.k_norm.weight",
               "blk.{}.attn_k_norm.weight", 1),
      kOutRow,
      NamedRow("ln_attn", "model.layers.{}.post_attention_layernorm.weight",
               "blk.{}.post_attention_norm.weight", 1),
      NamedRow("ln_2", "model.layers.{}.pre_feedforward_layernorm.weight", "blk.{}.ffn_norm.weight",
               1),
      kGateUpRow,
      kDownRow,
      NamedRow("ln_mlp", "model.layers.{}.post_feedforward_layernorm.weight",
               "blk.{}.post_ffw_norm.weight", 1),
      NamedRow("ln_f", "model.norm.weight", "output_norm.weight", 1),
      kHeadRow};
  family.gguf_keys = Rows(
      kRmsGgufKeys, {{"attention.sliding_window", "sliding_window", GgufKey::Use::kOptional},
                     {"attention.sliding_window_pattern", "layer_kinds", GgufKey::Use::kOptional},
                     {"attn_logit_softcapping", "attention_cap", GgufKey::Use::kOptional},
                     {"final_logit_softcapping", "logit_cap", GgufKey::Use::kOptional}});
  family.gguf_unsaid = {{"sliding_window", "4096"},
                        {"layer_kinds", "wf"},
                        {"attention_cap", "50"},
                        {"logit_cap", "30"}};
  family.gguf_by_sizes = &SetGemmaScales<46>;
  // llama.cpp requires the caps.
  family.limits = {kRootOfC,
                   {"tie_word_embeddings", Formats(FileFormat::kGguf),
                    [](const GptConfig& c) { return c.tie_word_embeddings; }},
                   {"attention_cap", Formats(FileFormat::kGguf),
                    [](const GptConfig& c) { return c.attention_cap > 0; }},
                   {"logit_cap", Formats(FileFormat::kGguf),
                    [](const GptConfig& c) { return c.logit_cap > 0; }}};
  return family;
}

Family Gemma3Table() {
  Family family =
      FamilyLike(Gemma2Table(), "gemma3_text", {"Gemma3ForCausalLM", "Gemma3TextModel"});
  // transformers has the key of Gemma 2's score caps here too, and ignores it.
  family.keys = LlamaTable().keys;
  SetKeys({{"activation_function", {"hidden_activation"}},
           {"logit_cap", {"final_logit_softcapping"}, /*null_for_zero=*/true},
           {"rope_window_theta", {"rope_local_base_freq"}, /*null_for_zero=*/true}},
          family);
  family.fixed = Rows(family.fixed, {{"qk_norm", "head"}});
  family.absent = R"({
    "vocab_size": 262208, "hidden_size": 2304, "intermediate_size": 9216, "num_hidden_layers": 26,
    "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256,
    "hidden_activation": "gelu_pytorch_tanh", "max_position_embeddings": 131072,
    "rms_norm_eps": 1e-6, "bos_token_id": 2, "eos_token_id": 1,
    "query_pre_attn_scalar": 256, "sliding_window": 4096, "sliding_window_pattern": 6,
    "rope_theta": 1000000, "rope_local_base_freq": 10000})";
  // transformers reads hidden_activation alone, and of the others nothing that concerns text.
  family.passed_over = {"hidden_act",      "_sliding_window_pattern", "attn_logit_softcapping",
                        "vision_config",   "mm_tokens_per_image",     "boi_token_index",
                        "eoi_token_index", "image_token_index",       "boi_token_id",
                        "eoi_token_id",    "image_token_id"};
  family.derived = {{"rope_theta", "rope_window_theta", &ReadGemma3Rope, nullptr},
                    {"rope_scaling", "rope_scaling", nullptr, &WriteGemma3Scaling},
                    {kParameters, "rope_scaling", nullptr, &WriteGemma3Parameters},
                    kRootOfWidth,
                    kQueryScalar,
                    kWindowSize,
                    {"sliding_window_pattern", "layer_kinds", &ReadWindowPattern, nullptr},
                    kLayerTypes};
  // Gemma 3 with pictures.
  family.enclosing = {.model_type = "gemma3",
                      .architecture = "Gemma3ForConditionalGeneration",
                      .prefixes = {"language_model.model.", "model.language_model."},
                      .not_text = {"vision_tower.", "multi_modal_projector.", "model.vision_tower.",
                                   "model.multi_modal_projector."}};
  family.gguf_architecture = "gemma3";
  family.gguf_keys = Rows(
      kRmsGgufKeys, {{"attention.sliding_window", "sliding_window", GgufKey::Use::kOptional},
                     {"attention.sliding_window_pattern", "layer_kinds", GgufKey::Use::kOptional},
                     {"final_logit_softcapping", "logit_cap", GgufKey::Use::kOptional},
                     {"rope.freq_base_swa", "rope_window_theta", GgufKey::Use::kOptional}});
  family.gguf_unsaid = {{"layer_kinds", "wwwwwf"}, {"rope_window_theta", "10000"}};
  family.gguf_by_sizes = &SetGemmaScales<62>;
  // llama.cpp does not scale positions in layers with a window.
  family.limits = {kRootOfC,
                   {"rope_window_theta", Formats(FileFormat::kGguf), [](const GptConfig& c) {
                      return !HasWindow(c) || c.rope_window_theta > 0 ||
                             c.rope_scaling == RopeScaling::kDefault;
                    }}};
  return family;
}

}  // namespace folio
