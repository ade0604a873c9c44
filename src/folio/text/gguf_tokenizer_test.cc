#include "folio/text/gguf_tokenizer.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "folio/base/error.h"
#include "folio/io/file.h"
#include "folio/io/gguf.h"
#include "folio/text/bpe_tokenizer.h"
#include "folio/text/bpe_vocab.h"
#include "folio/text/byte_tokenizer.h"
#include "folio/text/char_tokenizer.h"
#include "folio/text/chat.h"
#include "folio/text/encodings.h"
#include "folio/text/test_vocab.h"
#include "folio/text/token_roles.h"
#include "folio/text/tokenizer.h"
#include "folio/text/tokenizer_file.h"
#include "folio/text/tokenizer_json.h"
#include "folio/text/vocab_files.h"
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

  // It is one that commands accept by name, with its template, however large the file is.
  EXPECT_GT(std::filesystem::file_size(model), kMaxVocabFileBytes);
  const auto named = OpenTokenizer(model);
  EXPECT_EQ(named->hash(), tokenizer->hash());
  EXPECT_EQ(named->chat_source().text, roles.chat_template);
  EXPECT_EQ(named->chat_source().eos_token, "<|im_end|>");

  // Its tokenizer.json is the same tokenizer. 21 bytes have no token: a text loses them.
  const auto again = TokenizerFromJson(tokenizer->FileContents(), "again");
  EXPECT_EQ(again->hash(), tokenizer->hash());
  EXPECT_EQ(again->EncodeOrdinary("a 12"), tokenizer->EncodeOrdinary("a 12"));
  EXPECT_EQ(tokenizer->EncodeOrdinary("a\x04 12"), tokenizer->EncodeOrdinary("a 12"));
}

// SentencePiece's vocabulary, with tokens that contain spaces, and its ids
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
  EXPECT_EQ(tokenizer->WithBeginning({5}), (std::vector<int32_t>{1, 5}));
  const auto again = TokenizerFromJson(tokenizer->FileContents(), "again");
  EXPECT_EQ(again->EncodeOrdinary(text), encode(text));
  EXPECT_EQ(again->hash(), tokenizer->hash());
}

// Writes it to a GGUF file and reads it back.
std::unique_ptr<Tokenizer> Through(const Tokenizer& tokenizer, const std::filesystem::path& path) {
  GgufHeader header;
  AddGgufTokenizer(&tokenizer, tokenizer.vocab_size(), {.end = 2}, header);
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
      EXPECT_TRUE(std::string(error.what()).starts_with("GGUF cannot store")) << error.what();
    }
  }
  EXPECT_EQ(written, "smollm llama3 qwen2 ");
}

TEST_F(ScoredVocabulary, WhatDoesNotFitTogetherIsRefused) {
  const auto refusal = [&] { return ErrorOf([&] { Read(); }); };
  scores_[262] = scores_[263];
  EXPECT_TRUE(Contains(refusal(), "the same score"));
  scores_[262] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(Contains(refusal(), "not a number"));
  scores_.pop_back();
  EXPECT_TRUE(Contains(refusal(), "380 tokens, 379 scores"));
  scores_ = std::vector<float>(380);
  tokens_[3] = "<0xZZ>";
  EXPECT_TRUE(Contains(refusal(), "<0x00> is missing"));
  types_[3] = 7;
  EXPECT_TRUE(Contains(refusal(), "' has an unsupported type"));
}

class GgufTokenizer : public InTemporaryDirectory {
 protected:
  // Written for a model of V ids, or one with as many ids as tokens.
  const GgufFile& Written(const Tokenizer& tokenizer, int64_t V = 0) {
    GgufHeader header;
    AddGgufTokenizer(&tokenizer, V == 0 ? tokenizer.vocab_size() : V, roles_, header);
    WriteGguf(At("x"), header, {});
    return Opened();
  }
  const GgufFile& Put(const GgufBytes& bytes) {
    PutFile("x", bytes.File());
    return Opened();
  }
  std::string WriteRefused(const Tokenizer& tokenizer) {
    return ErrorAndHelp([&] { Written(tokenizer); });
  }
  std::string Refusal(const GgufBytes& bytes) {
    return ErrorAndHelp([&] { ReadGgufTokenizer(Put(bytes)); });
  }
  Strings Texts(std::string_view key) const {
    Strings texts;
    file_->Texts(key, [&](size_t, std::string_view text) { texts.emplace_back(text); });
    return texts;
  }
  std::vector<int64_t> Types() const {
    std::vector<int64_t> types;
    file_->Integers("tokenizer.ggml.token_type", [&](size_t, int64_t x) { types.push_back(x); });
    return types;
  }

