#include "folio/term/streams.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cstring>
#include <exception>
#include <limits>
#include <utility>

#include "folio/base/error.h"
#include "folio/base/strings.h"
#include "folio/base/thread_pool.h"
#include "folio/base/utf8.h"
#include "folio/io/json.h"
#include "folio/text/encode_input.h"

namespace folio {
namespace {

constexpr size_t kHold = size_t{1} << 18;

static_assert(std::endian::native == std::endian::little, "raw ids are little-endian");

constexpr size_t kIdsAtOnce = size_t{1} << 14;

std::string Numbers(std::span<const int32_t> ids, char separator, bool first) {
  std::string text;
  text.reserve(ids.size() * 6);
  std::array<char, 12> digits;
  for (const int32_t id : ids) {
    if (!first) text += separator;
    first = false;
    text.append(digits.data(), std::to_chars(digits.data(), digits.data() + digits.size(), id).ptr);
  }
  return text;
}

std::string_view BytesOf(const auto& numbers) {
  return {reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(numbers.front())};
}

constexpr size_t kPiece = size_t{1} << 18;
constexpr size_t kLongestNumber = 100;  // including leading zeros
constexpr int64_t kLargestId = std::numeric_limits<int32_t>::max();
constexpr char kHowIdsLook[] = "expected ids separated by spaces or commas, or {\"ids\":[1,2]}";

bool IsSeparator(char c) {
  return c == ' ' || c == ',' || (c >= '\t' && c <= '\r');
}

// The text from `at` to the next separator, shortened for display.
std::string Shown(std::string_view text) {
  constexpr size_t kLongest = 24;
  const bool cut = text.size() > kLongest;
  return ReplaceInvalidUtf8(text.substr(0, kLongest)) + (cut ? "..." : "");
}

[[noreturn]] void ThrowNoId(const std::string& name, const TextPosition& position,
                            std::string_view word) {
  throw InputError(fmt::format("{}:{}:{}: not a token id", name, position.line, position.column),
                   fmt::format("'{}' is not a number from 0 to {}", Shown(word), kLargestId),
                   kHowIdsLook);
}

// Numbers between separators; `held` was read already. A number that may continue is held back.
void ReadNumbers(ByteInput& input, std::string held, const OnIds& on_ids) {
  TextPosition position;
  std::vector<int32_t> ids;
  for (bool at_end = false;;) {
    size_t at = 0;
    for (size_t end = 0;; at = end) {
      while (at < held.size() && IsSeparator(held[at])) ++at;
      end = at;
      while (end < held.size() && !IsSeparator(held[end])) ++end;
      const bool may_go_on = end == held.size() && !at_end && end - at < kLongestNumber;
      if (at == end || may_go_on) break;
      int32_t id = -1;
      const auto [stop, problem] = std::from_chars(&held[at], held.data() + end, id);
      if (problem != std::errc() || stop != held.data() + end || id < 0) {
        position.Advance(std::string_view(held).substr(0, at));
        ThrowNoId(input.name(), position, std::string_view(held).substr(at, end - at));
      }
      ids.push_back(id);
    }
    on_ids(ids);
    ids.clear();
    if (at_end) return;
    position.Advance(std::string_view(held).substr(0, at));
    held.erase(0, at);
    at_end = input.Read(held, std::max(kPiece, held.size())) == 0;
  }
}

// Reads the numbers of an array that is the whole value or its member "ids".
void ReadJsonIds(std::string_view text, const std::string& name, const OnIds& on_ids) {
  const auto refuse = [&](const std::string& cause) {
    throw InputError(fmt::format("{}: not a list of token ids", name), cause, kHowIdsLook);
  };
  JsonReader reader(text, {.name = name, .help = kHowIdsLook});
  std::vector<int32_t> ids;
  bool found = false;
  const auto read_array = [&] {
    if (reader.Peek() != '[') refuse("\"ids\" is not an array");
    found = true;
    reader.Array([&] {
      const Json id = reader.Value();
      if (!id.is_number_unsigned() || id.get<uint64_t>() > static_cast<uint64_t>(kLargestId)) {
        refuse(fmt::format("{} is not a number from 0 to {}", Shown(id.dump()), kLargestId));
      }
      ids.push_back(id.get<int32_t>());
      if (ids.size() < kIdsAtOnce) return;
      on_ids(ids);
      ids.clear();
    });
  };
  if (reader.Peek() == '[') {
    read_array();
  } else {
    reader.Object([&](const std::string& key) {
      if (key != "ids") return void(reader.Value());
      read_array();
    });
  }
  reader.ExpectEnd();
  if (!found) refuse("it has no array \"ids\"");
  on_ids(ids);
}

template <class Number>
void ReadRaw(ByteInput& input, const OnIds& on_ids) {
  std::string held;
  std::vector<int32_t> ids;
  std::vector<Number> numbers;
  uint64_t done = 0;
  while (input.Read(held, kPiece) > 0) {
    numbers.resize(held.size() / sizeof(Number));
    std::memcpy(numbers.data(), held.data(), numbers.size() * sizeof(Number));
    for (size_t i = 0; i < numbers.size(); ++i) {
      if (numbers[i] > static_cast<uint64_t>(kLargestId)) {
        throw InputError(fmt::format("{}: not token ids", input.name()),
                         fmt::format("value {} is {}, larger than any id", done + i, numbers[i]),
                         "check --format");
      }
    }
    ids.assign(numbers.begin(), numbers.end());
    on_ids(ids);
    done += numbers.size();
    held.erase(0, numbers.size() * sizeof(Number));
  }
  if (held.empty()) return;
  throw InputError(fmt::format("{}: not raw ids of {} bits", input.name(), 8 * sizeof(Number)),
                   fmt::format("its size is not a multiple of {} bytes", sizeof(Number)),
                   "check --format, or copy the file again");
}

constexpr size_t kLinesBytes = size_t{1} << 22;
constexpr size_t kGrain = size_t{1} << 16;  // bytes of lines that are one task

struct Line {
  std::string_view text;
  int64_t number = 0;
};

// Lines that one thread maps, and their results.
struct Task {
  size_t begin = 0;
  size_t end = 0;
  std::string out;
  std::exception_ptr problem;
};

void MapBatch(const std::vector<Line>& lines, ByteOutput& out, const MapLine& map) {
  std::vector<Task> tasks;
  for (size_t begin = 0; begin < lines.size();) {
    size_t end = begin, bytes = 0;
    while (end < lines.size() && bytes < kGrain) bytes += lines[end++].text.size();
    tasks.push_back({begin, end, {}, {}});
    begin = end;
  }
  ParallelFor(static_cast<int64_t>(tasks.size()), [&](int64_t t, int) {
    Task& task = tasks[static_cast<size_t>(t)];
    try {
      for (size_t i = task.begin; i < task.end; ++i) {
        task.out += map(lines[i].text, lines[i].number) + "\n";
      }
    } catch (...) {
      task.problem = std::current_exception();
    }
  });
  for (const Task& task : tasks) {
    out.Write(task.out);
    if (task.problem == nullptr) continue;
    out.Flush();
    std::rethrow_exception(task.problem);
  }
  out.Flush();
}

std::string LineName(const std::string& name, int64_t number) {
  return fmt::format("{}:{}", name, number);
}

// The object in a line.
Json ParseLine(std::string_view line, int64_t number, const std::string& name,
               const std::string& expected) {
  Json json = ParseJson(line, name, number);
  if (!json.is_object()) {
    throw InputError(fmt::format("{}: not a JSON object", LineName(name, number)), {},
                     "each line must be " + expected);
  }
  return json;
}

std::string FromHex(const std::string& digits, const std::string& where) {
  const bool good = digits.size() % 2 == 0 &&
                    std::ranges::all_of(digits, [](char c) { return HexDigit(c) >= 0; });
  if (!good) {
    throw InputError(fmt::format("{}: \"hex\" is not hexadecimal", where),
                     "expected two hexadecimal digits for each byte",
                     "for example {\"hex\":\"00ff\"}");
  }
  std::string bytes;
  bytes.reserve(digits.size() / 2);
  for (size_t i = 0; i < digits.size(); i += 2) {
    bytes += static_cast<char>(HexDigit(digits[i]) * 16 + HexDigit(digits[i + 1]));
  }
  return bytes;
}

constexpr char kTextLine[] = "{\"text\":\"...\"} or {\"hex\":\"...\"}";
constexpr char kIdsLine[] = "{\"ids\":[1,2]}";

std::string TextOfLine(const Json& json, const std::string& where) {
  const Json *text = json.find("text"), *hex = json.find("hex");
  const bool has_text = text != nullptr, has_hex = hex != nullptr;
  if (has_text == has_hex || !(has_text ? *text : *hex).is_string()) {
    throw InputError(fmt::format("{}: not valid input", where),
                     has_text && has_hex ? "it has both \"text\" and \"hex\""
                                         : "it has no string \"text\" or \"hex\"",
                     std::string("each line must be ") + kTextLine);
  }
  return has_text ? text->text() : FromHex(hex->text(), where);
}

std::vector<int32_t> IdsOfLine(const Json& json, const std::string& where) {
  const auto wrong = [&](const std::string& cause) {
    return InputError(fmt::format("{}: not valid input", where), cause,
                      std::string("each line must be ") + kIdsLine);
  };
  const Json* found = json.find("ids");
  if (found == nullptr || !found->is_array()) throw wrong("it has no array \"ids\"");
  std::vector<int32_t> ids;
  ids.reserve(found->size());
  for (const Json& id : *found) {
    if (!id.is_number_unsigned() || id.get<uint64_t>() > uint64_t{0x7FFFFFFF}) {
      throw wrong(fmt::format("{} is not a token id", id.dump()));
    }
    ids.push_back(id.get<int32_t>());
  }
  return ids;
}

}  // namespace

ByteOutput::ByteOutput(Console& console, const std::string& path) : console_(console) {
  if (!path.empty() && path != "-") file_ = std::make_unique<AtomicFile>(path);
}

ByteOutput::~ByteOutput() = default;

bool ByteOutput::to_terminal() const {
  return file_ == nullptr && isatty(STDOUT_FILENO) == 1;
}

void ByteOutput::Write(std::string_view bytes) {
  if (held_.size() + bytes.size() > kHold) Flush();
  if (bytes.size() > kHold && !to_terminal()) {
    Send(bytes);
  } else {
    held_ += bytes;
  }
}

void ByteOutput::Flush() {
  const size_t whole = to_terminal() ? CompleteUtf8Prefix(held_) : held_.size();
  Send(std::string_view(held_).substr(0, whole));
  held_.erase(0, whole);
}

void ByteOutput::Send(std::string_view bytes) {
  file_ != nullptr ? file_->Write(bytes) : console_.Bytes(bytes);
}

void ByteOutput::Finish() {
  Send(held_);
  held_.clear();
  if (file_ != nullptr) file_->Commit();
}

IdFormat IdFormatNamed(const std::string& name, const Tokenizer& tokenizer) {
  constexpr int64_t kU16Ids = int64_t{1} << 16;
  const bool fits = tokenizer.vocab_size() <= kU16Ids;
  if (name == "u16" && !fits) {
    throw UsageError("--format u16: the ids do not fit",
                     fmt::format("this tokenizer has ids up to {}, the limit of 16 bits is {}",
                                 tokenizer.vocab_size() - 1, kU16Ids - 1),
                     "use --format u32");
  }
  if (name == "u16" || (name == "bin" && fits)) return IdFormat::kU16;
  return name == "text" ? IdFormat::kText : IdFormat::kU32;
}

IdWriter::IdWriter(ByteOutput& out, IdFormat format) : out_(out), format_(format) {
  const bool raw = format == IdFormat::kU16 || format == IdFormat::kU32;
  if (raw && out.to_terminal()) {
    throw UsageError("raw ids cannot be written to a terminal", {},
                     "write them to a file: --out FILE");
  }
  if (format == IdFormat::kJson) out_.Write("{\"ids\":[");
}

void IdWriter::Write(std::span<const int32_t> ids) {
  for (size_t i = 0; i < ids.size(); i += kIdsAtOnce) {
    const auto some = ids.subspan(i, std::min(kIdsAtOnce, ids.size() - i));
    if (format_ == IdFormat::kU32) {
      out_.Write(BytesOf(some));
    } else if (format_ == IdFormat::kU16) {
      out_.Write(BytesOf(std::vector<uint16_t>(some.begin(), some.end())));
    } else {
      out_.Write(Numbers(some, format_ == IdFormat::kJson ? ',' : ' ', first_));
    }
    first_ = false;
  }
}

void IdWriter::Finish() {
  if (format_ == IdFormat::kJson) out_.Write("]}\n");
  if (format_ == IdFormat::kText) out_.Write("\n");
}

void BytesWriter::Write(std::span<const int32_t> ids) {
  for (size_t i = 0; i < ids.size(); i += kIdsAtOnce) {
    std::string bytes = tokenizer_.Decode(ids.subspan(i, std::min(kIdsAtOnce, ids.size() - i)));
    if (strip_ && bytes.starts_with(' ')) bytes.erase(0, 1);
    strip_ = strip_ && bytes.empty();
    if (replace_) {
      out_.Write(text_.Add(bytes));
    } else {
      out_.Write(bytes);
    }
  }
}

void ReadIds(ByteInput& input, IdFormat format, const OnIds& on_ids) {
  if (format == IdFormat::kU16) return ReadRaw<uint16_t>(input, on_ids);
  if (format == IdFormat::kU32) return ReadRaw<uint32_t>(input, on_ids);
  std::string held;
  size_t first = 0;
  while (first == held.size() && input.Read(held, kPiece) > 0) {
    while (first < held.size() && IsSeparator(held[first])) ++first;
  }
  if (first == held.size() || (held[first] != '{' && held[first] != '[')) {
    ReadNumbers(input, std::move(held), on_ids);
    return;
  }
  while (input.Read(held, std::max(kPiece, held.size())) > 0) {
  }
  ReadJsonIds(held, input.name(), on_ids);
}

std::string HexDigits(std::string_view bytes) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string digits;
  digits.reserve(bytes.size() * 2);
  for (const char c : bytes) {
    digits += kDigits[static_cast<unsigned char>(c) >> 4];
    digits += kDigits[static_cast<unsigned char>(c) & 15];
  }
  return digits;
}

