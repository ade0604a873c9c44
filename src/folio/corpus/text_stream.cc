#include "folio/corpus/text_stream.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <utility>

#include "folio/base/strings.h"
#include "folio/base/utf8.h"
#include "folio/corpus/conversation_lines.h"
#include "folio/corpus/table_filter.h"
#include "folio/io/posix.h"

namespace folio {
namespace {

constexpr std::string_view kSpaces = " \t\r\n";

Error BadLine(const std::string& where, const char* what, std::string cause,
              const std::string& field) {
  return InputError(fmt::format("{}: {}", where, what), std::move(cause),
                    fmt::format("each line must be a JSON object such as {{{}: \"...\"}}, or a row "
                                "of a table with that column; --field NAME selects another",
                                Json(field).dump()));
}

}  // namespace

Json ParseDataLine(std::string_view line, const std::string& where) {
  return ParseJsonFrom({.name = where, .most_values = kMostValuesOfLine, .python_numbers = true},
                       line);
}

std::string TextOfJsonLine(std::string_view line, const std::string& field,
                           const std::function<std::string()>& where) {
  Json json;
  try {
    json = ParseDataLine(line, "line");
  } catch (const Error& error) {
    throw BadLine(where(), "not valid JSON", error.cause(), field);
  }
  const Json* text = json.find(field);
  if (text == nullptr || !text->is_string()) {
    const Error bad = BadLine(where(), "not a document",
                              fmt::format("there is no string {}", Json(field).dump()), field);
    // The line may have been meant as a conversation.
    if (!json.is_object() || text != nullptr) throw Error(bad);
    std::string members;
    for (const Json::Member& member : json.items())
      members += (members.empty() ? "" : ", ") + member.key;
    const bool preferences = json.contains("chosen") && json.contains("rejected");
    throw InputError(
        bad.what(),
        fmt::format("{}, and no conversation{}{}", bad.cause(),
                    members.empty() ? "" : fmt::format("; it has {}", members),
                    preferences ? ": preference data, which folio does not train on" : ""),
        fmt::format("{}; a conversation is {}", bad.help(), kConversationForms));
  }
  return text->text();
}

bool IsBlankLine(std::string_view line) {
  return line.find_first_not_of(kSpaces) == std::string_view::npos;
}

std::string NameJsonLine(const std::string& path, int64_t number, LineUnit unit) {
  constexpr const char* kBefore[] = {"", " value ", " row "};
  return fmt::format("{}:{}{}", path, kBefore[static_cast<size_t>(unit)], number);
}

void ForJsonLines(
    TextStream& stream, const std::string& path,
    const std::function<void(std::string_view line, const std::function<std::string()>& where)>& f,
    int64_t longest) {
  constexpr size_t kPiece = size_t{1} << 18;
  std::string held;
  int64_t number = 0;
  size_t seen = 0;  // of held, without a line break
  for (bool at_end = false; !at_end;) {
    at_end = stream.Read(held, std::max(kPiece, held.size())) == 0;
    if (at_end && !held.empty()) held += '\n';
    size_t begin = 0;
    for (size_t end = held.find('\n', seen); end != held.npos; end = held.find('\n', begin)) {
      const std::string_view line = std::string_view(held).substr(begin, end - begin);
      ++number;
      const auto where = [&] { return NameJsonLine(path, number, stream.form().unit); };
      if (!IsBlankLine(line)) f(line, where);
      begin = end + 1;
    }
    held.erase(0, begin);
    seen = held.size();
    RequireLineEnds(std::ssize(held), path, longest);
  }
}

void ForJsonDocuments(
    TextStream& stream, const std::string& path, const std::string& field,
    const std::function<void(const std::string& text, const std::string& where)>& f) {
  ForJsonLines(
      stream, path,
      [&](std::string_view line, const auto& where) {
        f(TextOfJsonLine(line, field, where), where());
      },
      kLongestDocument);
}

// The kind of text that a file is taken for.
struct TextKind {
  enum class Form {
    kText,       // UTF-8, one document
    kJsonLines,  // a JSON object in each line, each a document
    kJson,       // JSON of another layout: an array, or values over several lines
    kTable,      // a header and rows, with `delimiter` between fields
    kUtf16Little,
    kUtf16Big,    // both behind a byte order mark
    kCompressed,  // in `compression`
    kOther,       // none of these
  };
  Form form = Form::kText;
  Compression compression = Compression::kGzip;
  char delimiter = ',';
  std::string looks_like = {};  // of kOther: "a Parquet file"
  std::string help = {};        // and what to do
};

namespace {

using Form = TextKind::Form;

struct Signature {
  size_t at;
  std::string_view bytes;
  const char* looks_like;
  const char* help;
};

constexpr char kUnpack[] = "unpack it, and give the directory with the files";
constexpr char kNoTextIn[] = "remove it";
constexpr char kTokens[] =
    "a directory of token files can be used directly: folio train --data DIR";

// Formats that often lie beside texts. Any other file with zero bytes is binary data.
constexpr std::array kSignatures = {
    Signature{0, "PK\3\4", "a zip archive", kUnpack},
    Signature{0, "PK\5\6", "an empty zip archive", kNoTextIn},
    Signature{256, {"\0ustar", 6}, "a tar archive", kUnpack},
    Signature{0, "7z\xBC\xAF\x27\x1C", "a 7z archive", kUnpack},
    Signature{0, "Rar!\x1A\x07", "a rar archive", kUnpack},
    Signature{0, "\x04\x22\x4D\x18", "an lz4 stream", "decompress it first"},
    Signature{0, "PAR1", "a Parquet file",
              "convert its text column to JSON lines, for example with DuckDB: COPY (SELECT text "
              "FROM 'x.parquet') TO 'x.jsonl'"},
    Signature{0, {"ARROW1\0", 7}, "an Arrow file", "convert its texts to JSON lines"},
    Signature{0, "%PDF-", "a PDF document", "extract its text: pdftotext x.pdf x.txt"},
    Signature{0, "{\\rtf", "a rich text document", "save it as plain text"},
    Signature{0, "\xD0\xCF\x11\xE0", "an old Office document", "save it as plain text"},
    Signature{0, "\x89PNG", "a PNG image", kNoTextIn},
    Signature{0, "\xFF\xD8\xFF", "a JPEG image", kNoTextIn},
    Signature{0, "GIF89a", "a GIF image", kNoTextIn},
    Signature{0, "\x7F\x45LF", "a program (ELF)", kNoTextIn},
    Signature{0, "\x93NUMPY", "a NumPy array", kNoTextIn},
    Signature{0, {"GGUF\3\0", 6}, "a GGUF model", kNoTextIn},
    Signature{
        0, {"SQLite format 3\0", 16}, "an SQLite database", "convert its texts to JSON lines"},
    Signature{0, "\x88\xD8\x34\x01", "a file of llm.c's tokens", kTokens},
    Signature{0, "\x61\xD9\x34\x01", "a file of llm.c's tokens", kTokens},
};

TextKind Other(std::string looks_like, std::string help) {
  return {.form = Form::kOther, .looks_like = std::move(looks_like), .help = std::move(help)};
}

// A safetensors file begins with a little-endian length of 8 bytes, below 100 MB, and an object.
bool IsSafetensors(std::string_view head) {
  return head.size() > 9 && head[8] == '{' && (head[9] == '"' || head[9] == ' ') &&
         head.substr(4, 4) == std::string_view("\0\0\0\0", 4);
}

// A pickle begins with two bytes of protocol, and a frame or an opcode that begins a container.
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
  return Other("binary data", "remove it, or read it as plain bytes: --tokenizer bytes --raw");
}

// Single invalid bytes do no harm; a text in which more than one in a hundred characters is invalid
// has another encoding.
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
               "if it is text, convert it from its encoding: iconv -f ISO-8859-1 -t UTF-8 FILE; or "
               "read it as plain bytes: --tokenizer bytes --raw");
}

