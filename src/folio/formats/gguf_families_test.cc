// Models of the families (tests/fixtures/families) in GGUF: as llama.cpp's converter writes them
// (scripts/gguf_goldens.py), and back.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "folio/formats/gguf_config.h"
#include "folio/formats/gguf_model.h"
#include "folio/formats/model_formats.h"
#include "folio/formats/test_expected.h"
#include "folio/io/crc32c.h"
#include "folio/io/file.h"
#include "folio/io/gguf.h"
#include "folio/io/safetensors.h"
#include "folio/model/config.h"
#include "folio/model/layers/rotary.h"
#include "folio/model_files/checkpoint.h"
#include "folio/model_files/config_json.h"
#include "folio/model_files/families.h"
#include "tests/kit/directory.h"
#include "tests/kit/expect.h"
#include "tests/kit/paths.h"

namespace folio {
namespace {

namespace fs = std::filesystem;
using Golden = nlohmann::json;

const Golden& Goldens() {
  static const Golden goldens =
      Golden::parse(ReadFile(Fixture("families/gguf.json"), size_t{1} << 20));
  return goldens;
}

std::vector<std::string> GoldenNames() {
  std::vector<std::string> names;
  for (const auto& [name, golden] : Goldens().items()) names.push_back(name);
  return names;
}

void Merge(const Golden& changes, Golden& into) {
  for (const auto& [key, value] : changes.items()) {
    if (value.is_object()) {
      Merge(value, into[key]);
    } else {
      into[key] = value;
    }
  }
}

class GgufFamilies : public InTemporaryDirectory, public testing::WithParamInterface<std::string> {
 protected:
  const std::string& name_ = GetParam();
  const Golden& golden_ = Goldens()[name_];
  const std::vector<int32_t> ids_ =
      SafetensorsFile(Fixture("families") / name_ / "expected.safetensors").ReadAs<int32_t>("ids");

