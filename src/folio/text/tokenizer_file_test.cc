#include "folio/text/tokenizer_file.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "folio/base/rng.h"
#include "folio/io/file.h"
#include "folio/io/test_zip_bytes.h"
#include "folio/text/bpe_tokenizer.h"
#include "folio/text/bpe_vocab.h"
#include "folio/text/byte_tokenizer.h"
#include "folio/text/encodings.h"
#include "folio/text/test_vocab.h"
#include "folio/text/tokenizer_json_writer.h"
#include "tests/kit/directory.h"
#include "tests/kit/expect.h"
#include "tests/kit/paths.h"

namespace folio {
namespace {

using OrderedJson = nlohmann::ordered_json;

constexpr char kAlphabet[] = "\n !$&',-.3:;?ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

std::filesystem::path Meta(int protocol) {
  return SourceDir() / fmt::format("tests/fixtures/nanogpt-chars/meta-{}.pkl", protocol);
}

class NanoGptMeta : public InTemporaryDirectory {
 protected:
  std::string Refusal(const std::string& value) {
    PutFile("meta.pkl", WholePickle(value));
    return ErrorAndHelp([&] { ReadNanoGptMeta(At("meta.pkl")); });
  }
};

TEST_F(NanoGptMeta, IsReadInEveryProtocolOfPython3) {
  for (const int protocol : {2, 3, 4, 5}) {
    const auto tokenizer = ReadNanoGptMeta(Meta(protocol));
    EXPECT_EQ(tokenizer->vocab_size(), 65);
    const std::vector<int32_t> ids = tokenizer->EncodeOrdinary(kAlphabet);
    for (int32_t id = 0; id < 65; ++id) ASSERT_EQ(ids.at(static_cast<size_t>(id)), id) << protocol;
  }
}

TEST_F(NanoGptMeta, ItsDirectoryIsATokenizerAsOthersAre) {
  std::filesystem::copy_file(Meta(4), At("meta.pkl"));
  for (const auto& place : {At(""), At("meta.pkl")}) {
    EXPECT_EQ(OpenTokenizer(place.string())->hash(), ReadNanoGptMeta(Meta(2))->hash()) << place;
  }
  // A tokenizer that was made from it earlier takes precedence.
  CharTokenizer({U'x'}).Save(At("").string());
  EXPECT_EQ(LoadTokenizer(At("").string())->vocab_size(), 1);
}

TEST_F(NanoGptMeta, ThatSaysSomethingElseIsRefused) {
  const auto itos = [](const std::string& first, const std::string& second) {
    return "}(" + PickleInt(0) + PickleText(first) + PickleInt(1) + PickleText(second) + "u";
  };
  const auto meta = [](int64_t size, const std::string& characters) {
    return PickleDict({{"vocab_size", PickleInt(size)}, {"itos", characters}});
  };
  PutFile("good.pkl", WholePickle(meta(2, itos("a", "b"))));
  EXPECT_EQ(ReadNanoGptMeta(At("good.pkl"))->vocab_size(), 2);
  EXPECT_TRUE(
      Contains(Refusal(meta(3, itos("a", "b"))), "vocab_size is 3", "2 characters", "--tokenizer"));
  EXPECT_TRUE(Contains(Refusal(PickleDict({{"itos", itos("a", "b")}})), "vocab_size is not there"));
  for (const auto& wrong :
       {itos("b", "a"), itos("a", "a"), itos("a", "bc"), itos("a", ""), itos("a", "\xFF"),
        std::string("}"), std::string("]"), std::string("N")}) {
    EXPECT_TRUE(Contains(Refusal(meta(2, wrong)), "expected itos")) << wrong;
  }
  EXPECT_TRUE(Contains(Refusal("]"), "expected a dictionary"));
  EXPECT_TRUE(Contains(Refusal("cos\nsystem\n" + PickleText("true") + "\x85R"), "os.system",
                       "nothing was executed"));
}

TEST_F(NanoGptMeta, ThatIsCutOrDamagedIsAnErrorOrStillOne) {
  const std::string whole = ReadFile(Meta(4));
  for (size_t size = 0; size < whole.size(); ++size) {
    PutFile("meta.pkl", whole.substr(0, size));
    ErrorOf([&] { ReadNanoGptMeta(At("meta.pkl")); });
  }
  for (size_t at = 0; at < whole.size(); ++at) {
    for (const char with : {'\x00', '\xFF', 'c', 'R'}) {
      std::string damaged = whole;
      damaged[at] = with;
      PutFile("meta.pkl", damaged);
      try {
        EXPECT_LE(ReadNanoGptMeta(At("meta.pkl"))->vocab_size(), 65);
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), ErrorKind::kInput) << error.what();
      }
    }
  }
  PutFile("meta.pkl", "(dp0\nVvocab_size\np1\nI65\ns.");  // protocol 0
  EXPECT_TRUE(Contains(ErrorOf([&] { ReadNanoGptMeta(At("meta.pkl")); }), "protocol version"));
}

