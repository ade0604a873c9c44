// These tests check the output of `folio inspect model` and `folio inspect plan`, through the real
// program.
#include <gtest/gtest.h>

#include <regex>
#include <set>
#include <string>

#include "folio/base/strings.h"
#include "tests/kit/expect.h"
#include "tests/kit/json.h"
#include "tests/kit/paths.h"

namespace folio {
namespace {

const std::string kTiny = Fixture("gpt2-tiny").string();

TEST(InspectModel, CountsOfThePresets) {
  const std::pair<const char*, int64_t> presets[] = {
      {"gpt2", 124439808},
      {"gpt2-medium", 354823168},
      {"gpt2-large", 774030080},
      {"gpt2-xl", 1557611200},
      {"char-cpu --set model.vocab_size=65", 804096},
      {"char-gpu --set model.vocab_size=65", 10745088},
      {"llama-tiny", 65 * 128 + 4 * (12 * 128 * 128 + 2 * 128) + 128},
      {"qwen3-tiny", 65 * 128 + 4 * (15 * 128 * 128 + 2 * 128 + 2 * 64) + 128},
      {"nanochat-tiny",
       2 * 65 * 128 + 4 * 12 * 128 * 128 + 2 * (65 * 128 + 4 * 12) + 24 + 1 + 4 + 4 + 1},
  };
  for (const auto& [preset, parameters] : presets) {
    const std::string command = std::string("inspect model --preset ") + preset;
    const nlohmann::json json = Answer(command);
    EXPECT_EQ(json.at("schema"), 1);
    EXPECT_EQ(json.at("parameters"), parameters) << preset;
    EXPECT_EQ(json.at("bytes"), 4 * parameters);
    int64_t sum = 0, decayed = 0;
    for (const nlohmann::json& tensor : json.at("tensors")) {
      int64_t product = 1;
      for (const int64_t dim : tensor.at("shape")) product *= dim;
      EXPECT_EQ(tensor.at("count"), product);
      const bool gate = std::string(tensor.at("name")).ends_with("_gate.weight");
      EXPECT_EQ(tensor.at("decay"), tensor.at("shape").size() >= 2 && !gate);
      sum += product;
      if (tensor.at("decay")) decayed += product;
    }
    EXPECT_EQ(sum, parameters);
    EXPECT_EQ(json.at("decayed").at("parameters"), decayed);
    EXPECT_EQ(json.at("not_decayed").at("parameters"), parameters - decayed);
    EXPECT_TRUE(Contains(RunFolio(command).out, WithCommas(parameters)));
  }
}

TEST(InspectModel, BeginsWithTheModelAsAWhole) {
  const std::string command =
      "inspect model --preset gpt2 --set model.tie_word_embeddings=false "
      "--set model.norm_position=post --set model.n_inner=1000";
  const std::string text = RunFolio(command).out;
  EXPECT_TRUE(
      text.starts_with("layers       12\n"
                       "heads        12 of 64 channels\n"
                       "channels     768, feed-forward 1,000\n"
                       "context      1,024 tokens, learned positions\n"
                       "vocabulary   50,257 tokens\n"
                       "head         not tied: a separate matrix\n"
                       "activation   gelu_new\n"
                       "norm         LayerNorm, post: after each residual sum\n\n"
                       "name "))
      << text;
  const nlohmann::json summary = Answer(command).at("summary");
  EXPECT_EQ(summary,
            nlohmann::json::parse(
                R"({"layers": 12, "heads": 12, "kv_heads": 12, "head_size": 64, "channels": 768,
      "feed_forward": 1000, "context": 1024, "positions": "learned", "vocabulary": 50257,
      "tied": false, "norm": "post", "activation": "gelu_new"})"));
}

TEST(InspectModel, SaysHowManyHeadsHaveKeysAndValues) {
  const std::string command =
      "inspect model --preset gpt2 --set model.n_kv_head=4 model.head_dim=32";
  EXPECT_TRUE(
      Contains(RunFolio(command).out, "heads        12 of 32 channels, 4 of keys and values\n"));
  const nlohmann::json json = Answer(command);
  EXPECT_EQ(json.at("summary").at("kv_heads"), 4);
  const ProgramRun wrong =
      Ended(2, RunFolio("inspect model --preset gpt2 --set model.n_kv_head=5"));
  EXPECT_TRUE(Contains(wrong.err, "n_kv_head must divide n_head"));
}

TEST(InspectModel, ADirectoryIsWhatItsConfigurationSays) {
  const nlohmann::json json = Answer("inspect model --model " + kTiny);
  EXPECT_EQ(json.at("config").at("vocab_size"), 97);
  EXPECT_EQ(json.at("tensors").at(0).at("shape"), nlohmann::json({97, 32}));
  EXPECT_EQ(json.at("tensors").at(0).at("init"), "normal(0, 0.02)");
  EXPECT_EQ(json.at("tensors").size(), 28);
}

TEST(InspectModel, SettingsDescribeAModelOfTheirOwn) {
  const nlohmann::json json = Answer(
      "inspect model --set model.n_layer=1 --set model.n_embd=6 --set "
      "model.n_head=3 --set model.n_inner=5 --set model.vocab_size=7 --set "
      "model.n_positions=11 --set model.bias=false --set model.init=xavier_uniform");
  EXPECT_EQ(json.at("parameters"), 7 * 6 + 11 * 6 + 6 + 6 * 18 + 6 * 6 + 6 + 6 * 5 + 5 * 6 + 6);
  EXPECT_EQ(json.at("tensors").at(0).at("init"), "xavier_uniform");
}

TEST(InspectModel, ContradictionsAreUsageErrors) {
  const std::string tiny = " --model " + kTiny;
  ExpectError(2, "inspect model --preset gpt2" + tiny, "--preset and --model");
  ExpectError(2, "inspect model --set model.n_layer=3" + tiny, "--set model.n_layer");
  Ended(2, RunFolio("inspect model --set model.n_head=5"));
  Ended(3, RunFolio("inspect model --model /nowhere"));
}

TEST(InspectPlan, PeakHoldsAllThatLivesAlwaysAndStaysBelowTheSum) {
  const nlohmann::json json = Answer("inspect plan --preset gpt2 --batch 3 --context 17");
  EXPECT_EQ(json.at("batch"), 3);
  EXPECT_EQ(json.at("context"), 17);
  int64_t always = 0, sum = 0;
  for (const nlohmann::json& buffer : json.at("buffers")) {
    const int64_t bytes = buffer.at("bytes"), offset = buffer.at("offset");
    EXPECT_LE(offset + bytes, json.at("peak_bytes")) << buffer;
    sum += bytes;
    if (buffer.at("last_tick").is_null()) always += bytes;
  }
  EXPECT_GE(always, 4 * 4 * 124439808);
  EXPECT_GE(json.at("peak_bytes"), always);
  EXPECT_LT(json.at("peak_bytes"), sum);
  EXPECT_EQ(json.at("peak_bytes"), json.at("weights_bytes").get<int64_t>() +
                                       json.at("gradients_bytes").get<int64_t>() +
                                       json.at("optimizer_bytes").get<int64_t>() +
                                       json.at("activations_bytes").get<int64_t>());
  EXPECT_EQ(json.at("optimizer_bytes"), 2 * json.at("weights_bytes").get<int64_t>());
  EXPECT_LT(json.at("activations_bytes"), json.at("activations_unshared_bytes"));
}

TEST(InspectPlan, BuffersThatTheHostUsesTooHaveMirrors) {
  const std::string shape = "inspect plan --model " + kTiny + " --batch 2 --context 5";
  const auto mirrored = [&](const std::string& flags) {
    std::set<std::string> names;
    const nlohmann::json json = Answer(shape + flags);
    for (const nlohmann::json& buffer : json.at("buffers")) {
      if (buffer.at("mirrored").get<bool>()) names.insert(buffer.at("name"));
    }
    return names;
  };
  const std::set<std::string> alone = mirrored("");
  EXPECT_EQ(alone, (std::set<std::string>{"ids", "losses", "targets"}));
  std::set<std::string> ranks = alone;
  ranks.insert({"weights", "gradients", "gradients.part"});
  EXPECT_EQ(mirrored(" --ranks 2"), ranks);
  EXPECT_TRUE(std::regex_search(Ended(0, RunFolio(shape)).out,
                                std::regex("buffer .* mirror *\n(.*\n)*targets .* yes *\n")));
}

TEST(InspectPlan, GrowsWithTheBatchOnly) {
  const auto plan = [](const std::string& flags) {
    return Answer("inspect plan --model " + kTiny + flags);
  };
  const nlohmann::json one = plan(" --batch 1 --context 1"), many = plan(" --batch 7 --context 24");
  EXPECT_EQ(one.at("weights_bytes"), many.at("weights_bytes"));
  EXPECT_LT(one.at("activations_bytes"), many.at("activations_bytes"));
  EXPECT_EQ(plan(" --batch 1").at("context"), 24);
}

TEST(InspectPlan, AContextBeyondThePositionsIsAUsageError) {
  ExpectError(2, "inspect plan --context 25 --model " + kTiny, "n_positions is 24", "--context 24");
}

TEST(InspectPlan, WhatNoMachineHoldsIsAResourceError) {
  EXPECT_EQ(RunFolio("inspect plan --preset gpt2-xl --batch 16777216 --set "
                     "model.n_positions=16777216")
                .status,
            4);
}

}  // namespace
}  // namespace folio
