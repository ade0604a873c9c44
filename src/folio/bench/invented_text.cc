#include "folio/bench/invented_text.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>
#include <vector>

#include "folio/base/rng.h"
#include "folio/base/utf8.h"

namespace folio {
namespace {

// One place of a syllable: a letter in so many of a hundred syllables, the first ones more often.
struct Letter {
  std::u32string alphabet;
  uint32_t percent;
};

enum class After { kGoOn, kCapital, kIndent, kOutdent };

// A separator follows a word; a line break in it is followed by the indentation.
struct Separator {
  uint32_t percent;
  std::string_view text;
  After after = After::kGoOn;
};

struct Script {
  std::string_view name;
  ZipfMandelbrot law;
  double syllables;          // that the longest words gain with every tenfold rank
  uint32_t percent_numbers;  // among the words
  std::vector<Letter> syllable;
  std::vector<Separator> separators;  // the percentages sum up to 100
};

std::u32string Range(char32_t first, char32_t last) {
  std::u32string range;
  for (char32_t c = first; c <= last; ++c) range += c;
  return range;
}

// Laws and percentages are such that what GPT-2's pattern makes of the text is as with real text of
// each kind: novels, sources, subtitles.
const Script& ScriptOf(BenchLanguage language) {
  using enum After;
  static const std::array<Script, kBenchLanguages.size()> kScripts = {{
      {"english",
       {40, 1.55},
       0.8,
       1,
       {{U"taoinshrdlcmfgwypbvk", 75}, {U"eaoiu", 100}, {U"nrstldm", 45}},
       {{84, " "},
        {6, ", "},
        {4, ". ", kCapital},
        {2, ".\n", kCapital},
        {1, "?\n\n", kCapital},
        {1, "; "},
        {1, "'s "},
        {1, " -- "}}},
      {"code",
       {150, 2},
       0.9,
       5,
       {{U"stcpdrmfnlbgvxkw", 75}, {U"eaiou", 100}, {U"nrtslxd", 40}},
       {{16, " "},
        {15, "_"},
        {11, "."},
        {10, " = "},
        {10, ", "},
        {9, "("},
        {7, ")\n"},
        {5, "\n"},
        {4, "):\n", kIndent},
        {4, "\n\n", kOutdent},
        {3, "", kCapital},
        {2, " + "},
        {2, " == "},
        {1, "[\""},
        {1, "\"]\n"}}},
      {"chinese",
       {20, 1.45},
       0.7,
       1,
       {{Range(0x4E00, 0x5BAB), 100}},
       {{66, ""}, {16, "，"}, {8, "。"}, {7, "。\n"}, {3, "？\n"}}},
      {"japanese",
       {10, 1.4},
       0.7,
       1,
       {{Range(0x4E00, 0x55CF), 35}, {Range(0x3042, 0x3093), 75}, {Range(0x30A2, 0x30F3), 5}},
       {{77, ""}, {11, "、"}, {6, "。"}, {4, "。\n"}, {1, "「"}, {1, "」"}}},
      {"russian",
       {50, 1.5},
       1,
       1,
       {{U"нтсрвлкмдпгзбчхжшцщ", 75}, {U"оеаиуыяюэ", 100}, {U"нрстлкмйь", 40}},
       {{77, " "},
        {9, ", "},
        {4, ". ", kCapital},
        {6, ".\n", kCapital},
        {2, "?\n", kCapital},
        {2, " – "}}},
  }};
  return kScripts[static_cast<size_t>(language)];
}

// Random numbers one after the other.
class Draws {
 public:
  Draws(uint64_t seed, uint64_t a, BenchLanguage language, uint64_t index = 0)
      : rng_(seed, RngStream(RngPurpose::kCorpus, a, static_cast<uint64_t>(language))),
        index_(index) {}

  uint32_t Bits() { return rng_.Bits(index_++); }
  double Uniform() { return rng_.Uniform(index_++); }
  bool Chance(uint32_t percent) { return Uniform() * 100 < percent; }

 private:
  CounterRng rng_;
  uint64_t index_;
};

// Words of lower rank are shorter, as in any language.
std::u32string Word(BenchLanguage language, uint64_t rank) {
  const Script& script = ScriptOf(language);
  Draws draws(0, 1, language, rank * 128);
  const double longest = 1 + script.syllables * std::log10(static_cast<double>(rank) + 1);
  std::u32string word;
  for (double left = draws.Uniform() * longest; left >= 0 || word.empty(); --left) {
    for (const auto& [alphabet, percent] : script.syllable) {
      const double u = draws.Uniform();
      const size_t letter = static_cast<size_t>(u * u * static_cast<double>(alphabet.size()));
      if (draws.Chance(percent)) word += alphabet[letter];
    }
  }
  return word;
}

// Below 1024, the smaller ones more often.
std::u32string Number(uint32_t bits) {
  const std::string digits = std::to_string(bits >> (22 + bits % 10));
  return {digits.begin(), digits.end()};
}

// Capitals of the Latin and the Russian alphabet.
char32_t Capital(char32_t c) {
  return (c >= U'a' && c <= U'z') || (c >= U'а' && c <= U'я') ? c - 32 : c;
}

const Separator& Choose(std::span<const Separator> separators, double percent) {
  size_t i = 0;
  while (i + 1 < separators.size() && percent >= separators[i].percent) {
    percent -= separators[i++].percent;
  }
  return separators[i];
}

}  // namespace

uint64_t ZipfMandelbrot::Rank(uint32_t bits) const {
  const double beyond = std::pow((bits + 1.0) * 0x1p-32, -1 / (exponent - 1));
  return static_cast<uint64_t>(std::min(shift * (beyond - 1), 0x1p56));
}

std::string_view BenchLanguageName(BenchLanguage language) {
  return ScriptOf(language).name;
}

std::string InventedText(BenchLanguage language, size_t bytes, uint64_t seed) {
  const Script& script = ScriptOf(language);
  Draws draws(seed, 2, language);
  constexpr size_t kDeepest = 4;
  size_t depth = 0;
  After after = After::kCapital;
  std::string text;
  text.reserve(bytes + 1024);
  while (text.size() < bytes) {
    const uint32_t bits = draws.Bits();
    std::u32string word =
        draws.Chance(script.percent_numbers) ? Number(bits) : Word(language, script.law.Rank(bits));
    if (after == After::kCapital) word[0] = Capital(word[0]);
    for (const char32_t c : word) AppendUtf8(c, text);
    const Separator& separator = Choose(script.separators, draws.Uniform() * 100);
    text += separator.text;
    after = separator.after;
    if (after == After::kIndent) depth = std::min(depth + 1, kDeepest);
    if (after == After::kOutdent && depth > 0) --depth;
    if (separator.text.ends_with('\n')) text.append(4 * depth, ' ');
  }
  text.resize(bytes);
  text.resize(CompleteUtf8Prefix(text));
  return text;
}

}  // namespace folio
