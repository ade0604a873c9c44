#include <fmt/format.h>

#include <utility>
#include <vector>

#include "folio/inspect/attention.h"
#include "folio/inspect/trace.h"
#include "folio/lesson/walk_parts.h"

namespace folio {
namespace {

// The walk of one head over a text.
class HeadWalk {
 public:
  HeadWalk(const Trace& trace, const ModelTokens& tokens, int64_t layer, int64_t head)
      : backend_(trace.backend()),
        causal_(trace.config().causal),
        tokens_(tokens),
        head_(trace.Head(layer, head)) {
    walk_.topic = "attention";
    walk_.title = fmt::format("Attention: layer {}, head {}", layer, head);
    walk_.intro = fmt::format(
        "One head of a trained model at work on {} tokens: what each token asks (its query), what "
        "each offers (its key), how well they match, and what is carried from one to the other.",
        head_.T);
  }

  Report Make() {
    Tokens();
    Projections();
    Scores();
    Weights();
    Habits();
    return std::move(walk_);
  }

 private:
  Matrix ByToken(const std::vector<float>& x, int64_t columns) const {
    return MatrixValues(StepTensor({head_.T, columns}, x).tensor(), {.rows = tokens_.labels});
  }
  Matrix ByTokens(const std::vector<float>& x) const {
    Matrix values = ByToken(x, head_.T);
    values.column_labels = tokens_.labels;
    values.row_axis = "query";
    values.column_axis = "key";
    return values;
  }
  // Without the keys that come after the query, if it cannot see them.
  Matrix Seen(const std::vector<float>& x) const {
    Matrix values = ByTokens(x);
    if (!causal_) return values;
    std::vector<uint8_t> allowed;
    for (int64_t t = 0; t < head_.T; ++t) {
      for (int64_t s = 0; s < head_.T; ++s) allowed.push_back(s <= t ? 1 : 0);
    }
    MarkMasked(values, allowed);
    return values;
  }
  void Tokens() {
    walk_.Add("tokens", "ids", IdValues(tokens_), "The text as the model sees it.",
              FigureKind::kNone);
  }

  void Projections() {
    walk_.Add("queries", "q = x W_q", ByToken(head_.q, head_.D),
              "What each token looks for, in this head's own D numbers.");
    walk_.Add("keys", "k = x W_k", ByToken(head_.k, head_.D), "What each token can be found by.");
    walk_.Add("values", "v = x W_v", ByToken(head_.v, head_.D),
              "What each token hands over when it is found.");
  }

  void Scores() {
    std::vector<float> scores(head_.scores.size());
    StepTensor q({head_.T, head_.D}, head_.q), k({head_.T, head_.D}, head_.k);
    const Tensor out(scores.data(), {head_.T, head_.T});
    backend_.Run(
        LinearForward{.x = q.tensor(), .weight = k.tensor(), .out = out, .transposed = true});
    walk_.Add("scores", "scores = q kᵀ", ByTokens(scores),
              "Each query with each key: large where what is looked for meets what is offered.");
    walk_.Add(
        "scaled", fmt::format("scores / √{}", head_.D), ByTokens(head_.scores),
        "Divided by the root of the width, so that softmax is given numbers of a moderate size.");
    if (!causal_) return;
    walk_.Add(
        "masked", "scores of later tokens are taken out", Seen(head_.scores),
        "A token may look back but not ahead: what comes next is what the model has to foretell.");
  }

  void Weights() {
    walk_.Add("weights", "weights = softmax over the keys", Seen(head_.weights),
              std::string("Shares of each query's attention: every row adds up to 1") +
                  (causal_ ? ", and the first token can only look at itself."
                           : "; this model may look ahead too."));
    walk_.Add("context", "context = weights v", ByToken(head_.context, head_.D),
              "Each token gets the mean of the values it attends to; the heads' contexts side by "
              "side go through c_proj into the stream.");
  }

  void Habits() {
    const HeadScores scores = ScoreHead(head_.weights, tokens_.ids);
    walk_.Add(
        "where it looks", "mean weight over the queries",
        RowValues({scores.first, scores.previous, scores.self, scores.duplicate, scores.induction},
                  {.columns = {"first", "previous", "itself", "same token", "after same"}}),
        head_.T > 1 ? Verdict(scores) : "A single token can only look at itself.",
        FigureKind::kBars);
    walk_.Add(
        "how widely", causal_ ? "−Σ w ln w,  Σ w (query − key)" : "−Σ w ln w,  Σ w |query − key|",
        Plain(RowValues({scores.entropy, scores.distance}, {.columns = {"entropy", "distance"}})),
        std::string("Entropy is in nats: 0 is one token only, ln n is n tokens alike; the distance "
                    "is how far ") +
            (causal_ ? "back it looks on the average." : "it looks on the average, either way."),
        FigureKind::kNone);
  }

  static std::string Verdict(const HeadScores& scores) {
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

  Backend& backend_;
  const bool causal_;
  const ModelTokens& tokens_;
  const HeadTrace head_;
  Report walk_ = {};
};

}  // namespace

Report ExplainAttention(Backend& backend, const LessonModel& model, std::string_view text,
                        int64_t layer, int64_t head) {
  RequireLayer(model.weights->config(), layer);
  RequireHead(model.weights->config(), head);
  const ModelTokens tokens = TokensOf(model, text);
  const Trace trace(backend, *model.weights, tokens.ids, {TracePoint::kQkv});
  return HeadWalk(trace, tokens, layer, head).Make();
}

}  // namespace folio
