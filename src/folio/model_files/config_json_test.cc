#include "folio/model_files/config_json.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "folio/backend/ops.h"
#include "folio/base/error.h"
#include "folio/io/file.h"
#include "folio/io/json.h"
#include "folio/model/config.h"
#include "folio/model/layers/rotary.h"
#include "folio/model/test_models.h"
#include "folio/model_files/families.h"
#include "tests/kit/expect.h"
#include "tests/kit/paths.h"

namespace folio {

namespace {

GptConfig Parse(const std::string& text) {
  return GptConfigFromJson(text, "dir/config.json");
}

std::string Refusal(const std::string& text) {
  return ErrorOf([&] { Parse(text); }, ErrorKind::kInput);
}

// Returns whether f takes a file, or refuses it by its name.
bool AddsOrNames(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.kind() == ErrorKind::kInput &&
           std::string_view(error.what()).find("config.json") != std::string_view::npos;
  }
  return true;
}

// Gives a field another value than its default; several of them together still make a model.
void Change(bool& x) {
  x = !x;
}
void Change(int64_t& x) {
  x = x == 0 ? 3 : x * 2;
}
void Change(double& x) {
  x = x * 3 + 0.1;
}
void Change(std::optional<bool>& x) {
  x = true;
}
void Change(std::optional<int64_t>& x) {
  x = 17;
}

TEST(ConfigJson, EveryFieldReadsBack) {
  GptConfig config, other;
  other.block = BlockKind::kParallel;  // which some of the others exclude
  config.layer_kinds = LayerKindsOf("wf");
  for (const Field& field : config.Fields()) {
    std::visit(
        [&](auto value) {
          if constexpr (requires { Change(*value); }) Change(*value);
        },
        field.value);
    if (!field.choices.empty()) {
      const bool first = FieldText(field) == field.choices.front();
      SetField(field, first ? field.choices.back() : field.choices.front(), "test");
    }
  }
  config.n_kv_head = 6;
  config.rotary_dim = 4;
  config.rope_short_factors = {1, 1.5};  // of longrope, the last of the scalings
  config.rope_long_factors = {1.25, 1e3};
  config.block = BlockKind::kSerial;
  config.model_type = "";
  other.model_type = "folio";
  config.causal = true;
  other.causal = false;
  // A field that still has its default here would not be tested.
  GptConfig fresh;
  const std::vector<Field> set = config.Fields(), others = other.Fields(),
                           defaults = fresh.Fields();
  for (size_t i = 0; i < set.size(); ++i) {
    EXPECT_TRUE(FieldText(set[i]) != FieldText(defaults[i]) ||
                FieldText(others[i]) != FieldText(defaults[i]))
        << set[i].key;
  }
  EXPECT_EQ(Parse(GptConfigToJson(config)), config);
  other.model_type = "";  // which it is anyway
  EXPECT_EQ(Parse(GptConfigToJson(other)), other);
  EXPECT_EQ(Parse(GptConfigToJson(GptConfig{})), GptConfig{});
}

// As the files of before have it, when there was no third value.
TEST(ConfigJson, ATruthThatMayBeAWordTooIsWrittenAsOne) {
  GptConfig config;
  EXPECT_TRUE(Contains(GptConfigToJson(config), "\"init_scaled_residuals\": true"));
  for (const char* value : {"true", "false", "mlp"}) {
    config.init_scaled_residuals = *FromName<ScaledResiduals>(value);
    EXPECT_EQ(Parse(GptConfigToJson(config)), config) << value;
  }
  EXPECT_EQ(Parse("{\"init_scaled_residuals\": false}").init_scaled_residuals,
            ScaledResiduals::kNone);
  EXPECT_TRUE(Contains(Refusal("{\"init\": true}"), "init has the wrong type"));
  EXPECT_TRUE(Contains(Refusal("{\"init_scaled_residuals\": \"attn\"}"), "true, false, mlp"));
}

TEST(ConfigJson, WritesWhatHuggingFaceAsksFor) {
  GptConfig config;
  config.n_positions = 77;
  const std::string json = GptConfigToJson(config);
  EXPECT_TRUE(Contains(json, "\"model_type\": \"gpt2\"", "\"GPT2LMHeadModel\"", "\"n_ctx\": 77",
                       "\"n_positions\": 77", "\"n_inner\": null",
                       "\"activation_function\": \"gelu_new\""));
}

TEST(ConfigJson, WhatIsAbsentHasHuggingFacesDefault) {
  const GptConfig config = Parse("{}");
  EXPECT_EQ(config.vocab_size, 50257);
  EXPECT_EQ(config.n_positions, 1024);
  EXPECT_EQ(config.n_embd, 768);
  EXPECT_EQ(config.n_layer, 12);
  EXPECT_EQ(config.n_head, 12);
  EXPECT_EQ(config.inner(), 3072);
  EXPECT_EQ(config.activation_function, Activation::kGeluNew);
  EXPECT_EQ(config.layer_norm_epsilon, 1e-5);
  EXPECT_TRUE(config.tie_word_embeddings);
  EXPECT_TRUE(config.bias);
  EXPECT_EQ(config.embd_pdrop, 0.1);
  EXPECT_EQ(config.attn_pdrop, 0.1);
  EXPECT_EQ(config.resid_pdrop, 0.1);
  EXPECT_EQ(Parse(R"({"resid_pdrop": 0})").resid_pdrop, 0);
}

TEST(ConfigJson, TakesOtherNamesOfActivations) {
  const auto activation = [](const std::string& name) {
    return NameOf(Parse(R"({"activation_function": ")" + name + "\"}").activation_function);
  };
  for (const char* name : {"gelu_pytorch_tanh", "gelu_fast", "gelu_accurate", "gelu_python_tanh"}) {
    EXPECT_EQ(activation(name), "gelu_new") << name;
  }
  EXPECT_EQ(activation("gelu_python"), "gelu");
  EXPECT_EQ(activation("swish"), "silu");
  for (const NamedActivation& ours : kActivations) {
    EXPECT_EQ(activation(std::string(ours.name)), ours.name);
  }
}

