#include "folio/term/token_streams.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cstring>
#include <istream>
#include <limits>
#include <streambuf>
#include <utility>
#include <vector>

#include "folio/base/error.h"
#include "folio/base/utf8.h"
#include "folio/io/json.h"

namespace folio {
namespace {

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
constexpr size_t kLongestNumber = 100;  // with zeros in front
constexpr int64_t kLargestId = std::numeric_limits<int32_t>::max();
constexpr char kHowIdsLook[] =
    "write ids as numbers between spaces or commas, or as {\"ids\":[1,2]}";

bool IsSeparator(char c) {
  return c == ' ' || c == ',' || (c >= '\t' && c <= '\r');
}

// The text from `at` to the next separator, cut where it gets too long to be shown.
std::string Shown(std::string_view text) {
  constexpr size_t kLongest = 24;
  const bool cut = text.size() > kLongest;
  return ReplaceInvalidUtf8(text.substr(0, kLongest)) + (cut ? "..." : "");
}

[[noreturn]] void ThrowNoId(const std::string& name, const TextPosition& position,
                            std::string_view word) {
  throw InputError(fmt::format("{}:{}:{}: not a token id", name, position.line, position.column),
                   fmt::format("'{}' is no number from 0 to {}", Shown(word), kLargestId),
                   kHowIdsLook);
}

// Numbers between separators; `held` was read already. A number that may go on in the next piece is
// held back.
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

// Takes the numbers of the array that is the whole value or its member "ids".
class IdsReader {
 public:
  IdsReader(std::string_view text, const std::string& name, const OnIds& on_ids)
      : reader_(text, {.name = name, .help = kHowIdsLook}), name_(name), on_ids_(on_ids) {}

  void Read() {
    bool found = false;
    if (reader_.Peek() == '[') {
      found = true;
      ReadArray();
    } else {
      reader_.Object([&](const std::string& key) {
        if (key != "ids") return void(reader_.Value());
        if (reader_.Peek() != '[') Throw("\"ids\" is no array");
        found = true;
        ReadArray();
      });
    }
    reader_.ExpectEnd();
    if (!found) Throw("there is no \"ids\" with an array");
    on_ids_(ids_);
  }

 private:
  void ReadArray() {
    reader_.Array([&] {
      const Json id = reader_.Value();
      if (!id.is_number_unsigned() || id.get<uint64_t>() > static_cast<uint64_t>(kLargestId)) {
        Throw(fmt::format("{} is no number from 0 to {}", Shown(id.dump()), kLargestId));
      }
      ids_.push_back(id.get<int32_t>());
      if (ids_.size() < kIdsAtOnce) return;
      on_ids_(ids_);
      ids_.clear();
    });
  }
  [[noreturn]] void Throw(const std::string& cause) const {
    throw InputError(fmt::format("{}: not a list of token ids", name_), cause, kHowIdsLook);
  }

  JsonReader reader_;
  const std::string& name_;
  const OnIds& on_ids_;
  std::vector<int32_t> ids_;
};

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
                         fmt::format("number {} is {}, larger than any id", done + i, numbers[i]),
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
                   fmt::format("its size is no multiple of {} bytes", sizeof(Number)),
                   "check --format, or copy the file again");
}

}  // namespace

IdFormat IdFormatNamed(const std::string& name, const Tokenizer& tokenizer) {
  constexpr int64_t kU16Ids = int64_t{1} << 16;
  const bool fits = tokenizer.vocab_size() <= kU16Ids;
  if (name == "u16" && !fits) {
    throw UsageError("--format u16: the ids do not fit",
                     fmt::format("this tokenizer has ids up to {}, and 16 bits end at {}",
                                 tokenizer.vocab_size() - 1, kU16Ids - 1),
                     "use --format u32");
  }
  if (name == "u16" || (name == "bin" && fits)) return IdFormat::kU16;
  return name == "text" ? IdFormat::kText : IdFormat::kU32;
}

IdWriter::IdWriter(ByteOutput& out, IdFormat format) : out_(out), format_(format) {
  const bool raw = format == IdFormat::kU16 || format == IdFormat::kU32;
  if (raw && out.to_terminal()) {
    throw UsageError("raw ids are not for a terminal", {}, "write them to a file: --out FILE");
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
    const std::string bytes =
        tokenizer_.Decode(ids.subspan(i, std::min(kIdsAtOnce, ids.size() - i)));
    if (replace_) {
      out_.Write(text_.Add(bytes));
    } else {
      out_.Write(bytes);
    }
  }
}

void BytesWriter::Finish() {
  out_.Write(text_.Flush());
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
  IdsReader(held, input.name(), on_ids).Read();
}

}  // namespace folio
