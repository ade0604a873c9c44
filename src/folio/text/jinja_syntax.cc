#include "folio/text/jinja_syntax.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <initializer_list>
#include <system_error>
#include <utility>

#include "folio/base/utf8.h"

namespace folio::jinja {
namespace {

enum class TokenKind {
  kText,
  kBeginOutput,
  kBeginBlock,
  kEndTag,
  kName,
  kNumber,
  kString,
  kSymbol,
  kEnd
};

struct Token {
  TokenKind kind = TokenKind::kEnd;
  int line = 1;
  std::string word = {};  // a name, a number or a symbol as written
  Text text = {};         // of text and strings
};

bool IsDigit(Char c) {
  return c >= U'0' && c <= U'9';
}
bool BeginsName(Char c) {
  return (c >= U'a' && c <= U'z') || (c >= U'A' && c <= U'Z') || c == U'_';
}

// Cuts a template into text and the tokens of its tags.
class Lexer {
 public:
  Lexer(std::string_view source, const std::string& where) : where_(where) {
    if (FindInvalidUtf8(source) != std::string_view::npos) Fail("it is not UTF-8");
    // Line ends become "\n", and the last one is dropped.
    for (size_t i = 0; i < source.size(); ++i) {
      if (source[i] == '\r' && i + 1 < source.size() && source[i + 1] == '\n') continue;
      utf8_ += source[i] == '\r' ? '\n' : source[i];
    }
    if (utf8_.ends_with('\n')) utf8_.pop_back();
    source_ = FromUtf8(utf8_);
  }

  std::vector<Token> Tokens() {
    while (at_ < source_.size()) {
      TextUpToTag();
      if (at_ == source_.size()) break;
      const Char kind = source_[at_ + 1];
      const int line = line_;
      Skip(2);
      if (at_ < source_.size() && (Next() == U'-' || Next() == U'+')) Skip(1);
      if (kind == U'#') {
        while (!EndsTag(kind)) {
          if (at_ == source_.size()) Fail("the comment is not closed", line);
          Skip(1);
        }
      } else {
        Add(kind == U'{' ? TokenKind::kBeginOutput : TokenKind::kBeginBlock, line);
        std::vector<Char> open;
        while (!open.empty() || !EndsTag(kind)) TokenOfTag(kind, open, line);
        Add(TokenKind::kEndTag, line_);
      }
    }
    Add(TokenKind::kEnd, line_);
    return std::move(tokens_);
  }

 private:
  [[noreturn]] void Fail(const std::string& cause, int line) const {
    throw TemplateError(where_, line, cause);
  }
  [[noreturn]] void Fail(const std::string& cause) const { Fail(cause, line_); }

  Char Next(size_t ahead = 0) const {
    return at_ + ahead < source_.size() ? source_[at_ + ahead] : U'\0';
  }
  void Skip(size_t count) {
    for (; count > 0; --count) line_ += source_[at_++] == U'\n' ? 1 : 0;
  }
  Token& Add(TokenKind kind, int line) {
    return tokens_.emplace_back(Token{.kind = kind, .line = line});
  }

  bool IsTag(size_t at) const {
    return at + 1 < source_.size() && source_[at] == U'{' &&
           (source_[at + 1] == U'{' || source_[at + 1] == U'%' || source_[at + 1] == U'#');
  }

  // Reads the text before the next tag. "{%-" removes all white space before it; "{%" and "{#"
  // remove blanks back to the beginning of the line.
  void TextUpToTag() {
    size_t end = at_;
    while (end < source_.size() && !IsTag(end)) ++end;
    size_t kept = end;
    if (end < source_.size()) {
      const Char sign = end + 2 < source_.size() ? source_[end + 2] : U'\0';
      size_t blank = end;
      const bool all = sign == U'-';
      while (blank > at_ && IsSpace(source_[blank - 1]) && (all || source_[blank - 1] != U'\n')) {
        --blank;
      }
      const bool begins_line = blank > at_ ? source_[blank - 1] == U'\n' : line_begins_;
      if (all || (sign != U'+' && source_[end + 1] != U'{' && begins_line)) kept = blank;
    }
    const Text text = source_.substr(at_, kept - at_);
    if (!text.empty()) Add(TokenKind::kText, line_).text = text;
    Skip(end - at_);
  }

