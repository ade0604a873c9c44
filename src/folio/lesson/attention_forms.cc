#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "folio/backend/backend.h"
#include "folio/base/error.h"
#include "folio/base/rng.h"
#include "folio/base/strings.h"
#include "folio/lesson/attention_steps.h"
#include "folio/lesson/attention_weights.h"
#include "folio/lesson/lessons.h"
#include "folio/lesson/stepwise_attention.h"
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

// AttentionWalkthrough holds what the forms of attention have in common: the tokens, six where the
// topic has no vectors, the source of random weights, and the walk that grows.
class AttentionWalkthrough {
 public:
  // `usual_seed` where the topic gives none.
  AttentionWalkthrough(Backend& backend, const AttentionTopic& topic, uint64_t usual_seed,
                       Report& walk);

  Backend& backend() { return backend_; }
  const AttentionTopic& topic() const { return topic_; }
  uint64_t seed() const { return seed_; }

  const Tensor& x() const { return x_.tensor(); }  // (T,C)
  int64_t T() const { return x().dim(0); }
  int64_t C() const { return x().dim(1); }
  bool own() const { return topic_.vectors.has_value(); }  // not the six tokens
  const std::vector<std::string>& Tokens() const { return tokens_; }
  const std::string& Token(int64_t t) const { return tokens_[static_cast<size_t>(t)]; }
  // The token that is followed: the second, if there is one.
  int64_t followed() const { return T() > 1 ? 1 : 0; }
  const std::string& name() const { return Token(followed()); }
  // Tokens down, `columns` across.
  MatrixLabels ByToken(std::vector<std::string> columns = {}, std::string column_axis = {}) const;
  // Queries down, keys across.
  MatrixLabels ByTokens() const;

  // Weights of these sizes, the next draws of the walk's generator.
  AttentionWeights Drawn(const AttentionSizes& sizes,
                         AttentionDraws draws = AttentionDraws::kLinear);
  void DrawNormal(std::span<float> out);

  void Section(std::string heading) { walk_.Section(std::move(heading)); }
  void Add(std::string name, std::string formula, Matrix values, std::string why,
           FigureKind figure = FigureKind::kHeatmap) {
    walk_.Add(std::move(name), std::move(formula), std::move(values), std::move(why), figure);
  }

 private:
  Backend& backend_;
  const AttentionTopic& topic_;
  uint64_t seed_;
  std::optional<TorchRng> torch_;
  uint64_t drawn_ = 0;
  std::vector<std::string> tokens_;
  StepTensor x_;
  Report& walk_;
};

constexpr int64_t kOut = 2;  // elements of a head's result

AttentionWalkthrough::AttentionWalkthrough(Backend& backend, const AttentionTopic& topic,
                                           uint64_t usual_seed, Report& walk)
    : backend_(backend),
      topic_(topic),
      seed_(topic.seed.value_or(usual_seed)),
      tokens_(topic.vectors.value_or(Journey()).labels),
      x_({topic.vectors.value_or(Journey()).T(), topic.vectors.value_or(Journey()).C()},
         topic.vectors.value_or(Journey()).numbers),
      walk_(walk) {
  if (topic.torch_rng) torch_.emplace(seed_);
}

MatrixLabels AttentionWalkthrough::ByToken(std::vector<std::string> columns,
                                           std::string column_axis) const {
  return {.rows = Tokens(),
          .columns = std::move(columns),
          .row_axis = "token",
          .column_axis = std::move(column_axis)};
}

MatrixLabels AttentionWalkthrough::ByTokens() const {
  return {.rows = Tokens(), .columns = Tokens(), .row_axis = "query", .column_axis = "key"};
}

AttentionWeights AttentionWalkthrough::Drawn(const AttentionSizes& sizes, AttentionDraws draws) {
  AttentionWeights weights(sizes);
  if (torch_) {
    DrawAttention(weights, draws, *torch_);
  } else {
    DrawAttention(weights, draws, seed_, drawn_++);
  }
  return weights;
}

void AttentionWalkthrough::DrawNormal(std::span<float> out) {
  if (torch_) {
    torch_->Normal(out, 0, 1);
    return;
  }
  const CounterRng rng(seed_, RngStream(RngPurpose::kInit, /*a=*/drawn_++, /*b=*/1));
  for (size_t i = 0; i < out.size(); ++i) out[i] = static_cast<float>(rng.Normal(i));
}

// Rows [first, first + rows) of x as a matrix: its last dimension across, all others down.
Tensor RowsOf(const Tensor& x, int64_t first, int64_t rows = 1) {
  const int64_t columns = x.shape().back();
  return x.Reshape({x.count() / columns, columns}).Slice(first, first + rows);
}

std::vector<double> RowOf(const Tensor& x, int64_t row) {
  return Doubles(RowsOf(x, row));
}

