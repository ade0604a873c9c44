#include "folio/model/config_json.h"

#include <gtest/gtest.h>

#include "folio/base/error.h"
#include "tests/kit/expect.h"

namespace folio {
namespace {

GptConfig Parse(const std::string& text) {
  return GptConfigFromJson(text, "dir/config.json");
}

std::string Refusal(const std::string& text) {
  return ErrorOf([&] { Parse(text); }, ErrorKind::kInput);
}

// Gives a field another value than its default; several of them together still make a model.
void Change(bool& x, const std::vector<std::string>&) {
  x = !x;
}
void Change(int64_t& x, const std::vector<std::string>&) {
  x *= 2;
}
void Change(double& x, const std::vector<std::string>&) {
  x = x / 3 + 0.1;
}
void Change(std::string& x, const std::vector<std::string>& choices) {
  x = choices.back();
}
void Change(std::optional<bool>& x, const std::vector<std::string>&) {
  x = true;
}
void Change(std::optional<int64_t>& x, const std::vector<std::string>&) {
  x = 17;
}

TEST(ConfigJson, EveryFieldReadsBack) {
  GptConfig config;
  for (const Field& field : config.Fields()) {
    std::visit([&](auto* value) { Change(*value, field.choices); }, field.value);
  }
  // A field that still has its default here would not be tested.
  GptConfig fresh;
  const std::vector<Field> set = config.Fields(), defaults = fresh.Fields();
  for (size_t i = 0; i < set.size(); ++i) {
    EXPECT_NE(FieldText(set[i]), FieldText(defaults[i])) << set[i].key;
  }
  EXPECT_EQ(Parse(GptConfigToJson(config)), config);
  EXPECT_EQ(Parse(GptConfigToJson(GptConfig{})), GptConfig{});
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
  EXPECT_EQ(config.activation_function, "gelu_new");
  EXPECT_EQ(config.layer_norm_epsilon, 1e-5);
  EXPECT_TRUE(config.tie_word_embeddings);
  EXPECT_TRUE(config.bias);
  EXPECT_EQ(config.embd_pdrop, 0.1);
  EXPECT_EQ(config.attn_pdrop, 0.1);
  EXPECT_EQ(config.resid_pdrop, 0.1);
  EXPECT_EQ(Parse(R"({"resid_pdrop": 0})").resid_pdrop, 0);
}

TEST(ConfigJson, TakesTheOtherNameOfTheTanhForm) {
  EXPECT_EQ(Parse(R"({"activation_function": "gelu_pytorch_tanh"})").activation_function,
            "gelu_new");
}

TEST(ConfigJson, PassesOverKeysThatDoNotChangeTheModel) {
  EXPECT_EQ(Parse(R"({"summary_type": "cls_index", "task_specific_params": {"a": [1]},
                      "use_cache": true, "n_ctx": 1024, "scale_attn_weights": true,
                      "scale_attn_by_inverse_layer_idx": false})"),
            Parse("{}"));
}

TEST(ConfigJson, RefusesOtherModels) {
  EXPECT_TRUE(Contains(Refusal(R"({"model_type": "llama"})"), "dir/config.json", "model_type",
                       "expected \"gpt2\", found \"llama\""));
  EXPECT_TRUE(Contains(Refusal(R"({"scale_attn_by_inverse_layer_idx": true})"),
                       "scale_attn_by_inverse_layer_idx"));
  EXPECT_TRUE(Contains(Refusal(R"({"scale_attn_weights": false})"), "scale_attn_weights"));
  EXPECT_TRUE(Contains(Refusal(R"({"add_cross_attention": true})"), "add_cross_attention"));
}

TEST(ConfigJson, RefusesTwoContextLengths) {
  EXPECT_TRUE(Contains(Refusal(R"({"n_ctx": 512, "n_positions": 1024})"), "n_ctx", "512", "1024"));
}

TEST(ConfigJson, RefusesWrongTypesAndValues) {
  for (const char* text : {R"({"n_layer": "12"})", R"({"n_layer": 1.5})", R"({"n_layer": null})",
                           R"({"n_layer": [1]})", R"({"n_layer": {}})", R"({"n_layer": true})",
                           R"({"n_layer": 1e30})"}) {
    EXPECT_TRUE(Contains(Refusal(text), "dir/config.json", "n_layer")) << text;
  }
  EXPECT_TRUE(Contains(Refusal(R"({"activation_function": 3})"), "activation_function"));
  EXPECT_TRUE(Contains(Refusal(R"({"activation_function": null})"), "activation_function"));
  EXPECT_TRUE(Contains(Refusal(R"({"activation_function": "silu"})"), "activation_function"));
  EXPECT_TRUE(Contains(Refusal(R"({"bias": "yes"})"), "bias"));
  EXPECT_TRUE(Contains(Refusal(R"({"bias": 1})"), "bias"));
  EXPECT_TRUE(Contains(Refusal(R"({"attn_pdrop": 1})"), "attn_pdrop"));
  EXPECT_TRUE(Contains(Refusal(R"({"n_embd": 0})"), "n_embd"));
  EXPECT_TRUE(Contains(Refusal("[]"), "dir/config.json", "not a JSON object"));
  EXPECT_TRUE(Contains(Refusal("{"), "dir/config.json"));
  EXPECT_TRUE(Contains(Refusal(""), "dir/config.json"));
}

TEST(ConfigJson, RefusesFieldsThatContradictEachOther) {
  EXPECT_TRUE(Contains(Refusal(R"({"n_embd": 10, "n_head": 4})"), "n_head must divide n_embd"));
  EXPECT_TRUE(Contains(Refusal(R"({"n_embd": 3, "n_head": 3, "position_embedding": "sinusoidal"})"),
                       "even n_embd"));
  EXPECT_TRUE(Contains(Refusal(R"({"vocab_size": 7, "eos_token_id": 7})"), "eos_token_id"));
  EXPECT_TRUE(Contains(Refusal(R"({"n_embd": 1073741824, "n_head": 1})"), "too large"));
}

TEST(ConfigValidate, HelpNamesTheNearestNumberOfHeads) {
  GptConfig config;
  config.n_embd = 128;
  config.n_head = 6;
  const Error error = Refused([&] { config.Validate("here"); }, ErrorKind::kUsage);
  EXPECT_STREQ(error.what(), "here: n_head must divide n_embd");
  EXPECT_EQ(error.help(), "set n_head to 4 or 8");
}

}  // namespace
}  // namespace folio
