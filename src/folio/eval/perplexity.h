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

// A part of a text that a model reads at once, and the tokens that it predicts there.
struct TextWindow {
  std::vector<int32_t> ids;      // the tokens read, at most the context
  int64_t first = 0;             // the first row whose prediction counts
  std::vector<int32_t> targets;  // the right predictions of the rows from `first` on
  int64_t begin = 0;             // the index of the first target in its text
  // `text` and `document` are the indices of the text and, over all texts, of the document; `byte`
  // counts the bytes of the document before the first target.
  size_t text = 0;
  int64_t document = 0;
  int64_t byte = 0;
};

// The cutting of texts that are longer than a model's context.
struct WindowShape {
  int64_t context = 0;  // tokens of a window
  int64_t stride = 0;   // from one window to the next; 1 to context
  // Tokens before those of each window that does not begin with them: the ones that the tokenizer
  // puts before texts. They must outlive the shape.
  std::span<const int32_t> before = {};
};

// The shape for a model that reads `n_positions` tokens; a context of 0 is the whole context of the
// model, a stride of 0 half of it. Throws a kUsage Error for impossible values.
WindowShape ChooseWindows(int64_t context, int64_t stride, int64_t n_positions);

// Cuts a text that comes in pieces into windows of `context` tokens that begin every `stride`
// tokens of the text (fewer if a window has room for fewer). Every token is a target exactly once,
// in the first window where a token precedes it; the first token of a text only if windows begin
// with other tokens. The first window predicts all of its tokens, each later one the last `stride`,
// so that behind the first window at least context - stride + 1 tokens precede a target. The last
// window may be shorter. Holds little more than a window.
class WindowCutter {
 public:
  using OnWindow = std::function<void(TextWindow window)>;

  // Throws a kUsage Error where the beginning of a window leaves no room for a text.
  // REQUIRES: 1 <= stride <= context.
  WindowCutter(const WindowShape& shape, OnWindow on_window);

  void Add(std::span<const int32_t> ids);
  // Emits the rest; the cutter can then begin another text.
  void Finish();

 private:
  void Emit(size_t ids, size_t targets_end);
  // Tokens of the text that fit into the next window.
  size_t Room() const;

  WindowShape shape_;
  OnWindow on_window_;
  std::vector<int32_t> held_;  // the tokens from the beginning of the next window on
  int64_t base_ = 0;           // the index of the first of them in the text
  int64_t next_ = 0;           // the index of the next target in the text
};

// All windows of a text.
std::vector<TextWindow> CutWindows(std::span<const int32_t> ids, const WindowShape& shape);

// Counts the words of a text that comes in arbitrary pieces as lm-eval does for word_perplexity:
// the parts between runs of white space, including empty ones before a run at the beginning and
// behind a run at the end (Python's len(re.split(r"\s+", text))).
class WordCounter {
 public:
  void Add(std::string_view bytes);
  // The words of the text so far, 1 or more; the counter can then begin another text.
  int64_t Finish();

 private:
  int64_t runs_ = 0;
  bool in_space_ = false;
  std::string held_;  // an incomplete character
};

// Runs windows through one model, or through several for comparing what they predict, on all ranks
// of a group. The result of a window depends on it alone: on neither the windows that run beside it
// nor the number of threads or ranks.
class Predictor {
 public:
  // Logits of one prediction, (V), of each of the models.
  using Rows = std::span<const std::span<const float>>;
  // A Measure writes the same number of `numbers` of each prediction; `id` is the right token.
  // Called from several threads.
  using Measure = std::function<void(Rows rows, int32_t id, std::span<double> numbers)>;

  // Each rank runs windows with about `positions` tokens together, at least one window. The models
  // and `group` (null for one rank alone) must outlive it; all ranks construct one with the same
  // models and the same measure. Throws a kInput Error for a model that is not causal. REQUIRES:
  // one vocab_size.
  Predictor(std::vector<const OpenedModel*> models, int64_t positions, size_t numbers,
            Measure measure, Group* group = nullptr);

