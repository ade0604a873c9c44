#include "folio/corpus/text_files.h"

#include "folio/base/error.h"
#include "tests/kit/compressed.h"
#include "tests/kit/directory.h"
#include "tests/kit/expect.h"

namespace folio {
namespace {

class TextFilesTest : public InTemporaryDirectory {
 protected:
  std::string Path(const std::string& name) { return At(name).string(); }
};

TEST_F(TextFilesTest, ADirectoryStandsForTheTextsBelowIt) {
  const std::string png("\x89PNG\r\n\x1A\n\0\0", 10);
  PutFile("texts/b.txt", "12345");
  PutFile("texts/a.jsonl", "{\"text\": \"a\"}\n");
  PutFile("texts/deep/c.of-no-kind", "12345");
  PutFile("texts/deep/d.gz", Compressed("12345", "gzip"));
  PutFile("texts/deep/e.gz", Compressed(png, "gzip"));
  PutFile("texts/f.png", png);
  PutFile("texts/settings.json", "{\n  \"n\": 1\n}\n");
  PutFile("texts/array.json", "[\n  {\"text\": \"1\"}\n]\n");
  PutFile("texts/model.bin", std::string(100, '\0'));
  PutFile("texts/.hidden", "12345");
  PutFile("texts/.git/config", "12345");
  PutFile("texts/data/train.bin", "12");
  PutFile("texts/data/val.bin", "12");
  PutFile("texts/data/merges.txt", "a b");
  PutFile("e", "12345");
  const TextFiles texts = FindTextFiles({Path("e"), Path("texts"), "-"}, {});
  EXPECT_EQ(texts.files, (Strings{Path("e"), Path("texts/a.jsonl"), Path("texts/array.json"),
                                  Path("texts/b.txt"), Path("texts/deep/c.of-no-kind"),
                                  Path("texts/deep/d.gz"), "-"}));
  EXPECT_EQ(texts.left_out,
            "skipped 4 files that are not text: e.gz (a PNG image), f.png (a PNG image), "
            "model.bin (binary data), ...");
}

TEST_F(TextFilesTest, WhereThereAreNoneItSaysWhatThereIs) {
  std::filesystem::create_directories(At("empty"));
  const auto refusal = [&](const char* name) {
    return ErrorAndHelp([&] { FindTextFiles({Path(name)}, {}); });
  };
  EXPECT_TRUE(Contains(refusal("empty"), "' contains neither a data set nor texts", "no files"));
  PutFile("others/a.json", "[{\"content\": \"a\"}]");
  EXPECT_TRUE(Contains(refusal("others"), "a.json (JSON without a \"text\")", "--field"));
  EXPECT_EQ(FindTextFiles({Path("others")}, {.field = "content"}).files.size(), 1u);
  // Lines of JSON are data, whose mistakes are told where they are read; damage always is.
  PutFile("lines/a.ndjson", "{\"content\": \"a\"}\n");
  EXPECT_EQ(FindTextFiles({Path("lines")}, {}).files.size(), 1u);
  PutFile("damaged/a.txt", "a");
  PutFile("damaged/b.xz", Compressed("text", "xz").substr(0, 40));
  EXPECT_TRUE(Contains(refusal("damaged"), "b.xz: incomplete xz stream"));
}

TEST_F(TextFilesTest, RawTakesEveryFile) {
  PutFile("dir/a.bin", std::string(10, '\0'));
  PutFile("dir/b.gz", Compressed("text", "gzip"));
  PutFile("dir/.c", "hidden");
  EXPECT_EQ(FindTextFiles({Path("dir")}, {.raw = true}).files,
            (Strings{Path("dir/a.bin"), Path("dir/b.gz")}));
}

TEST_F(TextFilesTest, BytesAreThoseOfTheTexts) {
  const std::string text(5000000, 'a');
  PutFile("a", "12345");
  PutFile("b.xz", Compressed(text, "xz"));
  EXPECT_EQ(TextBytes({Path("a"), Path("b.xz")}, {}, 1 << 30), 5000005);
  const int64_t some = TextBytes({Path("a"), Path("b.xz")}, {}, 1 << 21);
  EXPECT_GE(some, 1 << 21);
  EXPECT_LT(some, 5000000);
  EXPECT_EQ(TextBytes({Path("a"), "-"}, {}, 100), -1);
  ErrorOf([&] { TextBytes({Path("none")}, {}, 1); });
}

}  // namespace
}  // namespace folio
