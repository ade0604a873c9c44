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

// A conversation with a model, kept within its context: if it grows too long, the oldest turns (a
// message with its answer) are forgotten.
class ChatSession {
 public:
  // The session is with a model whose context has P tokens. The tokenizer must outlive it.
  ChatSession(const Tokenizer& tokenizer, ChatEncoder encoder, int64_t P);

  // Sets the message of the system, with which the conversation begins, whatever is forgotten; ""
  // for none. Throws a kInput Error, and changes nothing, for one that the tokenizer or the
  // template does not accept.
  void SetSystem(const std::string& message);

  struct Question {
    std::vector<int32_t> ids;  // the prompt for the model: the turns that are left, and the message
    int64_t forgotten = 0;     // the number of turns forgotten by this call
  };
  // Leaves room for an answer of `max_tokens`, or of a quarter of P if they are more. Throws a
  // kInput Error for a message that the tokenizer cannot encode. A message that is too long by
  // itself is kept whole.
  Question Ask(const std::string& message, int64_t max_tokens);
  // Adds the answer of the model. REQUIRES: it was asked.
  void Answered(std::span<const int32_t> ids);
  // Adds a whole turn, without a check for room, which the next Ask makes.
  void Said(const std::string& message, const std::string& answer);
  // Forgets the last answer, as if the model was only just asked. REQUIRES: it answered.
  void TakeBackAnswer();

 private:
  // With tokens of roles a turn is its ids, as they were chosen. A template may render earlier
  // turns differently from the last one, so that it renders the texts of all of them every time.
  struct Turn {
    std::string message;
    std::optional<std::vector<int32_t>> answer;  // may be missing in the last turn
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
