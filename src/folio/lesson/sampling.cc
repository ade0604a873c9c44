#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "folio/base/rng.h"
#include "folio/base/strings.h"
#include "folio/inspect/trace.h"
#include "folio/lesson/attention_steps.h"
#include "folio/lesson/lessons.h"
#include "folio/lesson/walk_parts.h"

namespace folio {
namespace {

constexpr size_t kShown = 16;  // tokens, at most
constexpr double kCut = std::numeric_limits<double>::quiet_NaN();

class SamplingSteps {
 public:
  SamplingSteps(Backend& backend, const LabelledLogits& row, const SamplingOptions& options,
                Report& walk)
      : backend_(backend),
        row_(row),
        options_(options),
        walk_(walk),
        V_(static_cast<int64_t>(row.logits.size())),
        x_({1, V_}, row.logits) {
    // All tokens in order, or the likeliest first.
    const auto sorted = Candidates({});
    for (size_t i = 0; i < std::min(kShown, sorted.size()); ++i) shown_.push_back(sorted[i].id);
    if (row.logits.size() <= kShown) std::ranges::sort(shown_);
    largest_ = sorted.front().logit;
  }

  void Add() {
    AddRow("logits", "logits", Doubles(x_),
           fmt::format("One number for each of {} tokens{}: how strongly the model expects it "
                       "next, on a scale on which only differences count.",
                       WithCommas(V_), Rest()));
    if (options_.temperature == 0) {
      AddKept("greedy", "temperature 0: the largest logit", Candidates(options_),
              "No draw at all: the likeliest token is taken, and the same text comes every time.");
      return;
    }
    Temperature();
    if (options_.top_k > 0) TopK();
    if (options_.top_p < 1) TopP();
    AddKept("candidates", "p / Σ p of the tokens that are left", Candidates(options_),
            "What the cuts have left is divided by its sum, so that it adds up to 1 again.");
    Draw();
  }

 private:
  std::vector<Candidate> Candidates(const SamplingOptions& options) const {
    Sampler sampler(options);
    const std::span<const Candidate> candidates = sampler.Candidates(row_.logits);
    return {candidates.begin(), candidates.end()};
  }
  std::vector<std::string> Labels() const {
    std::vector<std::string> labels;
    for (const int32_t id : shown_) labels.push_back(row_.label(id));
    return labels;
  }
  std::string Rest() const {
    if (static_cast<size_t>(V_) == shown_.size()) return "";
    return fmt::format(" (the {} likeliest are shown)", shown_.size());
  }
  std::vector<double> Picked(const std::vector<double>& all) const {
    std::vector<double> picked;
    for (const int32_t id : shown_) picked.push_back(all[static_cast<size_t>(id)]);
    return picked;
  }

  void AddRow(std::string name, std::string formula, const std::vector<double>& numbers,
              std::string why) {
    walk_.Add(std::move(name), std::move(formula),
              RowValues(Picked(numbers), {.columns = Labels()}), std::move(why), FigureKind::kBars);
  }

  // The probabilities of `kept`; the others are cut.
  void AddKept(std::string name, std::string formula, const std::vector<Candidate>& kept,
               std::string why) {
    std::vector<double> all(static_cast<size_t>(V_), kCut);
    for (const Candidate& c : kept) all[static_cast<size_t>(c.id)] = c.probability;
    AddRow(std::move(name), std::move(formula), all, std::move(why));
  }

  void Temperature() {
    const StepTensor shifted = Shifted(backend_, x_, -static_cast<double>(largest_));
    // The factor must be a float32: beyond it only the largest logit remains anyway.
    const double factor = std::min(1 / options_.temperature, 1e38);
    const StepTensor scaled = Scaled(shifted, factor);
    std::vector<double> divided = Picked(Doubles(scaled));
    walk_.AddNumbers(
        "divided by the temperature",
        fmt::format("(logits − max(logits)) / {:g}", options_.temperature),
        MatrixValues(Tensor(divided.data(), {std::ssize(divided), 1}), {.rows = Labels()}),
        "A temperature below 1 stretches the differences and makes the model surer, one above 1 "
        "shrinks them and makes it bolder; taking the largest off first changes no probability.");
    AddRow("probabilities", "p = softmax(…)", Doubles(Softmax(scaled)),
           "Shares that add up to 1 over all tokens.");
  }

  void TopK() {
    const auto kept = Candidates({.temperature = options_.temperature, .top_k = options_.top_k});
    AddKept("top-k", fmt::format("the {} likeliest stay", options_.top_k), kept,
            fmt::format("{} of {} tokens are left: the long tail of unlikely ones is large enough "
                        "together to be drawn now and then, and one of them can spoil a text.",
                        WithCommas(std::ssize(kept)), WithCommas(V_)));
  }