  bool first() const { return workers_.first(); }
  // About how many tokens all ranks can run at once.
  int64_t positions() const { return positions_ * workers_.ranks(); }

  // Returns, on the first rank, the numbers of all targets, window by window. Each window has at
  // most n_positions tokens. Throws Stopped (base/signals.h) between passes after a request to
  // stop, and a kDiverged Error if logits are not finite.
  std::vector<double> Run(std::span<const TextWindow> windows);
  // Runs, on the other ranks, the windows that the first rank sends, until its Predictor is
  // destroyed.
  void Serve();

 private:
  // A window that this rank runs, and the place of its numbers.
  struct Item {
    const TextWindow* window;
    std::span<double> numbers;
  };

  std::vector<std::vector<size_t>> Divide(std::span<const TextWindow> windows) const;
  void RunHere(std::span<const Item> items);
  void RunTogether(std::span<const Item> items, int64_t T);
  // The length to which a window of so many tokens is padded.
  int64_t Padded(int64_t tokens) const;

  std::vector<const OpenedModel*> models_;
  int64_t positions_;  // of each rank
  size_t numbers_;     // of a target
  Measure measure_;
  Workers workers_;
  int64_t limit_;  // n_positions of the model that reads least
  std::vector<std::unique_ptr<GptPass>> passes_;
  struct LogitRows {
    MemoryPlan plan;
    Arena arena;
    Mirror logits;
  };
  std::vector<LogitRows> logits_;  // of each model
};

// A file with a line for each result, which appears when it is complete. The lines of an
// interrupted call are kept beside it (PartialFile) and returned, so that the next call with the
// same key continues after them and writes the same bytes.
class ResultFile {
 public:
  // `key` contains everything that the lines depend on; calls `on_note` if earlier lines are
  // damaged. Throws a kRuntime Error as PartialFile does.
  ResultFile(const std::filesystem::path& path, const std::string& key,
             std::function<void(const std::string& note)> on_note);

  // Returns true while there are lines of an earlier call; an incomplete last line does not count.
  bool resuming() const { return !before_.empty(); }
  // The next `count` of those lines, each with its line break; empty if there are not so many.
  std::string_view Next(size_t count);
  // Keeps the lines of the last Next; without it they and all later ones are removed.
  void Accept();
  // Removes the remaining lines of an earlier call.
  void Stop();
  void StopDamaged();  // the same, with a note

  // REQUIRES: not resuming.
  void Add(std::string_view lines);
  void Commit();

 private:
  std::filesystem::path path_;
  std::function<void(const std::string& note)> on_note_;
  PartialFile file_;
  MappedFile map_;
  std::string_view before_;  // complete earlier lines that were not accepted yet
  size_t looked_at_ = 0;     // bytes of the last Next
  int64_t accepted_ = 0;
};

// A text that differs for models with different results: it covers the configuration, all weights,
// which are read, the tokenizer and the backend.
std::string ModelFingerprint(const OpenedModel& model);

// A text on which a model is measured: of any kind from which data is prepared, or the held-out
// part of prepared data, which is one text.
struct MeasuredText {
  std::string name;
  bool data_set = false;  // prepared data, before which no tokens are put
  int64_t size = 0;       // tokens of a data set, bytes of a plain text; 0 if not known
};

struct MeasuredTexts {
  std::vector<MeasuredText> texts;
  std::string left_out;  // the files in directories that are no texts, in one line; "" for none
};

// The texts of these paths; a directory is a data set, or stands for the texts below it. Throws a
// kInput Error if there is nothing to read.
MeasuredTexts FindMeasuredTexts(const std::vector<std::string>& paths, const TextOptions& options);

