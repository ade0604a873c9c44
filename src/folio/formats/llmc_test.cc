#include "folio/formats/llmc.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "folio/formats/model_formats.h"
#include "folio/formats/test_expected.h"
#include "folio/io/file.h"
#include "folio/io/json.h"
#include "folio/io/model_dir.h"
#include "folio/io/test_zip_bytes.h"
#include "folio/model/test_models.h"
#include "folio/model/transformer.h"
#include "folio/model_files/checkpoint.h"
#include "folio/tensor/dtype.h"
#include "folio/text/bpe_tokenizer.h"
#include "folio/text/byte_tokenizer.h"
#include "folio/text/char_tokenizer.h"
#include "folio/text/test_vocab.h"
#include "tests/kit/directory.h"
#include "tests/kit/expect.h"
#include "tests/kit/paths.h"

namespace folio {
namespace {

// Float32 numbers a, a + step ... as bytes.
std::string Numbers(int64_t count, float from, float step = 1) {
  std::string bytes;
  for (int64_t i = 0; i < count; ++i) {
    const float value = from + step * static_cast<float>(i);
    bytes.append(reinterpret_cast<const char*>(&value), sizeof(value));
  }
  return bytes;
}

std::string Header(const std::vector<int64_t>& values) {
  std::string header;
  for (const int64_t value : values) header += Little(static_cast<uint64_t>(value), 4);
  return header + std::string(1024 - header.size(), '\0');
}

constexpr int64_t kV = 3, kP = 2, kC = 2, kL = 2, kPadded = 128;

// As llm.c's own script lays a model out, each array with numbers of its own: 1000 for wte, 2000
// for wpe, then 3000 and more for the kinds of a block, all layers of one kind together.
std::string WholeFile() {
  std::string bytes = Header({20240326, 3, kP, kV, kL, 1, kC, kPadded});
  bytes += Numbers(kV * kC, 1000) + Numbers((kPadded - kV) * kC, 0, 0) + Numbers(kP * kC, 2000);
  float kind = 3000;
  for (const int64_t count :
       {kC, kC, 3 * kC * kC, 3 * kC, kC * kC, kC, kC, kC, 4 * kC * kC, 4 * kC, 4 * kC * kC, kC}) {
    bytes += Numbers(kL * count, kind);
    kind += 1000;
  }
  return bytes + Numbers(kC, kind) + Numbers(kC, kind + 1000);
}

GptConfig Config(int64_t vocab_size = kV) {
  GptConfig config = TinyConfig();
  config.vocab_size = vocab_size;
  config.n_positions = kP;
  config.n_embd = kC;
  config.n_layer = kL;
  config.n_head = 1;
  return config;
}

class Llmc : public InTemporaryDirectory {
 protected:
  FoundModel Found(const std::string& bytes) const { return FindModel(PutFile("m.bin", bytes)); }
  std::string Refusal(const std::string& bytes) const {
    return ErrorAndHelp([&] { OpenLlmc(PutFile("m.bin", bytes), Loading::kMap); });
  }
  std::string WithHeader(size_t index, int64_t value) const {
    return Refusal(WholeFile().replace(4 * index, 4, Little(static_cast<uint64_t>(value), 4)));
  }
};

TEST_F(Llmc, EveryArrayLiesWhereLlmcPutsIt) {
  const FoundModel found = Found(WholeFile());
  EXPECT_EQ(found.format, "llmc");
  EXPECT_EQ(found.model.config, Config());
  const auto weights = MapWeights(found.model);
  const GptParams& p = weights->params();
  const auto first = [](const Tensor& x) { return x.data<float>()[0]; };
  EXPECT_EQ(first(p.wte), 1000);
  EXPECT_EQ(p.wte.data<float>()[kV * kC - 1], 1000 + kV * kC - 1);
  EXPECT_EQ(first(p.wpe), 2000);
  for (int64_t l = 0; l < kL; ++l) {
    const BlockParams& h = p.h[static_cast<size_t>(l)];
    const auto at = static_cast<float>(l);
    EXPECT_EQ(first(h.ln_1.weight), 3000 + at * kC);
    EXPECT_EQ(first(h.ln_1.bias), 4000 + at * kC);
    EXPECT_EQ(first(h.attn.c_attn.bias), 6000 + at * 3 * kC);
    EXPECT_EQ(first(h.attn.c_proj.weight), 7000 + at * kC * kC);
    EXPECT_EQ(first(h.ln_2.weight), 9000 + at * kC);
    EXPECT_EQ(first(h.mlp.c_proj.bias), 14000 + at * kC);
    // (out,in) in the file: the next input is the next number, the next output C numbers on.
    for (int64_t in = 0; in < kC; ++in) {
      for (int64_t out = 0; out < 3 * kC; ++out) {
        EXPECT_EQ(h.attn.c_attn.weight.data<float>()[in * 3 * kC + out],
                  5000 + at * 3 * kC * kC + static_cast<float>(out * kC + in));
      }
    }
    EXPECT_EQ(h.mlp.c_proj.weight.data<float>()[kC], 13000 + at * 4 * kC * kC + 1);
  }
  EXPECT_EQ(first(p.ln_f.weight), 15000);
  EXPECT_EQ(first(p.ln_f.bias), 16000);
}

TEST_F(Llmc, AFileGivesTheLogitsThatLlmcGives) {
  const std::filesystem::path dir = Fixture("llmc-tiny");
  for (const Loading loading : {Loading::kMap, Loading::kRead}) {
    // Theirs are of float32.
    EXPECT_TRUE(GivesExpected(FindModel(dir / "model.bin", loading).model, dir, 2e-6));
  }
}

TEST_F(Llmc, WhatIsWrittenIsTheSameFile) {
  const auto weights = ReadWeights(Found(WholeFile()).model);
  SaveLlmc(At("again.bin"), {*weights});
  EXPECT_EQ(ReadFile(At("again.bin")), WholeFile());
  // And by way of folio's own format.
  std::filesystem::create_directories(At("hf"));
  SaveModel(At("hf"), *weights);
  SaveLlmc(At("third.bin"), {*LoadModel(At("hf"))});
  EXPECT_EQ(ReadFile(At("third.bin")), WholeFile());
}

TEST_F(Llmc, BFloat16IsTheNearestOfEachNumber) {
  GptWeights weights(Config());
  Scatter(weights, 4);
  SaveLlmc(At("m.bin"), {.weights = weights, .dtype = Dtype::kBF16});
  EXPECT_EQ(std::filesystem::file_size(At("m.bin")), 1024 + (WholeFile().size() - 1024) / 2);
  EXPECT_EQ(ReadFile(At("m.bin")).substr(4, 1), "\5");
  const auto read = ReadWeights(FindModel(At("m.bin")).model);
  for (size_t i = 0; i < weights.tensors().size(); ++i) {
    const auto from = Elements<float>(weights.tensors()[i]);
    const auto to = Elements<float>(read->tensors()[i]);
    for (size_t k = 0; k < from.size(); ++k) EXPECT_EQ(to[k], ToFloat(ToBF16(from[k])));
  }
}

TEST_F(Llmc, WhatLlmcCannotComputeIsRefusedWithTheReason) {
  const auto refusal = [&](const GptConfig& config) {
    const GptWeights weights(config);
    return ErrorAndHelp([&] { SaveLlmc(At("no.bin"), {weights}); });
  };
  ExpectSettingsRefused(Config(),
                        {{"norm_position", "post"},
                         {"position_embedding", "sinusoidal"},
                         {"lm_head_bias", "true"},
                         {"tie_word_embeddings", "false"},
                         {"n_inner", "5"},
                         {"causal", "false"},
                         {"scale_attn_weights", "false"},
                         {"scale_attn_by_inverse_layer_idx", "true"}},
                        refusal);
  EXPECT_TRUE(Contains(
      refusal(With(Config(), {{"activation_function", "relu"}, {"layer_norm_epsilon", "1e-6"}})),
      "layer_norm_epsilon = 1e-06, activation_function = relu"));
  EXPECT_EQ(Names(), Strings{});
}

TEST_F(Llmc, CutShortAtEveryByteIsRefused) {
  const std::string whole = WholeFile();
  for (size_t size = 0; size < whole.size(); size += size < 40 ? 1 : 37) {
    EXPECT_TRUE(Contains(Refusal(whole.substr(0, size)), "m.bin")) << size;
  }
  EXPECT_TRUE(Contains(Refusal(whole.substr(0, whole.size() - 1)), "8 bytes at byte"));
  EXPECT_TRUE(Contains(Refusal(whole + "x"), "1 extra bytes"));
}

TEST_F(Llmc, SizesThatDoNotFitTheFileAreRefused) {
  EXPECT_TRUE(Contains(WithHeader(1, 1), "version 1", "train_gpt2.py"));
  EXPECT_TRUE(Contains(WithHeader(1, 2), "version 2"));
  EXPECT_TRUE(Contains(WithHeader(1, 5), "extra bytes"));
  EXPECT_TRUE(Contains(WithHeader(2, 3), "bytes at byte"));
  EXPECT_TRUE(Contains(WithHeader(2, 1), "extra bytes"));
  EXPECT_TRUE(Contains(WithHeader(2, -1), "n_positions"));
  EXPECT_TRUE(Contains(WithHeader(3, 0), "vocab_size"));
  EXPECT_TRUE(Contains(WithHeader(3, 129), "padded to 128"));
  EXPECT_TRUE(Contains(WithHeader(4, 65535), "fewer tensors"));
  EXPECT_TRUE(Contains(WithHeader(4, INT32_MAX), "n_layer"));
  EXPECT_TRUE(Contains(WithHeader(5, 3), "n_head"));
  EXPECT_TRUE(Contains(WithHeader(6, 1 << 30), "m.bin"));
  EXPECT_TRUE(Contains(WithHeader(7, -1), "padded to -1"));
  EXPECT_TRUE(Contains(WithHeader(7, INT32_MAX), "bytes at byte"));
  EXPECT_TRUE(Contains(ErrorOf([&] { Found(WholeFile().replace(0, 4, Little(20240327, 4))); }),
                       "no model found"));
}

TEST_F(Llmc, ATokenizerGoesAndComesBackAsItself) {
  const BpeTokenizer tokenizer(LearntVocab(1, 300));
  const GptWeights weights(Config(tokenizer.vocab_size()));
  SaveLlmc(At("m.bin"), {weights, &tokenizer});
  ASSERT_EQ(Names(), (Strings{"gpt2_tokenizer.bin", "m.bin"}));
  const FoundModel found = FindModel(At("m.bin"));
  ASSERT_NE(found.tokenizer, nullptr);
  EXPECT_EQ(found.tokenizer->hash(), tokenizer.hash());
  EXPECT_EQ(found.model.config.eos_token_id, tokenizer.end_of_text());
  // Again is fine; another one is not.
  SaveLlmc(At("m.bin"), {weights, &tokenizer});
  const BpeTokenizer other(LearntVocab(2, 300));
  EXPECT_TRUE(Contains(ErrorOf([&] {
                         SaveLlmc(At("n.bin"), {weights, &other});
                       }),
                       "gpt2_tokenizer.bin: not replaced"));
  EXPECT_FALSE(std::filesystem::exists(At("n.bin")));
}

// The file holds bytes of tokens alone: what a tokenizer is follows from them.
TEST_F(Llmc, EveryKindOfTokenizerComesBackAsItself) {
  const std::vector<std::string> turns = {"<|user|>", "<|assistant|>"}, end = {"<|endoftext|>"};
  const BpeTokenizer bpe(LearntVocab(1, 300));
  const ByteTokenizer bytes;
  const CharTokenizer characters({U'\n', U'a', U'é', U'😀'}), no_line_break({U'a', U'b'});
  std::vector<std::unique_ptr<Tokenizer>> all;
  for (const Tokenizer* plain :
       std::initializer_list<const Tokenizer*>{&bpe, &bytes, &characters, &no_line_break}) {
    all.push_back(plain->WithSpecials({}));
    all.push_back(plain->WithSpecials(turns));
    all.push_back(all.back()->WithSpecials(std::vector<std::string>{"<|x|>"}));
  }
  all.push_back(characters.WithSpecials(end));
  all.push_back(all.back()->WithSpecials(turns));
  for (const auto& tokenizer : all) {
    const GptWeights weights(Config(tokenizer->vocab_size() + 3));
    SaveLlmc(At("m.bin"), {weights, tokenizer.get()});
    const FoundModel found = FindModel(At("m.bin"));
    ASSERT_NE(found.tokenizer, nullptr);
    EXPECT_EQ(found.tokenizer->hash(), tokenizer->hash())
        << tokenizer->kind() << tokenizer->vocab_size();
    EXPECT_EQ(found.model.config.eos_token_id, tokenizer->end_of_text());
    std::filesystem::remove(At("gpt2_tokenizer.bin"));
  }
}

TEST_F(Llmc, ATokenizerThatItsFileCannotHoldIsRefused) {
  const ByteTokenizer bytes(std::vector<std::string>{std::string(256, 'x')});
  const GptWeights weights(Config(bytes.vocab_size()));
  EXPECT_TRUE(Contains(ErrorAndHelp([&] {
                         SaveLlmc(At("m.bin"), {weights, &bytes});
                       }),
                       "cannot store the tokenizer of this model", "258 tokens of kind bytes"));
  EXPECT_EQ(Names(), Strings{});
}

TEST_F(Llmc, BiasesThatAModelLeavesOutAreZeros) {
  for (const char* left_out : {"bias", "mlp_bias"}) {
    const GptWeights weights(With(Config(), {{left_out, "false"}}));
    Scatter(weights, 4);
    SaveLlmc(At("m.bin"), {weights});
    const auto read = ReadWeights(FindModel(At("m.bin")).model);
    EXPECT_TRUE(read->config().bias);
    const auto ours = TensorsByName(weights);
    for (const auto& [name, tensor] : TensorsByName(*read)) {
      const auto found = ours.find(name);
      const auto numbers = Elements<float>(*tensor);
      if (found == ours.end()) {
        EXPECT_EQ(std::ranges::count(numbers, 0.0f), std::ssize(numbers)) << name;
      } else {
        EXPECT_TRUE(std::ranges::equal(numbers, Elements<float>(*found->second))) << name;
      }
    }
  }
}

TEST_F(Llmc, AVocabularyOfGpt2sSizeIsGpt2s) {
  setenv("FOLIO_HOME", At("home").c_str(), 1);
  for (const int64_t tokens : {50257, 50304}) {
    std::string bytes = Header({20240326, 3, 1, tokens, 1, 1, 1, 50304});
    bytes.resize(bytes.size() + 4 * (50304 + 1 + 25 + 2), '\0');
    const FoundModel without = Found(bytes);
    EXPECT_EQ(without.tokenizer, nullptr);
    EXPECT_TRUE(Contains(without.tokenizer_help, "folio tokenizer fetch gpt2"));
  }
  const std::string merges = TestData("gpt2/vocab.bpe"), ids = TestData("gpt2/encoder.json");
  if (merges.empty() || ids.empty()) GTEST_SKIP() << "GPT-2's tokenizer is not here";
  std::filesystem::create_directories(At("home/tokenizers/gpt2"));
  std::filesystem::copy_file(merges, At("home/tokenizers/gpt2/vocab.bpe"));
  std::filesystem::copy_file(ids, At("home/tokenizers/gpt2/encoder.json"));
  const FoundModel with = FindModel(At("m.bin"));
  ASSERT_NE(with.tokenizer, nullptr);
  EXPECT_EQ(with.tokenizer->vocab_size(), 50257);
  // llm.c's own file of these tokens comes back as the same tokenizer.
  WriteFileAtomically(At("gpt2_tokenizer.bin"), LlmcTokenizerBytes(*with.tokenizer));
  EXPECT_EQ(FindModel(At("m.bin")).tokenizer->hash(), with.tokenizer->hash());
}

TEST_F(Llmc, TokenizersThatAreNotSoundAreRefused) {
  const std::string whole = LlmcTokenizerBytes(BpeTokenizer(LearntVocab(1, 300)));
  ASSERT_FALSE(whole.empty());
  const auto refusal = [&](const std::string& bytes) {
    return ErrorOf([&] { ReadLlmcTokenizer(PutFile("t.bin", bytes)); });
  };
  const auto with = [&](size_t index, int64_t value) {
    return refusal(
        std::string(whole).replace(4 * index, 4, Little(static_cast<uint64_t>(value), 4)));
  };
  for (size_t size = 0; size < whole.size(); size += size < 16 ? 1 : 97)
    refusal(whole.substr(0, size));
  EXPECT_TRUE(Contains(refusal(whole + "x"), "1 extra bytes"));
  EXPECT_TRUE(Contains(with(1, 3), "version 3"));
  EXPECT_TRUE(Contains(with(2, -1), "tokens"));
  EXPECT_TRUE(Contains(with(2, INT32_MAX), "tokens"));
  EXPECT_TRUE(Contains(with(3, 300), "tokens, end-of-text token 300,"));
  EXPECT_TRUE(Contains(with(4, -1), "-1 other special tokens"));
  EXPECT_TRUE(Contains(with(4, INT32_MAX), "special tokens"));
  EXPECT_FALSE(with(4, 200).empty());
  EXPECT_TRUE(Contains(with(3, -1), "tokens, end-of-text token -1,"));
  EXPECT_TRUE(Contains(refusal(std::string(whole).replace(1024, 1, 1, '\0')), "token 0 is empty"));
}

}  // namespace
}  // namespace folio
