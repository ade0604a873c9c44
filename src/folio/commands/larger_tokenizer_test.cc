// A model whose tokenizer has one token more than the embeddings have rows, as with Gemma 3 and
// CodeLlama, through the real program: everything works except a text with that token.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "folio/commands/train/test_train.h"
#include "folio/formats/model_formats.h"
#include "folio/io/model_dir.h"
#include "folio/model/test_models.h"
#include "folio/model_files/checkpoint.h"
#include "folio/text/bpe_tokenizer.h"
#include "folio/text/test_vocab.h"
#include "folio/text/tokenizer.h"
#include "tests/kit/json.h"

namespace folio {
namespace {

namespace fs = std::filesystem;

class LargerTokenizer : public TrainTest {
 protected:
  static constexpr int kRows = 272;

  LargerTokenizer() {
    BpeVocab vocab = SmallVocab();
    EXPECT_EQ(vocab.tokens.size(), kRows);
    AddSpecial(vocab, "<image>");
    BpeTokenizer tokenizer(vocab);
    tokenizer.set_chat_source({.text = "{% for m in messages %}{{ m.content }}{% endfor %}<image>",
                               .eos_token = "<image>"});
    fs::create_directory(At("model"));
    tokenizer.Save(At("model").string());
    const GptWeights weights(
        {.vocab_size = kRows, .n_positions = 64, .n_embd = 32, .n_layer = 1, .n_head = 2});
    Scatter(weights, 3);
    SaveModel(At("model"), weights);
  }
  std::string Model(const char* name = "model") const { return At(name).string(); }
  std::string Put(const std::string& name, const std::string& contents) const {
    WriteFileAtomically(At(name), contents);
    return At(name).string();
  }
  static void ExpectNamed(const std::string& words) {
    ExpectError(3, words, "the model does not have the token \"<image>\"", "its id is 272",
                "273 tokens", "272 embeddings");
  }
};

TEST_F(LargerTokenizer, TextsWithoutItAreGoneOnWith) {
  for (const char* more : {"--n 4", "--greedy", "--beams 2", "--min-tokens 40 --max-tokens 50"}) {
    const ProgramRun run =
        Well(RunFolio("generate --json --model " + Model() + " --prompt hello " + more));
    for (const nlohmann::json& line : JsonLines(run.out)) {
      for (const nlohmann::json& id : line.at("ids")) EXPECT_LT(id, kRows);
    }
  }
  Well(RunFolio("inspect lens --model " + Model() + " --text hello"));
  Well(RunFolio("eval perplexity --model " + Model() + " " + data_));
  EXPECT_TRUE(Contains(Well(RunFolio("inspect model " + Model())).out, "273 tokens", "272 tokens"));
}

TEST_F(LargerTokenizer, ATextWithItIsRefusedByItsName) {
  const std::string model = " --model " + Model(), text = " 'a <image> b' ";
  ExpectNamed("generate --prompt" + text + model);
  ExpectNamed("generate -q --chat --prompt hello" + model);
  ExpectNamed("inspect lens --special allow --text" + text + model);
  ExpectNamed("eval perplexity --special allow " + Put("t.txt", "hello\n<image>\n") + model);
  ExpectError(3, "generate --ids 1,272" + model, "the model has no token 272", "0 to 271");
}

TEST_F(LargerTokenizer, TrainingKeepsTheRowsAndRefusesDataWithIt) {
  const std::string words = "train --init " + Model() + " --batch 2 --max-steps 2 --out ";
  for (const std::string lora : {"", " --lora 2"}) {
    const std::string run = Model("run");
    Well(RunFolio(words + run + " --data " + data_ + lora));
    EXPECT_EQ(LoadModelConfig(At("run/last")).vocab_size, kRows);
    EXPECT_EQ(FindModel(run).tokenizer->vocab_size(), kRows + 1);
    Well(RunFolio("train --resume --max-steps 3 --out " + run));
    Well(RunFolio("generate --max-tokens 3 --prompt hello --model " + run));
    fs::remove_all(run);
  }
  std::string text = ReadFile(data_);
  text.insert(text.size() / 3, "<image>");
  Well(RunFolio("data prepare --special allow --tokenizer " + Model() + " " +
                Put("image.txt", text) + " --out " + Model("data")));
  const ProgramRun run = Ended(3, RunFolio(words + Model("run") + " --data " + Model("data")));
  EXPECT_TRUE(Contains(run.err, "token 272 is outside the vocabulary", "272 rows", "273 tokens"));
  EXPECT_FALSE(fs::exists(At("run")));
}

TEST_F(LargerTokenizer, ConversionsOpenAgain) {
  const std::string greedy = "generate --json --greedy --prompt hello --model ";
  const auto ids = [&](const std::string& model) {
    return JsonLines(Well(RunFolio(greedy + model)).out).at(0).at("ids");
  };
  const ProgramRun gguf = Well(RunFolio("convert --to gguf " + Model() + " " + Model("m.gguf")));
  EXPECT_TRUE(Contains(gguf.err, "1 token of the tokenizer is left out"));
  EXPECT_EQ(ids(Model("m.gguf")), ids(Model()));
  EXPECT_EQ(FindModel(Model("m.gguf")).tokenizer->vocab_size(), kRows);
  Well(RunFolio("convert --to hf " + Model() + " " + Model("hf")));
  EXPECT_EQ(ids(Model("hf")), ids(Model()));
  EXPECT_EQ(FindModel(Model("hf")).tokenizer->vocab_size(), kRows + 1);
  Well(RunFolio("convert --to llmc " + Model() + " " + Model("m.bin")));
  EXPECT_EQ(ids(Model("m.bin")), ids(Model()));
}

}  // namespace
}  // namespace folio