struct ReadingOptions {
  WindowShape shape = {};
  int64_t positions = 2048;  // windows come in batches of about so many tokens
  int64_t max_tokens = 0;    // of all texts together, after which the reading ends; 0: all
  TextOptions text = {};
  SpecialRule special = {};
};

// The predictions of a model for a text: for every token of each document except the first, and for
// the first too if the tokenizer puts tokens before texts.
struct TextPerplexity {
  std::string name;
  int64_t documents = 0;  // predicted independently of each other
  int64_t tokens = 0;     // predicted tokens
  int64_t bytes = 0;      // of these; 0 if the tokens' bytes are not known
  int64_t words = 0;      // of the whole text, as lm-eval counts them; 0 likewise
  double nats = 0;        // sum of -ln p

  double nats_per_token() const { return nats / static_cast<double>(tokens); }
  double perplexity() const { return std::exp(nats_per_token()); }
  // NaN if bytes, or words, are not known.
  double bits_per_byte() const { return nats / std::numbers::ln2 / Known(bytes); }
  double word_perplexity() const { return std::exp(nats / Known(words)); }

 private:
  static double Known(int64_t count) { return count > 0 ? static_cast<double>(count) : NAN; }
};

// The progress of a measurement; a `total` of 0 is not known.
struct MeasureProgress {
  int64_t done = 0, total = 0;
  std::string unit;    // "byte", or "token" if bytes are not known
  int64_t tokens = 0;  // predicted in this call
  double nats_per_token = 0;
};

// The callbacks of a measurement; any may be empty.
struct MeasureHooks {
  std::function<void(const MeasureProgress& progress)> on_progress = {};
  std::function<void(const std::string& note)> on_note = {};
};

struct PerplexityOptions {
  ReadingOptions reading = {};
  // A file with a row for each predicted token: document, index in it, byte offset, id, text, -ln p
  // and rank from 1. Empty for none. With it an interrupted call continues where it stopped.
  std::filesystem::path csv = {};
  // The ranks that share the work, all with the same model and options; only the first reads texts,
  // writes and returns the result; the others return {}. Null for one rank alone.
  Group* group = nullptr;
};

// Reads the texts one after the other in memory that does not grow with them. Throws as Predictor
// does, and a kInput Error for a text with fewer than two tokens in every document, text that
// cannot be encoded, and data of another vocabulary. Sums are in double and in the order of the
// text: no bit depends on batches, threads, ranks or interruptions.
std::vector<TextPerplexity> MeasurePerplexity(const OpenedModel& model,
                                              std::span<const MeasuredText> texts,
                                              const PerplexityOptions& options,
                                              const MeasureHooks& hooks = {});

// The perplexity of all texts together.
TextPerplexity TotalPerplexity(std::span<const TextPerplexity> texts);

// The differences of the predictions of model B from those of model A, over all predicted tokens.
struct ModelComparison {
  int64_t tokens = 0;
  double kl_mean = 0, kl_max = 0;              // of KL(A||B), nats
  double kl_median = 0, kl_95 = 0, kl_99 = 0;  // quantiles, linear between neighbours
  double same_top = 0;                         // share with the same likeliest token
  double perplexity_a = 0, perplexity_b = 0;
  double log_probability_difference = 0;  // mean of |ln p_A - ln p_B| of the right token, nats
};

// Both models see the same windows. Throws a kInput Error where they have different vocabularies or
// tokenizers, and as MeasurePerplexity does. Keeps 8 bytes for each token, for the quantiles;
// no bit depends on batches, threads or ranks (`group` as in PerplexityOptions).
ModelComparison CompareModels(const OpenedModel& a, const OpenedModel& b,
                              std::span<const MeasuredText> texts, const ReadingOptions& options,
                              const MeasureHooks& hooks = {}, Group* group = nullptr);

// Throws the kInput Error of CompareModels if two models cannot be compared.
void RequireComparable(const OpenedModel& a, const OpenedModel& b);

}  // namespace folio