  // The model with what is changed in it for GGUF.
  StoredModel Changed() const {
    const fs::path from = Fixture("families") / name_;
    Golden config = Golden::parse(ReadFile(from / "config.json", size_t{1} << 16));
    Merge(golden_["changes"], config);
    fs::create_directory(At("changed"));
    fs::copy_file(from / "model.safetensors", At("changed/model.safetensors"),
                  fs::copy_options::skip_existing);
    std::ofstream(At("changed/config.json")) << config;
    return OpenModelDir(At("changed"));
  }
};

TEST_P(GgufFamilies, HaveTheKeysAndTensorsOfLlamaCppsConverter) {
  const auto weights = ReadWeights(Changed());
  SaveGgufModel(At("m.gguf"), {.weights = *weights, .dtype = Dtype::kF32});
  const GgufFile file(At("m.gguf"));
  EXPECT_EQ(file.Text("general.architecture"), golden_["architecture"].get<std::string>());
  const Golden not_taken = golden_["not_taken"];
  for (const auto& [key, value] : golden_["keys"].items()) {
    if (std::ranges::count(not_taken, Golden(key)) > 0) continue;
    if (value.is_string()) {
      EXPECT_EQ(file.Text(key), value.get<std::string>()) << key;
    } else {
      const double number = value.is_boolean() ? 1.0 * value.get<bool>() : value.get<double>();
      EXPECT_EQ(file.NumberOrTruth(key), number) << key;
    }
  }
  std::map<std::string, Golden> theirs = golden_["tensors"];
  for (const TensorInfo& info : file.tensors()) {
    const auto found = theirs.extract(info.name);
    ASSERT_FALSE(found.empty()) << info.name;
    const auto dims = found.mapped()[0].get<std::vector<int64_t>>();
    EXPECT_EQ(info.shape, Shape(std::span(dims))) << info.name;
    // The converter computes divisors in float32.
    if (info.name == "rope_freqs.weight") continue;
    const std::string_view bytes(reinterpret_cast<const char*>(info.data), info.bytes);
    EXPECT_EQ(Crc32c(bytes), found.mapped()[1].get<uint32_t>()) << info.name;
  }
  EXPECT_TRUE(theirs.empty()) << theirs.begin()->first;
}

TEST_P(GgufFamilies, GiveTheBitsOfTheDirectory) {
  const StoredModel model = Changed();
  const auto weights = ReadWeights(model);
  const auto nothing = [](int, std::string_view) {};
  const Converted made =
      ConvertModel({.from = At("changed"), .to = At("m.gguf"), .format = "gguf"}, nothing);
  EXPECT_EQ(made.logit_difference, 0);
  const FoundModel twin = FindModel(At("m.gguf"));
  // A window that is as long as the context may stand for none.
  if (HasWindow(model.config)) {
    EXPECT_EQ(twin.model.config.sliding_window, model.config.sliding_window);
  }
  const auto mapped = MapWeights(twin.model);
  EXPECT_TRUE(SameNumbers(*mapped, *weights));
  EXPECT_EQ(LogitsOf(*mapped, ids_), LogitsOf(*weights, ids_));
  // And on to a directory, as the model that it was.
  ConvertModel({.from = At("m.gguf"), .to = At("back"), .format = "hf"}, nothing);
  const StoredModel back = OpenModelDir(At("back"));
  EXPECT_EQ(LogitsOf(*ReadWeights(back), ids_), LogitsOf(*weights, ids_));
}

INSTANTIATE_TEST_SUITE_P(All, GgufFamilies, testing::ValuesIn(GoldenNames()),
                         [](const auto& name) { return name.param; });

// A small model of a family as GGUF, with more in its header or other tensors than it has.
class GgufSaying : public InTemporaryDirectory {
 protected:
  static GptConfig Config(const std::string& name, const ConfigChanges& changes = {}) {
    const fs::path path = Fixture("families") / name / "config.json";
    return With(GptConfigFromJson(ReadFile(path, 1 << 16), name), changes);
  }
  std::string SaveRefused(const GptConfig& config) {
    return ErrorAndHelp([&] { SaveGgufModel(At("x"), {.weights = GptWeights(config)}); });
  }
  GptConfig Saved(const GptConfig& config) {
    const GptWeights weights(config);
    SaveGgufModel(At("x"), {.weights = weights});
    return FindModel(At("x")).model.config;
  }
  using Change = std::function<void(GgufHeader&, std::vector<TensorToWrite>&)>;
  GptConfig Read(const GptConfig& config, const Change& change) {
    const Family& family = FamilyFor(config, FileFormat::kGguf);
    const GptWeights weights(config);
    GgufHeader header;
    header.AddText("general.architecture", family.gguf_architecture);
    AddGgufConfig(family, config, header);
    auto tensors = TensorsToWrite(weights, config, family, FileFormat::kGguf, Dtype::kF32);
    AddGgufDivisors(family, config, tensors);
    change(header, tensors);
    WriteGguf(At("x"), header, tensors);
    return FindModel(At("x")).model.config;
  }
  std::string ReadRefused(const GptConfig& config, const Change& change) {
    return ErrorAndHelp([&] { Read(config, change); });
  }
  static Change Divisors(std::vector<float> divisors) {
    return [divisors](GgufHeader&, std::vector<TensorToWrite>& tensors) {
      tensors.push_back({"rope_freqs.weight", Dtype::kF32, Shape{std::ssize(divisors)},
                         [divisors](int64_t, std::span<float> out) {
                           std::ranges::copy(divisors, out.begin());
                         }});
    };
  }
};

TEST_F(GgufSaying, WhatGgufCannotSayIsNotWritten) {
  struct Case {
    const char* model;
    ConfigChanges changes;
    const char* reason;
  };
  const Case cases[] = {
      {"mistral", {}, "sliding_window = 8"},
      {"starcoder2", {}, "sliding_window = 8"},
      {"gemma2", {}, "attention_scale = 0.288"},
      {"gemma2", {{"attention_scale", "0"}, {"attention_cap", "0"}}, "attention_cap = 0"},
      {"gemma2", {{"attention_scale", "0"}, {"rope_window_theta", "7"}}, "rope_window_theta = 7"},
      {"gemma3", {{"attention_scale", "0"}, {"attention_cap", "9"}}, "attention_cap = 9"},
      {"llama", {{"activation_function", "gelu"}}, "activation_function = gelu"},
      {"llama", {{"logit_scale", "2"}}, "logit_scale = 2"},
      {"llama3", {{"rope_low_freq_factor", "2"}}, "rope_low_freq_factor = 2"},
      // No wave is so long that its divisor would be the factor.
      {"llama3",
       {{"head_dim", "16"}, {"rope_original_positions", "11000"}},
       "rope_original_positions = 11000"},
      {"yarn", {{"rope_beta_fast", "16"}}, "rope_beta_fast = 16"},
      {"qwen2", {{"rope_scaling", "llama3"}}, "rope_scaling = llama3"},
      {"phi3_long", {{"model_type", "llama"}, {"norm", "layer"}}, "rope_scaling = longrope"},
      {"qwen3", {{"attention_bias", "true"}}, "attention_bias = true"},
      {"smollm3", {{"no_rope_every", "2"}}, "no_rope_every = 2"},
      {"olmo2", {{"tie_word_embeddings", "true"}}, "tie_word_embeddings = true"},
  };
  for (const auto& [model, changes, reason] : cases) {
    EXPECT_TRUE(Contains(SaveRefused(Config(model, changes)), reason)) << model;
  }
  EXPECT_TRUE(Names().empty());
}

TEST_F(GgufSaying, PatternsAndLongWindowsAreWritten) {
  const ConfigChanges plain = {{"attention_scale", "0"}};
  EXPECT_EQ(LayerKindsText(Saved(Config("gemma3", plain)).layer_kinds), "wwwwwf");
  const GptConfig other = With(Config("gemma3", plain), {{"layer_kinds", "wwf"}});
  EXPECT_EQ(LayerKindsText(Saved(other).layer_kinds), "wwf");
  EXPECT_EQ(GgufFile(At("x")).Count("gemma3.attention.sliding_window_pattern"), 7u);
  // A window as long as the context keeps nothing from any layer.
  EXPECT_EQ(Saved(Config("mistral", {{"sliding_window", "64"}})).sliding_window, std::nullopt);
  const GptConfig gemma2 = Config("gemma2", plain);
  EXPECT_EQ(Saved(With(gemma2, {{"sliding_window", "null"}})).sliding_window, 64);
  const GptConfig gemma3 = With(Config("gemma3", plain), {{"sliding_window", "null"}});
  EXPECT_EQ(Saved(WithoutRedundantSizes(gemma3)).sliding_window, std::nullopt);
}

TEST_F(GgufSaying, PublishedScalingsComeBackFromTheirDivisors) {
  struct Case {
    const char *theta, *factor, *positions, *head_dim;
  };
  const Case cases[] = {{"500000", "32", "8192", "64"},  // Llama 3.2
                        {"500000", "8", "8192", "128"},  // Llama 3.1
                        {"500000", "8", "8191", "128"},
                        {"10000", "3", "100", "16"}};
  for (const auto& [theta, factor, positions, head_dim] : cases) {
    const GptConfig config = Config("llama3", {{"rope_theta", theta},
                                               {"rope_factor", factor},
                                               {"rope_original_positions", positions},
                                               {"head_dim", head_dim}});
    const GptConfig found = Saved(config);
    EXPECT_EQ(found.rope_original_positions, config.rope_original_positions);
    EXPECT_EQ(found.rope_factor, config.rope_factor);
    EXPECT_EQ(RotaryFrequenciesOf(found, 0).inverse, RotaryFrequenciesOf(config, 0).inverse);
  }
}

// As Phi-2's files had them at first.
TEST_F(GgufSaying, QueriesKeysAndValuesMayBeOneTensor) {
  const StoredModel model = OpenModelDir(Fixture("families/phi"));
  const auto weights = ReadWeights(model);
  const Family& family = FamilyFor(model.config, FileFormat::kGguf);
  GgufHeader header;
  header.AddText("general.architecture", family.gguf_architecture);
  AddGgufConfig(family, model.config, header);
  auto tensors = TensorsToWrite(*weights, model.config, family, FileFormat::kGguf, Dtype::kF32);
  std::vector<TensorToWrite> one;
  for (size_t i = 0; i < tensors.size(); ++i) {
    one.push_back(tensors[i]);
    const size_t at = tensors[i].name.find("attn_q.");
    if (at == std::string::npos) continue;
    std::vector<float> rows;
    int64_t count = 0;
    for (size_t part = i; part < i + 3; ++part) {
      std::vector<float> more(static_cast<size_t>(tensors[part].shape.count()));
      tensors[part].read(0, more);
      rows.insert(rows.end(), more.begin(), more.end());
      count += tensors[part].shape[0];
    }
    one.back().name.replace(at, 7, "attn_qkv.");
    one.back().shape =
        tensors[i].shape.rank() == 1 ? Shape{count} : Shape{count, tensors[i].shape[1]};
    const auto width = static_cast<size_t>(one.back().shape.count() / count);
    one.back().read = [rows, width](int64_t row, std::span<float> out) {
      std::ranges::copy_n(rows.begin() + row * static_cast<int64_t>(width), std::ssize(out),
                          out.begin());
    };
    i += 2;
  }
  WriteGguf(At("x"), header, one);
  EXPECT_TRUE(SameNumbers(*ReadWeights(FindModel(At("x")).model), *weights));
}

TEST_F(GgufSaying, OtherDivisorsAreRefused) {
  const GptConfig llama = Config("llama");  // of four pairs
  EXPECT_EQ(Read(llama, Divisors({1, 1, 1, 1})).rope_scaling, RopeScaling::kDefault);
  EXPECT_EQ(Read(llama, Divisors({1, 1, 8, 8})).rope_scaling, RopeScaling::kLlama3);
  for (const std::vector<float>& divisors :
       {std::vector<float>{1, 8, 1, 8}, {2, 3, 4, 5}, {8, 8, 1, 1}, {0, 0, 0, 0}, {1, 1, 8, -8}}) {
    EXPECT_TRUE(Contains(ReadRefused(llama, Divisors(divisors)), "rope_freqs.weight",
                         "not those of Llama 3.1"));
  }
  EXPECT_TRUE(Contains(ReadRefused(llama, Divisors({1, 1, 8})), "its shape is"));
  EXPECT_TRUE(Contains(ReadRefused(Config("yarn"), Divisors({1, 1, 8, 8})), "scaled twice"));
  EXPECT_TRUE(Contains(ReadRefused(Config("qwen3"), Divisors({1, 1, 8, 8})), "rope_freqs.weight",
                       "not part of the model"));
}

TEST_F(GgufSaying, LongRopesDivisorsAreWholeOrRefused) {
  const GptConfig phi3 = Config("phi3_long");
  const GptConfig saved = Saved(phi3);
  EXPECT_EQ(saved.rope_long_factors, phi3.rope_long_factors);
  EXPECT_EQ(saved.rope_short_factors, phi3.rope_short_factors);
  EXPECT_EQ(saved.rope_original_positions, 4);
  EXPECT_EQ(saved.rope_factor, 16);
  EXPECT_EQ(saved.rope_attention_factor, 0);  // it follows from the contexts
  const auto nothing = [](auto&, auto&) {};
  EXPECT_EQ(Read(With(phi3, {{"rope_attention_factor", "1.25"}}), nothing).rope_attention_factor,
            1.25);
  // Short divisors come behind long ones.
  const Change half = [](GgufHeader&, auto& tensors) {
    std::erase_if(tensors, [](const auto& one) { return one.name == "rope_factors_short.weight"; });
  };
  EXPECT_TRUE(Contains(ReadRefused(phi3, half), "rope_factors_short.weight"));
  const auto short_list = [](GgufHeader&, auto& tensors) {
    for (TensorToWrite& one : tensors) {
      if (one.name == "rope_factors_long.weight") one.shape = {3};
    }
  };
  EXPECT_TRUE(Contains(ReadRefused(phi3, short_list), "rope_factors_long.weight", "(3)"));
  const auto negative = [](GgufHeader&, auto& tensors) {
    for (TensorToWrite& one : tensors) {
      if (!one.name.starts_with("rope_factors_")) continue;
      one.read = [](int64_t, std::span<float> out) { std::ranges::fill(out, -1.0F); };
    }
  };
  EXPECT_TRUE(Contains(ReadRefused(phi3, negative), "is wrong"));
  const auto linear = [](GgufHeader& header, auto&) {
    header.AddF32("phi3.rope.scaling.factor", 2);
  };
  EXPECT_TRUE(Contains(ReadRefused(phi3, linear), "scaled twice"));
  const auto factor = [](GgufHeader& header, auto&) {
    header.AddF32("phi3.rope.scaling.attn_factor", 2);
  };
  EXPECT_TRUE(Contains(ReadRefused(Config("phi3"), factor), "attn_factor\" is 2"));
}

TEST_F(GgufSaying, SizesLayerByLayerAreOneOrRefused) {
  const GptConfig qwen2 = Config("qwen2");  // of 4 layers, 3 heads, 1 of keys, F = 40
  // The key's array instead of its number, which is then nobody's.
  const auto with = [&](const std::string& key, const std::vector<int32_t>& sizes) {
    const std::string own = "qwen2." + key, added = "added." + key, nobodys = "other." + key;
    const auto add = [&](GgufHeader& header, auto&) { header.AddI32s(added, sizes); };
    Read(qwen2, add);
    std::string bytes = ReadFile(At("x"), size_t{1} << 20);
    const auto rename = [&](const std::string& from, const std::string& to) {
      const size_t at =
          bytes.find(std::string(1, static_cast<char>(from.size())) + std::string(7, '\0') + from) +
          8;
      bytes.replace(at, from.size(), to);
    };
    rename(own, nobodys);
    rename(added, own);
    PutFile("x", bytes);
    return FindModel(At("x")).model.config;
  };
  const auto refusal = [&](const std::string& key, const std::vector<int32_t>& sizes) {
    return ErrorAndHelp([&] { with(key, sizes); });
  };
  const GptConfig plain = Read(qwen2, [](auto&, auto&) {});
  EXPECT_EQ(with("feed_forward_length", {40, 40, 40, 40}), plain);
  EXPECT_EQ(with("attention.head_count", {3, 3, 3, 3}), plain);
  EXPECT_EQ(with("attention.head_count_kv", {1, 1, 1, 1}), plain);
  EXPECT_TRUE(Contains(refusal("attention.head_count_kv", {1, 1, 3, 1}),
                       "\"qwen2.attention.head_count_kv\" differs between layers",
                       "1 in layer 0 and 3 in layer 2",
                       "folio supports only models whose layers have the same sizes"));
  EXPECT_TRUE(Contains(refusal("feed_forward_length", {40, 40, 40}), "\" does not match the model",
                       "found 3 layer sizes, expected 4 from 1 to"));
  EXPECT_TRUE(
      Contains(refusal("feed_forward_length", {0, 0, 0, 0}), "\" does not match the model"));
  EXPECT_TRUE(Contains(refusal("feed_forward_length", {}), "feed_forward_length"));
  EXPECT_TRUE(Contains(refusal("embedding_length", {24, 24}), "embedding_length", "an integer"));
}

TEST_F(GgufSaying, KeysThatMayChangeTheComputationAreUnderstoodOrRefused) {
  const auto key = [](const char* name, const auto& value) {
    return [=](GgufHeader& header, std::vector<TensorToWrite>&) {
      using Value = std::decay_t<decltype(value)>;
      if constexpr (std::is_same_v<Value, bool>) {
        header.AddBool(name, value);
      } else if constexpr (std::is_same_v<Value, float>) {
        header.AddF32(name, value);
      } else if constexpr (std::is_same_v<Value, uint32_t>) {
        header.AddU32(name, value);
      } else if constexpr (std::is_same_v<Value, std::vector<bool>>) {
        header.AddBools(name, value);
      } else {
        header.AddText(name, value);
      }
    };
  };
  const GptConfig llama = Config("llama");
  EXPECT_TRUE(
      Contains(ReadRefused(llama, key("llama.foo", 1u)), "\"llama.foo\"", "not understood"));
  EXPECT_TRUE(Contains(ReadRefused(llama, key("llama.expert_count", 8u)), "expert_count\" is 8"));
  EXPECT_EQ(Read(llama, key("llama.expert_count", 0u)), Read(llama, [](auto&, auto&) {}));
  EXPECT_TRUE(Contains(ReadRefused(llama, key("llama.attention.causal", false)), "causal\" is 0"));
  EXPECT_TRUE(Contains(ReadRefused(llama, key("llama.rope.scaling.type", std::string("longrope"))),
                       "\"longrope\""));
  EXPECT_TRUE(Contains(ReadRefused(Config("qwen2"), key("qwen2.attention.sliding_window", 9u)),
                       "sliding_window\" is 9"));
  EXPECT_TRUE(Contains(ReadRefused(Config("granite"), key("granite.rope.scaling.finetuned", false)),
                       "finetuned\" is 0"));
  const GptConfig window = Read(llama, key("llama.attention.sliding_window", 8u));
  EXPECT_EQ(window.layer(3).window, 8);
  EXPECT_EQ(FamilyFor(window, FileFormat::kHuggingFace).model_type, "mistral");
  const GptConfig linear = Read(llama, key("llama.rope.scaling.factor", 4.0f));
  EXPECT_EQ(linear.rope_scaling, RopeScaling::kLinear);
  EXPECT_EQ(linear.rope_factor, 4);
  EXPECT_EQ(Read(Config("yarn"), key("llama.rope.scaling.yarn_beta_fast", 16.0f)).rope_beta_fast,
            16);
  const GptConfig gemma = Config("gemma3", {{"attention_scale", "0"}});
  const char kPattern[] = "gemma3.attention.sliding_window_pattern";
  EXPECT_EQ(LayerKindsText(Read(gemma, key(kPattern, 2u)).layer_kinds), "wf");
  EXPECT_TRUE(Contains(ReadRefused(gemma, key(kPattern, std::vector<bool>{true, false})),
                       "found 2 layer kinds, expected 7"));
  const GptConfig largest =
      With(gemma, {{"n_layer", "62"}, {"attention_scale", "0.5773502691896258"}});
  EXPECT_EQ(Read(largest, [](auto&, auto&) {}).layer(0).score_scale, largest.layer(0).score_scale);
}

}  // namespace
}  // namespace folio
