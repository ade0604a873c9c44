// What `folio convert` writes and `folio inspect model` says of it, through the real program.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/kit/directory.h"
#include "tests/kit/expect.h"
#include "tests/kit/gguf_bytes.h"
#include "tests/kit/paths.h"
#include "tests/kit/program.h"

namespace folio {
namespace {

class ConvertCommand : public InTemporaryDirectory {
 protected:
  ProgramRun Run(const std::string& arguments) {
    return RunShell(At(""), "$F " + arguments + " --no-config");
  }
  const std::string tiny_ = Fixture("gpt2-tiny").string();
};

TEST_F(ConvertCommand, TellsWhatItWroteAndFound) {
  const ProgramRun run = Run("convert " + tiny_ + " m.gguf --to gguf --dtype q8_0");
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_TRUE(Contains(run.out, "gpt2-tiny, hf", "m.gguf, gguf, ", " in q8_0", "29,344",
                       "28 tensors", "of 16 tokens differ by at most"));
  EXPECT_TRUE(Contains(run.err, "doing=writing", "doing=comparing tensors"));
  const nlohmann::json json = nlohmann::json::parse(Run("convert m.gguf back --to hf --json").out);
  EXPECT_EQ(json.at("schema"), 1);
  EXPECT_EQ(json.at("from_format"), "gguf");
  EXPECT_EQ(json.at("format"), "hf");
  EXPECT_EQ(json.at("dtype"), "f32");
  EXPECT_EQ(json.at("parameters"), 29344);
  EXPECT_EQ(json.at("logit_difference"), 0.0);
  EXPECT_GT(json.at("bytes"), 4 * 29344);
}

TEST_F(ConvertCommand, AFileIsAModelToEveryCommand) {
  ASSERT_EQ(Run("convert " + tiny_ + " m.gguf --to gguf -qq").status, 0);
  const std::string ids = " --ids 1,2,3 --greedy --max-tokens 5 --json";
  const nlohmann::json ours = nlohmann::json::parse(Run("generate --model " + tiny_ + ids).out);
  nlohmann::json theirs = nlohmann::json::parse(Run("generate --model m.gguf" + ids).out);
  EXPECT_EQ(theirs.at("ids"), ours.at("ids"));
  EXPECT_EQ(
      nlohmann::json::parse(Run("inspect plan --model m.gguf --json").out).at("weights_bytes"),
      nlohmann::json::parse(Run("inspect plan --model " + tiny_ + " --json").out)
          .at("weights_bytes"));
}

TEST_F(ConvertCommand, InspectModelTellsFormatDtypesAndTokenizer) {
  const std::string file = (Fixture("gguf-tiny") / "model.gguf").string();
  const ProgramRun run = Run("inspect model " + file);
  EXPECT_TRUE(Contains(run.out, "GGUF file, 42.56 KB", "bpe, 274 tokens", "vocabulary   277 tokens",
                       "Q8_0", "Q4_0", " as F16", "transformer.h.1.mlp.c_proj.weight"));
  const nlohmann::json json =
      nlohmann::json::parse(Run("inspect model --json --model " + file).out);
  EXPECT_EQ(json.at("format"), "gguf");
  EXPECT_EQ(json.at("refused"), nullptr);
  EXPECT_EQ(json.at("tokenizer").at("kind"), "bpe");
  EXPECT_EQ(json.at("stored").at("F16"), 277 * 32);
  EXPECT_EQ(json.at("summary").at("vocabulary"), 277);
  EXPECT_EQ(json.at("tensors").at(0).at("dtype"), "F16");
  EXPECT_EQ(json.at("tensors").at(0).at("bytes"), 2 * 277 * 32);
  const nlohmann::json directory =
      nlohmann::json::parse(Run("inspect model " + tiny_ + " --json").out);
  EXPECT_EQ(directory.at("format"), "hf");
  EXPECT_EQ(directory.at("tokenizer"), nullptr);
}

TEST_F(ConvertCommand, InspectModelListsWhatItRefusesWithTheReason) {
  GgufBytes bytes;
  bytes.String("general.architecture", "llama").Tensor("blk.0.k", {512}, 12, std::string(288, 'k'));
  std::ofstream(At("llama.gguf"), std::ios::binary) << bytes.File();
  const ProgramRun run = Run("inspect model llama.gguf");
  EXPECT_EQ(run.status, 0);
  EXPECT_TRUE(Contains(run.out, "refused      llama.gguf: a model of the architecture \"llama\"",
                       "folio runs \"gpt2\"", "blk.0.k", "(512)", "Q4_K"));
  const nlohmann::json json = nlohmann::json::parse(Run("inspect model llama.gguf --json").out);
  EXPECT_TRUE(Contains(json.at("refused").at("what").get<std::string>(), "llama"));
  EXPECT_EQ(json.at("tensors").size(), 1);
  EXPECT_EQ(Run("generate --model llama.gguf --prompt x").status, 3);
  std::ofstream(At("broken.gguf"), std::ios::binary) << bytes.File().substr(0, 60);
  EXPECT_EQ(Run("inspect model broken.gguf").status, 3);
}

TEST_F(ConvertCommand, MistakesAreErrors) {
  const auto expect = [&](int status, const std::string& arguments, std::string_view part) {
    const ProgramRun run = Run(arguments);
    EXPECT_EQ(run.status, status) << arguments;
    EXPECT_TRUE(Contains(run.err, part)) << arguments;
  };
  expect(2, "convert " + tiny_ + " m --to zip", "gguf");
  expect(2, "convert " + tiny_ + " m --to gguf --dtype q4_k", "q4_0");
  expect(2, "convert " + tiny_ + " m", "--to");
  expect(3, "convert /nowhere m --to gguf", "/nowhere");
  expect(3, "convert " + Fixture("gpt2-untied-postnorm").string() + " m --to gguf",
         "norm_position is post");
  expect(2, "inspect model " + tiny_ + " --model " + tiny_, "--model");
  expect(2, "inspect model " + tiny_ + " --set model.n_layer=3", "model.n_layer");
  EXPECT_TRUE(Names().empty());
}

}  // namespace
}  // namespace folio
