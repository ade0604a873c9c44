#include "folio/corpus/prepare.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "folio/base/strings.h"
#include "folio/data/test_tokens.h"
#include "folio/io/checksums.h"
#include "folio/text/bpe_tokenizer.h"
#include "folio/text/char_tokenizer.h"
#include "folio/text/test_vocab.h"
#include "folio/text/tokenizer.h"
#include "folio/text/tokenizer_file.h"
#include "tests/kit/directory.h"
#include "tests/kit/expect.h"
#include "tests/kit/paths.h"
#include "tests/kit/threads.h"

namespace folio {
namespace {

class Prepare : public InTemporaryDirectory {
 protected:
  PrepareOptions Options(const std::string& tokenizer, const std::vector<std::string>& texts) {
    PrepareOptions options;
    for (size_t i = 0; i < texts.size(); ++i) {
      options.files.push_back(At("file" + std::to_string(i)).string());
      WriteFileAtomically(options.files.back(), texts[i]);
    }
    options.tokenizer = tokenizer;
    options.out = At("out").string();
    return options;
  }

  static Dataset Prepared(const PrepareOptions& options) {
    PrepareDataset(options);
    return Dataset(options.out);
  }
  static std::string Refusal(const PrepareOptions& options, ErrorKind kind = ErrorKind::kInput) {
    return ErrorOf([&] { PrepareDataset(options); }, kind);
  }
};

TEST_F(Prepare, CharactersAreSplitLikeNanoGpt) {
  const PrepareOptions options = Options("char", {"a\u00E9b", "\u20ACab\U0001F600aab\n"});
  const DatasetInfo info = PrepareDataset(options);
  EXPECT_EQ(info.vocab_size, 6);
  EXPECT_EQ(info.train_tokens, 9);  // int(11 * 0.9)
  EXPECT_EQ(info.val_tokens, 2);
  const Dataset dataset(options.out);
  const auto tokenizer = LoadTokenizer(dataset.TokenizerPlace());
  EXPECT_EQ(tokenizer->hash(), dataset.info().tokenizer_hash);
  EXPECT_EQ(tokenizer->Decode(ReadTokens(dataset.train())), "a\u00E9b\u20ACab\U0001F600aa");
  EXPECT_EQ(tokenizer->Decode(ReadTokens(dataset.val())), "b\n");
}

TEST_F(Prepare, BytesHaveEndOfTextBetweenFilesAndTakeAnything) {
  PrepareOptions options = Options("bytes", {"ab\xFF", "", "cd"});
  options.val_fraction = 0.5;
  const Dataset dataset = Prepared(options);
  EXPECT_EQ(ReadTokens(dataset.train()), (std::vector<int32_t>{'a', 'b'}));
  EXPECT_EQ(ReadTokens(dataset.val()), (std::vector<int32_t>{0xFF, 256, 256, 'c', 'd'}));
  EXPECT_EQ(dataset.info().vocab_size, 257);
}

// Characters of every length lie across the borders of the pieces that are read.
TEST_F(Prepare, LongTextsComeThroughWhole) {
  std::string text;
  while (text.size() < 2500000) text += "x\u00E9\u20AC\U0001F600yz";
  PrepareOptions options = Options("char", {text});
  options.val_fraction = 0;
  int64_t last = 0;
  PrepareHooks hooks;
  hooks.progress = [&](int64_t done, int64_t total) {
    EXPECT_GT(done, last);
    last = done;
    EXPECT_EQ(total, static_cast<int64_t>(2 * text.size()));
  };
  PrepareDataset(options, hooks);
  EXPECT_EQ(last, static_cast<int64_t>(2 * text.size()));
  const Dataset dataset(options.out);
  EXPECT_EQ(dataset.val().size(), 0);
  EXPECT_EQ(LoadTokenizer(options.out)->Decode(ReadTokens(dataset.train())), text);
}

TEST_F(Prepare, LineEndsOfWindowsAreToldOnce) {
  const auto notes = [&](const std::vector<std::string>& texts, bool raw) {
    PrepareOptions options = Options("bytes", texts);
    options.overwrite = true;
    options.raw = raw;
    std::vector<std::string> told;
    PrepareHooks hooks;
    hooks.note = [&](const std::string& note) { told.push_back(note); };
    PrepareDataset(options, hooks);
    return told;
  };
  const std::string windows = "some text\r\nof lines\r\n", plain = "some text\nof lines\r more\n";
  EXPECT_EQ(notes({plain, plain}, false).size(), 0u);
  const auto one = notes({plain, windows}, false);
  ASSERT_EQ(one.size(), 1u);
  EXPECT_TRUE(Contains(one[0], "file1: lines end in \\r\\n", "sed 's/\\r$//'"));
  const auto three = notes({windows, windows, windows}, false);
  ASSERT_EQ(three.size(), 1u);
  EXPECT_TRUE(Contains(three[0], "file0 and 2 more: "));
  EXPECT_EQ(notes({windows}, true).size(), 0u);
}

// Also where pieces are a few bytes, and the split is counted from the beginning.
TEST_F(Prepare, AByteOrderMarkIsNoPartOfTheText) {
  const std::string mark = "\xEF\xBB\xBF", text = "abcdefghij";
  for (const char* tokenizer : {"char", "bytes"}) {
    PrepareOptions options = Options(tokenizer, {mark + text, text, mark, text + mark});
    options.overwrite = true;
    options.piece_bytes = 4;
    options.val_fraction = 0.9;
    std::vector<std::string> notes;
    PrepareHooks hooks;
    hooks.note = [&](const std::string& note) { notes.push_back(note); };
    const DatasetInfo info = PrepareDataset(options, hooks);
    const bool separated = options.tokenizer == "bytes";
    ASSERT_EQ(notes.size(), separated ? 2u : 3u);
    EXPECT_TRUE(Contains(notes[0], "file0", "byte order mark"));
    EXPECT_TRUE(Contains(notes[1], "file2"));
    if (!separated) {
      EXPECT_TRUE(Contains(notes[2],
                           "documents are not separated: the tokenizer has no end-of-text token; "
                           "--add-tokens '<|endoftext|>' adds one",
                           "--add-tokens"));
    }
    EXPECT_EQ(info.text_bytes, 33);
    const Dataset dataset(options.out);
    const auto made = LoadTokenizer(options.out);
    EXPECT_EQ(made->Decode(ReadTokens(dataset.train())), "abc");
    const std::string end = made->end_of_text() ? "<|endoftext|>" : "";
    EXPECT_EQ(made->Decode(ReadTokens(dataset.val())),
              "defghij" + end + text + end + end + text + mark);
  }
  PrepareOptions options = Options("bytes", {"", ""});
  options.files = {At("a.jsonl").string()};
  options.overwrite = true;
  options.val_fraction = 0;
  WriteFileAtomically(options.files[0], mark + "{\"text\":\"ab\"}\n{\"text\":\"c\"}\n");
  EXPECT_EQ(ReadTokens(Prepared(options).train()), (std::vector<int32_t>{'a', 'b', 256, 'c'}));
}

TEST_F(Prepare, ManyCharactersNeedUint32) {
  std::string text;
  for (char32_t code = 0x4E00; code < 0x4E00 + 20000; ++code) AppendUtf8(code, text);
  for (char32_t code = 0x20000; code < 0x20000 + 46000; ++code) AppendUtf8(code, text);
  PrepareOptions options = Options("char", {text});
  options.val_split = "tail";
  const DatasetInfo info = PrepareDataset(options);
  EXPECT_EQ(info.width, TokenWidth::k32);
  const Dataset dataset(options.out);
  EXPECT_EQ(dataset.val().size(), 6600);
  EXPECT_EQ(ReadTokens(dataset.val()).back(), 65999);
  EXPECT_EQ(LoadTokenizer(options.out)->vocab_size(), 66000);
}

TEST_F(Prepare, FailuresLeaveNothingBehind) {
  PrepareOptions options = Options("char", {"good", "ab\xFFz"});
  EXPECT_TRUE(Contains(Refusal(options), "file1: not UTF-8", "offset 2 "));
  options = Options("char", {"", ""});
  Refusal(options);
  options = Options("bytes", {"a"});
  Refusal(options);
  options.files.push_back(At("nothing").string());
  Refusal(options);
  options.files = {At("").string()};
  Refusal(options);
  options = Options("bytes", {"abcdef"});
  PrepareHooks stop;
  stop.progress = [](int64_t, int64_t) { throw 1; };
  EXPECT_THROW(PrepareDataset(options, stop), int);
  EXPECT_EQ(Names(), (Strings{"file0", "file1"}));
}

TEST_F(Prepare, WrongOptionsAreUsageErrors) {
  const auto refuses = [&](auto&& change) {
    PrepareOptions options = Options("char", {"abc"});
    change(options);
    Refusal(options, ErrorKind::kUsage);
  };
  refuses([](PrepareOptions& options) { options.files.clear(); });
  refuses([](PrepareOptions& options) { options.out.clear(); });
  refuses([](PrepareOptions& options) { options.val_fraction = 1; });
  refuses([](PrepareOptions& options) { options.special = "some"; });
  refuses([](PrepareOptions& options) { options.val_split = "random"; });
  refuses([](PrepareOptions& options) { options.format = "npy"; });
  refuses([](PrepareOptions& options) { options.shard_tokens = -1; });
}

TEST_F(Prepare, AnUnknownTokenizerIsNamedAndLeavesNothing) {
  const PrepareOptions options = Options("no-such-words", {"abc"});
  EXPECT_TRUE(Contains(Refusal(options, ErrorKind::kUsage), "no-such-words"));
  EXPECT_EQ(Names(), (Strings{"file0"}));
}

TEST_F(Prepare, DirectoriesAboveAreMade) {
  PrepareOptions options = Options("char", {"some text, long enough to hold something out"});
  options.out = At("not/yet/there/").string();
  PrepareDataset(options);
  EXPECT_TRUE(IsDataset(At("not/yet/there").string()));
}

TEST_F(Prepare, OnlyADataSetIsReplacedAndOnlyWhenAsked) {
  PrepareOptions options = Options("char", {"abcabcabcabc"});
  std::filesystem::create_directory(options.out);
  PrepareDataset(options);
  const std::string before = ReadFile(At("out/train.bin"));
  Refusal(options, ErrorKind::kUsage);
  options.tokenizer = "bytes";
  options.overwrite = true;
  PrepareDataset(options);
  EXPECT_NE(ReadFile(At("out/train.bin")), before);
  // As others call what is held out.
  std::filesystem::rename(At("out/val.bin"), At("out/valid.bin"));
  PrepareDataset(options);
  EXPECT_TRUE(std::filesystem::exists(At("out/val.bin")));
  EXPECT_FALSE(std::filesystem::exists(At("out/valid.bin")));
  PutFile("out/notes.txt", "mine");
  EXPECT_TRUE(Contains(Refusal(options, ErrorKind::kUsage), "notes.txt"));
  options.out = options.files[0];
  Refusal(options, ErrorKind::kUsage);
}

// The text is cut at the same character whatever its bytes, between files and inside one.
TEST_F(Prepare, TheSplitFollowsTheCharactersOfAllDocuments) {
  const std::vector<std::string> texts = {"ab", "\u00E9\u20AC", "c\U0001F600"};
  const std::string all = "ab\u00E9\u20ACc\U0001F600";
  const auto tokenizer = CharTokenizer({U'a', U'b', U'c', U'\u00E9', U'\u20AC', U'\U0001F600'});
  for (int train = 1; train <= 5; ++train) {
    PrepareOptions options = Options("char", texts);
    options.val_fraction = 1 - (train + 0.5) / 6;
    options.overwrite = true;
    options.piece_bytes = 1;
    const DatasetInfo info = PrepareDataset(options);
    EXPECT_EQ(info.train_tokens, train);
    const Dataset dataset(options.out);
    EXPECT_EQ(
        tokenizer.Decode(ReadTokens(dataset.train())) + tokenizer.Decode(ReadTokens(dataset.val())),
        all);
  }
}

TEST_F(Prepare, LinesOfJsonAreDocuments) {
  PrepareOptions options = Options("bytes", {});
  const auto prepare = [&](double val_fraction) {
    options.val_fraction = val_fraction;
    options.overwrite = true;
    return PrepareDataset(options);
  };
  for (const char* name : {"a.jsonl", "b.txt"}) options.files.push_back(At(name).string());
  PutFile("a.jsonl", "\n{\"text\": \"a\\n\"}\n{\"text\": \"\"}\n{\"n\": 1, \"text\": \"bcd\"}\n");
  PutFile("b.txt", "ef");
  const DatasetInfo info = prepare(0);
  EXPECT_EQ(info.documents, 4);
  EXPECT_EQ(info.text_bytes, 7);
  const std::vector<int32_t> all = {'a', '\n', 256, 256, 'b', 'c', 'd', 256, 'e', 'f'};
  EXPECT_EQ(ReadTokens(Dataset(options.out).train()), all);
  EXPECT_EQ(Dataset(options.out).val().size(), 0);
  // Wherever it is cut, both parts in a row are the same; end-of-text goes to the later part.
  const std::vector<size_t> train_tokens = {1, 2, 5, 6, 7, 9};
  for (int64_t units = 1; units <= 6; ++units) {
    for (const int64_t piece_bytes : {0, 1}) {
      options.piece_bytes = piece_bytes;
      prepare(1 - (static_cast<double>(units) + 0.5) / 7);
      const Dataset dataset(options.out);
      std::vector<int32_t> both = ReadTokens(dataset.train());
      EXPECT_EQ(both.size(), train_tokens[static_cast<size_t>(units) - 1]) << units;
      const std::vector<int32_t> val = ReadTokens(dataset.val());
      both.insert(both.end(), val.begin(), val.end());
      EXPECT_EQ(both, all) << units;
    }
  }
  PutFile("a.jsonl", "{\"text\": \"a\"}\n{\"text\": 3}\n");
  EXPECT_TRUE(Contains(ErrorOf([&] { prepare(0.5); }), "a.jsonl:2:"));
}

TEST_F(Prepare, SpecialTokensAreWhatTheRuleSays) {
  PrepareOptions options = Options("bytes", {"ab\nx<|endoftext|>c<|endof"});
  options.val_fraction = 0;
  options.overwrite = true;
  EXPECT_EQ(Prepared(options).train().size(), 25);
  options.special = "allow";
  for (const int64_t piece_bytes : {1, 2, 7, 1000}) {
    options.piece_bytes = piece_bytes;
    const Dataset dataset = Prepared(options);
    EXPECT_EQ(ReadTokens(dataset.train()), (std::vector<int32_t>{'a', 'b', '\n', 'x', 256, 'c', '<',
                                                                 '|', 'e', 'n', 'd', 'o', 'f'}));
    EXPECT_EQ(dataset.info().special, "allow");
  }
  options.special = "raise";
  EXPECT_TRUE(Contains(Refusal(options), "file0:2:2:", "<|endoftext|>"));
  EXPECT_EQ(Names(), (Strings{"file0", "out"}));
}

TEST_F(Prepare, ShardsAndFormatsHoldTheSameTokens) {
  std::string text;
  for (int i = 0; i < 4000; ++i) text += std::to_string(i);
  PrepareOptions options = Options("bytes", {text});
  PrepareDataset(options);
  const std::vector<int32_t> train = ReadTokens(Dataset(options.out).train());
  const std::vector<int32_t> val = ReadTokens(Dataset(options.out).val());
  options.overwrite = true;
  for (const char* format : {"folio", "llmc"}) {
    for (const int64_t shard_tokens : {0, 1000, 999}) {
      options.format = format;
      options.shard_tokens = shard_tokens;
      const Dataset dataset = Prepared(options);
      EXPECT_EQ(ReadTokens(dataset.train()), train);
      EXPECT_EQ(ReadTokens(dataset.val()), val);
      EXPECT_TRUE(dataset.Verify());
      EXPECT_EQ(dataset.train().shards(),
                shard_tokens == 0 ? 1 : (train.size() + shard_tokens - 1) / shard_tokens);
    }
  }
  EXPECT_EQ(ReadFile(At("out/train_000000.bin")).substr(0, 1024),
            TokenHeader(999, TokenWidth::k16));
}

// A BPE whose tokens reach over many places where the text might be cut.
TEST_F(Prepare, NeitherPiecesNorThreadsChangeTheTokens) {
  TestRng rng(1);
  std::string text = RandomText(
      {"the", " the", " House", "'s", "\n", "  ", "12", "345", "?!", "\u4F60", "\u00E9a", " \t"},
      8000, rng);
  for (const size_t at : {9, 999, 5000, 10001}) text.insert(at, "\xFF");
  const BpeTokenizer bpe(TrainedOn(text, {.vocab_size = 600}));
  std::filesystem::create_directory(At("bpe"));
  bpe.Save(At("bpe").string());
  PrepareOptions options = Options(At("bpe").string(), {text, "", text.substr(0, 999)});
  options.val_fraction = 0;
  options.overwrite = true;
  std::vector<int32_t> expected = bpe.EncodeOrdinary(text);
  const std::vector<int32_t> last = bpe.EncodeOrdinary(text.substr(0, 999));
  expected.insert(expected.end(), 2, *bpe.end_of_text());
  expected.insert(expected.end(), last.begin(), last.end());
  const KeptThreads kept;
  for (const int threads : {1, 3}) {
    SetThreads(threads);
    for (const int64_t piece_bytes : {0, 1, 13, 4096}) {
      options.piece_bytes = piece_bytes;
      ASSERT_EQ(ReadTokens(Prepared(options).train()), expected) << threads << " " << piece_bytes;
    }
  }
  EXPECT_EQ(Dataset(options.out).info().tokenizer_hash, LoadTokenizer(options.out)->hash());
}

TEST_F(Prepare, CharactersThatATokenizerLacksAreNamedWithTheirPlace) {
  PrepareDataset(Options("char", {"abc\n"}));
  PrepareOptions options = Options(At("out").string(), {"a\nb\nabcab", "ab\ncax"});
  options.out = At("other").string();
  options.piece_bytes = 1;
  EXPECT_TRUE(Contains(Refusal(options), "file1:2:3: no token for the character 'x'"));
  options.files[1] = At("c.jsonl").string();
  PutFile("c.jsonl", "{\"text\": \"ab\"}\n{\"text\": \"ab\\ncx\"}\n");
  EXPECT_TRUE(
      Contains(Refusal(options), "c.jsonl:2: \"text\":2:2: no token for the character 'x'"));
}

// Read back without what dataset.json says.
TEST_F(Prepare, AVocabularyBeyond65536IsLlmCsVersion7) {
  std::string text;
  for (char32_t code = 0x10000; code < 0x10000 + 65537; ++code) AppendUtf8(code, text);
  PrepareOptions options = Options("char", {text});
  options.val_split = "tail";
  options.format = "llmc";
  const std::vector<int32_t> train = ReadTokens(Prepared(options).train());
  EXPECT_EQ(train.size(), 58983u);
  EXPECT_EQ(ReadFile(At("out/train.bin")).substr(0, 1024), TokenHeader(58983, TokenWidth::k32));
  std::filesystem::remove(At("out/dataset.json"));
  const Dataset bare(options.out);
  EXPECT_EQ(bare.info().width, TokenWidth::k32);
  EXPECT_EQ(ReadTokens(bare.train()), train);
  EXPECT_EQ(ReadTokens(bare.val()).back(), 65536);
}

// nanoGPT maps both files as uint16 and takes their length for the number of tokens.
TEST_F(Prepare, TheFilesAreNanoGptsBytes) {
  PrepareOptions options = Options("char", {"cab\ncabbb\n"});
  options.val_fraction = 0.4;
  PrepareDataset(options);
  EXPECT_EQ(ReadFile(At("out/train.bin")), std::string("\3\0\1\0\2\0\0\0\3\0\1\0", 12));
  EXPECT_EQ(ReadFile(At("out/val.bin")), std::string("\2\0\2\0\2\0\0\0", 8));
  std::filesystem::remove(At("out/dataset.json"));
  EXPECT_EQ(Dataset(options.out).train().size(), 6);
}

TEST_F(Prepare, TinyShakespeareIsNanoGpts) {
  const std::string path = TestData("tinyshakespeare/input.txt");
  if (path.empty()) GTEST_SKIP() << "tinyshakespeare is not here";
  PrepareOptions options = Options("char", {});
  options.files = {path};
  options.val_split = "tail";
  const DatasetInfo info = PrepareDataset(options);
  EXPECT_EQ(info.vocab_size, 65);
  EXPECT_EQ(info.train_tokens, 1003854);
  EXPECT_EQ(info.val_tokens, 111540);
  EXPECT_EQ(std::filesystem::file_size(At("out/train.bin")), 2 * 1003854u);
}

// The sizes that nanoGPT states, and the files that its script writes.
TEST_F(Prepare, TinyShakespeareInGpt2sTokensIsNanoGpts) {
  const std::string text = TestData("tinyshakespeare/input.txt"), vocab = TestData("gpt2");
  if (text.empty() || vocab.empty()) GTEST_SKIP() << "vocabulary or text not here";
  PrepareOptions options = Options(vocab, {});
  options.files = {text};
  options.val_split = "tail";
  const DatasetInfo info = PrepareDataset(options);
  EXPECT_EQ(info.train_tokens, 301966);
  EXPECT_EQ(info.val_tokens, 36059);
  const auto hash = [&](const char* name) { return Sha256Hex(ReadFile(At(name))); };
  EXPECT_EQ(hash("out/train.bin"),
            "502a2bdc8210d1ac5d5674867cb74467dd31db575d25cf6dbb08c8bdbea8680f");
  EXPECT_EQ(hash("out/val.bin"),
            "68a53422394c26a655ebe641f5c6f49888e8f4e45fe5d6f02abda63ba3ebd65b");
}

// The files of another attempt are gone on with, or removed: never what a link leads to, or what
// belongs to somebody else.
TEST_F(Prepare, AForeignDirectoryUnderTheNameOfAnAttemptIsLeftAlone) {
  const PrepareOptions options = Options("bytes", {"some text that is long enough\n"});
  std::filesystem::create_directory(At("precious"));
  PutFile("precious/file", "modified since");
  std::filesystem::create_symlink(At("precious"), At(".out.partial"));
  EXPECT_TRUE(Contains(Refusal(options, ErrorKind::kRuntime),
                       "exists and is not a directory of this user"));
  std::filesystem::remove(At(".out.partial"));
  EXPECT_EQ(ReadFile(At("precious/file")), "modified since");
  if (geteuid() != 0) return;  // nobody else can give directories away
  std::filesystem::create_directory(At(".out.partial"));
  ASSERT_EQ(chown(At(".out.partial").c_str(), 1234, 1234), 0);
  EXPECT_TRUE(Contains(Refusal(options, ErrorKind::kRuntime),
                       "exists and is not a directory of this user"));
}

class HeldOutText : public InTemporaryDirectory {
 protected:
  // The two parts as text.
  struct Parts {
    std::string train, val;
    DatasetInfo info;
  };