  TokenRoles roles_;

 private:
  const GgufFile& Opened() {
    file_.emplace(At("x"));
    return *file_;
  }

  std::optional<GgufFile> file_;
};

TEST_F(GgufTokenizer, EveryKindComesBackAsItself) {
  const BpeTokenizer learnt(LearntVocab(1, 300)), improper(ImproperVocab(false));
  const BpeTokenizer holes(WideVocab(LearntVocab(2, 262)));
  const ByteTokenizer bytes;
  const CharTokenizer characters({U'\t', U'\n', U'\r', U' ', U'"', U'\\', U'a', U'n', U'x', U'~'});
  for (const Tokenizer* tokenizer :
       std::initializer_list<const Tokenizer*>{&learnt, &improper, &holes, &bytes, &characters}) {
    for (const int64_t more : {0, 1, 64}) {
      const auto read = ReadGgufTokenizer(Written(*tokenizer, tokenizer->vocab_size() + more));
      ASSERT_NE(read, nullptr);
      EXPECT_EQ(read->kind(), tokenizer->kind());
      EXPECT_EQ(read->hash(), tokenizer->hash());
    }
  }
}

TEST_F(GgufTokenizer, ConversationsHaveTheirTokensAndTheirTemplate) {
  EXPECT_FALSE(Written(ByteTokenizer()).Text("tokenizer.chat_template"));
  const BpeTokenizer learnt(LearntVocab(1, 300));
  const ByteTokenizer bytes;
  for (const Tokenizer* plain : std::initializer_list<const Tokenizer*>{&learnt, &bytes}) {
    const std::unique_ptr<Tokenizer> chat = WithChatTokens(*plain);
    const GgufFile& file = Written(*chat);
    EXPECT_EQ(file.Text("tokenizer.chat_template"), RoleTokenTemplate());
    const std::unique_ptr<Tokenizer> read = ReadGgufTokenizer(file);
    const std::string text = "<|user|>a question<|end|>";
    EXPECT_EQ(read->Encode(text, "text", SpecialRule::Allow()),
              chat->Encode(text, "text", SpecialRule::Allow()));
    EXPECT_TRUE(FindChatFormat(*read));
  }
  EXPECT_TRUE(Contains(WriteRefused(*WithChatTokens(CharTokenizer({U'a'}))), "longest match",
                       "--tokenizer bytes"));
}

TEST_F(GgufTokenizer, NoneIsSaidToBeNone) {
  roles_.end = 7;
  GgufHeader header;
  AddGgufTokenizer(nullptr, 256, roles_, header);
  WriteGguf(At("x"), header, {});
  const GgufFile file(At("x"));
  EXPECT_EQ(file.Text("tokenizer.ggml.model"), "no_vocab");
  EXPECT_EQ(file.Integer("tokenizer.ggml.eos_token_id"), 7);
  EXPECT_EQ(ReadGgufTokenizer(file), nullptr);
  EXPECT_TRUE(Contains(ErrorAndHelp([&] { LoadTokenizer(At("x")); }), "x: no tokenizer found",
                       "the file contains only a model"));
  EXPECT_EQ(ReadGgufTokenizer(Put({})), nullptr);
}

