#include "folio/corpus/text_stream.h"

#include <gtest/gtest.h>

#include "folio/corpus/text_files.h"
#include "folio/text/test_texts.h"
#include "tests/kit/compressed.h"
#include "tests/kit/directory.h"
#include "tests/kit/expect.h"

namespace folio {
namespace {

// "aé€😀\n", each unit as two bytes, high or low one first.
const std::string kText = "a\u00E9\u20AC\U0001F600\n";
const std::string kUtf16Big("\xFE\xFF\0a\0\xE9\x20\xAC\xD8\x3D\xDE\0\0\n", 14);
const std::string kUtf16Little(
    "\xFF\xFE"
    "a\0\xE9\0\xAC\x20\x3D\xD8\0\xDE\n\0",
    14);

class TextStreams : public InTemporaryDirectory {
 protected:
  // The text, and what it was taken for.
  std::string Text(const std::string& name, const std::string& bytes,
                   const TextOptions& options = {}, size_t piece = 1000) {
    PutFile(name, bytes);
    TextStream stream(At(name).string(), options);
    form_ = stream.form();
    std::string text;
    while (stream.Read(text, piece) > 0) continue;
    return text;
  }
  std::string Refusal(const std::string& bytes, const std::string& name = "some") {
    return ErrorAndHelp([&] { Text(name, bytes); });
  }

