#include "folio/commands/chat/dialogue.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <utility>

#include "folio/base/check.h"
#include "folio/base/error.h"
#include "folio/text/special_tokens.h"

namespace folio {
namespace {

// Returns the tokens of a line break, none where the tokenizer has none.
std::vector<int32_t> LineBreak(const Tokenizer& tokenizer) {
  std::vector<int32_t> ids;
  tokenizer.EncodePrefix("\n", ids);
  return ids;
}

bool IsSpace(char byte) {
  return std::isspace(static_cast<unsigned char>(byte)) != 0;
}

}  // namespace

Dialogue::Dialogue(const OpenedModel& model, std::optional<Dtype> cache)
    : model_(model),
      tokenizer_(model.RequireTokenizer(", or name it with --tokenizer NAME|DIR")),
      batch_(*model.backend, *model.weights, {.texts = 1, .cache = cache}),
      format_(FindChatFormat(tokenizer_)) {
  Begin();
}

void Dialogue::Begin() {
  if (format_) session_.emplace(tokenizer_, *format_, context());
  text_.clear();
  turn_ = 0;
  replied_ = false;
}

Dialogue::Reply Dialogue::Say(const std::string& message, const GenerateOptions& options,
                              const OnText& on_text) {
  CheckOptions(options);
  const int64_t forgotten =
      answers() ? Ask(message, options.max_tokens) : Lengthen(message, options.max_tokens);
  Reply reply = Write(options, on_text);
  ++turn_;
  replied_ = true;
  reply.forgotten = forgotten;
  return reply;
}

Dialogue::Reply Dialogue::Again(const GenerateOptions& options, const OnText& on_text) {
  FOLIO_CHECK(replied_, "there is nothing to say again");
  CheckOptions(options);
  if (answers()) session_->TakeBackAnswer();
  --turn_;
  Reply reply = Write(options, on_text);
  ++turn_;
  return reply;
}

void Dialogue::CheckOptions(const GenerateOptions& options) const {
  const std::vector<int32_t> any = {0};
  CheckGeneration(any, options, context(), model_.weights->config().vocab_size);
}

int64_t Dialogue::Ask(const std::string& message, int64_t max_tokens) {
  const ChatMessage asked{ChatRole::kUser, message};
  std::vector<int32_t> alone;
  EncodeChat(tokenizer_, *format_, {&asked, 1}, /*ask=*/true, "the message", alone);
  if (std::ssize(alone) > context()) {
    throw InputError("the message is longer than the model's context",
                     fmt::format("{} tokens of at most {}", alone.size(), context()),
                     "say it in fewer words");
  }
  ChatSession::Question question = session_->Ask(message, max_tokens);
  prompt_ = std::move(question.ids);
  return question.forgotten;
}

int64_t Dialogue::Lengthen(const std::string& message, int64_t max_tokens) {
  std::vector<int32_t> more;
  if (text_.empty()) {
    more = PromptTokens(tokenizer_, message, "the text");
  } else if (!message.empty()) {
    if (!IsSpace(message.front())) more = LineBreak(tokenizer_);
    const std::vector<int32_t> typed = tokenizer_.Encode(message, "the text", SpecialRule::Allow());
    more.insert(more.end(), typed.begin(), typed.end());
  }
  prompt_ = text_;
  prompt_.insert(prompt_.end(), more.begin(), more.end());
  const int64_t longest = std::max<int64_t>(context() - std::min(max_tokens, context() / 4), 1);
  if (std::ssize(prompt_) <= longest) return 0;
  // Half of the context goes at a time, so that the rest is not read again for every message.
  const int64_t kept = std::min(std::max(context() / 2, std::ssize(more)), longest);
  const int64_t forgotten = std::ssize(prompt_) - kept;
  prompt_.erase(prompt_.begin(), prompt_.begin() + forgotten);
  return forgotten;
}

Dialogue::Reply Dialogue::Write(const GenerateOptions& options, const OnText& on_text) {
  GenerateOptions with = options;
  with.likeliest = 0;
  Reply reply;
  bool wanted = true;
  TextStreamer writer(tokenizer_, with, [&](std::string_view more) {
    wanted = wanted && on_text(more);
    return wanted;
  });
  const DecodeBatch::Id id =
      batch_.Add({.prompt = prompt_,
                  .options = ForTokens(model_, with),
                  .rng_stream = turn_,
                  .on_token = [&](const NewToken& token) { return writer.Take(token); },
                  .on_end =
                      [&](FinishReason reason, const GenerateStats& stats) {
                        reply.written = writer.Finish(reason);
                        reply.stats = stats;
                      }});
  while (batch_.Step()) {
    if (wanted && !on_text("")) batch_.Cancel(id);
  }
  if (answers()) {
    session_->Answered(reply.written.ids);
  } else if (reply.written.reason == FinishReason::kStop) {
    text_.clear();
  } else {
    text_ = prompt_;
    text_.insert(text_.end(), reply.written.ids.begin(), reply.written.ids.end());
    // More than a context is never read again.
    const int64_t beyond = std::max<int64_t>(std::ssize(text_) - context(), 0);
    text_.erase(text_.begin(), text_.begin() + beyond);
  }
  return reply;
}

}  // namespace folio
