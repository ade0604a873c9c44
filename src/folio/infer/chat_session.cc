#include "folio/infer/chat_session.h"

#include <algorithm>
#include <utility>

#include "folio/base/check.h"

namespace folio {

ChatSession::ChatSession(const Tokenizer& tokenizer, ChatEncoder encoder, int64_t P)
    : tokenizer_(tokenizer), encoder_(std::move(encoder)), P_(P) {}

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
  FOLIO_CHECK(!turns_.empty() && !turns_.back().answer, "nothing was asked");
  turns_.back().answer.emplace(ids.begin(), ids.end());
}

void ChatSession::Said(const std::string& message, const std::string& answer) {
  Begin(message);
  Answered(tokenizer_.EncodeOrdinary(answer, "message"));
}

void ChatSession::TakeBackAnswer() {
  FOLIO_CHECK(!turns_.empty() && turns_.back().answer, "nothing was answered");
  turns_.back().answer.reset();
}

void ChatSession::Begin(const std::string& message) {
  Turn turn{.message = message, .answer = {}, .asked = {}};
  if (encoder_.format() != nullptr) {
    const ChatMessage asked{ChatRole::kUser, message};
    encoder_.Encode(tokenizer_, {&asked, 1}, /*ask=*/true, "message", turn.asked);
  }
  turns_.push_back(std::move(turn));
}

std::vector<int32_t> ChatSession::Ids(size_t first) const {
  std::vector<int32_t> ids;
  std::vector<ChatMessage> messages;
  if (!system_.empty()) messages.push_back({ChatRole::kSystem, system_});
  if (encoder_.format() != nullptr) {
    encoder_.Encode(tokenizer_, messages, /*ask=*/false, "system message", ids);
  }
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
  encoder_.Encode(tokenizer_, messages, /*ask=*/true, "message", ids);
  return ids;
}

}  // namespace folio
