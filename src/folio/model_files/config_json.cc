#include "folio/model_files/config_json.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <variant>
#include <vector>

#include "folio/base/error.h"
#include "folio/base/strings.h"
#include "folio/io/checksums.h"
#include "folio/io/json.h"
#include "folio/model_files/families.h"
#include "folio/model_files/unknown_keys.h"

namespace folio {
namespace {

constexpr std::string_view kModelTypeKey = "model_type", kTextKey = "text_config",
                           kArchitecturesKey = "architectures",
                           kActivationField = "activation_function";

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
  throw InputError(
      fmt::format("{}: {} is not supported", where, feature), std::move(cause),
      "folio supports models that generate text, of these types: " + TypesOfFamilies());
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

// Keys of every family that change no number: of transformers' base class, of its generation, and
// of programs that save files.
constexpr auto kPassedOver = std::to_array<std::string_view>({
    kModelTypeKey,
    kArchitecturesKey,
    kChecksumsKey,
    "_attn_implementation",
    "_attn_implementation_autoset",
    "_attn_implementation_internal",
    "_commit_hash",
    "_flash_attn_2_enabled",
    "_name_or_path",
    "_num_labels",
    "attention_softmax_in_fp32",
    "attn_implementation",
    "auto_map",
    "bad_words_ids",
    "begin_suppress_tokens",
    "cache_implementation",
    "chunk_size_feed_forward",
    "classifier_dropout",
    "cross_attention_hidden_size",
    "custom_pipelines",
    "decoder_start_token_id",
    "diversity_penalty",
    "do_sample",
    "dtype",
    "early_stopping",
    "encoder_no_repeat_ngram_size",
    "exponential_decay_length_penalty",
    "finetuning_task",
    "forced_bos_token_id",
    "forced_eos_token_id",
    "gradient_checkpointing",
    "id2label",
    "is_decoder",
    "is_llama_config",
    "label2id",
    "length_penalty",
    "max_length",
    "max_new_tokens",
    "max_sequence_length",
    "min_length",
    "model_max_length",
    "no_repeat_ngram_size",
    "num_beam_groups",
    "num_beams",
    "num_labels",
    "num_return_sequences",
    "output_attentions",
    "output_hidden_states",
    "output_past",
    "output_scores",
    "pad_token_id",
    "prefix",
    "pretraining_tp",
    "problem_type",
    "remove_invalid_values",
    "repetition_penalty",
    "return_dict",
    "return_dict_in_generate",
    "scale_attention_softmax_in_fp32",
    "sep_token_id",
    "suppress_tokens",
    "task_specific_params",
    "temperature",
    "tf_legacy_loss",
    "tie_encoder_decoder",
    "tokenizer_class",
    "top_k",
    "top_p",
    "torch_dtype",
    "torchscript",
    "transformers.js_config",
    "transformers_version",
    "typical_p",
    "unsloth_fixed",
    "unsloth_version",
    "use_bfloat16",
    "use_cache",
    "use_flash_attn",
    "xla_device",
});

// A search for a key reads all of them, so their number is limited.
void RequireFewKeys(const Json& json, const std::string& where) {
  constexpr size_t kMost = 1000;
  if (json.size() <= kMost) return;
  throw InputError(fmt::format("{}: too many keys", where),
                   fmt::format("it has {}, at most {} are allowed", json.size(), kMost),
                   "copy the model's own config.json");
}

// Returns the configuration of the text part of a model of more than text, whose keys take
// precedence over those of the whole; of other models the given one.
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
        fmt::format("{}: {} does not describe a text model", where, kTextKey),
        fmt::format("expected an object whose model_type is \"{}\"", family->model_type),
        "copy the model's own config.json");
  }
  RequireFewKeys(*part, where);
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
    // The error names the method of a quantised model.
    const Json* method = found->is_object() ? found->find("quant_method") : nullptr;
    Refuse(where, feature,
           method != nullptr    ? fmt::format("{}'s quant_method is {}", key, method->dump())
           : found->is_object() ? fmt::format("it has {}", key)
                                : fmt::format("{} is {}", key, found->dump()));
  }
}

