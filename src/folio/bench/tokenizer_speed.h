#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "folio/bench/invented_text.h"

namespace folio {

enum class TokenizerMeasure {
  kLoad,    // OpenTokenizer
  kFirst,   // the same and the first kilobyte of text
  kEncode,  // with the tokenizer as it is when opened (cold) or after the same calls (warm)
  kDecode,
  kTrain,  // a BPE of its own
};
std::string_view TokenizerMeasureName(TokenizerMeasure measure);  // "load", ...

struct BenchTokenizerOptions {
  std::string tokenizer = {};  // for OpenTokenizer
  std::vector<BenchLanguage> languages = {};
  std::vector<std::string> files = {};
  std::vector<TokenizerMeasure> measures = {};
  uint64_t bytes = 10'000'000;  // of the longest inputs and of what is trained on, at least 1
  int64_t merges = 32'000;      // of training
  double seconds = 0.25;        // how long a measurement is repeated at least, three times or more
};

struct TokenizerTiming {
  TokenizerMeasure measure = TokenizerMeasure::kLoad;
  std::string text = {};  // a language or a file
  bool cold = false;
  int threads = 1;
  // The numbers of one run:
  int64_t calls = 1;
  uint64_t bytes = 0;                // of text in all calls, 0 if there was none
  int64_t tokens = 0;                // 0 if there were none
  std::vector<double> seconds = {};  // one for each run
  // The median for memcpy of the same bytes in the same calls on as many threads; 0 if there are no
  // bytes.
  double copy_seconds = 0;

  double median() const;
};

// Measures and calls `done` with each result as it comes. Every result is checked: texts come back
// from decoding, threads change nothing. Throws as OpenTokenizer and ReadFile, and a kInput
// Error if the tokenizer cannot encode a text.
void BenchTokenizer(const BenchTokenizerOptions& options,
                    const std::function<void(const TokenizerTiming&)>& done);

}  // namespace folio
