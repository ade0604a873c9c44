#include "folio/base/utf8.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "folio/base/check.h"

namespace folio {
namespace {

// A first byte says how many bytes follow, and the range of the first of them. The others lie
// in [0x80, 0xBF].
struct Lead {
  int following;
  unsigned char low;
  unsigned char high;
};

Lead LeadOf(unsigned char byte) {
  if (byte >= 0xC2 && byte <= 0xDF) return {1, 0x80, 0xBF};
  if (byte == 0xE0) return {2, 0xA0, 0xBF};
  if (byte == 0xED) return {2, 0x80, 0x9F};
  if (byte >= 0xE1 && byte <= 0xEF) return {2, 0x80, 0xBF};
  if (byte == 0xF0) return {3, 0x90, 0xBF};
  if (byte >= 0xF1 && byte <= 0xF3) return {3, 0x80, 0xBF};
  if (byte == 0xF4) return {3, 0x80, 0x8F};
  return {0, 0, 0};
}

// Control and format characters, separators, surrogates, private use and what is not a character.
bool Prints(char32_t code) {
  if (code < 0x20 || (code >= 0x7F && code <= 0xA0) || code == 0xAD) return false;
  if (code >= 0x0300 && code <= 0x036F) return false;  // combines with the quote before it
  if ((code >= 0x2000 && code <= 0x200F) || (code >= 0x2028 && code <= 0x202F)) return false;
  if (code >= 0x205F && code <= 0x206F) return false;
  if (code >= 0xD800 && code <= 0xF8FF) return false;
  if ((code >= 0xFE00 && code <= 0xFE0F) || code == 0xFEFF || code >= 0xE0000) return false;
  return code != 0x3000 && !(code >= 0xFFF0 && code <= 0xFFFC) && (code & 0xFFFE) != 0xFFFE;
}

}  // namespace

Utf8Char DecodeUtf8(std::string_view text, size_t at) {
  FOLIO_CHECK(at < text.size(), "there is no character at the end of the text");
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(at);
  if (first < 0x80) return {first, 1, Utf8Status::kValid};
  const Lead lead = LeadOf(first);
  if (lead.following == 0) return {0xFFFD, 1, Utf8Status::kInvalid};
  char32_t code = first & (0x3F >> lead.following);
  for (int i = 1; i <= lead.following; ++i) {
    const size_t length = static_cast<size_t>(i);
    if (at + length >= text.size()) return {0xFFFD, length, Utf8Status::kIncomplete};
    const unsigned char next = byte(at + length);
    const unsigned char low = i == 1 ? lead.low : 0x80;
    const unsigned char high = i == 1 ? lead.high : 0xBF;
    if (next < low || next > high) return {0xFFFD, length, Utf8Status::kInvalid};
    code = code << 6 | (next & 0x3F);
  }
  return {code, static_cast<size_t>(lead.following) + 1, Utf8Status::kValid};
}

int64_t CountCharacters(std::string_view text) {
  constexpr size_t kBlock = 128;  // counted in a byte, so that the plain loops are vectorised
  int64_t count = 0;
  size_t at = 0;
  for (; at + kBlock <= text.size(); at += kBlock) {
    unsigned char block = 0;
    for (size_t i = 0; i < kBlock; ++i) {
      block = static_cast<unsigned char>(block + BeginsCharacter(text[at + i]));
    }
    count += block;
  }
  for (; at < text.size(); ++at) count += BeginsCharacter(text[at]);
  return count;
}

void AppendUtf8(char32_t code, std::string& out) {
  FOLIO_CHECK(code <= 0x10FFFF && !(code >= 0xD800 && code <= 0xDFFF), "not a Unicode scalar");
  const auto push = [&](char32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (code < 0x80) return push(code);
  int following = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
  push((0xFF00u >> (following + 1) & 0xFF) | code >> 6 * following);
  while (following-- > 0) push(0x80 | (code >> 6 * following & 0x3F));
}

size_t FindInvalidUtf8(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const Utf8Char c = DecodeUtf8(text, at);
    if (c.status != Utf8Status::kValid) return at;
    at += c.length;
  }
  return std::string_view::npos;
}

size_t CompleteUtf8Prefix(std::string_view text) {
  const size_t furthest = std::min<size_t>(3, text.size());
  for (size_t back = 1; back <= furthest; ++back) {
    const size_t at = text.size() - back;
    if (!BeginsCharacter(text[at])) continue;
    return DecodeUtf8(text, at).status == Utf8Status::kIncomplete &&
                   DecodeUtf8(text, at).length == back
               ? at
               : text.size();
  }
  return text.size();
}

std::string ReplaceInvalidUtf8(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const Utf8Char c = DecodeUtf8(text, at);
    AppendUtf8(c.code, out);
    at += c.length;
  }
  return out;
}

