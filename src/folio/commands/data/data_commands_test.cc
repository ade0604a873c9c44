#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "folio/corpus/data_tokenizer.h"
#include "folio/corpus/fetch_published.h"
#include "folio/corpus/prepare.h"
#include "folio/data/dataset.h"
#include "folio/data/test_tokens.h"
#include "folio/io/file.h"
#include "folio/text/byte_tokenizer.h"
#include "folio/text/char_tokenizer.h"
#include "tests/kit/compressed.h"
#include "tests/kit/directory.h"
#include "tests/kit/expect.h"
#include "tests/kit/paths.h"
#include "tests/kit/program.h"

namespace folio {
namespace {

namespace fs = std::filesystem;

class PrepareSourcesCommand : public InTemporaryDirectory {
 protected:
  PrepareSourcesCommand() {
    for (int i = 0; i < 300; ++i) text_ += "a small text, number " + std::to_string(i) + "\n";
    PutFile("a.txt", text_);
  }
  ProgramRun Shell(const std::string& text) const {
    return RunShell(At(""), "export FOLIO_NO_CONFIG=; " + text);
  }
  // Prepares with `arguments` and returns the contents of the token files.
  std::string Tokens(const std::string& shell) {
    const ProgramRun run =
        Well(Shell(shell + " --tokenizer bytes --out out --overwrite --no-config"));
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
  PutFile("a.xz", Compressed(text_, "xz"));
  EXPECT_EQ(Tokens("$F data prepare - < a.xz"), expected);
  EXPECT_EQ(Names(), (Strings{"a.txt", "a.xz", "out", "pipe"}));
  Ended(3, Shell("$F data prepare - --tokenizer bytes --out none --no-config < /dev/null"));
  EXPECT_FALSE(fs::exists(At("none")));
}

TEST_F(PrepareSourcesCommand, ADiskWithoutRoomIsToldBeforeAnythingIsUnpacked) {
  std::string log;
  for (int i = 0; log.size() < (100 << 20); ++i) {
    log += "GET /index.html 200 in 3 ms, request " + std::to_string(i) + "\n";
  }
  PutFile("log.gz", Compressed(log, "gzip"));
  const ProgramRun run = Shell(
      "unshare --map-root-user --mount sh -c '"
      "mkdir d; mount -t tmpfs -o size=300m none d || exit 77; "
      "$F data prepare log.gz --tokenizer bytes --out d/out --no-config; s=$?; "
      "[ -z \"$(find d -type f)\" ] || echo left; exit $s'");
  if (run.status == 77 || Contains(run.err, "unshare")) GTEST_SKIP() << "no mounts: " << run.err;
  Ended(1, run);
  EXPECT_EQ(run.out, "");
  EXPECT_TRUE(
      Contains(run.err, "the disk has no room for the decompressed text", "104.86 MB at least"))
      << run.err;
}

TEST_F(PrepareSourcesCommand, DirectoriesAreWalkedAndWhatIsLeftOutIsSaid) {
  PutFile("dir/b.txt", "b");
  PutFile("dir/a.jsonl", "{\"body\": \"x\"}\n");
  PutFile("dir/c.png", "\x89PNG\r\n");
  Tokens("$F data prepare dir a.txt --field body --val-fraction 0");
  EXPECT_TRUE(Contains(err_, "skipped 1 file that is not text: c.png (a PNG image)")) << err_;
  EXPECT_EQ(ReadTokens(Dataset(At("out").string()).train(), 0, 5),
            (std::vector<int32_t>{'x', 256, 'b', 256, 'a'}));
  const ProgramRun run = Ended(3, Shell("$F data prepare dir --out other --no-config"));
  EXPECT_TRUE(Contains(run.err, "dir/a.jsonl:1: not a document", "--field NAME"));
  EXPECT_FALSE(fs::exists(At("other")));
}

TEST_F(PrepareSourcesCommand, AFullDiskIsAnErrorAndLeavesNothing) {
  PutFile("zeros.gz", Compressed(std::string(8000000, 'a'), "gzip"));
  const std::string command = "$F data prepare zeros.gz --tokenizer bytes --out out --no-config";
  // Like a disk with room for 3 MB.
  const ProgramRun full = Ended(1, Shell("trap '' XFSZ; ulimit -f 3000; " + command));
  EXPECT_TRUE(Contains(full.err, "cannot write", "text_000000"));
  EXPECT_EQ(Names(), (Strings{"a.txt", "zeros.gz"}));
}

TEST_F(PrepareSourcesCommand, TrainingTakesWhatPrepareTakes) {
  const std::string rest =
      " --no-config --overwrite --batch 2 --max-steps 1 --out run --set train.eval_batches=1 ";
  const std::string small =
      rest + " model.n_layer=1 model.n_head=1 model.n_embd=8 model.n_positions=8";
  PutFile("dir/a.txt.gz", Compressed(text_, "gzip"));
  PutFile("dir/b.bin", std::string(10, '\0'));
  EXPECT_TRUE(Contains(Well(Shell("$F train --data dir" + small)).err,
                       "skipped 1 file that is not text: b.bin"));
  const std::string tokens = ReadFile(At("run/data/train.bin"));
  // Size and tokens are chosen from a text that can be read only once.
  Well(Shell("cat a.txt | $F train --data - --budget 1s" + rest));
  EXPECT_EQ(ReadFile(At("run/data/train.bin")), tokens);
  EXPECT_TRUE(Contains(ReadFile(At("run/data/dataset.json")), "\"path\": \"-\""));
  EXPECT_FALSE(fs::exists(At("run/.input")));
  PutFile("b.jsonl", "{\"body\": \"" + std::string(500, 'b') + "\"}");
  const ProgramRun field = Well(Shell("$F train --data b.jsonl --field body" + small));
  EXPECT_TRUE(Contains(ReadFile(At("run/config.toml")), "field = \"body\""));
  Well(Shell("$F train --data dir/b.bin --data a.txt --tokenizer bytes --raw" + small));
  const ProgramRun wrong = Ended(3, Shell("$F train --data dir/b.bin" + small));
  EXPECT_TRUE(Contains(wrong.err, "dir/b.bin: not a text", "binary data"));
}

// The documents of every spelling, and nothing else, are counted and learned from.
TEST_F(PrepareSourcesCommand, TokenizersReadTextsAlike) {
  PutFile("a.zst", Compressed(text_, "zstd"));
  PutFile("plain/x.txt", text_.substr(0, 1000));
  PutFile("plain/y.txt", text_.substr(1000));
  PutFile("lines.json", "[\"" + std::string("one \\u20ac") + "\", \"two\"]");
  const auto learn = [&](const std::string& files) {
    Well(Shell("$F tokenizer train " + files + " --vocab-size 280 --overwrite --out tok"));
    return ReadFile(At("tok/tokenizer.json"));
  };
  const std::string learned = learn("a.txt");
  EXPECT_EQ(learn("a.zst"), learned);
  EXPECT_EQ(learn("- < a.zst"), learned);
  EXPECT_EQ(learn("plain"), learn("plain/y.txt plain/x.txt"));
  PutFile("one.txt", "aba aba");
  PutFile("one.jsonl", "{\"b\": \"aba aba\"}\n");
  EXPECT_EQ(learn("one.jsonl --field b"), learn("one.txt"));
  const auto count = [&](const std::string& files) {
    const ProgramRun run = Well(Shell("$F tokenizer count " + files + " --tokenizer bytes --json"));
    return run.out.substr(run.out.find("\"total\""));
  };
  const std::string counted = count("a.txt");
  EXPECT_TRUE(Contains(counted, "\"tokens\":" + std::to_string(text_.size())));
  for (const char* files : {"a.zst", "- < a.zst", "- < a.txt", "plain"}) {
    EXPECT_EQ(count(files), counted) << files;
  }
  EXPECT_TRUE(Contains(count("lines.json"), "\"tokens\":10,", "\"characters\":8,"));
  PutFile("special.jsonl", "{\"text\": \"a\"}\n{\"text\": \"a<|endoftext|>\"}\n");
  for (const auto& [files, what] :
       {std::pair("special.jsonl", "special.jsonl:2"), std::pair("tok/none", "tok/none"),
        std::pair("a.zst one.jsonl", "one.jsonl:1: not a document")}) {
    const ProgramRun run =
        Ended(3, Shell("$F tokenizer count " + std::string(files) + " --tokenizer bytes"));
    EXPECT_TRUE(Contains(run.err, what));
  }
}

class DataFetch : public InTemporaryDirectory {
 protected:
  ProgramRun Shell(const std::string& text) const { return RunShell(At(""), text); }
};

constexpr char kFetch[] = "https_proxy=http://127.0.0.1:1 $F data fetch tinyshakespeare ";

TEST_F(DataFetch, WithoutANetworkItSaysWhatToPutWhere) {
  const std::string fetch = std::string(kFetch) + "--out texts/t.txt -q";
  EXPECT_TRUE(
      Contains(Ended(1, Shell(fetch)).err, "texts is not an existing directory", "mkdir -p "));
  fs::create_directory(At("texts"));
  const ProgramRun run = Ended(1, Shell(fetch));
  const std::string url(PublishedText("tinyshakespeare").url);
  EXPECT_TRUE(
      Contains(run.err, "download " + url + " on another machine and save it here as texts/t.txt"));
  EXPECT_TRUE(fs::is_empty(At("texts")));
}

TEST_F(DataFetch, KnowsItsTexts) {
  EXPECT_TRUE(Contains(Ended(2, Shell("$F data fetch shakespeare")).err, "'shakespeare'",
                       "tinyshakespeare"));
}

TEST_F(DataFetch, NeverReplacesOrKeepsAnotherText) {
  PutFile("mine.txt", "my own");
  EXPECT_TRUE(Contains(Ended(2, Shell(std::string(kFetch) + "--out mine.txt")).err,
                       "mine.txt already exists", "--overwrite"));
  EXPECT_TRUE(Contains(Ended(3, Shell("$F data fetch tinyshakespeare --from mine.txt")).err,
                       "mine.txt differs from the published file", "1115394"));
  EXPECT_FALSE(fs::exists(At("tinyshakespeare.txt")));
  EXPECT_EQ(ReadFile(At("mine.txt")), "my own");
}

TEST_F(DataFetch, ThePublishedTextIsKept) {
  const std::string source = TestData("tinyshakespeare/input.txt");
  if (source.empty()) GTEST_SKIP() << "tinyshakespeare is not here; set FOLIO_TEST_DATA";
  EXPECT_TRUE(Contains(Well(Shell("$F data fetch tinyshakespeare --from '" + source + "'")).err,
                       "next: folio train --data tinyshakespeare.txt"));
  EXPECT_TRUE(ReadFile(At("tinyshakespeare.txt")) == ReadFile(source));
  // Nothing is requested from the network any more.
  const ProgramRun again = Well(Shell(std::string(kFetch) + "--json"));
  EXPECT_TRUE(Contains(again.err, "already"));
  EXPECT_TRUE(Contains(again.out, "\"path\":\"tinyshakespeare.txt\""));
}

class DataTokenizer : public InTemporaryDirectory {
 protected:
  void SetUp() override {
    PutFile("text", "abracadabra");
    PrepareDataset(
        {.files = {At("text").string()}, .tokenizer = "char", .out = At("data").string()});
    std::filesystem::create_directory(At("model"));
  }
};

TEST_F(DataTokenizer, IsTheOneThatMadeTheTokens) {
  const Dataset data(At("data").string());
  EXPECT_EQ(LoadDataTokenizer(data)->hash(), data.info().tokenizer_hash);
  CharTokenizer({U'x', U'y'}).Save(At("data").string());
  EXPECT_TRUE(Contains(ErrorOf([&] { LoadDataTokenizer(data); }),
                       "is not the tokenizer of the data", data.info().tokenizer_hash));
  std::filesystem::remove(At("data/tokenizer.json"));
  ErrorOf([&] { LoadDataTokenizer(data); });
  std::filesystem::remove(At("data/dataset.json"));
  EXPECT_EQ(LoadDataTokenizer(Dataset(At("data").string())), nullptr);
}

TEST_F(DataTokenizer, MustBeTheModels) {
  const Dataset data(At("data").string());
  const auto tokenizer = LoadDataTokenizer(data);
  RequireSameTokenizer(At("model"), data, *tokenizer);  // which has no tokenizer
  tokenizer->Save(At("model").string());
  RequireSameTokenizer(At("model"), data, *tokenizer);
  ByteTokenizer().Save(At("model").string());
  const std::string error = ErrorOf([&] { RequireSameTokenizer(At("model"), data, *tokenizer); });
  EXPECT_TRUE(Contains(error, ": the data was prepared with a different tokenizer than the model's",
                       tokenizer->hash(), ByteTokenizer().hash()));
}

TEST_F(DataTokenizer, ARunIsNotResumedWithDataOfAnother) {
  PutFile("other", "cadabra brad bad card");
  for (const char* text : {"text", "other"}) {
    std::string letters;
    for (int i = 0; i < 20; ++i) letters += ReadFile(At(text));
    PutFile(text, letters);
    PrepareDataset({.files = {At(text).string()},
                    .tokenizer = "char",
                    .out = At(std::string(text) + ".data").string()});
  }
  const std::string rest = " --out " + At("run").string() +
                           " --max-steps 1 --batch-size 1 --set model.n_layer=1 model.n_head=1 "
                           "model.n_embd=8 model.n_positions=8 model.vocab_size=8 --data ";
  Well(RunFolio("train" + rest + At("text.data").string()));
  ExpectError(3, "train --resume" + rest + At("other.data").string(),
              ": the data was prepared with a different tokenizer than the model's");
}

}  // namespace
}  // namespace folio