std::string_view FirstLine(std::string_view text) {
  return text.substr(0, text.find('\n'));
}

// Null if the line is not JSON, which is an error only when it is read as data.
Json ValueOf(std::string_view line) {
  try {
    return ParseDataLine(line, "line");
  } catch (const Error&) {
    return nullptr;
  }
}

// Returns true if a line is a whole conversation. The messages of an array over several lines are
// not conversations by themselves.
bool IsListOfMessages(std::string_view line) {
  const Json value = ValueOf(line);
  return value.is_array() && IsConversation(value);
}

// Returns the end of the string that `text` begins with, or npos.
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

// Returns true if `text` begins with an object's brace, key and colon, or with an array of objects,
// of strings, or of arrays of these, as prose never does. `cut`: more text follows.
bool BeginsLikeJson(std::string_view text, bool cut) {
  const bool array = text.starts_with('[');
  if (array) text = WithoutSpaces(text.substr(1));
  if (array && text.starts_with('[')) text = WithoutSpaces(text.substr(1));
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
  if (head[0] == '{' && (!whole || ValueOf(line).is_object())) return Form::kJsonLines;
  if (head[0] == '[' && whole && IsListOfMessages(line)) return Form::kJsonLines;
  return Form::kJson;
}

// Reads `from` through a filter: a class with Convert(piece, out) and Finish(out).
template <class Filter>
ReadBytes Filtered(ReadBytes from, Filter filter) {
  static constexpr size_t kPiece = size_t{1} << 16;
  struct State {
    ReadBytes from;
    Filter filter;
    std::string piece = {}, made = {};
    size_t given = 0;
    bool at_end = false;
  };
  auto state = std::make_shared<State>(State{std::move(from), std::move(filter)});
  return [state](std::string& out, size_t wanted) {
    State& s = *state;
    while (s.given == s.made.size() && !s.at_end) {
      s.made.clear();
      s.piece.clear();
      s.given = 0;
      s.at_end = s.from(s.piece, kPiece) == 0;
      s.at_end ? s.filter.Finish(s.made) : s.filter.Convert(s.piece, s.made);
    }
    const size_t n = std::min(wanted, s.made.size() - s.given);
    out.append(s.made, s.given, n);
    s.given += n;
    return n;
  };
}

