#include "folio/bench/prose.h"

#include <fmt/format.h>

#include <iterator>

namespace folio {
namespace {

class Document {
 public:
  Document(const Vocabulary& vocabulary, const ProseStyle& style, Draws& draws, std::string& out)
      : vocabulary_(vocabulary),
        style_(style),
        draws_(draws),
        out_(out),
        ranks_(vocabulary.ranks(), 2000),
        longest_(draws.Chance(35) ? 4 : 12),
        wraps_(draws.Chance(15)),
        paragraph_end_(draws.Chance(60) ? "\n\n" : "\n") {}

  void Write() {
    const size_t end = out_.size() + (size_t{512} << draws_.Below(5));
    while (out_.size() < end) {
      if (draws_.Chance(6)) {
        Heading();
      } else if (draws_.Chance(4)) {
        List();
      } else {
        Paragraph();
      }
    }
  }

 private:
  void Paragraph() {
    for (int sentences = draws_.Between(1, 7); sentences > 0; --sentences) {
      Sentence();
      if (sentences > 1) Space();
    }
    Break(paragraph_end_);
  }

  void Heading() {
    Words(draws_.Between(1, 6), 60);
    Break(paragraph_end_);
  }

  void List() {
    const bool numbered = draws_.Chance(40);
    for (int item = 1, items = draws_.Between(2, 6); item <= items; ++item) {
      out_ += numbered ? fmt::format("{}. ", item) : draws_.Chance(80) ? "- " : "* ";
      Words(draws_.Between(1, 9), 3);
      Break("\n");
    }
    Break("\n");
  }

  void Sentence() {
    const bool quoted = draws_.Chance(8);
    if (quoted) out_ += style_.open_quote;
    Words(draws_.BetweenTwice(1, longest_), 0);
    if (quoted && draws_.Chance(50)) {
      out_ += ",";
      out_ += style_.close_quote;
      Space();
      Word();
      Space();
      Word();
      out_ += ".";
      return;
    }
    const uint32_t kind = draws_.Below(100);
    out_ += kind < 86 ? "." : kind < 92 ? "?" : kind < 96 ? "!" : kind < 98 ? "..." : ":";
    if (quoted) out_ += style_.close_quote;
  }

  // The first begins with a capital, the others with the chance of `capitals` percent.
  void Words(int count, double capitals) {
    for (int i = 0; i < count; ++i) {
      if (i > 0) Separator();
      const size_t begin = out_.size();
      Word();
      if (i == 0 || (capitals > 0 && draws_.Chance(capitals))) UpperAt(out_, begin);
    }
  }

  void Separator() {
    const uint32_t kind = draws_.Below(1000);
    if (kind < 62) {
      out_ += ",";
    } else if (kind < 67) {
      out_ += ";";
    } else if (kind < 71) {
      out_ += ":";
    } else if (kind < 80) {
      out_ += style_.dash;
      return;
    } else if (kind < 88) {
      Space();
      out_ += "(";
      Word();
      Space();
      Word();
      out_ += ")";
    } else if (kind < 95) {
      Space();
      out_ += style_.open_quote;
      Word();
      out_ += style_.close_quote;
    } else if (kind < 110) {
      out_ += "-";
      return;
    }
    Space();
  }

  void Word() {
    const uint32_t kind = draws_.Below(1000);
    if (kind < 20) return Number();
    if (kind < 25) return Acronym();
    if (kind < 26) return Address();
    const size_t begin = out_.size();
    vocabulary_.AppendWord(ranks_.Next(draws_), out_);
    if (style_.apostrophe == "'") return;
    const size_t at = out_.find('\'', begin);
    if (at != std::string::npos) out_.replace(at, 1, style_.apostrophe);
  }

  void Number() {
    const int a = static_cast<int>(draws_.Below(draws_.Chance(60) ? 100 : 1000));
    const auto out = std::back_inserter(out_);
    switch (draws_.Below(8)) {
      case 0:
      case 1:
        fmt::format_to(out, "{}", 1880 + draws_.Below(150));
        break;
      case 2:
        fmt::format_to(out, "{}.{}", a, draws_.Below(10));
        break;
      case 3:
        fmt::format_to(out, "{},{:03}", a + 1, draws_.Below(1000));
        break;
      case 4:
        fmt::format_to(out, "{}%", a);
        break;
      case 5:
        fmt::format_to(out, "${}", a);
        break;
      default:
        fmt::format_to(out, "{}", a);
    }
  }

  void Acronym() {
    for (int letters = draws_.Between(2, 4); letters > 0; --letters) {
      out_ += static_cast<char>('A' + draws_.Below(26));
    }
  }

  void Address() {
    static constexpr std::string_view kEnds[] = {".com/", ".org/", ".net/", ".ru/", ".io/"};
    out_ += "https://www.";
    for (int letters = draws_.Between(4, 12); letters > 0; --letters) {
      out_ += "etaoinshrdlcumwfgypb"[draws_.Below(20)];
    }
    out_ += draws_.Pick(kEnds);
    if (draws_.Chance(50)) fmt::format_to(std::back_inserter(out_), "{:x}", draws_.Bits());
  }

  void Space() {
    const bool full = wraps_ && out_.size() - line_ > 66;
    if (full) {
      Break("\n");
    } else {
      out_ += ' ';
    }
  }

  void Break(std::string_view end) {
    out_ += end;
    line_ = out_.size();
  }

  const Vocabulary& vocabulary_;
  const ProseStyle& style_;
  Draws& draws_;
  std::string& out_;
  DocumentRanks ranks_;
  int longest_;  // half the words of the longest sentence
  bool wraps_;   // lines are broken at 72 columns or so
  std::string_view paragraph_end_;
  size_t line_ = out_.size();  // where the line began
};

}  // namespace

void ProseWriter::AppendDocument(Draws& draws, std::string& out) const {
  double at = draws.Below(100);
  const ProseStyle* style = styles_.data();
  while (at >= style->percent) at -= style++->percent;
  Document(vocabulary(), *style, draws, out).Write();
}

}  // namespace folio
