#include "folio/text/tokenizer_file.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "folio/io/file.h"
#include "folio/io/json_parse.h"
#include "folio/io/test_files.h"
#include "folio/text/byte_tokenizer.h"

namespace folio {
namespace {

using Json = nlohmann::ordered_json;

class TokenizerFile : public InTemporaryDirectory {
 protected:
  // What LoadTokenizer says about `json`.
  std::string Refusal(const Json& json) {
    WriteFileAtomically(At("tokenizer.json"), json.dump());
    return ErrorOf([&] { LoadTokenizer(At("tokenizer.json").string()); }, ErrorKind::kInput);
  }
};

CharTokenizer Letters() {
  return CharTokenizer({0, U'\n', U'"', U'a', U'b', U'\u00E9', U'\U0001F600'});
}

TEST_F(TokenizerFile, WhatIsSavedLoadsAsTheSame) {
  const CharTokenizer letters = Letters();
  const ByteTokenizer bytes;
  for (const Tokenizer* tokenizer : std::initializer_list<const Tokenizer*>{&letters, &bytes}) {
    tokenizer->Save(At("").string());
    EXPECT_EQ(Names(), (std::vector<std::string>{"tokenizer.json", "tokenizer_config.json"}));
    for (const std::string& name : {At("").string(), At("tokenizer.json").string()}) {
      const std::unique_ptr<Tokenizer> loaded = LoadTokenizer(name);
      EXPECT_EQ(loaded->kind(), tokenizer->kind());
      EXPECT_EQ(loaded->hash(), tokenizer->hash());
      EXPECT_EQ(loaded->Encode("ab\n\"b"), tokenizer->Encode("ab\n\"b"));
    }
  }
  EXPECT_NE(letters.hash(), bytes.hash());
  EXPECT_NE(letters.hash(), CharTokenizer({U'a'}).hash());
}

TEST_F(TokenizerFile, ADirectoryWithoutOneSaysSo) {
  const std::string error = ErrorOf([&] { LoadTokenizer(At("").string()); }, ErrorKind::kInput);
  EXPECT_NE(error.find("no tokenizer here"), std::string::npos) << error;
}

TEST_F(TokenizerFile, TheByteAlphabetIsGpt2s) {
  const Json vocab = ParseJson(ByteTokenizerFile(), "bytes")["model"]["vocab"];
  EXPECT_EQ(vocab.size(), 257u);
  EXPECT_EQ(vocab["!"], 33);
  EXPECT_EQ(vocab["~"], 126);
  EXPECT_EQ(vocab["\u0100"], 0);
  EXPECT_EQ(vocab["\u010A"], 10);
  EXPECT_EQ(vocab["\u0120"], 32);
  EXPECT_EQ(vocab["\u0121"], 127);
  EXPECT_EQ(vocab["\u0142"], 160);
  EXPECT_EQ(vocab["\u0143"], 173);
  EXPECT_EQ(vocab["\u00FF"], 255);
  EXPECT_EQ(vocab["<|endoftext|>"], 256);
}

TEST_F(TokenizerFile, WhatAnotherToolSavedAgainStillLoads) {
  Json json = ParseJson(ByteTokenizerFile(), "bytes");
  json["model"].erase("ignore_merges");
  json["model"]["end_of_word_suffix"] = "";
  json["something_new"] = nullptr;
  Json backwards = Json::object();
  for (int32_t id = 256; id >= 0; --id) {
    for (const auto& [name, value] : json["model"]["vocab"].items()) {
      if (value == id) backwards[name] = id;
    }
  }
  json["model"]["vocab"] = backwards;
  WriteFileAtomically(At("tokenizer.json"), json.dump());
  EXPECT_EQ(LoadTokenizer(At("").string())->kind(), "bytes");
}

TEST_F(TokenizerFile, NamesWhatItDoesNotSupport) {
  const Json chars = ParseJson(CharTokenizerFile(Letters()), "chars");
  const Json bytes = ParseJson(ByteTokenizerFile(), "bytes");
  const auto has = [](const std::string& text, const char* part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  Json json = chars;
  json["model"]["type"] = "Unigram";
  has(Refusal(json), "model type 'Unigram' is not supported");
  json = chars;
  json["normalizer"] = {{"type", "NFC"}};
  has(Refusal(json), "normalizer type 'NFC' is not supported");
  json = chars;
  json["pre_tokenizer"]["behavior"] = "Removed";
  has(Refusal(json), "this \"pre_tokenizer\" is not supported");
  json = chars;
  json.erase("decoder");
  has(Refusal(json), "\"decoder\" is missing");
  json = chars;
  json["added_tokens"].push_back({{"id", 7}, {"content", "<s>"}});
  has(Refusal(json), "\"added_tokens\" is not supported");
  json = bytes;
  json["model"]["merges"].push_back("a b");
  has(Refusal(json), "merges is not supported");
  json = bytes;
  json["pre_tokenizer"]["add_prefix_space"] = true;
  has(Refusal(json), "this \"pre_tokenizer\" is not supported");
  json = bytes;
  std::swap(json["model"]["vocab"]["a"], json["model"]["vocab"]["b"]);
  has(Refusal(json), "this \"model\" is not supported");
  has(Refusal(Json::array()), "not a tokenizer");
  has(Refusal({{"model", 3}}), "model type '' is not supported");
}

TEST_F(TokenizerFile, RefusesACharacterVocabularyWithHolesOrDoubles) {
  const Json chars = ParseJson(CharTokenizerFile(Letters()), "chars");
  const auto with = [&](Json vocab) {
    Json json = chars;
    json["model"]["vocab"] = std::move(vocab);
    return Refusal(json);
  };
  const auto has = [](const std::string& text, const char* part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  has(with(Json::object()), "no vocabulary");
  has(with({{"a", 0}, {"b", 2}}), "the id 2 of 'b'");
  has(with({{"a", 0}, {"b", -1}}), "the id -1 of 'b'");
  has(with({{"a", 0}, {"b", 1.0}}), "the id 1.0 of 'b'");
  has(with({{"a", 0}, {"b", 0}}), "two tokens have the id 0");
  has(with({{"a", 1}, {"b", 0}}), "not in the order of Unicode");
  has(with({{"a", 0}, {"bc", 1}}), "\"bc\" is not one character");
  has(with({{"a", 0}, {"", 1}}), "\"\" is not one character");
}

TEST_F(TokenizerFile, MissingOrBrokenFilesAreInputErrors) {
  ErrorOf([&] { LoadTokenizer(At("").string()); }, ErrorKind::kInput);
  ErrorOf([&] { LoadTokenizer(At("nothing").string()); }, ErrorKind::kInput);
  const std::string whole = CharTokenizerFile(Letters());
  WriteFileAtomically(At("tokenizer.json"), whole.substr(0, whole.size() / 2));
  ErrorOf([&] { LoadTokenizer(At("").string()); }, ErrorKind::kInput);
}

}  // namespace
}  // namespace folio