// UTF-16, behind its byte order mark, as UTF-8. Throws a kInput Error for half a character.
class Utf16Filter {
 public:
  Utf16Filter(bool big_endian, std::string name)
      : big_endian_(big_endian), name_(std::move(name)) {}

  void Convert(std::string_view piece, std::string& out) {
    for (const char c : piece) {
      const auto byte = static_cast<uint8_t>(c);
      ++bytes_;
      if (bytes_ % 2 == 1) {
        first_ = byte;
        continue;
      }
      Add(big_endian_ ? char32_t{first_} << 8 | byte : char32_t{byte} << 8 | first_, out);
    }
  }

  void Finish(std::string& /*out*/) const {
    if (bytes_ % 2 == 1) throw Bad("it ends in the middle of a character");
    if (high_ != 0) throw Bad("it ends in the middle of a surrogate pair");
  }

 private:
  void Add(char32_t unit, std::string& out) {
    const bool low = unit >= 0xDC00 && unit < 0xE000;
    if (low != (high_ != 0)) {
      throw Bad(fmt::format("unpaired surrogate before byte {}", bytes_));
    }
    if (unit >= 0xD800 && unit < 0xDC00) {
      high_ = unit;
    } else if (low) {
      AppendUtf8(0x10000 + ((std::exchange(high_, 0) - 0xD800) << 10) + (unit - 0xDC00), out);
    } else {
      AppendUtf8(unit, out);
    }
  }

  Error Bad(std::string cause) const {
    return InputError(fmt::format("{}: not valid UTF-16", name_), std::move(cause),
                      "correct the file, or copy it again if it may be damaged");
  }

  bool big_endian_;
  std::string name_;
  int64_t bytes_ = 0;
  uint8_t first_ = 0;  // of the two bytes of a unit
  char32_t high_ = 0;  // the first half of a pair, 0 if there is none
};

