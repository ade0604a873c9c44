#include <gtest/gtest.h>

#include "folio/corpus/prepare.h"
#include "folio/corpus/text_files.h"
#include "folio/data/conversations.h"
#include "folio/data/test_tokens.h"
#include "folio/io/file.h"
#include "folio/text/byte_tokenizer.h"
#include "folio/text/chat.h"
#include "folio/text/chat_template.h"
#include "folio/text/tokenizer_file.h"
#include "tests/kit/compressed.h"
#include "tests/kit/directory.h"
#include "tests/kit/expect.h"

namespace folio {
namespace {

constexpr char kLines[] =
    "{\"prompt\": \"ab\", \"completion\": \"ba\"}\n"
    "\n"
    "{\"instruction\": \"b\", \"output\": \"<|end|>\"}\n"
    "{\"messages\": [{\"role\": \"system\", \"content\": \"a\"}, {\"role\": \"user\", \"content\": "
    "\"\"}, {\"role\": \"assistant\", \"content\": \"b\"}]}\n";

class PrepareConversations : public InTemporaryDirectory {
 protected:
  DatasetInfo Prepare(PrepareOptions options = {}, const PrepareHooks& hooks = {}) {
    if (options.files.empty()) options.files = {At("chats.jsonl").string()};
    options.out = At("data").string();
    options.overwrite = true;
    return PrepareDataset(options, hooks);
  }
  // The text of one part, special tokens among it.
  std::string TextOf(const Dataset& data, const TokenFile& part) const {
    return LoadTokenizer(data.dir())->Decode(ReadTokens(part));
  }
};

TEST_F(PrepareConversations, EachIsARowOfMarkedTurnsAndABorder) {
  PutFile("chats.jsonl", kLines);
  for (const char* tokenizer : {"char", "bytes"}) {
    const DatasetInfo info =
        Prepare({.tokenizer = tokenizer, .val_fraction = 0.4, .val_split = "tail"});
    EXPECT_EQ(info.documents, 3);
    EXPECT_EQ(info.text_bytes, 4 + 8 + 2);
    const Dataset data(At("data").string());
    EXPECT_TRUE(data.Verify());
    EXPECT_EQ(TextOf(data, data.train()), "<|user|>ab<|end|><|assistant|>ba<|end|><|endoftext|>");
    EXPECT_EQ(TextOf(data, data.val()),
              "<|user|>b<|end|><|assistant|><|end|><|end|><|endoftext|>"
              "<|system|>a<|end|><|user|><|end|><|assistant|>b<|end|><|endoftext|>");
    ASSERT_TRUE(data.info().chat);
    EXPECT_EQ(data.info().chat, info.chat);
    PackedConversations sampler(data.val(), data.val_chats(), {1, 64, 1}, 0,
                                PackedConversations::Order::kOnce);
    EXPECT_EQ(sampler.conversations(), 2);
    // The first answer looks like its own end, and is text: 7 characters and the real end.
    EXPECT_EQ(sampler.Targets(0), 7 + 1 + 1 + 1);
  }
}

TEST_F(PrepareConversations, ATokenizerOfOnesOwnGetsTheTokensBehindItsOwn) {
  PutFile("chats.jsonl", kLines);
  Prepare();
  const std::string own = LoadTokenizer(At("data").string())->hash();
  std::filesystem::rename(At("data"), At("tokenizer"));
  EXPECT_EQ(Prepare({.tokenizer = At("tokenizer").string()}).tokenizer_hash, own);
}

// A model's template says what its turns look like, and its tokens are those that it has.
TEST_F(PrepareConversations, ATemplateWritesThemWhereTheTokenizerHasOne) {
  PutFile("chats.jsonl",
          "{\"messages\": [{\"role\": \"user\", \"content\": \"ab\"}, "
          "{\"role\": \"assistant\", \"content\": \"<|im_end|>\"}]}\n");
  const auto tokenizer = ByteTokenizer().WithSpecials(Strings{"<|im_start|>", "<|im_end|>"});
  const auto use = [&](const std::string& chat_template) {
    tokenizer->set_chat_source({.text = chat_template, .eos_token = "<|im_end|>"});
    std::filesystem::create_directories(At("tokenizer"));
    tokenizer->Save(At("tokenizer").string());
    return Prepare({.tokenizer = At("tokenizer").string(), .val_fraction = 0});
  };
  const std::string source = OpenChatTemplate("chatml")->source();
  const DatasetInfo info = use(source);
  EXPECT_EQ(info.vocab_size, tokenizer->vocab_size());
  const Dataset data(At("data").string());
  EXPECT_EQ(TextOf(data, data.train()),
            "<|im_start|>user\nab<|im_end|>\n<|im_start|>assistant\n<|im_end|><|im_end|>\n"
            "<|endoftext|>");
  ASSERT_TRUE(data.info().chat);
  EXPECT_EQ(data.info().chat, info.chat);
  EXPECT_EQ(info.chat->end, tokenizer->special_tokens().back().id);
  PackedConversations sampler(data.train(), data.train_chats(), {1, 64, 1}, 0,
                              PackedConversations::Order::kOnce);
  EXPECT_EQ(sampler.Targets(0), 10 + 1) << "a text that looks like its end, and that";
  EXPECT_EQ(LoadTokenizer(data.dir())->chat_source().text, source) << "checkpoints have it too";
  EXPECT_EQ(LoadTokenizer(data.dir())->chat_source().eos_token, "<|im_end|>");
  // One that is named takes its place, and is kept.
  const auto named = [&](const std::string& name, const std::string& path) {
    return Prepare({.tokenizer = path, .val_fraction = 0, .chat_template = name});
  };
  EXPECT_EQ(named("chatml", At("tokenizer").string()).tokenizer_hash, info.tokenizer_hash);
  const Dataset again(At("data").string());
  EXPECT_EQ(ReadTokens(again.train()), ReadTokens(data.train()));
  EXPECT_EQ(LoadTokenizer(again.dir())->chat_source().text, source);
  // Where its tokens are none, turns are told by their texts.
  EXPECT_EQ(named("chatml", "bytes").chat->end, std::nullopt);
  WithChatTokens(ByteTokenizer())->Save(At("tokenizer").string());
  EXPECT_TRUE(
      Contains(ErrorOf([&] { named("chatml", At("tokenizer").string()); }, ErrorKind::kUsage),
               ": the tokenizer has its own role tokens"));
  PutFile("chats.jsonl", "a text");
  EXPECT_TRUE(
      Contains(ErrorOf([&] { named("chatml", "bytes"); }, ErrorKind::kUsage), "no conversations"));
  PutFile("chats.jsonl",
          "{\"messages\": [{\"role\": \"user\", \"content\": \"ab\"}, "
          "{\"role\": \"assistant\", \"content\": \"b\"}]}\n");
  EXPECT_TRUE(Contains(ErrorOf([&] { use("{{ messages | length }}"); }), "chats.jsonl:1",
                       "message 2", "cannot find the answer of message 2"));
}

TEST_F(PrepareConversations, AreRecognisedCompressedAndUnderAnyName) {
  PutFile("chats.jsonl", kLines);
  Prepare();
  const std::string train = ReadFile(At("data/train.bin"));
  PutFile("chats.txt", Compressed(kLines, "gzip"));
  EXPECT_EQ(Prepare({.files = {At("chats.txt").string()}}).documents, 3);
  EXPECT_EQ(ReadFile(At("data/train.bin")), train);
}

TEST_F(PrepareConversations, AMemberThatIsAskedForIsText) {
  PutFile("chats.jsonl", "{\"prompt\": \"ab\", \"completion\": \"ba\"}\n");
  EXPECT_FALSE(Prepare({.field = "prompt"}).chat);
  PutFile("chats.jsonl", "{\"prompt\": \"ab\", \"completion\": \"ba\", \"text\": \"abba\"}\n");
  EXPECT_FALSE(Prepare({.field = "text"}).chat);
  // Nobody asked, and the choice is said.
  PrepareHooks hooks;
  Strings notes;
  hooks.note = [&](const std::string& text) { notes.push_back(text); };
  EXPECT_TRUE(Prepare({}, hooks).chat);
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_TRUE(Contains(notes[0], "\"prompt\" and \"completion\"", "--field text"));
}

TEST_F(PrepareConversations, WhatNoTokenIsMadeOfIsSaid) {
  PutFile("chats.jsonl",
          "{\"messages\": [{\"role\": \"user\", \"content\": \"q\"}, {\"role\": \"assistant\", "
          "\"content\": \"a\", \"reasoning_content\": \"hm\"}]}\n");
  PrepareHooks hooks;
  Strings notes;
  hooks.note = [&](const std::string& text) { notes.push_back(text); };
  Prepare({.val_fraction = 0}, hooks);
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_TRUE(Contains(notes[0], "\"reasoning_content\"", "is ignored: "));
}

// nanochat's lines are lists of messages, whatever the file is called and however it is laid out.
TEST_F(PrepareConversations, ListsOfMessagesAreConversations) {
  const std::string one =
      R"([{"role": "user", "content": "ab"}, {"role": "assistant", "content": "b"}])";
  PutFile("usual.jsonl", "{\"messages\": " + one + "}\n{\"messages\": " + one + "}\n");
  PutFile("lines.jsonl", one + "\n" + one + "\n");
  PutFile("lines.txt", one + "\n" + one + "\n");
  PutFile("array.json", "[\n  " + one + ",\n  " + one + "\n]\n");
  Prepare({.files = {At("usual.jsonl").string()}, .tokenizer = "bytes"});
  const std::string usual = ReadFile(At("data/train.bin"));
  for (const char* name : {"lines.jsonl", "lines.txt", "array.json"}) {
    ASSERT_TRUE(Prepare({.files = {At(name).string()}, .tokenizer = "bytes"}).chat) << name;
    EXPECT_EQ(ReadFile(At("data/train.bin")), usual) << name;
  }
}

// pandas writes NaN for what is missing.
TEST_F(PrepareConversations, PythonsNumbersAreNoMistake) {
  PutFile("chats.jsonl",
          "{\"instruction\": \"b\", \"input\": NaN, \"output\": \"a\", \"score\": -Infinity}\n");
  EXPECT_EQ(Prepare({.val_fraction = 0}).text_bytes, 2);
}

TEST_F(PrepareConversations, TablesAndDirectoriesOfThemHoldThem) {
  PutFile("d/one.csv", "\xEF\xBB\xBFQuestion,Answer\n\"a, \"\"b\"\"\",b\nb,\"a\nb\"\n");
  PutFile("d/two.tsv", "prompt\tcompletion\nab\tba\n");
  PutFile("d/other.csv", "x,y\n1,2\n");
  PutFile("lines.jsonl",
          "{\"question\": \"a, \\\"b\\\"\", \"answer\": \"b\"}\n"
          "{\"question\": \"b\", \"answer\": \"a\\nb\"}\n"
          "{\"question\": \"ab\", \"answer\": \"ba\"}\n");
  Prepare({.files = {At("lines.jsonl").string()}, .tokenizer = "bytes", .val_fraction = 0});
  const std::string lines = ReadFile(At("data/train.bin"));
  const TextFiles found = FindTextFiles({At("d").string()}, {});
  EXPECT_TRUE(Contains(found.left_out, "other.csv", "a table without a \"text\""));
  EXPECT_EQ(Prepare({.files = found.files, .tokenizer = "bytes", .val_fraction = 0}).documents, 3);
  EXPECT_EQ(ReadFile(At("data/train.bin")), lines);
}

// The tokenizer's own end of text ends an answer that nothing else ends.
TEST_F(PrepareConversations, AnswersLearnToEnd) {
  PutFile("chats.jsonl", "{\"prompt\": \"q\", \"completion\": \"a\"}\n");
  PutFile("plain.jinja",
          "{% for m in messages %}{{ m.role + ':' + m.content }}{% endfor %}"
          "{% if add_generation_prompt %}assistant:{% endif %}");
  Prepare({.tokenizer = "bytes", .val_fraction = 0, .chat_template = At("plain.jinja").string()});
  const Dataset data(At("data").string());
  EXPECT_EQ(TextOf(data, data.train()), "user:qassistant:a<|endoftext|>");
  const ConversationTable::Entry entry = data.train_chats()[0];
  EXPECT_EQ(entry.tokens, 17 + 1);
  EXPECT_EQ(std::vector(entry.answers.begin(), entry.answers.end()),
            (std::vector<AnswerTokens>{{16, 18}}));
}

// A run that began with an earlier version goes on.
TEST_F(PrepareConversations, DataOfAnEarlierVersionIsRead) {
  PutFile("chats.jsonl", kLines);
  Prepare({.tokenizer = "bytes"});
  Json info = ParseJson(ReadFile(At("data/dataset.json")), "dataset.json");
  const auto tokenizer = LoadTokenizer(At("data").string());
  const ChatFormat format = FindChatFormat(*tokenizer).value();
  info["chat"] = Json{
      {"border", *tokenizer->end_of_text()}, {"answer", format.assistant}, {"end", format.end}};
  const std::string now = Dataset(At("data").string()).train_chats().Bytes();
  PutFile("data/dataset.json", info.dump());
  std::filesystem::remove(At("data/train.answers"));
  std::filesystem::remove(At("data/val.answers"));
  const Dataset data(At("data").string());
  EXPECT_EQ(data.train_chats().Bytes(), now);
  EXPECT_EQ(data.info().chat->end, format.end);
}

TEST_F(PrepareConversations, AnswersOfOtherDataAreRefused) {
  PutFile("chats.jsonl", kLines);
  Prepare();
  PutFile("data/train.answers", "xxxx");
  EXPECT_TRUE(Contains(ErrorOf([&] { Dataset(At("data").string()); }), "train.answers"));
}

TEST_F(PrepareConversations, WhatIsWrongIsSaidAndNothingIsLeft) {
  const auto expect = [&](const std::string& line, const char* what, const char* cause) {
    PutFile("chats.jsonl", std::string(kLines) + line + "\n");
    EXPECT_TRUE(Contains(ErrorOf([&] { Prepare(); }), what, cause));
    EXPECT_FALSE(std::filesystem::exists(At("data")));
  };
  expect("{\"text\": \"a\"}", "chats.jsonl:5", "it has none of the expected members");
  expect("{", "chats.jsonl:5", "");
  PutFile("chats.jsonl", kLines);
  PutFile("text.txt", "a text");
  EXPECT_TRUE(Contains(ErrorOf([&] {
                         Prepare({.files = {At("chats.jsonl").string(), At("text.txt").string()}});
                       }),
                       "conversations and plain texts cannot be mixed", "text.txt does not"));
  EXPECT_TRUE(Contains(ErrorOf([&] { Prepare({.special = "allow"}); }, ErrorKind::kUsage),
                       "cannot be used with conversations"));
  EXPECT_EQ(Names(), (Strings{"chats.jsonl", "text.txt"}));
}

}  // namespace
}  // namespace folio
