#include "folio/text/bpe_tokenizer.h"

#include <gtest/gtest.h>

#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "folio/base/simd_targets.h"
#include "folio/io/file.h"
#include "folio/text/byte_tokenizer.h"
#include "folio/text/test_oracles.h"
#include "folio/text/test_texts.h"
#include "folio/text/test_tokenizer_properties.h"
#include "folio/text/test_vocab.h"
#include "folio/text/tokenizer_file.h"
#include "folio/text/vocab_files.h"
#include "tests/kit/directory.h"
#include "tests/kit/expect.h"
#include "tests/kit/paths.h"
#include "tests/kit/sanitized.h"

namespace folio {
namespace {

using Ids = std::vector<int32_t>;

// Texts that the vocabularies here merge, and texts that are awkward for all.
const std::vector<std::string>& Parts() {
  static const std::vector<std::string> parts = [] {
    std::vector<std::string> all = AwkwardParts();
    for (const char* part : {"b", "c", "ab", "abc", "abcabc", "acb", "bca", "abcabcabcabcabcabcab",
                             "zzzzzzzzz", "----------------"}) {
      all.insert(all.end(), 3, part);
    }
    return all;
  }();
  return parts;
}

std::vector<BpeVocab> Vocabs() {
  std::vector<BpeVocab> vocabs;
  for (const SplitPattern pattern :
       {SplitPattern::kGpt2, SplitPattern::kCl100k, SplitPattern::kO200k}) {
    vocabs.push_back(LearntVocab(7, 600, pattern));
  }
  vocabs.push_back(ImproperVocab(false));
  vocabs.push_back(ImproperVocab(true));
  vocabs.push_back(WideVocab(LearntVocab(8, 500)));
  // Tokens that no merge makes, which a text becomes only if whole pretokens are looked up.
  for (const bool whole_pretokens : {false, true}) {
    BpeVocab unmade = LearntVocab(6, 300);
    for (const char* token : {"acb", " acb", "zzzzzzzzz"}) AddToken(unmade, token);
    AddSpecial(unmade, "the");
    unmade.whole_pretokens = whole_pretokens;
    vocabs.push_back(std::move(unmade));
  }
  // A special token that is a word; in ordinary text it is only a word.
  BpeVocab word = LearntVocab(9, 300);
  AddSpecial(word, "abc");
  vocabs.push_back(std::move(word));
  return vocabs;
}

class BpeOnTarget : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { ForceSimdTarget(GetParam()); }
  void TearDown() override { ForceSimdTarget(""); }
};

TEST_P(BpeOnTarget, EncodesAsTheRulesSay) {
  constexpr int kTimes = kSanitized ? 140 : 700;
  for (const BpeVocab& vocab : Vocabs()) {
    const BpeTokenizer tokenizer(vocab);
    const BpeOracle oracle(tokenizer);
    TestRng rng(1);
    // The same repeatedly: from the model's own cache at first, then from the thread's.
    for (int i = 0; i < kTimes; ++i) {
      const std::string text = RandomText(Parts(), 1 + rng.Below(i < kTimes / 2 ? 12 : 90), rng);
      ASSERT_EQ(tokenizer.EncodeOrdinary(text), oracle.Encode(text)) << text;
    }
  }
}

TEST_P(BpeOnTarget, HoldsWhatEveryTokenizerMust) {
  for (const BpeVocab& vocab : Vocabs()) {
    const BpeTokenizer tokenizer(vocab);
    TestRng rng(2);
    for (int i = 0; i < (kSanitized ? 20 : 60); ++i) {
      ASSERT_TRUE(TokenizerHolds(tokenizer, RandomText(Parts(), rng.Below(80), rng), rng));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, BpeOnTarget, testing::ValuesIn(SimdTargets()),
                         [](const auto& target) { return target.param; });

// Tokens that no merge makes are whole pretokens only, and all of them stay available, however many
// there are and whatever else the caches contain.
TEST(BpeTokenizer, WholePretokensThatNoMergeMakes) {
  BpeVocab vocab = LearntVocab(15, 300);
  const std::vector<std::string> words = AddWords(vocab, 3000, 6);
  const BpeTokenizer tokenizer(vocab);
  const BpeOracle oracle(tokenizer);
  for (int again = 0; again < 3; ++again) {
    std::string all;
    for (const std::string& word : words) {
      ASSERT_EQ(tokenizer.EncodeOrdinary(word).size(), 1) << word;
      // No longer a whole pretoken, though nothing merges across the last boundary.
      for (const std::string end : {"ж", "z", "中"}) {
        ASSERT_EQ(tokenizer.EncodeOrdinary(word + end), oracle.Encode(word + end)) << word;
      }
      all += word + " mno.";
    }
    ASSERT_EQ(tokenizer.EncodeOrdinary(all), oracle.Encode(all));
  }
}

TEST(BpeTokenizer, AsManyIdsAsBytes) {
  TestRng rng(7);
  for (const size_t length : {1, 8, 9, 14, 15, 16, 40, 64, 65, 400, 900, 30000}) {
    const BpeTokenizer tokenizer(LearntVocab(16, 257));  // without memory of earlier texts
    for (const int first : {int{'a'}, 0x80}) {  // letters, and bytes that belong to no character
      std::string text;
      for (size_t words = length > 1000 ? 3 : 200000 / (50 + length); words > 0; --words) {
        text += ' ';
        for (size_t i = 0; i < length; ++i) {
          text += static_cast<char>(first + static_cast<int>(rng.Below(26)));
        }
      }
      const Ids ids = tokenizer.EncodeOrdinary(text);
      ASSERT_EQ(ids.size(), text.size());
      ASSERT_EQ(tokenizer.Decode(ids), text);
    }
  }
}

// As many parts as are processed at a time, each with as many ids as possible: neighbours that
// occur in some token, so that nothing is cut there, but do not merge.
TEST(BpeTokenizer, AsManyIdsAsBytesInPartsOfLongPretokens) {
  BpeVocab vocab = ByteVocab();
  int32_t other = 'A';
  const auto keep_together = [&](int32_t left, int32_t right) {
    const int32_t before = AddMerge(vocab, other++, left);
    AddMerge(vocab, before, AddMerge(vocab, right, other++));
  };
  const std::string letters[] = {"а", "с"};
  for (const std::string& letter : letters) {
    const int32_t lead = static_cast<uint8_t>(letter[0]), tail = static_cast<uint8_t>(letter[1]);
    keep_together(lead, tail);
    keep_together(tail, lead);
  }
  keep_together(0x80, 0x80);  // in no character
  keep_together(0x90, 0x90);
  CheckBpeVocab(vocab, "test");
  const BpeTokenizer tokenizer(vocab);
  std::string text;
  for (int pretoken = 0; pretoken < 3000; ++pretoken) {
    for (const std::string& letter : letters) text += Repeated(letter, 7 * letter.size());
    text += std::string(15, '\x80') + std::string(15, '\x90');
  }
  const Ids ids = tokenizer.EncodeOrdinary(text);
  ASSERT_EQ(ids.size(), text.size());
  ASSERT_EQ(tokenizer.Decode(ids), text);
}

// For AddressSanitizer: no zero follows these texts as it does for strings.
TEST(BpeTokenizer, NothingBehindTheTextIsRead) {
  const std::string long_text = "It's 12 words, the thing'll go on: abcabcabc жжжж 中文中文中文中";
  for (const BpeVocab& vocab : Vocabs()) {
    const BpeTokenizer tokenizer(vocab);
    for (int again = 0; again < 2; ++again) {
      for (size_t length = 1; length <= long_text.size(); ++length) {
        const std::vector<char> exact(long_text.end() - static_cast<ptrdiff_t>(length),
                                      long_text.end());
        const std::string_view text(exact.data(), exact.size());
        ASSERT_EQ(tokenizer.Decode(tokenizer.EncodeOrdinary(text)), text);
      }
      tokenizer.EncodeOrdinary(std::string(70000, 'x'));  // a cache of its own from now on
    }
  }
}

TEST(BpeTokenizer, DecodesTokensOfEveryLength) {
  BpeVocab vocab = LearntVocab(17, 300);
  for (size_t length = 3; length < 300; ++length) {
    vocab.tokens.Add(std::string(length - 1, 'y') + std::to_string(length % 10));
  }
  const BpeTokenizer tokenizer(vocab);
  TestRng rng(8);
  Ids ids;
  std::string text;
  for (int i = 0; i < 30000; ++i) {  // mostly short ones
    const size_t id = i % 8 == 0 ? rng.Below(vocab.tokens.size()) : 290 + rng.Below(30);
    ids.push_back(static_cast<int32_t>(id));
    text += vocab.tokens[id];
  }
  EXPECT_EQ(tokenizer.Decode(ids), text);
  for (const int64_t id : {int64_t{-1}, tokenizer.vocab_size(), int64_t{1} << 30}) {
    EXPECT_THROW(tokenizer.Decode(Ids{65, static_cast<int32_t>(id)}), Error) << id;
  }
}

TEST(BpeTokenizer, EveryStringOfTwoBytesComesBack) {
  const BpeTokenizer tokenizer(LearntVocab(9, 400));
  for (int pair = 0; pair < 65536; ++pair) {
    const char text[] = {static_cast<char>(pair >> 8), static_cast<char>(pair)};
    const std::string_view view(text, 2);
    ASSERT_EQ(tokenizer.Decode(tokenizer.EncodeOrdinary(view)), view);
  }
}

TEST(BpeTokenizer, LongRunsAreLinearAndExact) {
  const BpeTokenizer tokenizer(LearntVocab(10, 600));
  for (const std::string part : {"a", "ab", " ", "\n", "-", "7", "ж", "中文", "👍", "\xff"}) {
    const std::string text = Repeated(part, kSanitized ? 200'000 : 2'000'000);
    const Ids ids = tokenizer.EncodeOrdinary(text);
    ASSERT_EQ(tokenizer.Decode(ids), text);
    // The beginning of a long run is encoded like a short one.
    const Ids few = tokenizer.EncodeOrdinary(std::string_view(text).substr(0, 6000));
    ASSERT_TRUE(
        std::equal(few.begin(), few.begin() + static_cast<ptrdiff_t>(few.size() / 2), ids.begin()));
  }
}

TEST(BpeTokenizer, HugePretokensOfAnyVocabulary) {
  for (const bool whole_pretokens : {false, true}) {
    const BpeTokenizer tokenizer(ImproperVocab(whole_pretokens));
    const std::string text = Repeated("abcaab", 200'000);
    const Ids ids = tokenizer.EncodeOrdinary(text);
    ASSERT_EQ(tokenizer.Decode(ids), text);
    const Ids once = tokenizer.EncodeOrdinary("abcaab");
    EXPECT_EQ(ids.size(), once.size() * text.size() / 6);
  }
}

// Runs without an end are encoded incrementally, in bounded memory.
TEST(BpeTokenizer, StreamsOfOnePretokenAreNotHeld) {
  const std::vector<std::string> leads = {"", " ", "-", "A", "x "};
  const std::vector<std::string> tails = {"", "'s", "B", "b c", "  \n x", "\n", "12"};
  TestRng rng(6);
  for (const SplitPattern pattern :
       {SplitPattern::kGpt2, SplitPattern::kCl100k, SplitPattern::kO200k}) {
    if (kSanitized && pattern != SplitPattern::kCl100k) continue;
    const BpeTokenizer tokenizer(LearntVocab(15, 600, pattern));
    for (const std::string part :
         {"a", "ab", "A", " ", "\n", "-", "-'", "ж", "中文", "👍", "\xff"}) {
      const std::string text = leads[rng.Below(leads.size())] +
                               Repeated(part, kSanitized ? 600'000 : 1'000'000) +
                               tails[rng.Below(tails.size())];
      StreamingEncoder encoder(tokenizer);
      Ids ids;
      size_t held = 0;
      for (size_t at = 0; at < text.size(); at += 4001) {
        encoder.Add(std::string_view(text).substr(at, 4001), ids);
        held = std::max(held, encoder.held());
      }
      encoder.Finish(ids);
      ASSERT_LT(held, 600'000u) << part;
      ASSERT_EQ(ids, tokenizer.EncodeOrdinary(text)) << part;
    }
  }
}

TEST(BpeTokenizer, ThreadsShareOne) {
  const BpeTokenizer tokenizer(LearntVocab(11, 600));
  TestRng rng(3);
  const std::string text = RandomText(Parts(), 60000, rng);
  const Ids expected = tokenizer.EncodeOrdinary(text);
  std::vector<std::thread> threads;
  std::vector<int> equal(6);
  for (int& same : equal) {
    threads.emplace_back([&] {
      for (int i = 0; i < 4; ++i) same += tokenizer.EncodeOrdinary(text) == expected ? 1 : 0;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(equal, std::vector<int>(6, 4));
}

class BpeTokenizerFiles : public InTemporaryDirectory {};

TEST_F(BpeTokenizerFiles, SavedAndLoadedIsTheSame) {
  for (const BpeVocab& vocab : {LearntVocab(12, 500), LearntVocab(13, 500, SplitPattern::kCl100k),
                                LearntVocab(14, 500, SplitPattern::kO200k)}) {
    const BpeTokenizer tokenizer(vocab);
    tokenizer.Save(At("").string());
    const auto loaded = LoadTokenizer(At("").string());
    EXPECT_EQ(loaded->hash(), tokenizer.hash());
    TestRng rng(4);
    const std::string text = RandomText(Parts(), 500, rng);
    EXPECT_EQ(loaded->EncodeOrdinary(text), tokenizer.EncodeOrdinary(text));
    EXPECT_EQ(loaded->Encode(text, "text", SpecialRule::Allow()),
              tokenizer.Encode(text, "text", SpecialRule::Allow()));
  }
}

std::unique_ptr<Tokenizer> Gpt2() {
  const std::string merges = TestData("gpt2/vocab.bpe");
  return merges.empty() ? nullptr : LoadTokenizer(merges);
}

std::vector<nlohmann::json> Lines(const std::string& path) {
  std::ifstream file(path);
  std::vector<nlohmann::json> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(nlohmann::json::parse(line));
  return lines;
}

TEST(BpeTokenizerGolden, Vectors) {
  const auto gpt2 = Gpt2();
  const std::string path = GoldenFile("tokenizer/golden_public.jsonl");
  if (!gpt2 || path.empty()) GTEST_SKIP() << "vocabulary not here";
  const std::vector<nlohmann::json> lines = Lines(path);
  EXPECT_EQ(lines.size(), 40u);
  for (const nlohmann::json& line : lines) {
    const SpecialRule rule =
        line["mode"] == "special" ? SpecialRule::Allow() : SpecialRule::Ordinary();
    EXPECT_EQ(gpt2->Encode(line["text"].get<std::string>(), "text", rule), line["ids"].get<Ids>())
        << line["id"];
  }
}

TEST(BpeTokenizerGolden, DecodedBytesAndText) {
  const auto gpt2 = Gpt2();
  const std::string path = GoldenFile("tokenizer/golden_decode.jsonl");
  if (!gpt2 || path.empty()) GTEST_SKIP() << "vocabulary not here";
  const std::vector<nlohmann::json> lines = Lines(path);
  EXPECT_EQ(lines.size(), 60u);
  for (const nlohmann::json& line : lines) {
    const Ids ids = line["ids"].get<Ids>();
    std::string hex;
    for (const char byte : gpt2->Decode(ids)) {
      constexpr char kDigits[] = "0123456789abcdef";
      hex += kDigits[static_cast<unsigned char>(byte) >> 4];
      hex += kDigits[byte & 15];
    }
    EXPECT_EQ(hex, line["bytes_hex"]) << line["id"];
    EXPECT_EQ(gpt2->DecodeText(ids), line["text_replace"]) << line["id"];
  }
}

TEST(BpeTokenizerGolden, TinyShakespeare) {
  const auto gpt2 = Gpt2();
  const std::string path = TestData("tinyshakespeare/input.txt");
  if (!gpt2 || path.empty()) GTEST_SKIP() << "vocabulary not here";
  const std::string text = ReadFile(path);
  EXPECT_EQ(gpt2->Count(text), 338025);
  const size_t cut = text.size() * 9 / 10;  // it is ASCII
  EXPECT_EQ(gpt2->Count(std::string_view(text).substr(0, cut)), 301966);
  EXPECT_EQ(gpt2->Count(std::string_view(text).substr(cut)), 36059);
}

// Every token that can be a text is encoded as itself; and the oracle agrees on texts of the real
// vocabularies' own tokens.
TEST(BpeTokenizerGolden, TokensOfEveryVocabulary) {
  constexpr size_t kStep = kSanitized ? 16 : 1;
  for (const char* file : {"r50k_base", "p50k_base", "cl100k_base", "o200k_base"}) {
    const std::string path = TestData(std::string("tiktoken/") + file + ".tiktoken");
    if (path.empty()) GTEST_SKIP() << "vocabulary not here";
    const BpeTokenizer tokenizer(ReadTiktoken(path, file));
    const BpeOracle oracle(tokenizer);
    const ByteStrings& tokens = tokenizer.vocab().tokens;
    std::vector<bool> special(tokens.size());
    for (const SpecialToken& s : tokenizer.vocab().specials)
      special[static_cast<size_t>(s.id)] = true;
    int64_t alone = 0;
    for (size_t id = 0; id < tokens.size(); id += kStep) {
      if (tokens[id].empty() || special[id]) continue;
      const std::string text(tokens[id]);
      if (NextPretoken(tokenizer.vocab().pattern, text, 0) != text.size())
        continue;  // several pretokens
      ASSERT_EQ(tokenizer.EncodeOrdinary(text), Ids{static_cast<int32_t>(id)}) << file;
      ++alone;
    }
    EXPECT_GT(alone, static_cast<int64_t>(tokens.size() / kStep) * 95 / 100) << file;
    TestRng rng(5);
    for (int i = 0; i < (kSanitized ? 50 : 200); ++i) {
      std::string text;
      for (size_t n = rng.Below(40); n > 0; --n) text += tokens[rng.Below(tokens.size())];
      ASSERT_EQ(tokenizer.EncodeOrdinary(text), oracle.Encode(text)) << file << ": " << text;
    }
  }
}

// A model has fewer rows than its tokenizer has tokens: it lacks a merged one and a special one.
TEST(KnownTokens, TextsWithOthersAreRefusedAndTheRestIsWhatItWas) {
  BpeVocab vocab = SmallVocab();
  const auto known = static_cast<int64_t>(vocab.tokens.size());
  const auto id = [&](char byte) {
    const auto ids = BpeTokenizer(vocab).EncodeOrdinary(std::string(1, byte));
    return ids.at(0);
  };
  AddMerge(vocab, id('a'), id('b'));
  AddSpecial(vocab, "<image>");
  BpeTokenizer tokenizer(vocab);
  EXPECT_EQ(tokenizer.known_tokens(), known + 2);
  tokenizer.set_known_tokens(known);
  tokenizer.set_chat_source({.text = "{{ x }}"});
  const std::unique_ptr<Tokenizer> without = OfKnownTokens(tokenizer);
  EXPECT_EQ(without->vocab_size(), known);
  EXPECT_EQ(without->chat_source(), tokenizer.chat_source());
  for (const char* text : {"hello world", "ba<|endoftext|>", "\xC3\xA9", ""}) {
    EXPECT_EQ(without->Encode(text, "x", SpecialRule::Allow()),
              tokenizer.Encode(text, "x", SpecialRule::Allow()));
  }
  const auto refused = [&](const auto& encode, const char* token, const char* id_is) {
    EXPECT_TRUE(Contains(ErrorOf(encode), "x: the model does not have the token", token, id_is,
                         std::to_string(known) + " embeddings"));
  };
  const std::string merged_id = "its id is " + std::to_string(known);
  refused([&] { tokenizer.Encode("cab", "x"); }, "\"ab\"", merged_id.c_str());
  refused([&] { tokenizer.EncodeOrdinary("cab", "x"); }, "\"ab\"", merged_id.c_str());
  refused([&] { tokenizer.Encode("a <image>", "x", SpecialRule::Allow()); }, "\"<image>\"",
          ("its id is " + std::to_string(known + 1)).c_str());
  EXPECT_EQ(without->EncodeOrdinary("cab").size(), 3u);
  EXPECT_EQ(without->Encode("<image>").size(), 7u);
}

TEST(KnownTokens, OthersThatAreNeededAreRefused) {
  BpeVocab vocab = ByteVocab();
  const int32_t whole = AddToken(vocab, "abc"), part = AddMerge(vocab, 'a', 'b');
  vocab.merges.push_back({part, 'c', whole});
  BpeTokenizer tokenizer(vocab);
  tokenizer.set_known_tokens(part);
  EXPECT_TRUE(Contains(ErrorAndHelp([&] { OfKnownTokens(tokenizer); }),
                       "token 256 is merged from one of them", "convert to hf"));
  vocab = ByteVocab();
  vocab.before = {AddSpecial(vocab, "<s>")};
  BpeTokenizer begins(vocab);
  begins.set_known_tokens(256);
  EXPECT_TRUE(Contains(ErrorAndHelp([&] { OfKnownTokens(begins); }),
                       "one of them represents bytes, or begins or ends texts"));
  const std::vector<std::string> more = {"<image>"};
  ByteTokenizer bytes(more);
  bytes.set_known_tokens(257);
  EXPECT_TRUE(Contains(ErrorAndHelp([&] { OfKnownTokens(bytes); }), "its kind is bytes"));
}

}  // namespace
}  // namespace folio