// Writes the elements of one JSON array, or consecutive JSON values, as one line each; an element
// that is a string becomes the `field` of an object. Never holds a whole value in memory, and does
// not check the values: throws a kInput Error only if one does not end, or if something else is
// between them.
class JsonFilter {
 public:
  JsonFilter(const std::string& field, std::string name)
      : before_string_("{" + Json(field).dump() + ":"), name_(std::move(name)) {}

  void Convert(std::string_view piece, std::string& out) {
    for (const char c : piece) {
      if (inside_ == Inside::kString) {
        InString(c, out);
      } else if (inside_ == Inside::kNothing) {
        Between(c, out);
      } else {
        InValue(c, out);
      }
    }
  }

  void Finish(std::string& out) {
    if (inside_ == Inside::kScalar) End(out);
    if (inside_ != Inside::kNothing) throw Bad("it ends inside a value");
    if (array_ && !closed_) throw Bad("the array is not closed");
  }

 private:
  enum class Inside { kNothing, kScalar, kContainer, kString };

  static bool IsSpace(char c) { return kSpaces.find(c) != kSpaces.npos; }

  void Between(char c, std::string& out) {
    if (IsSpace(c)) return;
    if (!begun_ && c == '[') {
      begun_ = array_ = true;
      return;
    }
    begun_ = true;
    if (array_) {
      if (closed_) throw Bad("unexpected text after the array");
      if (c == ']' && (values_ == 0 || !comma_)) {
        closed_ = true;
        return;
      }
      if (c == ',' && values_ > 0 && !comma_) {
        comma_ = true;
        return;
      }
      if (values_ > 0 && !std::exchange(comma_, false)) throw Bad("expected ',' or ']'");
    }
    Begin(c, out);
  }

  void Begin(char c, std::string& out) {
    if (c == ']' || c == '}' || c == ',' || c == ':') throw Bad("expected a value");
    ++values_;
    depth_ = 0;
    wrapped_ = array_ && c == '"';
    if (wrapped_) out += before_string_;
    inside_ = c == '{' || c == '[' ? Inside::kContainer : Inside::kScalar;
    InValue(c, out);
  }

  void InValue(char c, std::string& out) {
    if (inside_ == Inside::kScalar && (IsSpace(c) || c == ',' || c == ']')) {
      End(out);
      Between(c, out);
      return;
    }
    out += c == '\n' || c == '\r' ? ' ' : c;
    if (c == '"') inside_ = Inside::kString;
    if (c == '{' || c == '[') ++depth_;
    if ((c == '}' || c == ']') && --depth_ == 0) End(out);
  }

  void InString(char c, std::string& out) {
    // A raw line break is invalid in a JSON string: reading the line as data reports it.
    out += c == '\n' || c == '\r' ? '\t' : c;
    if (std::exchange(escaped_, c == '\\' && !escaped_) || c != '"') return;
    if (depth_ > 0) {
      inside_ = Inside::kContainer;
    } else {
      End(out);
    }
  }

  void End(std::string& out) {
    out += wrapped_ ? "}\n" : "\n";
    inside_ = Inside::kNothing;
  }

  Error Bad(const std::string& cause) const {
    return InputError(fmt::format("{}: not valid JSON", name_),
                      values_ == 0 ? cause : fmt::format("value {}: {}", values_, cause),
                      "expected one object per line, or one array of objects or strings");
  }

  std::string before_string_, name_;
  bool begun_ = false, array_ = false, closed_ = false, comma_ = false;
  int64_t values_ = 0;  // that have begun
  Inside inside_ = Inside::kNothing;
  bool wrapped_ = false, escaped_ = false;
  int64_t depth_ = 0;
};

// Returns a kOther if bytes from the middle of a text show that it is something else.
std::optional<TextKind> NoText(std::string_view sample) {
  // Both ends may be inside a character.
  while (!sample.empty() && !BeginsCharacter(sample[0])) sample.remove_prefix(1);
  if (std::optional<TextKind> other = ByZeroBytes(sample)) return other;
  return ByEncoding(sample);
}