  // The length of the end of such a tag, if it is next, else 0.
  size_t TagEnd(Char kind) const {
    const Char close = kind == U'{' ? U'}' : kind;
    const size_t signs = Next() == U'-' || (Next() == U'+' && close != U'}') ? 1 : 0;
    return Next(signs) == close && Next(signs + 1) == U'}' ? signs + 2 : 0;
  }

  // Reads the end of a tag, if next. "-%}" removes all white space behind it, "%}", "#}" one line
  // end.
  bool EndsTag(Char kind) {
    const size_t length = TagEnd(kind);
    if (length == 0) return false;
    const bool all = Next() == U'-';
    Skip(length);
    if (all) {
      while (at_ < source_.size() && IsSpace(Next())) Skip(1);
    } else if (length == 2 && kind != U'{' && Next() == U'\n') {
      Skip(1);
    }
    line_begins_ = source_[at_ - 1] == U'\n';
    return true;
  }

  void TokenOfTag(Char kind, std::vector<Char>& open, int begin) {
    while (IsSpace(Next())) Skip(1);
    if (at_ == source_.size()) Fail("the tag is not closed", begin);
    const Char c = Next();
    const int line = line_;
    if (c == U'\'' || c == U'"') {
      Text text = String();
      Add(TokenKind::kString, line).text = std::move(text);
    } else if (IsDigit(c)) {
      Number();
    } else if (BeginsName(c)) {
      std::string name;
      for (; BeginsName(Next()) || IsDigit(Next()); Skip(1)) name += static_cast<char>(Next());
      Add(TokenKind::kName, line).word = std::move(name);
    } else if (!open.empty() || TagEnd(kind) == 0) {
      Symbol(open);
    }
  }

  void Symbol(std::vector<Char>& open) {
    constexpr std::string_view kSymbols[] = {"==", "!=", "<=", ">=", "//", "**", "+", "-", "~",
                                             "*",  "/",  "%",  "<",  ">",  "=",  "(", ")", "[",
                                             "]",  "{",  "}",  ".",  ",",  ":",  "|"};
    const Char first = Next(), second = Next(1);
    for (const std::string_view symbol : kSymbols) {
      if (static_cast<Char>(symbol[0]) != first) continue;
      if (symbol.size() == 2 && static_cast<Char>(symbol[1]) != second) continue;
      if (first == U'(' || first == U'[' || first == U'{') open.push_back(first);
      if (first == U')' || first == U']' || first == U'}') {
        const Char opened = first == U')' ? U'(' : first == U']' ? U'[' : U'{';
        if (open.empty() || open.back() != opened) Fail(fmt::format("unexpected '{}'", symbol));
        open.pop_back();
      }
      Add(TokenKind::kSymbol, line_).word = symbol;
      return Skip(symbol.size());
    }
    Fail(fmt::format("unexpected {} in an expression", QuoteChar(first)));
  }

  void Number() {
    std::string digits;
    bool fraction = false;
    const int line = line_;
    const bool index = source_[at_ - 1] == U'.';  // x.0.1
    for (;; Skip(1)) {
      const Char c = Next();
      const bool point = c == U'.' && IsDigit(Next(1)) && !fraction && !index;
      const bool exponent = (c == U'e' || c == U'E') && (IsDigit(Next(1)) || IsDigit(Next(2))) &&
                            digits.find('e') == std::string::npos;
      const bool sign = (c == U'-' || c == U'+') && digits.ends_with('e');
      if (c == U'_' && IsDigit(Next(1))) continue;
      if (!IsDigit(c) && !point && !exponent && !sign) break;
      fraction = fraction || point || exponent;
      digits += exponent ? 'e' : static_cast<char>(c);
    }
    if (BeginsName(Next())) Fail("invalid number");
    Add(TokenKind::kNumber, line).word = std::move(digits);
  }

  // Reads a string with Python's escapes.
  Text String() {
    const Char quote = Next();
    const int begin = line_;
    Text text;
    for (Skip(1); Next() != quote;) {
      if (at_ == source_.size()) Fail("the string is not closed", begin);
      const Char c = Next();
      Skip(1);
      if (c != U'\\') {
        text += c;
        continue;
      }
      if (at_ == source_.size()) Fail("the string is not closed", begin);
      Escape(text);
    }
    Skip(1);
    return text;
  }

