#include "folio/model/config.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <optional>
#include <span>
#include <system_error>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "folio/base/check.h"
#include "folio/base/error.h"
#include "folio/base/strings.h"
#include "folio/io/checksums.h"
#include "folio/io/json.h"
#include "folio/model/families.h"
#include "folio/tensor/dtype.h"

namespace folio {

namespace {

constexpr int64_t kSizeLimit = int64_t{1} << 30;

// The positive multiples of d on either side of n.
std::string NearestMultiples(int64_t d, int64_t n) {
  const int64_t below = n / d * d;
  return below == 0 ? fmt::format("{}", d) : fmt::format("{} or {}", below, below + d);
}

// The positive numbers of "1,1.5"; none where one is no such.
std::vector<float> PositiveNumbers(const std::string& text) {
  std::vector<float> numbers;
  for (const std::string& part : Split(text, ',')) {
    double number = 0;
    const char* end = part.data() + part.size();
    const auto [stop, problem] = std::from_chars(part.data(), end, number);
    const auto rounded = static_cast<float>(number);
    if (problem != std::errc() || stop != end || !(rounded > 0) || !std::isfinite(rounded)) {
      return {};
    }
    numbers.push_back(rounded);
  }
  return numbers;
}

// LongRoPE has a divisor for each pair, in the original context and beyond it.
void ValidateLongRope(const GptConfig& config, const std::string& where) {
  if (config.rope_scaling != "longrope") return;
  const int64_t pairs = config.rotary_width() / 2;
  for (const auto& [name, text] : {std::pair{"rope_short_factors", &config.rope_short_factors},
                                   std::pair{"rope_long_factors", &config.rope_long_factors}}) {
    const int64_t found = std::ssize(PositiveNumbers(*text));
    if (found == pairs) continue;
    throw UsageError(fmt::format("{}: {} has not a divisor for each pair", where, name),
                     fmt::format("found {} positive numbers, expected {}", found, pairs),
                     "set it to positive numbers with commas between them");
  }
  if (config.rope_positions() < 2) {
    throw UsageError(fmt::format("{}: longrope needs a context to begin with", where),
                     fmt::format("rope_original_positions is {}", config.rope_positions()),
                     "set it to 2 or more");
  }
}

}  // namespace

std::string NearestDivisors(int64_t n, int64_t d) {
  int64_t below = std::min(d, n), above = below;
  while (n % below != 0) --below;
  while (n % above != 0) ++above;
  return below == above ? fmt::format("{}", below) : fmt::format("{} or {}", below, above);
}

void CheckSize(std::string_view where, NamedSize size) {
  if (size.value >= 1 && size.value < kSizeLimit) return;
  throw UsageError(fmt::format("{}: {} is out of range", where, size.name),
                   fmt::format("{} is {}", size.name, size.value),
                   fmt::format("set {} to something from 1 to {}", size.name, kSizeLimit - 1));
}

void CheckDivides(std::string_view where, NamedSize part, NamedSize whole) {
  CheckSize(where, part);
  CheckSize(where, whole);
  const int64_t n = whole.value, d = part.value;
  if (n % d == 0) return;
  throw UsageError(fmt::format("{}: {} must divide {}", where, part.name, whole.name),
                   fmt::format("{} is {}, {} is {}", whole.name, n, part.name, d),
                   fmt::format("set {} to {}, or {} to {}", part.name, NearestDivisors(n, d),
                               whole.name, NearestMultiples(d, n)));
}

Activation GptConfig::activation() const {
  const auto found = std::ranges::find(kActivations, activation_function, &NamedActivation::name);
  FOLIO_CHECK(found != kActivations.end(), "activation_function was not validated");
  return found->kind;
}

std::vector<std::string> GptConfig::ActivationNames() {
  std::vector<std::string> names;
  for (const NamedActivation& activation : kActivations) names.emplace_back(activation.name);
  return names;
}

std::vector<std::string> GptConfig::FamilyNames() {
  std::vector<std::string> names = {""};
  for (const Family& family : Families()) names.emplace_back(family.model_type);
  return names;
}

double GptConfig::score_scale(int64_t layer) const {
  const double plain = scale_attn_weights ? 1 / std::sqrt(static_cast<double>(head_size())) : 1;
  const double scale = attention_scale > 0 ? attention_scale : plain;
  return scale_attn_by_inverse_layer_idx ? scale / static_cast<double>(layer + 1) : scale;
}

std::vector<float> GptConfig::rope_divisors(bool beyond) const {
  return PositiveNumbers(beyond ? rope_long_factors : rope_short_factors);
}

LayerKind GptConfig::layer_kind(int64_t layer) const {
  const auto l = static_cast<size_t>(layer);
  const bool window = sliding_window && layer_kinds[l % layer_kinds.size()] == 'w';
  LayerKind kind{.window = window ? *sliding_window : 0};
  const bool turns = rotary() && (no_rope_every == 0 || (layer + 1) % no_rope_every != 0);
  if (turns) kind.rotary = window && rope_window_theta > 0 ? 1 : 0;
  return kind;
}

namespace {

// What smear and value_embeddings need of the rest.
void ValidateExtras(const GptConfig& config, const std::string& where) {
  const bool added = config.learned_positions() || config.position_embedding == "sinusoidal";
  if (config.smear && added) {
    throw UsageError(fmt::format("{}: smear is of embeddings without positions", where),
                     fmt::format("position_embedding is {}", config.position_embedding),
                     "set position_embedding to rotary, or smear to false");
  }
  for (const auto& [name, on, least] :
       {std::tuple{"smear", config.smear, kSmearChannels},
        std::tuple{"value_embeddings", config.value_embeddings, kValueChannels}}) {
    if (!on || config.n_embd >= least) continue;
    throw UsageError(fmt::format("{}: the gates of {} read {} channels", where, name, least),
                     fmt::format("n_embd is {}", config.n_embd),
                     fmt::format("set n_embd to {} or more, or {} to false", least, name));
  }
}

}  // namespace

void GptConfig::Validate(const std::string& where) const {
  if (!head_dim && n_embd % n_head != 0) {
    throw UsageError(fmt::format("{}: n_head must divide n_embd", where),
                     fmt::format("n_embd is {}, n_head is {}", n_embd, n_head),
                     fmt::format("set n_head to {}", NearestDivisors(n_embd, n_head)));
  }
  if (block != "serial" && norm_position != "pre") {
    throw UsageError(fmt::format("{}: sublayers beside each other read what a norm gives", where),
                     fmt::format("block is {}, norm_position is {}", block, norm_position),
                     "set norm_position to pre, or block to serial");
  }
  if (one_norm() && sublayer_pdrop > 0) {
    throw UsageError(fmt::format("{}: sublayers that share a norm read the same", where),
                     fmt::format("block is {}, sublayer_pdrop is {}", block, sublayer_pdrop),
                     "set sublayer_pdrop to 0, or block to parallel");
  }
  const HeadLayout heads = head_layout();
  if (n_head % heads.kv_heads != 0) {
    throw UsageError(fmt::format("{}: n_kv_head must divide n_head", where),
                     fmt::format("n_head is {}, n_kv_head is {}", n_head, heads.kv_heads),
                     fmt::format("set n_kv_head to {}", NearestDivisors(n_head, heads.kv_heads)));
  }
  // Beyond this, sums of sizes could overflow; no machine holds such a model anyway.
  constexpr double kMaxParameters = 1e14;
  const double C = static_cast<double>(n_embd), F = static_cast<double>(inner());
  const auto q_width = static_cast<double>(heads.q_width());
  const auto qkv_width = static_cast<double>(heads.qkv_width());
  const double values =
      value_embeddings ? static_cast<double>(heads.kv_width()) * static_cast<double>(vocab_size)
                       : 0;
  const double per_block = (q_width + qkv_width) * C + 2 * C * F + 6 * C + qkv_width + F + values;
  const double total = C * static_cast<double>(2 * vocab_size + n_positions) +
                       per_block * static_cast<double>(n_layer);
  if (total > kMaxParameters) {
    throw UsageError(fmt::format("{}: the model is too large", where),
                     fmt::format("it would have about {:.2g} parameters", total),
                     "lower n_layer, n_embd, n_inner or vocab_size");
  }
  if (position_embedding == "sinusoidal" && n_embd % 2 != 0) {
    throw UsageError(fmt::format("{}: sinusoidal positions need an even n_embd", where),
                     fmt::format("n_embd is {}", n_embd), "use an even n_embd");
  }
  if (rotary() && (rotary_width() % 2 != 0 || rotary_width() > head_size())) {
    throw UsageError(fmt::format("{}: rotary positions turn an even part of a head", where),
                     fmt::format("rotary_dim is {}, a head has {}", rotary_width(), head_size()),
                     fmt::format("set rotary_dim to something even up to {}", head_size()));
  }
  ValidateExtras(*this, where);
  ValidateLongRope(*this, where);
  if (layer_kinds.empty() || layer_kinds.find_first_not_of("fw") != std::string::npos) {
    throw UsageError(fmt::format("{}: layer_kinds is made of f and w", where),
                     fmt::format("it is \"{}\"", layer_kinds),
                     "f is full attention, w a sliding window: \"wwf\"");
  }
  if (layer_kinds.find('w') != std::string::npos && !sliding_window) {
    throw UsageError(fmt::format("{}: layers with a window need its size", where),
                     fmt::format("layer_kinds is \"{}\", sliding_window is null", layer_kinds),
                     "set sliding_window");
  }
  if (layer_kinds.find('w') != std::string::npos && !causal) {
    throw UsageError(fmt::format("{}: a sliding window looks back alone", where),
                     "causal is false, and layer_kinds has a w", "set causal, or layer_kinds = f");
  }
  for (const auto& [name, id] :
       {std::pair{"bos_token_id", bos_token_id}, std::pair{"eos_token_id", eos_token_id}}) {
    if (id && *id >= vocab_size) {
      throw UsageError(fmt::format("{}: {} is outside the vocabulary", where, name),
                       fmt::format("it is {}, vocab_size is {}", *id, vocab_size),
                       fmt::format("set {} below vocab_size, or null", name));
    }
  }
}

void RequireTokens(std::span<const int32_t> ids, int64_t V, std::string_view name, int32_t lowest) {
  const auto wrong = std::ranges::find_if(ids, [&](int32_t id) { return id < lowest || id >= V; });
  if (wrong == ids.end()) return;
  throw UsageError(fmt::format("{}: the model has no token {}", name, *wrong),
                   fmt::format("its tokens are 0 to {}", V - 1),
                   "take the tokenizer that the model was trained with");
}

namespace {

constexpr std::string_view kModelTypeKey = "model_type", kTextKey = "text_config",
                           kArchitecturesKey = "architectures";

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
  for (const Family& family : Families()) {
    if (name.starts_with(family.activation_prefix)) name.erase(0, family.activation_prefix.size());
  }
  const auto alias = std::ranges::find(kAliases, name, &Alias::theirs);
  return alias == kAliases.end() ? name : std::string(alias->ours);
}

// The value that `json` has by any of a field's keys; null if by none. Throws where two of them
// say different things.
const Json* FindField(const Json& json, std::span<const std::string_view> keys,
                      const std::string& where) {
  const Json* found = nullptr;
  std::string_view found_as;
  for (const std::string_view key : keys) {
    const Json* other = key.empty() ? nullptr : json.find(key);
    if (other == nullptr) continue;
    if (found != nullptr && *found != *other) {
      throw InputError(fmt::format("{}: {} and {} differ", where, key, found_as),
                       fmt::format("they are {} and {}", other->dump(), found->dump()),
                       "make them equal");
    }
    found = other;
    found_as = key;
  }
  return found;
}

// All keys of a field that are read.
std::vector<std::string_view> KeysOf(const Family& family, std::string_view field) {
  const auto row = std::ranges::find(family.keys, field, &ConfigKey::field);
  if (row == family.keys.end()) return {field};
  return {row->keys.begin(), row->keys.end()};
}

std::string TypesOfFamilies() {
  std::vector<std::string> types;
  for (const Family& family : Families()) types.emplace_back(family.model_type);
  return Join(types, ", ");
}

[[noreturn]] void Refuse(const std::string& where, std::string_view feature, std::string cause) {
  throw InputError(fmt::format("{}: {} is not supported", where, feature), std::move(cause),
                   "folio runs models that continue text, of these types: " + TypesOfFamilies());
}

// Refuses a configuration whose architectures are all others.
void RequireArchitecture(const Json& json, std::span<const std::string_view> known,
                         const std::string& where) {
  const Json* names = json.find(kArchitecturesKey);
  const auto is_known = [&](const Json& name) {
    return std::ranges::any_of(known, [&](std::string_view one) { return name == Json(one); });
  };
  if (names != nullptr && names->is_array() && !names->empty() &&
      std::ranges::none_of(*names, is_known)) {
    Refuse(where, fmt::format("the architecture {}", names->at(0).dump()),
           fmt::format("expected \"{}\"", known.front()));
  }
}

// The configuration of the text part, where one is of a model of more than text: what is said of
// the whole counts where the part says nothing.
Json TextPart(const Json& given, const std::string& where) {
  const auto families = Families();
  const Json* type = given.find(kModelTypeKey);
  const auto family = std::ranges::find_if(families, [&](const Family& one) {
    const std::string_view whole = one.enclosing.model_type;
    return !whole.empty() && type != nullptr && *type == Json(whole);
  });
  if (family == families.end()) return given;
  RequireArchitecture(given, std::span(&family->enclosing.architecture, 1), where);
  const Json* part = given.find(kTextKey);
  const Json* part_type = part == nullptr ? nullptr : part->find(kModelTypeKey);
  if (part == nullptr || !part->is_object() ||
      (part_type != nullptr && *part_type != Json(family->model_type))) {
    throw InputError(
        fmt::format("{}: {} is not that of a text model", where, kTextKey),
        fmt::format("expected an object whose model_type is \"{}\"", family->model_type),
        "copy the model's own config.json");
  }
  Json text = Json::object();
  for (const auto& [key, value] : given.items()) {
    if (key != kTextKey && key != kArchitecturesKey) text[key] = value;
  }
  text.update(*part);
  text[kModelTypeKey] = family->model_type;
  return text;
}

// The family that a configuration says to be of; GPT-2 if it says nothing.
const Family& FamilyOf(const Json& json, const std::string& where) {
  const Json gpt2(Gpt2Family().model_type);
  const Json* type = json.find(kModelTypeKey);
  if (type == nullptr) type = &gpt2;
  const auto families = Families();
  const auto family = std::ranges::find_if(
      families, [&](const Family& one) { return *type == Json(one.model_type); });
  if (family == families.end()) {
    Refuse(where, fmt::format("model_type {}", type->dump()), "");
  }
  RequireArchitecture(json, family->architectures, where);
  return *family;
}

void RefuseOtherModels(const Json& json, const Family& family, const std::string& where) {
  for (const ConfigKey& repeated : family.repeated_keys) {
    std::vector<std::string_view> keys = KeysOf(family, repeated.field);
    keys.insert(keys.end(), repeated.keys.begin(), repeated.keys.end());
    FindField(json, keys, where);
  }
  for (const auto& [key, only, feature] : family.refused) {
    const Json* found = json.find(key);
    if (found == nullptr || found->is_null() || found->dump() == only) continue;
    // Of a quantised model, by which way it was quantised.
    const Json* method = found->is_object() ? found->find("quant_method") : nullptr;
    Refuse(where, feature,
           method != nullptr    ? fmt::format("{}'s quant_method is {}", key, method->dump())
           : found->is_object() ? fmt::format("it has {}", key)
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

// The token that ends (begins) a text: of several the first. None may be an empty list, or -1.
const Json& TokenId(const Json& value) {
  static const Json none;
  if (value.is_array() && value.empty()) return none;
  const Json& id = value.is_array() ? value[0] : value;
  return id == Json(-1) ? none : id;
}

// The others of several tokens that end a text: each once, and of this vocabulary.
void AddMoreEnds(const Json* value, GptConfig& config) {
  for (size_t i = 0; value != nullptr && value->is_array() && i < value->size(); ++i) {
    const Json& id = (*value)[i];
    if (!id.is_number_integer()) continue;
    const auto end = id.get<int64_t>();
    if (end < 0 || end >= config.vocab_size || end == config.eos_token_id ||
        std::ranges::count(config.more_eos_token_ids, end) > 0) {
      continue;
    }
    if (config.eos_token_id) {
      config.more_eos_token_ids.push_back(end);
    } else {
      config.eos_token_id = end;
    }
  }
}

// The object, and what the family's class takes for the keys that it lacks.
Json WithDefaults(const Family& family, const Json& given) {
  Json json = given;
  const Json defaults = ParseJson(family.absent, "a family");
  for (const auto& [key, value] : defaults.items()) {
    if (!given.contains(key)) json[key] = value;
  }
  return json;
}

// transformers writes its default where a configuration names no such token, in however small a
// vocabulary.
bool IsForeignToken(const Json& value, const Json& defaults, std::string_view key, int64_t V) {
  const Json* absent = defaults.find(key);
  return absent != nullptr && value == *absent && value.is_number_integer() &&
         value.get<int64_t>() >= V;
}

// Runs f, whose mistakes are here those of a file.
template <class F>
void AsOfFile(const F& f) {
  try {
    f();
  } catch (const Error& error) {
    throw InputError(error.what(), error.cause(), error.help());
  }
}

bool IsOptional(const Field& field) {
  return std::holds_alternative<std::optional<int64_t>*>(field.value) ||
         std::holds_alternative<std::optional<bool>*>(field.value);
}

// Returns whether files of the family have the field, whatever it is.
bool AlwaysWritten(const Family& family, std::string_view field) {
  return std::ranges::count(family.own, field) > 0 ||
         std::ranges::count(family.keys, field, &ConfigKey::field) > 0;
}

// The value as config.json has it.
Json ValueOf(const Field& field) {
  const std::string text = FieldText(field);
  if (TakesTruth(field) && (text == "true" || text == "false")) return text == "true";
  return std::visit([](const auto* value) { return Json(*value); }, field.value);
}

bool IsTokenId(const Field& field) {
  return field.key == "bos_token_id" || field.key == "eos_token_id";
}

}  // namespace

GptConfig ConfigOfJson(const Family& family, const Json& given, const std::string& where) {
  const Json json = WithDefaults(family, given), defaults = ParseJson(family.absent, "a family");
  Json said = Json::object();
  for (const DerivedKey& derived : family.derived) {
    const Json* value = derived.read == nullptr ? nullptr : json.find(derived.key);
    if (value != nullptr) derived.read(*value, json, said, where);
  }
  GptConfig config;
  SetFields(family.fixed, config, where);
  for (const Field& field : config.Fields()) {
    if (field.key == kModelTypeKey) continue;
    const bool fixed = std::ranges::count(family.fixed, field.key, &FieldValue::field) > 0;
    if (fixed && SaysAllSizes(family)) continue;  // others may have folio's own keys
    const Json* found = said.find(field.key);
    if (found == nullptr) found = FindField(json, KeysOf(family, field.key), where);
    // Where GPT-2's files have a number, others have null for none.
    if (found == nullptr || (found->is_null() && SaysAllSizes(family) && !IsOptional(field)))
      continue;
    const Json& one = IsTokenId(field) ? TokenId(*found) : *found;
    if (IsTokenId(field) && IsForeignToken(one, defaults, field.key, config.vocab_size)) continue;
    std::string value = FieldTextOf(one, field, where);
    if (field.key == "activation_function") value = OurActivation(std::move(value));
    AsOfFile([&] { SetField(field, value, where); });
  }
  AddMoreEnds(json.find("eos_token_id"), config);
  return SaysAllSizes(family) ? WithoutRedundantSizes(config) : config;
}

GptConfig GptConfigFromJson(std::string_view text, const std::string& where) {
  const Json whole = ParseJson(text, where);
  if (!whole.is_object()) throw InputError(where + ": not a JSON object");
  const Json given = TextPart(whole, where);
  const Family& family = FamilyOf(given, where);
  RefuseOtherModels(given, family, where);
  GptConfig config = ConfigOfJson(family, given, where);
  AsOfFile([&] { config.Validate(where); });
  SetFamily(family, config);
  return config;
}

// A token that the family's class takes for a missing one counts less than what is named here.
void AddGenerationConfig(std::string_view text, const std::string& where, GptConfig& config) {
  const Json json = ParseJson(text, where);
  const Json defaults = ParseJson(FamilyFor(config, FileFormat::kHuggingFace).absent, "a family");
  for (const Field& field : config.Fields()) {
    const Json* found = IsTokenId(field) ? json.find(field.key) : nullptr;
    if (found == nullptr || found->is_null()) continue;
    auto* const id = std::get<std::optional<int64_t>*>(field.value);
    const std::optional<int64_t> before = *id;
    const Json* absent = defaults.find(field.key);
    if (before && (absent == nullptr || Json(*before) != *absent)) continue;
    AsOfFile([&] { SetField(field, FieldTextOf(TokenId(*found), field, where), where); });
    // Some programs leave another model's tokens there; nothing is lost without them.
    if (*id && **id >= config.vocab_size) *id = before;
  }
  const Json* ends = json.find("eos_token_id");
  const Json several = ends == nullptr || ends->is_array() ? Json() : Json::array({*ends});
  AddMoreEnds(several.is_null() ? ends : &several, config);
}

namespace {

// The token that ends a text, or all of them.
Json EndsOf(const GptConfig& config) {
  if (config.more_eos_token_ids.empty()) return config.eos_token_id;
  Json ends = Json::array({*config.eos_token_id});
  for (const int64_t end : config.more_eos_token_ids) ends.push_back(end);
  return ends;
}

}  // namespace

Json ConfigJsonOf(const Family& family, const GptConfig& config) {
  Json json;
  json[kModelTypeKey] = family.model_type;
  json[kArchitecturesKey] = Json::array({family.architectures.front()});
  GptConfig copy = SaysAllSizes(family) ? WithAllSizes(config) : config, plain;
  // Biases that a family has keys for: its programs do not take null for an answer.
  if (SaysAllSizes(family)) {
    if (AlwaysWritten(family, "attention_bias")) copy.attention_bias = config.has_attention_bias();
    if (AlwaysWritten(family, "mlp_bias")) copy.mlp_bias = config.has_mlp_bias();
  }
  SetFields(family.fixed, plain, "a family");
  // Of several names the one that files of the family have: some programs take no other.
  const Json defaults_of_class = ParseJson(family.absent, "a family");
  const Json* usual = defaults_of_class.find(KeysOf(family, "activation_function").front());
  if (usual != nullptr && OurActivation(usual->get<std::string>()) == copy.activation_function) {
    copy.activation_function = usual->get<std::string>();
  }
  copy.activation_function.insert(0, family.activation_prefix);
  const std::vector<Field> fields = copy.Fields(), defaults = plain.Fields();
  for (const Field& field : fields) {
    if (field.key == kModelTypeKey) continue;
    // Of these every family but GPT-2 has an object.
    const bool said = std::ranges::count(family.derived, field.key, &DerivedKey::field) > 0 ||
                      (SaysAllSizes(family) && field.key.starts_with("rope_"));
    const bool plain_value = FieldText(field) == FieldText(FieldOf(defaults, field.key));
    if (!AlwaysWritten(family, field.key) && (plain_value || said)) continue;
    const auto row = std::ranges::find(family.keys, field.key, &ConfigKey::field);
    const bool none = row != family.keys.end() && row->null_for_zero && FieldText(field) == "0";
    json[KeysOf(family, field.key).front()] = none ? Json() : ValueOf(field);
  }
  json["eos_token_id"] = EndsOf(config);
  // The class would take one of its own for a missing one, in however small a vocabulary.
  json["pad_token_id"] = nullptr;
  for (const auto& [field, keys, null_for_zero] : family.repeated_keys) {
    json[keys.front()] = ValueOf(FieldOf(fields, field));
  }
  for (const DerivedKey& derived : family.derived) {
    if (derived.write == nullptr) continue;
    if (std::optional<Json> value = derived.write(copy)) json[derived.key] = std::move(*value);
  }
  return json;
}

std::string GptConfigToJson(const GptConfig& config, Dtype dtype, bool checksums) {
  Json json = ConfigJsonOf(FamilyFor(config, FileFormat::kHuggingFace), config);
  json["torch_dtype"] = DtypeInTorch(dtype);
  if (checksums) json[kChecksumsKey] = kChecksumsFile;
  return json.dump(2) + "\n";
}

std::string GenerationConfigToJson(const GptConfig& config) {
  const Json json = {{"_from_model_config", true},
                     {"bos_token_id", config.bos_token_id},
                     {"eos_token_id", EndsOf(config)}};
  return json.dump(2) + "\n";
}

}  // namespace folio
