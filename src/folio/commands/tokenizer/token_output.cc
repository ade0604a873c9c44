#include "folio/commands/tokenizer/token_output.h"

#include <fmt/format.h>

#include <array>
#include <bit>
#include <charconv>
#include <utility>
#include <vector>

#include "folio/base/error.h"
#include "folio/text/utf8.h"

namespace folio {
namespace {

static_assert(std::endian::native == std::endian::little, "raw ids are little-endian");

constexpr int64_t kU16Ids = int64_t{1} << 16;
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

}  // namespace

IdFormat IdFormatNamed(const std::string& name, const Tokenizer& tokenizer) {
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
    if (!replace_) {
      out_.Write(bytes);
      continue;
    }
    held_ += bytes;
    const size_t complete = CompleteUtf8Prefix(held_);
    out_.Write(ReplaceInvalidUtf8(std::string_view(held_).substr(0, complete)));
    held_.erase(0, complete);
  }
}

void BytesWriter::Finish() {
  out_.Write(ReplaceInvalidUtf8(std::exchange(held_, {})));
}

}  // namespace folio
