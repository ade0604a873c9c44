#include "folio/text/test_oracles.h"

#include <algorithm>
#include <functional>

#include "folio/base/check.h"
#include "folio/base/utf8.h"
#include "folio/text/unicode.h"

namespace folio {

struct SplitOracle::CodePoint {
  char32_t code;
  CharClass char_class;
  size_t end;  // byte offset
};

namespace {

using CodePoint = SplitOracle::CodePoint;

constexpr char32_t kIllFormed = 0xFFFFFFFF;

// Finds the class by binary search among the ranges, not with the scanners' table.
CharClass SlowClassOf(char32_t code) {
  if (code == kIllFormed) return CharClass::kOther;
  const auto ranges = CharClassRanges();
  const auto above = std::upper_bound(ranges.begin(), ranges.end(), code << 4 | 0xF);
  return static_cast<CharClass>(*(above - 1) & 0xF);
}

std::vector<CodePoint> Decode(std::string_view text) {
  std::vector<CodePoint> chars;
  for (size_t at = 0; at < text.size();) {
    const Utf8Char c = DecodeUtf8(text, at);
    const bool valid = c.status == Utf8Status::kValid;
    at += valid ? c.length : 1;
    const char32_t code = valid ? c.code : kIllFormed;
    chars.push_back({code, SlowClassOf(code), at});
  }
  return chars;
}

// Unicode's simple case folding, as far as ASCII letters are concerned.
char32_t Fold(char32_t code) {
  if (code >= 'A' && code <= 'Z') return code + 32;
  if (code == 0x017F) return 's';
  if (code == 0x212A) return 'k';
  return code;
}

}  // namespace

// One of: a test of a character, a group of alternatives (each a sequence), the end of the text;
// repeated from `least` to `most` times.
struct SplitOracle::Node {
  std::function<bool(const CodePoint&)> test;
  std::vector<std::vector<Node>> alternatives;
  bool is_text_end = false;
  bool is_lookahead = false;
  bool is_negative_lookahead = false;
  size_t least = 1;
  size_t most = 1;
};

namespace {

using Node = SplitOracle::Node;
using Test = std::function<bool(const CodePoint&)>;

class Parser {
 public:
  explicit Parser(std::string_view regex) : regex_(regex) {}

  Node ParseAll() {
    Node node = ParseAlternatives(false);
    FOLIO_CHECK(at_ == regex_.size(), "an unbalanced parenthesis");
    return node;
  }

 private:
  bool Take(std::string_view token) {
    if (!regex_.substr(at_).starts_with(token)) return false;
    at_ += token.size();
    return true;
  }

  Node ParseAlternatives(bool fold) {
    Node group;
    do {
      std::vector<Node> sequence;
      while (at_ < regex_.size() && regex_[at_] != '|' && regex_[at_] != ')') {
        Node node = ParseAtom(fold);
        ParseRepeat(node);
        sequence.push_back(std::move(node));
      }
      group.alternatives.push_back(std::move(sequence));
    } while (Take("|"));
    return group;
  }

  Node ParseGroup(bool fold) {
    Node group = ParseAlternatives(fold);
    FOLIO_CHECK(Take(")"), "no closing parenthesis");
    return group;
  }

  Node ParseAtom(bool fold) {
    if (Take("(?:")) return ParseGroup(fold);
    if (Take("(?i:")) return ParseGroup(true);
    Node node;
    if (Take("(?!")) {
      node = ParseGroup(fold);
      node.is_negative_lookahead = true;
    } else if (Take("(?=")) {
      node = ParseGroup(fold);
      node.is_lookahead = true;
    } else if (Take("$")) {
      node.is_text_end = true;
    } else if (Take("[")) {
      const bool negated = Take("^");
      std::vector<Test> tests;
      while (!Take("]")) tests.push_back(ParseTest(fold));
      node.test = [=](const CodePoint& c) {
        const auto holds = [&](const Test& test) { return test(c); };
        return std::any_of(tests.begin(), tests.end(), holds) != negated;
      };
    } else {
      node.test = ParseTest(fold);
    }
    return node;
  }

  Test ParseTest(bool fold) {
    const auto is_space = [](const CodePoint& c) { return c.char_class == CharClass::kSpace; };
    if (Take("\\s")) return is_space;
    if (Take("\\S")) return [=](const CodePoint& c) { return !is_space(c); };
    if (Take("\\p{")) {
      const size_t close = regex_.find('}', at_);
      const std::string_view name = regex_.substr(at_, close - at_);
      at_ = close + 1;
      return CategoryTest(name);
    }
    char32_t code = static_cast<unsigned char>(regex_[at_++]);
    if (code == '\\') {
      code = static_cast<unsigned char>(regex_[at_++]);
      if (code == 'r') code = '\r';
      if (code == 'n') code = '\n';
    }
    FOLIO_CHECK(code < 0x80 && std::string_view("().*?+{^").find(static_cast<char>(code)) ==
                                   std::string_view::npos,
                "syntax that the oracle does not know");
    return [=](const CodePoint& c) { return c.code == code || (fold && Fold(c.code) == code); };
  }