TEST_F(GgufTokenizer, TokensAreWrittenAsLlamaCppReadsThem) {
  BpeVocab vocab = ByteVocab();
  const int32_t th = AddMerge(vocab, 't', 'h');
  AddMerge(vocab, ' ', th);
  AddToken(vocab, "");
  AddSpecial(vocab, "<|endoftext|>");
  AddSpecial(vocab, "[PAD261]");  // the name that the next id would get
  const GgufFile& file = Written(BpeTokenizer(vocab), 263);
  EXPECT_EQ(file.Text("tokenizer.ggml.model"), "gpt2");
  EXPECT_EQ(file.Text("tokenizer.ggml.pre"), "gpt-2");
  EXPECT_EQ(Texts("tokenizer.ggml.merges"), (Strings{"t h", "Ġ th"}));
  const Strings tokens = Texts("tokenizer.ggml.tokens");
  ASSERT_EQ(tokens.size(), 263u);
  EXPECT_EQ(std::set<std::string>(tokens.begin(), tokens.end()).size(), 263u) << "all distinct";
  EXPECT_EQ(tokens['\n'], "Ċ");
  EXPECT_EQ(tokens['A'], "A");
  EXPECT_EQ(tokens[0xFF], "ÿ");
  EXPECT_EQ(
      Strings(tokens.begin() + 256, tokens.end()),
      (Strings{"th", "Ġth", "[PAD258]", "<|endoftext|>", "[PAD261]", "[PAD261]_", "[PAD262]"}));
  std::vector<int64_t> types(263, 1);
  types[258] = types[261] = types[262] = 5;
  types[259] = types[260] = 3;
  EXPECT_EQ(Types(), types);
  EXPECT_EQ(file.Integer("tokenizer.ggml.bos_token_id"), 259);
  EXPECT_EQ(file.Integer("tokenizer.ggml.eos_token_id"), 259);
}

TEST_F(GgufTokenizer, TheConfigurationSaysWhichTokensBeginAndEnd) {
  roles_.begin = 3;
  roles_.end = 4;
  const GgufFile& file = Written(BpeTokenizer(LearntVocab(1, 300)));
  EXPECT_EQ(file.Integer("tokenizer.ggml.bos_token_id"), 3);
  EXPECT_EQ(file.Integer("tokenizer.ggml.eos_token_id"), 4);
}

// Also for bytes alone, which are a tokenizer of their own if nothing comes before texts.
TEST_F(GgufTokenizer, WhatStandsBeforeTextsComesBack) {
  BpeVocab bytes = ByteVocab();
  bytes.before = {AddSpecial(bytes, "<|endoftext|>")};
  const BpeTokenizer tokenizer(std::move(bytes));
  const auto read = ReadGgufTokenizer(Written(tokenizer));
  EXPECT_EQ(read->WithBeginning({'a'}), (std::vector<int32_t>{256, 'a'}));
  const auto again = TokenizerFromJson(read->FileContents(), "again");
  EXPECT_EQ(again->WithBeginning({'a'}), (std::vector<int32_t>{256, 'a'}));
}

TEST_F(GgufTokenizer, WithoutAnEndAnUnusedIdStandsInOrItIsRefused) {
  const BpeTokenizer endless(ByteVocab());
  EXPECT_EQ(Written(endless, 258).Integer("tokenizer.ggml.eos_token_id"), 256);
  EXPECT_TRUE(Contains(WriteRefused(endless), "token 11", "<|endoftext|>"));
}

TEST_F(GgufTokenizer, CharactersAreWordsOfTheLongestMatch) {
  const GgufFile& file = Written(CharTokenizer({U'\n', U'\\', U'a'}), 4);
  EXPECT_EQ(file.Text("tokenizer.ggml.model"), "rwkv");
  EXPECT_EQ(Texts("tokenizer.ggml.tokens"), (Strings{"\\n", "\\\\", "a", "\\xff[PAD3]"}));
  EXPECT_EQ(Types(), (std::vector<int64_t>{1, 1, 1, 5}));
  EXPECT_EQ(file.Integer("tokenizer.ggml.eos_token_id"), std::nullopt);
}

TEST_F(GgufTokenizer, WhatOtherProgramsWouldEncodeOtherwiseIsNotWritten) {
  EXPECT_TRUE(
      Contains(WriteRefused(CharTokenizer({U'a', U'é'})), "'é' (U+00E9)", "--tokenizer bytes"));
  EXPECT_TRUE(Contains(WriteRefused(BpeTokenizer(LearntVocab(1, 300, SplitPattern::kCl100k))),
                       "split pattern", "convert to hf"));
  EXPECT_TRUE(Contains(WriteRefused(BpeTokenizer(LearntVocab(1, 300, SplitPattern::kO200k))),
                       "split pattern"));
  EXPECT_TRUE(Contains(
      WriteRefused(BpeTokenizer(ImproperVocab(true))),
      "does not result from merges, and with GPT-2's pattern other programs use only merges"));
  BpeVocab made = LearntVocab(1, 300);  // merges make all of it
  made.whole_pretokens = true;
  EXPECT_NO_THROW(Written(BpeTokenizer(made)));
}

