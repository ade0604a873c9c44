#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "folio/eval/perplexity.h"
#include "folio/report/report.h"

namespace folio {

// ModelComparison says how far the predictions of model B are from those of model A, at every token
// of the texts but the first of each document.
struct ModelComparison {
  int64_t tokens = 0;
  double kl_mean = 0, kl_max = 0;              // of KL(A||B), nats
  double kl_median = 0, kl_95 = 0, kl_99 = 0;  // quantiles, linear between neighbours
  double same_top = 0;                         // part of the predictions with one likeliest token
  double perplexity_a = 0, perplexity_b = 0;
  double log_probability_difference = 0;  // mean of |ln p_A - ln p_B| of the right token, nats
};

// Both models see the same windows. Throws a kInput Error where they have different vocabularies or
// tokenizers, and as ReadWindows and Predictor do. Keeps 8 bytes for each token, for the quantiles;
// no bit depends on batches, threads or ranks (`group` as in PerplexityOptions).
ModelComparison CompareModels(const OpenedModel& a, const OpenedModel& b,
                              std::span<const MeasuredText> texts, const ReadingOptions& options,
                              const MeasureHooks& hooks = {}, Group* group = nullptr);

// Throws the kInput Error of CompareModels where two models cannot be compared.
void RequireComparable(const OpenedModel& a, const OpenedModel& b);

Report ComparisonReport(const OpenedModel& a, const OpenedModel& b, const ModelComparison& c,
                        const WindowShape& shape);

}  // namespace folio