std::string BytesJson(std::string_view bytes, JsonBytes how) {
  if (how == JsonBytes::kReplace) return Json{{"text", ReplaceInvalidUtf8(bytes)}}.dump();
  if (how == JsonBytes::kTextIfUtf8 && FindInvalidUtf8(bytes) == bytes.npos) {
    return Json{{"text", bytes}}.dump();
  }
  return Json{{"hex", HexDigits(bytes)}}.dump();
}

void MapLines(ByteInput& input, ByteOutput& out, const MapLine& map) {
  std::string held;
  int64_t number = 0;
  size_t seen = 0;  // bytes of held that are known to have no line break
  for (bool at_end = false; !at_end;) {
    at_end = input.Read(held, std::max(kLinesBytes, held.size())) == 0;
    const std::string_view text = held;
    std::vector<Line> lines;
    size_t begin = 0;
    for (size_t end = text.find('\n', seen); end != text.npos; end = text.find('\n', begin)) {
      lines.push_back({text.substr(begin, end - begin), ++number});
      begin = end + 1;
    }
    if (at_end && begin < text.size()) lines.push_back({text.substr(begin), ++number});
    MapBatch(lines, out, map);
    held.erase(0, begin);
    seen = held.size();
    RequireLineEnds(std::ssize(held), input.name());
  }
}