  void Escape(Text& text) {
    const Char c = Next();
    Skip(1);
    constexpr std::u32string_view kEscapes = U"ntr\\'\"abfv", kAs = U"\n\t\r\\'\"\a\b\f\v";
    if (const size_t at = kEscapes.find(c); at != std::u32string_view::npos) {
      text += kAs[at];
    } else if (c == U'x' || c == U'u' || c == U'U') {
      text += FromDigits(16, c == U'x' ? 2 : c == U'u' ? 4 : 8, true);
    } else if (c >= U'0' && c <= U'7') {
      --at_;
      text += FromDigits(8, 3, false);
    } else if (c == U'N') {
      Fail("the escape \\N{...} is not supported");
    } else if (c != U'\n') {
      text += U'\\';
      text += c;
    }
  }

  Char FromDigits(uint32_t base, int most, bool exactly) {
    uint32_t code = 0;
    int count = 0;
    for (; count < most; ++count) {
      const Char c = Next();
      const bool letter = base == 16 && ((c | 0x20U) >= U'a' && (c | 0x20U) <= U'f');
      if (!letter && (c < U'0' || c >= U'0' + std::min(base, 10U))) break;
      code = code * base + (letter ? (c | 0x20U) - U'a' + 10 : c - U'0');
      if (code > 0x10FFFF) Fail("an escape beyond U+10FFFF");
      Skip(1);
    }
    if (exactly && count < most)
      Fail(fmt::format("an escape requires {} hexadecimal digits", most));
    return code;
  }

  const std::string& where_;
  std::string utf8_;
  Text source_;
  size_t at_ = 0;
  int line_ = 1;
  bool line_begins_ = true;  // right behind a tag, or at the beginning of the template
  std::vector<Token> tokens_;
};

class Parser {
 public:
  Parser(std::vector<Token> tokens, const std::string& where)
      : tokens_(std::move(tokens)), where_(where) {}

  NodePtr Template() { return Sequence({}); }

 private:
  using Ends = std::initializer_list<std::string_view>;

  const Token& Now() const { return tokens_[at_]; }
  const Token& After() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }
  void Advance() { at_ += at_ + 1 < tokens_.size() ? 1 : 0; }
  bool Is(TokenKind kind, std::string_view word) const {
    return Now().kind == kind && Now().word == word;
  }
  bool IsName(std::string_view word) const { return Is(TokenKind::kName, word); }
  bool IsSymbol(std::string_view word) const { return Is(TokenKind::kSymbol, word); }
  bool Take(TokenKind kind, std::string_view word) {
    const bool is = Is(kind, word);
    if (is) Advance();
    return is;
  }
  bool TakeName(std::string_view word) { return Take(TokenKind::kName, word); }
  bool TakeSymbol(std::string_view word) { return Take(TokenKind::kSymbol, word); }

  [[noreturn]] void Fail(const std::string& cause, int line) const {
    throw TemplateError(where_, line, cause);
  }
  [[noreturn]] void Expected(const std::string& what) const {
    const Token& now = Now();
    const bool shown = now.kind == TokenKind::kName || now.kind == TokenKind::kSymbol ||
                       now.kind == TokenKind::kNumber;
    Fail(fmt::format("expected {}, found {}", what,
                     shown                            ? "'" + now.word + "'"
                     : now.kind == TokenKind::kEndTag ? "the end of the tag"
                     : now.kind == TokenKind::kString ? "a string"
                     : now.kind == TokenKind::kEnd    ? "the end of the template"
                                                      : "text"),
         now.line);
  }
  void ExpectSymbol(std::string_view word) {
    if (!TakeSymbol(word)) Expected(fmt::format("'{}'", word));
  }
  void ExpectEndTag() {
    if (Now().kind != TokenKind::kEndTag) Expected("the end of the tag");
    Advance();
  }
  std::string ExpectName() {
    if (Now().kind != TokenKind::kName) Expected("a name");
    std::string name = Now().word;
    Advance();
    return name;
  }

  template <class... Parts>
  NodePtr Make(NodeKind kind, int line, Parts... parts) {
    auto node = std::make_unique<Node>(Node{.kind = kind, .line = line, .depth = 1});
    (Append(*node, std::move(parts)), ...);
    return node;
  }
  void Append(Node& node, NodePtr part) {
    if (part) node.depth = std::max(node.depth, part->depth + 1);
    if (node.depth > kMostNesting) {
      Fail(fmt::format("it nests deeper than {}", kMostNesting), node.line);
    }
    node.parts.push_back(std::move(part));
  }

