#include "folio/term/terminal_text.h"

#include <fmt/format.h>
#include <wchar.h>

#include <algorithm>
#include <array>
#include <clocale>
#include <cmath>
#include <iterator>
#include <limits>
#include <utility>

#include "folio/base/check.h"
#include "folio/base/strings.h"
#include "folio/base/utf8.h"

namespace folio {
namespace {

struct Spelling {
  char32_t code;
  std::string_view ascii;
};

constexpr Spelling kSpellings[] = {
    {U'ᵀ', "^T"},    {U'×', "x"},     {U'·', "*"},     {U'−', "-"},      {U'–', "-"},
    {U'—', "-"},     {U'∞', "inf"},   {U'Σ', "sum"},   {U'∑', "sum"},    {U'σ', "sigma"},
    {U'μ', "mu"},    {U'γ', "gamma"}, {U'β', "beta"},  {U'ε', "eps"},    {U'π', "pi"},
    {U'Φ', "Phi"},   {U'φ', "phi"},   {U'α', "alpha"}, {U'θ', "theta"},  {U'τ', "tau"},
    {U'Δ', "Delta"}, {U'≤', "<="},    {U'≥', ">="},    {U'≠', "!="},     {U'≈', "~"},
    {U'→', "->"},    {U'←', "<-"},    {U'∈', " in "},  {U'½', "1/2"},    {U'…', "..."},
    {U'“', "\""},    {U'”', "\""},    {U'‘', "'"},     {U'’', "'"},      {U'⊙', "*"},
    {U'⏎', "\\n"},   {U'⇥', "\\t"},   {U'⟨', "<"},     {U'⟩', ">"},      {U'└', "`"},
    {U'∪', " or "},  {U'∘', "*"},     {U'█', "#"},     {U'\u00A0', " "}, {U'⁻', "^-"},
    {U'ⁿ', "^n"},    {U'ⁱ', "^i"},    {U'ᵢ', "_i"},    {U'ⱼ', "_j"},     {U'ₖ', "_k"},
    {U'ₙ', "_n"},    {U'ₜ', "_t"},    {U'ₛ', "_s"},    {U'ₕ', "_h"},     {U'ₐ', "_a"},
    {U'ₑ', "_e"},    {U'ₒ', "_o"},    {U'ₚ', "_p"},    {U'ᵥ', "_v"},     {U'ₓ', "_x"},
    {U'²', "^2"},    {U'³', "^3"},    {U'¹', "^1"},
};

bool IsSubscriptDigit(char32_t code) {
  return code >= U'₀' && code <= U'₉';
}

// The letter or bracket behind a root sign, with its index: "√d", "√512", "√(D)".
bool IsRootOperand(char32_t code) {
  return (code < 0x80 && code != ' ' && code != ')' && code != ',') || IsSubscriptDigit(code) ||
         (code >= U'ₐ' && code <= U'ₜ') || code == U'ᵢ';
}

std::string AsciiChar(char32_t code) {
  if (code < 0x80) return {static_cast<char>(code)};
  if (IsSubscriptDigit(code)) return "_" + std::to_string(code - U'₀');
  if (code >= U'⁴' && code <= U'⁹') return "^" + std::to_string(code - U'⁰');
  const auto* found = std::ranges::find(kSpellings, code, &Spelling::code);
  return found == std::end(kSpellings) ? "?" : std::string(found->ascii);
}

// The C library's width in UTF-8; 1 for unknown characters, and if it does not support UTF-8.
int64_t CharWidth(char32_t code) {
  if (code < 0x80) return 1;
  static const locale_t kUtf8 = newlocale(LC_CTYPE_MASK, "C.UTF-8", nullptr);
  const locale_t before = kUtf8 == nullptr ? nullptr : uselocale(kUtf8);
  const int width = wcwidth(static_cast<wchar_t>(code));
  if (before != nullptr) uselocale(before);
  return width < 0 ? 1 : width;
}

// Colours have medium lightness, so that they have equal contrast to black and white pages, and
// larger values are more saturated on both: first coloured letters, then coloured backgrounds with
// black letters.
constexpr size_t kLevels = 7, kLetters = 2;
constexpr std::array<int, kLevels> kPositive = {67, 33, 103, 67, 68, 69, 33};
constexpr std::array<int, kLevels> kNegative = {137, 166, 138, 137, 173, 172, 202};

// Below this fraction of full heat the sign means "next to nothing".
constexpr double kFaintest = 0.05;

// Length of the colour escape at `at`, or 0.
size_t EscapeLength(std::string_view text, size_t at) {
  if (!text.substr(at).starts_with("\x1b[")) return 0;
  const size_t end = text.find('m', at);
  return end == std::string_view::npos ? 0 : end + 1 - at;
}

int64_t FirstLineWidth(const std::string& text) {
  return DisplayWidth(std::string_view(text).substr(0, text.find('\n')));
}

// Rows [begin, end) of a table as columns. Their names, in the first column, are cut if needed.
std::string Turned(const TextTable& table, size_t begin, size_t end, int width) {
  const int64_t longest = std::max(12, width / 2);
  std::vector<std::string> columns = {table.columns[0]};
  for (size_t r = begin; r < end; ++r) {
    columns.push_back(">" + TerminalLabel(table.rows[r][0], longest, /*utf8=*/true));
  }
  std::vector<std::vector<std::string>> rows;
  for (size_t c = 1; c < table.columns.size(); ++c) {
    const std::string& name = table.columns[c];
    rows.push_back({name.substr(name.starts_with('>') ? 1 : 0)});
    for (size_t r = begin; r < end; ++r) rows.back().push_back(table.rows[r][c]);
  }
  return RenderTable(columns, rows);
}

}  // namespace

std::string ToAscii(std::string_view text) {
  std::string ascii;
  bool root = false;  // inside "sqrt("
  for (size_t at = 0; at < text.size();) {
    const Utf8Char c = DecodeUtf8(text, at);
    at += c.length;
    if (root && !IsRootOperand(c.code)) {
      ascii += ')';
      root = false;
    }
    if (c.code == U'√') {
      const bool bracket = at < text.size() && text[at] == '(';
      root = !bracket && at < text.size() && IsRootOperand(DecodeUtf8(text, at).code);
      ascii += bracket ? "sqrt" : root ? "sqrt(" : "sqrt ";
    } else {
      ascii += AsciiChar(c.code);
    }
  }
  return root ? ascii + ")" : ascii;
}

int64_t DisplayWidth(std::string_view text) {
  int64_t width = 0;
  for (size_t at = 0; at < text.size();) {
    if (const size_t escape = EscapeLength(text, at)) {
      at += escape;
      continue;
    }
    const Utf8Char c = DecodeUtf8(text, at);
    width += CharWidth(c.code);
    at += c.length;
  }
  return width;
}

std::string TerminalLabel(std::string_view text, int64_t width, bool utf8) {
  std::string clean;
  for (size_t at = 0; at < text.size();) {
    const Utf8Char c = DecodeUtf8(text, at);
    const bool prints = c.status == Utf8Status::kValid && QuoteChar(c.code).starts_with('\'');
    // A middle dot in a label is a visible space.
    if (!prints) {
      clean += utf8 ? "\xEF\xBF\xBD" : "?";
    } else if (utf8) {
      clean += text.substr(at, c.length);
    } else {
      clean += c.code == U'·' ? "_" : AsciiChar(c.code);
    }
    at += c.length;
  }
  if (DisplayWidth(clean) <= width) return clean;
  const std::string_view ellipsis = utf8 ? "…" : "~";
  std::string cut;
  for (size_t at = 0; at < clean.size();) {
    const Utf8Char c = DecodeUtf8(clean, at);
    if (DisplayWidth(cut) + CharWidth(c.code) > width - 1) break;
    cut += clean.substr(at, c.length);
    at += c.length;
  }
  return cut + std::string(ellipsis);
}

std::string PadLeft(std::string_view text, int64_t width) {
  const int64_t missing = std::max<int64_t>(0, width - DisplayWidth(text));
  return std::string(static_cast<size_t>(missing), ' ') + std::string(text);
}

std::string PadRight(std::string_view text, int64_t width) {
  const int64_t missing = std::max<int64_t>(0, width - DisplayWidth(text));
  return std::string(text) + std::string(static_cast<size_t>(missing), ' ');
}

std::vector<std::string> WrapLines(std::string_view text, int64_t width) {
  std::vector<std::string> lines;
  std::string line;
  for (const std::string& word : Split(text, ' ')) {
    if (word.empty()) continue;
    if (!line.empty() && DisplayWidth(line) + 1 + DisplayWidth(word) > width) {
      lines.push_back(std::exchange(line, ""));
    }
    line += (line.empty() ? "" : " ") + word;
  }
  if (!line.empty()) lines.push_back(line);
  return lines;
}

std::string Spelled(const Terminal& terminal, std::string_view text) {
  if (!AsciiOnly(terminal)) return std::string(text);
  return TerminalLabel(text, std::numeric_limits<int64_t>::max(), /*utf8=*/false);
}

std::string FitColumns(const Terminal& terminal, std::string_view text, int64_t width) {
  return PadRight(TerminalLabel(text, width, !AsciiOnly(terminal)), width);
}

std::string HeatColoured(std::string_view text, double value, double largest) {
  if (!std::isfinite(value) || largest <= 0) return std::string(text);
  const long level = std::lround(std::sqrt(std::abs(value) / largest) * static_cast<long>(kLevels));
  if (level == 0) return std::string(text);
  const auto place = std::min(static_cast<size_t>(level), kLevels) - 1;
  const int colour = value > 0 ? kPositive[place] : kNegative[place];
  if (place < kLetters) return fmt::format("\x1b[38;5;{}m{}\x1b[0m", colour, text);
  return fmt::format("\x1b[48;5;{};38;5;16m{}\x1b[0m", colour, text);
}

std::string Heated(const Terminal& terminal, double heat, std::string_view text) {
  if (!terminal.color) return std::string(text);
  const double share = std::clamp(heat, 0.0, 1.0);
  return HeatColoured(text, share * share, 1);  // which takes the square root
}

std::string_view ShadeSign(const Terminal& terminal, double heat) {
  constexpr std::array<std::string_view, 5> kBlocks = {"·", "░", "▒", "▓", "█"};
  constexpr std::array<std::string_view, 5> kSigns = {".", "-", "+", "*", "#"};
  size_t step = 0;
  if (heat >= kFaintest) step = 1 + static_cast<size_t>(std::min(heat * 4, 3.0));
  return AsciiOnly(terminal) ? kSigns[step] : kBlocks[step];
}

std::string RenderTable(const std::vector<std::string>& columns,
                        const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::string> titles;
  std::vector<bool> right;
  std::vector<int64_t> widths;
  std::vector<std::vector<std::string>> shown;
  for (const std::vector<std::string>& row : rows) {
    FOLIO_CHECK(row.size() == columns.size(), "a row has a cell for each column");
    std::vector<std::string>& cells = shown.emplace_back();
    for (const std::string& cell : row) {
      cells.push_back(Visible(cell, {.lines = false, .styles = true}));
    }
  }
  for (const std::string& column : columns) {
    right.push_back(column.starts_with('>'));
    titles.push_back(Visible(column.substr(right.back() ? 1 : 0), {.lines = false}));
    widths.push_back(DisplayWidth(titles.back()));
  }
  for (const std::vector<std::string>& row : shown) {
    for (size_t c = 0; c < row.size(); ++c) {
      widths[c] = std::max(widths[c], DisplayWidth(row[c]));
    }
  }
  std::string text;
  const auto add = [&](const std::vector<std::string>& row) {
    std::string line;
    for (size_t c = 0; c < row.size(); ++c) {
      if (c > 0) line += "  ";
      line += right[c] ? PadLeft(row[c], widths[c]) : PadRight(row[c], widths[c]);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  };
  add(titles);
  for (const std::vector<std::string>& row : shown) add(row);
  return text;
}

std::string RenderTableWithin(const TextTable& table, int width) {
  std::string text = RenderTable(table);
  if (FirstLineWidth(text) <= width) return text;
  std::string blocks;
  for (size_t begin = 0; begin < table.rows.size();) {
    size_t end = begin + 1;
    std::string block = Turned(table, begin, end, width);
    for (; end < table.rows.size(); ++end) {
      std::string wider = Turned(table, begin, end + 1, width);
      if (FirstLineWidth(wider) > width) break;
      block = std::move(wider);
    }
    blocks += (begin > 0 ? "\n" : "") + block;
    begin = end;
  }
  return blocks;
}

}  // namespace folio
