#include "folio/model/families.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "folio/base/error.h"
#include "folio/model/test_models.h"
#include "tests/kit/expect.h"

namespace folio {
namespace {

constexpr std::array kAll = {FileFormat::kHuggingFace, FileFormat::kGguf, FileFormat::kNanoGpt,
                             FileFormat::kLlmc, FileFormat::kOpenAi};

TEST(Families, NameEachParameterOnceInEveryFormat) {
  for (const Family& family : Families()) {
    for (const FileFormat format : kAll) {
      if ((family.formats & Formats(format)) == 0) continue;
      GptConfig config = TinyConfig();
      // OpenAI's release has the head's matrix in the embeddings alone.
      config.tie_word_embeddings = format == FileFormat::kOpenAi;
      std::set<std::string> names;
      const ParamTable table(config);
      for (const ParamInfo& info : table.params()) {
        const std::string name = NameInFiles(family, format, info);
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
    EXPECT_EQ(NameInFiles(Gpt2Family(), FileFormat::kHuggingFace, info), info.name);
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
  const auto gelu = [](GptConfig& c) { c.activation_function = "gelu"; };
  const auto inner = [](GptConfig& c) { c.n_inner = 7; };
  const auto two = [](GptConfig& c) {
    c.norm_position = "post";
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
