#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "folio/backend/backend.h"
#include "folio/base/error.h"
#include "folio/base/rng.h"
#include "folio/base/strings.h"
#include "folio/lesson/attention_steps.h"
#include "folio/lesson/lessons.h"
#include "folio/lesson/walk_parts.h"

namespace folio {
namespace {

const TokenVectors& Journey() {
  static const TokenVectors journey = {
      .labels = {"Your", "journey", "starts", "with", "one", "step"},
      .numbers = {0.43F, 0.15F, 0.89F, 0.55F, 0.87F, 0.66F, 0.57F, 0.85F, 0.64F, 0.22F, 0.58F,
                  0.33F, 0.77F, 0.25F, 0.10F, 0.05F, 0.80F, 0.55F}};
  return journey;
}

// The common parts of all forms of attention: the tokens (six if the topic has no vectors), the
// source of random weights, and the growing walk.
struct AttentionWalk {
  // `usual_seed` is used if the topic gives none.
  AttentionWalk(Backend& its_backend, const AttentionTopic& its_topic, uint64_t usual_seed,
                Report& its_walk)
      : backend(its_backend),
        topic(its_topic),
        seed(topic.seed.value_or(usual_seed)),
        draws(seed, topic.torch_rng),
        tokens(topic.vectors ? *topic.vectors : Journey()),
        memory({tokens.T(), tokens.C()}, tokens.numbers),
        walk(its_walk) {}

  const std::string& Token(int64_t t) const { return tokens.labels[static_cast<size_t>(t)]; }
  // The token that the walk follows: the second, if there is one.
  int64_t followed() const { return T > 1 ? 1 : 0; }
  const std::string& name() const { return Token(followed()); }
  // Tokens down, `columns` across.
  MatrixLabels ByToken(std::vector<std::string> columns) const {
    return {.rows = tokens.labels, .columns = std::move(columns), .row_axis = "token"};
  }
  MatrixLabels ByTokens() const { return QueriesAndKeys(tokens.labels, tokens.labels); }
  static MatrixLabels QueriesAndKeys(std::vector<std::string> queries,
                                     std::vector<std::string> keys) {
    return {.rows = std::move(queries),
            .columns = std::move(keys),
            .row_axis = "query",
            .column_axis = "key"};
  }

