#include "folio/serve/scheduler.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "folio/base/log.h"
#include "folio/serve/api_error.h"

namespace folio {

std::string ScheduledTexts::failure() const {
  return failed_ ? failure_ : "";
}

Scheduler::Scheduler(const OpenedModel& model, const Options& options)
    : model_(model), options_(options) {
  Renew();
  thread_ = std::thread([this] { Run(); });
}

Scheduler::~Scheduler() {
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  news_.notify_all();
  thread_.join();
}

void Scheduler::Renew() {
  batch_ = std::make_unique<TextBatch>(
      *model_.backend, *model_.weights,
      TextBatchOptions{.texts = options_.slots, .cache = options_.cache});
  cache_bytes_ = batch_->cache_bytes();
}

std::shared_ptr<ScheduledTexts> Scheduler::Submit(std::string client,
                                                  std::vector<TextRequest> texts) {
  auto scheduled = std::make_shared<ScheduledTexts>();
  const auto count = std::ssize(texts);
  scheduled->client_ = std::move(client);
  scheduled->left_ = count;
  {
    const std::lock_guard lock(mutex_);
    const int64_t room = options_.slots + options_.queue;
    if (count > room) {
      throw ApiError(
          400, fmt::format("{} texts at once are more than the {} that are taken", count, room));
    }
    if (running_ + waiting_ + count > room) {
      throw ApiError(429, fmt::format("busy: {} texts are written and {} wait; try again later",
                                      running_.load(), waiting_.load()));
    }
    // Not before: they hold what holds them, until they end.
    for (TextRequest& text : texts) {
      // What the batch tells the request, and us.
      text.on_end = [this, scheduled, tell = std::move(text.on_end)](FinishReason reason,
                                                                     const GenerateStats& stats) {
        End(*scheduled, [&] {
          if (tell) tell(reason, stats);
        });
      };
      text.on_token = [scheduled, tell = std::move(text.on_token)](const NewToken& token) {
        return !scheduled->cancelled_ && (!tell || tell(token));
      };
      scheduled->waiting_.push_back(std::move(text));
    }
    waiting_ += count;
    open_.push_back(scheduled);
    const auto client_of = std::ranges::find(clients_, scheduled->client_, &Client::name);
    if (client_of != clients_.end()) {
      client_of->requests.push_back(scheduled);
    } else {
      clients_.push_back({scheduled->client_, {scheduled}});
    }
  }
  news_.notify_all();
  return scheduled;
}

// A text of these has ended, on the scheduler's thread.
void Scheduler::End(ScheduledTexts& texts, const std::function<void()>& tell) {
  tell();
  --texts.left_;
}

// Fills the slots: a text of the client whose turn it is, of its request whose turn it is. The
// lock is held.
void Scheduler::Admit() {
  while (!clients_.empty() && batch_->running() + batch_->waiting() < options_.slots) {
    Client client = std::move(clients_.front());
    clients_.pop_front();
    const Texts texts = client.requests.front();
    client.requests.pop_front();
    if (!texts->waiting_.empty()) {
      TextRequest text = std::move(texts->waiting_.front());
      texts->waiting_.pop_front();
      --waiting_;
      ++running_;
      texts->begun_.push_back(batch_->Add(std::move(text)));
    }
    if (!texts->waiting_.empty()) client.requests.push_back(texts);
    if (!client.requests.empty()) clients_.push_back(std::move(client));
  }
}

// Ends what nobody wants. The lock is held, also by the callbacks, which are quick.
void Scheduler::DropCancelled() {
  for (const Texts& texts : open_) {
    if (!texts->cancelled_) continue;
    for (const TextBatch::Id id : std::exchange(texts->begun_, {})) batch_->Cancel(id);
    waiting_ -= std::ssize(texts->waiting_);
    for (TextRequest& text : std::exchange(texts->waiting_, {})) {
      text.on_end(FinishReason::kCancelled, {});
    }
  }
}

// The model failed: nobody's text can go on.
void Scheduler::FailAll(const std::string& why) {
  LogWarning(fmt::format("the model failed: {}", why));
  const std::lock_guard lock(mutex_);
  for (const Texts& texts : open_) {
    texts->failure_ = why;
    texts->failed_ = true;
    texts->cancelled_ = true;
  }
  DropCancelled();
  Renew();
}

void Scheduler::Run() {
  for (bool more = false;;) {
    {
      std::unique_lock lock(mutex_);
      news_.wait(lock, [&] { return more || stopped_ || !clients_.empty(); });
      if (stopped_) {
        for (const Texts& texts : open_) texts->cancelled_ = true;
      }
      DropCancelled();
      std::erase_if(open_, [](const Texts& texts) { return texts->left_ == 0; });
      Admit();
      if (stopped_) return;
    }
    try {
      more = batch_->Step();
    } catch (const std::exception& error) {
      FailAll(error.what());
      more = false;
    }
    const std::lock_guard lock(mutex_);
    std::erase_if(open_, [](const Texts& texts) { return texts->left_ == 0; });
    running_ = batch_->running() + batch_->waiting();
    used_cache_bytes_ = batch_->used_cache_bytes();
  }
}

}  // namespace folio
