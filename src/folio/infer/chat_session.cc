#include "folio/infer/chat_session.h"

#include <algorithm>
#include <utility>

#include "folio/base/check.h"
#include "folio/text/chat.h"

namespace folio {

ChatSession::ChatSession(const Tokenizer& tokenizer, ChatEncoder encoder, int64_t P)
    : tokenizer_(tokenizer), encoder_(std::move(encoder)), P_(P) {}

void ChatSession::SetSystem(const std::string& message) {
  std::vector<int32_t> ids;
  if (!message.empty()) {
    // A template is tried with a question behind it: some take no system's message.
    Conversation conversation{.messages = {{ChatRole::kSystem, message}}};
    const bool of_roles = encoder_.format() != nullptr;
    if (!of_roles) conversation.messages.push_back({ChatRole::kUser, "?"});
    encoder_.Encode(tokenizer_, conversation, /*ask=*/!of_roles, "the system message", ids);
    if (!of_roles) ids.clear();
  }
  system_ = message;
  system_ids_ = std::move(ids);
}

ChatSession::Question ChatSession::Ask(const std::string& message, int64_t max_tokens) {
  const int64_t longest = P_ - std::min(max_tokens, P_ / 4);
  Begin(message);
  Question question;
  try {
    question.ids = Ids(0);
  } catch (...) {  // a message that the template does not take: it was not said
    turns_.pop_back();
    throw;
  }
  if (std::ssize(question.ids) <= longest) return question;
  // The fewest turns without which there is room, or all but the last. Each try renders the others,
  // so that half of those that are in question go at a time.
  size_t fewest = 1, most = turns_.size() - 1;
  while (fewest < most) {
    const size_t middle = (fewest + most) / 2;
    if (std::ssize(Ids(middle)) <= longest) {
      most = middle;
    } else {
      fewest = middle + 1;
    }
  }
  turns_.erase(turns_.begin(), turns_.begin() + static_cast<ptrdiff_t>(most));
  question.ids = Ids(0);
  question.forgotten = static_cast<int64_t>(most);
  return question;
}

void ChatSession::Answered(std::span<const int32_t> ids) {
  FOLIO_CHECK(!turns_.empty() && !turns_.back().answer, "there is no message to answer");
  turns_.back().answer.emplace(ids.begin(), ids.end());
}

void ChatSession::Said(const std::string& message, const std::string& answer) {
  Begin(message);
  Answered(tokenizer_.EncodeOrdinary(answer, "message"));
}

void ChatSession::TakeBackAnswer() {
  FOLIO_CHECK(!turns_.empty() && turns_.back().answer, "there is no answer");
  turns_.back().answer.reset();
}

void ChatSession::Begin(const std::string& message) {
  Turn turn{.message = message, .answer = {}, .asked = {}};
  if (encoder_.format() != nullptr) {
    const Conversation asked{.messages = {{ChatRole::kUser, message}}};
    encoder_.Encode(tokenizer_, asked, /*ask=*/true, "message", turn.asked);
  }
  turns_.push_back(std::move(turn));
}

std::vector<int32_t> ChatSession::Ids(size_t first) const {
  std::vector<int32_t> ids = system_ids_;
  Conversation conversation;
  std::vector<ChatMessage>& messages = conversation.messages;
  if (!system_.empty()) messages.push_back({ChatRole::kSystem, system_});
  for (size_t i = first; i < turns_.size(); ++i) {
    const Turn& turn = turns_[i];
    ids.insert(ids.end(), turn.asked.begin(), turn.asked.end());
    messages.push_back({ChatRole::kUser, turn.message});
    if (!turn.answer) continue;
    ids.insert(ids.end(), turn.answer->begin(), turn.answer->end());
    if (encoder_.format() != nullptr) {
      ids.push_back(encoder_.format()->end);
    } else {
      messages.push_back({ChatRole::kAssistant, tokenizer_.DecodeText(*turn.answer)});
    }
  }
  if (encoder_.format() != nullptr) return ids;
  ids.clear();
  encoder_.Encode(tokenizer_, conversation, /*ask=*/true, "message", ids);
  return ids;
}

}  // namespace folio
