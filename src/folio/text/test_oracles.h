#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string_view>
#include <vector>

#include "folio/text/bpe_tokenizer.h"

namespace folio {

// Splits by the regular expression itself, with a backtracking matcher over code points: slow (and
// recursive in the length of a pretoken), but without knowledge of a particular pattern.
class SplitOracle {
 public:
  // `regex` in the syntax of the published patterns: literals, escapes, \s \S \p{..}, classes, (?:)
  // (?i:) (?=) (?!), $, and the greedy or possessive ? * + {m,n}.
  explicit SplitOracle(std::string_view regex);
  ~SplitOracle();

  // The ends of the pretokens of `text`.
  std::vector<size_t> Split(std::string_view text) const;

  struct Node;
  struct CodePoint;

 private:
  std::unique_ptr<Node> root_;
};

// An oracle that follows the rules themselves: pretokens by the regular expression, each looked up
// as a whole if that is the rule, else merged by the definition.
class BpeOracle {
 public:
  explicit BpeOracle(const BpeTokenizer& tokenizer)
      : tokenizer_(tokenizer), split_(SplitPatternRegex(tokenizer.vocab().pattern)) {
    const ByteStrings& tokens = tokenizer.vocab().tokens;
    for (size_t id = 0; id < tokens.size(); ++id) {
      whole_.emplace(tokens[id], static_cast<int32_t>(id));
    }
    for (const SpecialToken& special : tokenizer.vocab().specials) whole_.erase(special.text);
  }

  std::vector<int32_t> Encode(std::string_view text) const {
    std::vector<int32_t> ids;
    size_t begin = 0;
    for (const size_t end : split_.Split(text)) {
      Append(text.substr(begin, end - begin), ids);
      begin = end;
    }
    return ids;
  }

 private:
  void Append(std::string_view pretoken, std::vector<int32_t>& ids) const {
    const auto whole = whole_.find(pretoken);
    if (whole != whole_.end() && (tokenizer_.vocab().whole_pretokens || pretoken.size() == 1)) {
      ids.push_back(whole->second);
      return;
    }
    const auto steps = tokenizer_.Explain(pretoken);
    if (steps.empty()) {
      for (const char& byte : pretoken) ids.push_back(whole_.at(std::string_view(&byte, 1)));
      return;
    }
    std::vector<int32_t> last = steps.back().before;
    last[steps.back().at] = steps.back().merged;
    last.erase(last.begin() + static_cast<ptrdiff_t>(steps.back().at) + 1);
    ids.insert(ids.end(), last.begin(), last.end());
  }

  const BpeTokenizer& tokenizer_;
  SplitOracle split_;
  std::map<std::string_view, int32_t> whole_;
};

}  // namespace folio
