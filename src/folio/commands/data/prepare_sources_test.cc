// Runs the real program on texts of every kind, for data, for training and for tokenizers.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "folio/data/dataset.h"
#include "folio/data/test_tokens.h"
#include "folio/io/file.h"
#include "tests/kit/compressed.h"
#include "tests/kit/directory.h"
#include "tests/kit/program.h"

namespace folio {
namespace {

namespace fs = std::filesystem;

class PrepareSourcesCommand : public InTemporaryDirectory {
 protected:
  PrepareSourcesCommand() {
    for (int i = 0; i < 300; ++i) text_ += "a small text, number " + std::to_string(i) + "\n";
    Write("a.txt", text_);
  }
  void Write(const std::string& name, const std::string& bytes) {
    fs::create_directories(At(name).parent_path());
    WriteFileAtomically(At(name), bytes);
  }
  ProgramRun Shell(const std::string& text) const {
    return RunShell(At(""), "export FOLIO_NO_CONFIG=; " + text);
  }
  // Prepares with `arguments` and gives the tokens' files.
  std::string Tokens(const std::string& shell) {
    const ProgramRun run = Shell(shell + " --tokenizer bytes --out out --overwrite --no-config");
    EXPECT_EQ(run.status, 0) << shell << "\n" << run.err;
    err_ = run.err;
    return ReadFile(At("out/train.bin")) + ReadFile(At("out/val.bin"));
  }