// --- what others write

GgufBytes Vocabulary(const std::vector<int32_t>& types = {}) {
  Strings tokens;
  for (int byte = 0; byte < 256; ++byte) {
    const char c = static_cast<char>(byte);
    tokens.push_back(ByteNames({&c, 1}));
  }
  for (const char* more : {"th", "<|endoftext|>", "[PAD258]"}) tokens.emplace_back(more);
  GgufBytes bytes;
  bytes.String("tokenizer.ggml.model", "gpt2").Strings("tokenizer.ggml.tokens", tokens);
  if (types.empty()) return bytes;
  std::vector<int32_t> all(256, 1);
  all.insert(all.end(), types.begin(), types.end());
  return bytes.I32s("tokenizer.ggml.token_type", all);
}

TEST_F(GgufTokenizer, OlderFilesAreRead) {
  // Padding with the type of user-defined tokens; and no types at all, so that tokens without a
  // merge are special.
  for (const std::vector<int32_t>& types : {std::vector<int32_t>{1, 3, 5}, {1, 3, 4}}) {
    const auto read =
        ReadGgufTokenizer(Put(Vocabulary(types).Strings("tokenizer.ggml.merges", {"t h"})));
    EXPECT_EQ(read->vocab_size(), 258);
    EXPECT_EQ(read->end_of_text(), 257);
  }
  const auto untyped = ReadGgufTokenizer(Put(Vocabulary()
                                                 .String("tokenizer.ggml.pre", "default")
                                                 .Strings("tokenizer.ggml.merges", {"t h"})));
  EXPECT_EQ(untyped->special_tokens().size(), 2u);
  EXPECT_EQ(untyped->EncodeOrdinary("the"), (std::vector<int32_t>{256, 'e'}));
}

TEST_F(GgufTokenizer, WhatFolioDoesNotHaveIsRefusedByName) {
  const auto merges = [](GgufBytes bytes, const Strings& pairs) {
    return bytes.Strings("tokenizer.ggml.merges", pairs);
  };
  const std::vector<int32_t> types = {1, 3, 5};
  const GgufBytes vocabulary = Vocabulary(types);
  EXPECT_TRUE(Contains(
      Refusal(merges(GgufBytes(vocabulary).String("tokenizer.ggml.pre", "tekken"), {"t h"})),
      "\"tekken\" is not supported", "smollm, starcoder"));
  EXPECT_TRUE(Contains(Refusal(vocabulary), "has no merges"));
  EXPECT_TRUE(Contains(Refusal(merges(vocabulary, {"t h", "th"})), "merge 1 of"));
  EXPECT_TRUE(Contains(Refusal(merges(vocabulary, {"t h "})), "merge 0 of"));
  EXPECT_TRUE(Contains(Refusal(merges(vocabulary, {"t \xff"})), "merge 0 of"));
  EXPECT_TRUE(Contains(Refusal(merges(vocabulary, {"t x"})), "merge 0", "unknown token"));
  EXPECT_TRUE(Contains(Refusal(merges(Vocabulary({6, 3, 5}), {"t h"})),
                       "'th' has an unsupported type", "found 6"));
  EXPECT_TRUE(Contains(Refusal(merges(Vocabulary({1, 3}), {"t h"})), "259 tokens, but 258 types"));
  EXPECT_TRUE(Contains(Refusal(GgufBytes().String("tokenizer.ggml.model", "bert")), "\"bert\""));
  EXPECT_TRUE(Contains(Refusal(GgufBytes().String("tokenizer.ggml.model", "gpt2")), "0 tokens"));
  for (const Strings& tokens : {Strings{"a", "a"}, {"a", "bc"}, {"b", "a"}, {"a", ""}, {"\xff"}}) {
    EXPECT_TRUE(Contains(Refusal(GgufBytes()
                                     .String("tokenizer.ggml.model", "rwkv")
                                     .Strings("tokenizer.ggml.tokens", tokens)),
                         "tokenizer"));
  }
}

}  // namespace
}  // namespace folio
