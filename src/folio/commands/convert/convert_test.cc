// These tests check the output of `folio convert` with `folio inspect model`, through the real
// program.
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
  nlohmann::json Said(const std::string& arguments) {
    return nlohmann::json::parse(Well(Run(arguments + " --json")).out);
  }
  const std::string tiny_ = Fixture("gpt2-tiny").string();
};

TEST_F(ConvertCommand, TellsWhatItWroteAndFound) {
  const ProgramRun run = Well(Run("convert " + tiny_ + " m.gguf --to gguf --dtype q8_0"));
  EXPECT_TRUE(Contains(run.out, "gpt2-tiny, hf", "m.gguf, gguf, ", " in q8_0", "29,344",
                       "28 tensors", "of 16 tokens differ by at most"));
  EXPECT_TRUE(Contains(run.err, "doing=writing", "doing=comparing tensors"));
  const nlohmann::json json = Said("convert m.gguf back --to hf");
  EXPECT_EQ(json.at("schema"), 1);
  EXPECT_EQ(json.at("from_format"), "gguf");
  EXPECT_EQ(json.at("format"), "hf");
  EXPECT_EQ(json.at("dtype"), "f32");
  EXPECT_EQ(json.at("parameters"), 29344);
  EXPECT_EQ(json.at("logit_difference"), 0.0);
  EXPECT_GT(json.at("bytes"), 4 * 29344);
}

TEST_F(ConvertCommand, TheNameOfTheResultSaysFormatAndDtype) {
  const auto said = [&](const std::string& name) {
    const nlohmann::json json = Said("convert " + tiny_ + " " + name);
    return json.at("format").get<std::string>() + " " + json.at("dtype").get<std::string>();
  };
  EXPECT_EQ(said("a.gguf"), "gguf f32");
  EXPECT_EQ(said("A-Q8_0.GGUF"), "gguf q8_0");
  EXPECT_EQ(said("a.bf16.gguf"), "gguf bf16");
  EXPECT_EQ(said("af16.gguf"), "gguf f32");
  EXPECT_EQ(said("a.gguf --overwrite --dtype f16"), "gguf f16");
  EXPECT_EQ(said("b-q8_0.gguf --dtype f32"), "gguf f32");
  EXPECT_EQ(said("a.bin"), "llmc f32");
  EXPECT_EQ(said("a"), "hf f32");
  EXPECT_EQ(said("model-v1.2"), "hf f32");
  EXPECT_EQ(said("b/"), "hf f32");
  EXPECT_EQ(said("c.gguf --to hf"), "hf f32");
  EXPECT_EQ(said("d --to nanogpt"), "nanogpt f32");
}

TEST_F(ConvertCommand, AFileIsAModelToEveryCommand) {
  Well(Run("convert " + tiny_ + " m.gguf --to gguf -qq"));
  const std::string ids = " --ids 1,2,3 --greedy --max-tokens 5";
  const nlohmann::json ours = Said("generate --model " + tiny_ + ids);
  nlohmann::json theirs = Said("generate --model m.gguf" + ids);
  EXPECT_EQ(theirs.at("ids"), ours.at("ids"));
  EXPECT_EQ(Said("inspect plan --model m.gguf").at("weights_bytes"),
            Said("inspect plan --model " + tiny_).at("weights_bytes"));
}

TEST_F(ConvertCommand, InspectModelTellsFormatDtypesAndTokenizer) {
  const std::string file = (Fixture("gguf-tiny") / "model.gguf").string();
  EXPECT_TRUE(Contains(Run("inspect model " + file).out, "GGUF file, 42.56 KB", "bpe, 274 tokens",
                       "vocabulary  277 tokens", "Q8_0", "Q4_0", " as F16",
                       "transformer.h.1.mlp.c_proj.weight"));
  const nlohmann::json json = Said("inspect model --model " + file);
  EXPECT_EQ(json.at("format"), "gguf");
  EXPECT_EQ(json.at("refused"), nullptr);
  EXPECT_EQ(json.at("tokenizer").at("kind"), "bpe");
  EXPECT_EQ(json.at("stored").at("F16"), 277 * 32);
  EXPECT_EQ(json.at("summary").at("vocabulary"), 277);
  EXPECT_EQ(json.at("tensors").at(0).at("dtype"), "F16");
  EXPECT_EQ(json.at("tensors").at(0).at("bytes"), 2 * 277 * 32);
  const nlohmann::json directory = Said("inspect model " + tiny_);
  EXPECT_EQ(directory.at("format"), "hf");
  EXPECT_EQ(directory.at("tokenizer"), nullptr);
}

TEST_F(ConvertCommand, InspectModelListsWhatItRefusesWithTheReason) {
  GgufBytes bytes;
  bytes.String("general.architecture", "mamba").Tensor("blk.0.k", {512}, 12, std::string(288, 'k'));
  std::ofstream(At("mamba.gguf"), std::ios::binary) << bytes.File();
  EXPECT_TRUE(Contains(Well(Run("inspect model mamba.gguf")).out,
                       "refused     mamba.gguf: unsupported architecture \"mamba\"",
                       "folio supports gpt2, llama", "blk.0.k", "(512)", "Q4_K"));
  const nlohmann::json json = Said("inspect model mamba.gguf");
  EXPECT_TRUE(Contains(json.at("refused").at("what").get<std::string>(), "mamba"));
  EXPECT_EQ(json.at("tensors").size(), 1);
  Ended(3, Run("generate --model mamba.gguf --prompt x"));
  std::ofstream(At("broken.gguf"), std::ios::binary) << bytes.File().substr(0, 60);
  Ended(3, Run("inspect model broken.gguf"));
}

