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

// Invented text with the statistics of real text, as far as they matter to a tokenizer: how often
// words come and how many new ones keep coming, how long they are and how they are spelt,
// punctuation, numbers, capitals, lines and paragraphs. `bytes` of it, or up to 3 fewer so that no
// character is cut. The same for the same arguments; other seeds give other text of the same
// vocabulary. What is generated is measured by bench_texts_test.cc.
std::string BenchText(BenchLanguage language, size_t bytes, uint64_t seed);

}  // namespace folio