// Recognises a text by its first kTextHead bytes, or all of them if there are fewer. If the file is
// not named for JSON lines (`lines_by_name`), its first line must be an object. Tables are
// recognised only by their files' names.
TextKind RecogniseText(std::string_view head, bool lines_by_name, bool table_by_name) {
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
  if (table_by_name) return {.form = Form::kTable, .delimiter = FindDelimiter(head)};
  return {.form = TextOrJson(head, lines_by_name)};
}

// The ending of a file's name in lower case, before that of a compression.
std::string EndingOf(const std::string& path) {
  std::filesystem::path name(path);
  const auto ending = [&] { return LowerAscii(name.extension().string()); };
  for (const char* packed : {".gz", ".bz2", ".xz", ".zst"}) {
    if (ending() == packed) {
      name = name.stem();
      break;
    }
  }
  return ending();
}

}  // namespace

bool NamedForJsonLines(const std::string& path) {
  const std::string ending = EndingOf(path);
  return ending == ".jsonl" || ending == ".ndjson";
}

bool NamedForTables(const std::string& path) {
  const std::string ending = EndingOf(path);
  return ending == ".csv" || ending == ".tsv";
}

NotText::NotText(const std::string& name, const TextKind& kind)
    : Error(ErrorKind::kInput, fmt::format("{}: not a text", name),
            fmt::format("it looks like {}", kind.looks_like), kind.help),
      looks_like_(kind.looks_like) {}

TextStream::TextStream(const std::string& path, const TextOptions& options, std::string name)
    : name_(std::move(name)),
      options_(options),
      lines_by_name_(NamedForJsonLines(path)),
      table_by_name_(NamedForTables(path)) {
  input_ = std::make_shared<ByteInput>(path);
  if (name_.empty()) name_ = input_->name();
  read_ = [input = input_, taken = taken_](std::string& out, size_t wanted) {
    const size_t got = input->Read(out, wanted);
    *taken += static_cast<int64_t>(got);
    return got;
  };
  if (options_.raw) return;
  Peel();
  if (form_.json_lines) LookForConversation();
}

// The first line decides whether all lines are conversations.
void TextStream::LookForConversation() {
  while (!head_ended_ && FirstLine().empty() && std::ssize(head_) < kLongestLine) {
    head_ended_ = read_(head_, head_.size()) == 0;
  }
  const std::string_view line = FirstLine();
  if (line.empty()) return;
  const Json first = ValueOf(line);
  if (!IsConversation(first) || (!options_.field.empty() && first.contains(options_.field))) return;
  form_.conversations = true;
  const Json* text = first.find(options_.document());
  if (text == nullptr || !text->is_string()) return;
  form_.choice = fmt::format(
      "training on the conversations in {}; \"{}\" is ignored, --field {} uses it instead",
      NameConversationShape(first), options_.document(), options_.document());
}

void TextStream::Peel() {
  constexpr int kMostLayers = 3;  // a text is never compressed more often
  for (int layer = 0; layer < kMostLayers; ++layer) {
    Peek();
    const TextKind kind = RecogniseText(head_, lines_by_name_, table_by_name_);
    if (kind.form == Form::kOther) throw NotText(name_, kind);
    form_.json_lines = kind.form == Form::kJsonLines;
    if (kind.form == Form::kText || kind.form == Form::kJsonLines) {
      mark_ = head_.starts_with(kByteOrderMark);
      if (mark_) given_ = kByteOrderMark.size();
      return;
    }
    Convert(kind);
    if (kind.form == Form::kJson || kind.form == Form::kTable) {
      form_.json_lines = true;
      form_.unit = kind.form == Form::kJson ? LineUnit::kValue : LineUnit::kRow;
      Peek();
      return;
    }
  }
  throw NotText(name_, {.looks_like = "a file that was compressed several times",
                        .help = "decompress it first"});
}

void TextStream::Peek() {
  head_ended_ = false;
  while (!head_ended_ && head_.size() < kTextHead) {
    head_ended_ = read_(head_, kTextHead - head_.size()) == 0;
  }
}

