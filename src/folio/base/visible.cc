#include "folio/base/visible.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "folio/base/utf8.h"

namespace folio {
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

// Length of the style at `at`, or 0: bold, dim, underlined, a few colours, one of 256 for letters
// or ground, and the end of all that.
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
    // Most of a text is ASCII that prints.
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
