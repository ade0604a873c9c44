#include "folio/model/config_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>
#include <variant>

#include "folio/base/error.h"
#include "folio/io/checksums.h"
#include "folio/io/json.h"

namespace folio {
namespace {

// The type of a model that GPT-2 cannot express, so that no other program takes it for one.
constexpr char kOwnType[] = "folio", kOwnArchitecture[] = "FolioLMHeadModel";
// Before the name of the activation of such a model: programs that pass over its type stop there.
constexpr std::string_view kOwnPrefix = "folio:";

// Other names of our activations in transformers, which has several libraries' forms of them.
struct Alias {
  std::string_view theirs, ours;
};
constexpr auto kAliases = std::to_array<Alias>({
    {"gelu_pytorch_tanh", "gelu_new"},
    {"gelu_python_tanh", "gelu_new"},
    {"gelu_fast", "gelu_new"},
    {"gelu_accurate", "gelu_new"},
    {"gelu_python", "gelu"},
    {"swish", "silu"},
});

std::string OurActivation(std::string name) {
  if (name.starts_with(kOwnPrefix)) name.erase(0, kOwnPrefix.size());
  const auto alias = std::ranges::find(kAliases, name, &Alias::theirs);
  return alias == kAliases.end() ? name : std::string(alias->ours);
}

// Names that transformers' GPT2Config takes for its own too, as configurations of other kinds of
// models have them.
constexpr auto kKeyAliases = std::to_array<Alias>({
    {"num_hidden_layers", "n_layer"},
    {"num_attention_heads", "n_head"},
    {"hidden_size", "n_embd"},
    {"max_position_embeddings", "n_positions"},
});

// The value that `json` has for a field, by whichever of its names; null if by none. Throws where
// two say different things.
const Json* FindField(const Json& json, const std::string& key, const std::string& where) {
  const Json* found = json.find(key);
  std::string_view found_as = key;
  for (const auto& [theirs, ours] : kKeyAliases) {
    const Json* other = ours == key ? json.find(theirs) : nullptr;
    if (other == nullptr) continue;
    if (found != nullptr && *found != *other) {
      throw InputError(fmt::format("{}: {} and {} differ", where, theirs, found_as),
                       fmt::format("they are {} and {}", other->dump(), found->dump()),
                       "make them equal");
    }
    found = other;
    found_as = theirs;
  }
  return found;
}

// Keys of which folio knows but one value, and what the others would ask for.
struct Refused {
  const char* key;
  Json only;
  const char* feature;
};

[[noreturn]] void Refuse(const std::string& where, std::string_view feature, std::string cause) {
  throw InputError(fmt::format("{}: {} is not supported", where, feature), std::move(cause),
                   "folio runs GPT-2 models that continue text: save it as a GPT2LMHeadModel of "
                   "plain weights first");
}

void RefuseOtherModels(const Json& json, const std::string& where) {
  if (const Json* type = json.find("model_type");
      type != nullptr && *type != Json(kOwnType) && *type != Json("gpt2")) {
    Refuse(where, fmt::format("model_type {}", type->dump()), "expected \"gpt2\"");
  }
  const Json* names = json.find("architectures");
  if (names != nullptr && names->is_array() && !names->empty() &&
      std::ranges::none_of(*names, [](const Json& name) {
        return name == Json("GPT2LMHeadModel") || name == Json("GPT2Model") ||
               name == Json(kOwnArchitecture);
      })) {
    Refuse(where, fmt::format("the architecture {}", names->at(0).dump()),
           "expected \"GPT2LMHeadModel\"");
  }
  const Json *context = json.find("n_ctx"), *positions = FindField(json, "n_positions", where);
  if (context != nullptr && positions != nullptr && *context != *positions) {
    throw InputError(fmt::format("{}: n_ctx and n_positions differ", where),
                     fmt::format("they are {} and {}", context->dump(), positions->dump()),
                     "make them equal");
  }
  const std::array refused = {
      Refused{"add_cross_attention", false, "cross-attention"},
      Refused{"is_encoder_decoder", false, "an encoder"},
      Refused{"quantization_config", nullptr, "a quantised model"},
      Refused{"pruned_heads", Json::object(), "a model with pruned heads"},
  };
  for (const auto& [key, only, feature] : refused) {
    const Json* found = json.find(key);
    if (found == nullptr || found->is_null() || *found == only) continue;
    Refuse(where, feature,
           found->is_object() ? fmt::format("it has {}", key)
                              : fmt::format("{} is {}", key, found->dump()));
  }
}

// The value as SetField reads it; throws where JSON's type cannot be meant.
std::string FieldTextOf(const Json& value, const Field& field, const std::string& where) {
  const bool text_field = std::holds_alternative<std::string*>(field.value);
  if (value.is_string() && text_field) return value.get<std::string>();
  const bool number_or_bool = value.is_boolean() || value.is_number() || value.is_null();
  const bool truth = value.is_boolean() && TakesTruth(field);
  if ((text_field && !truth) || !number_or_bool) {
    throw InputError(fmt::format("{}: {} has the wrong type", where, field.key),
                     fmt::format("expected {}, found {}", FieldType(field), value.dump()));
  }
  return value.dump();
}

// The token that ends (begins) a text: of several the first.
const Json& TokenId(const Json& value) {
  return value.is_array() && !value.empty() ? value[0] : value;
}

// transformers gives a configuration GPT-2's end-of-text token where it names none, in however
// small a vocabulary.
void DropForeignEnd(std::optional<int64_t>& id, int64_t vocab_size) {
  constexpr int64_t kGpt2End = 50256;
  if (id == kGpt2End && kGpt2End >= vocab_size) id.reset();
}

// SetField, whose mistakes are here those of a file.
void SetFromFile(const Field& field, const std::string& value, const std::string& where) {
  try {
    SetField(field, value, where);
  } catch (const Error& error) {
    throw InputError(error.what(), error.cause(), error.help());
  }
}

bool IsTokenId(const Field& field) {
  return field.key == "bos_token_id" || field.key == "eos_token_id";
}

}  // namespace

GptConfig GptConfigFromJson(std::string_view text, const std::string& where) {
  const Json json = ParseJson(text, where);
  if (!json.is_object()) throw InputError(where + ": not a JSON object");
  RefuseOtherModels(json, where);
  GptConfig config;
  config.embd_pdrop = config.attn_pdrop = config.resid_pdrop = 0.1;
  for (const Field& field : config.Fields()) {
    const Json* given = FindField(json, field.key, where);
    if (given == nullptr) continue;
    std::string value = FieldTextOf(IsTokenId(field) ? TokenId(*given) : *given, field, where);
    if (field.key == "activation_function") value = OurActivation(std::move(value));
    SetFromFile(field, value, where);
  }
  DropForeignEnd(config.bos_token_id, config.vocab_size);
  DropForeignEnd(config.eos_token_id, config.vocab_size);
  try {
    config.Validate(where);
  } catch (const Error& error) {
    throw InputError(error.what(), error.cause(), error.help());
  }
  return config;
}

void AddGenerationConfig(std::string_view text, const std::string& where, GptConfig& config) {
  const Json json = ParseJson(text, where);
  for (const Field& field : config.Fields()) {
    const Json* found = IsTokenId(field) ? json.find(field.key) : nullptr;
    auto* const id = std::get_if<std::optional<int64_t>*>(&field.value);
    if (found == nullptr || id == nullptr || (*id)->has_value()) continue;
    SetFromFile(field, FieldTextOf(TokenId(*found), field, where), where);
    // Some programs leave another model's tokens there; nothing is lost without them.
    if (**id >= config.vocab_size) (*id)->reset();
  }
}

std::string GptConfigToJson(const GptConfig& config, Dtype dtype, bool checksums) {
  Json json;
  const bool gpt2 = WhyNotGpt2(config).empty();
  json["model_type"] = gpt2 ? "gpt2" : kOwnType;
  json["architectures"] = Json::array({gpt2 ? "GPT2LMHeadModel" : kOwnArchitecture});
  GptConfig copy = config;
  for (const Field& field : copy.Fields()) {
    const std::string text = FieldText(field);
    json[field.key] = TakesTruth(field) && (text == "true" || text == "false")
                          ? Json(text == "true")
                          : std::visit([](const auto* value) { return Json(*value); }, field.value);
  }
  if (!gpt2) {
    json["activation_function"] = fmt::format("{}{}", kOwnPrefix, config.activation_function);
  }
  json["n_ctx"] = config.n_positions;
  json["torch_dtype"] = dtype == Dtype::kF16    ? "float16"
                        : dtype == Dtype::kBF16 ? "bfloat16"
                                                : "float32";
  if (checksums) json[kChecksumsKey] = kChecksumsFile;
  return json.dump(2) + "\n";
}

std::string GenerationConfigToJson(const GptConfig& config) {
  const Json json = {{"_from_model_config", true},
                     {"bos_token_id", config.bos_token_id},
                     {"eos_token_id", config.eos_token_id}};
  return json.dump(2) + "\n";
}

}  // namespace folio