  static Test CategoryTest(std::string_view name) {
    if (name == "L") return [](const CodePoint& c) { return IsLetter(c.char_class); };
    CharClass wanted = CharClass::kOther;
    for (const auto& [known, char_class] : std::initializer_list<std::pair<const char*, CharClass>>{
             {"N", CharClass::kNumber},
             {"M", CharClass::kMark},
             {"Lu", CharClass::kUpper},
             {"Lt", CharClass::kTitle},
             {"Ll", CharClass::kLower},
             {"Lm", CharClass::kModifier},
             {"Lo", CharClass::kOtherLetter}}) {
      if (name == known) wanted = char_class;
    }
    FOLIO_CHECK(wanted != CharClass::kOther, "a category that the oracle does not know");
    return [=](const CodePoint& c) { return c.char_class == wanted; };
  }

  void ParseRepeat(Node& node) {
    constexpr size_t kUnlimited = static_cast<size_t>(-1);
    if (Take("?")) {
      node.least = 0;
    } else if (Take("*")) {
      node.least = 0;
      node.most = kUnlimited;
    } else if (Take("+")) {
      node.most = kUnlimited;
    } else if (Take("{1,2}")) {
      node.most = 2;
    } else if (Take("{1,3}")) {
      node.most = 3;
    }
    // No pattern has more of the same after a possessive quantifier.
    if (node.least != node.most) Take("+");
  }

  std::string_view regex_;
  size_t at_ = 0;
};

// Returns true if the rest of the pattern matches from a position in characters.
using Rest = std::function<bool(size_t)>;

class Matcher {
 public:
  explicit Matcher(const std::vector<CodePoint>& chars) : chars_(chars) {}

  bool MatchRepeated(const Node& node, size_t times, size_t at, const Rest& rest) const {
    const auto again = [&](size_t next) {
      return next > at && MatchRepeated(node, times + 1, next, rest);
    };
    const bool is_assertion = node.is_text_end || node.is_lookahead || node.is_negative_lookahead;
    if (is_assertion) return MatchOnce(node, at, rest);
    if (times < node.most && MatchOnce(node, at, again)) return true;
    return times >= node.least && rest(at);
  }

 private:
  bool MatchOnce(const Node& node, size_t at, const Rest& rest) const {
    if (node.is_text_end) return at == chars_.size() && rest(at);
    if (node.is_lookahead) {
      return MatchAny(node, at, [](size_t) { return true; }) && rest(at);
    }
    if (node.is_negative_lookahead) {
      return !MatchAny(node, at, [](size_t) { return true; }) && rest(at);
    }
    if (node.test) return at < chars_.size() && node.test(chars_[at]) && rest(at + 1);
    return MatchAny(node, at, rest);
  }

  bool MatchAny(const Node& group, size_t at, const Rest& rest) const {
    return std::any_of(group.alternatives.begin(), group.alternatives.end(),
                       [&](const auto& sequence) { return MatchFrom(sequence, 0, at, rest); });
  }

  bool MatchFrom(const std::vector<Node>& sequence, size_t index, size_t at,
                 const Rest& rest) const {
    if (index == sequence.size()) return rest(at);
    return MatchRepeated(sequence[index], 0, at,
                         [&](size_t next) { return MatchFrom(sequence, index + 1, next, rest); });
  }

  const std::vector<CodePoint>& chars_;
};

}  // namespace

SplitOracle::SplitOracle(std::string_view regex)
    : root_(std::make_unique<Node>(Parser(regex).ParseAll())) {}

SplitOracle::~SplitOracle() = default;

std::vector<size_t> SplitOracle::Split(std::string_view text) const {
  const std::vector<CodePoint> chars = Decode(text);
  const Matcher matcher(chars);
  std::vector<size_t> ends;
  for (size_t at = 0; at < chars.size();) {
    size_t stop = at;
    const bool found = matcher.MatchRepeated(*root_, 0, at, [&](size_t end) {
      stop = end;
      return true;
    });
    FOLIO_CHECK(found && stop > at, "the pattern matches nothing here");
    at = stop;
    ends.push_back(chars[at - 1].end);
  }
  return ends;
}

}  // namespace folio
