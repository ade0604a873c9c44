#include "folio/corpus/text_kind.h"

#include <algorithm>
#include <array>
#include <filesystem>

#include "folio/base/error.h"
#include "folio/base/utf8.h"
#include "folio/io/json.h"

namespace folio {
namespace {

using Form = TextKind::Form;

constexpr std::string_view kSpaces = " \t\r\n";

struct Signature {
  size_t at;
  std::string_view bytes;
  const char* looks_like;
  const char* help;
};

constexpr char kUnpack[] = "unpack it, and name the directory with the files";
constexpr char kNoTextIn[] = "leave it out";
constexpr char kTokens[] = "name a directory of token files as it is: folio train --data DIR";

// Formats that people have beside their texts. Whatever else holds zero bytes is binary data.
constexpr std::array kSignatures = {
    Signature{0, "PK\3\4", "a zip archive", kUnpack},
    Signature{0, "PK\5\6", "an empty zip archive", kNoTextIn},
    Signature{256, {"\0ustar", 6}, "a tar archive", kUnpack},
    Signature{0, "7z\xBC\xAF\x27\x1C", "a 7z archive", kUnpack},
    Signature{0, "Rar!\x1A\x07", "a rar archive", kUnpack},
    Signature{0, "\x04\x22\x4D\x18", "an lz4 stream", "decompress it before"},
    Signature{0, "PAR1", "a Parquet file",
              "write the column of its texts as JSON lines; DuckDB does: COPY (SELECT text FROM "
              "'x.parquet') TO 'x.jsonl'"},
    Signature{0, {"ARROW1\0", 7}, "an Arrow file", "write its texts as JSON lines"},
    Signature{0, "%PDF-", "a PDF document", "take its text out: pdftotext x.pdf x.txt"},
    Signature{0, "{\\rtf", "a rich text document", "save it as plain text"},
    Signature{0, "\xD0\xCF\x11\xE0", "an old Office document", "save it as plain text"},
    Signature{0, "\x89PNG", "a PNG image", kNoTextIn},
    Signature{0, "\xFF\xD8\xFF", "a JPEG image", kNoTextIn},
    Signature{0, "GIF89a", "a GIF image", kNoTextIn},
    Signature{0, "\x7F\x45LF", "a program (ELF)", kNoTextIn},
    Signature{0, "\x93NUMPY", "a NumPy array", kNoTextIn},
    Signature{0, {"GGUF\3\0", 6}, "a GGUF model", kNoTextIn},
    Signature{0, {"SQLite format 3\0", 16}, "an SQLite database", "write its texts as JSON lines"},
    Signature{0, "\x88\xD8\x34\x01", "a file of llm.c's tokens", kTokens},
    Signature{0, "\x61\xD9\x34\x01", "a file of llm.c's tokens", kTokens},
};

TextKind Other(std::string looks_like, std::string help) {
  return {.form = Form::kOther, .looks_like = std::move(looks_like), .help = std::move(help)};
}

// A little-endian length below 100 MB in 8 bytes, and an object.
bool IsSafetensors(std::string_view head) {
  return head.size() > 9 && head[8] == '{' && (head[9] == '"' || head[9] == ' ') &&
         head.substr(4, 4) == std::string_view("\0\0\0\0", 4);
}

// Two bytes of protocol, and a frame or an opcode that begins a container.
bool IsPickle(std::string_view head) {
  return head.size() > 3 && head[0] == '\x80' && head[1] >= 2 && head[1] <= 5 &&
         std::string_view("\x95}](cq").find(head[2]) != std::string_view::npos;
}

std::optional<TextKind> ByZeroBytes(std::string_view sample) {
  std::array<size_t, 2> zeros = {};  // at even places, at odd ones
  for (size_t at = sample.find('\0'); at != sample.npos; at = sample.find('\0', at + 1)) {
    ++zeros[at % 2];
  }
  if (zeros[0] + zeros[1] == 0) return std::nullopt;
  for (const size_t odd : {0, 1}) {
    if (zeros[odd] * 4 < sample.size() || zeros[1 - odd] * 50 > zeros[odd]) continue;
    return Other("UTF-16 without a byte order mark",
                 odd == 1 ? "convert it: iconv -f UTF-16LE -t UTF-8 FILE"
                          : "convert it: iconv -f UTF-16BE -t UTF-8 FILE");
  }
  return Other("binary data",
               "leave it out, or take its bytes as they are: --tokenizer bytes --raw");
}

// Single bytes that are wrong do no harm; where more than one in a hundred characters is, the text
// is in another encoding.
std::optional<TextKind> ByEncoding(std::string_view sample) {
  constexpr int64_t kFew = 8, kOneIn = 100;
  int64_t bad = 0;
  for (size_t at = FindInvalidUtf8(sample); at != sample.npos;) {
    const Utf8Char character = DecodeUtf8(sample, at);
    if (character.status == Utf8Status::kIncomplete) break;
    ++bad;
    const size_t next = at + character.length;
    const size_t more = FindInvalidUtf8(sample.substr(next));
    at = more == sample.npos ? sample.npos : next + more;
  }
  if (bad <= kFew || bad * kOneIn <= CountCharacters(sample)) return std::nullopt;
  return Other("text that is not UTF-8, or binary data",
               "convert it, if it is text: iconv -f ISO-8859-1 -t UTF-8 FILE, or whatever it is "
               "in; or take its "
               "bytes as they are: --tokenizer bytes --raw");
}

std::string_view FirstLine(std::string_view text) {
  return text.substr(0, text.find('\n'));
}

bool IsObject(std::string_view line) {
  try {
    return ParseJson(line, "line").is_object();
  } catch (const Error&) {
    return false;
  }
}

// Returns the place behind a string that `text` begins with, or npos.
size_t EndOfString(std::string_view text) {
  for (size_t at = 1; at < text.size(); ++at) {
    if (text[at] == '\\')
      ++at;
    else if (text[at] == '"')
      return at + 1;
  }
  return std::string_view::npos;
}

std::string_view WithoutSpaces(std::string_view text) {
  return text.substr(std::min(text.find_first_not_of(kSpaces), text.size()));
}

// A key and its colon behind a brace, or an array of such, or of strings: no prose begins so. `cut`
// says that the text goes on behind what is seen.
bool BeginsLikeJson(std::string_view text, bool cut) {
  const bool array = text.starts_with('[');
  if (array) text = WithoutSpaces(text.substr(1));
  const bool object = text.starts_with('{');
  if (object) text = WithoutSpaces(text.substr(1));
  if ((!array && !object) || text.empty()) return false;
  const auto rest_is_blank = [&](std::string_view rest) { return WithoutSpaces(rest).empty(); };
  if (text[0] == (object ? '}' : ']')) return rest_is_blank(FirstLine(text.substr(1)));
  if (text[0] != '"') return false;
  const size_t end = EndOfString(text);
  if (end == text.npos) return cut;
  text = WithoutSpaces(text.substr(end));
  if (text.empty()) return cut;
  if (object || text[0] != ']') return text[0] == (object ? ':' : ',');
  return rest_is_blank(text.substr(1));
}

Form TextOrJson(std::string_view head, bool lines_by_name) {
  if (lines_by_name) return Form::kJsonLines;
  if (head.starts_with(kByteOrderMark)) head.remove_prefix(kByteOrderMark.size());
  const bool cut = head.size() + kByteOrderMark.size() >= kTextHead;
  head = WithoutSpaces(head);
  if (!BeginsLikeJson(head, cut)) return Form::kText;
  const std::string_view line = FirstLine(head);
  const bool whole = line.size() < head.size() || !cut;
  if (head[0] == '{' && (!whole || IsObject(line))) return Form::kJsonLines;
  return Form::kJson;
}

}  // namespace

std::optional<TextKind> NoText(std::string_view sample) {
  // Both ends may be inside a character.
  while (!sample.empty() && !BeginsCharacter(sample[0])) sample.remove_prefix(1);
  if (std::optional<TextKind> other = ByZeroBytes(sample)) return other;
  return ByEncoding(sample);
}

TextKind RecogniseText(std::string_view head, bool lines_by_name) {
  if (const auto compression = FindCompression(head)) {
    return {.form = Form::kCompressed, .compression = *compression};
  }
  for (const Signature& known : kSignatures) {
    if (head.substr(std::min(known.at, head.size())).starts_with(known.bytes)) {
      return Other(known.looks_like, known.help);
    }
  }
  const std::string zeros(2, '\0'), little = "\xFF\xFE", big = "\xFE\xFF";
  if (head.starts_with(little + zeros) || head.starts_with(zeros + big)) {
    return Other("UTF-32 text", "convert it: iconv -f UTF-32 -t UTF-8 FILE");
  }
  if (head.starts_with(little)) return {.form = Form::kUtf16Little};
  if (head.starts_with(big)) return {.form = Form::kUtf16Big};
  if (IsSafetensors(head)) return Other("a model (safetensors)", kNoTextIn);
  if (IsPickle(head)) return Other("a Python pickle", kNoTextIn);
  if (auto other = ByZeroBytes(head)) return *other;
  if (auto other = ByEncoding(head)) return *other;
  return {.form = TextOrJson(head, lines_by_name)};
}

bool NamedForJsonLines(const std::string& path) {
  std::filesystem::path name(path);
  const auto ending = [&] {
    std::string end = name.extension().string();
    std::ranges::transform(end, end.begin(), [](char c) {
      return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    });
    return end;
  };
  for (const char* packed : {".gz", ".bz2", ".xz", ".zst"}) {
    if (ending() == packed) {
      name = name.stem();
      break;
    }
  }
  return ending() == ".jsonl" || ending() == ".ndjson";
}

}  // namespace folio
