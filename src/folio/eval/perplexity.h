#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
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
  // `key` says all that the lines depend on. Throws a kRuntime Error as PartialFile.
  ResultFile(const std::filesystem::path& path, const std::string& key);

  // Returns true while there are lines left from before; a last one without its end is none.
  bool resuming() const { return !before_.empty(); }
  // The next `count` of those lines, each with its line break; empty if there are not so many.
  std::string_view Next(size_t count);
  // The lines of the last Next stay; without it they and all that follow go.
  void Accept();
  // Nothing more is taken from before.
  void Stop();

  // REQUIRES: not resuming.
  void Add(std::string_view lines);
  void Commit() { file_.Commit(); }

 private:
  PartialFile file_;
  MappedFile map_;
  std::string_view before_;  // what was not accepted yet, whole lines
  size_t looked_at_ = 0;     // bytes of the last Next
  int64_t accepted_ = 0;
};

// Returns the note for people where lines left from before are not what they should be.
std::string DamagedNote(const std::filesystem::path& path);

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

// The bytes of a token, as far as they are known.
std::string_view BytesOf(const Tokenizer* tokenizer, int32_t id);

// TextTotals counts what was read of a text. Each of the documents of a text, as JSON lines has
// several, is by itself: nothing is predicted from another one.
struct TextTotals {
  int64_t documents = 0;
  int64_t tokens = 0;
  int64_t bytes = 0;
  int64_t words = 0;  // as WordCounter
};

struct ReadingOptions {
  WindowShape shape = {};
  int64_t positions = 0;  // windows come in batches of about so many tokens
  int64_t max_tokens =
      0;  // of the texts in a row, which end there as if they were no longer; 0: all
  TextOptions text = {};
  SpecialRule special = {};
};

using OnWindows = std::function<void(std::span<const TextWindow> windows)>;

// Reads the texts one after the other in memory that does not grow with them, and hands their
// windows on in order, also those of several texts at once. `tokenizer` may be null where all are
// data sets; then bytes and words are 0. Returns what each text was that was read. Throws a kInput
// Error for a text with fewer than two tokens in every document, for what cannot be encoded, and
// for data of another vocabulary.
std::vector<TextTotals> ReadWindows(std::span<const MeasuredText> texts, const Tokenizer* tokenizer,
                                    int64_t vocab_size, const ReadingOptions& options,
                                    const OnWindows& on_windows);

class Group;

// TextPerplexity says how well a model predicts a text: every token of each document but its first,
// which nothing comes before.
struct TextPerplexity {
  std::string name;
  int64_t documents = 0;
  int64_t tokens = 0;  // that were predicted
  int64_t bytes = 0;   // of those; 0 where the tokens' bytes are not known
  int64_t words = 0;   // of the whole text, as lm-eval counts them; 0 likewise
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

// The perplexities of the texts, and of all together.
Report PerplexityReport(const OpenedModel& model, std::span<const TextPerplexity> texts,
                        const WindowShape& shape);

// The token's bytes in double quotes, as a field of CSV without line breaks: \n, \t, \r, \\, and
// \x07 for other control characters and for what is not UTF-8.
std::string CsvToken(std::string_view bytes);

}  // namespace folio
