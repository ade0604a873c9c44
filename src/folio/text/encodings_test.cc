#include "folio/text/encodings.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <set>

#include "folio/io/file.h"
#include "folio/text/published_encodings.h"
#include "folio/text/special_tokens.h"
#include "folio/text/test_vocab.h"
#include "folio/text/tokenizer_file.h"
#include "folio/text/tokenizer_json_writer.h"
#include "tests/kit/directory.h"
#include "tests/kit/expect.h"
#include "tests/kit/paths.h"
#include "tests/kit/sanitized.h"

namespace folio {
namespace {

// An environment in which only the test's directory is searched.
class Encodings : public InTemporaryDirectory {
 protected:
  void SetUp() override {
    for (const char* name : kNames) {
      const char* value = std::getenv(name);
      saved_.emplace_back(value == nullptr ? "" : value);
      unsetenv(name);
    }
    setenv("FOLIO_HOME", At("home").c_str(), 1);
  }
  void TearDown() override {
    for (size_t i = 0; i < saved_.size(); ++i) {
      saved_[i].empty() ? unsetenv(kNames[i]) : setenv(kNames[i], saved_[i].c_str(), 1);
    }
  }

  static constexpr const char* kNames[] = {"FOLIO_HOME", "XDG_CACHE_HOME", "HOME"};
  std::vector<std::string> saved_;
};

auto EndOfText(const PublishedEncoding& encoding) {
  return std::ranges::find(encoding.specials, kEndOfTextToken, &SpecialToken::text);
}

TEST_F(Encodings, TheTableHoldsTogether) {
  std::set<std::string_view> names;
  for (const PublishedEncoding& encoding : PublishedEncodings()) {
    SCOPED_TRACE(encoding.name);
    names.insert(encoding.name);
    EXPECT_EQ(FindPublishedEncoding(encoding.name), &encoding);
    EXPECT_FALSE(encoding.summary.empty());
    EXPECT_LE(encoding.ranks, encoding.vocab_size);
    EXPECT_NE(EndOfText(encoding), encoding.specials.end());
    EXPECT_EQ(std::max(encoding.specials.back().id + 1, encoding.ranks), encoding.vocab_size);
    for (size_t i = 1; i < encoding.specials.size(); ++i) {
      EXPECT_LT(encoding.specials[i - 1].id, encoding.specials[i].id);
    }
    ASSERT_FALSE(encoding.files.empty());
    for (const PublishedFile& file : encoding.files) {
      EXPECT_TRUE(file.url.starts_with("https://"));
      EXPECT_TRUE(file.url.ends_with(std::string("/") + std::string(file.name)));
      EXPECT_EQ(file.sha256.size(), 64u);
      EXPECT_EQ(file.sha256.find_first_not_of("0123456789abcdef"), file.sha256.npos);
      EXPECT_GT(file.bytes, 400000);
    }
  }
  EXPECT_EQ(names, (std::set<std::string_view>{"gpt2", "r50k_base", "p50k_base", "p50k_edit",
                                               "cl100k_base", "o200k_base", "o200k_harmony"}));
  EXPECT_EQ(FindPublishedEncoding("cl100k"), FindPublishedEncoding("cl100k_base"));
  EXPECT_EQ(FindPublishedEncoding("gpt3"), nullptr);
  EXPECT_EQ(FindPublishedEncoding(""), nullptr);
}

TEST_F(Encodings, HomeIsTheFirstThatIsSet) {
  EXPECT_EQ(FetchedHome("tokenizers"), At("home/tokenizers").string());
  setenv("FOLIO_HOME", "", 1);
  EXPECT_EQ(FetchedHome("tokenizers"), "");
  setenv("HOME", "/h", 1);
  EXPECT_EQ(FetchedHome("tokenizers"), "/h/.cache/folio/tokenizers");
  setenv("XDG_CACHE_HOME", "/x", 1);
  EXPECT_EQ(FetchedHome("tokenizers"), "/x/folio/tokenizers");
}

TEST_F(Encodings, WhatIsNotThereSaysWhereItBelongs) {
  const auto open = [](const std::string& spec) { return [=] { OpenTokenizer(spec); }; };
  const std::string error = ErrorOf(open("gpt2"));
  EXPECT_TRUE(Contains(error, "gpt2 is not on this machine", "vocab.bpe", "encoder.json",
                       At("home/tokenizers/gpt2").string()));
  EXPECT_TRUE(Contains(ErrorOf(open("o200k")), "o200k_base.tiktoken"));
  unsetenv("FOLIO_HOME");
  EXPECT_TRUE(Contains(ErrorOf(open("gpt2")), "set HOME"));
  EXPECT_TRUE(Contains(ErrorOf(open("gtp2"), ErrorKind::kUsage), "no tokenizer 'gtp2'", "p50k_edit",
                       "cl100k_base"));
  EXPECT_EQ(Refused(open("gtp2"), ErrorKind::kUsage).help(), "did you mean gpt2?");
  EXPECT_TRUE(Contains(ErrorOf(open("./gpt2")), "./gpt2"));
}

TEST_F(Encodings, OpensPathsAndBytes) {
  EXPECT_EQ(OpenTokenizer("bytes")->kind(), "bytes");
  PutFile("small.json", TokenizerJson(SmallVocab()));
  EXPECT_EQ(OpenTokenizer(At("small.json").string())->vocab_size(), 272);
  std::filesystem::create_directories(At("home"));
  EXPECT_TRUE(
      Contains(ErrorOf([&] { OpenTokenizer(At("home").string()); }), ": no tokenizer found"));
}

class Published : public Encodings, public testing::WithParamInterface<const char*> {};

TEST_P(Published, OpensByNameAndSavesTheSame) {
  const PublishedEncoding& encoding = *FindPublishedEncoding(GetParam());
  if (kSanitized && encoding.vocab_size > 60'000)
    GTEST_SKIP() << "the small ones take the same way";
  const std::filesystem::path dir = At("home/tokenizers") / encoding.name;
  std::filesystem::create_directories(dir);
  for (const PublishedFile& file : encoding.files) {
    const std::string place = encoding.name == "gpt2" ? "gpt2/" : "tiktoken/";
    const std::string path = TestData(place + std::string(file.name));
    if (path.empty()) GTEST_SKIP() << "vocabulary not here";
    EXPECT_EQ(std::filesystem::file_size(path), static_cast<uint64_t>(file.bytes));
    std::filesystem::create_symlink(path, dir / file.name);
  }
  const std::unique_ptr<Tokenizer> tokenizer = OpenTokenizer(GetParam());
  EXPECT_EQ(tokenizer->kind(), "bpe");
  EXPECT_EQ(tokenizer->vocab_size(), encoding.vocab_size);
  EXPECT_EQ(tokenizer->end_of_text(), EndOfText(encoding)->id);
  const std::span<const SpecialToken> specials = tokenizer->special_tokens();
  EXPECT_EQ(std::vector<SpecialToken>(specials.begin(), specials.end()), encoding.specials);
  // By the directory alone, p50k_edit by its name.
  EXPECT_EQ(LoadTokenizer(dir.string())->hash(), tokenizer->hash());
  EXPECT_EQ(LoadTokenizer(dir.string() + "/")->hash(), tokenizer->hash());
  std::filesystem::create_directories(At("saved"));
  tokenizer->Save(At("saved").string());
  EXPECT_EQ(LoadTokenizer(At("saved").string())->hash(), tokenizer->hash());
}

TEST_F(Encodings, WithOneFileForTwoFindIt) {
  const PublishedEncoding& base = *FindPublishedEncoding("p50k_base");
  const PublishedEncoding& edit = *FindPublishedEncoding("p50k_edit");
  const std::string base_path = At("home/tokenizers/p50k_base/p50k_base.tiktoken").string();
  const std::string edit_path = At("home/tokenizers/p50k_edit/p50k_base.tiktoken").string();
  EXPECT_EQ(EncodingFile(base, base.files[0]), base_path);
  EXPECT_EQ(EncodingFile(edit, edit.files[0]), edit_path);  // its path if it existed
  const std::string path = TestData("tiktoken/p50k_base.tiktoken");
  if (path.empty()) GTEST_SKIP() << "vocabulary not here";
  std::filesystem::create_directories(At("home/tokenizers/p50k_base"));
  std::filesystem::create_symlink(path, base_path);
  EXPECT_EQ(EncodingFile(edit, edit.files[0]), base_path);
  EXPECT_EQ(OpenTokenizer("p50k_edit")->vocab_size(), edit.vocab_size);
  EXPECT_EQ(TokenizerFiles("p50k_edit"), (std::vector<std::string>{base_path}));
  std::filesystem::create_directories(At("home/tokenizers/p50k_edit"));
  std::filesystem::rename(base_path, edit_path);
  EXPECT_EQ(EncodingFile(base, base.files[0]), edit_path);
  EXPECT_EQ(OpenTokenizer("p50k_base")->vocab_size(), base.vocab_size);
}

INSTANTIATE_TEST_SUITE_P(All, Published,
                         testing::Values("gpt2", "r50k_base", "p50k_base", "p50k_edit",
                                         "cl100k_base", "o200k_base", "o200k_harmony"),
                         [](const auto& test) { return std::string(test.param); });

}  // namespace
}  // namespace folio
