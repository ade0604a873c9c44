#pragma once

#include <cstddef>
#include <memory>
#include <string_view>
#include <vector>

namespace folio {

// Splits by the regular expression itself, with a backtracking matcher over code points: slow (and
// recursive in the length of a pretoken), but nothing in it knows a particular pattern. For tests.
class SplitOracle {
 public:
  // `regex` of the syntax that the published patterns use: literals, escapes, \s \S \p{..},
  // classes,
  // (?:) (?i:) (?!), $, and the greedy ? * + {m,n}.
  explicit SplitOracle(std::string_view regex);
  ~SplitOracle();

  // The ends of the pretokens of `text`.
  std::vector<size_t> Split(std::string_view text) const;

  struct Node;
  struct CodePoint;

 private:
  std::unique_ptr<Node> root_;
};

}  // namespace folio
