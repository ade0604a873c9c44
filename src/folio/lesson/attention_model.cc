#include <fmt/format.h>

#include <utility>
#include <vector>

#include "folio/inspect/attention.h"
#include "folio/inspect/trace.h"
#include "folio/lesson/attention_steps.h"
#include "folio/lesson/walk_parts.h"

namespace folio {
namespace {

// What the head does most, in words.
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
  // Without the keys that come after the query, if it cannot see them.
  const auto seen = [&](const std::vector<float>& x) {
    Matrix values = by_tokens(x);
    if (config.causal) MarkMasked(values, CausalMask(T));
    return values;
  };
  Report walk{.topic = "attention",
              .title = fmt::format("Attention: layer {}, head {}", layer, number),
              .intro = fmt::format("One head of a trained model at work on {} tokens: what each "
                                   "token asks (its query), what each offers (its key), how well "
                                   "they match, and what is carried from one to the other.",
                                   T)};
  walk.AddNumbers("tokens", "ids", IdValues(tokens), "The text as the model sees it.");
  walk.Add("queries", "q = x W_q", by_token(head.q),
           "What each token looks for, in this head's own D numbers.");
  walk.Add("keys", "k = x W_k", by_token(head.k), "What each token can be found by.");
  walk.Add("values", "v = x W_v", by_token(head.v), "What each token hands over when it is found.");

  std::vector<float> scores(head.scores.size());
  const StepTensor q({T, head.D}, head.q), k({T, head.D}, head.k);
  backend.Run(LinearForward{.x = q.tensor(),
                            .weight = k.tensor(),
                            .out = Tensor(scores.data(), {T, T}),
                            .transposed = true});
  walk.Add("scores", "scores = q kᵀ", by_tokens(scores),
           "Each query with each key: large where what is looked for meets what is offered.");
  walk.Add(
      "scaled", fmt::format("scores / √{}", head.D), by_tokens(head.scores),
      "Divided by the root of the width, so that softmax is given numbers of a moderate size.");
  if (config.causal) {
    walk.Add(
        "masked", "scores of later tokens are taken out", seen(head.scores),
        "A token may look back but not ahead: what comes next is what the model has to foretell.");
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