  Parts Prepare(const std::vector<std::string>& files, const PrepareOptions& more = {}) {
    PrepareOptions options = more;
    for (const std::string& file : files) options.files.push_back(At(file).string());
    options.out = At("out").string();
    options.overwrite = true;
    PrepareDataset(options);
    const Dataset data(options.out);
    EXPECT_TRUE(data.Verify());
    const auto tokenizer = LoadTokenizer(options.out);
    return {tokenizer->Decode(ReadTokens(data.train())), tokenizer->Decode(ReadTokens(data.val())),
            data.info()};
  }

  // So many lines of one letter.
  static std::string Lines(char letter, int lines) {
    std::string text;
    for (int i = 0; i < lines; ++i) text += std::string(39 + i % 11, letter) + "\n";
    return text;
  }
};

std::map<char, double> CountLetters(const std::string& text) {
  std::map<char, double> counts;
  for (const char c : text) counts[c] += 1;
  return counts;
}

TEST_F(HeldOutText, OfAConcatenationIsOfEachOfItsParts) {
  std::string text;
  for (char letter = 'a'; letter < 'k'; ++letter) text += Lines(letter, 400);
  PutFile("a.txt", text);
  const Parts spread = Prepare({"a.txt"});
  EXPECT_EQ(spread.info.val_blocks, std::ssize(text) / 10 / 512);
  EXPECT_EQ(spread.info.WhereHeldOut(),
            fmt::format("{} blocks spread over the text", spread.info.val_blocks));
  auto all = CountLetters(text), held_out = CountLetters(spread.val);
  for (const auto& [letter, count] : all) {
    EXPECT_NEAR(held_out[letter] / count, 0.1, 0.07) << letter;
  }
  EXPECT_NEAR(static_cast<double>(spread.val.size()) / static_cast<double>(text.size()), 0.1, 0.01);
  // Nothing is lost, none is in both, and blocks are of whole lines.
  std::vector<std::string> lines = Split(text, '\n'), both = Split(spread.train, '\n');
  for (const std::string& line : Split(spread.val, '\n')) both.push_back(line);
  EXPECT_EQ(spread.train.size() + spread.val.size(), text.size());
  both.erase(std::ranges::find(both, ""));  // behind the last line of the other part
  std::ranges::sort(lines);
  std::ranges::sort(both);
  EXPECT_EQ(both, lines);

  const Parts tail = Prepare({"a.txt"}, {.val_split = "tail"});
  EXPECT_EQ(tail.train + tail.val, text);
  EXPECT_EQ(tail.val.size(), text.size() - text.size() * 9 / 10);
  EXPECT_EQ(CountLetters(tail.val).size(), 2u);  // the last letter and the line break
  EXPECT_EQ(tail.info.val_blocks, 1);
  EXPECT_EQ(tail.info.WhereHeldOut(), "the end of the text");
}

TEST_F(HeldOutText, IsMadeOfWholeDocumentsWhereTheseAreShort) {
  std::string lines, one_file;
  std::vector<std::string> documents;
  for (int i = 0; i < 2000; ++i) {
    documents.push_back(fmt::format("document {} {}", i, std::string(i % 60, 'x')));
    lines += fmt::format("{{\"text\": \"{}\"}}\n", documents.back());
  }
  PutFile("a.jsonl", lines);
  Strings files = {"a.jsonl"};
  for (int i = 0; i < 40; ++i) {
    files.push_back(fmt::format("file{}.txt", i));
    documents.push_back(fmt::format("file {}\n{}", i, Lines('y', 5)));
    PutFile(files.back(), documents.back());
  }
  for (const int64_t piece_bytes : {0, 100}) {
    const Parts parts = Prepare(files, {.tokenizer = "bytes", .piece_bytes = piece_bytes});
    EXPECT_GT(parts.info.val_blocks, 5);
    std::vector<std::string> found;
    for (const std::string* part : {&parts.train, &parts.val}) {
      std::string rest = *part;
      const std::string border = "<|endoftext|>";
      for (size_t end; (end = rest.find(border)) != rest.npos;) {
        if (end > 0) found.push_back(rest.substr(0, end));
        rest.erase(0, end + border.size());
      }
      found.push_back(rest);
    }
    std::vector<std::string> expected = documents;
    std::ranges::sort(found);
    std::ranges::sort(expected);
    EXPECT_EQ(found, expected);
    // The files have a share in it, too, and so have the first and the last lines.
    EXPECT_TRUE(Contains(parts.val, "document 19", "file ", "document 1"));
    EXPECT_NEAR(static_cast<double>(parts.val.size()),
                0.1 * static_cast<double>(parts.val.size() + parts.train.size()),
                0.01 * static_cast<double>(parts.train.size()));
  }
}

// Also where one document is longer than many blocks, as a file or in a line of JSON.
TEST_F(HeldOutText, DoesNotDependOnTheSizesOfPieces) {
  std::string text, line = "{\"text\": \"";
  for (int i = 0; i < 1500; ++i) {
    text += fmt::format("n\u00E4chste {}{}", i * i, i % 90 == 0 ? "\n" : " ");
    line += fmt::format("\u20AC{}{}", i, i % 7 == 0 ? "\\n" : " ");
  }
  PutFile("a.txt", text);
  PutFile("b.jsonl", "{\"text\": \"short\"}\n" + line + "\"}\n\n{\"text\": \"\"}\n");
  PutFile("c.txt", "");
  for (const char* tokenizer : {"char", "bytes"}) {
    for (const double fraction : {0.1, 0.4, 0.85}) {
      const Strings files = {"a.txt", "b.jsonl", "c.txt", "a.txt"};
      PrepareOptions options{.tokenizer = tokenizer, .val_fraction = fraction};
      const Parts expected = Prepare(files, options);
      EXPECT_GT(expected.info.val_blocks, 2);
      const auto made = FilesBelow(At("out"));
      for (const int64_t piece_bytes : {7, 1000, 9999}) {
        options.piece_bytes = piece_bytes;
        Prepare(files, options);
        EXPECT_EQ(FilesBelow(At("out")), made) << tokenizer << " " << fraction << piece_bytes;
      }
    }
  }
}

TEST_F(HeldOutText, OfAShortTextIsItsEnd) {
  PutFile("a.txt", Lines('a', 200));
  const Parts parts = Prepare({"a.txt"});
  EXPECT_EQ(parts.train + parts.val, Lines('a', 200));
  EXPECT_EQ(parts.info.val_blocks, 1);
  EXPECT_EQ(Prepare({"a.txt"}, {.val_fraction = 0}).info.val_blocks, 0);
}

TEST_F(HeldOutText, ConversationsAreSpreadToo) {
  std::string lines;
  for (int i = 0; i < 40; ++i) {
    lines += fmt::format(R"({{"messages":[{{"role":"user","content":"q{0}."}},)"
                         R"({{"role":"assistant","content":"a"}}]}})"
                         "\n",
                         i);
  }
  PutFile("a.jsonl", lines);
  const Parts spread = Prepare({"a.jsonl"});
  for (const int i : {9, 19, 29, 39}) {
    EXPECT_TRUE(Contains(spread.val, fmt::format("q{}.", i))) << spread.val;
  }
  EXPECT_FALSE(Contains(spread.val, "q38."));
  EXPECT_EQ(spread.info.val_blocks, 4);
  EXPECT_EQ(spread.info.WhereHeldOut(), "4 conversations spread over the data");
  const Parts tail = Prepare({"a.jsonl"}, {.val_split = "tail"});
  EXPECT_TRUE(Contains(tail.val, "q36.", "q37.", "q38.", "q39."));
}

}  // namespace
}  // namespace folio
