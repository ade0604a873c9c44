#include <fmt/format.h>

#include <initializer_list>
#include <iterator>

#include "folio/bench/lexicon.h"
#include "folio/bench/prose.h"
#include "folio/bench/words.h"

namespace folio {
namespace {

// What all files are made of.
struct CodeWords {
  std::vector<std::string_view> parts = SplitWords(kCodeParts);
  std::vector<std::string_view> common = SplitWords(kCodeCommon);
  std::vector<std::string_view> modules = SplitWords(kCodeModules);
  ZipfRanks part_ranks{8, 1, static_cast<uint32_t>(parts.size()), 1.9};
  std::unique_ptr<Vocabulary> english = NewEnglishVocabulary();
};

enum class Case { kSnake, kCamel, kPascal, kConstant };

// One file: in the manner of C (braces, semicolons) or of Python (indentation).
class SourceFile {
 public:
  SourceFile(const CodeWords& words, Draws& draws, std::string& out)
      : words_(words),
        draws_(draws),
        out_(out),
        comment_ranks_(words.english->ranks(), 2000),
        braces_(draws.Chance(60)),
        case_(draws.Chance(braces_ ? 50 : 15) ? Case::kCamel : Case::kSnake),
        indent_(!braces_           ? "    "
                : draws.Chance(35) ? "\t"
                : draws.Chance(50) ? "  "
                                   : "    ") {
    for (int n = draws.Between(20, 80); n > 0; --n) names_.push_back(NewName(case_));
    for (int n = draws.Between(3, 9); n > 0; --n) types_.push_back(NewName(Case::kPascal));
    for (int n = draws.Between(2, 8); n > 0; --n) constants_.push_back(NewName(Case::kConstant));
  }

  void Write() {
    const size_t end = out_.size() + (size_t{1024} << draws_.Below(5));
    for (int n = draws_.Between(1, 8); n > 0; --n) Import();
    out_ += "\n";
    while (out_.size() < end) {
      if (draws_.Chance(15)) {
        Table();
      } else {
        Function();
      }
    }
  }

 private:
  std::string NewName(Case how) {
    std::string name;
    for (int n = draws_.Chance(30) ? 1 : draws_.Between(2, 3), i = 0; i < n; ++i) {
      if (i > 0 && (how == Case::kSnake || how == Case::kConstant)) name += '_';
      const size_t begin = name.size();
      const uint64_t rank = words_.part_ranks.Draw(draws_);
      if (rank < words_.parts.size()) {
        name += words_.parts[rank];
      } else {
        Draws spelling(rank, RngStream(RngPurpose::kCorpus, 9));
        for (int letters = spelling.Between(2, 6); letters > 0; --letters) {
          name += "etaoinshrdlcumpfgbvkxqw"[spelling.Below(23)];
        }
      }
      if (how == Case::kPascal || (how == Case::kCamel && i > 0)) UpperAt(name, begin);
      for (size_t at = begin; how == Case::kConstant && at < name.size(); ++at) UpperAt(name, at);
    }
    if (draws_.Chance(5)) name += static_cast<char>('0' + draws_.Below(10));
    return name;
  }

  // In the order in which they stand here, from the left to the right.
  void Add(std::initializer_list<std::string_view> parts) {
    for (const std::string_view part : parts) out_ += part;
  }

  std::string_view Front(const std::vector<std::string>& from) {
    const double u = draws_.Bits() * 0x1p-32;
    return from[static_cast<size_t>(u * u * static_cast<double>(from.size()))];
  }
  std::string_view Name() {
    return draws_.Chance(35) ? draws_.PickFront(words_.common) : Front(names_);
  }
  std::string_view Type() {
    static constexpr std::string_view kTypes[] = {
        "int", "void", "char", "bool", "size_t", "const char", "uint32_t", "double", "struct"};
    return draws_.Chance(65) ? draws_.PickFront(kTypes) : Front(types_);
  }

  void Import() {
    const std::string_view module = draws_.Pick(words_.modules);
    if (braces_) {
      if (draws_.Chance(60)) {
        Add({"#include <", module, ">\n"});
      } else {
        Add({"#include \"", Name(), "/", Name(), ".h\"\n"});
      }
    } else {
      if (draws_.Chance(50)) {
        Add({"import ", module, "\n"});
      } else {
        Add({"from ", Name(), ".", Name(), " import ", Front(types_), "\n"});
      }
    }
  }

