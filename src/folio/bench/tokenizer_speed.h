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

// Invented words in the script of `language`, as often, as long and as many new ones as in real
// text, with its punctuation, numbers, capitals and lines; no word means anything. What is said
// of a tokenizer's speed should come from real text: of this one, a vocabulary knows few words
// whole, and a cache finds more of them again. `bytes` of it, or up to 3 fewer so that no character
// is cut. The same for the same arguments, and longer text begins as a shorter one; other seeds
// give other text of the same words.
std::string InventedText(BenchLanguage language, size_t bytes, uint64_t seed);

// Zipf's law as Mandelbrot wrote it: the word of rank r = 0, 1, ... has probability
// ~ (r + shift)^-exponent; precisely, ranks from r on have (1 + r / shift)^(1 - exponent) together.
// The vocabulary has no end and grows with the text as its length^(1 / exponent) (Heaps' law).
struct ZipfMandelbrot {
  double shift;     // above 0
  double exponent;  // above 1

  uint64_t Rank(uint32_t bits) const;  // of a word, given random bits
};

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

  double median() const { return Median(seconds); }
};

// Measures and calls `done` with each result as it comes. Every result is checked: texts come back
// from decoding, threads change nothing. Throws as OpenTokenizer and ReadFile, and a kInput
// Error if the tokenizer cannot encode a text.
void BenchTokenizer(const BenchTokenizerOptions& options,
                    const std::function<void(const TokenizerTiming&)>& done);

}  // namespace folio
