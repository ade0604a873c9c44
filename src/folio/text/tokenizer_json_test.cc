#include "folio/text/tokenizer_json.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "folio/text/test_vocab.h"
#include "folio/text/tokenizer_json_writer.h"
#include "folio/text/vocab_files.h"
#include "tests/kit/expect.h"

namespace folio {
namespace {

using OrderedJson = nlohmann::ordered_json;

BpeVocab Read(const OrderedJson& json) {
  return ReadTokenizerJson(json.dump(), "file");
}

std::string Refusal(const std::string& contents) {
  return ErrorOf([&] { ReadTokenizerJson(contents, "file"); });
}

OrderedJson SmallJson() {
  return OrderedJson::parse(TokenizerJson(SmallVocab()));
}

TEST(TokenizerJson, IsReadAsWritten) {
  for (const SplitPattern pattern : kSplitPatterns) {
    for (const bool flag : {false, true}) {
      BpeVocab vocab = SmallVocab(flag);
      vocab.pattern = pattern;
      vocab.whole_pretokens = flag;
      const std::string json = TokenizerJson(vocab);
      const BpeVocab read = ReadTokenizerJson(json, "file");
      EXPECT_TRUE(read == vocab);
      EXPECT_EQ(TokenizerJson(read), json);
      EXPECT_TRUE(Read(OrderedJson::parse(json)) == vocab);
    }
  }
  const BpeVocab bytes = MakeTestVocab({}, {});
  EXPECT_TRUE(ReadTokenizerJson(TokenizerJson(bytes), "file") == bytes);
}

TEST(TokenizerJson, TokensThatNoMergeMakesStayTokens) {
  BpeVocab vocab = SmallVocab();
  vocab.tokens.Add("unmade");
  EXPECT_TRUE(ReadTokenizerJson(TokenizerJson(vocab), "file") == vocab);
}

TEST(TokenizerJson, TheNameIsNotInIt) {
  BpeVocab vocab = SmallVocab();
  const std::string json = TokenizerJson(vocab);
  vocab.name = "gpt2";
  EXPECT_EQ(TokenizerJson(vocab), json);
}

// Like GPT-2's own file, from an older writer, which wrote neither the model's type nor use_regex.
TEST(TokenizerJson, ReadsOtherWritersFiles) {
  const BpeVocab vocab = SmallVocab();
  OrderedJson json = SmallJson();
  OrderedJson& model = json["model"];
  model.erase("type");
  model.erase("byte_fallback");
  model.erase("ignore_merges");
  model["continuing_subword_prefix"] = "";
  model["end_of_word_suffix"] = "";
  model["unk_token"] = "<|endoftext|>";
  model["fuse_unk"] = true;
  model["dropout"] = 0.0;
  json["pre_tokenizer"] = {{"type", "ByteLevel"}, {"add_prefix_space", false}};
  json["post_processor"] = {{"type", "ByteLevel"}, {"add_prefix_space", true}};
  json["added_tokens"][0]["normalized"] = true;
  json["something_new"] = nullptr;
  std::swap(json["added_tokens"][0], json["added_tokens"][1]);
  EXPECT_TRUE(Read(json) == vocab);
  // Transformers writes this where there is no post processor.
  const auto sequence = [](const char* id, int type) {
    return OrderedJson{{"Sequence", {{"id", id}, {"type_id", type}}}};
  };
  json["post_processor"] = {{"type", "TemplateProcessing"},
                            {"single", OrderedJson::array({sequence("A", 0)})},
                            {"pair", OrderedJson::array({sequence("A", 0), sequence("B", 1)})},
                            {"special_tokens", OrderedJson::object()}};
  EXPECT_TRUE(Read(json) == vocab);
  // Special tokens only there, merges as pairs.
  model["vocab"].erase("<|endoftext|>");
  for (OrderedJson& merge : model["merges"]) {
    const std::string text = merge;
    merge = {text.substr(0, text.find(' ')), text.substr(text.find(' ') + 1)};
  }
  EXPECT_TRUE(Read(json) == vocab);
}

TEST(TokenizerJson, KnowsThePublishedSpellingsOfPatterns) {
  BpeVocab vocab = SmallVocab();
  vocab.pattern = SplitPattern::kCl100k;
  OrderedJson json = OrderedJson::parse(TokenizerJson(vocab));
  OrderedJson& split = json["pre_tokenizer"]["pretokenizers"][0];
  OrderedJson& regex = split["pattern"]["Regex"];
  const auto reads = [&](SplitPattern pattern, const char* text) {
    regex = text;
    EXPECT_TRUE(Read(json).pattern == pattern) << text;
  };
  reads(SplitPattern::kGpt2,
        R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)");
  const char* const llama = R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|)"
                            R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
  reads(SplitPattern::kLlama3, llama);
  reads(SplitPattern::kLlama3, R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}|)"
                               R"( ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+)");
  reads(SplitPattern::kQwen2, R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|)"
                              R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)");
  split["behavior"] = "Removed";
  split["invert"] = true;
  reads(SplitPattern::kLlama3, llama);
  // In Hugging Face's syntax `{1,3}+` repeats; in tiktoken's it does not backtrack.
  regex = R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+|)"
          R"( ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s)";
  EXPECT_TRUE(Contains(Refusal(json.dump()), "this split pattern is not supported", "{1,3}+"));
}

