#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "folio/text/chat_encoder.h"
#include "folio/text/tokenizer.h"

namespace folio {

// A conversation with a model, kept within its context: where it grows too long, the oldest turns
// (a message with its answer) are forgotten.
class ChatSession {
 public:
  // The session is with a model whose context has P tokens. The tokenizer must outlive it.
  ChatSession(const Tokenizer& tokenizer, ChatEncoder encoder, int64_t P);

  // The conversation begins with this message of the system from now on, whatever is forgotten; ""
  // takes it away. Throws a kInput Error for one that the tokenizer or the template does not take;
  // the one before it stays then.
  void SetSystem(const std::string& message);

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
  // The same of a turn that is over, without looking whether there is room: the next Ask does.
  void Said(const std::string& message, const std::string& answer);
  // Forgets the last answer, as if the model was only just asked. REQUIRES: it answered.
  void TakeBackAnswer();

 private:
  // With tokens of roles a turn is its ids, as they were chosen. A template may show earlier turns
  // otherwise than the last, so that it is given them all as texts, every time.
  struct Turn {
    std::string message;
    std::optional<std::vector<int32_t>> answer;  // of the last it may be missing
    std::vector<int32_t> asked;                  // ids of the message, with tokens of roles
  };
  void Begin(const std::string& message);
  // Returns the ids of the system's message and the turns from `first` on.
  std::vector<int32_t> Ids(size_t first) const;

  const Tokenizer& tokenizer_;
  ChatEncoder encoder_;
  int64_t P_;
  std::string system_;
  std::vector<int32_t> system_ids_;  // with tokens of roles
  std::deque<Turn> turns_;
};

}  // namespace folio