  // Counts the nesting depth while it exists.
  class Deeper {
   public:
    explicit Deeper(Parser& parser) : parser_(parser) {
      if (++parser_.depth_ <= kMostNesting) return;
      parser_.Fail(fmt::format("it nests deeper than {}", kMostNesting), parser_.Now().line);
    }
    Deeper(const Deeper&) = delete;
    ~Deeper() { --parser_.depth_; }

   private:
    Parser& parser_;
  };

  // Statements up to the tag of one of `ends`, whose name is then next; with no `ends`, up to the
  // end of the template.
  NodePtr Sequence(Ends ends) {
    const Deeper deeper(*this);
    const int begin = Now().line;
    NodePtr all = Make(NodeKind::kSequence, begin);
    for (;;) {
      const int line = Now().line;
      switch (Now().kind) {
        case TokenKind::kEnd:
          if (ends.size() > 0) Fail(fmt::format("'{}' is missing", *(ends.end() - 1)), opened_);
          return all;
        case TokenKind::kText: {
          NodePtr text = Make(NodeKind::kText, line);
          text->constant = std::make_shared<const TextValue>(nullptr, Now().text);
          Append(*all, std::move(text));
          Advance();
          break;
        }
        case TokenKind::kBeginOutput:
          Advance();
          Append(*all, Make(NodeKind::kOutput, line, TupleOrExpression()));
          ExpectEndTag();
          break;
        default:
          Advance();
          if (std::ranges::any_of(ends, [&](std::string_view end) { return IsName(end); })) {
            return all;
          }
          Append(*all, Statement());
      }
    }
  }

  NodePtr Statement() {
    const int line = Now().line;
    const std::string name = ExpectName();
    const int outer = std::exchange(opened_, line);
    NodePtr statement;
    if (name == "if") {
      statement = If(line);
    } else if (name == "for") {
      statement = For(line);
    } else if (name == "set") {
      statement = Set(line);
    } else if (name == "macro") {
      statement = Macro(line);
    } else if (name == "generation") {
      ExpectEndTag();
      statement = Make(NodeKind::kGeneration, line, Body({"endgeneration"}));
      Advance();
    } else if (name == "break" || name == "continue") {
      if (loops_ == 0) Fail(fmt::format("`{}` is outside a loop", name), line);
      statement = Make(name == "break" ? NodeKind::kBreak : NodeKind::kContinue, line);
    } else {
      Fail(fmt::format("the statement `{}` is not supported here", name), line);
    }
    ExpectEndTag();
    opened_ = outer;
    return statement;
  }

  // A sequence that no `break` can leave.
  NodePtr Body(Ends ends) {
    const int outer = std::exchange(loops_, 0);
    NodePtr body = Sequence(ends);
    loops_ = outer;
    return body;
  }

  NodePtr If(int line) {
    NodePtr node = Make(NodeKind::kIf, line);
    do {
      Append(*node, TupleOrExpression());
      ExpectEndTag();
      Append(*node, Sequence({"elif", "else", "endif"}));
    } while (TakeName("elif"));
    if (TakeName("else")) {
      ExpectEndTag();
      Append(*node, Sequence({"endif"}));
    }
    Advance();
    return node;
  }

  NodePtr For(int line) {
    NodePtr node = Make(NodeKind::kFor, line);
    const bool parentheses = TakeSymbol("(");
    do {
      node->names.push_back(Variable());
    } while (TakeSymbol(","));
    if (parentheses) ExpectSymbol(")");
    if (!TakeName("in")) Expected("'in'");
    Append(*node, TupleOrExpression(/*choice=*/false));
    Append(*node, TakeName("if") ? TupleOrExpression() : nullptr);
    if (IsName("recursive")) Fail("`recursive` loops are not supported", line);
    ExpectEndTag();
    ++loops_;
    Append(*node, Sequence({"else", "endfor"}));
    --loops_;
    NodePtr otherwise;
    if (TakeName("else")) {
      ExpectEndTag();
      otherwise = Sequence({"endfor"});
    }
    Append(*node, std::move(otherwise));
    Advance();
    return node;
  }