TEST(ConfigJson, ScalesOfAttentionFollowTheLayer) {
  GptConfig config = Parse(R"({"n_embd": 64, "n_head": 4})");
  EXPECT_EQ(config.layer(2).score_scale, 0.25);
  config.scale_attn_by_inverse_layer_idx = true;
  EXPECT_EQ(config.layer(0).score_scale, 0.25);
  EXPECT_EQ(config.layer(2).score_scale, 0.25 / 3);
  config.scale_attn_weights = false;
  EXPECT_EQ(config.layer(1).score_scale, 0.5);
}

// transformers writes its default where a small vocabulary has no such token.
TEST(ConfigJson, Gpt2sEndBeyondTheVocabularyIsNone) {
  const GptConfig config = Parse(R"({"vocab_size": 300, "bos_token_id": 50256,
                                     "eos_token_id": 50256})");
  EXPECT_EQ(config.bos_token_id, std::nullopt);
  EXPECT_EQ(config.eos_token_id, std::nullopt);
  EXPECT_EQ(Parse(R"({"eos_token_id": 50256})").eos_token_id, 50256);
  EXPECT_EQ(Parse("{}").eos_token_id, 50256);
  EXPECT_EQ(Parse(R"({"eos_token_id": null})").eos_token_id, std::nullopt);
  EXPECT_EQ(Parse(R"({"model_type": "folio"})").eos_token_id, std::nullopt);
  EXPECT_EQ(Parse(R"({"eos_token_id": [7, 8]})").eos_token_id, 7);
  for (const std::string none : {"null", "[]", "-1", "[-1]"}) {
    EXPECT_EQ(Parse("{\"eos_token_id\": " + none + "}").eos_token_id, std::nullopt);
  }
}

TEST(ConfigJson, PassesOverKeysThatDoNotChangeTheModel) {
  EXPECT_EQ(Parse(R"({"summary_type": "cls_index", "task_specific_params": {"a": [1]},
                      "use_cache": true, "n_ctx": 1024, "add_cross_attention": false,
                      "architectures": ["GPT2LMHeadModel"], "dtype": "float16"})"),
            Parse("{}"));
}

TEST(ConfigJson, RefusesOtherModels) {
  EXPECT_TRUE(Contains(Refusal(R"({"model_type": "mamba"})"), "dir/config.json", "model_type",
                       "\"mamba\" is not supported"));
  EXPECT_TRUE(Contains(Refusal(R"({"add_cross_attention": true})"), "dir/config.json",
                       "cross-attention is not supported", "add_cross_attention is true"));
  EXPECT_TRUE(Contains(Refusal(R"({"architectures": ["GPT2ForSequenceClassification"]})"),
                       "GPT2ForSequenceClassification", "expected \"GPT2LMHeadModel\""));
  EXPECT_TRUE(Contains(Refusal(R"({"is_encoder_decoder": true})"), "an encoder"));
  EXPECT_TRUE(Contains(Refusal(R"({"quantization_config": {"bits": 4}})"), "a quantized model"));
  EXPECT_TRUE(Contains(Refusal(R"({"pruned_heads": {"0": [1]}})"), "pruned heads"));
  EXPECT_EQ(Parse(R"({"pruned_heads": {}, "architectures": null, "quantization_config": null})"),
            Parse("{}"));
}

