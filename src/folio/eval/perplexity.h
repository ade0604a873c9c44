#pragma once

#include <cmath>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <numbers>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "folio/corpus/text_stream.h"
#include "folio/infer/opened_model.h"
#include "folio/io/file.h"
#include "folio/model/gpt.h"
#include "folio/ranks/group.h"
#include "folio/text/tokenizer.h"

namespace folio {

// A stretch of a text that a model reads at once, and the tokens that it is asked for there.
struct TextWindow {
  std::vector<int32_t> ids;      // what is read, at most the context
  int64_t first = 0;             // the row whose prediction is the first that counts
  std::vector<int32_t> targets;  // what the rows from `first` on should have predicted
  int64_t begin = 0;             // place of the first target in its text, in tokens
  // `text` and `document` are the indices of the text and, over all texts, of the document; `byte`
  // counts the bytes of the document before the first target.
  size_t text = 0;
  int64_t document = 0;
  int64_t byte = 0;
};

// WindowShape says how a text that is longer than a model's context is cut.
struct WindowShape {
  int64_t context = 0;  // tokens of a window
  int64_t stride = 0;   // from one window to the next; 1 to context
  // Tokens that begin each window, unless those of the text begin so: the ones that the tokenizer
  // puts before texts. They must outlive the shape.
  std::span<const int32_t> before = {};
};

// The shape for a model that reads `n_positions` tokens; 0 stands for its whole context, and for a
// stride of half of it. Throws a kUsage Error for what cannot be.
WindowShape ChooseWindows(int64_t context, int64_t stride, int64_t n_positions);

// Cuts a text that comes in pieces into windows of `context` tokens that begin every `stride`
// tokens of the text, or every so many as a window has of it if those are fewer. Every token is a
// target exactly once, in the first window that has something before it, as the first token of a
// text has where windows have a beginning: the first window predicts all of its own, each later one
// the last `stride`, so that behind the first window a target has at least context - stride + 1
// tokens before it. The last window is as short as what is left makes it. Holds little more than a
// window.
class WindowCutter {
 public:
  using OnWindow = std::function<void(TextWindow window)>;

  // Throws a kUsage Error where the beginning of a window leaves no room for a text.
  // REQUIRES: 1 <= stride <= context.
  WindowCutter(const WindowShape& shape, OnWindow on_window);

  void Add(std::span<const int32_t> ids);
  // The rest; the cutter can then begin another text.
  void Finish();

 private:
  void Emit(size_t ids, size_t targets_end);
  // Tokens of the text that fit into the next window.
  size_t Room() const;

  WindowShape shape_;
  OnWindow on_window_;
  std::vector<int32_t> held_;  // from the beginning of the next window on
  int64_t base_ = 0;           // where that is in the text
  int64_t next_ = 0;           // the next target, in the text
};

// All windows of a text.
std::vector<TextWindow> CutWindows(std::span<const int32_t> ids, const WindowShape& shape);

// Words of a text that comes in pieces cut anywhere, as lm-eval counts them for word_perplexity:
// the parts between runs of white space, of which the one before a run at the beginning and the one
// behind a run at the end are empty and count too (Python's len(re.split(r"\s+", text))).
class WordCounter {
 public:
  void Add(std::string_view bytes);
  // The words of the text so far, 1 or more; the counter can then begin another text.
  int64_t Finish();

 private:
  int64_t runs_ = 0;
  bool in_space_ = false;
  std::string held_;  // the beginning of a character
};

// Runs windows through one model, or through several for comparing what they predict, on all ranks
// of a group. The result of a window depends on it alone: on neither the windows that run beside it
// nor the number of threads or ranks.
class Predictor {
 public:
  // Logits of one prediction, (V), of each of the models.
  using Rows = std::span<const std::span<const float>>;
  // A Measure keeps some numbers of a prediction whose right token is `id`, equally many of each.
  // Called from several threads.
  using Measure = std::function<void(Rows rows, int32_t id, std::span<double> numbers)>;

  // Runs as many windows at once as have about `positions` tokens, one at least, on each rank;
  // where products of matrices depend on their number of rows, one at a time. The models and
  // `group` (null for one rank alone) must outlive it; all its ranks make one with the same models
  // and the same measure. Throws a kInput Error for a model whose tokens see those behind them.
  // REQUIRES: one vocab_size.
  Predictor(std::vector<const OpenedModel*> models, int64_t positions, size_t numbers,
            Measure measure, Group* group = nullptr);

  bool first() const { return workers_.first(); }
  // Tokens that all ranks can run at once, about.
  int64_t positions() const { return positions_ * workers_.ranks(); }

  // Returns, on the first rank, the numbers of all targets, window by window. Each window has at
  // most n_positions tokens. Throws Stopped (base/signals.h) between passes if that was asked for,
  // and a kDiverged Error where logits are not finite.
  std::vector<double> Run(std::span<const TextWindow> windows);
  // Runs, on the other ranks, what the first one has for them, until that one's Predictor is gone.
  void Serve();

 private:
  // A window that this rank runs, and where its numbers go.
  struct Item {
    const TextWindow* window;
    std::span<double> numbers;
  };

  std::vector<std::vector<size_t>> Divide(std::span<const TextWindow> windows) const;
  void RunHere(std::span<const Item> items);
  void RunTogether(std::span<const Item> items, int64_t T);
  // The length that a window of so many tokens is filled up to.
  int64_t Padded(int64_t tokens) const;

  std::vector<const OpenedModel*> models_;
  int64_t positions_;  // of each rank
  size_t numbers_;     // of a target
  Measure measure_;
  Workers workers_;
  int64_t limit_;  // n_positions of the model that reads least
  std::vector<std::unique_ptr<GptPass>> passes_;
  MemoryPlan plan_;
  std::vector<MemoryPlan::Id> logits_;
  Arena arena_;
};

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
  bool data_set = false;  // read as it is trained on: nothing is put before it
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
  int64_t positions = 2048;  // windows come in batches of about so many tokens
  int64_t max_tokens =
      0;  // of the texts in a row, which end there as if they were no longer; 0: all
  TextOptions text = {};
  SpecialRule special = {};
};

// TextPerplexity says how well a model predicts a text: every token of each document that something
// comes before, which is its first, too, where the tokenizer puts something before texts.
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

}  // namespace folio