MapLine EncodeJsonLine(const Tokenizer& tokenizer, const SpecialRule& rule,
                       const std::string& name) {
  const SpecialFinder specials(tokenizer.special_tokens(), rule);
  return [&tokenizer, specials, name](std::string_view line, int64_t number) {
    const std::string where = LineName(name, number);
    const std::string text = TextOfLine(ParseLine(line, number, name, kTextLine), where);
    CheckSpecials(specials, text, where);
    std::vector<int32_t> ids;
    EncodeChunk(tokenizer, specials, text, /*at_end=*/true, where, ids);
    return fmt::format("{{\"ids\":[{}]}}", fmt::join(ids, ","));
  };
}

MapLine DecodeJsonLine(const Tokenizer& tokenizer, JsonBytes how, const std::string& name) {
  return [&tokenizer, how, name](std::string_view line, int64_t number) {
    const std::string where = LineName(name, number);
    const std::vector<int32_t> ids = IdsOfLine(ParseLine(line, number, name, kIdsLine), where);
    std::string bytes;
    try {
      bytes = tokenizer.Decode(ids);
      if (tokenizer.strips_space() && bytes.starts_with(' ')) bytes.erase(0, 1);
    } catch (const Error& error) {
      throw Error(error.kind(), fmt::format("{}: {}", where, error.what()), error.cause(),
                  error.help());
    }
    return BytesJson(bytes, how);
  };
}

}  // namespace folio