// tests/fixtures/nanochat/make.py pickled it with tiktoken, which also produced the ids.
class NanochatTokenizer : public InTemporaryDirectory {
 protected:
  const std::filesystem::path dir_ = SourceDir() / "tests/fixtures/nanochat/tokens";
  const std::filesystem::path file_ = dir_ / "tokenizer.pkl";
};

TEST_F(NanochatTokenizer, GivesTheIdsOfTiktoken) {
  std::filesystem::copy_file(file_, At("tokenizer.pkl"));
  for (const auto& place : {file_, At("")}) {
    const auto tokenizer = LoadTokenizer(place.string());
    EXPECT_EQ(tokenizer->vocab_size(), 256 + 12 + 9);
    const auto cases = OrderedJson::parse(ReadFile(dir_ / "tokens.json"));
    EXPECT_EQ(cases.size(), 5u);
    SCOPED_TRACE(place.string());
    for (const auto& one : cases) {
      const std::string text = one[0];
      EXPECT_EQ(tokenizer->EncodeOrdinary(text), one[1].get<std::vector<int32_t>>()) << text;
    }
    EXPECT_EQ(tokenizer->special_tokens().front().text, "<|bos|>");
    EXPECT_TRUE(Contains(tokenizer->chat_source().text, "<|assistant_start|>"));
    // As tokenizer.json it is the same.
    std::filesystem::create_directories(At("saved"));
    tokenizer->Save(At("saved").string());
    EXPECT_EQ(LoadTokenizer(At("saved").string())->hash(), tokenizer->hash());
  }
}

TEST_F(NanochatTokenizer, ThatIsCutOrDamagedIsAnErrorOrStillOne) {
  const std::string whole = ReadFile(file_);
  for (size_t at = 0; at < whole.size(); ++at) {
    for (const int kind : {0, 1, 2}) {
      std::string damaged = kind == 0 ? whole.substr(0, at) : whole;
      if (kind > 0) damaged[at] = kind == 1 ? '\0' : '\x81';
      PutFile("tokenizer.pkl", damaged);
      try {
        EXPECT_LE(ReadNanochatTokenizer(At("tokenizer.pkl"))->vocab_size(), 277);
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), ErrorKind::kInput) << error.what();
      }
    }
  }
  const auto refusal = [&](const std::string& from, const std::string& to) {
    std::string other = whole;
    other.replace(other.find(from), from.size(), to);
    PutFile("tokenizer.pkl", other);
    return ErrorAndHelp([&] { ReadNanochatTokenizer(At("tokenizer.pkl")); });
  };
  EXPECT_TRUE(Contains(refusal("{1,2}", "{1,9}"), "it splits text by", "tok_train"));
  EXPECT_TRUE(Contains(refusal("Encoding", "Decoding"), "tiktoken.core.Decoding"));
  EXPECT_TRUE(Contains(refusal("pat_str", "pat_stx"), "has no pat_str"));
  PutFile("tokenizer.pkl", WholePickle(PickleDict({{"itos", "}"}})));
  EXPECT_TRUE(Contains(ErrorAndHelp([&] { ReadNanochatTokenizer(At("tokenizer.pkl")); }),
                       "expected a pickled tiktoken Encoding"));
}

