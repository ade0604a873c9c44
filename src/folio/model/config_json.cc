#include "folio/model/config_json.h"

#include <fmt/format.h>

#include <array>

#include "folio/base/error.h"
#include "folio/io/json.h"

namespace folio {
namespace {

// Keys that decide how the model computes and that only this one value is implemented of.
struct OnlyValue {
  const char* key;
  Json value;
};
std::array<OnlyValue, 5> OnlyValues() {
  return {OnlyValue{"model_type", "gpt2"}, OnlyValue{"scale_attn_weights", true},
          OnlyValue{"scale_attn_by_inverse_layer_idx", false},
          OnlyValue{"add_cross_attention", false}, OnlyValue{"is_encoder_decoder", false}};
}

void RefuseOtherValues(const Json& json, const std::string& where) {
  for (const auto& [key, value] : OnlyValues()) {
    if (json.contains(key) && json[key] != value) {
      throw InputError(fmt::format("{}: {} is not supported", where, key),
                       fmt::format("expected {}, found {}", value.dump(), json[key].dump()),
                       "folio runs GPT-2 models only");
    }
  }
  if (json.contains("n_ctx") && json.contains("n_positions") &&
      json["n_ctx"] != json["n_positions"]) {
    throw InputError(
        fmt::format("{}: n_ctx and n_positions differ", where),
        fmt::format("they are {} and {}", json["n_ctx"].dump(), json["n_positions"].dump()),
        "make them equal");
  }
}

// The value as SetField reads it; throws where JSON's type cannot be meant.
std::string FieldTextOf(const Json& value, const Field& field, const std::string& where) {
  const bool text_field = std::holds_alternative<std::string*>(field.value);
  if (value.is_string() && text_field) return value.get<std::string>();
  const bool number_or_bool = value.is_boolean() || value.is_number() || value.is_null();
  if (text_field || !number_or_bool) {
    throw InputError(fmt::format("{}: {} has the wrong type", where, field.key),
                     fmt::format("expected {}, found {}", FieldType(field), value.dump()));
  }
  return value.dump();
}

}  // namespace

GptConfig GptConfigFromJson(std::string_view text, const std::string& where) {
  const Json json = ParseJson(text, where);
  if (!json.is_object()) throw InputError(where + ": not a JSON object");
  RefuseOtherValues(json, where);
  GptConfig config;
  config.embd_pdrop = config.attn_pdrop = config.resid_pdrop = 0.1;
  for (const Field& field : config.Fields()) {
    if (!json.contains(field.key)) continue;
    std::string value = FieldTextOf(json[field.key], field, where);
    // The tanh form under the name of the library function that computes it.
    if (field.key == "activation_function" && value == "gelu_pytorch_tanh") value = "gelu_new";
    try {
      SetField(field, value, where);
    } catch (const Error& error) {
      throw InputError(error.what(), error.cause(), error.help());
    }
  }
  try {
    config.Validate(where);
  } catch (const Error& error) {
    throw InputError(error.what(), error.cause(), error.help());
  }
  return config;
}

std::string GptConfigToJson(const GptConfig& config) {
  Json json;
  json["model_type"] = "gpt2";
  json["architectures"] = {"GPT2LMHeadModel"};
  GptConfig copy = config;
  for (const Field& field : copy.Fields()) {
    json[field.key] = std::visit([](const auto* value) { return Json(*value); }, field.value);
  }
  json["n_ctx"] = config.n_positions;
  json["torch_dtype"] = "float32";
  return json.dump(2) + "\n";
}

}  // namespace folio
