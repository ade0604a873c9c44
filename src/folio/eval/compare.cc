#include "folio/eval/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "folio/base/error.h"
#include "folio/base/math.h"
#include "folio/base/strings.h"
#include "folio/eval/predictions.h"
#include "folio/infer/token_probabilities.h"
#include "folio/io/json.h"

namespace folio {
namespace {

// The numbers of a prediction.
enum : size_t { kDivergence, kNatsA, kNatsB, kSameTop, kCompared };

void ComparePrediction(Predictor::Rows rows, int32_t id, std::span<double> numbers) {
  const auto at = static_cast<size_t>(id);
  const double log_sum_a = LogSum(rows[0]), log_sum_b = LogSum(rows[1]);
  numbers[kDivergence] = Divergence(rows[0], log_sum_a, rows[1], log_sum_b);
  numbers[kNatsA] = log_sum_a - rows[0][at];
  numbers[kNatsB] = log_sum_b - rows[1][at];
  numbers[kSameTop] = LikeliestToken(rows[0]) == LikeliestToken(rows[1]) ? 1 : 0;
}

}  // namespace

void RequireComparable(const OpenedModel& a, const OpenedModel& b) {
  const auto refuse = [&](std::string cause) {
    throw InputError(fmt::format("{} and {} cannot be compared", a.path.string(), b.path.string()),
                     std::move(cause), "models are compared that predict the same tokens");
  };
  const int64_t V_a = a.weights->config().vocab_size, V_b = b.weights->config().vocab_size;
  if (V_a != V_b) refuse(fmt::format("their vocabularies have {} and {} tokens", V_a, V_b));
  if (a.tokenizer == nullptr || b.tokenizer == nullptr) return;
  if (a.tokenizer->hash() == b.tokenizer->hash()) return;
  refuse(fmt::format("their tokenizers are different ones, of hash {} and {}", a.tokenizer->hash(),
                     b.tokenizer->hash()));
}

ModelComparison CompareModels(const OpenedModel& a, const OpenedModel& b,
                              std::span<const MeasuredText> texts, const ReadingOptions& options,
                              const MeasureHooks& hooks, Group* group) {
  RequireComparable(a, b);
  Predictor predictor({{a.backend.get(), a.weights.get()}, {b.backend.get(), b.weights.get()}},
                      options.positions, kCompared, ComparePrediction, group);
  if (!predictor.first()) {
    predictor.Serve();
    return {};
  }
  ReadingOptions reading = options;
  reading.positions = predictor.positions();
  const Tokenizer* tokenizer = a.tokenizer ? a.tokenizer.get() : b.tokenizer.get();
  ModelComparison result;
  std::vector<double> divergences;
  double nats_a = 0, nats_b = 0, kl = 0, differences = 0;
  int64_t same = 0;
  MeasureProgress progress = ProgressOver(texts, options.max_tokens);
  const auto take = [&](std::span<const TextWindow> windows) {
    const std::vector<double> compared = predictor.Run(windows);
    for (auto one = compared.begin(); one != compared.end(); one += kCompared) {
      divergences.push_back(one[kDivergence]);
      kl += one[kDivergence];
      result.kl_max = std::max(result.kl_max, one[kDivergence]);
      nats_a += one[kNatsA];
      nats_b += one[kNatsB];
      differences += std::abs(one[kNatsA] - one[kNatsB]);
      same += one[kSameTop] != 0;
    }
    for (const TextWindow& window : windows) {
      for (const int32_t id : window.targets) {
        const bool known = tokenizer != nullptr && id < tokenizer->vocab_size();
        progress.done += progress.unit == "token" ? 1
                         : known                  ? std::ssize(tokenizer->TokenBytes(id))
                                                  : 0;
      }
      progress.tokens += std::ssize(window.targets);
    }
    progress.nats_per_token = nats_a / static_cast<double>(progress.tokens);
    if (hooks.on_progress) hooks.on_progress(progress);
  };
  ReadWindows(texts, tokenizer, a.weights->config().vocab_size, reading, take);
  const auto N = static_cast<double>(divergences.size());
  result.tokens = std::ssize(divergences);
  result.kl_mean = kl / N;
  result.kl_median = Percentile(divergences, 0.5);
  result.kl_95 = Percentile(divergences, 0.95);
  result.kl_99 = Percentile(std::move(divergences), 0.99);
  result.same_top = static_cast<double>(same) / N;
  result.perplexity_a = std::exp(nats_a / N);
  result.perplexity_b = std::exp(nats_b / N);
  result.log_probability_difference = differences / N;
  return result;
}

std::string DescribeComparison(const OpenedModel& a, const OpenedModel& b,
                               const ModelComparison& comparison, const WindowShape& shape,
                               bool json) {
  const ModelComparison& c = comparison;
  const double ratio = c.perplexity_b / c.perplexity_a;
  if (json) {
    const Json all = {{"schema", 1},
                      {"model_a", a.path.string()},
                      {"model_b", b.path.string()},
                      {"context", shape.context},
                      {"stride", shape.stride},
                      {"tokens", c.tokens},
                      {"kl",
                       {{"mean", c.kl_mean},
                        {"median", c.kl_median},
                        {"p95", c.kl_95},
                        {"p99", c.kl_99},
                        {"max", c.kl_max}}},
                      {"same_top", c.same_top},
                      {"perplexity_a", c.perplexity_a},
                      {"perplexity_b", c.perplexity_b},
                      {"perplexity_ratio", ratio},
                      {"log_probability_difference", c.log_probability_difference}};
    return all.dump() + "\n";
  }
  std::string text = fmt::format("tokens        {}\n", WithCommas(c.tokens));
  text += fmt::format("KL(A||B)      {:.6f} nats, at most {:.6f}\n", c.kl_mean, c.kl_max);
  text += fmt::format("  50, 95, 99% {:.6f}, {:.6f}, {:.6f}\n", c.kl_median, c.kl_95, c.kl_99);
  text += fmt::format("same likeliest token {:.3f}%\n", 100 * c.same_top);
  text += fmt::format("perplexity    {:.4f} and {:.4f}, ratio {:.6f}\n", c.perplexity_a,
                      c.perplexity_b, ratio);
  text +=
      fmt::format("ln p of the right token differs by {:.6f} nats\n", c.log_probability_difference);
  return text;
}

}  // namespace folio
