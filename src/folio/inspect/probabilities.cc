#include "folio/inspect/probabilities.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <utility>

#include "folio/eval/windows.h"
#include "folio/inspect/trace.h"
#include "folio/io/json.h"
#include "folio/plot/html.h"
#include "folio/plot/token_strip.h"
#include "folio/term/table.h"
#include "folio/term/terminal_text.h"

namespace folio {
namespace {

constexpr std::array<int64_t, kRankClasses - 1> kClassEnds = {1, 10, 100, 1000};

double ClassHeat(int rank_class) {
  return static_cast<double>(rank_class) / (kRankClasses - 1);
}

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
    const std::string shown = names.Shown(scores.text.ids[i]);
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

// Lists as many of the alternatives as the line has room for.
std::string Alternatives(const TokenScore& score, const TokenNames& names, int64_t room) {
  std::string list;
  for (const TokenProbability& one : score.top) {
    const std::string next =
        fmt::format("{}{} {:.2f}", list.empty() ? "" : "  ", names.Shown(one.id), one.probability);
    room -= DisplayWidth(next);
    if (room < 0) break;
    list += next;
  }
  return list;
}

TextTable ScoreTable(const TokenScores& scores, const TokenNames& names, const Terminal& terminal) {
  constexpr int64_t kOtherColumns = 42, kWide = 14;
  int64_t widest = 5;
  for (const int32_t id : scores.text.ids) {
    widest = std::max(widest, std::min(DisplayWidth(names.Shown(id)), kWide));
  }
  const int64_t room = terminal.is_terminal ? terminal.width - kOtherColumns - widest : 1000;
  TextTable table{
      .columns = {">pos", "token", ">prob", ">rank", ">surprise", ">entropy", "likeliest"}};
  table.rows = {
      {"0", FitColumns(terminal, names.Shown(scores.text.ids[0]), widest), "-", "-", "-", "-", ""}};
  for (size_t i = 0; i < scores.tokens.size(); ++i) {
    const TokenScore& score = scores.tokens[i];
    table.rows.push_back(
        {fmt::format("{}", i + 1), FitColumns(terminal, names.Shown(score.id), widest),
         Heated(terminal, score.probability, fmt::format("{:.4f}", score.probability)),
         fmt::format("{}", score.rank + 1), fmt::format("{:.2f}", score.surprise),
         fmt::format("{:.2f}", score.entropy), Alternatives(score, names, room)});
  }
  return table;
}

std::string Summary(const TokenScores& scores) {
  std::string text = fmt::format("perplexity  {:.3f}\n", std::exp(scores.surprise));
  text += fmt::format("surprise    {:.4f} nats a token\n", scores.surprise);
  text += fmt::format("entropy     {:.4f} nats a token\n", scores.entropy);
  if (scores.bits_per_byte > 0) text += fmt::format("bits/byte   {:.4f}\n", scores.bits_per_byte);
  text += "ranks      ";
  const std::vector<int64_t> counts = RankClasses(scores);
  const auto all = static_cast<double>(scores.tokens.size());
  for (int c = 0; c < kRankClasses; ++c) {
    const double share = static_cast<double>(counts[static_cast<size_t>(c)]) / all;
    text += fmt::format("{} {}: {:.0f}%", c > 0 ? "," : "", RankClassName(c), 100 * share);
  }
  return text + "\n";
}

}  // namespace

TokenScores ScoreTokens(const OpenedModel& model, ModelText text, int64_t top) {
  return ScoreTokens(*model.backend, *model.weights, model.tokenizer.get(), std::move(text), top);
}

TokenScores ScoreTokens(Backend& backend, const GptWeights& weights, const Tokenizer* tokenizer,
                        ModelText text, int64_t top) {
  const WindowShape shape = ChooseWindows(0, 0, weights.config().n_positions);
  FOLIO_CHECK(text.mask.empty() || std::ssize(text.ids) <= shape.context, "a mask of windows");
  TokenScores scores;
  for (const TextWindow& window : CutWindows(text.ids, shape)) {
    const Trace trace(backend, weights, window.ids, {TracePoint::kOutput}, text.mask);
    std::ranges::move(ScoreTokens(trace, window.first, window.targets, top),
                      std::back_inserter(scores.tokens));
  }
  scores.text = std::move(text);
  scores.vocab_size = weights.config().vocab_size;
  const TokenNames names(tokenizer);
  double bytes = 0;
  for (const TokenScore& score : scores.tokens) {
    scores.surprise += score.surprise;
    scores.entropy += score.entropy;
    bytes += static_cast<double>(names.Bytes(score.id).size());
  }
  if (bytes > 0) scores.bits_per_byte = scores.surprise / std::numbers::ln2 / bytes;
  scores.surprise /= static_cast<double>(scores.tokens.size());
  scores.entropy /= static_cast<double>(scores.tokens.size());
  return scores;
}

int RankClass(int64_t rank) {
  return static_cast<int>(std::ranges::upper_bound(kClassEnds, rank) - kClassEnds.begin());
}

std::string RankClassName(int rank_class) {
  const auto c = static_cast<size_t>(rank_class);
  if (c == 0) return "1";
  if (c == kClassEnds.size()) return fmt::format("{}-", kClassEnds.back() + 1);
  return fmt::format("{}-{}", kClassEnds[c - 1] + 1, kClassEnds[c]);
}

std::vector<int64_t> RankClasses(const TokenScores& scores) {
  std::vector<int64_t> counts(kRankClasses);
  for (const TokenScore& score : scores.tokens)
    ++counts[static_cast<size_t>(RankClass(score.rank))];
  return counts;
}

double TokenHeat(const TokenScores& scores, const TokenScore& score, const std::string& by) {
  double heat = ClassHeat(RankClass(score.rank));
  if (by == "probability") heat = 1 - score.probability;
  if (by == "entropy") {
    heat = score.entropy / std::log(static_cast<double>(std::max<int64_t>(scores.vocab_size, 2)));
  }
  return std::isfinite(heat) ? std::clamp(heat, 0.0, 1.0) : 1;
}

std::string TokenScoresTerminalText(const TokenScores& scores, const std::string& by,
                                    const TokenNames& names, const Terminal& terminal) {
  const TextTable table = ScoreTable(scores, names, terminal);
  std::string text = RenderTable(table) + "\n";
  if (terminal.color) text += Strip(scores, by, names, terminal) + "\n";
  return text + Summary(scores);
}

std::string TokenScoresJson(const TokenScores& scores, const TokenNames& names) {
  Json json = {{"schema", 1},
               {"left_out", scores.text.left_out},
               {"first", names.AsJson(scores.text.ids[0])},
               {"tokens", scores.text.ids.size()},
               {"perplexity", std::exp(scores.surprise)},
               {"surprise", scores.surprise},
               {"entropy", scores.entropy},
               {"bits_per_byte", nullptr},
               {"ranks", Json::object()},
               {"scores", Json::array()}};
  if (scores.bits_per_byte > 0) json["bits_per_byte"] = scores.bits_per_byte;
  const std::vector<int64_t> counts = RankClasses(scores);
  for (int c = 0; c < kRankClasses; ++c) {
    json["ranks"][RankClassName(c)] = counts[static_cast<size_t>(c)];
  }
  for (size_t i = 0; i < scores.tokens.size(); ++i) {
    const TokenScore& score = scores.tokens[i];
    Json entry = {{"position", i + 1}};
    entry.update(names.AsJson(score.id));
    entry["probability"] = score.probability;
    entry["surprise"] = score.surprise;
    entry["rank"] = score.rank + 1;
    entry["entropy"] = score.entropy;
    entry["top"] = Json::array();
    for (const TokenProbability& one : score.top) {
      Json other = names.AsJson(one.id);
      other["probability"] = one.probability;
      entry["top"].push_back(std::move(other));
    }
    json["scores"].push_back(std::move(entry));
  }
  return json.dump() + "\n";
}

std::string TokenScoresSvg(const TokenScores& scores, const std::string& by,
                           const TokenNames& names) {
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

std::string TokenScoresHtml(const TokenScores& scores, const std::string& by,
                            const TokenNames& names) {
  HtmlPage page("Probabilities");
  page.Heading(1, "How well the model foresaw each token");
  page.Paragraph(
      "For each token but the first: the probability that the model gave it after all before it, "
      "its rank (1 is the likeliest), its surprise (-ln probability) and the entropy of the "
      "prediction, in nats, and the likeliest tokens.");
  page.Figure(TokenScoresSvg(scores, by, names));
  page.Code(Summary(scores));
  const TextTable table = ScoreTable(scores, names, {});
  page.Table(table.columns, table.rows);
  return std::move(page).Finish();
}

}  // namespace folio
