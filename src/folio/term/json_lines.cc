#include "folio/term/json_lines.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <vector>

#include "folio/base/error.h"
#include "folio/base/thread_pool.h"
#include "folio/base/utf8.h"
#include "folio/io/json.h"
#include "folio/term/encode_input.h"

namespace folio {
namespace {

constexpr size_t kLinesBytes = size_t{1} << 22;
constexpr size_t kGrain = size_t{1} << 16;  // bytes of lines that are one task

struct Line {
  std::string_view text;
  int64_t number = 0;
};

// Lines that one thread maps, and what came of them.
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

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

std::string FromHex(const std::string& digits, const std::string& where) {
  const bool good = digits.size() % 2 == 0 &&
                    std::ranges::all_of(digits, [](char c) { return HexDigit(c) >= 0; });
  if (!good) {
    throw InputError(fmt::format("{}: \"hex\" is not bytes", where),
                     "two hexadecimal digits for each byte were expected",
                     "write it as {\"hex\":\"00ff\"}");
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
    throw InputError(fmt::format("{}: not a line to encode", where),
                     has_text && has_hex ? "it has both \"text\" and \"hex\""
                                         : "there is no string \"text\" or \"hex\"",
                     std::string("each line must be ") + kTextLine);
  }
  return has_text ? text->text() : FromHex(hex->text(), where);
}

std::vector<int32_t> IdsOfLine(const Json& json, const std::string& where) {
  const auto wrong = [&](const std::string& cause) {
    return InputError(fmt::format("{}: not a line to decode", where), cause,
                      std::string("each line must be ") + kIdsLine);
  };
  const Json* found = json.find("ids");
  if (found == nullptr || !found->is_array()) throw wrong("there is no array \"ids\"");
  std::vector<int32_t> ids;
  ids.reserve(found->size());
  for (const Json& id : *found) {
    if (!id.is_number_unsigned() || id.get<uint64_t>() > uint64_t{0x7FFFFFFF}) {
      throw wrong(fmt::format("{} is no token id", id.dump()));
    }
    ids.push_back(id.get<int32_t>());
  }
  return ids;
}

}  // namespace

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
  size_t seen = 0;  // of held, without a line break
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
    RequireLineEnds(held, input.name());
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
    } catch (const Error& error) {
      throw Error(error.kind(), fmt::format("{}: {}", where, error.what()), error.cause(),
                  error.help());
    }
    return BytesJson(bytes, how);
  };
}

}  // namespace folio
