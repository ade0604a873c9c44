#include "folio/bench/prose.h"
#include "folio/bench/words.h"

namespace folio {
namespace {

// Stems and the endings they take, the most frequent form first; "-" is none.
struct Paradigm {
  std::string_view stems;
  std::string_view endings;
  double begin, step;  // where the stems stand among all words
};

Lexicon RussianLexicon() {
  const Paradigm paradigms[] = {
      {kRussianMasculine, "- а ом у е ы ов ам ами ах", 60, 6},
      {kRussianFeminine, "ы у а е ой - ам ами ах", 70, 6},
      {kRussianNeuter, "е я ю ем и й ям ями ях", 120, 13},
      {kRussianVerbs, "ть ет л ют ла ли ем ло ешь ете ю я вший емый", 110, 13},
      {kRussianVerbsI, "ит ить ил ят ила или им ишь ите ю ило я ив ивший", 100, 13},
      {kRussianAdjectives, "ый ых ого ая ой ые ое ом ым ую ому ыми о", 80, 8}};
  Lexicon lexicon;
  Draws draws(0, RngStream(RngPurpose::kCorpus, 4));
  const auto near = [&](double key) { return key * (0.5 + draws.Bits() * 0x1p-32); };
  double key = 0;
  for (const std::string_view word : SplitWords(kRussianFunction)) {
    lexicon.Add(key < 60 ? key : near(key), std::string(word));
    key += 1.5;
  }
  key = 150;
  for (const std::string_view name : SplitWords(kRussianNames)) {
    lexicon.Add(near(key), std::string(name));
    key += 30;
  }
  for (const Paradigm& paradigm : paradigms) {
    const std::vector<std::string_view> endings = SplitWords(paradigm.endings);
    key = paradigm.begin;
    for (const std::string_view stem : SplitWords(paradigm.stems)) {
      for (size_t form = 0; form < endings.size(); ++form) {
        lexicon.Add(near(key * static_cast<double>(form + 1)),
                    std::string(stem) + std::string(endings[form]));
      }
      key += paradigm.step;
    }
  }
  lexicon.Sort();
  return lexicon;
}

class RussianVocabulary final : public Vocabulary {
 public:
  const ZipfRanks& ranks() const override { return ranks_; }

  void AppendWord(uint64_t rank, std::string& out) const override {
    if (rank < lexicon_.size()) {
      out += lexicon_[rank];
      return;
    }
    Draws draws(rank, RngStream(RngPurpose::kCorpus, 5));
    const size_t begin = out.size();
    if (draws.Chance(72)) {
      if (draws.Chance(45)) out += draws.Pick(prefixes_);
      out += draws.Pick(roots_);
      if (draws.Chance(8)) {
        out += "о";
        out += draws.Pick(roots_);
      }
      out += draws.Pick(suffixes_);
    } else {
      for (int syllables = draws.Between(1, 3); syllables > 0; --syllables) {
        out += draws.Pick(syllables_);
      }
      static constexpr std::string_view kEndings[] = {"в", "н", "ва", "ну", "р", "с", "м", "к"};
      out += draws.Pick(kEndings);
      if (draws.Chance(75)) UpperAt(out, begin);
    }
  }

 private:
  // Inflection makes the head flatter than in English and the bend come later.
  ZipfRanks ranks_{0.7, 1.03, 15000, 1.77};
  Lexicon lexicon_ = RussianLexicon();
  std::vector<std::string_view> prefixes_ = SplitWords(kRussianPrefixes);
  std::vector<std::string_view> roots_ = SplitWords(kRussianRoots);
  std::vector<std::string_view> suffixes_ = SplitWords(kRussianSuffixes);
  std::vector<std::string_view> syllables_ = SplitWords(kRussianSyllables);
};

constexpr ProseStyle kStyles[] = {
    {"«", "»", "'", " — ", 55}, {"\"", "\"", "'", " - ", 35}, {"“", "”", "’", " – ", 10}};

class RussianWriter final : public ProseWriter {
 public:
  RussianWriter() : ProseWriter(kStyles) {}

 private:
  const Vocabulary& vocabulary() const override { return vocabulary_; }
  RussianVocabulary vocabulary_;
};

}  // namespace

std::unique_ptr<BenchWriter> NewRussianWriter() {
  return std::make_unique<RussianWriter>();
}

}  // namespace folio
