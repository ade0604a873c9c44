#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "folio/corpus/text_stream.h"
#include "folio/text/bpe_trainer.h"
#include "folio/text/tokenizer.h"

namespace folio {

struct TrainTokenizerOptions {
  std::vector<std::string> files = {};  // "-" is standard input
  std::string out = {};                 // directory
  bool overwrite = false;               // replace a tokenizer that is already there
  BpeTrainerOptions trainer = {};
  TextOptions texts = {};
};

// Called now and then with the progress in bytes of text and in merges; `total` is 0 if it is not
// known. May throw to stop.
struct TrainTokenizerHooks {
  std::function<void(int64_t done, int64_t total)> counting = {};
  BpeTrainer::Progress merging = {};
};

// Facts about a new tokenizer and its text.
struct TrainedTokenizer {
  std::string hash;
  int64_t vocab_size = 0;
  int64_t merges = 0;
  int64_t bytes = 0;
  int64_t pretokens = 0;
  int64_t distinct_pretokens = 0;
  int64_t tokens = 0;
  double count_seconds = 0;
  double merge_seconds = 0;
};

// Makes a byte-level BPE tokenizer from the documents of texts (text_stream.h), in a directory that
// appears when it is complete, with memory bounded by the distinct pretokens (bpe_trainer.h).
// Throws Stopped after a request to stop (base/signals.h), a kUsage Error for invalid options and
// for a directory that may not be replaced, a kInput Error for files that cannot be read or are all
// empty, and a kRuntime Error if the directory cannot be written.
TrainedTokenizer TrainTokenizer(const TrainTokenizerOptions& options,
                                const TrainTokenizerHooks& hooks = {});

// Describes the tokenizer: a line for each fact, or one JSON object (`json`).
std::string DescribeTrained(const TrainTokenizerOptions& options, const TrainedTokenizer& made,
                            bool json);

// A byte-level BPE of 400 tokens, learned from the built-in stories (data/stories.h).
std::unique_ptr<Tokenizer> StoriesTokenizer();

}  // namespace folio
