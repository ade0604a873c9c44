#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "folio/eval/measured_text.h"
#include "folio/infer/opened_model.h"

namespace folio {

class Group;

// TextPerplexity says how well a model predicts a text: every token of each document but its first,
// which nothing comes before.
struct TextPerplexity {
  std::string name;
  int64_t documents = 0;
  int64_t tokens = 0;  // that were predicted
  int64_t bytes = 0;   // of those; 0 where the tokens' bytes are not known
  int64_t words = 0;   // of the whole text, as lm-eval counts them (word_counter.h); 0 likewise
  double nats = 0;     // sum of -ln p

  double nats_per_token() const { return nats / static_cast<double>(tokens); }
  double perplexity() const;
  // NaN where bytes, or words, are not known.
  double bits_per_byte() const;
  double word_perplexity() const;  // exp(nats / words)
};

// MeasureProgress says how far a measurement is; a `total` of 0 is not known.
struct MeasureProgress {
  int64_t done = 0, total = 0;
  std::string unit;    // "byte", or "token" where bytes are not known
  int64_t tokens = 0;  // that were predicted in this call
  double nats_per_token = 0;
};

// Returns the progress before anything is done, with the total of all texts, of which max_tokens
// are read (ReadingOptions).
MeasureProgress ProgressOver(std::span<const MeasuredText> texts, int64_t max_tokens);

// A measurement calls these hooks; any may be empty.
struct MeasureHooks {
  std::function<void(const MeasureProgress& progress)> on_progress = {};
  std::function<void(const std::string& note)> on_note = {};
};

struct PerplexityOptions {
  ReadingOptions reading = {};
  // A row for each predicted token: document, index in it, byte offset, id, text, -ln p and rank
  // from 1. Empty for none. With it a call that was interrupted goes on where it stopped.
  std::filesystem::path csv = {};
  // The ranks that share the work, all of which must measure with the same model and options; the
  // first alone reads texts, writes and has the result, which is {} elsewhere. Null for one alone.
  Group* group = nullptr;
};

// Throws as ReadWindows and Predictor do. The sums are made in the order of the text, in double: no
// bit depends on batches, threads, ranks or interruptions.
std::vector<TextPerplexity> MeasurePerplexity(const OpenedModel& model,
                                              std::span<const MeasuredText> texts,
                                              const PerplexityOptions& options,
                                              const MeasureHooks& hooks = {});

// Returns the perplexity of all texts together.
TextPerplexity TotalPerplexity(std::span<const TextPerplexity> texts);

// Describes the perplexities for people, or as one JSON object (`json`).
std::string DescribePerplexity(const OpenedModel& model, std::span<const TextPerplexity> texts,
                               const WindowShape& shape, bool json);

// The token's bytes in double quotes, as a field of CSV without line breaks: \n, \t, \r, \\, and
// \x07 for other control characters and for what is not UTF-8.
std::string CsvToken(std::string_view bytes);

}  // namespace folio