std::string QuoteChar(char32_t code) {
  std::string number = fmt::format("U+{:04X}", static_cast<uint32_t>(code));
  if (!Prints(code)) return number;
  std::string text = "'";
  AppendUtf8(code, text);
  return text + "' (" + number + ")";
}

void TextPosition::Advance(std::string_view piece) {
  byte += static_cast<int64_t>(piece.size());
  const int64_t breaks = std::count(piece.begin(), piece.end(), '\n');
  if (breaks > 0) {
    line += breaks;
    column = 1;
    piece.remove_prefix(piece.rfind('\n') + 1);
  }
  column += CountCharacters(piece);
}

namespace {

constexpr bool IsControl(char32_t code) {
  return code < 0x20 || (code >= 0x7F && code < 0xA0);
}

// Marks, embeddings, overrides and isolates.
constexpr bool TurnsDirection(char32_t code) {
  return code == 0x061C || code == 0x200E || code == 0x200F || (code >= 0x202A && code <= 0x202E) ||
         (code >= 0x2066 && code <= 0x2069);
}

// Length of the number at `at`, which goes to `value`, and of a ";" behind it.
size_t TakeNumber(std::string_view text, size_t at, int& value) {
  const char* const begin = text.data() + at;
  const auto [end, error] = std::from_chars(begin, text.data() + text.size(), value);
  if (error != std::errc() || *begin == '-') return 0;
  const auto length = static_cast<size_t>(end - begin);
  return length + (at + length < text.size() && text[at + length] == ';' ? 1 : 0);
}

// Length of the escape sequence at `at`, or 0: bold, dim, underlined, a few colours, one of 256
// colours for text or background, and the reset of all these.
size_t StyleLength(std::string_view text, size_t at) {
  constexpr int kPlain[] = {0, 1, 2, 4, 31, 33, 36};
  constexpr size_t kLongest = 32;
  if (!text.substr(at).starts_with("\x1b[")) return 0;
  const std::string_view rest = text.substr(at + 2, kLongest);
  const std::string_view codes = rest.substr(0, rest.find('m'));
  if (codes.empty() || codes.size() == rest.size() || codes.back() == ';') return 0;
  for (size_t i = 0; i < codes.size();) {
    int code = 0, five = 0, colour = 0;
    size_t length = TakeNumber(codes, i, code);
    if (length == 0) return 0;
    i += length;
    if (code == 38 || code == 48) {
      length = TakeNumber(codes, i, five);
      const size_t last = length == 0 ? 0 : TakeNumber(codes, i + length, colour);
      if (five != 5 || last == 0) return 0;
      i += length + last;
    } else if (std::ranges::find(kPlain, code) == std::end(kPlain)) {
      return 0;
    }
  }
  return 2 + codes.size() + 1;
}

}  // namespace

std::string Visible(std::string_view text, const VisibleRule& rule) {
  std::string visible;
  visible.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    // Most text is printable ASCII.
    const size_t begin = at;
    while (at < text.size() && text[at] >= 0x20 && text[at] < 0x7F) ++at;
    visible += text.substr(begin, at - begin);
    if (at == text.size()) break;
    const size_t style = rule.styles ? StyleLength(text, at) : 0;
    const Utf8Char one = DecodeUtf8(text, at);
    const size_t length = style > 0 ? style : one.length;
    const bool kept = style > 0 || (rule.lines && (one.code == U'\n' || one.code == U'\t'));
    if (one.status != Utf8Status::kValid) {
      for (const char byte : text.substr(at, length)) {
        visible += fmt::format("\\x{:02x}", static_cast<unsigned char>(byte));
      }
    } else if (kept || !(IsControl(one.code) || TurnsDirection(one.code))) {
      visible += text.substr(at, length);
    } else {
      visible += fmt::format("\\u{:04x}", static_cast<uint32_t>(one.code));
    }
    at += length;
  }
  return visible;
}

}  // namespace folio