// A change of one value of a file, and the expected error.
struct Change {
  const char* at;  // as a JSON pointer
  OrderedJson value;
  const char* what;
  const char* more = "";
};

void ExpectRefused(const OrderedJson& good, const std::vector<Change>& changes) {
  for (const Change& change : changes) {
    OrderedJson json = good;
    json[OrderedJson::json_pointer(change.at)] = change.value;
    EXPECT_TRUE(Contains(Refusal(json.dump()), change.what, change.more)) << change.at;
  }
}

TEST(TokenizerJson, RefusesByNameWhatWouldChangeIds) {
  const auto of_step = [](const OrderedJson& step) {
    return OrderedJson{{"type", "TemplateProcessing"}, {"single", OrderedJson::array({step})}};
  };
  const OrderedJson good = SmallJson(), special = good["added_tokens"][0];
  ExpectRefused(
      good,
      {{"/normalizer", {{"type", "NFKC"}}, "normalizer type 'NFKC'"},
       {"/normalizer", {{"type", "Prepend"}, {"prepend", "\u2581"}}, "normalizer type 'Prepend'"},
       {"/post_processor", {{"type", "TemplateProcessing"}}, "type 'TemplateProcessing'"},
       {"/post_processor", of_step({{"SpecialToken", {{"id", "<|endoftext|>"}}}}),
        "'TemplateProcessing'", "expected the text once"},
       {"/post_processor", of_step({{"Sequence", {{"id", "B"}}}}), "'TemplateProcessing'"},
       {"/post_processor", of_step(5), "'TemplateProcessing'", "found 5"},
       {"/decoder", {{"type", "WordPiece"}}, "decoder type 'WordPiece'"},
       {"/decoder", nullptr, "\"decoder\" is missing"},
       {"/truncation", {{"max_length", 5}}, "\"truncation\""},
       {"/padding", {{"strategy", "BatchLongest"}}, "\"padding\""},
       {"/something", 5, "\"something\" is not supported"},
       {"/pre_tokenizer", nullptr, "\"pre_tokenizer\" is missing"},
       {"/pre_tokenizer", {{"type", "BertPreTokenizer"}}, "'BertPreTokenizer'"},
       {"/pre_tokenizer/add_prefix_space", true, "\"add_prefix_space\""},
       {"/pre_tokenizer/add_prefix_space", nullptr, "\"add_prefix_space\""},
       {"/pre_tokenizer/use_regex", false, "\"use_regex\""},
       {"/model/dropout", 0.1, "\"dropout\" is not supported"},
       {"/model/continuing_subword_prefix", "##", "\"continuing_subword_prefix\""},
       {"/model/end_of_word_suffix", "</w>", "\"end_of_word_suffix\""},
       {"/model/new_feature", 1, "\"new_feature\""},
       {"/model/vocab", 1, "no vocabulary"},
       {"/model/merges", nullptr, "no merges"},
       {"/added_tokens/0/id", 5, "two tokens have the id 5", "<|endoftext|>"},
       {"/added_tokens/0/id", 5000, "tokens are the same"},
       {"/added_tokens/0/id", -1, "added token is not supported"},
       {"/added_tokens/0/id", 1 << 21, "added token is not supported"},
       {"/added_tokens/0/content", 1, "added token is not supported"},
       {"/added_tokens", OrderedJson::array({1}), "added token is not supported"},
       {"/added_tokens", 1, "\"added_tokens\" is not an array"},
       {"/added_tokens", nullptr, ") is not in the byte alphabet"},
       {"/added_tokens/-", special, "two special tokens have the id 270"}});
}

