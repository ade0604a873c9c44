#include "folio/serve/scheduler.h"

#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <iterator>
#include <tuple>

#include "folio/base/clock.h"
#include "folio/base/log.h"
#include "folio/serve/http.h"

namespace folio {

namespace {

// The time for which a text keeps its slot where there are more clients than slots: long for a
// model, which may have to read a text again, and short for clients that wait.
constexpr double kTurnSeconds = 0.25;
// The delay after which the scheduler sees that a client has read its text.
constexpr std::chrono::milliseconds kUntilRead(20);

}  // namespace

void ClientShares::Hold(const ClientName& client, int64_t count) {
  Holding& key = keys_[client.key];
  key.count += count;
  key.addresses[client.address] += count;
}

std::pair<int64_t, int64_t> ClientShares::Held(const ClientName& client) const {
  const auto key = keys_.find(client.key);
  if (key == keys_.end()) return {};
  const auto address = key->second.addresses.find(client.address);
  return {key->second.count, address == key->second.addresses.end() ? 0 : address->second};
}

bool ClientShares::IsWithin(const ClientName& client) const {
  const auto [of_key, of_address] = Held(client);
  return of_key <= share() || of_address <= ShareIn(keys_.at(client.key));
}

bool ClientShares::GivesWay(const ClientName& other, const ClientName& client) const {
  const auto [of_key, of_address] = Held(other);
  if (Held(client).first <= share()) return of_key > share();
  return other.key == client.key && of_address > ShareIn(keys_.at(client.key));
}

bool ClientShares::TakesTurns(const ClientName& other, const ClientName& client) const {
  const auto [of_key, of_address] = Held(client);
  if (of_key <= share()) return other.key != client.key && of_key == 1;
  return other.key == client.key && other.address != client.address && of_address == 1;
}

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

std::shared_ptr<SequenceGroup> Scheduler::Submit(ClientName client, std::vector<TextRequest> texts,
                                                 std::function<bool()> unread) {
  auto scheduled = std::make_shared<SequenceGroup>();
  const auto count = std::ssize(texts);
  scheduled->client_ = std::move(client);
  scheduled->unread_ = std::move(unread);
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

// Makes the texts wait for their turn. Where it throws some may be in `scheduled`, which their
// callbacks hold until they end. The lock is held.
void Scheduler::Enqueue(const Texts& scheduled, std::vector<TextRequest> texts) {
  for (TextRequest& request : texts) {
    Text& text = scheduled->waiting_.emplace_back();
    // The text keeps its address.
    request.on_end = [this, scheduled, &text, tell = std::move(request.on_end)](
                         FinishReason reason, const GenerateStats& stats) {
      End(*scheduled, text, tell, reason, stats);
    };
    request.on_token = [scheduled, &text,
                        tell = std::move(request.on_token)](const NewToken& token) {
      if (std::isinf(text.turn_ends)) {
        const double now = SteadySeconds();
        text.turn_ends = now + std::max(kTurnSeconds, now - text.joined);
      }
      return !scheduled->cancelled_ && (!tell || tell(token));
    };
    text.request = std::move(request);
  }
  open_.push_back(scheduled);
  AddTurn(scheduled);
}

// Gives the request the last turn, unless it has one.
void Scheduler::AddTurn(const Texts& texts) {
  Turn& of_key = InTurns(turns_, texts->client_.key);
  Turn& of_address = InTurns(of_key.inner, texts->client_.address);
  if (std::ranges::count(of_address.inner, texts, &Turn::texts) > 0) return;
  of_address.inner.push_back({.texts = texts});
}

// Ends a text, on the scheduler's thread; the lock is held if it had no slot.
void Scheduler::End(SequenceGroup& texts, Text& text, const OnEnd& tell, FinishReason reason,
                    const GenerateStats& stats) noexcept {
  text.ended = true;
  if (std::exchange(text.parked, false)) {
    --texts.parked_;
    --waiting_;
  } else if (text.joined > 0) {
    --running_;
  }
  --texts.left_;  // before the client is told, who may use the room for a new request
  try {
    if (tell) tell(reason, stats);
  } catch (const std::exception& error) {
    texts.Fail(503, error.what());
  }
}

// Adds the next text of a request to the batch. Where memory does not suffice the request ends, and
// others continue.
void Scheduler::Begin(SequenceGroup& texts) {
  Text& text = texts.waiting_.front();
  const OnEnd on_end = text.request.on_end;
  texts.begun_.splice(texts.begun_.end(), texts.waiting_, texts.waiting_.begin());
  --waiting_;
  ++running_;
  try {
    text.id = batch_->Add(std::exchange(text.request, {}));
  } catch (const std::exception& error) {
    texts.Fail(503, error.what());
    on_end(FinishReason::kCancelled, {});
  }
}

// Gives a slot to a waiting text of a request: the first that is parked, else the next.
void Scheduler::GiveSlot(SequenceGroup& texts) {
  const auto parked = std::ranges::find(texts.begun_, true, &Text::parked);
  Text& text = parked != texts.begun_.end() ? *parked : texts.waiting_.front();
  text.joined = SteadySeconds();
  text.turn_ends = std::numeric_limits<double>::infinity();
  if (!text.parked) return Begin(texts);
  batch_->Resume(text.id);
  text.parked = false;
  --texts.parked_;
  --waiting_;
  ++running_;
}

// Takes its slot from a text, which waits for its turn.
void Scheduler::Park(const Texts& texts, Text& text) {
  AddTurn(texts);
  batch_->Park(text.id);
  text.parked = true;
  ++texts->parked_;
  ++waiting_;
  --running_;
}

// Returns true where there is room for so many more texts of a client. Where all is taken and it
// would not hold more than an equal share of it, requests make room for it that hold more than
// theirs: one that waits before one that does not, of the key and address that hold most, one that
// has not begun before one that has, the newest first. The lock is held.
bool Scheduler::MakeRoom(const ClientName& client, int64_t count) {
  const int64_t room = options_.slots + options_.queue;
  if (running_ + waiting_ + count <= room) return true;

  ClientShares shares(room);
  // Texts that ended in this step, or will as nobody wants them, are still counted as running.
  int64_t missing = count - room;
  for (const Texts& texts : open_) {
    const int64_t left = texts->cancelled_ ? 0 : texts->left_.load();
    if (left > 0) shares.Hold(texts->client_, left);
    missing += left;
  }
  if (missing <= 0) return true;
  shares.Hold(client, count);
  if (!shares.IsWithin(client)) return false;

  std::vector<Texts> evicted;
  while (missing > 0) {
    Texts most;
    std::tuple<bool, std::pair<int64_t, int64_t>, bool> most_held;
    for (auto at = open_.rbegin(); at != open_.rend(); ++at) {
      const Texts& texts = *at;
      if (texts->cancelled_ || std::ranges::count(evicted, texts) > 0) continue;
      if (!shares.GivesWay(texts->client_, client)) continue;
      const std::tuple held(texts->waits(), shares.Held(texts->client_), texts->begun_.empty());
      if (most != nullptr && held <= most_held) continue;
      most = texts;
      most_held = held;
    }
    if (most == nullptr) return false;
    const int64_t left = most->left_;
    missing -= left;
    shares.Hold(most->client_, -left);
    evicted.push_back(most);
  }
  for (const Texts& texts : evicted) {
    texts->Fail(429, "busy: other clients wait, with fewer texts; try again later");
    waiting_ -= std::ssize(texts->waiting_);
    evicted_.splice(evicted_.end(), texts->waiting_);
  }
  return true;
}

// Returns the turn of this name; a new one is the last.
Scheduler::Turn& Scheduler::InTurns(std::list<Turn>& turns, const std::string& name) {
  const auto found = std::ranges::find(turns, name, &Turn::name);
  return found != turns.end() ? *found : turns.emplace_back(Turn{.name = name});
}

// Returns the first waiting request that `may` accepts, or null, and moves its turn and those of
// its address and key to the end.
template <class May>
Scheduler::Texts Scheduler::TakeTurn(std::list<Turn>& turns, const May& may) {
  for (auto turn = turns.begin(); turn != turns.end();) {
    Texts next;
    if (turn->texts == nullptr) {
      next = TakeTurn(turn->inner, may);
    } else if (turn->texts->waits() && may(turn->texts)) {
      next = turn->texts;
    }
    if (next != nullptr) {
      turns.splice(turns.end(), turns, turn);
      return next;
    }
    const bool over = turn->texts == nullptr ? turn->inner.empty() : !turn->texts->waits();
    turn = over ? turns.erase(turn) : std::next(turn);
  }
  return nullptr;
}

// Removes turns for which nothing waits.
void Scheduler::Prune(std::list<Turn>& turns) {
  std::erase_if(turns, [](Turn& turn) {
    Prune(turn.inner);
    return turn.texts == nullptr ? turn.inner.empty() : !turn.texts->waits();
  });
}

// Fills the slots with the texts whose turn it is. The lock is held.
void Scheduler::Admit() {
  PauseUnread();
  do {
    while (batch_->running() + batch_->waiting() < options_.slots) {
      const Texts texts = TakeTurn(turns_, [](const Texts& one) { return !one->paused_; });
      if (texts == nullptr) return;
      GiveSlot(*texts);
    }
  } while (ShareSlots());
}

// Parks texts whose clients do not read them. The lock is held.
void Scheduler::PauseUnread() {
  paused_ = 0;
  for (const Texts& texts : open_) {
    texts->paused_ = texts->unread_ && !texts->cancelled_ && texts->unread_();
    if (!texts->paused_) continue;
    for (Text& text : texts->begun_) {
      if (!text.parked && !text.ended) Park(texts, text);
    }
    paused_ += std::ssize(texts->waiting_) + texts->parked_;
  }
}

// Gives a waiting text the slot of a text whose client has more than its share of the slots, or
// that has had it for a turn. Returns false where there is none. The lock is held.
bool Scheduler::ShareSlots() {
  const auto asks = [](const Texts& texts) { return !texts->paused_ && !texts->cancelled_; };
  const auto same = [&](const Texts& texts) {
    const ClientName &one = texts->client_, &first = open_.front()->client_;
    return one.key == first.key && one.address == first.address;
  };
  if (waiting_ == paused_ || std::ranges::all_of(open_, same)) return false;
  ClientShares shares(options_.slots);
  for (const Texts& texts : open_) {
    if (!asks(texts)) continue;
    shares.Hold(texts->client_, texts->left_ - std::ssize(texts->waiting_) - texts->parked_);
  }
  Slot slot;
  const Texts next = TakeTurn(turns_, [&](const Texts& texts) {
    if (!asks(texts)) return false;
    shares.Hold(texts->client_, 1);
    slot = shares.IsWithin(texts->client_) ? SlotFor(shares, texts->client_) : Slot{};
    shares.Hold(texts->client_, -1);
    return slot.text != nullptr;
  });
  if (next == nullptr) return false;
  Park(slot.texts, *slot.text);
  GiveSlot(*next);
  return true;
}

// Returns the slot that the client is to get: of the key and address that hold most, that of the
// text that has been there for longest. REQUIRES: the client does not exceed its share with it.
Scheduler::Slot Scheduler::SlotFor(const ClientShares& shares, const ClientName& client) const {
  Slot slot;
  std::tuple<bool, std::pair<int64_t, int64_t>, double> most;
  const double now = SteadySeconds();
  for (const Texts& texts : open_) {
    if (texts->cancelled_) continue;
    const bool gives_way = shares.GivesWay(texts->client_, client);
    if (!gives_way && !shares.TakesTurns(texts->client_, client)) continue;
    for (Text& text : texts->begun_) {
      if (text.parked || text.ended || (!gives_way && now < text.turn_ends)) continue;
      const std::tuple held(gives_way, shares.Held(texts->client_), -text.turn_ends);
      if (slot.text != nullptr && held <= most) continue;
      slot = {texts, &text};
      most = held;
    }
  }
  return slot;
}

// Ends cancelled texts and those that made room. The lock is held while the callbacks run, which
// are quick.
void Scheduler::DropCancelled() noexcept {
  std::list<Text> ended = std::exchange(evicted_, {});
  for (const Texts& texts : open_) {
    if (!texts->cancelled_) continue;
    for (const Text& text : texts->begun_) {
      if (!text.ended) batch_->Cancel(text.id);
    }
    waiting_ -= std::ssize(texts->waiting_);
    ended.splice(ended.end(), texts->waiting_);
  }
  if (ended.empty()) return;
  Prune(turns_);
  for (Text& text : ended) text.request.on_end(FinishReason::kCancelled, {});
}

// Forgets texts that have ended, and requests whose texts have all ended. The lock is held.
void Scheduler::RemoveEnded() {
  for (const Texts& texts : open_) std::erase_if(texts->begun_, std::mem_fn(&Text::ended));
  std::erase_if(open_, [](const Texts& texts) { return texts->left_ == 0; });
}

// Ends all texts, after a failure of the model or for want of memory.
void Scheduler::FailAll(int status, const char* why) noexcept {
  try {
    LogWarning(fmt::format("the model failed: {}", why));
  } catch (const std::exception&) {  // the clients are told all the same
  }
  const std::lock_guard lock(mutex_);
  for (const Texts& texts : open_) texts->Fail(status, why);
  DropCancelled();
  open_.clear();
  turns_.clear();
  batch_.reset();
  try {
    MakeBatch();
  } catch (const std::exception&) {  // the next text makes it
  }
}

void Scheduler::Run() {
  for (bool more = false;;) {
    try {
      {
        std::unique_lock lock(mutex_);
        const auto ready = [&] { return more || stopped_ || waiting_ > paused_; };
        if (paused_ > 0) {
          news_.wait_for(lock, kUntilRead, ready);
        } else {
          news_.wait(lock, ready);
        }
        if (stopped_) {
          for (const Texts& texts : open_) texts->cancelled_ = true;
        }
        DropCancelled();
        RemoveEnded();
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
    RemoveEnded();
    used_cache_bytes_ = batch_ == nullptr ? 0 : batch_->used_cache_bytes();
    running_ = batch_ == nullptr ? 0 : batch_->running() + batch_->waiting();
  }
}

}  // namespace folio