  void Prose(int words) {
    for (int i = 0; i < words; ++i) {
      if (i > 0) out_ += draws_.Chance(6) ? ", " : " ";
      const size_t begin = out_.size();
      if (draws_.Chance(12)) {
        out_ += Name();
      } else {
        words_.english->AppendWord(comment_ranks_.Next(draws_), out_);
        if (i == 0) UpperAt(out_, begin);
      }
    }
  }

  void Comment(int depth) {
    for (int lines = draws_.Chance(70) ? 1 : draws_.Between(2, 5); lines > 0; --lines) {
      Indent(depth);
      out_ += braces_ ? "// " : "# ";
      Prose(draws_.Between(2, 10));
      out_ += draws_.Chance(50) ? ".\n" : "\n";
    }
  }

  void Table() {
    if (braces_) {
      Add({"static const ", Type(), " ", Front(constants_), "[] = {\n"});
    } else {
      Add({Front(constants_), " = {\n"});
    }
    for (int n = draws_.Between(2, 12); n > 0; --n) {
      Indent(1);
      if (braces_) {
        out_ += "{ ";
        Literal();
        out_ += ", ";
      } else {
        Add({"'", Name(), "': "});
      }
      Expression(1);
      out_ += braces_ ? " },\n" : ",\n";
    }
    out_ += braces_ ? "};\n\n" : "}\n\n";
  }

  void Function() {
    const bool method = !braces_ && draws_.Chance(60);
    const int depth = method ? 1 : 0;
    if (method && draws_.Chance(20)) {
      Add({"class ", Front(types_), "(", draws_.Chance(50) ? "object" : Front(types_), "):\n"});
    }
    if (braces_ && draws_.Chance(60)) Comment(0);
    Indent(depth);
    if (braces_) {
      Add({draws_.Chance(40) ? "static " : "", Type(), " ", Name(), "("});
    } else {
      Add({"def ", Name(), "(", method ? "self" : Name()});
    }
    for (int n = draws_.Between(0, 3), i = 0; i < n; ++i) {
      if (i > 0 || !braces_) out_ += ", ";
      if (braces_) {
        Add({Type(), " ", draws_.Chance(45) ? "*" : "", Name()});
      } else {
        Add({Name(), draws_.Chance(25) ? "=None" : ""});
      }
    }
    out_ += !braces_ ? "):\n" : draws_.Chance(50) ? ")\n{\n" : ") {\n";
    if (!braces_ && draws_.Chance(55)) {
      Indent(depth + 1);
      out_ += "\"\"\"";
      Prose(draws_.Between(3, 14));
      out_ += ".\"\"\"\n";
    }
    Block(depth + 1);
    if (draws_.Chance(70)) {
      Indent(depth + 1);
      out_ += "return ";
      Expression(1);
      EndStatement();
    }
    out_ += braces_ ? "}\n\n" : method ? "\n" : "\n\n";
  }

  void Block(int depth) {
    for (int n = draws_.Between(1, depth > 2 ? 3 : 6); n > 0; --n) Statement(depth);
  }

  void Statement(int depth) {
    const uint32_t kind = draws_.Below(100);
    if (kind < 8) return Comment(depth);
    if (kind < 13) {
      out_ += "\n";
      return;
    }
    Indent(depth);
    if (kind < 32 && depth < 5) {
      static constexpr std::string_view kHeads[] = {"if", "if", "if not", "while", "for"};
      const uint32_t head = draws_.Below(5);
      Nested(kHeads[head == 2 && braces_ ? 0 : head], depth);
      return;
    }
    if (kind < 62) {
      if (braces_ && draws_.Chance(30)) {
        Add({Type(), " ", draws_.Chance(40) ? "*" : ""});
      } else if (draws_.Chance(30)) {
        out_ += braces_ ? draws_.Chance(50) ? "this->" : "ctx->" : "self.";
      }
      out_ += Name();
      out_ += draws_.Chance(90) ? " = " : draws_.Chance(50) ? " += " : " |= ";
      Expression(2);
    } else if (kind < 90) {
      Call(2);
    } else {
      static constexpr std::string_view kJumps[] = {"break", "continue", "return"};
      out_ += draws_.Pick(kJumps);
    }
    EndStatement();
  }