TEST(TokenizerJson, RefusesSplitsThatItDoesNotKnow) {
  BpeVocab vocab = SmallVocab();
  vocab.pattern = SplitPattern::kO200k;
  const OrderedJson digits = {{"type", "Digits"}}, blank = {{"String", " "}};
  ExpectRefused(
      OrderedJson::parse(TokenizerJson(vocab)),
      {{"/pre_tokenizer/pretokenizers/0/pattern/Regex", "a+", "pattern is not supported", "a+"},
       {"/pre_tokenizer/pretokenizers/0/pattern", blank, "no regular expression"},
       {"/pre_tokenizer/pretokenizers/0/behavior", "MergedWithNext", "'MergedWithNext'"},
       {"/pre_tokenizer/pretokenizers/0/invert", true, "'Isolated'"},
       {"/pre_tokenizer/pretokenizers/1/use_regex", true, "\"use_regex\""},
       {"/pre_tokenizer/pretokenizers/1/add_prefix_space", true, "\"add_prefix_space\""},
       {"/pre_tokenizer/pretokenizers/-", digits, "'Split, ByteLevel, Digits'",
        "Sequence of Split"}});
}

TEST(TokenizerJson, RefusesBrokenFilesWithTheirPlace) {
  const std::string good = TokenizerJson(SmallVocab());
  const auto changed = [&](std::string_view from, std::string_view to) {
    return Refusal(Replaced(good, from, to));
  };
  // Line numbers are those of the file, also after the long members.
  std::string text = good;
  text.insert(text.rfind("\n  }"), ",\n    x");
  const auto line = std::count(good.begin(), good.end(), '\n') - 1;
  EXPECT_TRUE(Contains(Refusal(text), "file:" + std::to_string(line) + ":")) << line;
  EXPECT_TRUE(Contains(changed("\"h e\"", "\"h\""), "expected a merge"));
  EXPECT_TRUE(Contains(changed("\"h e\"", "\"h e l\""), "expected a merge"));
  EXPECT_TRUE(Contains(changed("\"h e\"", "[\"h\", \"e\", \"l\"]"), "expected ']'"));
  EXPECT_TRUE(Contains(changed("\"h e\"", "7"), "expected '\"'"));
  EXPECT_TRUE(Contains(changed("\"h e\"", "\"h xyz\""), "file:", "unknown token", "'xyz'"));
  EXPECT_TRUE(Contains(changed("\"he\": 256", "\"he\": x"), "expected an integer"));
  EXPECT_TRUE(Contains(changed("\"he\": 256", "\"\u4E2D\": 256"), ") is not in the byte alphabet"));
  EXPECT_TRUE(Contains(changed("\"vocab\": {", "\"vocab\": {}, \"vocab\": {"), "appears twice"));
  EXPECT_TRUE(Contains(Refusal(""), "file:1:1"));
  EXPECT_TRUE(Contains(Refusal(std::string(100, '[')), "file:1:1"));
  EXPECT_TRUE(Contains(Refusal("{\"a\": " + std::string(100000, '[')), "file:1:"));
  for (size_t length = 0; length + 2 < good.size(); length += 97) {
    EXPECT_TRUE(Refusal(good.substr(0, length)).starts_with("file:")) << length;
  }
}

}  // namespace
}  // namespace folio