// Reads from the beginning again, through the decompressor or filter for `kind`.
void TextStream::Convert(const TextKind& kind) {
  const bool utf16 = kind.form == Form::kUtf16Little || kind.form == Form::kUtf16Big;
  size_t skip = utf16 ? 2 : 0;
  const bool filtered = kind.form == Form::kJson || kind.form == Form::kTable;
  if (filtered && head_.starts_with(kByteOrderMark)) skip = kByteOrderMark.size();
  ReadBytes from = [rest = std::exchange(head_, {}), at = skip, read = std::move(read_)](
                       std::string& out, size_t wanted) mutable {
    if (at == rest.size()) return read(out, wanted);
    const size_t n = std::min(wanted, rest.size() - at);
    out.append(rest, at, n);
    at += n;
    return n;
  };
  form_.converted = true;
  if (kind.form == Form::kCompressed) {
    read_ = Decompress(std::move(from), kind.compression, name_);
  } else if (utf16) {
    read_ = Filtered(std::move(from), Utf16Filter(kind.form == Form::kUtf16Big, name_));
  } else if (kind.form == Form::kTable) {
    read_ = Filtered(std::move(from), TableFilter(kind.delimiter, name_));
  } else {
    read_ = Filtered(std::move(from), JsonFilter(options_.document(), name_));
  }
}

std::string_view TextStream::FirstLine() const {
  std::string_view rest = std::string_view(head_).substr(given_);
  while (!rest.empty()) {
    const size_t end = rest.find('\n');
    if (end == rest.npos && !head_ended_) break;
    const std::string_view line = rest.substr(0, end);
    if (!IsBlankLine(line)) return line;
    rest.remove_prefix(end == rest.npos ? rest.size() : end + 1);
  }
  return {};
}

bool TextStream::begins_with_document() const {
  if (!form_.json_lines || form_.conversations) return true;
  const std::string_view line = FirstLine();
  if (line.empty()) return true;
  const Json value = ValueOf(line);
  const Json* document = value.find(options_.document());
  return document != nullptr && document->is_string();
}

size_t TextStream::Read(std::string& out, size_t wanted) {
  const size_t before = out.size();
  if (given_ < head_.size()) {
    out.append(head_, given_, wanted);
    given_ += out.size() - before;
    const bool long_line = given_ == head_.size() && given_ > kTextHead;
    if (long_line) head_ = {};  // the rest comes from read_
  } else {
    read_(out, wanted);
  }
  const std::string_view got = std::string_view(out).substr(before);
  made_ += std::ssize(got);
  if (form_.converted) RequireRatio();
  if (options_.raw || got.find('\0') == got.npos) return got.size();
  throw NotText(name_, *NoText(got));
}

void TextStream::RequireRatio() const {
  if (made_ <= kUnpackedBytes || made_ / kMostRatio <= *taken_) return;
  throw InputError(
      fmt::format("{}: decompressed, it is more than {} times as long", name_, kMostRatio),
      fmt::format("{} bytes of it have become {}; text does not compress so well", *taken_, made_),
      "check that it is the right file; if it is, decompress it first");
}

ByteInput TextStream::AsInput() {
  if (!form_.converted && !form_.json_lines && !mark_ && input_->again()) {
    input_->Rewind();
    return std::move(*input_);
  }
  return ByteInput::FromReader(
      [this](std::string& out, size_t wanted) { return Read(out, wanted); }, name_);
}

void CheckPlaces(const std::string& path, const std::string& name) {
  constexpr int kPlaces = 8;
  constexpr size_t kBytes = size_t{1} << 15;
  const internal::FileDescriptor fd = internal::OpenForReading(path);
  const off_t size = lseek(fd.get(), 0, SEEK_END);
  if (size < 0) internal::ThrowCannotRead(name, errno);
  std::string sample(kBytes, '\0');
  for (int place = 1; place <= kPlaces && size > static_cast<off_t>(kTextHead); ++place) {
    const off_t begin = std::max<off_t>(0, size / kPlaces * place - static_cast<off_t>(kBytes));
    const ssize_t got = pread(fd.get(), sample.data(), kBytes, begin);
    if (got < 0) internal::ThrowCannotRead(name, errno);
    const auto other = NoText(std::string_view(sample).substr(0, static_cast<size_t>(got)));
    if (other) throw NotText(name, *other);
  }
}

}  // namespace folio
