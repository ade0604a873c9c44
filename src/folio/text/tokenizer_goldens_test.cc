#include "tests/kit/tokenizer_goldens.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "folio/text/chat_template.h"
#include "folio/text/special_tokens.h"
#include "folio/text/streaming.h"
#include "folio/text/test_texts.h"
#include "folio/text/test_tokenizer_properties.h"
#include "folio/text/tokenizer.h"
#include "folio/text/tokenizer_file.h"
#include "folio/text/tokenizer_json.h"

// Published tokenizers against Hugging Face's library (scripts/tokenizer_goldens.py).
namespace folio {
namespace {

using GoldenJson = nlohmann::json;
using GoldenIds = std::vector<int32_t>;

std::unique_ptr<Tokenizer> Golden(const GoldenJson& entry) {
  GoldenJson json = TokenizerGoldens()["bases"][entry["base"].get<std::string>()];
  // A merge patch omits null members, which have the same meaning.
  json.merge_patch(entry["patch"]);
  return TokenizerFromJson(json.dump(), entry["name"].get<std::string>());
}

std::string HashOf(const Tokenizer& tokenizer, const SpecialRule& rule) {
  return GoldenHash(GoldenTexts(),
                    [&](const std::string& text) { return tokenizer.Encode(text, "text", rule); });
}

TEST(TokenizerGoldens, IdsAndTextsAreThoseOfHuggingFace) {
  for (const GoldenJson& entry : TokenizerGoldens()["tokenizers"]) {
    SCOPED_TRACE(entry["name"].get<std::string>());
    const auto tokenizer = Golden(entry);
    for (size_t i = 0; i < TokenizerGoldens()["texts"].size(); ++i) {
      const auto text = TokenizerGoldens()["texts"][i].get<std::string>();
      const auto ids = entry["ids"][i].get<GoldenIds>();
      EXPECT_EQ(tokenizer->Encode(text, "text", SpecialRule::Allow()), ids) << text;
      EXPECT_EQ(tokenizer->DecodeText(ids), entry["decoded"][i].get<std::string>());
    }
    EXPECT_EQ(HashOf(*tokenizer, SpecialRule::Allow()), entry["allowed"].get<std::string>());
    EXPECT_EQ(HashOf(*tokenizer, SpecialRule::Ordinary()), entry["ordinary"].get<std::string>());
    const auto whole = entry["whole"].get<GoldenIds>();
    const GoldenIds begun = tokenizer->WithBeginning(tokenizer->EncodeOrdinary("the"));
    GoldenIds ended = begun;
    ended.insert(ended.end(), tokenizer->behind().begin(), tokenizer->behind().end());
    EXPECT_EQ(ended, whole);
    EXPECT_EQ(tokenizer->WithBeginning(begun), begun) << "doubled";
  }
}

TEST(TokenizerGoldens, ComeBackAsTheyAreWritten) {
  for (const GoldenJson& entry : TokenizerGoldens()["tokenizers"]) {
    SCOPED_TRACE(entry["name"].get<std::string>());
    const auto tokenizer = Golden(entry);
    const auto again = TokenizerFromJson(tokenizer->FileContents(), "again");
    EXPECT_EQ(again->FileContents(), tokenizer->FileContents());
    EXPECT_EQ(HashOf(*again, SpecialRule::Allow()), HashOf(*tokenizer, SpecialRule::Allow()));
    const auto more = tokenizer->WithSpecials(std::vector<std::string>{"<|new|>"});
    EXPECT_EQ(more->Encode("<|new|>", "text", SpecialRule::Allow()).size(), 1u);
  }
}

// How often a token is among ids; 0 if there is no such token.
int64_t CountToken(const Tokenizer& tokenizer, std::string_view token, const GoldenIds& ids) {
  const GoldenIds own = tokenizer.Encode(token, "text", SpecialRule::Allow());
  return own.size() == 1 ? std::ranges::count(ids, own[0]) : 0;
}

// Conversations have the ids of their whole text, including white space that tokens absorb, except
// that only the template writes tokens that structure them.
TEST(TokenizerGoldens, ConversationsHaveTheIdsOfTheWholeTextButForTokensOfUsers) {
  const ChatTemplate chat(
      "{{- '<s>' }}{% for m in messages %}{{ '<|end|> ' + m.role + '\n' }}"
      "{% if m.role == 'assistant' %}{{ '<think>\n' }}{% endif %}{{ m.content }}{% endfor %}",
      "t");
  struct Case {
    const char *user, *assistant;
    int64_t special, think;  // how many of <|end|> and <think> there are
  };
  // <|mid|> is special, and the template does not write it.
  const Case cases[] = {{"a 12", " b", 2, 1},
                        {"  the café <think>", "x", 2, 1},
                        {"<|end|><think><|mid|>", "y", 2, 1},
                        {"<|end", "|>", 2, 1},
                        {"<", "think> <think> <|end|>", 2, 2}};
  for (const GoldenJson& entry : TokenizerGoldens()["tokenizers"]) {
    SCOPED_TRACE(entry["name"].get<std::string>());
    const auto tokenizer = Golden(entry);
    // Not every tokenizer has these tokens.
    const auto times = [&](std::string_view token, int64_t count) {
      return tokenizer->Encode(token, "text", SpecialRule::Allow()).size() == 1 ? count : 0;
    };
    for (const Case& one : cases) {
      ChatInput input;
      input.messages = ChatMessagesJson(std::vector<ChatMessage>{
          {ChatRole::kUser, one.user}, {ChatRole::kAssistant, one.assistant}});
      const RenderedChat rendered = chat.Render(input);
      GoldenIds ids;
      EncodeRendered(*tokenizer, rendered, "test", ids);
      const GoldenIds whole = tokenizer->Encode(rendered.text, "text", SpecialRule::Allow());
      bool same = true;  // the same as if the origin of texts did not matter
      for (const auto& [token, of_template] :
           {std::pair("<|end|>", one.special), {"<|mid|>", int64_t{0}}, {"<think>", one.think}}) {
        const int64_t expected = times(token, of_template);
        EXPECT_EQ(CountToken(*tokenizer, token, ids), expected) << one.user << " " << token;
        same = same && CountToken(*tokenizer, token, whole) == expected;
      }
      EXPECT_EQ(ids == whole, same) << one.user;
    }
  }
}

// However a text is divided, on threads or in a stream, it has the ids of the whole.
TEST(TokenizerGoldens, PiecesHaveTheIdsOfTheWhole) {
  const std::vector<std::string> texts = GoldenTexts();
  for (const GoldenJson& entry : TokenizerGoldens()["tokenizers"]) {
    SCOPED_TRACE(entry["name"].get<std::string>());
    const auto tokenizer = Golden(entry);
    TestRng rng(7);
    size_t cuts = 0;
    for (int round = 0; round < 300; ++round) {
      std::string text;
      for (size_t i = rng.Below(5); i < 5; ++i) text += texts[rng.Below(texts.size())];
      const GoldenIds ordinary = tokenizer->EncodeOrdinary(text);
      ASSERT_EQ(ParallelIds(*tokenizer, text, "text", 1 + rng.Below(40)), ordinary) << text;
      cuts += tokenizer->FindCut(text, 1) < text.size();
      for (const SpecialRule& rule : {SpecialRule::Allow(), SpecialRule::Ordinary()}) {
        StreamingEncoder stream(*tokenizer, "text", rule);
        GoldenIds ids;
        for (size_t at = 0; at < text.size();) {
          const size_t length = 1 + rng.Below(30);
          stream.Add(std::string_view(text).substr(at, length), ids);
          at += length;
        }
        stream.Finish(ids);
        ASSERT_EQ(ids, tokenizer->Encode(text, "text", rule)) << text;
      }
    }
    EXPECT_EQ(cuts > 0, !tokenizer->whole_texts());
  }
}

// A text whose merges reach across everything, and one that is cut at spaces, of a million bytes.
TEST(TokenizerGoldens, LongTextsAreFast) {
  const auto tokenizer = Golden(TokenizerGoldens()["tokenizers"].back());
  for (const std::string part : {"the ", "e", " ", "\u4e2d", "\n"}) {
    const std::string text = Repeated(part, 1 << 20);
    EXPECT_EQ(tokenizer->DecodeText(tokenizer->EncodeOrdinary(text)), text);
  }
}

}  // namespace
}  // namespace folio
