#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "folio/commands/inspect/inspect_reports.h"
#include "folio/io/json.h"
#include "folio/plot/token_strip.h"
#include "folio/term/terminal_text.h"

namespace folio {
namespace {

constexpr int64_t kWidestToken = 14;  // columns

// Black on the classes' colours, green, yellow, red and violet, none for the likeliest.
constexpr std::array<int, kRankClasses> kClassColours = {0, 71, 178, 203, 134};

std::string ClassColoured(int rank_class, std::string_view text) {
  if (rank_class == 0) return std::string(text);
  return fmt::format("\x1b[38;5;16;48;5;{}m{}\x1b[0m",
                     kClassColours[static_cast<size_t>(rank_class)], text);
}

// Underlined beyond the 10th, bold too beyond the 100th: the class can be told without its colour.
std::string Marked(int rank_class, const std::string& coloured) {
  const char* marks = rank_class >= 3 ? "\x1b[1;4m" : rank_class == 2 ? "\x1b[4m" : "";
  return *marks == '\0' ? coloured : marks + coloured + "\x1b[0m";
}

// The text in its colours, and what they mean.
std::string Strip(const TokenScores& scores, const std::string& by, const TokenNames& names,
                  const Terminal& terminal) {
  std::string strip;
  int64_t column = 0;
  for (size_t i = 0; i < scores.text.ids.size(); ++i) {
    const std::string shown = Spelled(terminal, names.Shown(scores.text.ids[i]));
    const int64_t width = DisplayWidth(shown);
    if (column > 0 && column + width > terminal.width) {
      strip += '\n';
      column = 0;
    }
    column += width;
    if (i == 0) {
      strip += Styled(terminal, Style::kDim, shown);
    } else {
      const TokenScore& score = scores.tokens[i - 1];
      const int c = RankClass(score.rank);
      strip += Marked(c, by == "rank" ? ClassColoured(c, shown)
                                      : Heated(terminal, TokenHeat(scores, score, by), shown));
    }
    if (names.Bytes(scores.text.ids[i]).ends_with('\n')) {
      strip += '\n';
      column = 0;
    }
  }
  strip += column > 0 ? "\n\n" : "\n";
  for (int c = 0; c < kRankClasses; ++c) {
    const std::string sample = " " + RankClassName(c) + " ";
    strip += (c == 0 ? "rank" : "") + std::string(" ") +
             Marked(c, by == "rank" ? ClassColoured(c, sample) : sample);
  }
  return strip + (by == "rank" ? "\n" : fmt::format(", colour: {}\n", by));
}

std::string Figure(const TokenScores& scores, const std::string& by, const TokenNames& names) {
  std::vector<StripToken> tokens;
  for (size_t i = 0; i < scores.text.ids.size(); ++i) {
    StripToken token{.text = names.Shown(scores.text.ids[i])};
    token.line_break = names.Bytes(scores.text.ids[i]).ends_with('\n');
    if (i > 0) {
      const TokenScore& score = scores.tokens[i - 1];
      token.heat = TokenHeat(scores, score, by);
      token.underline = std::min(RankClass(score.rank), 3);
      token.note = PercentText(score.probability);
    }
    tokens.push_back(std::move(token));
  }
  StripOptions options;
  options.title = fmt::format("{} tokens, perplexity {:.2f}", scores.text.ids.size(),
                              std::exp(scores.surprise));
  const std::string meaning = by == "rank"          ? "rank of the token"
                              : by == "probability" ? "improbable tokens"
                                                    : "entropy of the prediction";
  options.key =
      fmt::format("colour: {}; lines: rank 2-10, 11-100, beyond; below: probability", meaning);
  return TokenStripSvg(tokens, options);
}

std::vector<Cell> RowOf(size_t position, const TokenScore& score, const TokenNames& names) {
  std::vector<Cell> row = {{"position", ">pos", position}};
  std::ranges::move(TokenCells(names, score.id), std::back_inserter(row));
  const std::vector<Cell> numbers = {
      {"", "token", TerminalLabel(names.Shown(score.id), kWidestToken, /*utf8=*/true)},
      {"probability", ">prob", Value::Fixed(score.probability, 4).Heat(score.probability)},
      {"rank", ">rank", score.rank + 1},
      {"surprise", ">surprise", Value::Fixed(score.surprise, 2)},
      {"entropy", ">entropy", Value::Fixed(score.entropy, 2)},
      {"top", "likeliest", LikeliestTokens(names, score.top)}};
  row.insert(row.end(), numbers.begin(), numbers.end());
  return row;
}

// The first token, which nothing foresees: for people alone.
std::vector<Cell> FirstRow(int32_t id, const TokenNames& names) {
  return {{"", ">pos", 0},
          {"", "token", TerminalLabel(names.Shown(id), kWidestToken, /*utf8=*/true)},
          {"", ">prob", "-"},
          {"", ">rank", "-"},
          {"", ">surprise", "-"},
          {"", ">entropy", "-"},
          {"", "likeliest", ""}};
}

std::vector<Cell> MeansOf(const TokenScores& scores) {
  Value ranks({}, Json::object());
  const std::vector<int64_t> counts = RankClasses(scores);
  const auto all = static_cast<double>(scores.tokens.size());
  for (int c = 0; c < kRankClasses; ++c) {
    const int64_t count = counts[static_cast<size_t>(c)];
    ranks.text += fmt::format("{}{}: {:.0f}%", c > 0 ? ", " : "", RankClassName(c),
                              100 * static_cast<double>(count) / all);
    ranks.json[RankClassName(c)] = count;
  }
  const bool bytes = scores.bits_per_byte > 0;
  return {{"perplexity", "perplexity", Value::Fixed(std::exp(scores.surprise), 3)},
          {"surprise", "surprise", Value::Fixed(scores.surprise, 4).In(" nats/token")},
          {"entropy", "entropy", Value::Fixed(scores.entropy, 4).In(" nats/token")},
          {"bits_per_byte", bytes ? "bits/byte" : "",
           bytes ? Value::Fixed(scores.bits_per_byte, 4) : Value()},
          {"ranks", "ranks", std::move(ranks)}};
}

}  // namespace

std::vector<Cell> TokenCells(const TokenNames& names, int32_t id) {
  std::vector<Cell> cells;
  const Json token = names.AsJson(id);
  for (const auto& [key, value] : token.items()) cells.push_back({key, "", value});
  return cells;
}

Value LikeliestTokens(const TokenNames& names, std::span<const TokenProbability> tokens) {
  Value all;
  all.json = Json::array();
  for (const TokenProbability& one : tokens) {
    const std::string text = fmt::format("{} {:.3f}", names.Shown(one.id), one.probability);
    all.list.push_back(Value(text).Heat(one.probability));
    Json token = names.AsJson(one.id);
    token["probability"] = one.probability;
    all.json.push_back(std::move(token));
  }
  return all;
}

Report TokenScoresReport(const TokenScores& scores, const std::string& by,
                         const TokenNames& names) {
  Report report{.title = "How well the model predicts each token",
                .data = {{"left_out", scores.text.left_out},
                         {"first", names.AsJson(scores.text.ids[0])},
                         {"tokens", scores.text.ids.size()}}};
  report.parts.push_back(
      {.text = "For each token except the first: its probability given the tokens before it, its "
               "rank (1 is the likeliest), its surprise (-ln probability) and the entropy of the "
               "prediction, in nats, and the likeliest tokens.",
       .medium = Medium::kPage});
  report.parts.push_back({.drawing_name = "probabilities",
                          .drawing = [&scores, by, names] { return Figure(scores, by, names); },
                          .terminal =
                              [&scores, by, names](const Terminal& at) {
                                return at.color ? Strip(scores, by, names, at) : "";
                              }});
  ReportTable table{.key = "scores", .rows = {FirstRow(scores.text.ids[0], names)}};
  for (size_t i = 0; i < scores.tokens.size(); ++i) {
    table.rows.push_back(RowOf(i + 1, scores.tokens[i], names));
  }
  report.parts.push_back({.table = std::move(table)});
  report.parts.push_back({.facts = MeansOf(scores)});
  return report;
}

}  // namespace folio