  TextForm form_;
};

TEST_F(TextStreams, TextIsTextWhateverItsName) {
  for (const char* name : {"a.txt", "b", "c.json", "d.gz", "e.parquet"}) {
    EXPECT_EQ(Text(name, kText), kText);
    EXPECT_FALSE(form_.converted || form_.json_lines) << name;
  }
  EXPECT_EQ(Text("empty", ""), "");
  EXPECT_EQ(Text("marked", "\xEF\xBB\xBF" + kText), kText);
  for (const char* prose : {"{ said he", "[1] A note", "[\"Title\"](there)", "{\"o}sterreich",
                            "{}, the empty set", "{\n  color: red;\n}", "\"text\"", "[]{}", "{",
                            "[", "[\"a\" \"b\"]", "12", "PAR", "BZh9"}) {
    EXPECT_EQ(Text("prose", prose), prose);
    EXPECT_FALSE(form_.converted || form_.json_lines) << prose;
  }
}

TEST_F(TextStreams, ManySpellingsOfJsonComeAsLines) {
  const std::string lines = "{\"text\":\"a\"}\n{\"text\":\"b\"}\n";
  for (const char* name : {"a.jsonl", "b.JSONL", "c.ndjson", "d.json", "e.txt"}) {
    EXPECT_EQ(Text(name, lines), lines);
    EXPECT_TRUE(form_.json_lines && !form_.converted) << name;
    EXPECT_EQ(Text(name, Compressed(lines, "zstd")), lines);
    EXPECT_TRUE(form_.json_lines && form_.converted) << name;
  }
  EXPECT_EQ(Text("f", "\n \n" + lines), "\n \n" + lines);
  EXPECT_TRUE(form_.json_lines);
  EXPECT_EQ(Text("g.Jsonl", "\n"), "\n");
  EXPECT_TRUE(form_.json_lines);
  for (const size_t piece : {1, 3, 1000}) {
    for (const char* whole :
         {"[{\"text\":\"a\"},{\"text\":\"b\"}]", "[\"a\",\"b\"]", " [\n\"a\" ,\r\n\"b\"\n]\n",
          "{\"text\":\"a\"} {\"text\":\"b\"}", "\xEF\xBB\xBF[\"a\",\"b\"]"}) {
      EXPECT_EQ(Text("h.json", whole, {}, piece), lines) << whole;
      EXPECT_TRUE(form_.json_lines && form_.unit == LineUnit::kValue && form_.converted) << whole;
    }
  }
  EXPECT_EQ(Text("i", "{\n \"a\": [1, {\"x\\\"]\": \"}\\\\\"}],\n \"text\": \"b\"\n}\n"),
            "{  \"a\": [1, {\"x\\\"]\": \"}\\\\\"}],  \"text\": \"b\" }\n");
  EXPECT_EQ(Text("j", "[\"a\", 1, null]", {.field = "of \"x\""}),
            "{\"of \\\"x\\\"\":\"a\"}\n1\nnull\n");
  EXPECT_EQ(Text("k", "[]"), "");
}

// More than what is looked at to recognise it.
TEST_F(TextStreams, LongJsonIsRecognisedByItsBeginning) {
  const std::string line = "{\"text\":\"" + std::string(100000, 'a') + "\"}";
  EXPECT_EQ(Text("a", line + "\n" + line), line + "\n" + line);
  EXPECT_TRUE(form_.json_lines && !form_.converted);
  EXPECT_EQ(Text("b", "[" + line + ",\n" + line + "]"), line + "\n" + line + "\n");
}

TEST_F(TextStreams, JsonThatDoesNotEndIsNamed) {
  for (const char* bad :
       {"[{\"text\":\"a\"}", "[{\"text\":\"a\"},", "[{\"text\":\"a\"", "[\"a\",,\"b\"]", "[\"a\",]",
        "[\"a\",\"b\"] x", "{\n\"text\":\"a\"", "{\n\"text\":\"a\"}}"}) {
    EXPECT_TRUE(Contains(Refusal(bad), "some: not valid JSON")) << bad;
  }
}

TEST_F(TextStreams, Utf16IsReadInBothOrders) {
  for (const size_t piece : {1, 2, 1000}) {
    EXPECT_EQ(Text("big", kUtf16Big, {}, piece), kText);
    EXPECT_EQ(Text("little", kUtf16Little, {}, piece), kText);
    EXPECT_TRUE(form_.converted);
  }
  EXPECT_EQ(Text("empty", "\xFF\xFE"), "");
  EXPECT_EQ(Text("packed", Compressed(kUtf16Big, "bzip2")), kText);
  std::string lines = "\xFF\xFE";
  for (const char c : std::string("{\"text\":\"a\"}\n")) lines += std::string{c, '\0'};
  EXPECT_EQ(Text("lines", lines), "{\"text\":\"a\"}\n");
  EXPECT_TRUE(form_.json_lines);
  for (const size_t cut : {13, 11, 10, 9}) {
    EXPECT_TRUE(Contains(Refusal(kUtf16Big.substr(0, cut)), "some: not valid UTF-16")) << cut;
  }
  const std::string low_first("\xFE\xFF\xDE\0\0a", 6), high_alone("\xFE\xFF\xD8\x3D\0a", 6);
  EXPECT_TRUE(Contains(Refusal(low_first), "not valid UTF-16"));
  EXPECT_TRUE(Contains(Refusal(high_alone), "not valid UTF-16"));
}

TEST_F(TextStreams, WhatIsNoTextIsNamedWithWhatToDo) {
  const std::string zeros(200, '\0');
  const auto names = [&](const std::string& bytes, const char* looks_like, const char* help = "") {
    const std::string expected = std::string("looks like ") + looks_like;
    EXPECT_TRUE(Contains(Refusal(bytes), "some: not a text", expected, help));
    EXPECT_TRUE(Contains(Refusal(Compressed(bytes, "gzip"), "some"), "some: not a text", expected));
    EXPECT_TRUE(Contains(Refusal(bytes, "some.jsonl"), "some.jsonl: not a text"));
  };
  names("PK\3\4" + zeros, "a zip archive", "unpack it");
  names(std::string(256, 'a') + std::string("\0ustar\0", 7) + zeros, "a tar archive", "unpack it");
  names("PAR1\x15\x04" + zeros + "PAR1", "a Parquet file", "JSON lines");
  names("%PDF-1.7\n", "a PDF document", "pdftotext");
  names("{\\rtf1 x}", "a rich text document", "plain text");
  names("\x89PNG\r\n" + zeros, "a PNG image");
  names(
      "\x7F"
      "ELF" +
          zeros,
      "a program (ELF)");
  names("\x93NUMPY\x01" + zeros, "a NumPy array");
  names("GGUF\3" + zeros, "a GGUF model");
  names(std::string("\x40\1\0\0\0\0\0\0{\"a\"", 12) + zeros, "a model (safetensors)");
  names("\x80\x04\x95" + zeros, "a Python pickle");
  names(std::string("\x88\xD8\x34\x01\1\0\0\0", 8) + zeros, "a file of llm.c's tokens");
  names(std::string("\xFF\xFE\0\0a\0\0\0", 8), "UTF-32 text", "iconv");
  names(std::string("a\0b\0c\0d\0", 8), "UTF-16 without a byte order mark", "UTF-16LE");
  names(std::string("\0a\0b\0c\0d", 8), "UTF-16 without a byte order mark", "UTF-16BE");
  names("some text" + std::string(1, '\0'), "binary data", "--raw");
  std::string latin;
  for (int i = 0; i < 100; ++i)
    latin +=
        "F\xFCr die Stra\xDF"
        "e. ";
  names(latin, "text that is not UTF-8", "iconv");
  names(latin, "text that is not UTF-8", "--tokenizer bytes --raw");
}

TEST_F(TextStreams, AFewWrongBytesAreText) {
  EXPECT_EQ(Text("a", "ab\xFF"), "ab\xFF");
  const std::string text = std::string(20000, 'a') + "\xFF" + std::string(20000, 'b') + "\xE2\x82";
  EXPECT_EQ(Text("b", text), text);
}

// Behind what was looked at first.
TEST_F(TextStreams, BinaryDataFurtherInIsFound) {
  std::string text(300000, 'a');
  text[200000] = '\0';
  EXPECT_TRUE(Contains(Refusal(text), "some: not a text", "binary data"));
  // A file that is read in place is looked at here and there.
  text.replace(150000, 80000, 80000, '\0');
  PutFile("b", text);
  EXPECT_TRUE(Contains(ErrorOf([&] { PrepareSource(At("b").string()); }), "b: not a text"));
  PutFile("c", std::string(70000, 'a') + std::string(80000, '\xE9'));
  EXPECT_TRUE(Contains(ErrorOf([&] { PrepareSource(At("c").string()); }), "c: not a text"));
  TestRng rng(1);
  std::string wide;
  while (wide.size() < 300000) AppendUtf8(static_cast<char32_t>(0x4E00 + rng.Below(20000)), wide);
  PutFile("d", wide);
  EXPECT_EQ(PrepareSource(At("d").string()).bytes(), std::ssize(wide));
}

TEST_F(TextStreams, WhatIsPackedAgainAndAgainIsUnpackedOrRefused) {
  const std::string twice = Compressed(Compressed(kText, "gzip"), "zstd");
  EXPECT_EQ(Text("a.gz.zst", twice), kText);
  std::string often = kText;
  for (int i = 0; i < 6; ++i) often = Compressed(often, i % 2 == 0 ? "gzip" : "zstd");
  EXPECT_TRUE(Contains(Refusal(often), "compressed several times"));
}

TEST_F(TextStreams, RawTakesTheBytes) {
  for (const std::string& bytes :
       {kUtf16Big, Compressed(kText, "gzip"), std::string("\xEF\xBB\xBF{\"text\":1}\0", 15)}) {
    EXPECT_EQ(Text("a.jsonl", bytes, {.raw = true}), bytes);
    EXPECT_FALSE(form_.converted || form_.json_lines);
  }
}

TEST_F(TextStreams, WhatIsNotThereIsAnInputError) {
  ErrorOf([&] { TextStream(At("none").string(), {}); });
  ErrorOf([&] { TextStream(At("").string(), {}); });
}

}  // namespace
}  // namespace folio