  void TopP() {
    const auto sorted = Candidates({.temperature = options_.temperature, .top_k = options_.top_k});
    const auto kept = Candidates(options_);
    std::vector<std::vector<double>> rows;
    std::vector<std::string> labels;
    double sum = 0;
    for (size_t i = 0; i < std::min(kShown, sorted.size()); ++i) {
      sum += sorted[i].probability;
      rows.push_back({sorted[i].probability, sum, i < kept.size() ? sorted[i].probability : kCut});
      labels.push_back(row_.label(sorted[i].id));
    }
    walk_.AddNumbers(
        "top-p", fmt::format("the likeliest stay, until their sum reaches {:g}", options_.top_p),
        StackedValues(rows, {.rows = labels, .columns = {"p", "sum so far", "stays"}}),
        fmt::format("{} of {} are left: few where the model is sure, many where it is not, which "
                    "no fixed number of tokens can do.",
                    WithCommas(std::ssize(kept)), WithCommas(std::ssize(sorted))));
  }

  void Draw() {
    const auto kept = Candidates(options_);
    const double u = CounterRng(options_.seed, RngStream(RngPurpose::kSampling, 0)).Uniform(0);
    Sampler sampler(options_);
    const int32_t drawn = sampler.Sample(row_.logits, 0, 0);
    std::vector<std::vector<double>> rows;
    std::vector<std::string> labels;
    double from = 0;
    for (size_t i = 0; i < std::min(kShown, kept.size()); ++i) {
      rows.push_back({from, from + kept[i].probability, kept[i].id == drawn ? u : kCut});
      labels.push_back(row_.label(kept[i].id));
      from += kept[i].probability;
    }
    walk_.AddNumbers(
        "draw", fmt::format("u = {:.4f} (seed {}) → “{}”", u, options_.seed, row_.label(drawn)),
        Plain(StackedValues(rows, {.rows = labels, .columns = {"from", "to", "u"}})),
        "The candidates are laid side by side from 0 to 1, and a random number u falls on one of "
        "them: on each as often as its probability says.");

    std::vector<double> ids;
    std::vector<std::string> texts;
    for (uint64_t position = 0; position < 10; ++position) {
      const int32_t id = sampler.Sample(row_.logits, 0, position);
      ids.push_back(id);
      texts.push_back(row_.label(id));
    }
    walk_.AddNumbers("ten draws", "ids for ten random numbers",
                     Plain(MatrixValues(Tensor(ids.data(), {std::ssize(ids), 1}),
                                        {.rows = texts, .columns = {"id"}}),
                           0),
                     "Another random number, another token: the same model and the same text go on "
                     "in many ways.");
  }

  Backend& backend_;
  const LabelledLogits& row_;
  const SamplingOptions& options_;
  Report& walk_;
  int64_t V_;
  StepTensor x_;
  std::vector<int32_t> shown_;
  float largest_ = 0;
};

Report Begin() {
  return {.topic = "sampling",
          .title = "Sampling: from logits to the next token",
          .intro =
              "A model does not say what comes next: it gives every token a number. How a token is "
              "chosen from these numbers is not learnt but set, by a temperature, by cuts and by a "
              "random number."};
}

}  // namespace

void AddSamplingSteps(Backend& backend, const LabelledLogits& row, const SamplingOptions& options,
                      Report& walk) {
  SamplingSteps(backend, row, options, walk).Add();
}

Report ExplainSampling(Backend& backend, std::span<const float> logits,
                       std::span<const std::string> labels, const SamplingOptions& sampling) {
  RequireNumbers(logits);
  FOLIO_CHECK(labels.empty() || labels.size() == logits.size(), "a label for each logit");
  Report walk = Begin();
  const auto label = [&](int32_t id) {
    return labels.empty() ? "#" + std::to_string(id) : labels[static_cast<size_t>(id)];
  };
  AddSamplingSteps(backend, {logits, label}, sampling, walk);
  return walk;
}

Report ExplainSampling(Backend& backend, const LessonModel& model, std::string_view text,
                       const SamplingOptions& sampling) {
  const ModelTokens tokens = TokensOf(model, text);
  const Trace trace(backend, *model.weights, tokens.ids,
                    {TracePoint::kEmbedded, TracePoint::kOutput});
  std::vector<float> logits(static_cast<size_t>(trace.config().vocab_size));
  trace.Logits(trace.Stream(trace.config().n_layer), tokens.last(), tokens.last() + 1,
               Tensor(logits.data(), {1, trace.config().vocab_size}));
  Report walk = Begin();
  const auto label = [&](int32_t id) { return IdLabel(*model.tokenizer, id); };
  AddSamplingSteps(backend, {logits, label}, sampling, walk);
  return walk;
}

}  // namespace folio
