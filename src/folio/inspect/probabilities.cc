#include "folio/inspect/probabilities.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <numbers>
#include <utility>

#include "folio/base/thread_pool.h"
#include "folio/inspect/trace.h"
#include "folio/io/json.h"
#include "folio/model/layers/head.h"
#include "folio/plot/token_strip.h"
#include "folio/term/terminal_text.h"

namespace folio {
namespace {

// Scores of `targets`, each predicted by one of the rows from `first` on.
std::vector<TokenScore> ScoreTargets(const Trace& trace, int64_t first,
                                     std::span<const int32_t> targets, int64_t top) {
  const int64_t predictions = std::ssize(targets), V = trace.config().vocab_size;
  const Tensor stream = trace.Stream(trace.config().n_layer);
  std::vector<TokenScore> scores(static_cast<size_t>(predictions));
  const int64_t chunk = LossChunkRows(predictions, V);
  MemoryPlan plan;
  const MemoryPlan::Id id = plan.Add("logits", Dtype::kF32, {chunk, V});
  plan.Place();
  const Arena arena(plan);
  for (int64_t begin = 0; begin < predictions; begin += chunk) {
    const int64_t end = std::min(predictions, begin + chunk);
    const Tensor logits = arena.Get(plan, id).Slice(0, end - begin);
    trace.Logits(stream, first + begin, first + end, logits);
    ParallelFor(end - begin, [&](int64_t row, int) {
      const size_t t = static_cast<size_t>(begin + row);
      scores[t] = ScoreToken(Row(logits, row), targets[t], top);
    });
  }
  return scores;
}

constexpr int64_t kWidestToken = 14;  // columns

constexpr std::array<int64_t, kRankClasses - 1> kClassEnds = {1, 10, 100, 1000};

double ClassHeat(int rank_class) {
  return static_cast<double>(rank_class) / (kRankClasses - 1);
}

// Black text on the classes' colours, green, yellow, red and violet, none for the likeliest.
constexpr std::array<int, kRankClasses> kClassColours = {0, 71, 178, 203, 134};

std::string ClassColoured(int rank_class, std::string_view text) {
  if (rank_class == 0) return std::string(text);
  return fmt::format("\x1b[38;5;16;48;5;{}m{}\x1b[0m",
                     kClassColours[static_cast<size_t>(rank_class)], text);
}

// Underlined beyond the 10th, also bold beyond the 100th: the class is visible without colours.
std::string Marked(int rank_class, const std::string& coloured) {
  const char* marks = rank_class >= 3 ? "\x1b[1;4m" : rank_class == 2 ? "\x1b[4m" : "";
  return *marks == '\0' ? coloured : marks + coloured + "\x1b[0m";
}

// The text in its colours, and their meaning.
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
  std::ranges::move(names.Cells(score.id), std::back_inserter(row));
  const std::vector<Cell> numbers = {
      {"", "token", TerminalLabel(names.Shown(score.id), kWidestToken, /*utf8=*/true)},
      {"probability", ">prob", Value::Fixed(score.probability, 4).Heat(score.probability)},
      {"rank", ">rank", score.rank + 1},
      {"surprise", ">surprise", Value::Fixed(score.surprise, 2)},
      {"entropy", ">entropy", Value::Fixed(score.entropy, 2)},
      {"top", "likeliest", names.Likeliest(score.top)}};
  row.insert(row.end(), numbers.begin(), numbers.end());
  return row;
}

// The first token, which nothing predicts: only shown to people.
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

TokenScore ScoreToken(std::span<const float> logits, int32_t id, int64_t top) {
  const LogitSummary summary = Summarize(logits);
  const double log_probability = logits[static_cast<size_t>(id)] - summary.log_sum;
  return {.id = id,
          .probability = std::exp(log_probability),
          .surprise = -log_probability,
          .rank = RankOf(logits, id),
          .entropy = summary.entropy,
          .top = TopTokens(logits, top, summary.log_sum)};
}

TokenScores ScoreTokens(const OpenedModel& model, ModelText text, int64_t top) {
  return ScoreTokens(*model.backend, *model.weights, model.tokenizer.get(), std::move(text), top);
}

TokenScores ScoreTokens(Backend& backend, const GptWeights& weights, const Tokenizer* tokenizer,
                        ModelText text, int64_t top) {
  const int64_t n_positions = weights.config().n_positions;
  FOLIO_CHECK(text.mask.empty() || std::ssize(text.ids) <= n_positions, "a mask of windows");
  std::vector<TokenScore> scores;
  for (const TextWindow& window : ScoreWindows(text, n_positions, tokenizer)) {
    const Trace trace(backend, weights, window.ids, {TracePoint::kOutput}, text.mask);
    std::ranges::move(ScoreTargets(trace, window.first, window.targets, top),
                      std::back_inserter(scores));
  }
  return CollectScores(std::move(text), std::move(scores), weights.config().vocab_size, tokenizer);
}

std::vector<TextWindow> ScoreWindows(const ModelText& text, int64_t n_positions,
                                     const Tokenizer* tokenizer) {
  WindowShape shape = ChooseWindows(0, 0, n_positions);
  if (tokenizer != nullptr && BeginsWith(text.ids, tokenizer->before())) {
    shape.before = tokenizer->before();
  }
  return CutWindows(text.ids, shape);
}

TokenScores CollectScores(ModelText text, std::vector<TokenScore> tokens, int64_t vocab_size,
                          const Tokenizer* tokenizer) {
  TokenScores scores{
      .text = std::move(text), .tokens = std::move(tokens), .vocab_size = vocab_size};
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