  std::string text_, err_;
};

TEST_F(PrepareSourcesCommand, StandardInputPipesAndFilesGiveTheSame) {
  const std::string expected = Tokens("$F data prepare a.txt");
  EXPECT_EQ(Tokens("cat a.txt | $F data prepare -"), expected);
  EXPECT_TRUE(Contains(ReadFile(At("out/dataset.json")), "\"path\": \"-\"",
                       "\"bytes\": " + std::to_string(text_.size())));
  EXPECT_EQ(Tokens("$F data prepare - < a.txt"), expected);
  EXPECT_EQ(Tokens("mkfifo pipe; cat a.txt > pipe & $F data prepare pipe"), expected);
  Write("a.xz", Compressed(text_, "xz"));
  EXPECT_EQ(Tokens("$F data prepare - < a.xz"), expected);
  EXPECT_EQ(Names(), (Strings{"a.txt", "a.xz", "out", "pipe"}));
  const ProgramRun nothing =
      Shell("$F data prepare - --tokenizer bytes --out none --no-config < /dev/null");
  EXPECT_EQ(nothing.status, 3) << nothing.err;
  EXPECT_FALSE(fs::exists(At("none")));
}

TEST_F(PrepareSourcesCommand, DirectoriesAreWalkedAndWhatIsLeftOutIsSaid) {
  Write("dir/b.txt", "b");
  Write("dir/a.jsonl", "{\"body\": \"x\"}\n");
  Write("dir/c.png", "\x89PNG\r\n");
  Tokens("$F data prepare dir a.txt --field body --val-fraction 0");
  EXPECT_TRUE(Contains(err_, "left out 1 file that is no text: c.png (a PNG image)")) << err_;
  EXPECT_EQ(ReadTokens(Dataset(At("out").string()).train(), 0, 5),
            (std::vector<int32_t>{'x', 256, 'b', 256, 'a'}));
  const ProgramRun run = Shell("$F data prepare dir --out other --no-config");
  EXPECT_EQ(run.status, 3);
  EXPECT_TRUE(Contains(run.err, "dir/a.jsonl:1: no document", "--field NAME")) << run.err;
  EXPECT_FALSE(fs::exists(At("other")));
}

TEST_F(PrepareSourcesCommand, AFullDiskIsAnErrorAndLeavesNothing) {
  Write("zeros.gz", Compressed(std::string(8000000, 'a'), "gzip"));
  const std::string command = "$F data prepare zeros.gz --tokenizer bytes --out out --no-config";
  // As a disk with room for 3 MB.
  const ProgramRun full = Shell("trap '' XFSZ; ulimit -f 3000; " + command);
  EXPECT_EQ(full.status, 1) << full.err;
  EXPECT_TRUE(Contains(full.err, "cannot write", "text_000000")) << full.err;
  EXPECT_EQ(Names(), (Strings{"a.txt", "zeros.gz"}));
}

TEST_F(PrepareSourcesCommand, TrainingTakesWhatPrepareTakes) {
  const std::string rest =
      " --no-config --overwrite --batch 2 --max-steps 1 --out run --set train.eval_batches=1 ";
  const std::string small =
      rest + " model.n_layer=1 model.n_head=1 model.n_embd=8 model.n_positions=8";
  Write("dir/a.txt.gz", Compressed(text_, "gzip"));
  Write("dir/b.bin", std::string(10, '\0'));
  const ProgramRun packed = Shell("$F train --data dir" + small);
  EXPECT_EQ(packed.status, 0) << packed.err;
  EXPECT_TRUE(Contains(packed.err, "left out 1 file that is no text: b.bin"));
  const std::string tokens = ReadFile(At("run/data/train.bin"));
  // Size and tokens are chosen by a text that comes only once.
  const ProgramRun piped = Shell("cat a.txt | $F train --data - --budget 1s" + rest);
  EXPECT_EQ(piped.status, 0) << piped.err;
  EXPECT_EQ(ReadFile(At("run/data/train.bin")), tokens);
  EXPECT_TRUE(Contains(ReadFile(At("run/data/dataset.json")), "\"path\": \"-\""));
  EXPECT_FALSE(fs::exists(At("run/.input")));
  Write("b.jsonl", "{\"body\": \"" + std::string(500, 'b') + "\"}");
  const ProgramRun field = Shell("$F train --data b.jsonl --field body" + small);
  EXPECT_EQ(field.status, 0) << field.err;
  EXPECT_TRUE(Contains(ReadFile(At("run/config.toml")), "field = \"body\""));
  const ProgramRun raw =
      Shell("$F train --data dir/b.bin --data a.txt --tokenizer bytes --raw" + small);
  EXPECT_EQ(raw.status, 0) << raw.err;
  const ProgramRun wrong = Shell("$F train --data dir/b.bin" + small);
  EXPECT_EQ(wrong.status, 3);
  EXPECT_TRUE(Contains(wrong.err, "dir/b.bin: not a text", "binary data")) << wrong.err;
}

// The documents of every spelling, and nothing else, are counted and learned from.
TEST_F(PrepareSourcesCommand, TokenizersReadTextsAlike) {
  Write("a.zst", Compressed(text_, "zstd"));
  Write("plain/x.txt", text_.substr(0, 1000));
  Write("plain/y.txt", text_.substr(1000));
  Write("lines.json", "[\"" + std::string("one \\u20ac") + "\", \"two\"]");
  const auto learn = [&](const std::string& files) {
    const ProgramRun run =
        Shell("$F tokenizer train " + files + " --vocab-size 280 --overwrite --out tok");
    EXPECT_EQ(run.status, 0) << files << "\n" << run.err;
    return ReadFile(At("tok/tokenizer.json"));
  };
  const std::string learned = learn("a.txt");
  EXPECT_EQ(learn("a.zst"), learned);
  EXPECT_EQ(learn("- < a.zst"), learned);
  EXPECT_EQ(learn("plain"), learn("plain/y.txt plain/x.txt"));
  Write("one.txt", "aba aba");
  Write("one.jsonl", "{\"b\": \"aba aba\"}\n");
  EXPECT_EQ(learn("one.jsonl --field b"), learn("one.txt"));
  const auto count = [&](const std::string& files) {
    const ProgramRun run = Shell("$F tokenizer count " + files + " --tokenizer bytes --json");
    EXPECT_EQ(run.status, 0) << files << "\n" << run.err;
    return run.out.substr(run.out.find("\"total\""));
  };
  const std::string counted = count("a.txt");
  EXPECT_TRUE(Contains(counted, "\"tokens\":" + std::to_string(text_.size())));
  for (const char* files : {"a.zst", "- < a.zst", "- < a.txt", "plain"}) {
    EXPECT_EQ(count(files), counted) << files;
  }
  EXPECT_TRUE(Contains(count("lines.json"), "\"tokens\":10,", "\"characters\":8,"));
  Write("special.jsonl", "{\"text\": \"a\"}\n{\"text\": \"a<|endoftext|>\"}\n");
  for (const auto& [files, what] :
       {std::pair("special.jsonl", "special.jsonl:2"), std::pair("tok/none", "tok/none"),
        std::pair("a.zst one.jsonl", "one.jsonl:1: no document")}) {
    const ProgramRun run = Shell("$F tokenizer count " + std::string(files) + " --tokenizer bytes");
    EXPECT_EQ(run.status, 3) << files;
    EXPECT_TRUE(Contains(run.err, what)) << run.err;
  }
}

}  // namespace
}  // namespace folio
