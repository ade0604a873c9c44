// Files that are no model that folio reads: the error names each for what it is.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "folio/formats/model_formats.h"
#include "folio/io/file.h"
#include "folio/io/model_dir.h"
#include "folio/io/safetensors.h"
#include "folio/model/test_models.h"
#include "folio/model_files/checkpoint.h"
#include "folio/model_files/config_json.h"
#include "folio/text/byte_tokenizer.h"
#include "folio/text/encodings.h"
#include "tests/kit/directory.h"
#include "tests/kit/expect.h"

namespace folio {
namespace {

namespace fs = std::filesystem;

constexpr char kPointer[] =
    "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a214614ab2935\nsize 12345\n";

// A small model in a directory, of which files are replaced.
class OtherInputs : public InTemporaryDirectory {
 protected:
  OtherInputs() : weights_(TinyConfig()) {
    Scatter(weights_, 3);
    SaveModel(At(""), weights_);
  }
  void Put(const std::string& name, const std::string& contents) const {
    WriteFileAtomically(At(name), contents);
  }
  std::string Refusal(const std::string& name = "") const {
    return ErrorAndHelp([&] { FindModel(At(name)); });
  }
  // The configuration with another member.
  void Configure(const std::string& member) const {
    Put(kConfigFile, Replaced(GptConfigToJson(weights_.config()), "{", "{" + member + ","));
  }

  GptWeights weights_;
};

TEST_F(OtherInputs, FilesThatWereNotDownloaded) {
  Put("m.gguf", kPointer);
  EXPECT_TRUE(Contains(Refusal("m.gguf"), "m.gguf: a Git LFS pointer, not the file itself"));
  Put("m.gguf", "<!DOCTYPE html>\n<html>");
  EXPECT_TRUE(Contains(Refusal("m.gguf"), "m.gguf: an HTML page, not the file itself"));
  Put("tokenizer.json", kPointer);
  EXPECT_TRUE(Contains(Refusal(), "tokenizer.json: a Git LFS pointer, not the file itself"));
  fs::remove(At("tokenizer.json"));
  Put(kWeightsFile, kPointer);
  EXPECT_TRUE(Contains(Refusal(), "model.safetensors: a Git LFS pointer, not the file itself",
                       "12345 bytes"));
  fs::rename(At(kWeightsFile), At(kTorchWeightsFile));
  EXPECT_TRUE(Contains(Refusal(), "pytorch_model.bin: a Git LFS pointer, not the file itself"));
}

TEST_F(OtherInputs, OtherProgramsModels) {
  fs::remove(At(kWeightsFile));
  for (const auto& [file, program] : std::vector<std::pair<std::string, std::string>>{
           {"model.onnx", "ONNX"},
           {"tf_model.h5", "Keras or TensorFlow"},
           {"flax_model.msgpack", "Flax"},
           {"weights.npz", "NumPy"},
           {"consolidated.00.pth", "Meta or Mistral"}}) {
    Put(file, "\x01\x02");
    EXPECT_TRUE(Contains(Refusal(), "model.safetensors is missing", file, program));
    if (!file.ends_with(".pth")) {
      EXPECT_TRUE(Contains(Refusal(file), file + " is in the format of " + program));
    }
    fs::remove(At(file));
  }
  Put("empty.gguf", "");
  EXPECT_TRUE(Contains(Refusal("empty.gguf"), "no model found", "empty.gguf is empty"));
  Put("ggml-model.bin", "lmgg\x01");
  EXPECT_TRUE(Contains(Refusal("ggml-model.bin"), "ggml's format before GGUF"));
}

// As repositories of GGUF files are, which may have the original's configuration too.
TEST_F(OtherInputs, GgufFilesBesideAConfiguration) {
  fs::remove(At(kWeightsFile));
  for (const char* name : {"m-00002-of-00003.gguf", "m-00001-of-00003.gguf"}) Put(name, "GGUF");
  EXPECT_TRUE(Contains(Refusal(), "no model found", "m-00001-of-00003.gguf is one by itself",
                       "give the file: " + At("m-00001-of-00003.gguf").string()));
}

TEST_F(OtherInputs, QuantisedModels) {
  const std::pair<const char*, const char*> kinds[] = {
      {R"("quantization_config":{"bits":4,"quant_method":"gptq"})", "quant_method is \"gptq\""},
      {R"("quantization_config":{"quant_method":"awq"})", "\"awq\""},
      {R"("quantization_config":{"load_in_4bit":true,"quant_method":"bitsandbytes"})",
       "\"bitsandbytes\""},
      {R"("quantization_config":{"quant_method":"fp8"})", "\"fp8\""},
      {R"("compression_config":{"quant_method":"compressed-tensors"})", "compressed-tensors"},
      {R"("quantization":{"group_size":64,"bits":4})", "an MLX-quantized model"}};
  for (const auto& [member, what] : kinds) {
    Configure(member);
    EXPECT_TRUE(Contains(Refusal(), "quantized model", what));
  }
  // Where the configuration does not tell.
  Configure(R"("x":0)");
  std::vector<int32_t> packed(4);
  for (const auto& [name, what] : std::vector<std::pair<std::string, std::string>>{
           {"h.0.attn.c_attn.qweight", "GPTQ or AWQ"},
           {"h.0.attn.c_attn.weight.absmax", "bitsandbytes"},
           {"h.0.attn.c_attn.weight_scale_inv", "8-bit floats"}}) {
    const std::vector<NamedTensor> tensors = {{name, Tensor(packed.data(), {4})}};
    WriteSafetensors(At(kWeightsFile), tensors);
    EXPECT_TRUE(Contains(Refusal(), ": quantized weights are not supported", name, what, "GGUF"));
  }
}

// The model opens for its ids; whoever needs its texts hears what the file is.
TEST_F(OtherInputs, TokenizersThatAreNotRead) {
  Put("tokenizer_config.json", "{}");
  for (const auto& [file, what] : std::vector<std::pair<std::string, std::string>>{
           {"tokenizer.model", "a SentencePiece model"},
           {"tekken.json", "a Mistral tokenizer"},
           {"vocab.txt", "WordPiece"}}) {
    Put(file, "x");
    const FoundModel found = FindModel(At(""));
    EXPECT_EQ(found.tokenizer, nullptr);
    EXPECT_TRUE(Contains(found.tokenizer_help, file, what, "tokenizer.json"));
    for (const fs::path& given : {At(""), At(file)}) {
      EXPECT_TRUE(Contains(ErrorAndHelp([&] { OpenTokenizer(given.string()); }), what, file,
                           "save_pretrained"));
    }
    // It is of no account beside one that is read.
    ByteTokenizer().Save(At("").string());
    EXPECT_NE(FindModel(At("")).tokenizer, nullptr);
    fs::remove(At(file));
    fs::remove(At("tokenizer.json"));
  }
}

TEST_F(OtherInputs, TokenizersOfOtherKinds) {
  for (const char* type : {"Unigram", "WordPiece"}) {
    Put("tokenizer.json", fmt::format(R"({{"model":{{"type":"{}","vocab":{{"a":0}}}}}})", type));
    EXPECT_TRUE(Contains(Refusal(), fmt::format("model type '{}' is not supported", type), "BPE"));
  }
  Put("tokenizer.json", R"({"model":{"type":"WordLevel","vocab":{"hello":0,"world":1}}})");
  EXPECT_TRUE(Contains(Refusal(), "a WordLevel tokenizer of words is not supported", "\"hello\""));
}

}  // namespace
}  // namespace folio
