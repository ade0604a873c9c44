#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "folio/base/rng.h"
#include "folio/lesson/attention_steps.h"
#include "folio/lesson/step_ops.h"
#include "folio/lesson/topics.h"

namespace folio {
namespace {

constexpr int64_t kWidth = 512;  // of the queries and keys whose products are looked at

class SoftmaxWalk {
 public:
  SoftmaxWalk(Backend& backend, std::span<const float> logits)
      : backend_(backend),
        S_(static_cast<int64_t>(logits.size())),
        x_({1, S_}, logits),
        largest_(*std::ranges::max_element(logits)),
        safe_(Softmax(x_.tensor())) {
    for (const float logit : logits) labels_.push_back(fmt::format("{:g}", logit));
  }

  Report Make() {
    walk_.topic = "softmax";
    walk_.title = "Softmax: from any numbers to shares";
    walk_.intro =
        "Softmax turns a row of numbers into shares that are positive and add up to 1; the larger "
        "a number, the larger its share. Attention uses it to decide how much of each token to "
        "take, and the end of the model to make probabilities of its logits.";
    Definition();
    Overflow();
    Shift();
    Scale();
    Slopes();
    Products();
    return std::move(walk_);
  }

 private:
  Matrix Row(const StepTensor& x) const {
    return RowValues(Doubles(x.tensor()), {.columns = labels_, .column_axis = "x"});
  }

  void Definition() {
    walk_.Add("logits", "x", Row(x_), "Any numbers will do: only how far they are apart counts.",
              FigureKind::kNone);
    Matrix naive = Scientific(Row(NaiveSoftmax(x_.tensor())));
    naive.masks = false;
    walk_.Add("naive softmax", "exp(x) / Σ exp(x)", std::move(naive),
              "The exponential makes every number positive and a lead of 10 a ratio of 22026; "
              "dividing by the sum makes shares of them.",
              FigureKind::kNone);
  }

  void Overflow() {
    // The shift makes the largest 100.
    const double shift = 100.0 - static_cast<double>(largest_);
    const StepTensor moved = Shifted(backend_, x_.tensor(), shift);
    Matrix naive = Scientific(StackedValues(
        {Doubles(NaiveSoftmax(moved.tensor()).tensor()), Doubles(Softmax(moved.tensor()).tensor())},
        {.rows = {"naive", "safe"}, .columns = labels_}));
    naive.masks = false;
    walk_.Add("overflow", fmt::format("softmax(x {} {:g})", shift < 0 ? "−" : "+", std::abs(shift)),
              std::move(naive),
              "Adding the same number to all must change nothing, but exp(89) is more than a "
              "float32 can hold: the naive formula divides infinity by infinity, and one such row "
              "ruins a whole model.",
              FigureKind::kNone);
  }

  void Shift() {
    walk_.Add("shifted", "x − max(x)", Row(Shifted(backend_, x_.tensor(), -largest_)),
              "So the largest is taken off first: it becomes 0 and its exponential 1, and the "
              "others can only be smaller.",
              FigureKind::kNone);
    walk_.Add("softmax", "exp(x − max(x)) / Σ exp(x − max(x))", Scientific(Row(safe_)),
              "The same shares as by the naive formula, for numbers of any size.",
              FigureKind::kBars);
    walk_.Add("sum", "Σ softmax(x)", Plain(RowValues({Total(safe_.tensor())})),
              "Shares of a whole add up to 1.", FigureKind::kNone);
  }

  void Scale() {
    const StepTensor scaled = Scaled(x_.tensor(), 1 / std::sqrt(double{kWidth}));
    walk_.Add("scaled", "x / √512", Row(scaled),
              "Attention divides its scores by the root of the width of the queries and keys, here "
              "512, before it takes their softmax.",
              FigureKind::kNone);
    walk_.Add("softmax of the scaled", "softmax(x / √512)", Row(Softmax(scaled.tensor())),
              "What was nearly all for one becomes a mixture: every token is heard, and the "
              "largest still counts most.",
              FigureKind::kBars);
    constexpr std::array<double, 6> kTemperatures = {0.5, 1, 2, 5, 10, 100};
    std::vector<std::vector<double>> rows;
    std::vector<std::string> labels;
    for (const double temperature : kTemperatures) {
      const StepTensor divided = Scaled(x_.tensor(), 1 / temperature);
      rows.push_back(Doubles(Softmax(divided.tensor()).tensor()));
      labels.push_back(fmt::format("{:g}", temperature));
    }
    walk_.Add("temperatures", "softmax(x / temperature)",
              StackedValues(rows, {.rows = labels, .columns = labels_, .row_axis = "temperature"}),
              "The same division under another name: a low temperature gives all to the largest, a "
              "high one makes all equal.");
  }

  // Returns for each share how much it changes with its own logit.
  std::vector<double> OwnSlopes(const StepTensor& shares) const {
    std::vector<double> slopes;
    for (int64_t i = 0; i < S_; ++i) {
      StepTensor d_out({1, S_});
      const StepTensor d_x({1, S_});
      d_out.data()[i] = 1;
      SoftmaxBackward(shares.tensor(), d_out.tensor(), d_x.tensor());
      slopes.push_back(Doubles(d_x.tensor())[static_cast<size_t>(i)]);
    }
    return slopes;
  }

  void Slopes() {
    const StepTensor scaled = Scaled(x_.tensor(), 1 / std::sqrt(double{kWidth}));
    walk_.Add("slopes", "d softmax(x)_i / d x_i",
              StackedValues({OwnSlopes(safe_), OwnSlopes(Softmax(scaled.tensor()))},
                            {.rows = {"softmax(x)", "softmax(x/√512)"}, .columns = labels_}),
              "Where one share is nearly 1 all slopes are nearly 0 and nothing can be learnt; "
              "scaled scores keep slopes that learning can use.",
              FigureKind::kNone);
  }

  // The spread of q · k for queries and keys of independent normal entries.
  void Products() {
    constexpr int64_t kRows = 64;
    StepTensor q({kRows, kWidth}), k({kRows, kWidth});
    const CounterRng numbers(123, 0);
    for (int64_t i = 0; i < kRows * kWidth; ++i) {
      q.data()[i] = static_cast<float>(numbers.Normal(static_cast<uint64_t>(2 * i)));
      k.data()[i] = static_cast<float>(numbers.Normal(static_cast<uint64_t>(2 * i + 1)));
    }
    const StepTensor products({1, 1, kRows, kRows});
    std::vector<double> variances;
    for (const double scale : {1.0, 1 / std::sqrt(double{kWidth})}) {
      AttentionScores(q.tensor(), k.tensor(), scale, products.tensor());
      variances.push_back(
          Normalized(backend_, products.tensor().Reshape({1, kRows * kRows}), {}, {}, 0).variance);
    }
    walk_.Add("why the root of the width",
              "variance over 64 × 64 products of vectors of 512 standard normal numbers",
              Plain(RowValues(std::move(variances), {.columns = {"q · k", "q · k / √512"}})),
              "A sum of 512 products of variance 1 has variance 512: dividing by √512 brings it "
              "back to 1, whatever the width, and softmax does not begin as a hard choice.",
              FigureKind::kNone);
  }

  Backend& backend_;
  int64_t S_;
  StepTensor x_;
  double largest_;
  StepTensor safe_;
  std::vector<std::string> labels_;  // the logits themselves
  Report walk_ = {};
};

}  // namespace

Report ExplainSoftmax(Backend& backend, std::span<const float> logits) {
  RequireNumbers(logits);
  return SoftmaxWalk(backend, logits).Make();
}

}  // namespace folio
