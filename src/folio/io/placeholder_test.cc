#include "folio/io/placeholder.h"

#include <gtest/gtest.h>

#include <string>

#include "folio/io/gguf.h"
#include "folio/io/json.h"
#include "folio/io/safetensors.h"
#include "folio/io/torch_file.h"
#include "tests/kit/directory.h"
#include "tests/kit/expect.h"

namespace folio {
namespace {

constexpr char kPointer[] =
    "version https://git-lfs.github.com/spec/v1\n"
    "oid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\nsize 12345\n";

class Placeholders : public InTemporaryDirectory {
 protected:
  // Every reader refuses a file with these contents, with these parts in its error.
  void ExpectAll(const std::string& contents, auto... parts) const {
    const auto path = PutFile("m.safetensors", contents);
    EXPECT_TRUE(
        Contains(ErrorAndHelp([&] { SafetensorsFile file(path); }), path.string(), parts...));
    EXPECT_TRUE(Contains(ErrorAndHelp([&] { GgufFile file(path); }), path.string(), parts...));
    EXPECT_TRUE(Contains(ErrorAndHelp([&] { TorchFile file(path); }), path.string(), parts...));
  }
};

TEST_F(Placeholders, APointerOfGitLfsIsNamed) {
  ExpectAll(kPointer, "a Git LFS pointer", "12345 bytes", "git lfs pull");
  EXPECT_TRUE(Contains(ErrorAndHelp([] { ParseJson(kPointer, "tokenizer.json"); }),
                       "tokenizer.json: a Git LFS pointer", "12345 bytes"));
}

TEST_F(Placeholders, APageIsNamed) {
  for (const char* page : {"<!DOCTYPE html><html>", "\n <!doctype HTML>", "<HTML lang=\"en\">"}) {
    ExpectAll(page, "an HTML page", "a login");
    EXPECT_TRUE(Contains(ErrorAndHelp([&] { ParseJson(page, "x"); }), "x: an HTML page"));
  }
  ExpectAll("<?xml version=\"1.0\"?><Error><Code>AccessDenied</Code>", "an XML page");
}

TEST_F(Placeholders, OtherTextIsShown) {
  ExpectAll("Entry not found", "a text file, not a model", "begins with \"Entry not found\"");
  ExpectAll("{\"error\":\"Repository is gated\"}\nx\n", "\"{\"error\":\"Repository is gated\"}\"");
  ExpectAll(std::string(600, 'a') + "\x01", "a text file, not a model");
  ExpectAll(std::string(511, 'a') + "\xC3\xA4", "a text file, not a model");
}

TEST_F(Placeholders, DataAndJsonAreLeftAlone) {
  for (const std::string& data : {std::string(), std::string("GGUF"),
                                  std::string("GGUF\3\0\0\0", 8), std::string("\x80\x02}q"),
                                  std::string("abc\xFF"
                                              "abcdefghi")}) {
    EXPECT_NO_THROW(RefuseText(data, "x"));
  }
  EXPECT_NO_THROW(RefusePlaceholder("plain text, <html> later", "x"));
  EXPECT_TRUE(Contains(ErrorOf([] { ParseJson("{,}", "x"); }), "not valid JSON"));
}

}  // namespace
}  // namespace folio
