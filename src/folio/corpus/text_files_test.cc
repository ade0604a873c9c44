#include "folio/corpus/text_files.h"

#include "folio/base/error.h"
#include "folio/io/file.h"
#include "tests/kit/directory.h"
#include "tests/kit/expect.h"

namespace folio {
namespace {

using TextFilesTest = InTemporaryDirectory;

TEST_F(TextFilesTest, ADirectoryStandsForTheTextsBelowIt) {
  std::filesystem::create_directories(At("texts/deep"));
  std::filesystem::create_directories(At("empty"));
  for (const char* name : {"texts/b.txt", "texts/a.jsonl", "texts/deep/c.md", "texts/d.png", "e"}) {
    WriteFileAtomically(At(name), "12345");
  }
  const auto path = [&](const char* name) { return At(name).string(); };
  const std::vector<std::string> files = TextFiles({path("e"), path("texts")});
  EXPECT_EQ(files, (Strings{path("e"), path("texts/a.jsonl"), path("texts/b.txt"),
                            path("texts/deep/c.md")}));
  EXPECT_EQ(TotalBytes(files), 20);
  EXPECT_EQ(TotalBytes({path("e"), path("none")}), 0);
  EXPECT_TRUE(
      Contains(ErrorOf([&] { TextFiles({path("empty")}); }), "holds neither a data set nor texts"));
}

}  // namespace
}  // namespace folio
