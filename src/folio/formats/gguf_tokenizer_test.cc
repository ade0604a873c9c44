#include <fmt/format.h>
#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "folio/base/error.h"
#include "folio/formats/other_programs.h"
#include "folio/io/file.h"
#include "folio/io/gguf.h"
#include "folio/model/config.h"
#include "folio/text/test_vocab.h"
#include "folio/text/tokenizer.h"
#include "folio/text/tokenizer_file.h"
#include "tests/kit/directory.h"
#include "tests/kit/expect.h"
#include "tests/kit/gguf_bytes.h"
#include "tests/kit/paths.h"
#include "tests/kit/tokenizer_goldens.h"

namespace folio {
namespace {

TEST(GgufVocabulary, OfSmolLm2GivesTheIdsOfTransformers) {
  const std::string model = TestData("../models/SmolLM2-135M-Instruct.Q4_1.gguf");
  const std::string expected = TestData("../models/smollm2-expected.json");
  if (model.empty() || expected.empty()) GTEST_SKIP() << "the model is not here";
  const GgufFile file(model);
  const std::unique_ptr<Tokenizer> tokenizer = ReadGgufTokenizer(file);
  const auto json = nlohmann::json::parse(ReadFile(expected));
  size_t compared = 0;
  for (const auto& [list, text] :
       {std::pair{"texts", "text"}, {"prompts", "text"}, {"chats", "rendered"}}) {
    for (const auto& entry : json[list]) {
      const auto ids = entry["ids"].get<std::vector<int32_t>>();
      const auto written = entry[text].get<std::string>();
      EXPECT_EQ(tokenizer->Encode(written, list, SpecialRule::Allow()), ids) << written;
      EXPECT_EQ(tokenizer->Decode(ids), written);
      ++compared;
    }
  }
  EXPECT_EQ(compared, 26u);

  const TokenRoles roles = ReadGgufRoles(file);
  EXPECT_EQ(roles.begin, 1);
  EXPECT_EQ(roles.end, 2);
  EXPECT_EQ(roles.end_of_turn, std::nullopt);
  EXPECT_EQ(roles.unknown, 0);
  EXPECT_EQ(roles.padding, 2);
  EXPECT_EQ(roles.add_begin, false);
  EXPECT_TRUE(roles.chat_template.starts_with("{% for message in messages %}"));

  // Its tokenizer.json is the same tokenizer. 21 bytes have no token: a text loses them.
  const auto again = TokenizerFromJson(tokenizer->FileContents(), "again");
  EXPECT_EQ(again->hash(), tokenizer->hash());
  EXPECT_EQ(again->EncodeOrdinary("a 12"), tokenizer->EncodeOrdinary("a 12"));
  EXPECT_EQ(tokenizer->EncodeOrdinary("a\x04 12"), tokenizer->EncodeOrdinary("a 12"));
}

// SentencePiece's vocabulary, with tokens that reach across spaces, and its ids
// (scripts/tokenizer_goldens.py).
class ScoredVocabulary : public InTemporaryDirectory {
 protected:
  void SetUp() override {
    for (const auto& piece : TokenizerGoldens()["scored"]["pieces"]) {
      if (tokens_.size() == 3) {
        for (int byte = 0; byte < 256; ++byte) Add(fmt::format("<0x{:02X}>", byte), 6);
      }
      const auto place = tokens_.size();
      Add(piece.get<std::string>(), place == 0 ? 2 : place < 3 ? 3 : 1);
    }
  }
  void Add(std::string token, int32_t type) {
    scores_.push_back(-static_cast<float>(tokens_.size()));
    tokens_.push_back(std::move(token));
    types_.push_back(type);
  }
  std::unique_ptr<Tokenizer> Read() const {
    std::string scores = GgufBytes::Raw(uint32_t{6}) + GgufBytes::Raw(uint64_t{scores_.size()});
    for (const float score : scores_) scores += GgufBytes::Raw(std::bit_cast<uint32_t>(score));
    GgufBytes bytes;
    bytes.String("tokenizer.ggml.model", "llama")
        .Strings("tokenizer.ggml.tokens", tokens_)
        .I32s("tokenizer.ggml.token_type", types_)
        .Key("tokenizer.ggml.scores", 9, scores)
        .U32("tokenizer.ggml.bos_token_id", 1);
    PutFile("m.gguf", bytes.File());
    return ReadGgufTokenizer(GgufFile(At("m.gguf")));
  }

