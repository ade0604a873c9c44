#include "folio/text/vocab_files.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "folio/io/file.h"
#include "folio/text/published_encodings.h"
#include "folio/text/test_vocab.h"
#include "folio/text/tokenizer_json.h"
#include "folio/text/tokenizer_json_writer.h"
#include "tests/kit/directory.h"
#include "tests/kit/expect.h"
#include "tests/kit/paths.h"
#include "tests/kit/sanitized.h"

namespace folio {
namespace {

class VocabFiles : public InTemporaryDirectory {
 protected:
  BpeVocab ReadPair(std::string_view json, std::string_view merges) {
    PutFile("vocab.json", json);
    PutFile("merges.txt", merges);
    return ReadVocabAndMerges(At("vocab.json").string(), At("merges.txt").string());
  }
  std::string PairRefusal(std::string_view json, std::string_view merges) {
    return ErrorOf([&] { ReadPair(json, merges); });
  }
  std::string TiktokenRefusal(std::string_view contents, const std::string& name = "r50k_base") {
    PutFile("x.tiktoken", contents);
    return ErrorOf([&] { ReadTiktoken(At("x.tiktoken").string(), name); });
  }
};

// VocabJson of `vocab` with its members changed by f(object).
template <class F>
std::string ChangedJson(const BpeVocab& vocab, F&& f) {
  nlohmann::ordered_json json = nlohmann::ordered_json::parse(VocabJson(vocab));
  f(json);
  return json.dump();
}

TEST_F(VocabFiles, AVocabularyAndItsMergesAreReadAsWritten) {
  for (const bool specials_first : {false, true}) {
    const BpeVocab vocab = SmallVocab(specials_first);
    EXPECT_TRUE(ReadPair(VocabJson(vocab), MergesTxt(vocab)) == vocab);
  }
  const BpeVocab bytes = MakeTestVocab({}, {});
  EXPECT_TRUE(ReadPair(VocabJson(bytes), MergesTxt(bytes)) == bytes);
  // Names in the escapes of JSON, members in any order, and white space.
  const BpeVocab vocab = SmallVocab();
  const std::string escaped = ChangedJson(vocab, [](nlohmann::ordered_json& json) {
    const auto& members = json.get_ref<const nlohmann::ordered_json::object_t&>();
    json = nlohmann::ordered_json::object_t(members.rbegin(), members.rend());
  });
  EXPECT_TRUE(ReadPair(nlohmann::ordered_json::parse(escaped).dump(3, ' ', true),
                       MergesTxt(vocab)) == vocab);
}

TEST_F(VocabFiles, MergesMayHaveNoHeaderAndAnyLineEnds) {
  const BpeVocab vocab = SmallVocab();
  const std::string json = VocabJson(vocab);
  std::string merges = MergesTxt(vocab);
  EXPECT_TRUE(merges.starts_with("#version: 0.2\nh e\nl l\n"));
  merges.pop_back();
  EXPECT_TRUE(ReadPair(json, merges) == vocab);
  std::string dos;
  for (const char c : merges) dos += c == '\n' ? "\r\n" : std::string(1, c);
  EXPECT_TRUE(ReadPair(json, dos) == vocab);
  EXPECT_TRUE(ReadPair(json, merges.substr(merges.find('\n') + 1)) == vocab);
}

TEST_F(VocabFiles, IdsMayHaveHoles) {
  const BpeVocab vocab = SmallVocab();
  const BpeVocab read = ReadPair(
      ChangedJson(vocab, [](nlohmann::ordered_json& json) { json["<|endoftext|>"] = 5000; }),
      MergesTxt(vocab));
  EXPECT_EQ(read.tokens.size(), 5001u);
  EXPECT_EQ(read.specials[1], (SpecialToken{"<|endoftext|>", 5000}));
  EXPECT_TRUE(read.tokens[270].empty());
  EXPECT_TRUE(ReadPair(VocabJson(read), MergesTxt(read)) == read);
  EXPECT_TRUE(ReadTokenizerJson(TokenizerJson(read), "x") == read);
}

TEST_F(VocabFiles, RefusesAWrongVocabularyByName) {
  const BpeVocab vocab = SmallVocab();
  const std::string json = VocabJson(vocab);
  const std::string merges = MergesTxt(vocab);
  const auto changed = [&](std::string_view from, std::string_view to) {
    return PairRefusal(Replaced(json, from, to), merges);
  };
  EXPECT_TRUE(Contains(changed("\"!\":0", "\"!\":1"), "two tokens have the id 1", "'!' and '\"'"));
  EXPECT_TRUE(Contains(changed("\"hello\":", "\"hell\":"), "two tokens are the same", "'hell'"));
  EXPECT_TRUE(Contains(changed(":270", ":-1"), "the id -1 is out of range", "vocab.json:1:"));
  EXPECT_TRUE(Contains(changed(":270", ":2097152"), "out of range", "0 to 2097151"));
  EXPECT_TRUE(Contains(changed(":270", ":99999999999"), "out of range"));
  EXPECT_TRUE(Contains(changed(":270", ":9999999999999999999"), "too many digits"));
  for (const char* id : {":1.5", ":1e3", ":0270", ":\"270\"", ":null"}) {
    EXPECT_TRUE(Contains(changed(":270", id), "expected an integer")) << id;
  }
  EXPECT_TRUE(Contains(changed("\"!\":0,", ""), "a byte has no token", "0x21"));
  EXPECT_TRUE(Contains(changed("\"he\"", "\"\""), "a token is empty", "its id is 256"));
  EXPECT_TRUE(Contains(changed("\"hell\"", "\"hall\""), "merges.txt:4",
                       ": the merge creates an unknown token"));
  EXPECT_TRUE(Contains(changed("|endoftext|", "|\xFF|"), "is not UTF-8"));
}

TEST_F(VocabFiles, RefusesBrokenJsonWithItsPlace) {
  const BpeVocab vocab = SmallVocab();
  const std::string merges = MergesTxt(vocab);
  const auto refusal = [&](std::string_view json) { return PairRefusal(json, merges); };
  EXPECT_TRUE(Contains(refusal(""), "vocab.json:1:1", "expected '{', found the end"));
  EXPECT_TRUE(Contains(refusal("[1]"), "vocab.json:1:1", "expected '{'"));
  EXPECT_TRUE(Contains(refusal("{\n \"a\" 1}"), "vocab.json:2:6", "expected ':'"));
  EXPECT_TRUE(Contains(refusal("{\"a\":1,}"), "vocab.json:1:8", "expected '\"'"));
  EXPECT_TRUE(Contains(refusal("{\"a\":1 \"b\":2}"), "vocab.json:1:8", "expected '}'"));
  EXPECT_TRUE(Contains(refusal("{\"a\":1} x"), "vocab.json:1:9", "expected the end"));
  EXPECT_TRUE(Contains(refusal("{\"a"), "vocab.json:1:2", "not closed"));
  EXPECT_TRUE(Contains(refusal("{\"a\\"), "invalid escape sequence"));
  EXPECT_TRUE(Contains(refusal("{\"a\\x\":1}"), "vocab.json:1:4", "invalid escape sequence"));
  EXPECT_TRUE(Contains(refusal("{\"\\u12G4\":1}"), "four hexadecimal digits"));
  EXPECT_TRUE(Contains(refusal("{\"a\nb\":1}"), "control character 0x0A"));
  EXPECT_TRUE(Contains(refusal(std::string("{\"a\":1\0}", 8)), "expected '}'"));
  const std::string whole = VocabJson(vocab);
  for (const size_t length : {whole.size() - 2, whole.size() / 2, size_t{1}}) {
    EXPECT_TRUE(Contains(refusal(whole.substr(0, length)), "vocab.json:1:"));
  }
}

TEST_F(VocabFiles, EscapesMeanTheirCharacters) {
  const BpeVocab vocab = MakeTestVocab({}, {"<|\U0001F600\t\b\f\r/\u4E2D|>"});
  const std::string json =
      Replaced(VocabJson(vocab), "<|\U0001F600\\u0009\\u0008\\u000c\\u000d/\u4E2D|>",
               "<|\\uD83D\\ude00\\t\\b\\f\\r\\/\\u4e2D|>");
  EXPECT_TRUE(ReadPair(json, "") == vocab);
}

TEST_F(VocabFiles, RefusesWrongMergesWithTheirLine) {
  const BpeVocab vocab = SmallVocab();
  const std::string json = VocabJson(vocab);
  const std::string merges = MergesTxt(vocab);
  const auto refusal = [&](const std::string& text) { return PairRefusal(json, text); };
  EXPECT_TRUE(Contains(refusal(merges + "xyz q\n"), "merges.txt:16", "unknown token", "'xyz'"));
  EXPECT_TRUE(
      Contains(refusal(merges + "q w\n"), "merges.txt:16", ": the merge creates an unknown token"));
  EXPECT_TRUE(Contains(refusal(merges + "\u4E2D w\n"), "unknown token"));
  for (const char* line : {"he", "h e l", " he", "he ", "h  e", "\xFF\xFF\x01", ""}) {
    EXPECT_TRUE(Contains(refusal(merges + line + "\n"), "merges.txt:16: not a merge")) << line;
  }
  EXPECT_TRUE(Contains(refusal(merges + "h e\n"), "merge 15 appears twice"));
  EXPECT_TRUE(Contains(refusal("h e\n" + merges), "merges.txt:2"));
  // Without its merge, its result is special; and so no part of another merge.
  EXPECT_TRUE(Contains(refusal(Replaced(merges, "h e\n", "")), "merge 2 is not valid",
                       "not an ordinary token"));
}

TEST_F(VocabFiles, MissingAndHugeFilesAreRefused) {
  EXPECT_TRUE(Contains(ErrorOf([&] { ReadVocabAndMerges(At("a").string(), At("b").string()); }),
                       At("a").string()));
  PutFile("vocab.json", "{}");
  std::filesystem::resize_file(At("vocab.json"), uint64_t{1} << 32);  // a sparse file
  EXPECT_TRUE(Contains(ErrorOf([&] { ReadVocabAndMerges(At("vocab.json").string(), "b"); }),
                       "at most 67108864"));
  EXPECT_TRUE(
      Contains(ErrorOf([&] { ReadTiktoken(At("vocab.json").string(), "gpt2"); }), "at most"));
}

TEST_F(VocabFiles, APublishedNameAsksForItsCounts) {
  const BpeVocab vocab = SmallVocab();
  PutFile("vocab.json", VocabJson(vocab));
  PutFile("merges.txt", MergesTxt(vocab));
  const auto read = [&] {
    ReadVocabAndMerges(At("vocab.json").string(), At("merges.txt").string(), {.name = "gpt2"});
  };
  EXPECT_TRUE(Contains(ErrorOf(read), "not the vocabulary of gpt2",
                       "expected 50,257 ids, 1 of them special", "give 272 and 2"));
}

TEST_F(VocabFiles, ATiktokenFileIsRanksAndTheSpecialsOfItsName) {
  PutFile("x.tiktoken", TiktokenFile());
  const BpeVocab vocab = ReadTiktoken(At("x.tiktoken").string(), "r50k");
  CheckBpeVocab(vocab, "x");
  EXPECT_EQ(vocab.name, "r50k_base");
  EXPECT_EQ(vocab.tokens.size(), 50257u);
  EXPECT_EQ(vocab.tokens[0], "\xFF");
  EXPECT_EQ(vocab.tokens[256 + 0x4142], "AB");
  EXPECT_EQ(vocab.tokens[50256], "<|endoftext|>");
  EXPECT_FALSE(vocab.whole_pretokens);  // a merge makes every token
  ASSERT_EQ(vocab.merges.size(), 50000u);
  EXPECT_EQ(vocab.merges[0x4142], (BpeMerge{255 - 0x41, 255 - 0x42, 256 + 0x4142}));
  // BC comes first, and nothing makes ABCD from A, BC and D.
  const std::string& text = TiktokenFile();
  PutFile("x.tiktoken", Replaced(text, "QUI= ", "QUJDRA== "));
  EXPECT_TRUE(ReadTiktoken(At("x.tiktoken").string(), "r50k").whole_pretokens);
  // The order of the lines does not matter.
  const size_t second = text.find('\n') + 1;
  PutFile("x.tiktoken", text.substr(second) + text.substr(0, second));
  EXPECT_TRUE(ReadTiktoken(At("x.tiktoken").string(), "r50k") == vocab);
}

TEST_F(VocabFiles, RefusesAWrongTiktokenFileWithItsLine) {
  const std::string& text = TiktokenFile();
  const auto line = [&](const std::string& bad) { return TiktokenRefusal("/w== 0\n" + bad); };
  EXPECT_TRUE(Contains(TiktokenRefusal(text, "r99k"), "'r99k' is not one of gpt2, r50k_base"));
  for (const char* bad : {"/g 1", "/g= 1", "/g=== 1", "/h== 1", "/g=a 1", "=/g= 1", "_g== 1",
                          "==== 1", " 1", "/\xFF== 1", "//9= 1"}) {
    EXPECT_TRUE(Contains(line(bad), "x.tiktoken:2: not a token", "base64")) << bad;
  }
  EXPECT_TRUE(Contains(line("/g==\n"), "x.tiktoken:2: not a token", "its rank"));
  EXPECT_TRUE(Contains(line("\n"), "x.tiktoken:2: not a token"));
  EXPECT_TRUE(Contains(line(std::string(4000, 'A') + " 1\n"), "more than 1024"));
  for (const char* bad : {"/g== ", "/g== -1", "/g== +1", "/g== 1 ", "/g==  1", "/g== 1x",
                          "/g== 50256", "/g== 99999999999999999999999", "/g== 0x1"}) {
    EXPECT_TRUE(Contains(line(bad), "x.tiktoken:2: invalid rank", "0 to 50255")) << bad;
  }
  EXPECT_TRUE(Contains(line("/g== 0"), "x.tiktoken:2: duplicate rank 0", "on line 1"));
  EXPECT_TRUE(Contains(TiktokenRefusal("/w== 50256", "p50k_base"), "id of a special token"));
  EXPECT_TRUE(Contains(TiktokenRefusal(""), "rank 0 is missing", "50,256"));
  EXPECT_TRUE(Contains(TiktokenRefusal(text.substr(0, text.rfind("\n", text.size() - 2) + 1)),
                       "rank 50255 is missing"));
  EXPECT_TRUE(Contains(TiktokenRefusal(text, "cl100k"), "rank 50256 is missing"));
  EXPECT_TRUE(Contains(TiktokenRefusal(Replaced(text, "QUI= ", "QUE= ")), "tokens are the same"));
  EXPECT_TRUE(Contains(TiktokenRefusal(Replaced(text, "QQ== ", "w1BB ")), "a byte has no token"));
  EXPECT_TRUE(Contains(TiktokenRefusal(std::string(100000, '\0')), "x.tiktoken:1: not a token"));
}

TEST_F(VocabFiles, ThePublishedFilesAreReadAndWrittenBack) {
  const std::string json = TestData("gpt2/encoder.json");
  const std::string merges = TestData("gpt2/vocab.bpe");
  const std::string ranks = TestData("tiktoken/r50k_base.tiktoken");
  if (json.empty() || merges.empty() || ranks.empty()) GTEST_SKIP() << "vocabulary not here";
  const BpeVocab gpt2 = ReadVocabAndMerges(json, merges, {.name = "gpt2"});
  ASSERT_EQ(gpt2.merges.size(), 50000u);
  for (size_t i = 0; i < 50000; ++i) {
    ASSERT_EQ(gpt2.merges[i].merged, static_cast<int32_t>(256 + i));
  }
  EXPECT_EQ(gpt2.tokens[262], " the");
  EXPECT_EQ(gpt2.tokens[50255], " gazed");
  EXPECT_EQ(MergesTxt(gpt2), ReadFile(merges));
  // Not in the order of the files: a linear search for 50,000 keys takes seconds.
  if (!kSanitized) {
    EXPECT_EQ(nlohmann::json::parse(VocabJson(gpt2)), nlohmann::json::parse(ReadFile(json)));
  }
  const BpeVocab r50k = ReadTiktoken(ranks, "gpt2");
  EXPECT_TRUE(r50k.tokens == gpt2.tokens);
  EXPECT_TRUE(r50k.merges == gpt2.merges);
  // The same identity, whichever files it came from.
  BpeVocab read = ReadTokenizerJson(TokenizerJson(gpt2), "ours");
  EXPECT_EQ(TokenizerJson(read), TokenizerJson(gpt2));
  EXPECT_EQ(read.name, "");
  read.name = "gpt2";
  EXPECT_TRUE(read == gpt2);
}

TEST_F(VocabFiles, EveryPublishedFileOfRanksHasItsMerges) {
  // The last of all other tokens is made by one pair; these are whole pretokens only.
  const std::pair<const char*, size_t> merges[] = {{"p50k_base", 50024},
                                                   {"p50k_edit", 50024},
                                                   {"cl100k_base", 100000},
                                                   {"o200k_base", 199742},
                                                   {"o200k_harmony", 199742}};
  for (const auto& [name, count] : merges) {
    const PublishedEncoding& encoding = *FindPublishedEncoding(name);
    const std::string path = TestData("tiktoken/" + std::string(encoding.files[0].name));
    if (path.empty()) GTEST_SKIP() << "vocabulary not here";
    if (kSanitized && count > 60'000) continue;
    const BpeVocab vocab = ReadTiktoken(path, name);
    EXPECT_EQ(vocab.merges.size(), count);
    EXPECT_EQ(static_cast<int64_t>(vocab.tokens.size()), encoding.vocab_size);
    CheckBpeVocab(vocab, name);
    BpeVocab read = ReadTokenizerJson(TokenizerJson(vocab), name);
    read.name = name;
    EXPECT_TRUE(read == vocab) << name;
  }
}

}  // namespace
}  // namespace folio
