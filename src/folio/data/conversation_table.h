#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "folio/data/token_file.h"

namespace folio {

// Tokens [begin, end) of a conversation that form an answer, including the token that ends it: each
// is a target of the tokens before it.
struct AnswerTokens {
  uint32_t begin = 0, end = 0;

  bool operator==(const AnswerTokens&) const = default;
};

// The conversations in one part of a data set, and the answers in them that are learned. In a file
// it is little-endian uint32: for each conversation its number of tokens, the number of tokens
// behind it that belong to none, the number of answers, and begin and end of each answer.
class ConversationTable {
 public:
  struct Entry {
    int64_t begin = 0;   // place of its first token in the part
    int64_t tokens = 0;  // its number of tokens
    std::span<const AnswerTokens> answers;
  };

  // Adds a conversation, followed by `behind` tokens that belong to none. REQUIRES: the answers are
  // in order, and within [1, tokens).
  void Add(int64_t tokens, int64_t behind, std::span<const AnswerTokens> answers);

  size_t size() const { return entries_.size(); }
  Entry operator[](size_t i) const;
  int64_t tokens() const { return tokens_; }  // in all conversations, and between and behind them

  std::string Bytes() const;
  // Throws a kInput Error that names `path` if the bytes are no table for this many tokens.
  static ConversationTable FromBytes(std::string_view bytes, const std::string& path,
                                     int64_t tokens);

 private:
  struct Place {
    int64_t begin = 0;
    uint32_t tokens = 0, behind = 0;
    size_t first_answer = 0;
  };

  std::vector<Place> entries_;
  std::vector<AnswerTokens> answers_;
  int64_t tokens_ = 0;
};

// The tokens that marked turns in data sets before they had tables: each conversation is followed
// by `border`, and its answers are between the consecutive tokens of `answer` and `end`.
struct ChatMarks {
  int32_t border = 0;
  std::vector<int32_t> answer;
  int32_t end = 0;

  bool operator==(const ChatMarks&) const = default;
};

// The table for tokens with such marks; reads all of them.
ConversationTable TableByMarks(const TokenFile& tokens, const ChatMarks& marks);

}  // namespace folio