  std::vector<std::string> tokens_;
  std::vector<int32_t> types_;
  std::vector<float> scores_;
};

TEST_F(ScoredVocabulary, GivesTheIdsOfSentencePiece) {
  const auto& golden = TokenizerGoldens()["scored"];
  const auto tokenizer = Read();
  std::vector<std::string> texts = GoldenTexts();
  // Special tokens are no text for SentencePiece.
  std::erase_if(texts, [](const std::string& text) { return text.find('<') != text.npos; });
  EXPECT_EQ(texts.size(), golden["texts"].get<size_t>());
  const auto encode = [&](const std::string& text) { return tokenizer->EncodeOrdinary(text); };
  const auto text = TokenizerGoldens()["texts"][1].get<std::string>();
  EXPECT_EQ(encode(text), golden["ids"].get<std::vector<int32_t>>());
  EXPECT_EQ(GoldenHash(texts, encode), golden["ordinary"].get<std::string>());
  EXPECT_EQ(tokenizer->DecodeText(encode(" a  b ")), " a  b ");
  EXPECT_EQ(tokenizer->WithEnds({5}), (std::vector<int32_t>{1, 5}));
  const auto again = TokenizerFromJson(tokenizer->FileContents(), "again");
  EXPECT_EQ(again->EncodeOrdinary(text), encode(text));
  EXPECT_EQ(again->hash(), tokenizer->hash());
}

// In a GGUF file and back.
std::unique_ptr<Tokenizer> Through(const Tokenizer& tokenizer, const std::filesystem::path& path) {
  GptConfig config;
  config.vocab_size = tokenizer.vocab_size();
  config.eos_token_id = 2;
  GgufHeader header;
  AddGgufTokenizer(&tokenizer, config, header);
  WriteGguf(path, header, {});
  return ReadGgufTokenizer(GgufFile(path));
}

TEST_F(ScoredVocabulary, IsWrittenAsItWasRead) {
  const auto tokenizer = Read();
  EXPECT_EQ(Through(*tokenizer, At("x.gguf"))->hash(), tokenizer->hash());
}

TEST_F(ScoredVocabulary, GoldensAreWrittenToGgufOrRefused) {
  std::string written;
  for (const auto& golden : TokenizerGoldens()["tokenizers"]) {
    auto json = TokenizerGoldens()["bases"][golden["base"].get<std::string>()];
    json.merge_patch(golden["patch"]);
    const auto tokenizer = TokenizerFromJson(json.dump(), "golden");
    const auto name = golden["name"].get<std::string>();
    try {
      EXPECT_EQ(Through(*tokenizer, At("x.gguf"))->hash(), tokenizer->hash()) << name;
      written += name + " ";
    } catch (const Error& error) {
      EXPECT_TRUE(std::string(error.what()).starts_with("GGUF cannot hold")) << error.what();
    }
  }
  EXPECT_EQ(written, "smollm llama3 qwen2 ");
}

TEST_F(ScoredVocabulary, WhatDoesNotFitTogetherIsRefused) {
  const auto refusal = [&] { return ErrorOf([&] { Read(); }); };
  scores_[262] = scores_[263];
  EXPECT_TRUE(Contains(refusal(), "the same score"));
  scores_[262] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(Contains(refusal(), "no number"));
  scores_.pop_back();
  EXPECT_TRUE(Contains(refusal(), "380 tokens, 379 scores"));
  scores_ = std::vector<float>(380);
  tokens_[3] = "<0xZZ>";
  EXPECT_TRUE(Contains(refusal(), "<0x00> is missing"));
  types_[3] = 7;
  EXPECT_TRUE(Contains(refusal(), "of a type"));
}

}  // namespace
}  // namespace folio