  // The name of a variable that is set.
  std::string Variable() {
    const int line = Now().line;
    std::string name = ExpectName();
    for (const char* word : {"loop", "true", "false", "none", "True", "False", "None", "not", "and",
                             "or", "in", "is", "if", "else"}) {
      if (name == word) Fail(fmt::format("'{}' is not a valid variable name", word), line);
    }
    return name;
  }

  NodePtr Set(int line) {
    NodePtr node = Make(NodeKind::kSet, line);
    node->name = Variable();
    if (TakeSymbol(".")) node->names.push_back(ExpectName());
    if (IsSymbol(",")) Fail("`set` with several names is not supported", line);
    if (TakeSymbol("=")) {
      Append(*node, TupleOrExpression());
      return node;
    }
    if (IsSymbol("|")) Fail("a filter of a `set` block is not supported", line);
    ExpectEndTag();
    Append(*node, Body({"endset"}));
    Advance();
    return node;
  }

  NodePtr Macro(int line) {
    if (loops_ > 0 || in_macro_) Fail("macros inside loops or macros are not supported", line);
    in_macro_ = true;
    NodePtr node = Make(NodeKind::kMacro, line);
    node->name = Variable();
    ExpectSymbol("(");
    std::vector<NodePtr> defaults;
    while (!TakeSymbol(")")) {
      if (!node->names.empty()) ExpectSymbol(",");
      node->names.push_back(Variable());
      if (TakeSymbol("=")) {
        defaults.push_back(Expression());
      } else if (!defaults.empty()) {
        Fail("a parameter without a default follows one with a default", line);
      }
    }
    ExpectEndTag();
    Append(*node, Body({"endmacro"}));
    for (NodePtr& one : defaults) Append(*node, std::move(one));
    Advance();
    TakeName(node->name);  // {% endmacro name %}
    in_macro_ = false;
    return node;
  }

  // One expression, or several separated by commas, which make a tuple.
  NodePtr TupleOrExpression(bool choice = true) {
    const int line = Now().line;
    NodePtr first = choice ? Expression() : Binary(0);
    if (!IsSymbol(",")) return first;
    NodePtr tuple = Make(NodeKind::kTuple, line, std::move(first));
    while (TakeSymbol(",")) {
      if (Now().kind == TokenKind::kEndTag || IsSymbol(")")) break;
      Append(*tuple, choice ? Expression() : Binary(0));
    }
    return tuple;
  }

  // one if condition else other
  NodePtr Expression() {
    const Deeper deeper(*this);
    NodePtr one = Binary(0);
    while (IsName("if")) {
      const int line = Now().line;
      Advance();
      NodePtr condition = Binary(0);
      NodePtr other = TakeName("else") ? Expression() : nullptr;
      one = Make(NodeKind::kChoice, line, std::move(condition), std::move(one), std::move(other));
    }
    return one;
  }

  static constexpr int kOfNot = 3, kOfCompare = 4;

  // The precedence of the next operator; 0 if none is next. Consumes no token.
  int Precedence() const {
    const Token& now = Now();
    if (now.kind == TokenKind::kName) {
      if (now.word == "or") return 1;
      if (now.word == "and") return 2;
      const bool is_in = now.word == "in" || (now.word == "not" && After().word == "in" &&
                                              After().kind == TokenKind::kName);
      return is_in ? kOfCompare : 0;
    }
    if (now.kind != TokenKind::kSymbol) return 0;
    const std::string& symbol = now.word;
    if (symbol == "+" || symbol == "-") return 5;
    if (symbol == "~") return 6;
    if (symbol == "*" || symbol == "/" || symbol == "//" || symbol == "%") return 7;
    for (const char* one : {"==", "!=", "<", "<=", ">", ">="}) {
      if (symbol == one) return kOfCompare;
    }
    if (symbol == "**") Fail("the operator ** is not supported", now.line);
    return 0;
  }