// Phi-3's first files, and what transformers writes today.
TEST(ConfigJson, LongRopeIsReadInBothSpellings) {
  const std::string today = ReadFile(Fixture("families/phi3_long/config.json"), 1 << 16);
  const auto with = [&](const char* changes) {
    Json json = ParseJson(today, "");
    json.update(ParseJson(changes, ""));
    return json.dump();
  };
  const Json all = ParseJson(today, "");
  Json first = Json::object();
  for (const auto& [key, value] : all.items()) {
    if (key != "rope_parameters") first[key] = value;
  }
  first.update(ParseJson(R"({"rope_theta": 5000.0, "rope_scaling": {
      "type": "su", "short_factor": [1, 1.05, 1.25, 1.5], "long_factor": [1.1, 1.9, 5.5, 12.25]}})",
                         ""));
  EXPECT_EQ(Parse(first.dump()), Parse(today));
  struct Case {
    const char *changes, *refusal;
  };
  const Case cases[] = {
      {R"({"rope_parameters": {"type": "longrope", "short_factor": "1", "long_factor": [1]}})",
       ": short_factor is not a list of numbers"},
      {R"({"rope_parameters": {"type": "longrope", "short_factor": [], "long_factor": [1]}})",
       ": short_factor is not a list of numbers"},
      {R"({"rope_parameters": {"type": "longrope", "long_factor": [1, 1, 1, 1]}})",
       ": short_factor is not a list of numbers"},
      {R"({"rope_parameters": {"type": "longrope", "short_factor": [1, 1, 1],
                               "long_factor": [1, 1, 1, 1]}})",
       ": the length of rope_short_factors is wrong"},
      {R"({"rope_parameters": {"type": "longrope", "short_factor": [1, 1, 1, 1],
                               "long_factor": [1, 1, 0, 1]}})",
       ": the length of rope_long_factors is wrong"},
      {R"({"original_max_position_embeddings": 8})",
       ": conflicting values of original_max_position"},
      {R"({"model_type": "llama", "architectures": ["LlamaForCausalLM"]})",
       "rotary positions of the type longrope are not supported"},
  };
  for (const auto& [changes, refusal] : cases) {
    EXPECT_TRUE(Contains(Refusal(with(changes)), refusal)) << changes;
  }
}

TEST(ConfigJson, LongRopeTakesTheDivisorsOfTheModelsContext) {
  GptConfig config = Parse(ReadFile(Fixture("families/phi3_long/config.json"), 1 << 16));
  const RotaryFrequencies beyond = RotaryFrequenciesOf(config, 0);
  EXPECT_FLOAT_EQ(beyond.inverse[0], 1 / 1.1F);
  config.n_positions = 4;  // as many as before the scaling
  const RotaryFrequencies within = RotaryFrequenciesOf(config, 0);
  EXPECT_FLOAT_EQ(within.inverse[0], 1);
  // The model was trained with one factor for both.
  EXPECT_EQ(within.attention_factor, beyond.attention_factor);
  EXPECT_EQ(Parse(GptConfigToJson(config)), WithoutRedundantSizes(config));
}

// As Gemma 3's first files with pictures have it.
TEST(ConfigJson, TextPartsOfLargerModelsAreRead) {
  const char kText[] = R"("text_config": {"hidden_size": 2560, "intermediate_size": 10240,
      "model_type": "gemma3_text", "num_hidden_layers": 34, "sliding_window": 1024,
      "rope_scaling": {"factor": 8.0, "rope_type": "linear"}})";
  const auto with = [&](const std::string& text, const char* more = "") {
    return R"({"model_type": "gemma3", "eos_token_id": [1, 106], "vision_config": {})" +
           std::string(more) + ", " + text + "}";
  };
  const GptConfig config =
      Parse(with(kText, R"(, "architectures": ["Gemma3ForConditionalGeneration"])"));
  EXPECT_EQ(FamilyFor(config, FileFormat::kHuggingFace).model_type, "gemma3_text");
  EXPECT_EQ(config.n_head, 8);
  EXPECT_EQ(config.n_kv_head, 4);
  EXPECT_EQ(config.head_size(), 256);
  EXPECT_EQ(config.vocab_size, 262208);
  EXPECT_EQ(config.n_positions, 131072);
  EXPECT_EQ(LayerKindsText(config.layer_kinds), "wwwwwf");
  EXPECT_EQ(config.rope_factor, 8);
  EXPECT_EQ(config.more_eos_token_ids, std::vector<int64_t>({106}));
  EXPECT_DOUBLE_EQ(config.embedding_scale, std::sqrt(2560.0));
  EXPECT_TRUE(Contains(Refusal(R"({"model_type": "gemma3"})"),
                       ": text_config does not describe a text model"));
  EXPECT_TRUE(Contains(Refusal(with(R"("text_config": {"model_type": "llama"})")),
                       ": text_config does not describe a text model", "\"gemma3_text\""));
  EXPECT_TRUE(Contains(Refusal(with(kText, R"(, "architectures": ["Gemma3ForPictures"])")),
                       "Gemma3ForPictures", "Gemma3ForConditionalGeneration"));
  EXPECT_TRUE(Contains(Refusal(with(kText, R"(, "quantization_config": {"bits": 4})")),
                       "a quantized model"));
}