class TokenizerFile : public InTemporaryDirectory {
 protected:
  // Returns LoadTokenizer's error for the file.
  std::string Refusal(const std::string& name) const {
    return ErrorOf([&] { LoadTokenizer(At(name).string()); });
  }
  void ExpectRefused(const OrderedJson& json, const char* reason) {
    PutFile("tokenizer.json", json.dump());
    EXPECT_TRUE(Contains(Refusal("tokenizer.json"), reason));
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
    EXPECT_EQ(Names(), (Strings{"tokenizer.json", "tokenizer_config.json"}));
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

// Every kind of tokenizer accepts them: behind its own tokens, in the file, and among its own
// special tokens.
TEST_F(TokenizerFile, SpecialTokensCanBeAddedToAnyTokenizer) {
  const CharTokenizer letters = Letters();
  const ByteTokenizer bytes;
  const BpeTokenizer bpe(SmallVocab());
  const std::vector<std::string> first = {"<|a|>", "<|b|>"}, second = {"<|c|>"};
  for (const Tokenizer* tokenizer :
       {static_cast<const Tokenizer*>(&letters), static_cast<const Tokenizer*>(&bytes),
        static_cast<const Tokenizer*>(&bpe)}) {
    const auto V = static_cast<int32_t>(tokenizer->vocab_size());
    const std::unique_ptr<Tokenizer> more = tokenizer->WithSpecials(first)->WithSpecials(second);
    ASSERT_EQ(more->vocab_size(), V + 3);
    EXPECT_EQ(more->end_of_text(), tokenizer->end_of_text());
    more->Save(At("").string());
    for (const Tokenizer* other : {more.get(), LoadTokenizer(At("").string()).release()}) {
      EXPECT_EQ(other->hash(), more->hash());
      EXPECT_EQ(other->TokenBytes(V), "<|a|>");
      EXPECT_EQ(other->TokenBytes(V + 2), "<|c|>");
      EXPECT_EQ(other->Encode("<|c|>a<|a|>", "text", SpecialRule::Allow()),
                (std::vector<int32_t>{V + 2, tokenizer->Encode("a")[0], V}));
      EXPECT_EQ(other->EncodeOrdinary("ab"), tokenizer->EncodeOrdinary("ab"));
      if (other != more.get()) delete other;
    }
    EXPECT_NE(more->hash(), tokenizer->hash());
  }
}

TEST_F(TokenizerFile, AddedTokensThatDoNotFollowTheOthersAreRefused) {
  const std::vector<std::string> specials = {"<|a|>"};
  for (const auto& tokenizer :
       {Letters().WithSpecials(specials), ByteTokenizer().WithSpecials(specials)}) {
    const OrderedJson file = OrderedJson::parse(tokenizer->FileContents());
    const size_t last = file["added_tokens"].size() - 1;
    const auto with = [&](const char* key, const OrderedJson& value) {
      OrderedJson changed = file;
      changed["added_tokens"][last][key] = value;
      return changed;
    };
    ExpectRefused(with("id", 3), "added token");
    ExpectRefused(with("id", -1), "added token");
    ExpectRefused(with("id", "7"), "added token");
    ExpectRefused(with("content", ""), "added token");
    ExpectRefused(with("content", 7), "added token");
    ExpectRefused(with("lstrip", true), "added_tokens");
    OrderedJson twice = file;
    twice["added_tokens"].push_back(file["added_tokens"][last]);
    twice["added_tokens"].back()["id"] = tokenizer->vocab_size();
    ExpectRefused(twice, "two added tokens");
  }
}

TEST_F(TokenizerFile, TheMapOfSpecialTokensNamesThemWhereNothingElseDoes) {
  WriteFileAtomically(At("tokenizer.json"), ByteTokenizer().FileContents());
  EXPECT_EQ(LoadTokenizer(At("").string())->chat_source(), ChatSource());
  WriteFileAtomically(At("special_tokens_map.json"),
                      R"({"eos_token":{"content":"<|endoftext|>"}})");
  const auto tokenizer = LoadTokenizer(At("").string());
  EXPECT_EQ(tokenizer->chat_source().eos_token, "<|endoftext|>");
  std::filesystem::create_directory(At("saved"));
  tokenizer->Save(At("saved").string());
  EXPECT_EQ(LoadTokenizer(At("saved").string())->chat_source().eos_token, "<|endoftext|>");
}

TEST_F(TokenizerFile, ADirectoryWithoutOneSaysSo) {
  EXPECT_TRUE(Contains(Refusal(""), ": no tokenizer found"));
}

TEST_F(TokenizerFile, TheByteAlphabetIsGpt2s) {
  const OrderedJson vocab = OrderedJson::parse(ByteTokenizer().FileContents())["model"]["vocab"];
  EXPECT_EQ(vocab.size(), 257u);
  for (int byte = 0; byte < 256; ++byte) {
    EXPECT_EQ(vocab[ByteNames(std::string(1, static_cast<char>(byte)))], byte);
  }
  EXPECT_EQ(vocab["<|endoftext|>"], 256);
}

TEST_F(TokenizerFile, WhatAnotherToolSavedAgainStillLoads) {
  OrderedJson json = OrderedJson::parse(ByteTokenizer().FileContents());
  json["model"].erase("ignore_merges");
  json["model"]["end_of_word_suffix"] = "";
  json["something_new"] = nullptr;
  OrderedJson backwards = OrderedJson::object();
  for (int32_t id = 256; id >= 0; --id) {
    for (const auto& [name, value] : json["model"]["vocab"].items()) {
      if (value == id) backwards[name] = id;
    }
  }
  json["model"]["vocab"] = backwards;
  PutFile("tokenizer.json", json.dump());
  EXPECT_EQ(LoadTokenizer(At("").string())->kind(), "bytes");
}

TEST_F(TokenizerFile, NamesWhatItDoesNotSupport) {
  const OrderedJson chars = OrderedJson::parse(Letters().FileContents());
  const OrderedJson bytes = OrderedJson::parse(ByteTokenizer().FileContents());
  const auto refuses = [&](const OrderedJson& good, const char* at, const OrderedJson& value,
                           const char* reason) {
    OrderedJson json = good;
    json[OrderedJson::json_pointer(at)] = value;
    ExpectRefused(json, reason);
  };
  refuses(chars, "/model/type", "Unigram", "model type 'Unigram' is not supported");
  refuses(chars, "/normalizer", {{"type", "NFC"}}, "normalizer type 'NFC' is not supported");
  refuses(chars, "/pre_tokenizer/behavior", "Removed", "this \"pre_tokenizer\" is not supported");
  refuses(chars, "/added_tokens/-", {{"id", 7}, {"content", "<s>"}},
          "\"added_tokens\" is not supported");
  refuses(bytes, "/model/merges/-", "a b", "\"use_regex\": false does not split");
  refuses(bytes, "/pre_tokenizer/add_prefix_space", true,
          "this \"pre_tokenizer\" is not supported");
  OrderedJson json = chars;
  json.erase("decoder");
  ExpectRefused(json, "\"decoder\" is missing");
  json = bytes;
  std::swap(json["model"]["vocab"]["a"], json["model"]["vocab"]["b"]);
  ExpectRefused(json, "this \"model\" is not supported");
  ExpectRefused(OrderedJson::array(), "not a tokenizer");
  ExpectRefused({{"model", 3}}, "model type '' is not supported");
}

TEST_F(TokenizerFile, RefusesACharacterVocabularyWithHolesOrDoubles) {
  const OrderedJson chars = OrderedJson::parse(Letters().FileContents());
  const auto refuses = [&](OrderedJson vocab, const char* reason) {
    OrderedJson json = chars;
    json["model"]["vocab"] = std::move(vocab);
    ExpectRefused(json, reason);
  };
  refuses(OrderedJson::object(), "no vocabulary");
  refuses({{"a", 0}, {"b", 2}}, "the id 2 of 'b'");
  refuses({{"a", 0}, {"b", -1}}, "the id -1 of 'b'");
  refuses({{"a", 0}, {"b", 1.0}}, "the id 1.0 of 'b'");
  refuses({{"a", 0}, {"b", 0}}, "two tokens have the id 0");
  refuses({{"a", 1}, {"b", 0}}, "not in the order of Unicode");
  refuses({{"a", 0}, {"bc", 1}}, "\"bc\" is not one character");
  refuses({{"a", 0}, {"", 1}}, "\"\" is not one character");
}

void WritePair(const std::filesystem::path& dir, const char* vocab, const char* merges) {
  std::filesystem::create_directories(dir);
  WriteFileAtomically(dir / vocab, VocabJson(SmallVocab()));
  WriteFileAtomically(dir / merges, MergesTxt(SmallVocab()));
}

TEST_F(TokenizerFile, ABpeTokenizerIsTheSameFromWhateverFiles) {
  const BpeTokenizer tokenizer(SmallVocab());
  tokenizer.Save(At("").string());
  EXPECT_EQ(Names(),
            (Strings{"merges.txt", "tokenizer.json", "tokenizer_config.json", "vocab.json"}));
  EXPECT_EQ(OrderedJson::parse(ReadFile(At("tokenizer_config.json")))["eos_token"],
            "<|endoftext|>");
  WritePair(At("hf"), "vocab.json", "merges.txt");
  WritePair(At("gpt2"), "encoder.json", "vocab.bpe");
  for (const char* name : {"", "tokenizer.json", "vocab.json", "merges.txt", "hf", "hf/", "gpt2",
                           "gpt2/vocab.bpe", "gpt2/encoder.json"}) {
    const std::unique_ptr<Tokenizer> loaded = LoadTokenizer(At(name).string());
    EXPECT_EQ(loaded->kind(), "bpe") << name;
    EXPECT_EQ(loaded->hash(), tokenizer.hash()) << name;
    EXPECT_EQ(loaded->Encode("hello world\n\n"), tokenizer.Encode("hello world\n\n")) << name;
  }
}

// As GPT2Tokenizer of transformers 4 saves them.
TEST_F(TokenizerFile, TokensAddedToAPairAreSpecial) {
  WritePair(At(""), "vocab.json", "merges.txt");
  const auto plain = LoadTokenizer(At("").string());
  const auto V = static_cast<int32_t>(plain->vocab_size());
  const OrderedJson added = {{"<pad>", V + 3}, {"<|user|>", V}};
  PutFile("added_tokens.json", added.dump());
  PutFile("special_tokens_map.json", R"({"pad_token": "<pad>"})");
  PutFile("tokenizer_config.json",
          R"({"add_prefix_space": false, "tokenizer_class": "GPT2Tokenizer"})");
  const auto tokenizer = LoadTokenizer(At("").string());
  EXPECT_EQ(tokenizer->vocab_size(), V + 4);
  EXPECT_EQ(tokenizer->TokenBytes(V + 1), "");  // an id without a token
  EXPECT_EQ(tokenizer->special_tokens().size(), plain->special_tokens().size() + 2);
  EXPECT_EQ(tokenizer->EncodeOrdinary("hello world"), plain->EncodeOrdinary("hello world"));
  EXPECT_EQ(tokenizer->Encode("<|user|><pad>", "", SpecialRule::Allow()),
            (std::vector<int32_t>{V, V + 3}));
  PutFile("added_tokens.json", R"({"<pad>": 1})");
  EXPECT_TRUE(Contains(Refusal(""), "two tokens have the id 1"));
  PutFile("added_tokens.json", R"({"<pad>": "1"})");
  EXPECT_TRUE(Contains(Refusal(""), "added_tokens.json"));
  PutFile("added_tokens.json", "{}");
  PutFile("tokenizer_config.json", R"({"add_prefix_space": true})");
  EXPECT_TRUE(Contains(Refusal(""), "tokenizer_config.json", "add_prefix_space"));
}

// AutoTokenizer.from_pretrained(RUN).save_pretrained(X).
TEST_F(TokenizerFile, AnIdentityTemplateIsNoPostProcessor) {
  const OrderedJson template_of_none = {
      {"type", "TemplateProcessing"},
      {"single", OrderedJson::array({{{"Sequence", {{"id", "A"}, {"type_id", 0}}}}})},
      {"pair", OrderedJson::array({{{"Sequence", {{"id", "A"}, {"type_id", 0}}}},
                                   {{"Sequence", {{"id", "B"}, {"type_id", 1}}}}})},
      {"special_tokens", OrderedJson::object()}};
  for (const std::string& file :
       {Letters().FileContents(), ByteTokenizer().FileContents(), TokenizerJson(SmallVocab())}) {
    PutFile("tokenizer.json", file);
    const std::string hash = LoadTokenizer(At("").string())->hash();
    OrderedJson json = OrderedJson::parse(file);
    json["post_processor"] = template_of_none;
    PutFile("tokenizer.json", json.dump());
    EXPECT_EQ(LoadTokenizer(At("").string())->hash(), hash);
  }
}

TEST_F(TokenizerFile, TokenizerJsonComesFirst) {
  WritePair(At(""), "vocab.json", "merges.txt");
  ByteTokenizer().Save(At("").string());
  EXPECT_EQ(LoadTokenizer(At("").string())->kind(), "bytes");
  EXPECT_EQ(LoadTokenizer(At("merges.txt").string())->kind(), "bpe");
  PutFile("tokenizer_config.json", R"({"add_bos_token": true, "bos_token": "<|endoftext|>"})");
  EXPECT_TRUE(LoadTokenizer(At("").string())->before().empty());
}

TEST_F(TokenizerFile, AMissingPartnerIsNamed) {
  WritePair(At("a"), "vocab.json", "merges.txt");
  WritePair(At("b"), "encoder.json", "vocab.bpe");
  std::filesystem::remove(At("a/merges.txt"));
  std::filesystem::remove(At("b/encoder.json"));
  for (const char* name : {"a", "a/vocab.json"}) {
    EXPECT_TRUE(Contains(Refusal(name), "merges.txt is missing", "vocab.json"));
  }
  for (const char* name : {"b", "b/vocab.bpe"}) {
    EXPECT_TRUE(Contains(Refusal(name), "encoder.json is missing", "vocab.bpe"));
  }
}

TEST_F(TokenizerFile, ATiktokenFileNeedsTheNameOfItsEncoding) {
  PutFile("mine.tiktoken", "IQ== 0\n");
  EXPECT_TRUE(Contains(Refusal("mine.tiktoken"), "'mine' is not one of gpt2, r50k_base"));
  EXPECT_TRUE(Contains(Refusal(""), ": no tokenizer found"));
  PutFile("o200k_base.tiktoken", "IQ== 0\n");
  EXPECT_TRUE(Contains(Refusal(""), "o200k_base.tiktoken: rank 1 is missing"));
  PutFile("r50k_base.tiktoken", "IQ== 0\n");
  EXPECT_TRUE(Contains(Refusal(""), ": several tokenizers found", "r50k_base.tiktoken"));
}

// A byte changed, taken out, put in; a part taken out, doubled; the end missing.
std::string Mutated(std::string text, uint64_t index) {
  const CounterRng rng(7, 0);
  uint64_t draw = index * 64 * 16;
  const auto below = [&](uint64_t n) { return static_cast<size_t>(rng.Below(draw++, n)); };
  for (size_t times = 1 + below(3); times > 0; --times) {
    if (text.empty()) break;
    const size_t at = below(text.size());
    const size_t length = 1 + below(12);
    switch (below(6)) {
      case 0:
        text[at] = static_cast<char>(below(256));
        break;
      case 1:
        text.insert(at, 1, "\"\\{}[],: \n0-"[below(13)]);
        break;
      case 2:
        text.erase(at, length);
        break;
      case 3:
        text.insert(at, text.substr(at, length));
        break;
      case 4:
        text[at] = static_cast<char>(text[at] ^ (1 << below(8)));
        break;
      default:
        text.resize(at);
    }
  }
  return text;
}

TEST_F(TokenizerFile, ChangedFilesLoadOrAreRefused) {
  const BpeVocab vocab = SmallVocab();
  BpeVocab other = SmallVocab(true);
  other.pattern = SplitPattern::kCl100k;
  const auto load = [&](const std::filesystem::path& path) {
    try {
      const std::unique_ptr<Tokenizer> tokenizer = LoadTokenizer(path.string());
      const std::string text = "hello world\n\n caf\u00E9";
      if (tokenizer->kind() == "bpe") {
        EXPECT_EQ(tokenizer->Decode(tokenizer->EncodeOrdinary(text)), text);
      }
      EXPECT_FALSE(tokenizer->FileContents().empty());
      return 1;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kInput) << error.what();
      return 0;
    }
  };
  const std::string json = TokenizerJson(vocab);
  const std::string members = json.substr(0, json.find("\"vocab\"") + 300);
  int loaded = 0;
  int files = 0;
  for (uint64_t i = 0; i < 250; ++i, files += 3) {
    // Half of the changes are in the part before the vocabulary.
    PutFile("tokenizer.json", i % 4 == 0   ? Mutated(TokenizerJson(other), i)
                              : i % 4 == 1 ? Mutated(Letters().FileContents(), i)
                              : i % 4 == 2 ? Mutated(json, i)
                                           : Mutated(members, i) + json.substr(members.size()));
    loaded += load(At("tokenizer.json"));
    std::filesystem::remove(At("tokenizer.json"));
    PutFile("vocab.json", Mutated(VocabJson(vocab), 2 * i));
    PutFile("merges.txt", MergesTxt(vocab));
    loaded += load(At(""));
    PutFile("vocab.json", VocabJson(vocab));
    PutFile("merges.txt", Mutated(MergesTxt(vocab), i));
    loaded += load(At(""));
  }
  EXPECT_GT(loaded, files / 50);
  EXPECT_LT(loaded, files / 2);
}

TEST_F(TokenizerFile, MissingOrBrokenFilesAreInputErrors) {
  Refusal("");
  Refusal("nothing");
  const std::string whole = Letters().FileContents();
  PutFile("tokenizer.json", whole.substr(0, whole.size() / 2));
  Refusal("");
}

}  // namespace

}  // namespace folio
