#pragma once

#include <cmath>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <numbers>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "folio/corpus/text_stream.h"
#include "folio/eval/windows.h"
#include "folio/infer/opened_model.h"
#include "folio/io/file.h"
#include "folio/report/report.h"
#include "folio/text/tokenizer.h"

namespace folio {

// A file of lines, one for each thing that was measured, which appears when it is whole. The lines
// of an interrupted call lie beside it (PartialFile) and are handed back, so that the next call
// with the same key goes on behind it and leaves the same bytes.
class ResultFile {
 public:
  // `key` says all that the lines depend on; `on_note` hears where lines left from before are not
  // what they should be. Throws a kRuntime Error as PartialFile.
  ResultFile(const std::filesystem::path& path, const std::string& key,
             std::function<void(const std::string& note)> on_note);

  // Returns true while there are lines left from before; a last one without its end is none.
  bool resuming() const { return !before_.empty(); }
  // The next `count` of those lines, each with its line break; empty if there are not so many.
  std::string_view Next(size_t count);
  // The lines of the last Next stay; without it they and all that follow go.
  void Accept();
  // Nothing more is taken from before.
  void Stop();
  void StopDamaged();  // and that is noted

  // REQUIRES: not resuming.
  void Add(std::string_view lines);
  void Commit();

 private:
  std::filesystem::path path_;
  std::function<void(const std::string& note)> on_note_;
  PartialFile file_;
  MappedFile map_;
  std::string_view before_;  // what was not accepted yet, whole lines
  size_t looked_at_ = 0;     // bytes of the last Next
  int64_t accepted_ = 0;
};

// Returns a text that is different for models with different numbers: it covers the configuration,
// every weight, the tokenizer and the backend. Reads all weights.
std::string ModelFingerprint(const OpenedModel& model);

// A MeasuredText is a text that a model is measured on: one of any kind that data is made from, or
// the held-out part of prepared data, which is one text.
struct MeasuredText {
  std::string name;
  bool data_set = false;
  int64_t size = 0;  // of a data set its tokens, of a plain text its bytes; 0 if not known before
};

struct MeasuredTexts {
  std::vector<MeasuredText> texts;
  std::string left_out;  // what directories hold that is no text, in one line; "" if nothing
};

// Directories are data sets, or stand for the texts below them. Throws a kInput Error where there
// is nothing to read.
MeasuredTexts FindMeasuredTexts(const std::vector<std::string>& paths, const TextOptions& options);

struct ReadingOptions {
  WindowShape shape = {};
  int64_t positions = 0;  // windows come in batches of about so many tokens
  int64_t max_tokens =
      0;  // of the texts in a row, which end there as if they were no longer; 0: all
  TextOptions text = {};
  SpecialRule special = {};
};

class Group;

// TextPerplexity says how well a model predicts a text: every token of each document but its first,
// which nothing comes before.
struct TextPerplexity {
  std::string name;
  int64_t documents = 0;  // each by itself: nothing is predicted from another one
  int64_t tokens = 0;     // that were predicted
  int64_t bytes = 0;      // of those; 0 where the tokens' bytes are not known
  int64_t words = 0;      // of the whole text, as lm-eval counts them; 0 likewise
  double nats = 0;        // sum of -ln p

  double nats_per_token() const { return nats / static_cast<double>(tokens); }
  double perplexity() const { return std::exp(nats_per_token()); }
  // NaN where bytes, or words, are not known.
  double bits_per_byte() const { return nats / std::numbers::ln2 / Known(bytes); }
  double word_perplexity() const { return std::exp(nats / Known(words)); }

 private:
  static double Known(int64_t count) { return count > 0 ? static_cast<double>(count) : NAN; }
};

// MeasureProgress says how far a measurement is; a `total` of 0 is not known.
struct MeasureProgress {
  int64_t done = 0, total = 0;
  std::string unit;    // "byte", or "token" where bytes are not known
  int64_t tokens = 0;  // that were predicted in this call
  double nats_per_token = 0;
};

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

// Reads the texts one after the other in memory that does not grow with them. Throws as Predictor
// does, and a kInput Error for a text with fewer than two tokens in every document, for what cannot
// be encoded, and for data of another vocabulary. The sums are made in the order of the text, in
// double: no bit depends on batches, threads, ranks or interruptions.
std::vector<TextPerplexity> MeasurePerplexity(const OpenedModel& model,
                                              std::span<const MeasuredText> texts,
                                              const PerplexityOptions& options,
                                              const MeasureHooks& hooks = {});

// Returns the perplexity of all texts together.
TextPerplexity TotalPerplexity(std::span<const TextPerplexity> texts);

// The perplexities of the texts, and of all together.
Report PerplexityReport(const OpenedModel& model, std::span<const TextPerplexity> texts,
                        const WindowShape& shape);

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
// tokenizers, and as MeasurePerplexity does. Keeps 8 bytes for each token, for the quantiles;
// no bit depends on batches, threads or ranks (`group` as in PerplexityOptions).
ModelComparison CompareModels(const OpenedModel& a, const OpenedModel& b,
                              std::span<const MeasuredText> texts, const ReadingOptions& options,
                              const MeasureHooks& hooks = {}, Group* group = nullptr);

// Throws the kInput Error of CompareModels where two models cannot be compared.
void RequireComparable(const OpenedModel& a, const OpenedModel& b);

Report ComparisonReport(const OpenedModel& a, const OpenedModel& b, const ModelComparison& c,
                        const WindowShape& shape);

}  // namespace folio
