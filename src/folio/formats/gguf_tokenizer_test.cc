#include "folio/formats/gguf_tokenizer.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fstream>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "folio/text/bpe_tokenizer.h"
#include "folio/text/byte_names.h"
#include "folio/text/byte_tokenizer.h"
#include "folio/text/char_tokenizer.h"
#include "folio/text/chat.h"
#include "folio/text/test_vocab.h"
#include "tests/kit/directory.h"
#include "tests/kit/expect.h"
#include "tests/kit/gguf_bytes.h"

namespace folio {
namespace {

class GgufTokenizer : public InTemporaryDirectory {
 protected:
  // Written for a model of V ids, or as many as there are tokens.
  const GgufFile& Written(const Tokenizer& tokenizer, int64_t V = 0) {
    config_.vocab_size = V == 0 ? tokenizer.vocab_size() : V;
    GgufHeader header;
    AddGgufTokenizer(&tokenizer, config_, header);
    WriteGguf(At("x"), header, {});
    return Opened();
  }
  const GgufFile& Put(const GgufBytes& bytes) {
    std::filesystem::remove(At("x"));
    std::ofstream(At("x"), std::ios::binary) << bytes.File();
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

  GptConfig config_;

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
    EXPECT_EQ(file.Text("tokenizer.chat_template"), ChatTemplate());
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
  config_.eos_token_id = 7;
  GgufHeader header;
  AddGgufTokenizer(nullptr, config_, header);
  WriteGguf(At("x"), header, {});
  const GgufFile file(At("x"));
  EXPECT_EQ(file.Text("tokenizer.ggml.model"), "no_vocab");
  EXPECT_EQ(file.Integer("tokenizer.ggml.eos_token_id"), 7);
  EXPECT_EQ(ReadGgufTokenizer(file), nullptr);
  EXPECT_EQ(ReadGgufTokenizer(Put({})), nullptr);
}

TEST_F(GgufTokenizer, TokensAreWrittenAsLlamaCppReadsThem) {
  BpeVocab vocab = ByteVocab();
  const int32_t th = AddMerge(vocab, 't', 'h');
  AddMerge(vocab, ' ', th);
  AddToken(vocab, "");
  AddSpecial(vocab, "<|endoftext|>");
  AddSpecial(vocab, "[PAD261]");  // as the next id would be called
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
  config_.bos_token_id = 3;
  config_.eos_token_id = 4;
  const GgufFile& file = Written(BpeTokenizer(LearntVocab(1, 300)));
  EXPECT_EQ(file.Integer("tokenizer.ggml.bos_token_id"), 3);
  EXPECT_EQ(file.Integer("tokenizer.ggml.eos_token_id"), 4);
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
  EXPECT_TRUE(Contains(WriteRefused(BpeTokenizer(ImproperVocab(true))), "is made by no merges"));
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
  // Pads of the type of tokens that users add; and no types at all, so that what no merge makes is
  // special.
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
      Refusal(merges(GgufBytes(vocabulary).String("tokenizer.ggml.pre", "gpt-4o"), {"t h"})),
      "\"gpt-4o\" is not supported"));
  EXPECT_TRUE(Contains(Refusal(vocabulary), "has no merges"));
  EXPECT_TRUE(Contains(Refusal(merges(vocabulary, {"t h", "th"})), "merge 1 of"));
  EXPECT_TRUE(Contains(Refusal(merges(vocabulary, {"t h "})), "merge 0 of"));
  EXPECT_TRUE(Contains(Refusal(merges(vocabulary, {"t \xff"})), "merge 0 of"));
  EXPECT_TRUE(Contains(Refusal(merges(vocabulary, {"t x"})), "merge 0", "unknown token"));
  EXPECT_TRUE(
      Contains(Refusal(merges(Vocabulary({2, 3, 5}), {"t h"})), "'th' is of a type", "found 2"));
  EXPECT_TRUE(Contains(Refusal(merges(Vocabulary({1, 4, 5}), {"t h"})), "'<|endoftext|>'"));
  EXPECT_TRUE(Contains(Refusal(merges(Vocabulary({1, 3}), {"t h"})), "259 tokens, 258 of them"));
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