  // An expression of operators with a higher precedence than `than`: operands by Unary, and the
  // right side of an operator by Binary with that operator's precedence.
  NodePtr Binary(int than) {
    const Deeper deeper(*this);
    const int line = Now().line;
    NodePtr left;
    if (than < kOfNot && TakeName("not")) {
      left = Make(NodeKind::kNot, line, Binary(kOfNot - 1));
    } else {
      left = Unary();
    }
    for (int precedence; (precedence = Precedence()) > than;) {
      if (precedence == kOfCompare) {
        left = Comparison(std::move(left));
        continue;
      }
      const Token& now = Now();
      const std::string word = now.word;
      const int at = now.line;
      Advance();
      const NodeKind kind = precedence == 1   ? NodeKind::kOr
                            : precedence == 2 ? NodeKind::kAnd
                                              : NodeKind::kArithmetic;
      left = Make(kind, at, std::move(left), Binary(precedence));
      left->name = word;
    }
    return left;
  }

  // a < b <= c
  NodePtr Comparison(NodePtr first) {
    NodePtr node = Make(NodeKind::kCompare, Now().line, std::move(first));
    while (Precedence() == kOfCompare) {
      std::string word = Now().word;
      if (TakeName("not")) word = "not in";
      Advance();
      node->names.push_back(word);
      Append(*node, Binary(kOfCompare));
    }
    return node;
  }

  NodePtr Unary() {
    const Deeper deeper(*this);
    return Filtered(Signed());
  }

  NodePtr Signed() {
    const int line = Now().line;
    if (!IsSymbol("-") && !IsSymbol("+")) return Postfix(Primary());
    const Deeper deeper(*this);
    const NodeKind kind = IsSymbol("-") ? NodeKind::kNegative : NodeKind::kPositive;
    Advance();
    return Make(kind, line, Signed());
  }

  // Filters and tests have the precedence of attributes.
  NodePtr Filtered(NodePtr subject) {
    for (;;) {
      const int line = Now().line;
      if (TakeSymbol("|")) {
        subject = Make(NodeKind::kFilter, line, std::move(subject));
        subject->name = ExpectName();
        if (TakeSymbol("(")) Arguments(*subject);
      } else if (TakeName("is")) {
        subject = Test(std::move(subject), line);
      } else if (IsSymbol("(")) {
        subject = Call(std::move(subject));
      } else {
        return subject;
      }
    }
  }

  NodePtr Test(NodePtr subject, int line) {
    const bool inverted = TakeName("not");
    NodePtr test = Make(NodeKind::kTest, line, std::move(subject));
    test->name = ExpectName();
    const TokenKind next = Now().kind;
    if (TakeSymbol("(")) {
      Arguments(*test);
    } else if (next == TokenKind::kNumber || next == TokenKind::kString || IsSymbol("[") ||
               IsSymbol("{") ||
               (next == TokenKind::kName && !IsName("else") && !IsName("or") && !IsName("and") &&
                !IsName("is") && !IsName("if") && !IsName("in") && !IsName("not"))) {
      Append(*test, Postfix(Primary()));
    }
    return inverted ? Make(NodeKind::kNot, line, std::move(test)) : std::move(test);
  }

  NodePtr Primary() {
    const Token& now = Now();
    const int line = now.line;
    switch (now.kind) {
      case TokenKind::kName:
        return Name();
      case TokenKind::kNumber: {
        NodePtr number = Make(NodeKind::kConstant, line);
        number->constant = NumberOf(now);
        Advance();
        return number;
      }
      case TokenKind::kString: {
        Text text;
        for (; Now().kind == TokenKind::kString; Advance()) text += Now().text;
        NodePtr string = Make(NodeKind::kConstant, line);
        string->constant = std::make_shared<const TextValue>(nullptr, std::move(text));
        return string;
      }
      default:
        break;
    }
    if (TakeSymbol("(")) {
      if (TakeSymbol(")")) return Make(NodeKind::kTuple, line);
      NodePtr inner = TupleOrExpression();
      ExpectSymbol(")");
      return inner;
    }
    if (TakeSymbol("[")) {
      NodePtr list = Make(NodeKind::kList, line);
      while (!TakeSymbol("]")) {
        if (!list->parts.empty()) {
          ExpectSymbol(",");
          if (TakeSymbol("]")) break;
        }
        Append(*list, Expression());
      }
      return list;
    }
    if (TakeSymbol("{")) {
      NodePtr mapping = Make(NodeKind::kMapping, line);
      while (!TakeSymbol("}")) {
        if (!mapping->parts.empty()) {
          ExpectSymbol(",");
          if (TakeSymbol("}")) break;
        }
        Append(*mapping, Expression());
        ExpectSymbol(":");
        Append(*mapping, Expression());
      }
      return mapping;
    }
    Expected("an expression");
  }