// The value as SetField reads it; throws where JSON's type cannot be meant.
std::string FieldTextOf(const Json& value, const Field& field, const std::string& where) {
  const bool text_field = IsText(field);
  if (value.is_string() && text_field) {
    std::string text = value.get<std::string>();
    return field.key == kActivationField ? OurActivation(std::move(text)) : text;
  }
  const bool number_or_bool = value.is_boolean() || value.is_number() || value.is_null();
  const bool truth = value.is_boolean() && TakesTruth(field);
  if ((text_field && !truth) || !number_or_bool) {
    throw InputError(fmt::format("{}: {} has the wrong type", where, field.key),
                     fmt::format("expected {}, found {}", FieldType(field), value.dump()));
  }
  return value.dump();
}

// Returns the token that ends (begins) a text, the first of several. An empty list or -1 means
// none.
const Json& TokenId(const Json& value) {
  static const Json none;
  if (value.is_array() && value.empty()) return none;
  const Json& id = value.is_array() ? value[0] : value;
  return id == Json(-1) ? none : id;
}

// Adds the tokens that end a text, one or several: each once, and of this vocabulary.
void AddEnds(const Json* value, GptConfig& config) {
  if (value == nullptr) return;
  const Json ids = value->is_array() ? *value : Json::array({*value});
  for (const Json& id : ids) {
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

// Returns what the class of a family takes for keys that are left out.
const Json& AbsentKeys(const Family& family) {
  static const auto of_types = [] {
    std::map<std::string_view, Json> keys;
    for (const Family& one : Families()) keys[one.model_type] = ParseJson(one.absent, "a family");
    return keys;
  }();
  return of_types.at(family.model_type);
}

// The object, and what the family's class takes for the keys that it lacks.
Json WithDefaults(const Family& family, const Json& given) {
  Json json = given;
  for (const auto& [key, value] : AbsentKeys(family).items()) {
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

// Runs f and reports its errors as errors in the file `where`.
template <class F>
auto AsOfFile(const std::string& where, const F& f) {
  try {
    return f();
  } catch (const JsonError& error) {  // of a number beyond 64 bits
    throw InputError(fmt::format("{}: a value of the wrong type", where), error.what());
  } catch (const Error& error) {
    throw InputError(error.what(), error.cause(), error.help());
  }
}

bool IsOptional(const Field& field) {
  return std::holds_alternative<std::optional<int64_t>*>(field.value) ||
         std::holds_alternative<std::optional<bool>*>(field.value);
}

// Returns true if files of the family have the field, whatever its value.
bool AlwaysWritten(const Family& family, std::string_view field) {
  return std::ranges::count(family.own, field) > 0 ||
         std::ranges::count(family.keys, field, &ConfigKey::field) > 0;
}

// The value as config.json has it.
Json ValueOf(const Field& field) {
  const std::string text = FieldText(field);
  if (TakesTruth(field) && (text == "true" || text == "false")) return text == "true";
  return FieldJson(field);
}

bool IsTokenId(const Field& field) {
  return field.key == "bos_token_id" || field.key == "eos_token_id";
}

}  // namespace

GptConfig ConfigOfJson(const Family& family, const Json& given, const std::string& where) {
  const Json json = WithDefaults(family, given);
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
    if (IsTokenId(field) && IsForeignToken(one, AbsentKeys(family), field.key, config.vocab_size))
      continue;
    const std::string value = FieldTextOf(one, field, where);
    AsOfFile(where, [&] { SetField(field, value, where); });
  }
  AddEnds(json.find("eos_token_id"), config);
  return SaysAllSizes(family) ? WithoutRedundantSizes(config) : config;
}

namespace {

// A key that means fields in files of a family.
struct KnownKey {
  const Family* family;
  std::string_view field = {};          // that it is, or none
  const DerivedKey* derived = nullptr;  // that says fields in another way
};
using KnownKeys = std::multimap<std::string_view, KnownKey>;

// Adds the meaning of every key in files of the family, but those that are passed over.
void AddKeys(const Family& family, KnownKeys& keys) {
  for (const auto* rows : {&family.keys, &family.repeated_keys}) {
    for (const ConfigKey& row : *rows) {
      for (const std::string_view key : row.keys) {
        if (!key.empty()) keys.insert({key, {&family, row.field}});
      }
    }
  }
  for (const DerivedKey& row : family.derived) {
    keys.insert({row.key, {&family, {}, row.read == nullptr ? nullptr : &row}});
  }
  for (const RefusedKey& row : family.refused) keys.insert({row.key, {&family}});
  for (const std::string_view field : family.own) {
    if (std::ranges::count(family.keys, field, &ConfigKey::field) > 0) continue;  // another key
    keys.insert({field, {&family, field}});
  }
  for (const auto& [key, value] : AbsentKeys(family).items()) {
    if (!keys.contains(key)) keys.insert({key, {&family}});
  }
}

// Returns the keys of all families.
const KnownKeys& AllKeys() {
  static const KnownKeys all = [] {
    KnownKeys keys;
    for (const Family& family : Families()) AddKeys(family, keys);
    return keys;
  }();
  return all;
}

// Returns true if the key, as a family reads it, does not change the model.
bool SaysTheSame(const KnownKey& known, const Json& value, const Json& json,
                 const GptConfig& config) {
  Json said = Json::object();
  GptConfig model = WithAllSizes(config);
  try {
    if (known.derived != nullptr) known.derived->read(value, json, said, "");
    if (!known.field.empty()) said[known.field] = value;
    for (const auto& [key, meant] : said.items()) {
      const std::vector<Field> fields = model.Fields();
      const Field& field = FieldOf(fields, key);
      SetField(field, FieldTextOf(meant, field, ""), "");
    }
  } catch (const Error&) {
    return false;
  }
  return !said.empty() && model == WithAllSizes(config);
}

// Returns whether the key is a field by its own name that folio reads in files of the family, and
// which such files may have: GPT-2's, which were folio's own before, have all; others those
// that say what the model is anyway, or change it to another of its kind.
bool ReadsByName(std::string_view key, const Json& value, const Json& json, const Family& family,
                 const GptConfig& config) {
  GptConfig any;
  const bool is_field = std::ranges::count(any.Fields(), key, &Field::key) > 0;
  if (!is_field || !SaysAllSizes(family)) return is_field;
  if (SaysTheSame({&family, key}, value, json, config)) return true;
  Json less = Json::object();
  for (const auto& [name, other] : json.items()) {
    if (name != key) less.Add(name, other);
  }
  const GptConfig without = ConfigOfJson(family, less, "");
  return config != without && WhyNot(family, FileFormat::kHuggingFace, config) ==
                                  WhyNot(family, FileFormat::kHuggingFace, without);
}

// Refuses a part of the heads that positions turn, in a family whose models turn all of them.
void RefusePartOfHeads(const Json& json, const Family& family, const std::string& where) {
  constexpr std::string_view kPart = "partial_rotary_factor";
  if (std::ranges::count(family.derived, "rotary_dim", &DerivedKey::field) > 0) return;
  for (const std::string_view key : {"rope_scaling", "rope_parameters"}) {
    const Json* rope = json.find(key);
    const Json* part = rope == nullptr ? nullptr : rope->find(kPart);
    if (part == nullptr || part->is_null() || *part == Json(1)) continue;
    Refuse(where, fmt::format("{} in models of type {}", kPart, family.model_type),
           fmt::format("it is {} in {}", part->dump(), key));
  }
}

// Refuses keys that mean something in files of other families, and which the family's class passes
// over, unless they ask for nothing or for what the model is anyway; warns of those that nobody
// knows.
void CheckKeys(const Json& json, const Family& family, const GptConfig& config,
               const std::string& where) {
  RefusePartOfHeads(json, family, where);
  KnownKeys own;
  AddKeys(family, own);
  std::vector<std::string> unknown, known;
  for (const auto& [key, value] : json.items()) {
    if (AsksForNothing(value) && AllKeys().contains(key)) continue;
    if (value.is_null() || own.contains(key) || std::ranges::count(kPassedOver, key) > 0 ||
        std::ranges::count(family.passed_over, key) > 0 ||
        ReadsByName(key, value, json, family, config)) {
      continue;
    }
    const auto [first, last] = AllKeys().equal_range(key);
    if (first == last) {
      unknown.push_back(key);
      continue;
    }
    std::set<std::string_view> types;
    bool harmless = false;
    for (auto other = first; other != last; ++other) {
      types.insert(other->second.family->model_type);
      harmless = harmless || SaysTheSame(other->second, value, json, config);
    }
    if (harmless) continue;
    throw InputError(
        fmt::format("{}: models of type {} have no {}", where, family.model_type, key),
        fmt::format("it is {}, which belongs to {}", value.dump(), fmt::join(types, ", ")),
        "set model_type to the right type, or remove the key");
  }
  for (const auto& [key, meaning] : own) known.emplace_back(key);
  WarnOfUnknownKeys(where, unknown, known);
}

}  // namespace

GptConfig GptConfigFromJson(std::string_view text, const std::string& where) {
  const Json whole = ParseJson(text, where);
  if (!whole.is_object()) throw InputError(where + ": not a JSON object");
  RequireFewKeys(whole, where);
  return AsOfFile(where, [&] {
    const Json given = TextPart(whole, where);
    const Family& family = FamilyOf(given, where);
    RefuseOtherModels(given, family, where);
    GptConfig config = ConfigOfJson(family, given, where);
    config.Validate(where);
    CheckKeys(given, family, config, where);
    SetFamily(family, config);
    return config;
  });
}

namespace {

// Sets the tokens that config.json does not name. A token that is the default of the family's class
// counts as not named.
void AddTokens(const Json& json, const std::string& where, GptConfig& config) {
  const Json& defaults = AbsentKeys(FamilyFor(config, FileFormat::kHuggingFace));
  for (const Field& field : config.Fields()) {
    const Json* found = IsTokenId(field) ? json.find(field.key) : nullptr;
    if (found == nullptr || found->is_null()) continue;
    auto* const id = std::get<std::optional<int64_t>*>(field.value);
    const std::optional<int64_t> before = *id;
    const Json* absent = defaults.find(field.key);
    if (before && (absent == nullptr || Json(*before) != *absent)) continue;
    SetField(field, FieldTextOf(TokenId(*found), field, where), where);
    // Some programs leave another model's tokens there; nothing is lost without them.
    if (*id && **id >= config.vocab_size) *id = before;
  }
  AddEnds(json.find("eos_token_id"), config);
}

}  // namespace

void AddGenerationConfig(std::string_view text, const std::string& where, GptConfig& config) {
  const Json json = ParseJson(text, where);
  AsOfFile(where, [&] { AddTokens(json, where, config); });
}

namespace {

// Returns the token that ends a text, or the list of several.
Json EndsOf(const GptConfig& config) {
  if (config.more_eos_token_ids.empty()) return config.eos_token_id;
  Json ends = Json::array({*config.eos_token_id});
  for (const int64_t end : config.more_eos_token_ids) ends.push_back(end);
  return ends;
}

// Returns the name of the activation in files of a family. Of several names for the same function
// it is that of the family's own files, since some programs accept no other.
std::string ActivationIn(const Family& family, const GptConfig& config) {
  std::string name(NameOf(config.activation_function));
  const Json* usual = AbsentKeys(family).find(KeysOf(family, kActivationField).front());
  if (usual != nullptr && OurActivation(usual->get<std::string>()) == name) {
    name = usual->get<std::string>();
  }
  return std::string(family.activation_prefix) + name;
}

}  // namespace

Json ConfigJsonOf(const Family& family, const GptConfig& config) {
  Json json;
  json[kModelTypeKey] = family.model_type;
  json[kArchitecturesKey] = Json::array({family.architectures.front()});
  GptConfig copy = SaysAllSizes(family) ? WithAllSizes(config) : config, plain;
  // The family's programs do not accept null for a bias that it has a key for.
  if (SaysAllSizes(family)) {
    if (AlwaysWritten(family, "attention_bias")) copy.attention_bias = config.has_attention_bias();
    if (AlwaysWritten(family, "mlp_bias")) copy.mlp_bias = config.has_mlp_bias();
  }
  SetFields(family.fixed, plain, "a family");
  const std::vector<Field> fields = copy.Fields(), defaults = plain.Fields();
  for (const Field& field : fields) {
    if (field.key == kModelTypeKey) continue;
    // Every family but GPT-2 writes the rope_ fields as an object.
    const bool said = std::ranges::count(family.derived, field.key, &DerivedKey::field) > 0 ||
                      (SaysAllSizes(family) && field.key.starts_with("rope_"));
    const bool plain_value = FieldText(field) == FieldText(FieldOf(defaults, field.key));
    if (!AlwaysWritten(family, field.key) && (plain_value || said)) continue;
    const auto row = std::ranges::find(family.keys, field.key, &ConfigKey::field);
    const bool none = row != family.keys.end() && row->null_for_zero && FieldText(field) == "0";
    json[KeysOf(family, field.key).front()] = none ? Json()
                                              : field.key == kActivationField
                                                  ? Json(ActivationIn(family, config))
                                                  : ValueOf(field);
  }
  json["eos_token_id"] = EndsOf(config);
  // Without this key the class assumes a token of its own, which may lie outside a small
  // vocabulary.
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