// Matrices of equally many rows, side by side.
Matrix SideBySide(std::initializer_list<Tensor> parts, MatrixLabels labels) {
  std::vector<std::vector<double>> rows(static_cast<size_t>(parts.begin()->dim(0)));
  for (const Tensor& part : parts) {
    for (size_t r = 0; r < rows.size(); ++r) {
      const std::vector<double> more = RowOf(part, static_cast<int64_t>(r));
      rows[r].insert(rows[r].end(), more.begin(), more.end());
    }
  }
  return StackedValues(rows, std::move(labels));
}

// A tensor of weights, or of masked scores, of which `mask` hides a part.
Matrix Hidden(const Tensor& x, const Tensor& mask, MatrixLabels labels) {
  Matrix values = MatrixValues(x, std::move(labels));
  MarkMasked(values, {mask.data<uint8_t>(), static_cast<size_t>(mask.count())});
  return values;
}

// 1 where a u8 mask allows, else masked.
Matrix MaskValues(const Tensor& mask, MatrixLabels labels) {
  const std::vector<float> ones(static_cast<size_t>(mask.count()), 1);
  const int64_t columns = mask.shape().back();
  const StepTensor all({mask.count() / columns, columns}, ones);
  Matrix values = Hidden(all.tensor(), mask, std::move(labels));
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

std::vector<std::string> Elements(const AttentionWalkthrough& form) {
  return Numbered(form.C(), "x");
}

// "0.55·0.55 + 0.87·0.87": the followed vector times itself.
std::string Squares(const AttentionWalkthrough& form) {
  constexpr size_t kTerms = 6;
  std::string sum;
  const std::vector<double> x = RowOf(form.x(), form.followed());
  for (size_t i = 0; i < std::min(x.size(), kTerms); ++i) {
    sum += fmt::format("{0}{1:g}·{1:g}", i == 0 ? "" : " + ", x[i]);
  }
  return sum + (x.size() > kTerms ? " + …" : "");
}

// The attention of the followed token weighted in four ways, with the sum of each row of weights;
// and the four contexts.
void CompareWeightings(AttentionWalkthrough& form) {
  std::vector<std::vector<double>> weights, contexts;
  for (const Weighting way :
       {Weighting::kNone, Weighting::kSum, Weighting::kNaiveSoftmax, Weighting::kSoftmax}) {
    StepwiseAttention attention = SimpleAttention(form.backend(), 1, form.T(), form.C(), way);
    attention.Forward({}, form.x());
    const AttentionSteps& steps = attention.steps();
    const Tensor row = RowsOf(steps.weights, form.followed());
    weights.push_back(Doubles(row));
    weights.back().push_back(Total(row));
    contexts.push_back(RowOf(steps.context, form.followed()));
  }
  std::vector<std::string> columns = form.Tokens();
  columns.emplace_back("sum");
  form.Add(fmt::format("weights of “{}”, made in four ways", form.name()),
           "w = s,  s / Σ s,  exp(s) / Σ exp(s),  exp(s − max s) / Σ exp(s − max s)",
           Plain(StackedValues(weights, {.rows = kWays, .columns = columns})),
           "Scores as they are add up to anything; divided by their sum they add up to 1, but a "
           "negative score would be a negative share; softmax makes every share positive and "
           "favours the large ones.",
           FigureKind::kNone);
  form.Add(fmt::format("context of “{}” from each of them", form.name()), "context = Σ w[s] x[s]",
           Plain(StackedValues(contexts, {.rows = kWays, .columns = Elements(form)})),
           "Weights that do not add up to 1 blow the vector up (or shrink it); the others keep it "
           "inside the inputs that it is a mean of.",
           FigureKind::kNone);
}

void ShowOverflow(AttentionWalkthrough& form) {
  const StepTensor scores({1, 3}, {100, 1, 2});
  const StepTensor naive = NaiveSoftmax(scores.tensor());
  const StepTensor stable = Softmax(scores.tensor());
  Matrix values = Plain(
      StackedValues({Doubles(scores.tensor()), Doubles(naive.tensor()), Doubles(stable.tensor())},
                    {.rows = {"scores", "naive softmax", "softmax"}, .columns = Numbered(3, "s")}));
  values.masks = false;
  form.Add("why the naive softmax overflows",
           "exp(100) = 2.7e43 > 3.4e38 = the largest float32,  so inf / inf = nan",
           std::move(values),
           "Taking the largest score off first changes nothing in the result, since it cancels, "
           "and no exponential is larger than 1 then.",
           FigureKind::kNone);
}

void ShowAllTokens(AttentionWalkthrough& form, const AttentionSteps& steps) {
  form.Add("weights", "weights = softmax(scores), row by row",
           MatrixValues(steps.weights, form.ByTokens()),
           "Each row adds up to 1: it says which share of every token goes into the new vector of "
           "the row's token.");
  form.Add(
      fmt::format("context of “{}”", form.name()),
      fmt::format("context[{0}] = Σ weights[{0}, s] x[s]", form.name()),
      RowValues(RowOf(steps.context, form.followed()), {.columns = Elements(form)}),
      fmt::format("The new vector of “{}” is the mean of all inputs under its weights: the word "
                  "together with the company it keeps.",
                  form.name()),
      FigureKind::kNone);
  form.Add("context", "context = weights x",
           MatrixValues(steps.context, form.ByToken(Elements(form))),
           "One product of matrices gives the context of every token at once.");
}

// A query against keys and values: what a database returns, and what attention returns.
void ShowLookup(AttentionWalkthrough& form) {
  const StepTensor query({1, 2}, {1, 0}), keys({3, 2}, {1, 0, 0, 1, 1, 1});
  const StepTensor values({3, 2}, {0.1F, 0.9F, 0.2F, 0.8F, 0.3F, 0.7F});
  StepwiseAttention soft = DotProductAttention(form.backend(), 1, 1, 2, 1, 1, 3, {.scale = 1.0});
  soft.Forward({}, query.tensor(), keys.tensor(), values.tensor());
  StepTensor exact({1, 1, 1, 3}), found({1, 2});
  for (int64_t s = 0; s < 3; ++s) {
    exact.data()[s] = RowOf(keys.tensor(), s) == RowOf(query.tensor(), 0) ? 1.0F : 0.0F;
  }
  AttentionContext(exact.tensor(), values.tensor(), found.tensor());
  const AttentionSteps& steps = soft.steps();
  form.Section("A look-up that is never quite sure");
  form.Add("the query (1, 0) meets a database", "exact: key = query?    soft: softmax(query · key)",
           Plain(SideBySide(
               {keys.tensor(), values.tensor(), exact.tensor().Reshape({3, 1}),
                steps.scores.Reshape({3, 1}), steps.weights.Reshape({3, 1})},
               {.rows = Numbered(3, "entry "),
                .columns = {"key 0", "key 1", "value 0", "value 1", "exact", "score", "soft"}})),
           "A database compares the query with each key and answers with the value of the one that "
           "is equal; attention asks how alike they are and takes a share of every value.",
           FigureKind::kNone);
  form.Add("what both answer", "answer = Σ weight[s] value[s]",
           StackedValues({Doubles(found.tensor()), Doubles(steps.context)},
                         {.rows = {"exact", "soft"}, .columns = {"value 0", "value 1"}}),
           "The soft answer is a mixture; that makes it smooth, so that a gradient can say how "
           "keys, values and queries should change.",
           FigureKind::kNone);
}

constexpr int64_t kWide = 512;     // d_k of the experiment
constexpr int64_t kVectors = 256;  // queries, and keys

// scale * q k^T, one head.
StepTensor Scores(Backend& backend, const Tensor& q, const Tensor& k, double scale) {
  const StepTensor products({q.dim(0), k.dim(0)});
  backend.Run(LinearForward{.x = q, .weight = k, .out = products.tensor(), .transposed = true});
  return Scaled(products.tensor(), scale);
}

// Products of random vectors of 512 elements, and what softmax makes of large numbers.
void ShowWhyRoot(AttentionWalkthrough& form) {
  const double root = 1 / std::sqrt(static_cast<double>(kWide));
  StepTensor q({kVectors, kWide}), k({kVectors, kWide});
  const auto elements = static_cast<size_t>(kVectors * kWide);
  form.DrawNormal({q.data(), elements});
  form.DrawNormal({k.data(), elements});
  std::vector<std::vector<double>> rows;
  for (const double scale : {1.0, root}) {
    const StepTensor scores = Scores(form.backend(), q.tensor(), k.tensor(), scale);
    const NormalizedRow row =
        Normalized(form.backend(), scores.tensor().Reshape({1, kVectors * kVectors}));
    rows.push_back({row.mean, row.variance});
  }
  form.Section("Why the scores are divided by √d_k");
  form.Add("products of random vectors of 512 elements",
           "q, k ~ normal(0, 1),  d_k = 512:  var(q · k) = d_k",
           Plain(StackedValues(
               rows, {.rows = {"q · k", "q · k / √512"}, .columns = {"mean", "variance"}})),
           fmt::format("A sum of 512 independent products has the variance 512 (of these {} it is "
                       "{:.0f}); divided by √512 it has variance 1, whatever the size of the head.",
                       kVectors * kVectors, rows[0][1]),
           FigureKind::kNone);

  const StepTensor one({1, 1}, {1}), large({3, 1}, {10, 20, 30});
  rows.clear();
  for (const double scale : {1.0, root}) {
    const StepTensor scores = Scores(form.backend(), one.tensor(), large.tensor(), scale);
    rows.push_back(Doubles(Softmax(scores.tensor().Reshape({1, 3})).tensor()));
  }
  form.Add("softmax of large scores", "softmax(10, 20, 30)  and  softmax((10, 20, 30) / √512)",
           Scientific(
               StackedValues(rows, {.rows = {"plain", "divided"}, .columns = {"10", "20", "30"}})),
           "Large scores give everything to the largest one, and the gradient of a softmax that "
           "has made up its mind is almost zero: nothing would be learnt.",
           FigureKind::kNone);
}

void ShowProjections(AttentionWalkthrough& form, const AttentionParams& params,
                     const StepwiseAttention& head) {
  form.Add(
      "weights W_q, W_k and W_v",
      fmt::format("W_q, W_k, W_v: from {} elements to 2, random before training", form.C()),
      SideBySide(
          {params.q.weight, params.k.weight, params.v.weight},
          {.rows = Numbered(form.C(), "x"), .columns = ColumnsOf({"W_q", "W_k", "W_v"}, kOut)}),
      "Training changes these matrices; they let a token ask for something else (W_q) than what it "
      "is found by (W_k) and what it gives (W_v).");
  form.Add(
      "queries, keys and values", "q = x W_q,  k = x W_k,  v = x W_v",
      SideBySide({head.q(), head.k(), head.v()}, form.ByToken(ColumnsOf({"q", "k", "v"}, kOut))),
      "As in the look-up: the query is what a token looks for, the key what others find it "
      "by, the value what they get.");
}

// The weights that are masked after the softmax: whole, struck out, renormalised.
void ShowMaskAfter(AttentionWalkthrough& form, const AttentionSteps& steps, const Tensor& mask) {
  form.Add("weights of all on all", "softmax(q kᵀ / √d_k)",
           MatrixValues(steps.softmax, form.ByTokens()),
           "As before; the upper right half is knowledge of the future.");
  const StepTensor struck(steps.softmax.shape());
  ApplyMask(steps.softmax, mask, 0, struck.tensor());
  form.Add("weights with the future struck out", "weights · mask",
           Hidden(struck.tensor(), mask, form.ByTokens()),
           "Zeros where the mask is: but now the rows add up to less than 1.");
  form.Add("renormalised weights", "weights / Σ weights, row by row",
           Hidden(steps.weights, mask, form.ByTokens()),
           "Divided by its sum each row adds up to 1 again; nothing of the future is left, since "
           "the sum of the softmax that knew it cancels.");
}

void ShowMaskBefore(AttentionWalkthrough& form, const AttentionSteps& steps,
                    const AttentionSteps& after, const Tensor& mask) {
  form.Add("masked scores", "scores = q kᵀ / √d_k, −∞ where masked",
           MatrixValues(steps.masked, form.ByTokens()),
           "The shorter way: exp(−∞) = 0, so that softmax itself leaves the future out.");
  form.Add("weights", "weights = softmax(masked scores)",
           Hidden(steps.weights, mask, form.ByTokens()),
           "One pass less and no division by a small sum: this is how models do it.");
  const int64_t row = std::min<int64_t>(4, form.T() - 1);
  form.Add(fmt::format("both ways for “{}”", form.Token(row)), "exp(s) / Σ seen exp(s), either way",
           StackedValues({RowOf(after.weights, row), RowOf(steps.weights, row)},
                         {.rows = {"mask after", "mask before"}, .columns = form.Tokens()}),
           "The two agree to the last digits that float32 has.", FigureKind::kNone);
}

void ShowDropout(AttentionWalkthrough& form, StepwiseAttention& attention,
                 const AttentionParams& params, const Tensor& mask) {
  const double p = form.topic().dropout;
  attention.options().dropout = {
      .p = p, .seed = form.seed(), .stream = RngStream(RngPurpose::kDropout)};
  attention.Forward(params, form.x());
  form.Add("weights after dropout",
           fmt::format("kept weights · 1 / (1 − p),  p = {:g}: times {:.4g}", p, 1 / (1 - p)),
           Hidden(attention.steps().kept, mask, form.ByTokens()),
           "While it learns, a model forgets each weight with probability p, lest it rely on one; "
           "the others grow so that the sum stays the same in the mean.");
  form.Add("context after dropout", "context = kept weights v",
           MatrixValues(attention.steps().context, form.ByToken(Numbered(kOut, "c"))),
           "Other tokens are left out in every step of training; when the model writes, nothing is "
           "dropped.");
}

// `weights` are those of the head `number`, (T,T), before the mask hides them.
void AddWeights(AttentionWalkthrough& form, int number, const Tensor& weights, const Tensor& mask,
                std::string why) {
  form.Add(fmt::format("weights of head {}", number), "softmax(q kᵀ / √D), −∞ where masked",
           Hidden(weights, mask, form.ByTokens()), std::move(why));
}

// Two causal heads of 2 elements, drawn one after the other.
std::vector<AttentionWeights> DrawHeads(AttentionWalkthrough& form) {
  std::vector<AttentionWeights> heads;
  for (int h = 0; h < 2; ++h) {
    heads.push_back(form.Drawn({.d_in = form.C(), .d_out = 2}));
  }
  return heads;
}

std::vector<StepwiseAttention> RunStack(AttentionWalkthrough& form,
                                        std::span<const AttentionWeights> heads) {
  std::vector<StepwiseAttention> stack =
      StackedHeads(form.backend(), heads[0].sizes(), std::ssize(heads), 1, form.T());
  for (size_t h = 0; h < stack.size(); ++h) stack[h].Forward(heads[h].params(), form.x());
  return stack;
}

MatrixLabels ByHeadElement(const AttentionWalkthrough& form, int64_t each) {
  return form.ByToken(ColumnsOf({"head 0:", "head 1:"}, each));
}

// The stack's weights in one layer, and what it says about the last token.
void ShowJoined(AttentionWalkthrough& form) {
  const std::vector<AttentionWeights> heads = DrawHeads(form);
  const StepTensor stacked = SideBySide(RunStack(form, heads));
  const AttentionWeights joined = JoinHeads(heads);
  const AttentionMask mask = AttentionMask::Causal(form.T(), form.T());
  StepwiseAttention split =
      MultiHeadAttention(form.backend(), joined.sizes(), 1, form.T(), form.T(), {.mask = mask});
  const Tensor& out = split.Forward(joined.params(), form.x());
  const AttentionParams& params = joined.params();
  form.Add(
      "the stack's weights side by side",
      "W_q = [W_q of head 0 | W_q of head 1], W_k and W_v likewise",
      SideBySide({params.q.weight, params.k.weight, params.v.weight},
                 {.rows = Numbered(form.C(), "x"), .columns = ColumnsOf({"W_q", "W_k", "W_v"}, 4)}),
      "One large product is faster than many small ones: the heads of the stack are the "
      "columns of one matrix, which is split afterwards.");
  form.Add(
      fmt::format("“{}” by the stack and by the split layer", form.Token(form.T() - 1)),
      "concat(head 0(x), head 1(x)) = split(x)",
      StackedValues({RowOf(stacked.tensor(), form.T() - 1), RowOf(out, form.T() - 1)},
                    {.rows = {"stack", "split"}, .columns = ColumnsOf({"head 0:", "head 1:"}, 2)}),
      "The same numbers by both ways: splitting is nothing but book-keeping.", FigureKind::kNone);
}

constexpr int64_t kS = 5, kOther = 2;  // tokens of the other sequence and their elements

std::vector<std::string> OtherTokens() {
  return {"Deine", "Reise", "beginnt", "<pad>", "<pad>"};
}

// Queries from the walk's tokens, keys and values from another sequence that ends in padding.
void ShowCross(AttentionWalkthrough& form) {
  const StepTensor other({kS, kOther}, {0.31F, 0.92F, 0.84F, 0.27F, 0.56F, 0.68F, 0, 0, 0, 0});
  std::vector<uint8_t> real = {1, 1, 1, 0, 0};
  const Tensor key_mask(real.data(), {1, kS});
  const AttentionMask mask = AttentionMask::Combined(key_mask, form.T(), /*causal=*/false);
  const AttentionSizes sizes{
      .d_in = form.C(), .d_kv_in = kOther, .d_out = 2, .bias = true, .out_proj = true};
  const AttentionWeights weights = form.Drawn(sizes);
  StepwiseAttention cross =
      MultiHeadAttention(form.backend(), sizes, 1, form.T(), kS, {.mask = mask});
  const Tensor& out = cross.Forward(weights.params(), form.x(), other.tensor(), other.tensor());
  const MatrixLabels by_other{
      .rows = form.Tokens(), .columns = OtherTokens(), .row_axis = "query", .column_axis = "key"};

  form.Section("Cross-attention: queries here, keys and values there");
  form.Add(
      "the other sequence", "y: a vector of 2 numbers for each of 5 tokens",
      MatrixValues(other.tensor(),
                   {.rows = OtherTokens(), .columns = Numbered(kOther, "y"), .row_axis = "token"}),
      "A translator looks from its own words at the sentence that it translates; shorter sentences "
      "are filled up with padding, which must not count.");
  form.Add("scores", "scores = (x W_q)(y W_k)ᵀ / √d_k, −∞ at padding",
           MatrixValues(cross.steps().masked, by_other),
           fmt::format("{} queries meet 5 keys, so that the table need not be square; the padding "
                       "mask strikes out whole columns.",
                       form.T()));
  form.Add(
      "weights", "weights = softmax(scores)",
      Hidden(cross.steps().weights, mask.tensor(), by_other),
      "Every token of ours shares its attention among the three real words of the other sequence.");
  form.Add("output", "out = weights (y W_v) W_o + b_o",
           MatrixValues(out, form.ByToken(Numbered(2, "out "))),
           "A vector for each token of ours, made of nothing but the other sequence.");
}

// Self-attention of a sequence with padding in front, under both masks.
void ShowPaddedCausal(AttentionWalkthrough& form) {
  const int64_t pads = std::min<int64_t>(2, form.T() - 1), tokens_left = form.T() - pads;
  std::vector<float> padded(static_cast<size_t>(pads * form.C()));
  const std::vector<double> kept = Doubles(RowsOf(form.x(), 0, tokens_left));
  for (const double number : kept) padded.push_back(static_cast<float>(number));
  const StepTensor x({form.T(), form.C()}, padded);
  std::vector<uint8_t> real(static_cast<size_t>(form.T()), 1);
  std::fill_n(real.begin(), pads, uint8_t{0});
  const AttentionMask mask =
      AttentionMask::Combined(Tensor(real.data(), {1, form.T()}), form.T(), /*causal=*/true);
  const AttentionSizes sizes{.d_in = form.C(), .d_out = 2};
  const AttentionWeights weights = form.Drawn(sizes);
  StepwiseAttention layer =
      MultiHeadAttention(form.backend(), sizes, 1, form.T(), form.T(), {.mask = mask});
  layer.Forward(weights.params(), x.tensor());
  std::vector<std::string> tokens(static_cast<size_t>(pads), "<pad>");
  for (int64_t t = 0; t < tokens_left; ++t) tokens.push_back(form.Token(t));
  const MatrixLabels by_tokens{
      .rows = tokens, .columns = tokens, .row_axis = "query", .column_axis = "key"};

  form.Section("Both masks at once");
  form.Add("causal and padding mask",
           "mask[b, 0, t, s] = s ≤ t and key s of sequence b is no padding",
           MaskValues(mask.tensor(), by_tokens),
           "Texts of one batch that end together are filled up in front; the first rows are then "
           "left with nothing that they may see.");
  form.Add("weights under both masks", "softmax(scores), a row of −∞ gives zeros",
           MatrixValues(layer.steps().weights, by_tokens),
           "As the formula stands, a row of −∞ would be 0 / 0; it is defined as zeros, or else one "
           "nan would spread through the whole model.");
  form.Add("context under both masks", "context = weights v",
           MatrixValues(layer.steps().context,
                        {.rows = tokens, .columns = Numbered(2, "c"), .row_axis = "token"}),
           "Padding gets zeros, and no real token ever sees it.");
}

constexpr int64_t kH = 4, kG = 2, kD = 2;

std::vector<std::string> HeadLabels() {
  std::vector<std::string> labels;
  for (int64_t h = 0; h < kH; ++h) {
    labels.push_back("head " + std::to_string(h) + ", keys " + std::to_string(h / (kH / kG)));
  }
  return labels;
}

// Returns how many numbers of keys and values a cache keeps of each token, with kH, kG and one head
// of them.
std::vector<double> KeptNumbers(const AttentionWalkthrough& form) {
  std::vector<double> counts;
  for (const int64_t G : {kH, kG, int64_t{1}}) {
    const AttentionSizes sizes{.d_in = form.C(), .d_out = kH * kD, .H = kH, .G = G};
    counts.push_back(static_cast<double>(2 * sizes.kv_out()));
  }
  return counts;
}

void ExplainNoWeights(const AttentionTopic& topic, Backend& backend, Report& walk) {
  AttentionWalkthrough form(backend, topic, 123, walk);
  form.Section("Attention without weights");
  form.Add("inputs",
           fmt::format("x: a vector of {} numbers for each of {} tokens", form.C(), form.T()),
           MatrixValues(form.x(), form.ByToken(Elements(form))),
           std::string("A model knows a token only as a vector; similar tokens have vectors that "
                       "point in similar directions") +
               (form.own() ? "." : ", as “journey” and “starts” do here."));
  StepwiseAttention attention = SimpleAttention(backend, 1, form.T(), form.C());
  attention.Forward({}, form.x());
  const AttentionSteps& steps = attention.steps();
  const std::vector<double> row = RowOf(steps.scores, form.followed());
  form.Add(fmt::format("scores of “{}”", form.name()),
           fmt::format("s[{0}, {0}] = {1} = {2:.4f}", form.name(), Squares(form),
                       row[static_cast<size_t>(form.followed())]),
           RowValues(row, {.columns = form.Tokens(), .column_axis = "key"}),
           "The dot product of two vectors is large where both are large in the same places: it "
           "measures how much two tokens have to do with each other.",
           FigureKind::kBars);
  form.Add("scores", "scores = x xᵀ", MatrixValues(steps.scores, form.ByTokens()),
           "Each token asks (its row) and is asked (its column); without weights both are the "
           "same, and the table is symmetric.");
  CompareWeightings(form);
  ShowOverflow(form);
  ShowAllTokens(form, steps);
  ShowLookup(form);
}

void ExplainSingleHead(const AttentionTopic& topic, Backend& backend, Report& walk) {
  AttentionWalkthrough form(backend, topic, 123, walk);
  const AttentionSizes sizes{.d_in = form.C(), .d_out = kOut};
  const AttentionWeights weights = form.Drawn(sizes, AttentionDraws::kUnit);
  StepwiseAttention head = SelfAttention(backend, sizes, 1, form.T());
  head.Forward(weights.params(), form.x());

  form.Section("One head with trainable weights");
  ShowProjections(form, weights.params(), head);
  const StepTensor products = Scores(backend, head.q(), head.k(), 1);
  form.Add("products of queries and keys", "q kᵀ", MatrixValues(products.tensor(), form.ByTokens()),
           "How well each query fits each key; asking and being asked are two things now, and the "
           "table is no longer symmetric.");
  ShowWhyRoot(form);
  form.Section("One head, to its end");
  form.Add("scores", "scores = q kᵀ / √d_k,  d_k = 2",
           MatrixValues(head.steps().scores, form.ByTokens()),
           "The products, brought back to a size that softmax can tell apart.");
  form.Add("weights", "weights = softmax(scores), row by row",
           MatrixValues(head.steps().weights, form.ByTokens()),
           "Each row says how much of every token's value the row's token takes.");
  form.Add("context", "context = weights v",
           MatrixValues(head.steps().context, form.ByToken(Numbered(kOut, "c"))),
           "What the head hands on: 2 numbers for each token, made from the values of all.");
}

void ExplainCausal(const AttentionTopic& topic, Backend& backend, Report& walk) {
  AttentionWalkthrough form(backend, topic, 789, walk);
  const AttentionSizes sizes{.d_in = form.C(), .d_out = kOut};
  const AttentionWeights weights = form.Drawn(sizes);
  StepwiseAttention after =
      CausalAttention(backend, sizes, 1, form.T(), {.mask_order = MaskOrder::kAfterSoftmax});
  after.Forward(weights.params(), form.x());
  StepwiseAttention before = CausalAttention(backend, sizes, 1, form.T());
  before.Forward(weights.params(), form.x());
  const AttentionMask mask = AttentionMask::Causal(form.T(), form.T());

  form.Section("Causal attention: no look ahead");
  form.Add("causal mask", "mask[t, s] = 1 where s ≤ t", MaskValues(mask.tensor(), form.ByTokens()),
           "A model that learns to say the next token must not see it: each token may attend to "
           "itself and to what came before.");
  ShowMaskAfter(form, after.steps(), mask.tensor());
  ShowMaskBefore(form, before.steps(), after.steps(), mask.tensor());
  form.Add("context", "context = weights v",
           MatrixValues(before.steps().context, form.ByToken(Numbered(kOut, "c"))),
           "The first token has only itself to look at: its context is its own value.");
  ShowDropout(form, before, weights.params(), mask.tensor());
}

void ExplainStacked(const AttentionTopic& topic, Backend& backend, Report& walk) {
  AttentionWalkthrough form(backend, topic, 123, walk);
  const std::vector<AttentionWeights> heads = DrawHeads(form);
  const std::vector<StepwiseAttention> stack = RunStack(form, heads);
  const StepTensor out = SideBySide(stack);
  const AttentionMask mask = AttentionMask::Causal(form.T(), form.T());

  form.Section("Several heads, stacked");
  AddWeights(form, 0, stack[0].steps().weights, mask.tensor(),
             "The first head has W_q, W_k and W_v of its own.");
  AddWeights(form, 1, stack[1].steps().weights, mask.tensor(),
             "The second head was drawn with other numbers and looks elsewhere: each head can "
             "learn a question of its own.");
  form.Add("contexts of both, side by side", "out = concat(head 0(x), head 1(x))",
           MatrixValues(out.tensor(), ByHeadElement(form, 2)),
           "What the heads found is put side by side: 2 heads of 2 elements give 4.");
}

void ExplainSplit(const AttentionTopic& topic, Backend& backend, Report& walk) {
  AttentionWalkthrough stack_form(backend, topic, 123, walk);
  stack_form.Section("Several heads, split from one projection");
  ShowJoined(stack_form);

  AttentionWalkthrough form(backend, topic, 123, walk);
  const AttentionSizes sizes{.d_in = form.C(), .d_out = 2, .H = 2, .out_proj = true};
  const AttentionWeights weights = form.Drawn(sizes);
  const AttentionMask mask = AttentionMask::Causal(form.T(), form.T());
  StepwiseAttention layer =
      MultiHeadAttention(backend, sizes, 1, form.T(), form.T(), {.mask = mask});
  const Tensor& out = layer.Forward(weights.params(), form.x());
  const Tensor& all = layer.steps().weights;
  AddWeights(form, 0, RowsOf(all, 0, form.T()), mask.tensor(),
             "A layer of d_out = 2 with 2 heads has D = d_out / H = 1 element for each; d_out must "
             "be a multiple of the heads.");
  AddWeights(form, 1, RowsOf(all, form.T(), form.T()), mask.tensor(),
             "Again the second head weighs the tokens in its own way.");
  form.Add("contexts of both heads", "concat(head 0, head 1)",
           MatrixValues(layer.steps().context, ByHeadElement(form, 1)),
           "Side by side again; so far no head knows what the other found.");
  form.Add("output", "out = concat(head 0, head 1) W_o + b_o",
           MatrixValues(out, form.ByToken(Numbered(2, "out "))),
           "The output projection mixes what the heads found into one vector: this is the layer "
           "that GPT-2 has in each block.");
}

void ExplainCross(const AttentionTopic& topic, Backend& backend, Report& walk) {
  AttentionWalkthrough form(backend, topic, 123, walk);
  ShowCross(form);
  ShowPaddedCausal(form);
}

void ExplainGrouped(const AttentionTopic& topic, Backend& backend, Report& walk) {
  AttentionWalkthrough form(backend, topic, 123, walk);
  const AttentionSizes sizes{
      .d_in = form.C(), .d_out = kH * kD, .H = kH, .G = kG, .out_proj = true};
  const AttentionWeights weights = form.Drawn(sizes);
  const AttentionMask mask = AttentionMask::Causal(form.T(), form.T());
  StepwiseAttention layer =
      MultiHeadAttention(backend, sizes, 1, form.T(), form.T(), {.mask = mask});
  const Tensor& out = layer.Forward(weights.params(), form.x());

  form.Section("Grouped-query heads");
  form.Add("queries of 4 heads", fmt::format("q = x W_q,  W_q: {0} × H·D = {0} × 8", form.C()),
           MatrixValues(layer.q(), form.ByToken(ColumnsOf({"q0", "q1", "q2", "q3"}, kD))),
           "Each of the 4 heads asks a question of its own.");
  form.Add(
      "keys and values of 2 groups",
      fmt::format("k = x W_k,  v = x W_v,  W_k and W_v: {0} × G·D = {0} × 4", form.C()),
      SideBySide({layer.k(), layer.v()}, form.ByToken(ColumnsOf({"k0", "k1", "v0", "v1"}, kD))),
      "Heads 0 and 1 share the first keys and values, heads 2 and 3 the second.");
  std::vector<std::vector<double>> rows;
  for (int64_t h = 0; h < kH; ++h)
    rows.push_back(RowOf(layer.steps().weights, h * form.T() + form.T() - 1));
  form.Add(fmt::format("weights of “{}” in each head", form.Token(form.T() - 1)),
           "softmax(q[h] k[h / (H/G)]ᵀ / √D)",
           StackedValues(rows, {.rows = HeadLabels(),
                                .columns = form.Tokens(),
                                .row_axis = "head",
                                .column_axis = "key"}),
           "The same keys, but different questions: heads of one group still weigh the tokens "
           "differently.");
  form.Add("output", "out = concat(heads) W_o + b_o",
           MatrixValues(out, form.ByToken(Numbered(kH * kD, "out "))),
           "To the rest of the model nothing has changed.");
  Matrix kept =
      RowValues(KeptNumbers(form), {.columns = {"G = 4: own", "G = 2: grouped", "G = 1: one"}});
  kept.digits = 0;
  form.Add("numbers to keep for each token", "keys and values: 2 · G · D,  D = 2", std::move(kept),
           "A model that writes keeps keys and values of all tokens so far; with shared ones the "
           "memory for long texts shrinks by H / G.",
           FigureKind::kBars);
}

struct Form {
  const char* name;
  void (*walk)(const AttentionTopic& topic, Backend& backend, Report& walk);
};

constexpr Form kForms[] = {
    {"no-weights", ExplainNoWeights}, {"single-head", ExplainSingleHead},
    {"causal", ExplainCausal},        {"stacked", ExplainStacked},
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
                       " Attention makes a new vector for each token out of all of them. "
                       "Each form below adds one idea to the one before it; every number was "
                       "computed just now by the code that models run on."};
  for (const Form& form : kForms) {
    if (!topic.form || *topic.form == form.name) form.walk(topic, backend, walk);
  }
  return walk;
}

}  // namespace folio