  void Nested(std::string_view head, int depth) {
    out_ += head;
    out_ += braces_ ? " (" : " ";
    if (head == "for") {
      if (braces_) {
        const std::string_view i = draws_.Chance(70) ? "i" : Name();
        Add({"int ", i, " = 0; ", i, " < ", Name(), "; ", i, "++"});
      } else {
        Add({Name(), " in "});
        Expression(1);
      }
    } else {
      static constexpr std::string_view kCompare[] = {" == ", " != ", " < ", " >= ", " && ", " > "};
      Expression(1);
      if (draws_.Chance(65)) {
        const std::string_view compare = draws_.PickFront(kCompare);
        out_ += compare == " && " && !braces_ ? " and " : compare;
        Expression(1);
      }
    }
    out_ += braces_ ? ") {\n" : ":\n";
    Block(depth + 1);
    if (!braces_) return;
    Indent(depth);
    out_ += "}\n";
  }

  void EndStatement() { out_ += braces_ ? ";\n" : "\n"; }

  void Call(int depth) {
    if (draws_.Chance(35)) {
      out_ += Name();
      out_ += braces_ && draws_.Chance(60) ? "->" : ".";
    }
    out_ += Name();
    out_ += '(';
    for (int n = draws_.Between(0, 3), i = 0; i < n; ++i) {
      if (i > 0) out_ += ", ";
      Expression(depth - 1);
    }
    out_ += ')';
  }

  void Expression(int depth) {
    const uint32_t kind = draws_.Below(100);
    if (kind < 30 || (depth <= 0 && kind < 55)) {
      out_ += Name();
    } else if (kind < 45) {
      Literal();
    } else if (kind < 60) {
      out_ += braces_ ? draws_.Chance(70) ? "ctx->" : "this->" : "self.";
      out_ += Name();
    } else if (kind < 65) {
      out_ += Front(constants_);
    } else if (kind < 72) {
      Add({Name(), "[", Name(), "]"});
    } else if (kind < 86 && depth > 0) {
      Call(depth);
    } else {
      static constexpr std::string_view kOperators[] = {" + ", " - ", " * ", " & ", " | ", " / "};
      out_ += Name();
      out_ += draws_.PickFront(kOperators);
      Expression(depth - 1);
    }
  }

  void Literal() {
    const auto append = std::back_inserter(out_);
    const uint32_t kind = draws_.Below(100);
    if (kind < 45) {
      fmt::format_to(append, "{}", draws_.Below(draws_.Chance(70) ? 3 : 300));
    } else if (kind < 53) {
      fmt::format_to(append, "0x{:x}", draws_.Bits() >> 8 * draws_.Below(4));
    } else if (kind < 57) {
      fmt::format_to(append, "{:.2f}", draws_.Below(1000) / 100.0);
    } else {
      const char quote = braces_ || draws_.Chance(40) ? '"' : '\'';
      out_ += quote;
      if (draws_.Chance(40)) {
        out_ += Name();
      } else {
        Prose(draws_.Between(1, 6));
        if (draws_.Chance(30)) out_ += braces_ ? ": %d\\n" : ": {}";
      }
      out_ += quote;
    }
  }

  void Indent(int depth) {
    for (; depth > 0; --depth) out_ += indent_;
  }

  const CodeWords& words_;
  Draws& draws_;
  std::string& out_;
  DocumentRanks comment_ranks_;
  bool braces_;
  Case case_;
  std::string_view indent_;
  std::vector<std::string> names_, types_, constants_;
};

class CodeWriter final : public BenchWriter {
 public:
  void AppendDocument(Draws& draws, std::string& out) const override {
    SourceFile(words_, draws, out).Write();
  }

 private:
  CodeWords words_;
};

}  // namespace

std::unique_ptr<BenchWriter> NewCodeWriter() {
  return std::make_unique<CodeWriter>();
}

}  // namespace folio
