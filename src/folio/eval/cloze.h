#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "folio/eval/cloze_items.h"
#include "folio/eval/perplexity.h"

namespace folio {

// ClozeAccuracy counts the items that a model gets right by one way of choosing.
struct ClozeAccuracy {
  int64_t right = 0, items = 0;

  double part() const { return static_cast<double>(right) / static_cast<double>(items); }
  // Returns the standard error of the mean, from the sample (n - 1), as lm-eval gives it; NaN for a
  // single item.
  double standard_error() const;
};

// ClozeResult has the accuracy by each number that an ending may be chosen by, the first of the
// largest.
struct ClozeResult {
  ClozeAccuracy acc;        // sum of its tokens' ln p (lm-eval's acc)
  ClozeAccuracy acc_norm;   // that, for each character of the ending (lm-eval's acc_norm)
  ClozeAccuracy acc_token;  // that, for each of its tokens (llm.c's acc_norm)
};

struct ClozeOptions {
  ClozeText text = ClozeText::kAsIs;
  int64_t positions = 0;  // tokens that run at once, about
  TextOptions reading = {};
  // A line of JSON for each item: its number, label, what was chosen in the three ways, and of each
  // ending ln p, tokens and characters. Empty for none. With it a call that was interrupted goes on
  // where it stopped.
  std::filesystem::path out = {};
  Group* group = nullptr;  // as PerplexityOptions
};

// Measures on the items of a file of JSON lines (of any kind that TextStream reads). No bit of the
// result depends on batches, threads, ranks or interruptions. Throws a kInput Error for a model
// without a tokenizer, a file without items and as ParseClozeItem and ClozeWindows do.
ClozeResult MeasureCloze(const OpenedModel& model, const std::string& file,
                         const ClozeOptions& options, const MeasureHooks& hooks = {});

std::string DescribeCloze(const OpenedModel& model, const std::string& file,
                          const ClozeResult& result, bool json);

}  // namespace folio
