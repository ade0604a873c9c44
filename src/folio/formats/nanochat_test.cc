// nanochat's checkpoints: a tiny one, whose every number was drawn, against what nanochat computed
// of it (tests/fixtures/nanochat/make.py), and what is refused.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "folio/formats/model_formats.h"
#include "folio/io/file.h"
#include "folio/io/json.h"
#include "folio/io/test_zip_bytes.h"
#include "folio/model_files/families.h"
#include "folio/model_files/test_golden.h"
#include "folio/text/chat_encoder.h"
#include "folio/text/chat_template.h"
#include "tests/kit/directory.h"
#include "tests/kit/expect.h"
#include "tests/kit/paths.h"

namespace folio {
namespace {

namespace fs = std::filesystem;

const fs::path kDir = Fixture("nanochat");

GoldenDecoder TinyModel() {
  const auto families = Families();
  const auto family = std::ranges::find(families, "nanochat", &Family::model_type);
  return GoldenDecoder(FindModel(kDir / "model_000007.pt").model, kDir / "expected.safetensors",
                       *family, FileFormat::kNanochat);
}

TEST(Nanochat, GivesItsNumbersForwardAndBackward) {
  TinyModel().ExpectNumbersForwardAndBackward();
}

TEST(Nanochat, TrainsAsItDoes) {
  TinyModel().ExpectTheSameTraining();
}

TEST(Nanochat, DecodesWhatItComputesAtOnce) {
  TinyModel().ExpectTheSameDecoding();
}

class NanochatFiles : public InTemporaryDirectory {
 protected:
  // A checkpoint of one block of 24 channels, all of whose numbers are alike, in nanochat's place
  // for such; `meta` is its model_config, with those settings changed.
  void Put(int64_t V, const std::vector<std::pair<std::string, Json>>& changes = {},
           const std::string& extra = "") {
    const int64_t rows = (V + 63) / 64 * 64;
    const auto tensor = [](const std::vector<int64_t>& sizes) {
      return PickleTensor(
          "FloatStorage", "0", 24 * 4096, 0, sizes,
          sizes.size() == 2 ? std::vector<int64_t>{sizes[1], 1} : std::vector<int64_t>{1});
    };
    const std::string h = "_orig_mod.transformer.h.0.";
    ZipFiles tensors = {{"_orig_mod.transformer.wte.weight", tensor({rows, 24})},
                        {h + "attn.c_q.weight", tensor({24, 24})},
                        {h + "attn.c_k.weight", tensor({24, 24})},
                        {h + "attn.c_v.weight", tensor({24, 24})},
                        {h + "attn.c_proj.weight", tensor({24, 24})},
                        {h + "attn.ve_gate.weight", tensor({2, 12})},
                        {h + "mlp.c_fc.weight", tensor({96, 24})},
                        {h + "mlp.c_proj.weight", tensor({24, 96})},
                        {"_orig_mod.lm_head.weight", tensor({rows, 24})},
                        {"_orig_mod.value_embeds.0.weight", tensor({rows, 24})},
                        {"_orig_mod.resid_lambdas", tensor({1})},
                        {"_orig_mod.x0_lambdas", tensor({1})},
                        {"_orig_mod.smear_gate.weight", tensor({1, 24})},
                        {"_orig_mod.smear_lambda", tensor({1})},
                        {"_orig_mod.backout_lambda", tensor({1})}};
    if (!extra.empty()) tensors.emplace_back(extra, tensor({1}));
    Json config = {{"sequence_len", 2048},
                   {"vocab_size", V},
                   {"n_layer", 1},
                   {"n_head", 2},
                   {"n_kv_head", 2},
                   {"n_embd", 24},
                   {"window_pattern", "SSSL"}};
    for (const auto& [key, value] : changes) config[key] = value;
    fs::create_directories(dir_);
    WriteFileAtomically(dir_ / "model_000010.pt",
                        TorchBytes(PickleDict(tensors), {std::string(24 * 4096 * 4, '\1')}));
    WriteFileAtomically(dir_ / "meta_000010.json", Json{{"model_config", config}}.dump());
  }
  std::string Refusal(int64_t V, const std::vector<std::pair<std::string, Json>>& changes,
                      const std::string& extra = "") {
    Put(V, changes, extra);
    return ErrorAndHelp([&] { FindModel(dir_); });
  }

