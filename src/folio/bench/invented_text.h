#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

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

}  // namespace folio
