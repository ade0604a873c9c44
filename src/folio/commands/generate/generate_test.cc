#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "folio/base/strings.h"
#include "folio/commands/train/test_train.h"

namespace folio {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

// A run of characters, and a model in `bare` that is the same without its tokenizer.
class Generate : public TrainTest {
 protected:
  void SetUp() override {
    ASSERT_EQ(Train().status, 0);
    fs::create_directory(At("bare"));
    for (const char* file : {"config.json", "model.safetensors"}) {
      fs::copy_file(At("run/best") / file, At("bare") / file);
    }
  }

  std::string Words(const std::string& more) const {
    return "generate --seed 3 --max-tokens 8 --model " + At("run").string() + " " + more;
  }
  // What is added to a prompt: it does not depend on how that was given.
  std::string Text(const std::string& more) const {
    const ProgramRun run = RunFolio(Words(more));
    EXPECT_EQ(run.status, 0) << run.err;
    return run.out;
  }
  static std::vector<Json> Lines(const std::string& out) {
    std::vector<Json> lines;
    for (const std::string& line : Split(out, '\n')) {
      if (!line.empty()) lines.push_back(Json::parse(line));
    }
    return lines;
  }
};

TEST_F(Generate, WeightsMayBeReadAtOnce) {
  EXPECT_EQ(Text("--load read 'a small'"), Text("--load map 'a small'"));
}

TEST_F(Generate, APromptMayComeInAnyWay) {
  const std::string expected = Text("--prompt 'a small'");
  EXPECT_TRUE(expected.starts_with("a small")) << expected;
  EXPECT_EQ(Text("'a small'"), expected);
  WriteFileAtomically(At("prompt.txt"), "a small\n");
  const std::string file = At("prompt.txt").string();
  EXPECT_EQ(Text("--file " + file), expected);
  EXPECT_EQ(Text("--file - < " + file), expected);
  EXPECT_EQ(Text("- < " + file), expected);
  EXPECT_EQ(Text("< " + file), expected);
  const ProgramRun piped = RunShell(At(""), "cat prompt.txt | $F " + Words("--no-config"));
  EXPECT_EQ(piped.out, expected) << piped.err;
  const Json line = Lines(Text("--json 'a small'")).at(0);
  std::string ids;
  for (const Json& id : line.at("prompt_ids")) ids += (ids.empty() ? "" : ",") + id.dump();
  EXPECT_EQ(Text("--ids " + ids), expected);
}

TEST_F(Generate, EveryPromptOfAFileIsContinuedByItself) {
  WriteFileAtomically(At("lines.txt"), "a small\n\ntext\r\n");
  WriteFileAtomically(At("lines.jsonl"),
                      "{\"prompt\":\"a small\"}\n{\"prompt\":\"text\",\"n\":1}\n");
  for (const char* file : {"lines.txt", "lines.jsonl"}) {
    const std::string out = Text("--n 2 --json --prompts " + At(file).string());
    const std::vector<Json> lines = Lines(out);
    ASSERT_EQ(lines.size(), 4u) << file;
    for (size_t i = 0; i < 4; ++i) {
      const std::string prompt = i < 2 ? "a small" : "text";
      EXPECT_EQ(lines[i].at("prompt"), prompt);
      EXPECT_EQ(lines[i].at("prompt_index"), i / 2);
      EXPECT_EQ(lines[i].at("index"), i % 2);
      const Json alone = Lines(Text("--n 2 --json --prompt '" + prompt + "'")).at(i % 2);
      EXPECT_EQ(lines[i].at("ids"), alone.at("ids")) << "neighbours change nothing";
    }
    EXPECT_EQ(Text("--prompts " + At(file).string()),
              Text("--prompt 'a small'") + "\n" + Text("--prompt text"));
  }
}

TEST_F(Generate, AListOfPromptsIsCheckedFirst) {
  const auto refused = [&](const char* name, const std::string& text, const auto&... parts) {
    WriteFileAtomically(At(name), text);
    ExpectError(3, Words("--prompts " + At(name).string()), parts...);
  };
  refused("a.jsonl", "{\"prompt\":\"a\"}\n{\"text\":\"b\"}\n", "a.jsonl:2", "\"prompt\"");
  refused("b.txt", "a small\nЖ\n", "b.txt:2", "U+0416");
  refused("c.txt", "\n\n", "no prompts");
}

TEST_F(Generate, IdsOutsideTheVocabularyAreRefused) {
  ExpectError(3, Words("--ids 1,99"), "--ids: the model has no token 99", "its tokens are 0 to ");
  ExpectError(3, Words("--ids 1,-2"), "--ids", "'-2'");
  ExpectError(3, Words("--ids ''"), "--ids: no tokens");
}

TEST_F(Generate, AModelWithoutATokenizerTakesAndPrintsIds) {
  const std::string words = "generate --seed 3 --max-tokens 4 --model " + At("bare").string() + " ";
  const ProgramRun text = RunFolio(words + "--ids 1,2");
  ASSERT_EQ(text.status, 0) << text.err;
  const Json line = Lines(RunFolio(words + "--ids 1,2 --json").out).at(0);
  EXPECT_FALSE(line.contains("text"));
  ASSERT_EQ(line.at("ids").size(), 4u);
  std::string expected = "1 2";
  for (const Json& id : line.at("ids")) expected += " " + id.dump();
  EXPECT_EQ(text.out, expected + "\n");
  ExpectError(3, words + "--prompt a", "no tokenizer", "--tokenizer", "--ids 5,0,12");
  ExpectError(3, words, "no tokenizer", "--ids");
}

TEST_F(Generate, ATokenizerMayBeNamedForAModelWithoutOne) {
  const std::string words = "generate --seed 3 --max-tokens 8 --prompt 'a small' --model " +
                            At("bare").string() + " --tokenizer ";
  EXPECT_EQ(RunFolio(words + At("run").string()).out, Text("--prompt 'a small'"));
  ExpectError(3, words + "bytes", "tokenizer and model do not fit", "257 tokens");
  ExpectError(2, Words("--prompt a --tokenizer bytes"), "the model has another tokenizer");
  EXPECT_EQ(Text("--prompt 'a small' --tokenizer " + At("run/last").string()),
            Text("--prompt 'a small'"));
}

TEST_F(Generate, AFullContextIsToldOnce) {
  const ProgramRun fits = RunFolio(Words("--prompt 'a small'"));  // 7 + 8 of 16
  EXPECT_EQ(Count(fits.err, "context is full"), 0u) << fits.err;
  const ProgramRun slides = RunFolio(Words("--prompt 'a small' --max-tokens 12 --n 3"));
  EXPECT_EQ(Count(slides.err, "context is full"), 1u) << slides.err;
  EXPECT_TRUE(Contains(slides.err, "16 tokens"));
  ExpectError(2, Words("--prompt 'a small text to learn'"), "longer than the context",
              "21 tokens of at most 16");
}

TEST_F(Generate, SpeedIsToldWhereAsked) {
  EXPECT_EQ(Count(RunFolio(Words("--prompt 'a small'")).err, "tokens/s"), 0u);
  const ProgramRun run = RunFolio(Words("--prompt 'a small' -v"));
  EXPECT_TRUE(Contains(run.err, "prompt: 7 tokens in ", "generation: 7 tokens in ", "tokens/s"));
}

}  // namespace
}  // namespace folio
