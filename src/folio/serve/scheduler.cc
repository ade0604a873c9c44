#include "folio/serve/scheduler.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "folio/base/log.h"
#include "folio/serve/http.h"

namespace folio {

void SequenceGroup::Fail(int status, const char* why) noexcept {
  if (failed_ != 0) return;
  try {
    failure_ = status == 500 ? fmt::format("the model failed: {}", why) : why;
    failed_ = status;
  } catch (const std::exception&) {
    failed_ = 503;
  }
  cancelled_ = true;
}

void SequenceGroup::ThrowIfFailed() const {
  if (failed_ == 503) throw ApiError(503, "not enough memory for this request now");
  if (failed_ != 0) throw ApiError(failed_, failure_);
}

Scheduler::Scheduler(const OpenedModel& model, const Options& options)
    : model_(model), options_(options) {
  MakeBatch();
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

void Scheduler::MakeBatch() {
  batch_ = std::make_unique<DecodeBatch>(
      *model_.backend, *model_.weights,
      DecodeBatchOptions{.texts = options_.slots, .cache = options_.cache});
  cache_bytes_ = batch_->cache_bytes();
}

std::shared_ptr<SequenceGroup> Scheduler::Submit(ClientName client,
                                                 std::vector<TextRequest> texts) {
  auto scheduled = std::make_shared<SequenceGroup>();
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
    if (!MakeRoom(scheduled->client_, count)) {
      throw ApiError(429, fmt::format("busy: {} texts are written and {} wait; try again later",
                                      running_.load(), waiting_.load()));
    }
    try {
      Enqueue(scheduled, std::move(texts));
    } catch (...) {
      std::erase(open_, scheduled);
      scheduled->waiting_.clear();
      throw;
    }
    waiting_ += count;
  }
  news_.notify_all();
  return scheduled;
}

// They wait for their turn from now on. Where it throws they may be in `scheduled`, which they hold
// themselves until they end. The lock is held.
void Scheduler::Enqueue(const Texts& scheduled, std::vector<TextRequest> texts) {
  for (TextRequest& text : texts) {
    // The batch calls these, which tell the request and us.
    text.on_end = [scheduled, tell = std::move(text.on_end)](FinishReason reason,
                                                             const GenerateStats& stats) {
      End(*scheduled, tell, reason, stats);
    };
    text.on_token = [scheduled, tell = std::move(text.on_token)](const NewToken& token) {
      return !scheduled->cancelled_ && (!tell || tell(token));
    };
    scheduled->waiting_.push_back(std::move(text));
  }
  open_.push_back(scheduled);
  Turn& of_key = InTurns(turns_, scheduled->client_.key);
  InTurns(of_key.inner, scheduled->client_.address).inner.push_back({.texts = scheduled});
}

// A text of these has ended, on the scheduler's thread.
void Scheduler::End(SequenceGroup& texts, const OnEnd& tell, FinishReason reason,
                    const GenerateStats& stats) noexcept {
  try {
    if (tell) tell(reason, stats);
  } catch (const std::exception& error) {
    texts.Fail(503, error.what());
  }
  --texts.left_;
}

// The next text of these joins the batch; where memory does not suffice they end, and others go on.
void Scheduler::Begin(SequenceGroup& texts) {
  TextRequest& text = texts.waiting_.front();
  const OnEnd on_end = text.on_end;
  texts.begun_.reserve(texts.begun_.size() + 1);
  --waiting_;
  ++running_;
  try {
    texts.begun_.push_back(batch_->Add(std::move(text)));
  } catch (const std::exception& error) {
    texts.Fail(503, error.what());
    on_end(FinishReason::kCancelled, {});
  }
  texts.waiting_.pop_front();
}

// Returns true where there is room for so many more texts of a client. Where all is taken and it
// would not hold more than an equal share of it, requests make room for it that hold more than
// theirs: of the key and address that hold most, one that has not begun before one that has, the
// newest first. A key's share is that of its addresses together. The lock is held.
bool Scheduler::MakeRoom(const ClientName& client, int64_t count) {
  const int64_t room = options_.slots + options_.queue;
  if (running_ + waiting_ + count <= room) return true;

  struct Holding {
    int64_t texts = 0;
    std::map<std::string, int64_t> addresses = {};
  };
  std::map<std::string, Holding> holdings;  // by key
  const auto hold = [&](const ClientName& who, int64_t texts) {
    holdings[who.key].texts += texts;
    holdings[who.key].addresses[who.address] += texts;
  };
  // Texts that ended in this step, or will as nobody wants them, are still counted as running.
  int64_t missing = count - room;
  for (const Texts& texts : open_) {
    const int64_t left = texts->cancelled_ ? 0 : texts->left_.load();
    if (left > 0) hold(texts->client_, left);
    missing += left;
  }
  if (missing <= 0) return true;
  hold(client, count);
  const Holding& own = holdings[client.key];
  const int64_t keys = std::ssize(holdings), addresses = std::ssize(own.addresses);
  const int64_t share = std::max<int64_t>(room / keys, 1);
  const int64_t share_in_key = std::max<int64_t>(share / addresses, 1);
  // Its key has all that it may have: then it is between the addresses of that.
  const bool in_key = own.texts > share;
  if (in_key && own.addresses.at(client.address) > share_in_key) return false;

  std::vector<Texts> evicted;
  while (missing > 0) {
    Texts most;
    std::tuple<int64_t, int64_t, bool> most_held;
    for (auto at = open_.rbegin(); at != open_.rend(); ++at) {
      const Texts& texts = *at;
      if (texts->waiting_.empty() || texts->cancelled_ || std::ranges::count(evicted, texts) > 0) {
        continue;
      }
      const Holding& of = holdings[texts->client_.key];
      const int64_t of_address = of.addresses.at(texts->client_.address);
      if (in_key ? &of != &own || of_address <= share_in_key : of.texts <= share) continue;
      const std::tuple held(of.texts, of_address, texts->begun_.empty());
      if (most != nullptr && held <= most_held) continue;
      most = texts;
      most_held = held;
    }
    if (most == nullptr) return false;
    const int64_t left = most->left_;
    missing -= left;
    hold(most->client_, -left);
    evicted.push_back(most);
  }
  for (const Texts& texts : evicted) {
    texts->Fail(429, "busy: other clients wait, with fewer texts; try again later");
    waiting_ -= std::ssize(texts->waiting_);
    evicted_.splice(evicted_.end(), texts->waiting_);
  }
  return true;
}

// The turn of this name, the last one if it is new.
Scheduler::Turn& Scheduler::InTurns(std::list<Turn>& turns, const std::string& name) {
  const auto found = std::ranges::find(turns, name, &Turn::name);
  return found != turns.end() ? *found : turns.emplace_back(Turn{.name = name});
}

// The request whose turn it is, which has texts that wait; null if there is none. It, its address
// and its key are last from now on.
Scheduler::Texts Scheduler::TakeTurn(std::list<Turn>& turns) {
  while (!turns.empty()) {
    Turn& turn = turns.front();
    Texts next = turn.texts == nullptr          ? TakeTurn(turn.inner)
                 : turn.texts->waiting_.empty() ? nullptr
                                                : turn.texts;
    if (next != nullptr) {
      turns.splice(turns.end(), turns, turns.begin());
      return next;
    }
    turns.pop_front();
  }
  return nullptr;
}

// Removes those of whom nothing waits.
void Scheduler::Prune(std::list<Turn>& turns) {
  std::erase_if(turns, [](Turn& turn) {
    Prune(turn.inner);
    return turn.texts == nullptr ? turn.inner.empty() : turn.texts->waiting_.empty();
  });
}

// Fills the slots with the texts whose turn it is. The lock is held.
void Scheduler::Admit() {
  while (batch_->running() + batch_->waiting() < options_.slots) {
    const Texts texts = TakeTurn(turns_);
    if (texts == nullptr) return;
    Begin(*texts);
  }
}

// Ends what nobody wants, and what made room. The lock is held, also by the callbacks, which are
// quick.
void Scheduler::DropCancelled() noexcept {
  std::list<TextRequest> ended = std::exchange(evicted_, {});
  for (const Texts& texts : open_) {
    if (!texts->cancelled_) continue;
    for (const DecodeBatch::Id id : std::exchange(texts->begun_, {})) batch_->Cancel(id);
    waiting_ -= std::ssize(texts->waiting_);
    ended.splice(ended.end(), texts->waiting_);
  }
  if (ended.empty()) return;
  Prune(turns_);
  for (TextRequest& text : ended) text.on_end(FinishReason::kCancelled, {});
}

// The model failed, or memory did: nobody's text can go on.
void Scheduler::FailAll(int status, const char* why) noexcept {
  try {
    LogWarning(fmt::format("the model failed: {}", why));
  } catch (const std::exception&) {  // those who wait hear it all the same
  }
  const std::lock_guard lock(mutex_);
  for (const Texts& texts : open_) texts->Fail(status, why);
  DropCancelled();
  open_.clear();
  turns_.clear();
  batch_.reset();
  try {
    MakeBatch();
  } catch (const std::exception&) {  // before the next text, then
  }
}

void Scheduler::Run() {
  for (bool more = false;;) {
    try {
      {
        std::unique_lock lock(mutex_);
        news_.wait(lock, [&] { return more || stopped_ || waiting_ > 0; });
        if (stopped_) {
          for (const Texts& texts : open_) texts->cancelled_ = true;
        }
        DropCancelled();
        std::erase_if(open_, [](const Texts& texts) { return texts->left_ == 0; });
        if (stopped_) return;
        if (batch_ == nullptr) MakeBatch();
        Admit();
      }
      more = batch_->Step();
    } catch (const std::bad_alloc& error) {
      FailAll(503, error.what());
      more = false;
    } catch (const std::exception& error) {
      FailAll(500, error.what());
      more = false;
    }
    const std::lock_guard lock(mutex_);
    std::erase_if(open_, [](const Texts& texts) { return texts->left_ == 0; });
    running_ = batch_ == nullptr ? 0 : batch_->running() + batch_->waiting();
    used_cache_bytes_ = batch_ == nullptr ? 0 : batch_->used_cache_bytes();
  }
}

}  // namespace folio
