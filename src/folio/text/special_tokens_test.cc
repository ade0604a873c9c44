#include "folio/text/special_tokens.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "folio/text/byte_tokenizer.h"
#include "folio/text/char_tokenizer.h"
#include "folio/text/test_pair_tokenizer.h"
#include "folio/text/test_texts.h"
#include "tests/kit/expect.h"
#include "tests/kit/sanitized.h"

namespace folio {
namespace {

using Ids = std::vector<int32_t>;

std::vector<SpecialToken> Specials(const std::vector<std::string>& texts) {
  std::vector<SpecialToken> specials;
  for (const std::string& text : texts) {
    specials.push_back({text, 1000 + static_cast<int32_t>(specials.size())});
  }
  return specials;
}

// begin:id of all that Next finds, in order.
std::string Found(const SpecialFinder& finder, std::string_view text) {
  std::string found;
  for (size_t at = 0;;) {
    const SpecialFinder::Match match = finder.Next(text, at);
    if (match.token == nullptr) return found;
    found += std::to_string(match.begin) + ":" + match.token->text + " ";
    at = match.end();
  }
}

// The same by trying every token at every place.
std::string FoundSlowly(std::span<const SpecialToken> specials, std::string_view text) {
  std::string found;
  for (size_t at = 0; at < text.size();) {
    std::string_view longest;
    for (const SpecialToken& token : specials) {
      if (text.substr(at).starts_with(token.text) && token.text.size() > longest.size()) {
        longest = token.text;
      }
    }
    if (!longest.empty()) found += std::to_string(at) + ":" + std::string(longest) + " ";
    at += std::max<size_t>(1, longest.size());
  }
  return found;
}

size_t PartialSuffixSlowly(std::span<const SpecialToken> specials, std::string_view text) {
  size_t longest = 0;
  for (const SpecialToken& token : specials) {
    for (size_t length = 1; length < token.text.size(); ++length) {
      if (text.ends_with(std::string_view(token.text).substr(0, length))) {
        longest = std::max(longest, length);
      }
    }
  }
  return longest;
}

const std::vector<std::vector<std::string>> kSets = {
    {"<|end|>"},
    {"<|end|>", "<|endofprompt|>", "<|end|>>", "<|fim|>"},
    {"<s>", "[PAD]", "</s>", "\xC3\xA9!", "<"},
    {"aab", "ab", "abaab", "b"},
    {"aaaa", "aa"},
};

TEST(SpecialFinder, FindsTheLeftmostAndOfThoseTheLongest) {
  const auto specials = Specials({"<|a|>", "<|a|>b", "|>c"});
  const SpecialFinder finder(specials, SpecialRule::Allow());
  EXPECT_EQ(Found(finder, "x<|a|>b<|a|>c<|a|"), "1:<|a|>b 7:<|a|> ");
  EXPECT_EQ(Found(finder, "<|a|><|a|>"), "0:<|a|> 5:<|a|> ");
  EXPECT_EQ(Found(finder, ""), "");
  EXPECT_EQ(finder.Next("<|a|>", 5).token, nullptr);
  EXPECT_EQ(finder.Next("<|a|>", 1).token, nullptr);
}

TEST(SpecialFinder, AgreesWithTryingEveryTokenEverywhere) {
  TestRng rng(5);
  for (const auto& set : kSets) {
    const auto specials = Specials(set);
    const SpecialFinder finder(specials, SpecialRule::Allow());
    std::vector<std::string> parts = {"<", "|", ">", "a", "b", "<|end", "\xC3", "\xA9"};
    parts.insert(parts.end(), set.begin(), set.end());
    for (int trial = 0; trial < 1500; ++trial) {
      const std::string text = RandomText(parts, rng.Below(12), rng);
      EXPECT_EQ(Found(finder, text), FoundSlowly(specials, text)) << text;
      EXPECT_EQ(finder.PartialSuffix(text), PartialSuffixSlowly(specials, text)) << text;
    }
  }
}

TEST(SpecialFinder, FindsOneBehindALongTextOfNearlySpecialTokens) {
  const auto specials = Specials({"<|end|>", "<|endofprompt|>"});
  const SpecialFinder finder(specials, SpecialRule::Allow());
  for (const std::string part : {"<", "|", "<|", "<|endofprompt|"}) {
    const std::string text = Repeated(part, kSanitized ? 400'000 : 4'000'000);
    EXPECT_EQ(finder.Next(text, 0).token, nullptr) << part;
    EXPECT_EQ(Found(finder, text + "<|end|>"), std::to_string(text.size()) + ":<|end|> ") << part;
  }
}

TEST(SpecialFinder, RuleSaysWhichAreLookedFor) {
  const auto specials = Specials({"<a>", "<b>", "<c>"});
  const std::string text = "<c><b><a>";
  const auto allowed = [&](const SpecialRule& rule) {
    return Found(SpecialFinder(specials, rule), text);
  };
  const auto disallowed = [&](const SpecialRule& rule) -> std::string {
    const auto match = SpecialFinder(specials, rule).NextDisallowed(text, 0);
    return match.token == nullptr ? "" : match.token->text;
  };
  EXPECT_EQ(allowed(SpecialRule::Raise()), "");
  EXPECT_EQ(disallowed(SpecialRule::Raise()), "<c>");
  EXPECT_EQ(allowed(SpecialRule::Allow()), "0:<c> 3:<b> 6:<a> ");
  EXPECT_EQ(disallowed(SpecialRule::Allow()), "");
  EXPECT_EQ(allowed(SpecialRule::Ordinary()), "");
  EXPECT_EQ(disallowed(SpecialRule::Ordinary()), "");
  EXPECT_TRUE(SpecialFinder(specials, SpecialRule::Ordinary()).empty());
  EXPECT_FALSE(SpecialFinder(specials, SpecialRule::Raise()).empty());
  // All except the allowed ones.
  EXPECT_EQ(allowed({.allow = {"<c>"}}), "0:<c> ");
  EXPECT_EQ(disallowed({.allow = {"<c>"}}), "<b>");
  EXPECT_EQ(disallowed({.allow = {"<c>", "<b>", "<a>"}}), "");
  // Only the named ones; the others are text.
  EXPECT_EQ(disallowed({.disallow_all = false, .disallow = {"<b>"}}), "<b>");
  EXPECT_EQ(allowed({.allow = {"<a>"}, .disallow_all = false, .disallow = {"<b>"}}), "6:<a> ");
  // One that is in both lists is disallowed, as the text is checked first.
  EXPECT_EQ(disallowed({.allow = {"<b>"}, .disallow_all = false, .disallow = {"<b>"}}), "<b>");
  EXPECT_EQ(disallowed({.allow_all = true, .disallow_all = false, .disallow = {"<a>"}}), "<a>");
}

TEST(SpecialFinder, NamesThatAreNoSpecialTokensAreRefused) {
  const auto refusal = [](const std::vector<std::string>& texts, const SpecialRule& rule) {
    return ErrorOf([&] { SpecialFinder(Specials(texts), rule); }, ErrorKind::kUsage);
  };
  EXPECT_TRUE(Contains(refusal({"<a>", "<b>"}, {.allow = {"<a>", "<x>"}}),
                       "'<x>' is not a special token", "<a>, <b>"));
  refusal({"<a>", "<b>"}, {.disallow = {""}});
  EXPECT_TRUE(Contains(refusal({}, {.disallow = {"<a>"}}), "no special tokens"));
}

TEST(SpecialFinder, SaysWhereADisallowedOneIs) {
  const auto specials = Specials({"<a>", "<b>"});
  const SpecialFinder finder(specials, {.allow = {"<a>"}});
  EXPECT_NO_THROW(finder.CheckDisallowed("<a> <b <a>", "prompt"));
  EXPECT_TRUE(Contains(ErrorOf([&] { finder.CheckDisallowed("<a>\n\u00E9\u00E9<b>", "prompt"); }),
                       "prompt:2:3: ", "<b>", "token 1001"));
}

TEST(SpecialFinder, ADisallowedOneInsideAnAllowedOneCounts) {
  const auto specials = Specials({"<a>", "<b<a>>"});
  EXPECT_EQ(SpecialFinder(specials, {.allow = {"<b<a>>"}}).NextDisallowed("<b<a>>", 0).begin, 2u);
  const PairTokenizer tokenizer({"<a>", "<b<a>>"});
  EXPECT_THROW(tokenizer.Encode("<b<a>>", "text", {.allow = {"<b<a>>"}}), Error);
}

using Texts = std::vector<std::string>;

TEST(WithSpecialTokens, KeepsWhatWasThere) {
  const ByteTokenizer bytes;
  const auto extended = WithSpecialTokens(bytes, Texts{"<|user|>", "<\xC3\xA4>"});
  ASSERT_EQ(extended->vocab_size(), 259);
  for (int32_t id = 0; id < 257; ++id) EXPECT_EQ(extended->TokenBytes(id), bytes.TokenBytes(id));
  EXPECT_EQ(extended->end_of_text(), 256);
  const std::string text = "Is it  <|user|>?\n\xFF";
  EXPECT_EQ(extended->EncodeOrdinary(text), bytes.EncodeOrdinary(text));
  EXPECT_EQ(extended->Encode("a<\xC3\xA4><|user|><|endoftext|>", "text", SpecialRule::Allow()),
            (Ids{97, 258, 257, 256}));
  const auto again = WithSpecialTokens(*extended, Texts{"<|end|>"});
  EXPECT_EQ(again->vocab_size(), 260);
  EXPECT_EQ(again->special_tokens().size(), 4);
  EXPECT_NE(again->hash(), extended->hash());
}

TEST(WithSpecialTokens, RefusesWhatCannotBeOne) {
  const ByteTokenizer bytes;
  for (const std::string& text : Texts{"", "a", "<|endoftext|>", "\xC3"}) {
    EXPECT_EQ(Refused([&] { WithSpecialTokens(bytes, Texts{text}); }, ErrorKind::kUsage).kind(),
              ErrorKind::kUsage)
        << text;
  }
  Refused([&] { WithSpecialTokens(bytes, Texts{"<x>", "<x>"}); }, ErrorKind::kUsage);
  const CharTokenizer chars({U'a', U'b', U'c'});
  Refused([&] { WithSpecialTokens(chars, Texts{"b"}); }, ErrorKind::kUsage);
  EXPECT_EQ(WithSpecialTokens(chars, Texts{"d"})->vocab_size(), 4);
}

// The token that ends a document is found among several, whichever of them the files of a chat
// model call eos.
TEST(EndOfText, IsFoundInTokenizersOfEveryFamily) {
  const auto found = [](const std::vector<std::string>& texts, std::string_view eos) {
    const std::vector<SpecialToken> specials = NumberSpecials(texts, 0);
    const std::optional<int32_t> id = FindEndOfText(specials, eos);
    return id ? texts[static_cast<size_t>(*id)] : std::string("none");
  };
  EXPECT_EQ(found({"<|im_end|>", "<|endoftext|>"}, "<|im_end|>"), "<|endoftext|>");
  EXPECT_EQ(found({"<|eot_id|>", "<|end_of_text|>"}, "<|eot_id|>"), "<|end_of_text|>");
  EXPECT_EQ(found({"<|assistant_end|>", "<|bos|>"}, "<|assistant_end|>"), "<|bos|>");
  EXPECT_EQ(found({"<s>", "</s>"}, "</s>"), "</s>");
  EXPECT_EQ(found({"<bos>", "<eos>", "<end_of_turn>"}, "<eos>"), "<eos>");
  EXPECT_EQ(found({"<a>", "<end>"}, "<end>"), "<end>");
  EXPECT_EQ(found({"<s>", "</s>"}, ""), "</s>") << "a tokenizer.json alone";
  EXPECT_EQ(found({"<a>"}, "<b>"), "none");
}

}  // namespace

}  // namespace folio