  NodePtr Name() {
    const int line = Now().line;
    const std::string name = ExpectName();
    NodePtr node = Make(NodeKind::kConstant, line);
    if (name == "true" || name == "True") {
      node->constant = true;
    } else if (name == "false" || name == "False") {
      node->constant = false;
    } else if (name != "none" && name != "None") {
      for (const char* word :
           {"cycler", "joiner", "lipsum", "dict", "self", "super", "varargs", "kwargs", "caller"}) {
        if (name == word) Fail(fmt::format("`{}` is not supported here", name), line);
      }
      for (const char* word : {"in", "is", "if", "else", "and", "or", "not"}) {
        if (name == word) Fail(fmt::format("expected an expression, found '{}'", name), line);
      }
      node->kind = NodeKind::kName;
      node->name = name;
    }
    return node;
  }

  Value NumberOf(const Token& token) const {
    const char* begin = token.word.data();
    const char* end = begin + token.word.size();
    if (token.word.find_first_of(".e") == std::string::npos) {
      int64_t integer = 0;
      if (std::from_chars(begin, end, integer).ec == std::errc()) return integer;
      Fail(fmt::format("{} has more than 64 bits", token.word), token.line);
    }
    double number = 0;
    if (std::from_chars(begin, end, number).ec == std::errc()) return number;
    Fail(fmt::format("{} is too large", token.word), token.line);
  }

  NodePtr Postfix(NodePtr object) {
    for (;;) {
      const int line = Now().line;
      if (TakeSymbol(".")) {
        if (Now().kind == TokenKind::kNumber) {
          NodePtr index = Primary();
          object = Make(NodeKind::kItem, line, std::move(object), std::move(index));
        } else {
          object = Make(NodeKind::kAttribute, line, std::move(object));
          object->name = ExpectName();
        }
      } else if (TakeSymbol("[")) {
        object = Subscript(std::move(object), line);
      } else if (IsSymbol("(")) {
        object = Call(std::move(object));
      } else {
        return object;
      }
    }
  }

  NodePtr Subscript(NodePtr object, int line) {
    NodePtr part[3];
    size_t count = 0;
    bool slice = false;
    while (!TakeSymbol("]")) {
      if (TakeSymbol(":")) {
        slice = true;
        if (++count > 2) Fail("a slice has at most three parts", line);
      } else if (part[count] == nullptr) {
        part[count] = Expression();
      } else {
        Expected("']'");
      }
    }
    if (slice) {
      return Make(NodeKind::kSlice, line, std::move(object), std::move(part[0]), std::move(part[1]),
                  std::move(part[2]));
    }
    if (part[0] == nullptr) Fail("an index is missing", line);
    return Make(NodeKind::kItem, line, std::move(object), std::move(part[0]));
  }

  NodePtr Call(NodePtr what) {
    NodePtr call = Make(NodeKind::kCall, Now().line, std::move(what));
    ExpectSymbol("(");
    Arguments(*call);
    return call;
  }

  // After the opening parenthesis.
  void Arguments(Node& node) {
    const size_t before = node.parts.size();
    while (!TakeSymbol(")")) {
      if (node.parts.size() > before) {
        ExpectSymbol(",");
        if (TakeSymbol(")")) return;
      }
      if (IsSymbol("*") || IsSymbol("**")) Fail("arguments with * are not supported", Now().line);
      if (Now().kind == TokenKind::kName && After().kind == TokenKind::kSymbol &&
          After().word == "=") {
        std::string name = ExpectName();
        if (std::ranges::find(node.names, name) != node.names.end()) {
          Fail(fmt::format("'{}' is given twice", name), node.line);
        }
        node.names.push_back(std::move(name));
        Advance();
      } else if (!node.names.empty()) {
        Fail("a positional argument follows a named one", Now().line);
      }
      Append(node, Expression());
    }
  }

  std::vector<Token> tokens_;
  const std::string& where_;
  size_t at_ = 0;
  int depth_ = 0;
  int loops_ = 0;   // around this place
  int opened_ = 1;  // the line of the statement around it
  bool in_macro_ = false;
};

}  // namespace

NodePtr ParseTemplate(std::string_view source, const std::string& where) {
  return Parser(Lexer(source, where).Tokens(), where).Template();
}

}  // namespace folio::jinja
