#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <vector>

#include "folio/text/chat.h"

namespace folio {

// A conversation with a model, kept within its context: where it grows too long, the oldest turns
// (a message with its answer) are forgotten.
class ChatSession {
 public:
  // `room` tokens of a context of P are left for each answer: those asked for, or a quarter of P if
  // they are more. The tokenizer must outlive it.
  ChatSession(const Tokenizer& tokenizer, const ChatFormat& format, int64_t P, int64_t max_tokens);

  struct Question {
    std::vector<int32_t> ids;  // what the model continues: the turns that are left, and the message
    int64_t forgotten = 0;     // turns that were left out just now
  };
  // Throws a kInput Error for a message that the tokenizer has no tokens for. A message that alone
  // is too long is left whole.
  Question Ask(const std::string& message);
  // What the model answered. REQUIRES: it was asked.
  void Answered(std::span<const int32_t> ids);

 private:
  const Tokenizer& tokenizer_;
  ChatFormat format_;
  int64_t longest_;                         // tokens, of a question
  std::deque<std::vector<int32_t>> turns_;  // the last may be without its answer
};

}  // namespace folio