  const fs::path dir_ = At("chatsft_checkpoints") / "d1";
};

constexpr int64_t kTokenizerTokens = 256 + 12 + 9;

TEST_F(NanochatFiles, TakeTheLastStepAndTheTokenizerOfTheirDirectory) {
  Put(kTokenizerTokens);
  WriteFileAtomically(dir_ / "model_000002.pt", "an earlier step");
  EXPECT_TRUE(Contains(FindModel(dir_).tokenizer_help, "tokenizer.pkl"));
  fs::create_directories(At("tokenizer"));
  fs::copy_file(kDir / "tokens/tokenizer.pkl", At("tokenizer") / "tokenizer.pkl");
  const FoundModel found = FindModel(dir_);
  EXPECT_EQ(found.format, "nanochat");
  const GptConfig& config = found.model.config;
  EXPECT_EQ(config.vocab_size, kTokenizerTokens) << "rows beyond are padding";
  const int32_t bos = 256 + 12;
  EXPECT_EQ(config.bos_token_id, bos);
  EXPECT_EQ(config.eos_token_id, bos + 4);  // <|assistant_end|>
  EXPECT_EQ(config.more_eos_token_ids, std::vector<int64_t>{bos});
  // A conversation, as nanochat's tokenizer renders it; users write no special tokens.
  const ChatSource& source = found.tokenizer->chat_source();
  const ChatEncoder chat(*found.tokenizer, std::make_shared<ChatTemplate>(source.text, ""), source);
  std::vector<int32_t> ids;
  chat.Encode(*found.tokenizer, {.messages = {{ChatRole::kUser, " the<|bos|>"}}}, true, "", ids);
  EXPECT_EQ(ids.front(), bos);
  EXPECT_EQ(ids[1], bos + 1);
  EXPECT_EQ(ids[ids.size() - 2], bos + 2);
  EXPECT_EQ(ids.back(), bos + 3);
  EXPECT_EQ(std::ranges::count(ids, bos), 1);
}

TEST_F(NanochatFiles, HaveWindowsByTheirPattern) {
  EXPECT_FALSE(FindModel(kDir).model.config.layer(2).window);
  EXPECT_EQ(FindModel(kDir).model.config.layer(0).window, 129);
  EXPECT_EQ(FindModel(kDir).model.config.layer(1).window, 0);
}

TEST_F(NanochatFiles, AreRefusedByNameWhereTheySayMore) {
  EXPECT_TRUE(Contains(Refusal(64, {{"window_pattern", "SXL"}}), "window_pattern", "SXL"));
  EXPECT_TRUE(Contains(Refusal(64, {{"n_experts", 4}}), "n_experts", "not supported"));
  EXPECT_TRUE(Contains(Refusal(64, {{"n_embd", nullptr}}), "no n_embd"));
  EXPECT_TRUE(Contains(Refusal(64, {{"n_layer", 65535}}), "fewer tensors"));
  EXPECT_TRUE(Contains(Refusal(64, {{"n_layer", int64_t{1} << 40}}), "n_layer"));
  for (const Json& number : {Json(uint64_t{1} << 63), Json(1e300), Json(-1), Json(0.5)}) {
    EXPECT_TRUE(Contains(Refusal(64, {{"n_layer", number}}), "meta_000010.json", "n_layer"));
  }
  EXPECT_TRUE(Contains(Refusal(64, {{"n_kv_head", 1}}), "wrong shape"));
  EXPECT_TRUE(Contains(Refusal(100000, {{"vocab_size", 90}}), "is not a valid llm.c tokenizer") ||
              Contains(Refusal(64, {{"vocab_size", 90}}), "wrong shape"));
  EXPECT_TRUE(Contains(Refusal(64, {}, "bigram.weight"), "bigram.weight", "not part"));
  fs::remove(dir_ / "meta_000010.json");
  EXPECT_TRUE(Contains(ErrorAndHelp([&] { FindModel(dir_); }), "meta_000010.json is missing"));
  Put(64);
  fs::copy_file(kDir / "tokens/tokenizer.pkl", dir_ / "tokenizer.pkl");
  EXPECT_TRUE(
      Contains(ErrorAndHelp([&] { FindModel(dir_); }), ": the tokenizer belongs to another model"));
}

TEST_F(NanochatFiles, BecomeFoliosOwnAndNobodyElses) {
  const auto convert = [&](std::string_view format) {
    return ConvertModel(
        {.from = kDir / "model_000007.pt", .to = At(std::string(format)), .format = format},
        [](int, std::string_view) {});
  };
  const Converted made = convert("hf");
  EXPECT_EQ(made.logit_difference, 0);
  GptConfig config = FindModel(kDir / "model_000007.pt").model.config;
  EXPECT_EQ(FindModel(At("hf")).model.config, config);
  for (const char* format : {"gguf", "nanogpt", "llmc"}) {
    const std::string refusal = ErrorAndHelp([&] { convert(format); });
    for (const char* extra : {"smear", "residual_lambdas", "value_embeddings", "backout"}) {
      EXPECT_TRUE(Contains(refusal, extra)) << format << ": " << refusal;
    }
  }
}

}  // namespace
}  // namespace folio
