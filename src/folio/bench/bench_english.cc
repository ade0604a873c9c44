#include "folio/bench/prose.h"
#include "folio/bench/words.h"

namespace folio {
namespace {

bool EndsWithAny(std::string_view word, std::string_view letters) {
  return letters.find(word.back()) != std::string_view::npos;
}

bool EndsInConsonantY(std::string_view word) {
  return word.size() > 2 && word.back() == 'y' &&
         !EndsWithAny(word.substr(0, word.size() - 1), "aeiou");
}

std::string WithoutLast(std::string_view word) {
  return std::string(word.substr(0, word.size() - 1));
}

std::string WithS(std::string_view word) {
  if (EndsInConsonantY(word)) return WithoutLast(word) + "ies";
  const bool hissing = EndsWithAny(word, "sxz") || word.ends_with("ch") || word.ends_with("sh");
  return std::string(word) + (hissing ? "es" : "s");
}

std::string WithEd(std::string_view word) {
  if (EndsInConsonantY(word)) return WithoutLast(word) + "ied";
  return std::string(word) + (word.back() == 'e' ? "d" : "ed");
}

std::string WithIng(std::string_view word) {
  return (word.back() == 'e' ? WithoutLast(word) : std::string(word)) + "ing";
}

std::string WithLy(std::string_view word) {
  if (EndsInConsonantY(word)) return WithoutLast(word) + "ily";
  if (word.ends_with("le")) return WithoutLast(word) + "y";
  return std::string(word) + (word.ends_with("ic") ? "ally" : "ly");
}

Lexicon EnglishLexicon() {
  Lexicon lexicon;
  Draws draws(0, RngStream(RngPurpose::kCorpus, 2));
  // A place among all words near `key`.
  const auto near = [&](double key) { return key * (0.6 + 0.8 * draws.Bits() * 0x1p-32); };
  double key = 0;
  for (const std::string_view word : SplitWords(kEnglishFunction)) {
    lexicon.Add(key < 150 ? key : near(key * 1.6), std::string(word));
    key += 1;
  }
  key = 90;
  for (const std::string_view noun : SplitWords(kEnglishNouns)) {
    lexicon.Add(near(key), std::string(noun));
    lexicon.Add(near(key * 2.5), WithS(noun));
    lexicon.Add(near(key * 8 + 2000), std::string(noun) + "'s");
    key += 3;
  }
  key = 150;
  for (const std::string_view verb : SplitWords(kEnglishVerbs)) {
    lexicon.Add(near(key), std::string(verb));
    lexicon.Add(near(key * 1.5), WithEd(verb));
    lexicon.Add(near(key * 2), WithIng(verb));
    lexicon.Add(near(key * 3), WithS(verb));
    lexicon.Add(near(key * 9 + 3000), std::string(verb) + "able");
    key += 5;
  }
  key = 80;
  for (const std::string_view form : SplitWords(kEnglishIrregular)) {
    lexicon.Add(near(key), std::string(form));
    key += 8;
  }
  key = 130;
  for (const std::string_view adjective : SplitWords(kEnglishAdjectives)) {
    lexicon.Add(near(key), std::string(adjective));
    lexicon.Add(near(key * 3 + 500), WithLy(adjective));
    lexicon.Add(near(key * 8 + 4000), std::string(adjective) + "ness");
    key += 5;
  }
  key = 200;
  for (const std::string_view name : SplitWords(kEnglishNames)) {
    lexicon.Add(near(key), std::string(name));
    lexicon.Add(near(key * 5), std::string(name) + "'s");
    key += 12;
  }
  lexicon.Sort();
  return lexicon;
}

class EnglishVocabulary final : public Vocabulary {
 public:
  const ZipfRanks& ranks() const override { return ranks_; }

  void AppendWord(uint64_t rank, std::string& out) const override {
    if (rank < lexicon_.size()) {
      out += lexicon_[rank];
      return;
    }
    Draws draws(rank, RngStream(RngPurpose::kCorpus, 3));
    const uint32_t kind = draws.Below(100);
    if (kind < 40) {
      Derived(draws, out);
    } else if (kind < 50) {
      out += Stem(draws);
      out += Stem(draws);
    } else {
      Invented(draws, out);
    }
  }

 private:
  std::string_view Stem(Draws& draws) const {
    const uint32_t kind = draws.Below(100);
    return draws.Pick(kind < 50 ? nouns_ : kind < 80 ? verbs_ : adjectives_);
  }

  void Derived(Draws& draws, std::string& out) const {
    const bool prefixed = draws.Chance(35);
    if (prefixed) out += draws.Pick(prefixes_);
    std::string_view stem = Stem(draws);
    out += stem;
    if (prefixed && draws.Chance(50)) return;
    const std::string_view suffix = draws.Pick(suffixes_);
    if (out.back() == 'e' && std::string_view("aeio").find(suffix[0]) != std::string_view::npos) {
      out.pop_back();
    }
    out += suffix;
  }

  void Invented(Draws& draws, std::string& out) const {
    const size_t begin = out.size();
    for (int syllables = draws.Between(1, 3); syllables > 0; --syllables) {
      out += draws.Pick(onsets_);
      out += draws.Pick(nuclei_);
      out += draws.Pick(codas_);
    }
    if (draws.Chance(75)) UpperAt(out, begin);
    if (draws.Chance(10)) out += "'s";
  }

  ZipfRanks ranks_{0.7, 1.1, 7900, 1.77};
  Lexicon lexicon_ = EnglishLexicon();
  std::vector<std::string_view> nouns_ = SplitWords(kEnglishNouns);
  std::vector<std::string_view> verbs_ = SplitWords(kEnglishVerbs);
  std::vector<std::string_view> adjectives_ = SplitWords(kEnglishAdjectives);
  std::vector<std::string_view> prefixes_ = SplitWords(kEnglishPrefixes);
  std::vector<std::string_view> suffixes_ = SplitWords(kEnglishSuffixes);
  std::vector<std::string_view> onsets_ = SplitWords(kEnglishOnsets);
  std::vector<std::string_view> nuclei_ = SplitWords(kEnglishNuclei);
  std::vector<std::string_view> codas_ = SplitWords(kEnglishCodas);
};

constexpr ProseStyle kStyles[] = {{"\"", "\"", "'", " - ", 35},
                                  {"\"", "\"", "'", " -- ", 20},
                                  {"“", "”", "’", "—", 40},
                                  {"‘", "’", "’", " – ", 5}};

class EnglishWriter final : public ProseWriter {
 public:
  EnglishWriter() : ProseWriter(kStyles) {}

 private:
  const Vocabulary& vocabulary() const override { return vocabulary_; }
  EnglishVocabulary vocabulary_;
};

}  // namespace

std::unique_ptr<Vocabulary> NewEnglishVocabulary() {
  return std::make_unique<EnglishVocabulary>();
}

std::unique_ptr<BenchWriter> NewEnglishWriter() {
  return std::make_unique<EnglishWriter>();
}

}  // namespace folio
