#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "folio/inspect/attention.h"
#include "folio/inspect/trace.h"
#include "folio/lesson/walk_parts.h"

namespace folio {
namespace {

// A description of what the head mostly does.
std::string Verdict(const HeadScores& scores) {
  struct Habit {
    double score;
    const char* says;
  };
  const Habit habits[] = {
      {scores.induction, "goes to what followed the same token earlier, where there is that"},
      {scores.duplicate, "goes to the same token earlier, where there is one"},
      {scores.previous, "goes to the token before"},
      {scores.self, "stays with the token itself"},
      {scores.first, "rests on the first token, which is where heads look that find nothing"}};
  const Habit* strongest = habits;
  for (const Habit& habit : habits) {
    if (habit.score > strongest->score) strongest = &habit;
  }
  if (strongest->score < 0.4) {
    return "No single habit: its attention is spread, and depends on more than on places.";
  }
  return fmt::format("On this text {:.0f} % of its attention {}.", 100 * strongest->score,
                     strongest->says);
}

// "norm(x W_q)" with rotary positions: how queries and keys are prepared.
std::string PreparedFormula(const GptConfig& config, int64_t layer, std::string_view product) {
  std::string formula(product);
  const bool turned = config.layer(layer).rotary.has_value();
  if (config.has_qk_norm() && !config.norm_after_rotary())
    formula = fmt::format("norm({})", formula);
  if (turned) formula = fmt::format("turned({})", formula);
  if (config.norm_after_rotary()) formula = fmt::format("norm({})", formula);
  return formula;
}

// The heads of queries that share keys and values with this one; "" if there is none.
std::string SharedWith(const GptConfig& config, int64_t head) {
  const HeadLayout heads = config.head_layout();
  const int64_t group = heads.query_heads / heads.kv_heads, first = head / group * group;
  if (group == 1) return {};
  return fmt::format(" Heads {} to {} share these: keys and values are of {} heads, queries of {}.",
                     first, first + group - 1, heads.kv_heads, heads.query_heads);
}

// 1 for the keys (T,T) that a query attends to in a layer.
std::vector<uint8_t> SeenKeys(const GptConfig& config, int64_t layer, int64_t T) {
  const int64_t window = config.layer(layer).window;
  std::vector<uint8_t> seen;
  for (int64_t q = 0; q < T; ++q) {
    for (int64_t k = 0; k < T; ++k) {
      seen.push_back((!config.causal || k <= q) && (window == 0 || q - k < window) ? 1 : 0);
    }
  }
  return seen;
}

}  // namespace

Report ExplainAttention(Backend& backend, const LessonModel& model, std::string_view text,
                        int64_t layer, int64_t number) {
  const GptConfig& config = model.weights->config();
  RequireLayer(config, layer);
  RequireHead(config, number);
  const ModelTokens tokens = TokensOf(model, text);
  const Trace trace(backend, *model.weights, tokens.ids, {TracePoint::kQkv});
  const HeadTrace head = trace.Head(layer, number);
  const int64_t T = head.T;
  const auto by_token = [&](const std::vector<float>& x) {
    return MakeMatrix({T, std::ssize(x) / T}, {x.begin(), x.end()}, {.rows = tokens.labels});
  };
  const auto by_tokens = [&](const std::vector<float>& x) {
    return MakeMatrix({T, T}, {x.begin(), x.end()},
                      {.rows = tokens.labels,
                       .columns = tokens.labels,
                       .row_axis = "query",
                       .column_axis = "key"});
  };
  // Without keys after the query, if it cannot attend to them.
  const auto seen = [&](const std::vector<float>& x) {
    Matrix values = by_tokens(x);
    MarkMasked(values, SeenKeys(config, layer, T));
    return values;
  };
  Report walk{.topic = "attention",
              .title = fmt::format("Attention: layer {}, head {}", layer, number),
              .intro = fmt::format("One head of a trained model at work on {} tokens: what each "
                                   "token asks (its query), what each offers (its key), how well "
                                   "they match, and what is carried from one to the other.",
                                   T)};
  walk.AddNumbers("tokens", "ids", IdValues(tokens), "The text as the model sees it.");
  walk.Add("queries", "q = " + PreparedFormula(config, layer, "x W_q"), by_token(head.q),
           config.layer(layer).rotary
               ? "What each token looks for, in this head's own D numbers, turned to the token's "
                 "place (folio explain rotary)."
               : "What each token looks for, in this head's own D numbers.");
  walk.Add("keys", "k = " + PreparedFormula(config, layer, "x W_k"), by_token(head.k),
           "What each token can be found by." + SharedWith(config, number));
  walk.Add("values", "v = x W_v", by_token(head.v), "What each token hands over when it is found.");

  std::vector<float> scores(head.scores.size());
  const StepTensor q({T, head.D}, head.q), k({T, head.D}, head.k);
  backend.Run(
      LinearForward{.x = q, .weight = k, .out = Tensor(scores.data(), {T, T}), .transposed = true});
  walk.Add("scores", "scores = q kᵀ", by_tokens(scores),
           "Each query with each key: large where what is looked for meets what is offered.");
  walk.Add(
      "scaled",
      config.scale_attn_weights && config.attention_scale == 0
          ? fmt::format("scores / √{}", head.D)
          : fmt::format("scores · {:.4g}", config.layer(layer).score_scale),
      by_tokens(head.scores),
      "Divided by the root of the width, so that softmax is given numbers of a moderate size.");
  std::vector<float> capped = head.scores;
  if (config.attention_cap > 0) {
    backend.Run(LogitCap{.x = Tensor(capped.data(), {T, T}), .cap = config.attention_cap});
    walk.Add("capped",
             fmt::format("{} tanh(scaled / {})", config.attention_cap, config.attention_cap),
             by_tokens(capped),
             "No score gets beyond the cap, so that no key can have all of the attention by being "
             "very large.");
  }
  const int64_t window = config.layer(layer).window;
  if (config.causal || window > 0) {
    walk.Add(
        "masked",
        window > 0 ? fmt::format("scores of later tokens are taken out, and of those {} or "
                                 "more back",
                                 window)
                   : std::string("scores of later tokens are taken out"),
        seen(capped),
        window > 0
            ? "A token may look back but not ahead, and in this layer not far: what is farther "
              "back reaches it through other layers."
            : "A token may look back but not ahead: what comes next is what the model has to "
              "foretell.");
  }
  walk.Add("weights", "weights = softmax over the keys", seen(head.weights),
           fmt::format("Shares of each query's attention: every row adds up to 1{}",
                       config.causal ? ", and the first token can only look at itself."
                                     : "; this model may look ahead too."));
  walk.Add("context", "context = weights v", by_token(head.context),
           "Each token gets the mean of the values it attends to; the heads' contexts side by side "
           "go through c_proj into the stream.");

  const HeadScores habits = ScoreHead(head.weights, tokens.ids);
  walk.Add(
      "where it looks", "mean weight over the queries",
      RowValues({habits.first, habits.previous, habits.self, habits.duplicate, habits.induction},
                {.columns = {"first", "previous", "itself", "same token", "after same"}}),
      T > 1 ? Verdict(habits) : "A single token can only look at itself.", FigureKind::kBars);
  walk.AddNumbers(
      "how widely",
      config.causal ? "−Σ w ln w,  Σ w (query − key)" : "−Σ w ln w,  Σ w |query − key|",
      Plain(RowValues({habits.entropy, habits.distance}, {.columns = {"entropy", "distance"}})),
      fmt::format("Entropy is in nats: 0 is one token only, ln n is n tokens alike; the distance "
                  "is how far {} on the average{}.",
                  config.causal ? "back it looks" : "it looks",
                  config.causal ? "" : ", either way"));
  return walk;
}

}  // namespace folio