TEST_F(ConvertCommand, AnAdapterGoesWithTheModelOfEveryCommand) {
  const std::string model = " --model " + (Fixture("fine-tuning") / "model").string();
  const std::string adapter = " --adapter " + (Fixture("peft") / "plain").string();
  for (const std::string command :
       {"generate --greedy --max-tokens 8", "inspect probabilities", "inspect lens",
        "inspect attention --json", "inspect activations"}) {
    const ProgramRun without = Run(command + " --ids 5,60,0" + model);
    const ProgramRun with = Run(command + " --ids 5,60,0" + model + adapter);
    EXPECT_EQ(without.status, 0) << command << without.err;
    EXPECT_EQ(with.status, 0) << command << with.err;
    EXPECT_NE(with.out, without.out) << command;
  }
  // All of them search for it.
  const std::string twice = " " + (Fixture("fine-tuning") / "model").string();
  for (const std::string& command :
       {"generate --ids 1" + model, "serve --port 0" + model, "eval perplexity x.txt" + model,
        "eval cloze x.jsonl" + model, "eval compare" + twice + twice + " x.txt",
        "inspect model" + model, "inspect probabilities --ids 1" + model,
        "inspect lens --ids 1" + model, "inspect attention --ids 1" + model,
        "inspect activations --ids 1" + model, "inspect embeddings" + model,
        "inspect dump --batch x --out y" + model, "bench generate" + model, "bench serve" + model,
        "explain block --text a" + model, "convert" + twice + " z --to gguf"}) {
    EXPECT_TRUE(
        Contains(Ended(3, Run(command + " --adapter /nowhere/adapter")).err, "/nowhere/adapter"))
        << command;
  }
  Ended(3, Run("eval compare" + twice + twice + " x.txt --adapter-b /nowhere"));
  Ended(2, Run("serve --port 0" + model + model + " --adapter /nowhere"));
  Ended(2, Run("serve --port 0" + model + " --adapter other=/nowhere"));
  Ended(2, Run("bench generate --preset debug --adapter /nowhere"));
  EXPECT_TRUE(Names().empty());
}

TEST_F(ConvertCommand, CharactersGoToNanoGptAndLlmcAndBack) {
  Well(RunShell(At(""), "$F data stories --out s.txt --bytes 20000 --no-config"));
  const std::string width =
      " --set model.n_inner=16";  // four times the channels, as in other programs
  Well(Run("train --data s.txt --preset debug --max-steps 2 --out run -qq" + width));
  for (const std::string format : {"nanogpt", "llmc"}) {
    const ProgramRun run = Well(Run("convert run out-" + format + " --to " + format));
    const std::string words = " --prompt 'One day' --seed 1 --max-tokens 5";
    const auto ours = Said("generate --model run" + words);
    const auto theirs = Said("generate --model out-" + format + words);
    EXPECT_EQ(theirs.at("prompt_ids"), ours.at("prompt_ids")) << format;
    if (format == "llmc") {
      EXPECT_EQ(theirs.at("text"), ours.at("text"));
    } else {
      EXPECT_TRUE(Contains(run.err, "nanogpt computes gelu"));
    }
  }
}

TEST_F(ConvertCommand, MistakesAreErrors) {
  const auto expect = [&](int status, const std::string& arguments, std::string_view part) {
    const ProgramRun run = Run(arguments);
    EXPECT_EQ(run.status, status) << arguments;
    EXPECT_TRUE(Contains(run.err, part)) << arguments;
  };
  expect(2, "convert " + tiny_ + " m --to zip", "gguf");
  expect(2, "convert " + tiny_ + " m --to gguf --dtype q2_k", "q4_k_m");
  expect(3, "convert " + tiny_ + " m --to gguf --dtype q4_k",
         "use q4_k_m, which has smaller blocks for such rows, f16 or bf16");
  expect(2, "convert " + tiny_ + " m --to hf --dtype q4_k_m", "hf holds no matrices of q4_k_m");
  expect(2, "convert " + tiny_ + " m.safetensors", "name a directory");
  expect(2, "convert " + tiny_ + " m.pt", "nanogpt");
  expect(2, "convert " + tiny_ + " m-q8_0", "hf holds no matrices of q8_0");
  expect(2, "convert " + tiny_ + " m --to hf --dtype q8_0", "hf holds no matrices of q8_0");
  expect(2, "convert " + tiny_ + " m --to nanogpt --dtype q4_0", "it holds f32, f16, bf16");
  expect(2, "convert " + tiny_ + " m --to llmc --dtype f16", "it holds f32, bf16");
  expect(3, "convert " + tiny_ + " m --to hf --adapter " + tiny_, ": no adapter found");
  expect(3, "convert /nowhere m --to gguf", "/nowhere");
  expect(3, "convert " + Fixture("gpt2-untied-postnorm").string() + " m --to gguf",
         "norm_position = post");
  expect(2, "inspect model " + tiny_ + " --model " + tiny_, "--model");
  expect(2, "inspect model " + tiny_ + " --set model.n_layer=3", "model.n_layer");
  EXPECT_TRUE(Names().empty());
}

}  // namespace
}  // namespace folio
