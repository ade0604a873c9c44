// config.json of every family, against what transformers makes of it and reads again.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "folio/base/error.h"
#include "folio/io/file.h"
#include "folio/io/json.h"
#include "folio/model/config.h"
#include "folio/model_files/config_json.h"
#include "folio/model_files/families.h"
#include "tests/kit/expect.h"
#include "tests/kit/paths.h"
#include "tests/kit/warnings.h"

namespace folio {
namespace {

using Object = nlohmann::json;

GptConfig Read(const Object& json) {
  return GptConfigFromJson(json.dump(), "config.json");
}

// A fixture's configuration with other keys.
GptConfig ReadChanged(const char* model, const Object& changes) {
  Object json =
      Object::parse(ReadFile(Fixture("families") / model / "config.json", size_t{1} << 16));
  json.update(changes);
  return Read(json);
}

std::string RefusalOf(const char* model, const Object& changes) {
  return ErrorAndHelp([&] { ReadChanged(model, changes); });
}

Object Goldens(const char* file) {
  return Object::parse(ReadFile(Fixture("families") / file, size_t{1} << 22));
}

// The model that the class of a configuration makes of it, which is written and read as the same;
// none where folio refuses it.
std::optional<GptConfig> AsItsClassHasIt(const Object& json) {
  const auto families = Families();
  const auto family =
      std::ranges::find(families, json["model_type"].get<std::string>(), &Family::model_type);
  try {
    const GptConfig config = ConfigOfJson(*family, ParseJson(json.dump(), "config.json"), "");
    if (config.n_embd % config.n_head == 0) {  // or else it is refused later
      EXPECT_EQ(ConfigOfJson(*family, ConfigJsonOf(*family, config), ""), config) << json.dump();
    }
    return config;
  } catch (const Error&) {
    return std::nullopt;
  }
}

Object Without(Object json, const Object& path) {
  Object* within = &json;
  for (size_t i = 0; i + 1 < path.size(); ++i) within = &(*within)[path[i]];
  within->erase(path.back().get<std::string>());
  return json;
}

// tests/fixtures/families/absent.py has what the classes take for each key that is left out.
TEST(FamilyConfigs, AMissingKeyHasTheDefaultOfTheClass) {
  int64_t read = 0, refused = 0;
  const Object goldens = Goldens("absent.json");
  for (const auto& [name, golden] : goldens.items()) {
    EXPECT_EQ(Read(golden["config"]), Read(golden["full"])) << name;
    for (const Object& one : golden["cases"]) {
      Object expected = golden["full"];
      expected.update(one["means"]);
      const auto found = AsItsClassHasIt(Without(golden["config"], one["without"]));
      EXPECT_EQ(found, AsItsClassHasIt(expected)) << name << " without " << one["without"];
      ++(found ? read : refused);
    }
  }
  EXPECT_GT(read, 600);
  EXPECT_EQ(refused, 2);  // divisors of longrope, without the type of the scaling
}

// scripts/written_models.py has loaded each of these into transformers, and got folio's logits.
TEST(FamilyConfigs, AreWrittenAsTransformersLoadsThem) {
  const Warnings warnings;
  std::map<std::string, int64_t> families;
  const Object goldens = Goldens("written.json");
  for (const auto& [name, golden] : goldens.items()) {
    // The first case of a family is whole, the others are patches of that.
    const Object& plain = goldens[name.substr(0, name.find('.')) + ".plain"];
    const auto whole = [&one = golden, &plain](const char* key) {
      return one[key].is_array() ? plain[key].patch(one[key]) : one[key];
    };
    const Object written = whole("written");
    GptConfig config = Read(whole("said"));
    const std::string text = GptConfigToJson(config);
    EXPECT_EQ(Object::parse(text), written) << name;
    EXPECT_EQ(GptConfigFromJson(text, name), config) << name;
    // Names of adapters are taken from a block alone.
    config.n_layer = 1;
    EXPECT_EQ(FamilyFor(config, FileFormat::kHuggingFace).model_type, written["model_type"])
        << name;
    ++families[written["model_type"]];
  }
  EXPECT_EQ(families.size(), Families().size() - 1);  // without folio's own
  for (const auto& [family, count] : families) EXPECT_GE(count, 9) << family;
  EXPECT_EQ(warnings.text(), "");  // of a key that folio writes
}

// A model that folio began has every switch off.
TEST(FamilyConfigs, SwitchesThatAreOffAreWrittenAsTransformersHasThem) {
  const auto written = [](const char* model, void (*change)(GptConfig&)) {
    GptConfig config = ReadChanged(model, Object::object());
    change(config);
    const Object json = Object::parse(GptConfigToJson(config));
    EXPECT_EQ(json["model_type"], FamilyFor(config, FileFormat::kHuggingFace).model_type);
    EXPECT_NE(json["model_type"], "folio");
    EXPECT_EQ(Read(json), WithoutRedundantSizes(config));
    return json;
  };
  const auto uncapped = [](GptConfig& c) { c.attention_cap = c.logit_cap = 0; };
  EXPECT_TRUE(written("gemma2", uncapped)["attn_logit_softcapping"].is_null());
  EXPECT_TRUE(written("gemma2", uncapped)["final_logit_softcapping"].is_null());
  EXPECT_TRUE(written("gemma3", uncapped)["final_logit_softcapping"].is_null());
  EXPECT_TRUE(written("nanochat", uncapped)["final_logit_softcapping"].is_null());
  const auto unscaled = [](GptConfig& c) { c.attention_scale = 0; };
  EXPECT_EQ(written("granite", unscaled)["attention_multiplier"], 1 / std::sqrt(8.0));
  EXPECT_EQ(written("gemma2", unscaled)["query_pre_attn_scalar"], 8);
  const auto no_windows = [](GptConfig& c) {
    c.layer_kinds = LayerKindsOf("f");
    c.sliding_window.reset();
    c.rope_window_theta = 0;
  };
  EXPECT_EQ(written("gemma3", no_windows)["sliding_window"], 64);
  EXPECT_EQ(written("gemma3", no_windows)["rope_local_base_freq"], 20000);
  const auto llama3 = [](GptConfig& c) {
    c.rope_scaling = RopeScaling::kLlama3;
    c.rope_factor = 8;
  };
  EXPECT_EQ(written("llama", llama3)["rope_scaling"],
            Object::parse(R"({"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0,
                             "high_freq_factor": 4.0, "original_max_position_embeddings": 64})"));
  EXPECT_TRUE(written("smollm3", [](GptConfig&) {}).contains("pad_token_id"));
  EXPECT_EQ(written("gemma3", [](GptConfig&) {})["hidden_activation"], "gelu_pytorch_tanh");
  // Patterns that are longer than the model.
  EXPECT_EQ(written("gemma3",
                    [](GptConfig& c) { c.layer_kinds = LayerKindsOf("wwwwwwwwf"); })["layer_types"],
            Object(std::vector<std::string>(7, "sliding_attention")));
  EXPECT_EQ(written("smollm3",
                    [](GptConfig& c) {
                      c.model_type = "smollm3";
                      c.no_rope_every = 9;
                    })["no_rope_layers"],
            Object(std::vector<int>(4, 1)));
}

// A scale that config.json of the family cannot say makes it a model of folio's own.
TEST(FamilyConfigs, WhatTheFamilyCannotSayIsFoliosOwn) {
  GptConfig config = ReadChanged("gemma2", Object::object());
  EXPECT_EQ(WhyNot(FamilyFor(config, FileFormat::kHuggingFace), FileFormat::kHuggingFace, config),
            "");
  for (const double scale : {0.3, 1e-12, 1e6}) {  // whose inverse squares are no sizes
    config.attention_scale = scale;
    EXPECT_EQ(FamilyFor(config, FileFormat::kHuggingFace).model_type, "folio");
    EXPECT_EQ(Read(Object::parse(GptConfigToJson(config))).attention_scale, scale);
  }
}

TEST(FamilyConfigs, ThePartThatIsTurnedComesBack) {
  GptConfig config = ReadChanged("phi", Object::object());
  const Family& family = FamilyFor(config, FileFormat::kHuggingFace);
  for (int64_t D = 6; D <= 130; D += 4) {
    config.n_embd = config.n_head * D;
    for (int64_t r = 2; r <= D; r += 2) {
      config.rotary_dim = r;
      EXPECT_EQ(ConfigOfJson(family, ConfigJsonOf(family, config), "").rotary_width(), r) << D;
    }
  }
}

TEST(FamilyConfigs, ScalingsOfPositionsSayWhatTheyMust) {
  const auto scaled = [](const Object& rope) { return Object{{"rope_parameters", rope}}; };
  const char* kTypes[] = {"linear", "llama3", "yarn"};
  for (const char* type : kTypes) {
    EXPECT_TRUE(
        Contains(RefusalOf("llama", scaled({{"rope_type", type}})), "type", type, "need factor"));
  }
  EXPECT_TRUE(Contains(
      RefusalOf("llama", scaled({{"rope_type", "llama3"}, {"factor", 8}, {"high_freq_factor", 4}})),
      "need low_freq_factor"));
  EXPECT_TRUE(Contains(RefusalOf("llama", scaled({{"rope_type", "dynamic"}, {"factor", 2}})),
                       "dynamic", "not supported", "yarn"));
  EXPECT_TRUE(Contains(RefusalOf("llama", scaled({{"full_attention", {{"rope_theta", 7}}}})),
                       "full_attention"));
  // Keys that transformers passes over.
  const GptConfig plain = ReadChanged("llama", Object::object());
  EXPECT_EQ(ReadChanged("llama", {{"rope_scaling", {{"factor", 8}}}, {"rope_theta", 5000}}), plain);
  EXPECT_EQ(ReadChanged("llama", {{"rope_scaling", Object::object()}}), plain);
  // The older key counts more, and "rope_type" more than "type".
  const GptConfig linear = ReadChanged(
      "llama", {{"rope_scaling", {{"rope_type", "linear"}, {"type", "yarn"}, {"factor", 3}}},
                {"rope_theta", 70}});
  EXPECT_EQ(linear.rope_scaling, RopeScaling::kLinear);
  EXPECT_EQ(linear.rope_theta, 70);
}

TEST(FamilyConfigs, LayersWithAWindowHaveTheirOwnPositionsInGemma3) {
  const auto both = [](const Object& full, const Object& window) {
    return Object{{"rope_parameters", {{"full_attention", full}, {"sliding_attention", window}}}};
  };
  const Object linear = {{"rope_type", "linear"}, {"factor", 8}, {"rope_theta", 70}};
  const Object other = {{"rope_type", "linear"}, {"factor", 4}, {"rope_theta", 70}};
  const Object plain = {{"rope_type", "default"}, {"rope_theta", 50}};
  EXPECT_EQ(ReadChanged("gemma3", both(linear, plain)).rope_window_theta, 50);
  EXPECT_EQ(ReadChanged("gemma3", both(linear, linear)).rope_window_theta, 0);
  EXPECT_EQ(ReadChanged("gemma3", both(plain, plain)).rope_window_theta, 0);
  for (const Object& full : {plain, other}) {
    EXPECT_TRUE(Contains(RefusalOf("gemma3", both(full, linear)), "sliding_attention",
                         "not supported", "\"factor\":8"));
  }
  // transformers has the key of Gemma 2's cap of scores, and does without the cap.
  EXPECT_EQ(ReadChanged("gemma3", {{"attn_logit_softcapping", 2}}).attention_cap, 0);
}

// Configurations with keys that folio does not know, and the warnings about them.
class UnknownKeys : public testing::Test {
 protected:
  std::string Told(const char* model, const Object& changes) {
    warnings_.Take();
    EXPECT_EQ(ReadChanged(model, changes), ReadChanged(model, Object::object()));
    return warnings_.Take();
  }
  Warnings warnings_;
};

// tests/fixtures/families/keys.py has every key of the classes in transformers.
TEST_F(UnknownKeys, AreNoneOfTheClasses) {
  const Object goldens = Goldens("keys.json");
  int64_t keys = 0;
  for (const auto& [name, config] : goldens["configs"].items()) {
    EXPECT_NO_THROW(Read(config)) << name;
    // In each of the families, and in the part that is text.
    for (const char* part : {"", "text_config"}) {
      if (*part != 0 && !config.contains(part)) continue;
      Object with = config;
      for (const auto& [key, value] : goldens["before"].items()) {
        (*part == 0 ? with : with[part]).emplace(key, value);
        ++keys;
      }
      EXPECT_EQ(Read(with), Read(config)) << name;
    }
  }
  EXPECT_EQ(warnings_.text(), "");
  EXPECT_GT(keys, 600);
}

// Keys of published files that their families' classes pass over.
TEST_F(UnknownKeys, AreNoneOfPublishedFiles) {
  const std::pair<const char*, Object> published[] = {
      {"llama", {{"rope_interleaved", false}, {"is_llama_config", true}, {"unsloth_fixed", true}}},
      {"llama",
       {{"pretraining_tp", 2}, {"max_sequence_length", 2048}, {"sliding_window", nullptr}}},
      {"llama", {{"transformers.js_config", {{"dtype", "q4"}}}, {"auto_map", {{"a", "b.C"}}}}},
      {"smollm3", {{"max_window_layers", 28}, {"use_sliding_window", false}}},
      {"gemma2", {{"hidden_act", "gelu"}, {"sliding_window_size", 4096}}},
      {"gemma2", {{"cache_implementation", "hybrid"}}},
      {"starcoder2", {{"activation_function", "gelu"}, {"layer_norm_epsilon", 1e-5}}},
      {"starcoder2", {{"mlp_type", "default"}, {"norm_type", "layer_norm"}}},
      {"starcoder2", {{"attention_softmax_in_fp32", true}, {"scale_attn_weights", true}}},
      {"phi3", {{"attention_bias", false}, {"full_attn_mod", 1}, {"interpolate_factor", 1}}},
      {"phi3", {{"lm_head_bias", false}, {"mlp_bias", false}, {"resid_pdrop", 0.0}}},
      {"qwen2", {{"use_mrope", false}, {"rope_scaling", nullptr}}},
      {"gpt_neox", {{"rope_theta", 5000}, {"partial_rotary_factor", 0.5}}},
      {"gpt_neox", {{"classifier_dropout", 0.1}, {"hidden_dropout_prob", 0}}}};
  for (const auto& [model, keys] : published) EXPECT_EQ(Told(model, keys), "") << model << keys;
}

TEST_F(UnknownKeys, AreToldOnceWithTheNearest) {
  EXPECT_EQ(
      Told("llama", {{"rope_paramters", {{"rope_theta", 7}}}, {"wings", 2}}),
      "config.json: unknown keys ignored: \"rope_paramters\" (did you mean rope_parameters?), "
      "\"wings\"\n");
  EXPECT_EQ(Told("llama", {{"rope_paramters", {{"rope_theta", 7}}}, {"wings", 2}}), "");
  EXPECT_EQ(Told("gemma2", {{"wings", nullptr}}), "");
  Object many;
  for (int i = 0; i < 500; ++i) many[std::string(99, 'k') + std::to_string(i)] = i;
  const std::string told = Told("qwen3", many);
  EXPECT_TRUE(Contains(told, "492 more"));
  EXPECT_LT(told.size(), 1000u);
  for (int i = 0; i < 600; ++i) many[std::to_string(i)] = i;
  EXPECT_TRUE(Contains(RefusalOf("qwen3", many), "too many keys", "1000"));
}

// In a file of each family a key of each other one that asks for something which the family's class
// would pass over.
TEST_F(UnknownKeys, OfOtherFamiliesAreRefused) {
  const Object theirs = {{"attention_multiplier", 0.3},
                         {"embedding_multiplier", 3.0},
                         {"residual_multiplier", 0.7},
                         {"logits_scaling", 4.0},
                         {"query_pre_attn_scalar", 24},
                         {"final_logit_softcapping", 7.0},
                         {"sliding_window", 4},
                         {"partial_rotary_factor", 0.5},
                         {"rotary_pct", 0.5},
                         {"no_rope_layer_interval", 2},
                         {"use_bias", true},
                         {"rope_local_base_freq", 55.0},
                         {"scale_attn_weights", false},
                         {"rotary_emb_base", 777},
                         {"activation_function", "relu2"}};
  // These keys have the values that the models have anyway.
  const std::set<std::string> same = {"nanochat activation_function", "llama3 use_bias",
                                      "gpt_neox partial_rotary_factor", "phi rotary_pct"};
  const auto families = Families();
  int64_t refused = 0;
  for (const auto& entry : std::filesystem::directory_iterator(Fixture("families"))) {
    if (!entry.is_directory()) continue;
    const std::string model = entry.path().filename().string();
    const GptConfig plain = ReadChanged(model.c_str(), Object::object());
    const Object json = Object::parse(ReadFile(entry.path() / "config.json", size_t{1} << 16));
    const auto family =
        std::ranges::find(families, json["model_type"].get<std::string>(), &Family::model_type);
    for (const auto& [key, value] : theirs.items()) {
      try {
        const GptConfig changed = ReadChanged(model.c_str(), {{key, value}});
        const bool known = json.contains(key) || changed != plain ||
                           std::ranges::count(family->passed_over, key) > 0;
        // Its own keys may be there without effect: in the object of today's files they are inside.
        const bool own = std::ranges::count(family->derived, key, &DerivedKey::key) > 0 ||
                         std::ranges::count(family->own, key) > 0 ||
                         family->absent.find(key) != std::string_view::npos ||
                         std::ranges::any_of(family->keys, [&name = key](const ConfigKey& row) {
                           return std::ranges::count(row.keys, name) > 0;
                         });
        EXPECT_TRUE(known || own || same.contains(model + " " + key)) << model << " " << key;
      } catch (const Error& error) {
        if (std::string(error.what()).find("have no " + key) != std::string::npos) ++refused;
      }
    }
  }
  EXPECT_GT(refused, 150);
  EXPECT_EQ(warnings_.text(), "");
  EXPECT_TRUE(Contains(RefusalOf("llama", {{"attention_multiplier", 0.3}}), "config.json",
                       "models of type llama have no attention_multiplier", "0.3", "granite"));
  // The keys have the values that the model has anyway.
  EXPECT_EQ(Told("llama", {{"logits_scaling", 1}, {"embedding_multiplier", 1.0}}), "");
  EXPECT_EQ(Told("llama", {{"partial_rotary_factor", 1.0}, {"use_bias", false}}), "");
  EXPECT_TRUE(Contains(
      RefusalOf("llama",
                {{"rope_parameters", {{"rope_theta", 5000}, {"partial_rotary_factor", 0.5}}}}),
      "partial_rotary_factor"));
  EXPECT_TRUE(Contains(RefusalOf("gemma3", {{"rope_parameters", {{"rope_theta", 70}}}}),
                       "rope_theta", "full_attention"));
}

// The token that the class takes for a missing one is that of no file.
TEST(FamilyConfigs, TokensThatGenerationNamesCountMoreThanTheClasss) {
  Object json = Object::parse(ReadFile(Fixture("families/llama/config.json"), size_t{1} << 16));
  const auto ends = [&](const char* generation) {
    GptConfig config = Read(json);
    AddGenerationConfig(generation, "generation_config.json", config);
    std::vector<int64_t> ids = config.more_eos_token_ids;
    if (config.eos_token_id) ids.insert(ids.begin(), *config.eos_token_id);
    return ids;
  };
  using Ids = std::vector<int64_t>;
  json["eos_token_id"] = 5;
  EXPECT_EQ(ends(R"({"eos_token_id": [7, 8]})"), Ids({5, 7, 8}));
  json.erase("eos_token_id");
  EXPECT_EQ(ends("{}"), Ids({2}));
  EXPECT_EQ(ends(R"({"eos_token_id": [7, 8]})"), Ids({7, 8}));
  EXPECT_EQ(ends(R"({"eos_token_id": 99999})"), Ids({2}));
  json["eos_token_id"] = nullptr;
  EXPECT_EQ(ends("{}"), Ids());
  EXPECT_EQ(ends(R"({"eos_token_id": 7})"), Ids({7}));
}

}  // namespace
}  // namespace folio
