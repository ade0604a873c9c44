#include <fmt/format.h>

#include <iterator>

#include "folio/bench/lexicon.h"
#include "folio/bench/prose.h"
#include "folio/bench/words.h"
#include "folio/text/utf8.h"

namespace folio {
namespace {

class ChineseVocabulary final : public Vocabulary {
 public:
  ChineseVocabulary() {
    for (size_t i = 0; i < 400; ++i) {
      lexicon_.Add(static_cast<double>(i) * 2, std::string(characters_[i]));
    }
    double key = 8;
    for (const std::string_view word : SplitWords(kChineseWords)) {
      lexicon_.Add(key, std::string(word));
      key += 4;
    }
    lexicon_.Sort();
  }

  const ZipfRanks& ranks() const override { return ranks_; }

  // A word that is not in the lexicon is of one to four characters, mostly two.
  void AppendWord(uint64_t rank, std::string& out) const override {
    if (rank < lexicon_.size()) {
      out += lexicon_[rank];
      return;
    }
    Draws draws(rank, RngStream(RngPurpose::kCorpus, 6));
    const uint32_t kind = draws.Below(100);
    const int length = kind < 5 ? 1 : kind < 72 ? 2 : kind < 90 ? 3 : 4;
    for (int i = 0; i < length; ++i) AppendCharacter(character_ranks_.Draw(draws), out);
  }

 private:
  // Those that are not listed are scattered over the block of unified ideographs.
  void AppendCharacter(uint64_t rank, std::string& out) const {
    if (rank < characters_.size()) {
      out += characters_[rank];
    } else {
      AppendUtf8(static_cast<char32_t>(0x4E00 + rank * 7919 % 20902), out);
    }
  }

  ZipfRanks ranks_{1.5, 1.1, 6000, 1.8};
  ZipfRanks character_ranks_{120, 1, 2400, 4};
  std::vector<std::string_view> characters_ = SplitCharacters(kChineseCharacters);
  Lexicon lexicon_;
};

// Documents are conversations of short lines, prose, or technical texts with Latin words.
class ChineseWriter final : public BenchWriter {
 public:
  void AppendDocument(Draws& draws, std::string& out) const override {
    DocumentRanks ranks(vocabulary_.ranks(), 2000);
    const uint32_t kind = draws.Below(100);
    const size_t end = out.size() + (size_t{512} << draws.Below(5));
    while (out.size() < end) {
      if (kind < 60) {
        Line(ranks, draws, out);
      } else {
        Paragraph(kind < 85 ? 1 : 9, ranks, draws, out);
      }
    }
  }

 private:
  void Line(DocumentRanks& ranks, Draws& draws, std::string& out) const {
    for (int clauses = draws.Between(1, 3); clauses > 0; --clauses) {
      Words(draws.Chance(40) ? 1 : draws.Between(2, 3), ranks, draws, out);
      if (draws.Chance(20)) out += draws.Pick(ends_);
      if (clauses > 1) out += draws.Chance(35) ? "，" : " ";
    }
    if (draws.Chance(40)) out += draws.Chance(40) ? "。" : draws.Chance(50) ? "?" : "！";
    out += "\n";
  }

  // `foreign` is the percentage of words in Latin letters and of numbers.
  void Paragraph(double foreign, DocumentRanks& ranks, Draws& draws, std::string& out) const {
    for (int sentences = draws.Between(1, 6); sentences > 0; --sentences) {
      for (int clauses = draws.Between(1, 4); clauses > 0; --clauses) {
        Clause(foreign, ranks, draws, out);
        out += clauses == 1       ? (draws.Chance(90)   ? "。"
                                     : draws.Chance(50) ? "！"
                                                        : "？")
               : draws.Chance(80) ? "，"
               : draws.Chance(60) ? "、"
               : draws.Chance(50) ? "；"
                                  : "：";
      }
    }
    out += draws.Chance(50) ? "\n\n" : "\n";
  }

  void Clause(double foreign, DocumentRanks& ranks, Draws& draws, std::string& out) const {
    const int words = draws.BetweenTwice(1, 3);
    for (int i = 0; i < words; ++i) {
      if (draws.Chance(foreign)) {
        Foreign(draws, out);
      } else if (draws.Chance(2)) {
        static constexpr std::string_view kOpen[] = {"“", "《", "（"};
        static constexpr std::string_view kClose[] = {"”", "》", "）"};
        const uint32_t mark = draws.Below(3);
        out += kOpen[mark];
        Words(draws.Between(1, 3), ranks, draws, out);
        out += kClose[mark];
      } else {
        Words(1, ranks, draws, out);
      }
    }
    if (draws.Chance(12)) out += draws.Pick(ends_);
  }

  void Words(int count, DocumentRanks& ranks, Draws& draws, std::string& out) const {
    for (; count > 0; --count) vocabulary_.AppendWord(ranks.Next(draws), out);
  }

  void Foreign(Draws& draws, std::string& out) const {
    const bool spaced = draws.Chance(60);
    if (spaced) out += ' ';
    if (draws.Chance(45)) {
      fmt::format_to(std::back_inserter(out), "{}",
                     draws.Chance(40) ? 1950 + draws.Below(80) : draws.Below(200));
    } else {
      const size_t begin = out.size();
      english_->AppendWord(100 + draws.Below(6000), out);
      if (draws.Chance(50)) UpperAt(out, begin);
    }
    if (spaced) out += ' ';
  }

  ChineseVocabulary vocabulary_;
  std::unique_ptr<Vocabulary> english_ = NewEnglishVocabulary();
  std::vector<std::string_view> ends_ = SplitWords(kChineseClauseEnds);
};

}  // namespace

std::unique_ptr<BenchWriter> NewChineseWriter() {
  return std::make_unique<ChineseWriter>();
}

}  // namespace folio