TEST(ConfigJson, RefusesTwoContextLengths) {
  EXPECT_TRUE(Contains(Refusal(R"({"n_ctx": 512, "n_positions": 1024})"), "n_ctx", "512", "1024"));
  EXPECT_TRUE(Contains(Refusal(R"({"n_ctx": 512, "max_position_embeddings": 1024})"), "n_ctx"));
  EXPECT_TRUE(Contains(Refusal(R"({"n_layer": 2, "num_hidden_layers": 3})"),
                       "num_hidden_layers and n_layer differ", "3 and 2"));
  EXPECT_TRUE(Contains(Refusal(R"({"num_attention_heads": "two"})"), "n_head has the wrong type"));
}

TEST(ConfigJson, RefusesWrongTypesAndValues) {
  for (const char* text : {R"({"n_layer": "12"})", R"({"n_layer": 1.5})", R"({"n_layer": null})",
                           R"({"n_layer": [1]})", R"({"n_layer": {}})", R"({"n_layer": true})",
                           R"({"n_layer": 1e30})"}) {
    EXPECT_TRUE(Contains(Refusal(text), "dir/config.json", "n_layer")) << text;
  }
  EXPECT_TRUE(Contains(Refusal(R"({"activation_function": 3})"), "activation_function"));
  EXPECT_TRUE(Contains(Refusal(R"({"activation_function": null})"), "activation_function"));
  EXPECT_TRUE(Contains(Refusal(R"({"activation_function": "mish"})"), "activation_function", "mish",
                       "quick_gelu"));
  EXPECT_TRUE(Contains(Refusal(R"({"bias": "yes"})"), "bias"));
  EXPECT_TRUE(Contains(Refusal(R"({"bias": 1})"), "bias"));
  EXPECT_TRUE(Contains(Refusal(R"({"attn_pdrop": 1})"), "attn_pdrop"));
  EXPECT_TRUE(Contains(Refusal(R"({"n_embd": 0})"), "n_embd"));
  EXPECT_TRUE(Contains(Refusal("[]"), "dir/config.json", "not a JSON object"));
  EXPECT_TRUE(Contains(Refusal("{"), "dir/config.json"));
  EXPECT_TRUE(Contains(Refusal(""), "dir/config.json"));
}

TEST(ConfigJson, NumbersBeyond64BitsAreRefusedByTheFile) {
  for (const char* number : {"9223372036854775808", "18446744073709551616", "-9223372036854775809",
                             "1e300", "123456789012345678901234567890"}) {
    for (const char* key : {"n_layer", "vocab_size", "n_inner", "bos_token_id"}) {
      EXPECT_TRUE(Contains(Refusal(fmt::format(R"({{"{}": {}}})", key, number)), "config.json"));
    }
    const std::string ends = fmt::format(R"({{"eos_token_id": [1, {}]}})", number);
    GptConfig config = Parse("{}");
    EXPECT_TRUE(AddsOrNames([&] { AddGenerationConfig(ends, "generation_config.json", config); }));
    EXPECT_TRUE(AddsOrNames([&] { Parse(ends); }));
  }
}

TEST(ConfigJson, RefusesFieldsThatContradictEachOther) {
  EXPECT_TRUE(Contains(Refusal(R"({"n_embd": 10, "n_head": 4})"), "n_head must divide n_embd"));
  EXPECT_TRUE(Contains(Refusal(R"({"n_embd": 3, "n_head": 3, "position_embedding": "sinusoidal"})"),
                       "even n_embd"));
  EXPECT_TRUE(Contains(Refusal(R"({"vocab_size": 7, "eos_token_id": 7})"), "eos_token_id"));
  EXPECT_TRUE(Contains(Refusal(R"({"n_embd": 1073741824, "n_head": 1})"), "too large"));
}

