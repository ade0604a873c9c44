#include "folio/infer/chat_session.h"

#include <algorithm>
#include <utility>

#include "folio/base/check.h"

namespace folio {

ChatSession::ChatSession(const Tokenizer& tokenizer, const ChatFormat& format, int64_t P)
    : tokenizer_(tokenizer), format_(format), P_(P) {}

ChatSession::Question ChatSession::Ask(const std::string& message, int64_t max_tokens) {
  const int64_t longest = P_ - std::min(max_tokens, P_ / 4);
  const ChatMessage asked{ChatRole::kUser, message};
  std::vector<int32_t> turn;
  EncodeChat(tokenizer_, format_, {&asked, 1}, /*ask=*/true, "message", turn);
  asked_ = turn.size();
  turns_.push_back(std::move(turn));
  int64_t total = 0;
  for (const auto& one : turns_) total += std::ssize(one);
  Question question;
  while (total > longest && turns_.size() > 1) {
    total -= std::ssize(turns_.front());
    turns_.pop_front();
    ++question.forgotten;
  }
  for (const auto& one : turns_) question.ids.insert(question.ids.end(), one.begin(), one.end());
  return question;
}

void ChatSession::Answered(std::span<const int32_t> ids) {
  FOLIO_CHECK(!turns_.empty() && turns_.back().size() == asked_, "nothing was asked");
  turns_.back().insert(turns_.back().end(), ids.begin(), ids.end());
  turns_.back().push_back(format_.end);
}

void ChatSession::TakeBackAnswer() {
  FOLIO_CHECK(!turns_.empty() && turns_.back().size() > asked_, "nothing was answered");
  turns_.back().resize(asked_);
}

}  // namespace folio
