#include "folio/lesson/explain_tokens.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "folio/base/utf8.h"
#include "folio/io/json.h"
#include "folio/term/streams.h"
#include "folio/term/terminal_text.h"
#include "folio/text/encodings.h"
#include "folio/text/split.h"

namespace folio {
namespace {

// "48 65 6C"
std::string HexBytes(std::string_view bytes, const char* prefix = "", const char* between = " ") {
  std::string text;
  for (const char byte : bytes) {
    if (!text.empty()) text += between;
    text += fmt::format("{}{:02X}", prefix, static_cast<unsigned char>(byte));
  }
  return text;
}

std::string EscapeChar(const Utf8Char& c, std::string_view bytes, bool ascii) {
  if (c.status != Utf8Status::kValid) return HexBytes(bytes, "\\x", "");
  if (c.code == '"' || c.code == '\\') return "\\" + std::string(bytes);
  if (c.code == '\n') return "\\n";
  if (c.code == '\r') return "\\r";
  if (c.code == '\t') return "\\t";
  const bool prints = QuoteChar(c.code).starts_with('\'');
  if (prints && (c.code < 0x80 || !ascii)) return std::string(bytes);
  return fmt::format("\\u{{{:X}}}", static_cast<uint32_t>(c.code));
}

// `bytes` in quotes, with unprintable characters and invalid UTF-8 escaped (\n,
// \u{200B}, \xFF); with `ascii` also everything beyond ASCII.
std::string QuoteBytes(std::string_view bytes, bool ascii) {
  std::string text = "\"";
  for (size_t at = 0; at < bytes.size();) {
    const Utf8Char c = DecodeUtf8(bytes, at);
    text += EscapeChar(c, bytes.substr(at, c.length), ascii);
    at += c.length;
  }
  return text + "\"";
}

std::string Remark(const ExplainedPretoken& pretoken) {
  if (pretoken.special) return "special token";
  if (pretoken.too_long) return fmt::format("{} bytes: too long to show", pretoken.bytes.size());
  return HexBytes(pretoken.bytes);
}

// The symbols after `step`, with the new one in bold.
std::string SymbolsAfter(const Tokenizer& tokenizer, const BpeTokenizer::MergeStep& step,
                         const Terminal& terminal, bool ascii) {
  std::string line;
  for (size_t i = 0; i < step.before.size(); ++i) {
    if (!line.empty()) line += ' ';
    if (i == step.at) {
      line += Styled(terminal, Style::kBold, QuoteBytes(tokenizer.TokenBytes(step.merged), ascii));
      ++i;
    } else {
      line += QuoteBytes(tokenizer.TokenBytes(step.before[i]), ascii);
    }
  }
  return line;
}

// The id of the longest token that is not special; the lowest of several.
int32_t LongestToken(const Tokenizer& tokenizer) {
  std::set<int32_t> special;
  for (const SpecialToken& token : tokenizer.special_tokens()) special.insert(token.id);
  int32_t longest = 0;
  size_t length = 0;
  for (int32_t id = 0; id < tokenizer.vocab_size(); ++id) {
    if (special.contains(id) || tokenizer.TokenBytes(id).size() <= length) continue;
    longest = id;
    length = tokenizer.TokenBytes(id).size();
  }
  return longest;
}

Json TokenJson(const Tokenizer& tokenizer, int32_t id) {
  const std::string_view bytes = tokenizer.TokenBytes(id);
  return {{"id", id}, {"text", ReplaceInvalidUtf8(bytes)}, {"hex", HexDigits(bytes)}};
}

}  // namespace

std::string RenderPretoken(const Tokenizer& tokenizer, const ExplainedPretoken& pretoken,
                           const Terminal& terminal) {
  const bool ascii = AsciiOnly(terminal);
  const std::string arrow = ascii || !terminal.utf8 ? "->" : "→";
  std::string text =
      fmt::format("{}  {}\n", Styled(terminal, Style::kBold, QuoteBytes(pretoken.bytes, ascii)),
                  Styled(terminal, Style::kDim, Remark(pretoken)));
  size_t width = 0;
  for (const auto& step : pretoken.merges) {
    width = std::max(width, QuoteBytes(tokenizer.TokenBytes(step.merged), ascii).size());
  }
  size_t number = 0;
  for (const auto& step : pretoken.merges) {
    const std::string merged = QuoteBytes(tokenizer.TokenBytes(step.merged), ascii);
    text += fmt::format("  {:>3}. rank {:>6}  {}{:{}}  {}\n", ++number, step.rank, merged, "",
                        width - merged.size(), SymbolsAfter(tokenizer, step, terminal, ascii));
  }
  text += fmt::format("  {}", arrow);
  for (const int32_t id : pretoken.ids) {
    text += fmt::format(" {} {}", Styled(terminal, Style::kHelp, fmt::format("{}", id)),
                        QuoteBytes(tokenizer.TokenBytes(id), ascii));
  }
  return text + "\n";
}

std::string PretokenJson(const ExplainedPretoken& pretoken) {
  Json json = {{"text", ReplaceInvalidUtf8(pretoken.bytes)}};
  auto& bytes = json["bytes"] = Json::array();
  for (const char byte : pretoken.bytes) bytes.push_back(static_cast<unsigned char>(byte));
  if (pretoken.special) json["special"] = true;
  if (pretoken.too_long) json["too_long"] = true;
  auto& merges = json["merges"] = Json::array();
  for (const auto& step : pretoken.merges) {
    merges.push_back({{"left", step.before[step.at]},
                      {"right", step.before[step.at + 1]},
                      {"merged", step.merged},
                      {"rank", step.rank}});
  }
  json["ids"] = pretoken.ids;
  return json.dump();
}

Report DescribeTokenizer(const Tokenizer& tokenizer, const std::string& spec, bool ascii) {
  std::vector<Cell> facts = {{"tokenizer", "", spec}};
  const auto* bpe = dynamic_cast<const BpeTokenizer*>(&tokenizer);
  if (bpe != nullptr) {
    const std::string& name = bpe->vocab().name;
    facts.push_back({"name", name.empty() ? "" : "name", name});
  }
  facts.push_back({"kind", "kind", tokenizer.kind()});
  facts.push_back({"vocab_size", "vocabulary", Value::Commas(tokenizer.vocab_size())});
  if (bpe != nullptr) {
    const std::string name(SplitPatternName(bpe->vocab().pattern));
    const std::string regex(SplitPatternRegex(bpe->vocab().pattern));
    facts.push_back({"merges", "merges", Value::Commas(std::ssize(bpe->vocab().merges))});
    facts.push_back({"pattern", "pattern", Value(fmt::format("{}: {}", name, regex), name)});
    facts.push_back({"pattern_regex", "", regex});
  }
  Json special = Json::array();
  for (const SpecialToken& token : tokenizer.special_tokens()) {
    special.push_back({{"text", token.text}, {"id", token.id}});
    facts.push_back({"", "special", fmt::format("{} {}", token.id, QuoteBytes(token.text, ascii))});
  }
  facts.push_back({"special_tokens", "", std::move(special)});
  const std::optional<int32_t> end = tokenizer.end_of_text();
  facts.push_back({"end_of_text", end ? "end of text" : "", end ? Value(*end) : Value()});
  const int32_t longest = LongestToken(tokenizer);
  const std::string_view bytes = tokenizer.TokenBytes(longest);
  facts.push_back(
      {"longest_token", "longest token",
       Value(fmt::format("{} {} ({} bytes)", longest, QuoteBytes(bytes, ascii), bytes.size()),
             TokenJson(tokenizer, longest))});
  facts.push_back({"hash", "hash", tokenizer.hash()});
  facts.push_back({"files", "", Json(TokenizerFiles(spec))});
  for (const std::string& file : TokenizerFiles(spec)) facts.push_back({"", "file", file});
  return {.title = "Tokenizer", .parts = {{.facts = std::move(facts)}}};
}

std::string DescribeTokens(const Tokenizer& tokenizer, const std::vector<int32_t>& ids, bool json,
                           bool ascii) {
  std::string lines;
  Json tokens = Json::array();
  for (const int32_t id : ids) {
    if (json) {
      tokens.push_back(TokenJson(tokenizer, id));
      continue;
    }
    const std::string_view bytes = tokenizer.TokenBytes(id);
    lines += fmt::format("{} {} ({} bytes: {})\n", id, QuoteBytes(bytes, ascii), bytes.size(),
                         HexBytes(bytes));
  }
  return json ? Json{{"schema", 1}, {"tokens", std::move(tokens)}}.dump() + "\n" : lines;
}

}  // namespace folio
