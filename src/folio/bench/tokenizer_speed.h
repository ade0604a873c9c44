#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "folio/base/math.h"

namespace folio {

enum class BenchLanguage { kEnglish, kCode, kChinese, kJapanese, kRussian };
inline constexpr std::array kBenchLanguages = {BenchLanguage::kEnglish, BenchLanguage::kCode,
                                               BenchLanguage::kChinese, BenchLanguage::kJapanese,
                                               BenchLanguage::kRussian};

std::string_view BenchLanguageName(BenchLanguage language);  // "english", "code", ...

// Returns text of invented words in the script of `language`, with frequencies, lengths, new words,
// punctuation, numbers, capitals and lines as in real text. Published speeds of a tokenizer should
// come from real text: few of these words are tokens, and a cache finds more of them. The text has
// `bytes`, or up to 3 fewer so that no character is cut. It depends on the arguments alone, and
// longer text begins like shorter text; other seeds give other text of the same words.
std::string InventedText(BenchLanguage language, size_t bytes, uint64_t seed);

// Zipf's law in Mandelbrot's form: the word of rank r = 0, 1, ... has probability ~ (r +
// shift)^-exponent; precisely, ranks from r on have (1 + r / shift)^(1 - exponent) together. The
// vocabulary is unlimited and grows as length^(1 / exponent) of the text (Heaps' law).
struct ZipfMandelbrot {
  double shift;     // above 0
  double exponent;  // above 1

  uint64_t Rank(uint32_t bits) const;  // of a word, given random bits
};

enum class TokenizerMeasure {
  kLoad,    // OpenTokenizer
  kFirst,   // OpenTokenizer and encoding the first kilobyte of text
  kEncode,  // by a tokenizer that was just opened (cold), or after the same calls (warm)
  kDecode,
  kTrain,  // a BPE of its own
};
std::string_view TokenizerMeasureName(TokenizerMeasure measure);  // "load", ...

struct BenchTokenizerOptions {
  std::string tokenizer = {};  // for OpenTokenizer
  std::vector<BenchLanguage> languages = {};
  std::vector<std::string> files = {};
  std::vector<TokenizerMeasure> measures = {};
  uint64_t bytes = 10'000'000;  // of the longest inputs and of the training text, at least 1
  int64_t merges = 32'000;      // of training
  double seconds = 0.25;        // repeat each measurement for so long, and at least three times
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

  double median() const { return Median(seconds); }
};

// Measures, and calls `done` after each measurement. Checks that decoding restores the texts and
// that threads do not change the tokens. Throws as OpenTokenizer and ReadFile do, and a kInput
// Error if the tokenizer cannot encode a text.
void BenchTokenizer(const BenchTokenizerOptions& options,
                    const std::function<void(const TokenizerTiming&)>& done);

}  // namespace folio