  Backend& backend;
  const AttentionTopic& topic;
  const uint64_t seed;
  AttentionDraws draws;
  const TokenVectors& tokens;
  const StepTensor memory;
  Report& walk;
  const Tensor x = memory;  // (T,C)
  const int64_t T = x.dim(0), C = x.dim(1);
};

constexpr int64_t kOut = 2;  // elements of a head's result

// Rows [first, first + rows) of x as a matrix: its last dimension across, all others down.
Tensor RowsOf(const Tensor& x, int64_t first, int64_t rows = 1) {
  const int64_t columns = x.shape().back();
  return x.Reshape({x.count() / columns, columns}).Slice(first, first + rows);
}

std::vector<double> RowOf(const Tensor& x, int64_t row) {
  return Doubles(RowsOf(x, row));
}

Matrix Beside(std::initializer_list<Tensor> parts, MatrixLabels labels) {
  return MatrixValues(SideBySide(std::vector(parts)), std::move(labels));
}

// A tensor of weights, or of masked scores, partly hidden by `mask`.
Matrix Hidden(const Tensor& x, std::span<const uint8_t> mask, MatrixLabels labels) {
  Matrix values = MatrixValues(x, std::move(labels));
  MarkMasked(values, mask);
  return values;
}

// 1 where a mask (T,S) allows attention, else masked.
Matrix MaskValues(const std::vector<uint8_t>& mask, MatrixLabels labels) {
  const auto T = std::ssize(labels.rows), S = std::ssize(labels.columns);
  Matrix values = MakeMatrix({T, S}, std::vector<double>(mask.size(), 1), std::move(labels));
  MarkMasked(values, mask);
  values.digits = 0;
  return values;
}

std::vector<std::string> ColumnsOf(std::initializer_list<std::string> parts, int64_t each) {
  std::vector<std::string> columns;
  for (const std::string& part : parts) {
    for (const std::string& column : Numbered(each, part + " ")) columns.push_back(column);
  }
  return columns;
}

const std::vector<std::string> kWays = {"as they are", "by their sum", "naive softmax", "softmax"};

std::vector<std::string> Elements(const AttentionWalk& form) {
  return Numbered(form.C, "x");
}

// "0.55·0.55 + 0.87·0.87": the followed vector times itself.
std::string Squares(const AttentionWalk& form) {
  constexpr size_t kTerms = 6;
  std::string sum;
  const std::vector<double> x = RowOf(form.x, form.followed());
  for (size_t i = 0; i < std::min(x.size(), kTerms); ++i) {
    sum += fmt::format("{0}{1:g}·{1:g}", i == 0 ? "" : " + ", x[i]);
  }
  return sum + (x.size() > kTerms ? " + …" : "");
}

// The followed token's attention weighted in four ways, with the sum of each row of weights; and
// the four contexts.
void CompareWeightings(AttentionWalk& form) {
  std::vector<std::vector<double>> weights, contexts;
  for (const Weighting way :
       {Weighting::kNone, Weighting::kSum, Weighting::kNaiveSoftmax, Weighting::kSoftmax}) {
    const AttentionSteps steps = Attend(form.backend, {}, form.x, {.scale = 1.0, .weighting = way});
    const Tensor row = RowsOf(steps.weights, form.followed());
    weights.push_back(Doubles(row));
    weights.back().push_back(Total(row));
    contexts.push_back(RowOf(steps.context, form.followed()));
  }
  std::vector<std::string> columns = form.tokens.labels;
  columns.emplace_back("sum");
  form.walk.AddNumbers(fmt::format("weights of “{}”, made in four ways", form.name()),
                       "w = s,  s / Σ s,  exp(s) / Σ exp(s),  exp(s − max s) / Σ exp(s − max s)",
                       Plain(StackedValues(weights, {.rows = kWays, .columns = columns})),
                       "Scores as they are add up to anything; divided by their sum they add up to "
                       "1, but a negative score would be a negative share; softmax makes every "
                       "share positive and favours the large ones.");
  form.walk.AddNumbers(fmt::format("context of “{}” from each of them", form.name()),
                       "context = Σ w[s] x[s]",
                       Plain(StackedValues(contexts, {.rows = kWays, .columns = Elements(form)})),
                       "Weights that do not add up to 1 blow the vector up (or shrink it); the "
                       "others keep it inside the inputs that it is a mean of.");
}

void ShowOverflow(AttentionWalk& form) {
  const StepTensor scores({1, 3}, {100, 1, 2});
  const StepTensor naive = NaiveSoftmax(scores);
  const StepTensor stable = Softmax(scores);
  Matrix values = Plain(
      StackedValues({Doubles(scores), Doubles(naive), Doubles(stable)},
                    {.rows = {"scores", "naive softmax", "softmax"}, .columns = Numbered(3, "s")}));
  values.masks = false;
  form.walk.AddNumbers("why the naive softmax overflows",
                       "exp(100) = 2.7e43 > 3.4e38 = the largest float32,  so inf / inf = nan",
                       std::move(values),
                       "Taking the largest score off first changes nothing in the result, since it "
                       "cancels, and no exponential is larger than 1 then.");
}

void ShowAllTokens(AttentionWalk& form, const AttentionSteps& steps) {
  form.walk.Add("weights", "weights = softmax(scores), row by row",
                MatrixValues(steps.weights, form.ByTokens()),
                "Each row adds up to 1: it says which share of every token goes into the new "
                "vector of the row's token.");
  form.walk.AddNumbers(
      fmt::format("context of “{}”", form.name()),
      fmt::format("context[{0}] = Σ weights[{0}, s] x[s]", form.name()),
      RowValues(RowOf(steps.context, form.followed()), {.columns = Elements(form)}),
      fmt::format("The new vector of “{}” is the mean of all inputs under its weights: the word "
                  "together with the company it keeps.",
                  form.name()));
  form.walk.Add("context", "context = weights x",
                MatrixValues(steps.context, form.ByToken(Elements(form))),
                "One product of matrices gives the context of every token at once.");
}

// A query against keys and values: the result of a database look-up, and that of attention.
void ShowLookup(AttentionWalk& form) {
  const StepTensor query({1, 2}, {1, 0}), keys({3, 2}, {1, 0, 0, 1, 1, 1});
  const StepTensor values({3, 2}, {0.1F, 0.9F, 0.2F, 0.8F, 0.3F, 0.7F});
  const AttentionSteps steps = Attend(form.backend, {}, query, keys, values, {.scale = 1.0});
  StepTensor exact({1, 1, 3});
  for (int64_t s = 0; s < 3; ++s) {
    exact.data()[s] = RowOf(keys, s) == RowOf(query, 0) ? 1.0F : 0.0F;
  }
  const StepTensor found = AttentionContext(exact, values, 2);
  form.walk.Section("A look-up that is never quite sure");
  form.walk.AddNumbers(
      "the query (1, 0) meets a database", "exact: key = query?    soft: softmax(query · key)",
      Plain(
          Beside({keys, values, exact.tensor().Reshape({3, 1}), steps.scores.Reshape({3, 1}),
                  steps.weights.Reshape({3, 1})},
                 {.rows = Numbered(3, "entry "),
                  .columns = {"key 0", "key 1", "value 0", "value 1", "exact", "score", "soft"}})),
      "A database compares the query with each key and answers with the value of the one that is "
      "equal; attention asks how alike they are and takes a share of every value.");
  form.walk.AddNumbers(
      "what both answer", "answer = Σ weight[s] value[s]",
      StackedValues({Doubles(found), Doubles(steps.context)},
                    {.rows = {"exact", "soft"}, .columns = {"value 0", "value 1"}}),
      "The soft answer is a mixture; that makes it smooth, so that a gradient can say how keys, "
      "values and queries should change.");
}

constexpr int64_t kWide = 512;     // d_k of the experiment
constexpr int64_t kVectors = 256;  // queries, and keys

// scale * q k^T, one head.
StepTensor Scores(Backend& backend, const Tensor& q, const Tensor& k, double scale) {
  const StepTensor products({q.dim(0), k.dim(0)});
  backend.Run(LinearForward{.x = q, .weight = k, .out = products, .transposed = true});
  return Scaled(products, scale);
}

// Products of random vectors of 512 elements, and softmax of large numbers.
void ShowWhyRoot(AttentionWalk& form) {
  const double root = 1 / std::sqrt(static_cast<double>(kWide));
  StepTensor q({kVectors, kWide}), k({kVectors, kWide});
  const auto elements = static_cast<size_t>(kVectors * kWide);
  form.draws.Normal({q.data(), elements});
  form.draws.Normal({k.data(), elements});
  std::vector<std::vector<double>> rows;
  for (const double scale : {1.0, root}) {
    const StepTensor scores = Scores(form.backend, q, k, scale);
    const NormalizedRow row =
        Normalized(form.backend, scores.tensor().Reshape({1, kVectors * kVectors}));
    rows.push_back({row.mean, row.variance});
  }
  form.walk.Section("Why the scores are divided by √d_k");
  form.walk.AddNumbers(
      "products of random vectors of 512 elements",
      "q, k ~ normal(0, 1),  d_k = 512:  var(q · k) = d_k",
      Plain(StackedValues(rows,
                          {.rows = {"q · k", "q · k / √512"}, .columns = {"mean", "variance"}})),
      fmt::format("A sum of 512 independent products has the variance 512 (of these {} it is "
                  "{:.0f}); divided by √512 it has variance 1, whatever the size of the head.",
                  kVectors * kVectors, rows[0][1]));

  const StepTensor one({1, 1}, {1}), large({3, 1}, {10, 20, 30});
  rows.clear();
  for (const double scale : {1.0, root}) {
    const StepTensor scores = Scores(form.backend, one, large, scale);
    rows.push_back(Doubles(Softmax(scores.tensor().Reshape({1, 3}))));
  }
  form.walk.AddNumbers(
      "softmax of large scores", "softmax(10, 20, 30)  and  softmax((10, 20, 30) / √512)",
      Scientific(
          StackedValues(rows, {.rows = {"plain", "divided"}, .columns = {"10", "20", "30"}})),
      "Large scores give everything to the largest one, and the gradient of a softmax that has "
      "made up its mind is almost zero: nothing would be learnt.");
}

void ShowProjections(AttentionWalk& form, const AttentionParams& params,
                     const AttentionSteps& head) {
  form.walk.Add(
      "weights W_q, W_k and W_v",
      fmt::format("W_q, W_k, W_v: from {} elements to 2, random before training", form.C),
      Beside({params.q.weight, params.k.weight, params.v.weight},
             {.rows = Numbered(form.C, "x"), .columns = ColumnsOf({"W_q", "W_k", "W_v"}, kOut)}),
      "Training changes these matrices; they let a token ask for something else (W_q) than what it "
      "is found by (W_k) and what it gives (W_v).");
  form.walk.Add("queries, keys and values", "q = x W_q,  k = x W_k,  v = x W_v",
                Beside({head.q, head.k, head.v}, form.ByToken(ColumnsOf({"q", "k", "v"}, kOut))),
                "As in the look-up: the query is what a token looks for, the key what others find "
                "it by, the value what they get.");
}

// Weights masked after the softmax: complete, zeroed, renormalised.
void ShowMaskAfter(AttentionWalk& form, const AttentionSteps& steps,
                   const std::vector<uint8_t>& mask) {
  form.walk.Add("weights of all on all", "softmax(q kᵀ / √d_k)",
                MatrixValues(steps.softmax, form.ByTokens()),
                "As before; the upper right half is knowledge of the future.");
  const StepTensor struck = Masked(steps.softmax, mask, 0);
  form.walk.Add("weights with the future struck out", "weights · mask",
                Hidden(struck, mask, form.ByTokens()),
                "Zeros where the mask is: but now the rows add up to less than 1.");
  form.walk.Add("renormalised weights", "weights / Σ weights, row by row",
                Hidden(steps.weights, mask, form.ByTokens()),
                "Divided by its sum each row adds up to 1 again; nothing of the future is left, "
                "since the sum of the softmax that knew it cancels.");
}

void ShowMaskBefore(AttentionWalk& form, const AttentionSteps& steps, const AttentionSteps& after,
                    const std::vector<uint8_t>& mask) {
  form.walk.Add("masked scores", "scores = q kᵀ / √d_k, −∞ where masked",
                MatrixValues(steps.masked, form.ByTokens()),
                "The shorter way: exp(−∞) = 0, so that softmax itself leaves the future out.");
  form.walk.Add("weights", "weights = softmax(masked scores)",
                Hidden(steps.weights, mask, form.ByTokens()),
                "One pass less and no division by a small sum: this is how models do it.");
  const int64_t row = std::min<int64_t>(4, form.T - 1);
  form.walk.AddNumbers(
      fmt::format("both ways for “{}”", form.Token(row)), "exp(s) / Σ seen exp(s), either way",
      StackedValues({RowOf(after.weights, row), RowOf(steps.weights, row)},
                    {.rows = {"mask after", "mask before"}, .columns = form.tokens.labels}),
      "The two agree to the last digits that float32 has.");
}

void ShowDropout(AttentionWalk& form, const AttentionParams& params,
                 const std::vector<uint8_t>& mask) {
  const double p = form.topic.dropout;
  const Dropout dropout = {.p = p, .seed = form.seed, .stream = RngStream(RngPurpose::kDropout)};
  const AttentionSteps steps =
      Attend(form.backend, params, form.x, {.mask = mask, .dropout = dropout});
  form.walk.Add("weights after dropout",
                fmt::format("kept weights · 1 / (1 − p),  p = {:g}: times {:.4g}", p, 1 / (1 - p)),
                Hidden(steps.kept, mask, form.ByTokens()),
                "While it learns, a model forgets each weight with probability p, lest it rely on "
                "one; the others grow so that the sum stays the same in the mean.");
  form.walk.Add("context after dropout", "context = kept weights v",
                MatrixValues(steps.context, form.ByToken(Numbered(kOut, "c"))),
                "Other tokens are left out in every step of training; when the model writes, "
                "nothing is dropped.");
}

// `weights` belong to head `number`, (T,T), before masking.
void AddWeights(AttentionWalk& form, int number, const Tensor& weights,
                const std::vector<uint8_t>& mask, std::string why) {
  form.walk.Add(fmt::format("weights of head {}", number), "softmax(q kᵀ / √D), −∞ where masked",
                Hidden(weights, mask, form.ByTokens()), std::move(why));
}

// Two causal heads of 2 elements, drawn one after the other.
std::vector<AttentionWeights> DrawHeads(AttentionWalk& form) {
  std::vector<AttentionWeights> heads;
  for (int h = 0; h < 2; ++h) {
    heads.push_back(form.draws.Linear({.d_in = form.C, .d_out = 2}));
  }
  return heads;
}

// The steps of all heads, and their contexts side by side.
std::pair<std::vector<AttentionSteps>, StepTensor> RunStack(
    AttentionWalk& form, std::span<const AttentionWeights> heads) {
  std::vector<AttentionSteps> stack;
  std::vector<Tensor> contexts;
  for (const AttentionWeights& head : heads) {
    stack.push_back(Attend(form.backend, head.params, form.x, {.mask = CausalMask(form.T)}));
    contexts.push_back(stack.back().context);
  }
  StepTensor all = SideBySide(contexts);
  return {std::move(stack), std::move(all)};
}

MatrixLabels ByHeadElement(const AttentionWalk& form, int64_t each) {
  return form.ByToken(ColumnsOf({"head 0:", "head 1:"}, each));
}

// The stack's weights in one layer, and its result for the last token.
void ShowJoined(AttentionWalk& form) {
  const std::vector<AttentionWeights> heads = DrawHeads(form);
  const StepTensor stacked = RunStack(form, heads).second;
  const AttentionWeights joined = JoinHeads(heads);
  const AttentionParams& params = joined.params;
  const AttentionSteps split =
      Attend(form.backend, params, form.x, {.H = 2, .mask = CausalMask(form.T)});
  form.walk.Add(
      "the stack's weights side by side",
      "W_q = [W_q of head 0 | W_q of head 1], W_k and W_v likewise",
      Beside({params.q.weight, params.k.weight, params.v.weight},
             {.rows = Numbered(form.C, "x"), .columns = ColumnsOf({"W_q", "W_k", "W_v"}, 4)}),
      "One large product is faster than many small ones: the heads of the stack are the columns of "
      "one matrix, which is split afterwards.");
  form.walk.AddNumbers(
      fmt::format("“{}” by the stack and by the split layer", form.Token(form.T - 1)),
      "concat(head 0(x), head 1(x)) = split(x)",
      StackedValues({RowOf(stacked, form.T - 1), RowOf(split.out, form.T - 1)},
                    {.rows = {"stack", "split"}, .columns = ColumnsOf({"head 0:", "head 1:"}, 2)}),
      "The same numbers by both ways: splitting is nothing but book-keeping.");
}

constexpr int64_t kS = 5, kOther = 2;  // tokens of the other sequence and their elements

std::vector<std::string> OtherTokens() {
  return {"Deine", "Reise", "beginnt", "<pad>", "<pad>"};
}

// Queries from the walk's tokens, keys and values from another sequence with padding at its end.
void ShowCross(AttentionWalk& form) {
  const StepTensor other({kS, kOther}, {0.31F, 0.92F, 0.84F, 0.27F, 0.56F, 0.68F, 0, 0, 0, 0});
  const std::vector<uint8_t> real = {1, 1, 1, 0, 0};
  const std::vector<uint8_t> mask = AttentionMask(form.T, real, /*causal=*/false);
  const AttentionSizes sizes{
      .d_in = form.C, .d_kv_in = kOther, .d_out = 2, .bias = true, .out_proj = true};
  const AttentionWeights weights = form.draws.Linear(sizes);
  const AttentionSteps cross =
      Attend(form.backend, weights.params, form.x, other, other, {.mask = mask});
  const MatrixLabels by_other = form.QueriesAndKeys(form.tokens.labels, OtherTokens());

  form.walk.Section("Cross-attention: queries here, keys and values there");
  form.walk.Add(
      "the other sequence", "y: a vector of 2 numbers for each of 5 tokens",
      MatrixValues(other,
                   {.rows = OtherTokens(), .columns = Numbered(kOther, "y"), .row_axis = "token"}),
      "A translator looks from its own words at the sentence that it translates; shorter sentences "
      "are filled up with padding, which must not count.");
  form.walk.Add("scores", "scores = (x W_q)(y W_k)ᵀ / √d_k, −∞ at padding",
                MatrixValues(cross.masked, by_other),
                fmt::format("{} queries meet 5 keys, so that the table need not be square; the "
                            "padding mask strikes out whole columns.",
                            form.T));
  form.walk.Add(
      "weights", "weights = softmax(scores)", Hidden(cross.weights, mask, by_other),
      "Every token of ours shares its attention among the three real words of the other sequence.");
  form.walk.Add("output", "out = weights (y W_v) W_o + b_o",
                MatrixValues(cross.out, form.ByToken(Numbered(2, "out "))),
                "A vector for each token of ours, made of nothing but the other sequence.");
}

// Self-attention of a sequence with padding at its start, under both masks.
void ShowPaddedCausal(AttentionWalk& form) {
  const int64_t pads = std::min<int64_t>(2, form.T - 1), tokens_left = form.T - pads;
  std::vector<float> padded(static_cast<size_t>(pads * form.C));
  const std::vector<double> kept = Doubles(RowsOf(form.x, 0, tokens_left));
  for (const double number : kept) padded.push_back(static_cast<float>(number));
  const StepTensor x({form.T, form.C}, padded);
  std::vector<uint8_t> real(static_cast<size_t>(form.T), 1);
  std::fill_n(real.begin(), pads, uint8_t{0});
  const std::vector<uint8_t> mask = AttentionMask(form.T, real, /*causal=*/true);
  const AttentionWeights weights = form.draws.Linear({.d_in = form.C, .d_out = 2});
  const AttentionSteps layer = Attend(form.backend, weights.params, x, {.mask = mask});
  std::vector<std::string> tokens(static_cast<size_t>(pads), "<pad>");
  for (int64_t t = 0; t < tokens_left; ++t) tokens.push_back(form.Token(t));
  const MatrixLabels by_tokens = form.QueriesAndKeys(tokens, tokens);

  form.walk.Section("Both masks at once");
  form.walk.Add("causal and padding mask",
                "mask[b, 0, t, s] = s ≤ t and key s of sequence b is no padding",
                MaskValues(mask, by_tokens),
                "Texts of one batch that end together are filled up in front; the first rows are "
                "then left with nothing that they may see.");
  form.walk.Add("weights under both masks", "softmax(scores), a row of −∞ gives zeros",
                MatrixValues(layer.weights, by_tokens),
                "As the formula stands, a row of −∞ would be 0 / 0; it is defined as zeros, or "
                "else one nan would spread through the whole model.");
  form.walk.Add("context under both masks", "context = weights v",
                MatrixValues(layer.context,
                             {.rows = tokens, .columns = Numbered(2, "c"), .row_axis = "token"}),
                "Padding gets zeros, and no real token ever sees it.");
}

constexpr int64_t kH = 4, kG = 2, kD = 2;

void ExplainNoWeights(AttentionWalk& form) {
  form.walk.Section("Attention without weights");
  form.walk.Add("inputs",
                fmt::format("x: a vector of {} numbers for each of {} tokens", form.C, form.T),
                MatrixValues(form.x, form.ByToken(Elements(form))),
                std::string("A model knows a token only as a vector; similar tokens have vectors "
                            "that point in similar directions") +
                    (form.topic.vectors ? "." : ", as “journey” and “starts” do here."));
  const AttentionSteps steps = Attend(form.backend, {}, form.x, {.scale = 1.0});
  const std::vector<double> row = RowOf(steps.scores, form.followed());
  form.walk.Add(fmt::format("scores of “{}”", form.name()),
                fmt::format("s[{0}, {0}] = {1} = {2:.4f}", form.name(), Squares(form),
                            row[static_cast<size_t>(form.followed())]),
                RowValues(row, {.columns = form.tokens.labels, .column_axis = "key"}),
                "The dot product of two vectors is large where both are large in the same places: "
                "it measures how much two tokens have to do with each other.",
                FigureKind::kBars);
  form.walk.Add("scores", "scores = x xᵀ", MatrixValues(steps.scores, form.ByTokens()),
                "Each token asks (its row) and is asked (its column); without weights both are the "
                "same, and the table is symmetric.");
  CompareWeightings(form);
  ShowOverflow(form);
  ShowAllTokens(form, steps);
  ShowLookup(form);
}

void ExplainSingleHead(AttentionWalk& form) {
  const AttentionWeights weights = form.draws.Unit({.d_in = form.C, .d_out = kOut});
  const AttentionSteps head = Attend(form.backend, weights.params, form.x);

  form.walk.Section("One head with trainable weights");
  ShowProjections(form, weights.params, head);
  const StepTensor products = Scores(form.backend, head.q, head.k, 1);
  form.walk.Add("products of queries and keys", "q kᵀ", MatrixValues(products, form.ByTokens()),
                "How well each query fits each key; asking and being asked are two things now, and "
                "the table is no longer symmetric.");
  ShowWhyRoot(form);
  form.walk.Section("One head, to its end");
  form.walk.Add("scores", "scores = q kᵀ / √d_k,  d_k = 2",
                MatrixValues(head.scores, form.ByTokens()),
                "The products, brought back to a size that softmax can tell apart.");
  form.walk.Add("weights", "weights = softmax(scores), row by row",
                MatrixValues(head.weights, form.ByTokens()),
                "Each row says how much of every token's value the row's token takes.");
  form.walk.Add("context", "context = weights v",
                MatrixValues(head.context, form.ByToken(Numbered(kOut, "c"))),
                "What the head hands on: 2 numbers for each token, made from the values of all.");
}

void ExplainCausal(AttentionWalk& form) {
  const AttentionWeights weights = form.draws.Linear({.d_in = form.C, .d_out = kOut});
  const std::vector<uint8_t> mask = CausalMask(form.T);
  const AttentionSteps before = Attend(form.backend, weights.params, form.x, {.mask = mask});
  const AttentionSteps after = Attend(form.backend, weights.params, form.x,
                                      {.mask = mask, .mask_order = MaskOrder::kAfterSoftmax});

  form.walk.Section("Causal attention: no look ahead");
  form.walk.Add("causal mask", "mask[t, s] = 1 where s ≤ t", MaskValues(mask, form.ByTokens()),
                "A model that learns to say the next token must not see it: each token may attend "
                "to itself and to what came before.");
  ShowMaskAfter(form, after, mask);
  ShowMaskBefore(form, before, after, mask);
  form.walk.Add("context", "context = weights v",
                MatrixValues(before.context, form.ByToken(Numbered(kOut, "c"))),
                "The first token has only itself to look at: its context is its own value.");
  ShowDropout(form, weights.params, mask);
}

void ExplainStacked(AttentionWalk& form) {
  const auto [stack, out] = RunStack(form, DrawHeads(form));
  const std::vector<uint8_t> mask = CausalMask(form.T);

  form.walk.Section("Several heads, stacked");
  AddWeights(form, 0, stack[0].weights, mask, "The first head has W_q, W_k and W_v of its own.");
  AddWeights(form, 1, stack[1].weights, mask,
             "The second head was drawn with other numbers and looks elsewhere: each head can "
             "learn a question of its own.");
  form.walk.Add("contexts of both, side by side", "out = concat(head 0(x), head 1(x))",
                MatrixValues(out, ByHeadElement(form, 2)),
                "What the heads found is put side by side: 2 heads of 2 elements give 4.");
}

void ExplainSplit(AttentionWalk& form) {
  form.walk.Section("Several heads, split from one projection");
  ShowJoined(form);

  form.draws = AttentionDraws(form.seed, form.topic.torch_rng);  // independent of the stack's draws
  const AttentionSizes sizes{.d_in = form.C, .d_out = 2, .H = 2, .out_proj = true};
  const AttentionWeights weights = form.draws.Linear(sizes);
  const std::vector<uint8_t> mask = CausalMask(form.T);
  const AttentionSteps layer = Attend(form.backend, weights.params, form.x, {.H = 2, .mask = mask});
  AddWeights(form, 0, RowsOf(layer.weights, 0, form.T), mask,
             "A layer of d_out = 2 with 2 heads has D = d_out / H = 1 element for each; d_out must "
             "be a multiple of the heads.");
  AddWeights(form, 1, RowsOf(layer.weights, form.T, form.T), mask,
             "Again the second head weighs the tokens in its own way.");
  form.walk.Add("contexts of both heads", "concat(head 0, head 1)",
                MatrixValues(layer.context, ByHeadElement(form, 1)),
                "Side by side again; so far no head knows what the other found.");
  form.walk.Add("output", "out = concat(head 0, head 1) W_o + b_o",
                MatrixValues(layer.out, form.ByToken(Numbered(2, "out "))),
                "The output projection mixes what the heads found into one vector: this is the "
                "layer that GPT-2 has in each block.");
}

void ExplainCross(AttentionWalk& form) {
  ShowCross(form);
  ShowPaddedCausal(form);
}

void ExplainGrouped(AttentionWalk& form) {
  const AttentionSizes sizes{.d_in = form.C, .d_out = kH * kD, .H = kH, .G = kG, .out_proj = true};
  const AttentionWeights weights = form.draws.Linear(sizes);
  const AttentionSteps layer =
      Attend(form.backend, weights.params, form.x, {.H = kH, .mask = CausalMask(form.T)});

  form.walk.Section("Grouped-query heads");
  form.walk.Add("queries of 4 heads", fmt::format("q = x W_q,  W_q: {0} × H·D = {0} × 8", form.C),
                MatrixValues(layer.q, form.ByToken(ColumnsOf({"q0", "q1", "q2", "q3"}, kD))),
                "Each of the 4 heads asks a question of its own.");
  form.walk.Add("keys and values of 2 groups",
                fmt::format("k = x W_k,  v = x W_v,  W_k and W_v: {0} × G·D = {0} × 4", form.C),
                Beside({layer.k, layer.v}, form.ByToken(ColumnsOf({"k0", "k1", "v0", "v1"}, kD))),
                "Heads 0 and 1 share the first keys and values, heads 2 and 3 the second.");
  std::vector<std::vector<double>> rows;
  std::vector<std::string> heads;
  for (int64_t h = 0; h < kH; ++h) {
    rows.push_back(RowOf(layer.weights, h * form.T + form.T - 1));
    heads.push_back(fmt::format("head {}, keys {}", h, h / (kH / kG)));
  }
  form.walk.Add(
      fmt::format("weights of “{}” in each head", form.Token(form.T - 1)),
      "softmax(q[h] k[h / (H/G)]ᵀ / √D)",
      StackedValues(
          rows,
          {.rows = heads, .columns = form.tokens.labels, .row_axis = "head", .column_axis = "key"}),
      "The same keys, but different questions: heads of one group still weigh the tokens "
      "differently.");
  form.walk.Add("output", "out = concat(heads) W_o + b_o",
                MatrixValues(layer.out, form.ByToken(Numbered(kH * kD, "out "))),
                "To the rest of the model nothing has changed.");
  Matrix kept = RowValues({2 * kH * kD, 2 * kG * kD, 2 * kD},
                          {.columns = {"G = 4: own", "G = 2: grouped", "G = 1: one"}});
  kept.digits = 0;
  form.walk.Add("numbers to keep for each token", "keys and values: 2 · G · D,  D = 2",
                std::move(kept),
                "A model that writes keeps keys and values of all tokens so far; with shared ones "
                "the memory for long texts shrinks by H / G.",
                FigureKind::kBars);
}

struct Form {
  const char* name;
  void (*explain)(AttentionWalk& walk);
  uint64_t usual_seed = 123;
};

constexpr Form kForms[] = {
    {"no-weights", ExplainNoWeights}, {"single-head", ExplainSingleHead},
    {"causal", ExplainCausal, 789},   {"stacked", ExplainStacked},
    {"split", ExplainSplit},          {"cross", ExplainCross},
    {"grouped", ExplainGrouped},
};

}  // namespace

std::vector<std::string> AttentionForms() {
  std::vector<std::string> names;
  for (const Form& form : kForms) names.emplace_back(form.name);
  return names;
}

Report ExplainAttention(Backend& backend, const AttentionTopic& topic) {
  const std::vector<std::string> names = AttentionForms();
  if (topic.form && std::ranges::find(names, *topic.form) == names.end()) {
    throw UsageError("unknown form of attention '" + *topic.form + "'", {},
                     "one of " + Join(names, ", "));
  }
  Report walk{.topic = "attention",
              .title = "Attention, step by step",
              .intro = std::string(topic.vectors
                                       ? fmt::format("Your tokens: {}, each a vector of length {}.",
                                                     topic.vectors->T(), topic.vectors->C())
                                       : "Six tokens, “Your journey starts with one step”, each a "
                                         "vector of three numbers.") +
                       " Attention makes a new vector for each token out of all of them. Each form "
                       "below adds one idea to the one before it; every number was computed just "
                       "now by the code that models run on."};
  for (const Form& form : kForms) {
    if (topic.form && *topic.form != form.name) continue;
    AttentionWalk of_form(backend, topic, form.usual_seed, walk);
    form.explain(of_form);
  }
  return walk;
}

}  // namespace folio
