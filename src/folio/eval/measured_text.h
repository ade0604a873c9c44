#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "folio/corpus/text_stream.h"
#include "folio/eval/windows.h"
#include "folio/text/tokenizer.h"

namespace folio {

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

}  // namespace folio
