#include <fmt/format.h>

#include <iterator>

#include "folio/bench/lexicon.h"
#include "folio/bench/prose.h"
#include "folio/bench/words.h"

namespace folio {
namespace {

// Nouns: in kanji, in kana, and loan words in katakana.
class JapaneseVocabulary final : public Vocabulary {
 public:
  JapaneseVocabulary() {
    Draws draws(0, RngStream(RngPurpose::kCorpus, 7));
    for (const std::string_view list : {kJapaneseWords, kJapaneseKana, kJapaneseLoans}) {
      double key = 1;
      for (const std::string_view word : SplitWords(list)) {
        lexicon_.Add(key * (0.5 + draws.Bits() * 0x1p-32), std::string(word));
        key += list == kJapaneseLoans ? 8 : 3;
      }
    }
    lexicon_.Sort();
  }

  const ZipfRanks& ranks() const override { return ranks_; }

  void AppendWord(uint64_t rank, std::string& out) const override {
    if (rank < lexicon_.size()) {
      out += lexicon_[rank];
      return;
    }
    Draws draws(rank, RngStream(RngPurpose::kCorpus, 8));
    const uint32_t kind = draws.Below(100);
    if (kind < 25) {
      for (int n = draws.Between(2, 6); n > 0; --n) out += draws.Pick(syllables_);
      return;
    }
    const int length = kind < 32 ? 1 : kind < 78 ? 2 : kind < 88 ? 3 : 4;
    for (int n = length; n > 0; --n) AppendKanji(draws, out);
  }

  void AppendKanji(Draws& draws, std::string& out) const {
    out += kanji_[kanji_ranks_.Draw(draws) % kanji_.size()];
  }

 private:
  ZipfRanks ranks_{3, 1.1, 6000, 1.8};
  std::vector<std::string_view> kanji_ = SplitCharacters(kJapaneseKanji);
  ZipfRanks kanji_ranks_{100, 1, static_cast<uint32_t>(kanji_.size()), 4};
  std::vector<std::string_view> syllables_ = SplitWords(kJapaneseSyllables);
  Lexicon lexicon_;
};

// Sentences of phrases, each a noun and a particle, with a verb at the end of a clause.
class JapaneseWriter final : public BenchWriter {
 public:
  void AppendDocument(Draws& draws, std::string& out) const override {
    DocumentRanks ranks(vocabulary_.ranks(), 2000);
    const bool technical = draws.Chance(25);
    const bool short_lines = draws.Chance(25);
    const size_t end = out.size() + (size_t{512} << draws.Below(5));
    while (out.size() < end) {
      const bool spoken = !technical && draws.Chance(35);
      if (spoken) {
        out += "「";
      } else if (!short_lines) {
        out += draws.Chance(70) ? "　" : "";
      }
      for (int n = spoken || short_lines ? 1 : draws.Between(1, 5); n > 0; --n) {
        Sentence(technical ? 8 : 0.5, short_lines ? 2 : 3, ranks, draws, out);
        if (!spoken || n > 1) out += draws.Chance(92) ? "。" : draws.Chance(50) ? "！" : "？";
      }
      out += spoken ? "」\n" : "\n";
    }
  }

 private:
  // `foreign` is the percentage of nouns in Latin letters and of numbers.
  void Sentence(double foreign, int longest, DocumentRanks& ranks, Draws& draws,
                std::string& out) const {
    for (int clauses = draws.Between(1, 2); clauses > 0; --clauses) {
      for (int phrases = draws.Between(1, longest); phrases > 0; --phrases) {
        Noun(foreign, ranks, draws, out);
        out += draws.PickFront(particles_);
        if (draws.Chance(14)) out += "、";
      }
      if (draws.Chance(85)) {
        if (draws.Chance(80)) {
          out += draws.PickFront(stems_);
        } else {
          vocabulary_.AppendKanji(draws, out);
        }
        out += draws.Pick(endings_);
      }
      if (clauses > 1) out += draws.Chance(60) ? "、" : "";
    }
  }

  void Noun(double foreign, DocumentRanks& ranks, Draws& draws, std::string& out) const {
    const auto append = std::back_inserter(out);
    if (draws.Chance(foreign)) {
      out += ' ';
      english_->AppendWord(100 + draws.Below(6000), out);
      out += ' ';
    } else if (draws.Chance(2)) {
      fmt::format_to(append, "{}", draws.Below(draws.Chance(80) ? 100 : 2030));
      static constexpr std::string_view kUnits[] = {"年", "月", "日", "人", "円", "つ", "回", "％"};
      out += draws.Pick(kUnits);
    } else if (draws.Chance(1.5)) {
      out += "『";
      vocabulary_.AppendWord(ranks.Next(draws), out);
      out += "』";
    } else {
      vocabulary_.AppendWord(ranks.Next(draws), out);
    }
  }

  JapaneseVocabulary vocabulary_;
  std::unique_ptr<Vocabulary> english_ = NewEnglishVocabulary();
  std::vector<std::string_view> particles_ = SplitWords(kJapaneseParticles);
  std::vector<std::string_view> stems_ = SplitWords(kJapaneseStems);
  std::vector<std::string_view> endings_ = SplitWords(kJapaneseEndings);
};

}  // namespace

std::unique_ptr<BenchWriter> NewJapaneseWriter() {
  return std::make_unique<JapaneseWriter>();
}

}  // namespace folio
