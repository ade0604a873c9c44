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
  // The session is with a model whose context has P tokens. The tokenizer must outlive it.
  ChatSession(const Tokenizer& tokenizer, const ChatFormat& format, int64_t P);

  struct Question {
    std::vector<int32_t> ids;  // what the model continues: the turns that are left, and the message
    int64_t forgotten = 0;     // turns that were left out just now
  };
  // Room is left for an answer of `max_tokens`, or of a quarter of P if they are more. Throws a
  // kInput Error for a message that the tokenizer has no tokens for. A message that alone is too
  // long is left whole.
  Question Ask(const std::string& message, int64_t max_tokens);
  // Takes the answer of the model. REQUIRES: it was asked.
  void Answered(std::span<const int32_t> ids);
  // Forgets the last answer, as if the model was only just asked. REQUIRES: it answered.
  void TakeBackAnswer();

 private:
  const Tokenizer& tokenizer_;
  ChatFormat format_;
  int64_t P_;
  std::deque<std::vector<int32_t>> turns_;  // the last may be without its answer
  size_t asked_ = 0;                        // tokens of the last without it
};

}  // namespace folio