constexpr std::array kAll = {FileFormat::kHuggingFace, FileFormat::kGguf, FileFormat::kNanoGpt,
                             FileFormat::kLlmc, FileFormat::kOpenAi};

TEST(Families, NameEachParameterOnceInEveryFormat) {
  for (const Family& family : Families()) {
    for (const FileFormat format : kAll) {
      if ((family.formats & Formats(format)) == 0) continue;
      GptConfig config = TinyConfig();
      SetFields(family.fixed, config, "test");
      // OpenAI's release has the head's matrix in the embeddings alone.
      config.tie_word_embeddings = format == FileFormat::kOpenAi;
      std::set<std::string> names;
      const ParamTable table(config);
      for (const ParamInfo& info : table.params()) {
        const std::string name = TensorsInFiles(family, format, config, info).front().name;
        EXPECT_FALSE(name.empty()) << info.name;
        EXPECT_EQ(name.find('{'), name.npos) << name;
        EXPECT_TRUE(names.insert(name).second) << name;
      }
    }
  }
}

TEST(Families, NamesAreThoseOfThePrograms) {
  const auto name = [](FileFormat format, int64_t layer, const char* module, const char* part) {
    return NameInFiles(Gpt2Family(), format, layer, module, part);
  };
  EXPECT_EQ(name(FileFormat::kHuggingFace, 11, "attn.c_attn", "bias"),
            "transformer.h.11.attn.c_attn.bias");
  EXPECT_EQ(name(FileFormat::kGguf, 11, "mlp.c_proj", "weight"), "blk.11.ffn_down.weight");
  EXPECT_EQ(name(FileFormat::kOpenAi, 11, "mlp.c_proj", "weight"), "h11/mlp/c_proj/w");
  EXPECT_EQ(name(FileFormat::kOpenAi, -1, "ln_f", "bias"), "ln_f/b");
  EXPECT_EQ(name(FileFormat::kOpenAi, -1, "lm_head", "weight"), "");
}

TEST(Families, ParametersHaveTheNamesOfHuggingFacesGpt2) {
  const ParamTable table(TinyConfig());
  for (const ParamInfo& info : table.params()) {
    EXPECT_EQ(
        NameInFiles(Gpt2Family(), FileFormat::kHuggingFace, info.layer, info.module, info.part),
        info.name);
  }
}

// A program that lacks a setting is not given a model that has it; a field of several programs
// breaks the limits of each.
TEST(Families, LimitsOfFormatsAreTold) {
  const auto why = [](FileFormat format, auto change) {
    GptConfig config = TinyConfig();
    change(config);
    return WhyNot(Gpt2Family(), format, config);
  };
  const auto nothing = [](GptConfig&) {};
  const auto gelu = [](GptConfig& c) { c.activation_function = Activation::kGelu; };
  const auto inner = [](GptConfig& c) { c.n_inner = 7; };
  const auto two = [](GptConfig& c) {
    c.norm_position = NormPosition::kPost;
    c.lm_head_bias = true;
  };
  for (const FileFormat format : kAll) {
    EXPECT_EQ(why(format, nothing), "");
    EXPECT_EQ(why(format, two), "norm_position = post, lm_head_bias = true");
  }
  EXPECT_EQ(why(FileFormat::kHuggingFace, gelu), "");
  EXPECT_EQ(why(FileFormat::kNanoGpt, gelu), "");
  EXPECT_EQ(why(FileFormat::kGguf, gelu), "activation_function = gelu");
  EXPECT_EQ(why(FileFormat::kLlmc, gelu), "activation_function = gelu");
  EXPECT_EQ(why(FileFormat::kGguf, inner), "");
  EXPECT_EQ(why(FileFormat::kLlmc, inner), "n_inner = 7");
}

TEST(Families, TheFirstThatExpressesAModelHasIt) {
  GptConfig config = TinyConfig();
  EXPECT_EQ(FamilyFor(config, FileFormat::kHuggingFace).model_type, "gpt2");
  config.causal = false;
  EXPECT_EQ(FamilyFor(config, FileFormat::kHuggingFace).model_type, "folio");
  EXPECT_EQ(FamilyFor(config, FileFormat::kGguf).model_type, "gpt2");
  EXPECT_TRUE(Contains(ErrorAndHelp([&] { RequireExpressed(config, FileFormat::kGguf, "no"); }),
                       "no", "causal = false", "convert to hf"));
  RequireExpressed(config, FileFormat::kHuggingFace, "yes");
}

}  // namespace

}  // namespace folio
